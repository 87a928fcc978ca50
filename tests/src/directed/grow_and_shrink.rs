//! A group of one to three grows to up to fifteen, one by one, and shrinks again, its leaders taking themselves out, while
//! entries flow; now and then somebody is stopped for a moment.
//!
//! What is at stake: groups of every size, even ones too, commit, and who comes and goes is told.

use ringleader_core::membership::{Address, Change};
use ringleader_core::types::NodeId;

use crate::cluster::Cluster;
use crate::run::Outcome;
use crate::story::{Story, Told, plan, tell};

/// See the module.
pub(super) fn run(seed: u64, keep_trace: usize) -> Outcome {
    let mut plan = plan(seed, 12);
    plan.nodes = 1 + (seed % 3) as u8;
    let most = if seed.is_multiple_of(8) { 15 } else { 3 + (seed % 5) as u8 };
    plan.spares = most - plan.nodes;
    plan.propose_ppm = 20_000;
    tell(plan, keep_trace, |story| {
        story.group()?;
        for id in story.cluster.plan.nodes + 1..=most {
            let node = NodeId(id);
            disturb(story);
            story.wish(Change::Add { node, address: Address::NONE })?;
            disturb(story);
            story.wish(Change::Promote { node })?;
        }
        let least = 1 + story.rng.below(2) as usize;
        while voters(story.cluster) > least {
            disturb(story);
            let leader = story.leader()?;
            let all: Vec<NodeId> =
                story.cluster.ids().filter(|id| story.cluster.member(*id).belongs()).collect();
            let node = if story.rng.chance(400_000) { leader } else { story.rng.pick(&all) };
            story.wish(Change::Remove { node })?;
        }
        let beats = 10 * story.cluster.plan.timing.beat_ns;
        story.pass(beats)
    })
}

fn voters(cluster: &Cluster) -> usize {
    cluster.watch.configurations.committed().voters()
}

/// One node is stopped for a moment, sometimes.
fn disturb(story: &mut Story) {
    if story.rng.chance(200_000) {
        let ids: Vec<NodeId> = story.cluster.ids().collect();
        let id = story.rng.pick(&ids);
        let for_ns = story.moment(2 * story.cluster.plan.timing.suspect_after_ns);
        story.pause(id, for_ns);
    }
}

impl Story<'_> {
    /// An operator wants a change, and waits until it is committed.
    pub(super) fn wish(&mut self, change: Change) -> Told<()> {
        self.cluster.wishes.push_back((change, 0));
        let done = move |cluster: &Cluster| {
            let committed = cluster.watch.configurations.committed();
            match change {
                Change::Add { node, .. } => committed.member(node).is_some(),
                Change::Promote { node } => committed.is_voter(node),
                Change::Remove { node } => committed.member(node).is_none(),
                Change::Readmit { node } => committed.names(node, cluster.member(node).incarnation),
            }
        };
        self.until_within(3 * self.soon_ns(), done)
    }
}
