//! WRITEs complete when they have been let through, and land later: what the completion of a WRITE says is nothing, and READs
//! have to confirm (protocol.md 8, `confirm = "readback"`). Then the leader dies.
//!
//! What is at stake: a commit by completions is known to followers before its bytes are there, and lost with the leader.

use ringleader_core::timing::Timing;

use crate::run::Outcome;
use crate::schedule::Plan;
use crate::story::{Story, Told, tell};

/// See the module.
pub(super) fn run(seed: u64, keep_trace: usize) -> Outcome {
    let timing = Timing::HARDWARE;
    let mut plan = Plan::quiet(seed, 3, timing);
    plan.readback = true;
    plan.weather.early_ppm = 500_000;
    plan.weather.landing_ppm = 500_000;
    plan.weather.landing_ns = 3 * timing.beat_ns;
    tell(plan, keep_trace, round)
}

fn round(story: &mut Story) -> Told<()> {
    let beat = story.cluster.plan.timing.beat_ns;
    let leader = story.group()?;
    for _ in 0..8 {
        story.propose(leader, 3, 64);
        let within = story.moment(beat);
        story.pass(within)?;
    }
    story.crash(leader);
    story.pass(5 * beat)
}
