//! Fence against beat against vote: a leader that was stopped for just long enough goes on while votes are being asked for,
//! so that its beats land before, during and after the fences that these votes begin.
//!
//! What is at stake: the second look at the beat, after the fence, is all that keeps a leader's lease apart from the vote.

use crate::run::Outcome;
use crate::story::{Story, Told, plan, tell};

/// See the module.
pub(super) fn run(seed: u64, keep_trace: usize) -> Outcome {
    tell(plan(seed, 1), keep_trace, |story| {
        story.group()?;
        story.rounds(5, round)
    })
}

fn round(story: &mut Story) -> Told<()> {
    let timing = story.cluster.plan.timing;
    let leader = story.leader()?;
    let settle = story.moment(2 * timing.grant_grace_ns);
    story.pass(settle)?;
    // Fences of up to this long, so that whatever the leader does next falls into them.
    let fence_ns = timing.beat_ns / 2 + story.moment(6 * timing.beat_ns);
    story.cluster.fabric.weather.fence_ns = (fence_ns / 2, fence_ns);
    if story.rng.chance(400_000) {
        // Its last beats have passed the check of permission, and land while they are being fenced.
        let slow = timing.suspect_after_ns + story.moment(timing.suspect_after_ns);
        story.cluster.fabric.slow_landings(leader, slow);
        let beats = story.moment(3 * timing.beat_ns);
        story.pass(beats)?;
    }
    story.propose(leader, 2, 2_000);
    story.pause(leader, u64::MAX);
    match story.rng.below(3) {
        // Just when a follower would lose its patience.
        0 => {
            let early = timing.suspect_after_ns * 4 / 5;
            let within = story.moment(timing.suspect_after_ns);
            story.pass(early + within)?;
        }
        // While the candidate asks.
        1 => {
            story.candidate()?;
            let within = story.moment(2 * fence_ns);
            story.pass(within)?;
        }
        // At the very election.
        _ => {
            story.candidate()?;
            let within = story.moment(fence_ns);
            story.cluster.run_until(within, |cluster| cluster.leader().is_some())?;
        }
    }
    story.cluster.resume(leader);
    let after = story.moment(timing.suspect_after_ns);
    story.pass(after)
}
