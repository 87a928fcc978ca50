//! A candidate with an older log asks a leader that was stopped before its first entry was known to be its own: the leader's
//! own acceptor fences it, walks, and refuses; the leader has lost its own grant, and nothing else.
//!
//! What is at stake: a refusal changes nothing, and who was fenced for one asks again.

use ringleader_core::types::NodeId;

use crate::run::Outcome;
use crate::story::{Ended, Story, Told, tell};

/// See the module.
pub(super) fn run(seed: u64, keep_trace: usize) -> Outcome {
    let mut plan = crate::story::plan(seed, 5);
    plan.nodes = 5;
    tell(plan, keep_trace, |story| {
        story.group()?;
        story.rounds(3, round)
    })
}

fn round(story: &mut Story) -> Told<()> {
    let timing = story.cluster.plan.timing;
    let suspect = timing.suspect_after_ns;
    let first = story.leader()?;
    let older = story.any_but(first);
    story.cut(first, older, true);
    let had = story.cluster.watch.history.len();
    for _ in 0..3 {
        story.propose(first, 3, 2_000);
        story.pass(timing.beat_ns)?;
    }
    story.until(|cluster| cluster.watch.history.len() > had)?;
    story.pause(first, u64::MAX);
    let next = story.leader_but(first)?;
    if next == older {
        return Err(Ended::Untold);
    }
    let within = story.moment(timing.beat_ns / 2);
    story.pass(within)?;
    story.pause(next, u64::MAX);
    // Only the older one sees a majority that is quiet.
    let ids: Vec<NodeId> = story.cluster.ids().collect();
    for one in ids.iter().filter(|one| **one != older) {
        for other in ids.iter().filter(|other| **other > *one && **other != older) {
            story.cut(*one, *other, true);
        }
    }
    story.until(|cluster| cluster.member(older).seen.stands)?;
    let within = story.moment(2 * suspect);
    story.pass(within)?;
    story.cluster.resume(next);
    let after = timing.beat_ns + story.moment(2 * suspect);
    story.pass(after)?;
    story.mend();
    let after = story.moment(4 * suspect);
    story.pass(after)
}
