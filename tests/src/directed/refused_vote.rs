//! A leader that was stopped wakes up to a vote for somebody whose log is older than its own: its acceptor fences it, and
//! then refuses. Nobody has deposed it, and its own grant is gone.
//!
//! What is at stake: its own copy counts only when its own acceptor lets it write again.

use ringleader_core::layout::{Line, RequestLine, request_kind, request_of};
use ringleader_core::types::NodeId;
use ringleader_core::verb::Plane;

use crate::cluster::Cluster;
use crate::fabric::PipeId;
use crate::run::Outcome;
use crate::story::{Ended, Told, plan, tell};

/// See the module.
pub(super) fn run(seed: u64, keep_trace: usize) -> Outcome {
    let mut plan = plan(seed, 9);
    plan.nodes = 3;
    plan.propose_ppm = 0;
    tell(plan, keep_trace, |story| {
        let timing = story.cluster.plan.timing;
        let (beat, suspect) = (timing.beat_ns, timing.suspect_after_ns);
        let leader = story.group()?;
        story.pass(4 * suspect)?;
        if !story.cluster.member(leader).seen.leads {
            return Err(Ended::Untold);
        }
        // Its next entry gets into its own log, to one follower not at all, and to the other one late.
        let others: Vec<NodeId> = story.cluster.ids().filter(|id| *id != leader).collect();
        let (older, late) = (others[0], others[1]);
        story.cluster.fabric.break_pipe(PipeId { from: leader, to: older, plane: Plane::Log });
        story.cluster.fabric.slow_landings(leader, 4 * suspect);
        if !story.cluster.propose(leader, 100) {
            return Err(Ended::Untold);
        }
        story.until(|cluster| {
            let seen = &cluster.member(leader).seen;
            seen.followers[leader.slot()].matched == seen.end
        })?;
        story.pause(leader, u64::MAX);
        if story.candidate()? != older {
            return Err(Ended::Untold);
        }
        story.cut(older, late, true);
        story.pause(late, 3 * suspect);
        // The request gets to the leader, and what the candidate promised itself does not.
        story.until(|cluster| asks(cluster, older, leader))?;
        story.cluster.fabric.cut(older, leader, true);
        story.cluster.resume(leader);
        for _ in 0..20 {
            story.propose(leader, 1, 200);
            story.pass(beat / 2)?;
        }
        if story.cluster.member(leader).seen.leads { Told::Ok(()) } else { Err(Ended::Untold) }
    })
}

fn asks(cluster: &Cluster, candidate: NodeId, acceptor: NodeId) -> bool {
    RequestLine::read(&cluster.member(acceptor).home.control, request_of(candidate))
        .is_some_and(|line| line.kind == request_kind::VOTE && line.term > cluster.promise(acceptor).term().0)
}
