//! A leader is deposed and elected again while a WRITE of its former leadership still is on its way to somebody who heard of
//! neither; in between its log was replaced by its successor's.
//!
//! What is at stake: nothing is staged over bytes that are still being sent.

use ringleader_core::types::NodeId;
use ringleader_core::verb::{Class, Plane};

use crate::fabric::PipeId;
use crate::run::Outcome;
use crate::story::{Ended, Told, plan, tell};

/// See the module.
pub(super) fn run(seed: u64, keep_trace: usize) -> Outcome {
    let mut plan = plan(seed, 7);
    plan.nodes = 5;
    plan.propose_ppm = 0;
    // Nobody loses patience with a WRITE that does not come back before the story is told.
    let patience_ns = 20 * plan.timing.suspect_after_ns;
    plan.bound_ns += 2 * (patience_ns - plan.timing.quorum_lost_ns);
    plan.timing.quorum_lost_ns = patience_ns;
    plan.weather.timeout_ns = patience_ns;
    tell(plan, keep_trace, |story| {
        let (beat, suspect) = (story.cluster.plan.timing.beat_ns, story.cluster.plan.timing.suspect_after_ns);
        let first = story.group()?;
        let settle = story.moment(4 * beat);
        story.pass(settle)?;
        // One is cut off from all but the leader, and is all that the leader's next entry gets to.
        let apart = story.any_but(first);
        let rest: Vec<NodeId> = story.cluster.ids().filter(|id| *id != first && *id != apart).collect();
        for id in &rest {
            story.cut(apart, *id, true);
            story.cluster.fabric.break_pipe(PipeId { from: first, to: *id, plane: Plane::Log });
        }
        story.cluster.fabric.mute(PipeId { from: first, to: apart, plane: Plane::Log }, patience_ns);
        if !story.cluster.propose(first, 40_000) {
            return Err(Ended::Untold);
        }
        story.until(|cluster| {
            let seen = &cluster.member(first).seen;
            seen.followers[first.slot()].matched == seen.end
        })?;
        story.pause(first, u64::MAX);
        let second = story.leader_but(first)?;
        story.cluster.resume(first);
        story.until(|cluster| cluster.member(first).seen.promise == cluster.promise(second))?;
        story.propose(second, 2, 500);
        story.until(|cluster| {
            cluster.member(first).seen.anchor.position == cluster.watch.history.end().position
        })?;
        let between = story.moment(2 * beat);
        story.pass(between)?;
        // From here on the one apart hears of nothing, so that nothing of what is on its way to it is given up.
        story.cut(first, apart, true);
        for id in rest.iter().filter(|id| **id != second) {
            story.cluster.slow(*id, 40, 3 * suspect);
        }
        story.pause(second, 10 * patience_ns);
        // Its new followers are quick, and closing the way to that one is not; they may lose patience before it is closed.
        let close_ns = suspect + story.moment(9 * suspect);
        story.cluster.fabric.weather.slow_step = Some((Class::Close, close_ns));
        let third = story.leader_but(second)?;
        story.propose(third, 2, 500);
        story.pass(4 * beat + close_ns)?;
        if third == first { Told::Ok(()) } else { Err(Ended::Untold) }
    })
}
