//! All but the leader stop, and their memory goes on answering: its WRITEs and beats complete, and nobody is there.
//!
//! What is at stake: only those that run count for a commit, and only they keep a leader in office.

use ringleader_core::types::NodeId;

use crate::run::Outcome;
use crate::story::{Told, plan, tell};

/// Longer than a leader may believe in those that stopped, in `suspect_after`s.
const ASLEEP: u64 = 60;

/// See the module.
pub(super) fn run(seed: u64, keep_trace: usize) -> Outcome {
    let mut plan = plan(seed, 5);
    plan.stored_quorum = false;
    plan.propose_ppm = 0;
    tell(plan, keep_trace, |story| {
        let leader = story.group()?;
        let timing = story.cluster.plan.timing;
        let settle = story.moment(2 * timing.suspect_after_ns);
        story.pass(settle)?;
        for id in story.cluster.ids().filter(|id| *id != leader).collect::<Vec<NodeId>>() {
            story.pause(id, ASLEEP * timing.suspect_after_ns);
        }
        let until_ns = story.cluster.now_ns() + ASLEEP * timing.suspect_after_ns;
        while story.cluster.now_ns() < until_ns && story.cluster.member(leader).seen.leads {
            story.propose(leader, 1, 200);
            let between = story.moment(timing.suspect_after_ns);
            story.pass(between)?;
        }
        Told::Ok(())
    })
}
