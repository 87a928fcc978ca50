//! A leader's change that only it and a newcomer have, and its successor's change that takes it out (Ongaro, raft-dev, July 2015).
//!
//! What is at stake: without an entry of its own term committed a leader does not know which configuration it follows on, and
//! two majorities that do not meet may commit (protocol.md 10).

use ringleader_core::membership::{Address, Change};
use ringleader_core::types::NodeId;

use crate::run::Outcome;
use crate::story::{Ended, plan, tell};

/// See the module.
pub(super) fn run(seed: u64, keep_trace: usize) -> Outcome {
    let mut plan = plan(seed, 11);
    plan.nodes = 4;
    plan.spares = 1;
    plan.propose_ppm = 0;
    plan.stored_quorum = false;
    tell(plan, keep_trace, |story| {
        let first = story.group()?;
        let newcomer = NodeId(5);
        story.wish(Change::Add { node: newcomer, address: Address::NONE })?;
        story.until(|cluster| {
            cluster.member(newcomer).belongs() && cluster.member(newcomer).seen.anchor.index.0 > 1
        })?;

        // The promotion gets to the newcomer alone.
        let rest: Vec<NodeId> = story.cluster.founders().filter(|id| *id != first).collect();
        for id in &rest {
            story.cut(first, *id, true);
            story.cut(newcomer, *id, true);
        }
        story.cluster.wishes.push_back((Change::Promote { node: newcomer }, 0));
        story.until(|cluster| {
            [first, newcomer].iter().all(|id| cluster.member(*id).configuration.is_voter(newcomer))
        })?;
        story.pause(first, u64::MAX);
        story.pause(newcomer, u64::MAX);
        story.cluster.wishes.clear();

        // The next leader takes the first one out, and one of the others gets nothing of that.
        story.cluster.wishes.push_back((Change::Remove { node: first }, 0));
        let next = story.leader_but(first)?;
        let from = story.cluster.member(next).seen.end;
        story.until(|cluster| cluster.member(next).seen.end > from)?;
        let others: Vec<NodeId> = rest.iter().copied().filter(|id| *id != next).collect();
        story.cut(next, others[1], true);
        story.cut(others[0], others[1], true);
        story.until(|cluster| cluster.watch.configurations.committed().member(first).is_none())?;
        story.pause(next, u64::MAX);
        story.pause(others[0], u64::MAX);

        // The first one, the newcomer, and the one that got nothing are a majority of five.
        story.cut(first, others[1], false);
        story.cut(newcomer, others[1], false);
        story.cluster.resume(first);
        story.cluster.resume(newcomer);
        let again = story.leader_but(next)?;
        if again != first {
            return Err(Ended::Untold);
        }
        story.propose(first, 2, 200);
        let beats = 10 * story.cluster.plan.timing.beat_ns;
        story.pass(beats)
    })
}
