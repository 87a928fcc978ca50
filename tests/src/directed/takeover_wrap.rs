//! The ring wraps during a take-over: the log's end is brought close to the end of a lap, and leaders fall while entries and
//! pads are being written across it, with slow applications and followers that have room for nothing more.
//!
//! What is at stake: `base`, the reserve and the pads, when none of them is where the leader before left it.

use ringleader_core::types::NodeId;

use crate::run::Outcome;
use crate::story::{Story, Told, plan, tell};

/// See the module.
pub(super) fn run(seed: u64, keep_trace: usize) -> Outcome {
    tell(plan(seed, 3), keep_trace, |story| {
        story.group()?;
        let rounds = story.rng.within((2, 4));
        story.rounds(rounds, |story| {
            let leader = story.leader()?;
            approach(story, leader)?;
            cross(story, leader)
        })
    })
}

/// Fills the lap until its end is at most a drawn number of bytes away.
fn approach(story: &mut Story, leader: NodeId) -> Told<()> {
    let timing = story.cluster.plan.timing;
    let ring_len = story.cluster.plan.ring_len;
    let near = 64 + story.rng.below(ring_len / 4);
    let until = story.cluster.now_ns() + story.soon_ns();
    loop {
        let left = ring_len - story.cluster.member(leader).seen.end.0 % ring_len;
        if left <= near || !story.cluster.member(leader).seen.leads || story.cluster.now_ns() > until {
            return Ok(());
        }
        let largest = (left - near).clamp(64, ring_len / 9) as usize;
        if story.propose(leader, 1, largest) == 0 {
            story.pass(timing.beat_ns / 2)?;
        }
    }
}

/// Goes on across the end of the lap while the leader, or those it needs, fall.
fn cross(story: &mut Story, leader: NodeId) -> Told<()> {
    let timing = story.cluster.plan.timing;
    let suspect = timing.suspect_after_ns;
    if story.rng.chance(400_000) {
        // Followers that take what is sent, apply nothing, and may wake up to a full ring.
        for id in story.cluster.ids().filter(|id| *id != leader).collect::<Vec<_>>() {
            let asleep = suspect + story.moment(8 * suspect);
            story.pause(id, asleep);
        }
    } else if story.rng.chance(400_000) {
        let apart = story.any_but(leader);
        story.cut(leader, apart, true);
    }
    let times = story.rng.within((1, 24));
    let largest = story.rng.pick(&[64, 3_000, 60_000, 65_000]);
    for _ in 0..times {
        let burst = story.rng.within((1, 6));
        story.propose(leader, burst, largest);
        let sent = story.moment(timing.beat_ns / 2);
        story.pass(sent)?;
    }
    if story.rng.chance(750_000) {
        if !(story.rng.chance(200_000) && story.crash(leader)) {
            let asleep = 2 * suspect + story.moment(8 * suspect);
            story.pause(leader, asleep);
        }
        let next = story.leader_but(leader)?;
        let taking_over = story.moment(2 * timing.beat_ns);
        story.pass(taking_over)?;
        story.propose(next, 4, largest);
    }
    if story.rng.chance(500_000) {
        story.mend();
    }
    let after = story.moment(4 * suspect);
    story.pass(after)
}
