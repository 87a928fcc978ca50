//! Reads at a follower over a change of leader: its leader is stopped just behind an acknowledgement; another is elected by
//! nodes that can reach it, while it can reach the former leader's memory, and some of those who voted.
//!
//! What is at stake: the leader's line is written before anybody is answered, and a line alone says nothing.

use ringleader_core::read::Read;
use ringleader_core::types::NodeId;

use crate::cluster::Trap;
use crate::run::Outcome;
use crate::story::{Story, Told, plan, tell};

/// See the module.
pub(super) fn run(seed: u64, keep_trace: usize) -> Outcome {
    let mut plan = plan(seed, 32);
    plan.read_ppm = 10_000;
    plan.nodes = 5;
    tell(plan, keep_trace, |story| {
        story.group()?;
        story.rounds(4, round)
    })
}

fn round(story: &mut Story) -> Told<()> {
    let timing = story.cluster.plan.timing;
    let suspect = timing.suspect_after_ns;
    let old = story.leader()?;
    let reader = story.any_but(old);
    let settle = story.moment(timing.grant_grace_ns);
    story.pass(settle)?;
    // Stopped behind an acknowledgement.
    let before = story.cluster.client.acknowledged();
    story.propose(old, 1, 200);
    story.until_within(suspect, |cluster| cluster.client.acknowledged() > before)?;
    story.cluster.set_trap(old, if story.rng.chance(800_000) { Trap::AfterEvents } else { Trap::AfterVerbs });
    for _ in 0..10 {
        story.propose(old, 1, 200);
        ask(story, reader);
        let step = story.moment(timing.beat_ns / 8);
        story.pass(step)?;
    }
    story.until_within(2 * suspect, |cluster| cluster.trap_is_sprung())?;
    // Whoever is elected does not reach the reader, which stays with what it was told last.
    let others: Vec<NodeId> = story.cluster.ids().filter(|id| *id != old && *id != reader).collect();
    let new = others[story.rng.below(3) as usize];
    story.cut(new, reader, true);
    let meanwhile = story.cluster.client.acknowledged();
    for _ in 0..40 {
        let step = story.moment(suspect / 4);
        story.pass(step)?;
        ask(story, reader);
        if let Some(leader) = story.cluster.leader().filter(|leader| *leader != old) {
            story.propose(leader, 1, 200);
        }
        if story.cluster.client.acknowledged() > meanwhile && story.rng.chance(200_000) {
            break;
        }
    }
    story.cluster.resume(old);
    for _ in 0..6 {
        ask(story, reader);
        let step = story.moment(suspect / 8);
        story.pass(step)?;
    }
    story.mend();
    let after = story.moment(suspect);
    story.pass(after)
}

fn ask(story: &mut Story, id: NodeId) {
    for _ in 0..1 + story.rng.below(2) {
        story.cluster.ask_read(id, Read::Follower);
    }
}
