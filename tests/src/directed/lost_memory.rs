//! Voters lose their memory one after the other and come back, leaders among them, and are readmitted: by themselves, by an
//! operator's one word, or by remove, add, promote, while entries flow and leaders fall.
//!
//! What is at stake: no entry that was acknowledged is lost though, in the end, nobody has the memory it began with.

use ringleader_core::membership::{Address, Change, Readmit};
use ringleader_core::types::NodeId;

use crate::run::Outcome;
use crate::story::{Story, Told, plan, tell};

/// See the module.
pub(super) fn run(seed: u64, keep_trace: usize) -> Outcome {
    let mut plan = plan(seed, 13);
    plan.readmit = if seed.is_multiple_of(2) { Readmit::Auto } else { Readmit::Ask };
    plan.propose_ppm = 20_000;
    tell(plan, keep_trace, |story| {
        story.group()?;
        let first = story.any();
        for turn in 0..story.cluster.plan.nodes {
            let node = NodeId(1 + (first.0 + turn) % story.cluster.plan.nodes);
            lose(story, node)?;
        }
        let beats = 10 * story.cluster.plan.timing.beat_ns;
        story.pass(beats)
    })
}

fn lose(story: &mut Story, node: NodeId) -> Told<()> {
    if !story.crash(node) {
        return Ok(());
    }
    let away = story.moment(8 * story.cluster.plan.timing.suspect_after_ns);
    story.pass(away)?;
    story.cluster.start(node);
    if story.cluster.plan.readmit == Readmit::Ask {
        story.leader()?;
        if story.rng.chance(500_000) {
            story.wish(Change::Readmit { node })?;
        } else {
            story.wish(Change::Remove { node })?;
            story.wish(Change::Add { node, address: Address::NONE })?;
            story.wish(Change::Promote { node })?;
        }
    }
    if story.rng.chance(300_000) {
        let leader = story.leader()?;
        let asleep = story.moment(6 * story.cluster.plan.timing.suspect_after_ns);
        story.pause(leader, asleep);
    }
    let bound = 4 * story.soon_ns();
    story.until_within(bound, |cluster| {
        let committed = cluster.watch.configurations.committed();
        committed.is_voter(node) && committed.names(node, cluster.member(node).incarnation)
    })
}
