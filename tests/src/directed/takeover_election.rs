//! Take-over against a second election: a leader falls with a part of its entries here and there, the next one is struck at
//! some moment between its election and its first commit, and a third takes over; then those before come back.
//!
//! What is at stake: entries of older terms are counted by nobody, and a new leader replaces what it does not have.

use ringleader_core::types::NodeId;

use crate::run::Outcome;
use crate::story::{Story, Told, plan, tell};

/// See the module.
pub(super) fn run(seed: u64, keep_trace: usize) -> Outcome {
    tell(plan(seed, 2), keep_trace, |story| {
        story.group()?;
        let rounds = story.rng.within((2, 5));
        let mut next = None;
        story.rounds(rounds, |story| {
            // The one that was just elected falls at once.
            let leader = match next.take() {
                Some(leader) => leader,
                None => story.leader()?,
            };
            next = Some(round(story, leader)?);
            Ok(())
        })
    })
}

/// The leader falls in the middle of a take-over or of its work; the next one to lead.
fn round(story: &mut Story, leader: NodeId) -> Told<NodeId> {
    let timing = story.cluster.plan.timing;
    // What it proposes now reaches some and not others.
    let apart = story.any_but(leader);
    if story.rng.chance(600_000) {
        story.cut(leader, apart, true);
    }
    let count = story.rng.within((1, 8));
    let largest = story.rng.pick(&[200, 3_000, 60_000]);
    story.propose(leader, count, largest);
    let sent = story.moment(2 * timing.beat_ns);
    story.pass(sent)?;
    strike(story, leader)?;
    let mend = story.moment(timing.suspect_after_ns);
    story.pass(mend)?;
    story.cut(leader, apart, false);
    let next = story.leader_but(leader)?;
    // Between its election and its first commit.
    let within = story.moment(2 * timing.beat_ns);
    let length = story.rng.below(3) * within / 2;
    story.pass(length)?;
    let largest = story.rng.pick(&[8, 3_000, 60_000]);
    story.propose(next, 2, largest);
    if story.rng.chance(500_000) {
        // The one before comes back while the next takes over.
        story.cluster.resume(leader);
    }
    Ok(next)
}

fn strike(story: &mut Story, id: NodeId) -> Told<()> {
    let suspect = story.cluster.plan.timing.suspect_after_ns;
    let lasts = suspect * 2 + story.moment(6 * suspect);
    match story.rng.below(8) {
        0 if story.crash(id) => {}
        1 | 2 => {
            for peer in story.cluster.ids().filter(|peer| *peer != id).collect::<Vec<_>>() {
                story.cut(id, peer, true);
            }
            let cut = suspect + story.moment(2 * suspect);
            story.pass(cut)?;
            for peer in story.cluster.ids().filter(|peer| *peer != id).collect::<Vec<_>>() {
                story.cut(id, peer, false);
            }
        }
        3 => {
            story.cluster.fabric.slow_landings(id, lasts);
            let copying = story.moment(suspect / 5);
            story.pass(copying)?;
            story.pause(id, lasts);
        }
        _ => story.pause(id, lasts),
    }
    Ok(())
}
