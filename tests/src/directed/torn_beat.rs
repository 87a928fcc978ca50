//! A follower is asked for its vote, and refuses for the lease of a leader that runs; it is stopped for longer than a lease, and
//! goes on in the middle of a beat. Of the beats before that one it has seen none.
//!
//! What is at stake: those bind it all the same. A line that is being written is a sign of them (protocol.md 6, step 2).

use ringleader_core::read::Read;
use ringleader_core::timing::Timing;

use super::handed_over::quick;
use crate::run::Outcome;
use crate::story::{Ended, Story, Told, tell};

/// See the module.
pub(super) fn run(seed: u64, keep_trace: usize) -> Outcome {
    let timing = Timing { campaign_timeout_ns: 40 * Timing::HARDWARE.suspect_after_ns, ..Timing::HARDWARE };
    let mut plan = quick(seed, timing);
    plan.nodes = 3;
    let beat = timing.beat_ns;
    let weather = &mut plan.weather;
    // Beats come in pieces, and a fence cuts off what is late.
    (weather.split_ppm, weather.word_split_ppm) = (1_000_000, 1_000_000);
    (weather.tail_ppm, weather.tail_ns) = (500_000, beat);
    weather.fence_ns = (beat / 100, beat / 20);
    tell(plan, keep_trace, |story| {
        story.group()?;
        story.rounds(6, round)
    })
}

fn round(story: &mut Story) -> Told<()> {
    let timing = story.cluster.plan.timing;
    let leader = story.leader()?;
    let settle = 2 * timing.grant_grace_ns + story.moment(timing.suspect_after_ns);
    story.pass(settle)?;
    story.pause(leader, u64::MAX);
    let candidate = story.candidate()?;
    let follower = story.cluster.ids().find(|id| *id != leader && *id != candidate).ok_or(Ended::Untold)?;
    // The leader goes on before the follower votes, and does not hear of the candidate.
    story.cut(leader, candidate, true);
    story.cluster.resume(leader);
    let beats = story.moment(4 * timing.beat_ns);
    story.pass(beats)?;
    story.pause(follower, u64::MAX);
    let away = timing.lease_ns + story.moment(timing.lease_ns);
    story.pass(away)?;
    story.cluster.resume(follower);
    for _ in 0..20 {
        story.cluster.ask_read(leader, Read::Lease);
        let step = story.moment(timing.beat_ns);
        story.pass(step)?;
    }
    story.mend();
    let after = story.moment(4 * timing.suspect_after_ns);
    story.pass(after)
}
