//! Queue pairs take long to be armed: a leader's way to a follower breaks, or a leader dies while the others' ways to each
//! other are still coming up.
//!
//! What is at stake: votes count, and broken followers are asked, without waiting for that (protocol.md 6, step 7; 8).

use ringleader_core::types::NodeId;
use ringleader_core::verb::{Class, Plane};

use crate::fabric::{GateState, PipeId};
use crate::invariants::Violation;
use crate::run::Outcome;
use crate::story::{Ended, Story, Told, plan, tell};

/// How long an end takes to be armed, in `suspect_after`s; and within how many all that need not wait for it has happened, several
/// votes that are split among them.
const ARMING: u64 = 40;
const WITHIN: u64 = 24;

/// See the module.
pub(super) fn run(seed: u64, keep_trace: usize) -> Outcome {
    let mut plan = plan(seed, 6);
    plan.nodes = 3;
    tell(plan, keep_trace, |story| {
        let leader = story.group()?;
        let suspect = story.cluster.plan.timing.suspect_after_ns;
        let settle = story.moment(2 * suspect);
        story.pass(settle)?;
        story.cluster.fabric.weather.slow_step = Some((Class::Arm, ARMING * suspect));
        let result = if seed.is_multiple_of(2) { broken(story, leader) } else { vote(story, leader) };
        // What is being armed is armed before the group must be well.
        story.cluster.fabric.weather.slow_step = None;
        story.pass(ARMING * suspect)?;
        result
    })
}

/// A leader's WRITE fails: the follower is asked for access as soon as its promise was read.
fn broken(story: &mut Story, leader: NodeId) -> Told<()> {
    let suspect = story.cluster.plan.timing.suspect_after_ns;
    let follower = story.any_but(leader);
    story.cluster.fabric.break_pipe(PipeId { from: leader, to: follower, plane: Plane::Log });
    let state = |story: &Story| {
        let seen = &story.cluster.member(leader).seen;
        (seen.leads, seen.followers[follower.slot()].is_broken)
    };
    story.until(|cluster| cluster.member(leader).seen.followers[follower.slot()].is_broken)?;
    story.pass(WITHIN * suspect)?;
    if state(story) == (true, true) {
        return Err(Ended::Violation(Violation::new(
            14,
            format!(
                "leader {leader} has not asked node {follower} for access {WITHIN} suspect_after after it broke"
            ),
        )));
    }
    Ok(())
}

/// A leader dies: one of two others is elected by a vote that the queue pair between them does not carry.
fn vote(story: &mut Story, leader: NodeId) -> Told<()> {
    let suspect = story.cluster.plan.timing.suspect_after_ns;
    let others: Vec<NodeId> = story.cluster.ids().filter(|id| *id != leader).collect();
    let (one, other) = (others[0], others[1]);
    for (from, to) in [(one, other), (other, one)] {
        story.cluster.fabric.break_pipe(PipeId { from, to, plane: Plane::Control });
    }
    story.until(|cluster| {
        let closed = |acceptor, peer| cluster.fabric.gate_of(acceptor, peer).0 == GateState::Closed;
        closed(one, other) && closed(other, one)
    })?;
    // They find each other again meanwhile.
    story.pass(WITHIN * suspect / 2)?;
    let led = story.cluster.watch.leaders.count();
    if !story.cluster.member(leader).seen.leads || !story.crash(leader) {
        return Err(Ended::Untold);
    }
    if !story.cluster.run_until(WITHIN * suspect, |cluster| cluster.watch.leaders.count() > led)? {
        return Err(Ended::Violation(Violation::new(
            14,
            format!(
                "nodes {one} and {other} are a majority, and neither leads {WITHIN} suspect_after after {leader} died"
            ),
        )));
    }
    Ok(())
}
