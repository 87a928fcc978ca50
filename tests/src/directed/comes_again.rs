//! A member is removed, ends, starts anew without its memory, and is added again under the same id: by a leader that has
//! known its former life, and meets the new one before it is a member.
//!
//! What is at stake: what is known of a life is not taken for known of the next. The new one is told that it belongs to the
//! group, gets the log, and becomes a voter.

use ringleader_core::membership::{Address, Change};

use crate::run::Outcome;
use crate::story::{plan, tell};

/// See the module.
pub(super) fn run(seed: u64, keep_trace: usize) -> Outcome {
    let mut plan = plan(seed, 25);
    plan.propose_ppm = plan.propose_ppm.min(20_000);
    tell(plan, keep_trace, |story| {
        let leader = story.group()?;
        for _ in 0..2 {
            let node = story.any_but(leader);
            story.wish(Change::Remove { node })?;
            let away = story.moment(2 * story.cluster.plan.timing.suspect_after_ns);
            story.pass(away)?;
            story.cluster.fabric.faults.crashes += 1;
            story.cluster.crash(node);
            let away = story.moment(4 * story.cluster.plan.timing.suspect_after_ns);
            story.pass(away)?;
            story.cluster.start(node);
            // Some leaders meet it before they hear that it is to come.
            let met = story.moment(4 * story.cluster.plan.timing.suspect_after_ns);
            story.pass(met)?;
            story.wish(Change::Add { node, address: Address::NONE })?;
            story.wish(Change::Promote { node })?;
        }
        let beats = 10 * story.cluster.plan.timing.beat_ns;
        story.pass(beats)
    })
}
