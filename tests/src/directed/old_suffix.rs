//! Two leaders' entries of the same lengths: a follower has the second one's, and gets the first one's first entry over them,
//! without anything behind it. What stands behind now fits by index, term and length, and was never made to follow it.
//!
//! What is at stake: the chain of CRCs alone tells that the old suffix is none of this log's (protocol.md 3).

use ringleader_core::entry;
use ringleader_core::types::NodeId;

use crate::cluster::Cluster;
use crate::run::Outcome;
use crate::story::{Ended, Story, plan, tell};

/// Bytes of a payload whose slot is as long as a no-op's.
const SMALL: usize = 8;

/// See the module.
pub(super) fn run(seed: u64, keep_trace: usize) -> Outcome {
    let mut plan = plan(seed, 10);
    plan.nodes = 5;
    plan.propose_ppm = 0;
    // One entry at a time is on its way to each follower.
    plan.timing.inflight = entry::SLOT_ALIGN as u32;
    tell(plan, keep_trace, |story| {
        let first = story.group()?;
        let settled = |cluster: &Cluster| {
            let end = cluster.watch.history.end().position;
            cluster.members.iter().all(|member| member.seen.anchor.position == end)
        };
        story.until(settled)?;
        let others = but(story, &[first]);
        let place = story.cluster.member(first).seen.end;
        let offset = entry::offset(story.cluster.plan.ring_len, place);
        let term = story.cluster.promise(first).term();

        // The first leader's entry gets to nobody.
        cut_all(story, first, &others, true);
        if !story.cluster.propose(first, SMALL) {
            return Err(Ended::Untold);
        }
        let copied = |cluster: &Cluster| {
            let seen = &cluster.member(first).seen;
            seen.followers[first.slot()].matched == seen.end
        };
        story.until(copied)?;

        // The second one's, two of them, get to one follower.
        let second = story.leader_but(first)?;
        let follower = but(story, &[first, second])[0];
        let rest = but(story, &[first, second, follower]);
        cut_all(story, second, &rest, true);
        while !story.cluster.propose(second, SMALL) {
            if !story.cluster.member(second).seen.leads {
                return Err(Ended::Untold);
            }
            let beat = story.cluster.plan.timing.beat_ns;
            story.pass(beat / 4)?;
        }
        story.until(|cluster| cluster.member(follower).seen.end >= cluster.member(second).seen.end)?;
        story.pause(second, u64::MAX);
        story.pause(follower, u64::MAX);

        // The first leads again by the votes of those that have neither, and reaches the follower alone, for one entry.
        cut_all(story, first, &rest, false);
        story.until(|cluster| {
            let seen = &cluster.member(first).seen;
            seen.leads && seen.promise > cluster.promise(second)
        })?;
        cut_all(story, first, &rest, true);
        story.cut(first, follower, false);
        story.cluster.resume(follower);
        story.until(|cluster| cluster.member(follower).home.log.load(offset + 8) == term.0)?;
        story.cut(first, follower, true);
        story.pause(first, u64::MAX);

        // Now the two that had the second one's entries need each other, and one of the others.
        story.pause(rest[0], u64::MAX);
        story.cut(second, rest[1], false);
        story.cluster.resume(second);
        let third = story.leader_but(first)?;
        story.propose(third, 2, 200);
        let beats = 10 * story.cluster.plan.timing.beat_ns;
        story.pass(beats)
    })
}

fn but(story: &Story, those: &[NodeId]) -> Vec<NodeId> {
    story.cluster.ids().filter(|id| !those.contains(id)).collect()
}

fn cut_all(story: &mut Story, one: NodeId, others: &[NodeId], cut: bool) {
    for other in others {
        story.cut(one, *other, cut);
    }
}
