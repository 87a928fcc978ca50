//! A leader is stopped over the change to another one: with reads that have not been begun, whose check is being posted, or is
//! under way; and goes on, with more of them waiting, while a lease of its former life may seem to hold.
//!
//! What is at stake: a deposed leader answers nothing stale, whatever it was told before it was stopped.

use ringleader_core::read::Read;
use ringleader_core::types::NodeId;

use crate::cluster::Trap;
use crate::run::Outcome;
use crate::story::{Story, Told, plan, tell};

/// See the module.
pub(super) fn run(seed: u64, keep_trace: usize) -> Outcome {
    let mut plan = plan(seed, 31);
    plan.lease_reads = true;
    plan.read_ppm = 10_000;
    tell(plan, keep_trace, |story| {
        story.group()?;
        story.rounds(5, round)
    })
}

fn round(story: &mut Story) -> Told<()> {
    let timing = story.cluster.plan.timing;
    let old = story.leader()?;
    let settle = story.moment(3 * timing.beat_ns);
    story.pass(settle)?;
    let others = u64::from(story.cluster.plan.nodes) - 1;
    let trap = match story.rng.below(6) {
        0 => Trap::AfterInputs,
        1 => Trap::AfterEvents,
        2 => Trap::AfterVerbs,
        // Their completions wait for it when it goes on.
        3 => Trap::AfterBeats(others as u32),
        _ => Trap::AfterReads(1 + story.rng.below(others) as u32),
    };
    ask(story, old);
    story.cluster.set_trap(old, trap);
    story.until_within(10 * timing.beat_ns, |cluster| cluster.trap_is_sprung())?;
    let cut = story.rng.below(3);
    if cut == 0 {
        // What it had posted arrives, and is heard of; no vote is asked of it.
        story.pass(timing.beat_ns)?;
        cut_off(story, old);
    }
    let new = story.leader_but(old)?;
    if cut == 1 {
        // It hears nothing of the change but by what it asks.
        cut_off(story, old);
    }
    let before = story.cluster.client.acknowledged();
    story.until(|cluster| cluster.member(new).seen.leads)?;
    story.propose(new, 2, 500);
    story.until_within(4 * timing.suspect_after_ns, |cluster| cluster.client.acknowledged() > before)?;
    ask(story, old);
    story.cluster.resume(old);
    for _ in 0..6 {
        let step = story.moment(timing.beat_ns / 2);
        story.pass(step)?;
        ask(story, old);
    }
    story.mend();
    let after = story.moment(timing.suspect_after_ns);
    story.pass(after)
}

fn cut_off(story: &mut Story, id: NodeId) {
    let ids: Vec<NodeId> = story.cluster.ids().filter(|other| *other != id).collect();
    ids.into_iter().for_each(|other| story.cut(id, other, true));
}

fn ask(story: &mut Story, id: NodeId) {
    for how in Read::ALL {
        for _ in 0..story.rng.below(3) {
            story.cluster.ask_read(id, how);
        }
    }
}
