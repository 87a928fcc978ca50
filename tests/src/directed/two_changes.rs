//! A leader that the other voters do not hear wants to promote two learners at once, who hear it.
//!
//! What is at stake: with one change uncommitted at a time it stays without a majority; with two the learners and itself would be
//! one of five, and the others one of three (protocol.md 10).

use ringleader_core::membership::{Address, Change};
use ringleader_core::types::NodeId;

use crate::run::Outcome;
use crate::story::{plan, tell};

/// See the module.
pub(super) fn run(seed: u64, keep_trace: usize) -> Outcome {
    let mut plan = plan(seed, 14);
    plan.nodes = 3;
    plan.spares = 2;
    plan.propose_ppm = 0;
    tell(plan, keep_trace, |story| {
        let first = story.group()?;
        let learners = [NodeId(4), NodeId(5)];
        for node in learners {
            story.wish(Change::Add { node, address: Address::NONE })?;
        }
        story.until(|cluster| {
            let end = cluster.watch.history.end().position;
            cluster.members.iter().all(|member| member.belongs() && member.seen.anchor.position == end)
        })?;
        let others: Vec<NodeId> = story.cluster.founders().filter(|id| *id != first).collect();
        for id in &others {
            story.cut(first, *id, true);
            for learner in learners {
                story.cut(learner, *id, true);
            }
        }
        for node in learners {
            story.cluster.wishes.push_back((Change::Promote { node }, 0));
        }
        story.until(|cluster| cluster.member(first).configuration.voters() > 3)?;
        story.propose(first, 2, 200);
        let next = story.leader_but(first)?;
        story.propose(next, 2, 200);
        let beats = 10 * story.cluster.plan.timing.beat_ns;
        story.pass(beats)?;
        story.cluster.wishes.clear();
        Ok(())
    })
}
