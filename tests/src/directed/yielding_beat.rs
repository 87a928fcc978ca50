//! A leader that gave up still owes a beat to one follower, while its own acceptor already follows the successor and learns
//! from it what is committed: at the place where the two of them hold an entry that nobody else has.
//!
//! What is at stake: what a successor has committed says nothing of the bytes that a former leader's followers hold.

use ringleader_core::timing::Timing;
use ringleader_core::types::NodeId;

use crate::run::Outcome;
use crate::schedule::Plan;
use crate::story::{Ended, Story, Told, tell};

/// See the module.
pub(super) fn run(seed: u64, keep_trace: usize) -> Outcome {
    let timing = Timing::HARDWARE;
    let beat = timing.beat_ns;
    let mut plan = Plan::quiet(seed, 5, timing);
    // Within one beat of giving up all of this must have happened.
    plan.loop_ns = (beat / 200, beat / 100);
    plan.weather.latency_ns = (beat / 400, beat / 200);
    plan.weather.state_ns = (beat / 400, beat / 200);
    plan.weather.fence_ns = (beat / 400, beat / 200);
    plan.weather.resend_ns = beat / 100;
    plan.weather.timeout_ns = 200 * beat;
    tell(plan, keep_trace, round)
}

fn round(story: &mut Story) -> Told<()> {
    let beat = story.cluster.plan.timing.beat_ns;
    let old = story.group()?;
    story.until(|cluster| {
        let end = cluster.watch.history.end().position;
        cluster.members.iter().all(|member| member.seen.anchor.position == end)
    })?;
    let follower = story.any_but(old);
    let rest: Vec<NodeId> = story.cluster.ids().filter(|id| ![old, follower].contains(id)).collect();
    for other in &rest {
        story.cut(old, *other, true);
        story.cut(follower, *other, true);
    }
    // It gets to one follower, and to the leader's own log.
    if story.propose(old, 1, 8) == 0 {
        return Err(Ended::Untold);
    }
    story.until(|cluster| {
        let seen = &cluster.member(old).seen;
        [old, follower].iter().all(|id| seen.followers[id.slot()].matched == seen.end)
    })?;
    // The others elect one of theirs, whose first entry stands at the same place.
    let entries = story.cluster.watch.history.len();
    story.until(|cluster| cluster.watch.history.len() > entries)?;
    let leads = |story: &Story, id: NodeId| story.cluster.member(id).seen.leads;
    let new = *rest.iter().find(|id| leads(story, **id)).ok_or(Ended::Untold)?;
    if !leads(story, old) {
        return Err(Ended::Untold);
    }
    // A beat to the follower is on its way, and its acknowledgement is late.
    story.cluster.fabric.cut(follower, old, true);
    let within = beat + story.moment(2 * beat);
    story.pass(within)?;
    // Now the new leader finds the former one.
    story.cut(old, new, false);
    let before = story.cluster.member(old).seen.anchor.position;
    story.until(|cluster| cluster.member(old).seen.anchor.position > before)?;
    story.cluster.fabric.cut(follower, old, false);
    story.pass(20 * beat)?;
    story.mend();
    story.until(|cluster| cluster.member(follower).seen.anchor.position > before)
}
