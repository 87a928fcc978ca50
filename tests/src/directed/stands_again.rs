//! A leader that gave up stands again while requests of its earlier leadership are under way: silent queue pairs, slow closes,
//! and links that break while the next leadership prepares its followers.
//!
//! What is at stake: no source byte is reused while a request reads it, and no completion of an older epoch counts.

use ringleader_core::verb::Plane;

use crate::fabric::PipeId;
use crate::run::Outcome;
use crate::story::{Story, Told, plan, tell};

/// See the module.
pub(super) fn run(seed: u64, keep_trace: usize) -> Outcome {
    tell(plan(seed, 6), keep_trace, |story| {
        story.group()?;
        story.rounds(4, round)
    })
}

fn round(story: &mut Story) -> Told<()> {
    let timing = story.cluster.plan.timing;
    let (beat, suspect) = (timing.beat_ns, timing.suspect_after_ns);
    let leader = story.leader()?;
    let settle = story.moment(timing.grant_grace_ns);
    story.pass(settle)?;
    let weather = &mut story.cluster.fabric.weather;
    weather.state_ns = (beat / 100, beat / 10);
    weather.state_tail_ppm = 250_000;
    weather.state_tail_ns = 8 * suspect;
    weather.fence_ns = (beat / 50, beat);
    let silent = story.any_but(leader);
    story.cluster.fabric.mute(PipeId { from: leader, to: silent, plane: Plane::Log }, 10 * suspect);
    story.propose(leader, 3, 60_000);
    let sent = story.moment(beat);
    story.pass(sent)?;
    story.pause(leader, u64::MAX);
    story.candidate()?;
    let within = story.moment(2 * beat);
    story.pass(within)?;
    story.cluster.resume(leader);
    if story.rng.chance(300_000) {
        story.cluster.fabric.break_pipe(PipeId { from: leader, to: silent, plane: Plane::Control });
    }
    for _ in 0..24 {
        let step = story.moment(beat / 3);
        story.pass(step)?;
        if story.rng.chance(100_000) {
            let other = story.any_but(leader);
            story.cluster.fabric.break_pipe(PipeId { from: leader, to: other, plane: Plane::Control });
        }
        if story.rng.chance(100_000) {
            story.propose(leader, 2, 6_000);
        }
    }
    let after = story.moment(2 * suspect);
    story.pass(after)
}
