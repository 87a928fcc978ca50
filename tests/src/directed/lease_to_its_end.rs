//! A leader is cut off, and reads by its lease for as long as that lasts, by a clock that may be the slowest of all; the others
//! elect the next one as early as their clocks let them. Or its beats are heard of long after they have landed.
//!
//! What is at stake: a leader's lease ends before the first acceptor's.

use ringleader_core::read::Read;
use ringleader_core::timing::Timing;
use ringleader_core::types::NodeId;

use super::handed_over::{alone, quick};
use crate::run::Outcome;
use crate::story::{Story, Told, tell};

/// See the module.
pub(super) fn run(seed: u64, keep_trace: usize) -> Outcome {
    let mut timing = Timing::HARDWARE;
    // As near to each other as they may be.
    timing.lease_ns = timing.suspect_after_ns - 1;
    let mut plan = quick(seed, timing);
    if !seed.is_multiple_of(3) {
        plan.drift_by(400_000);
        plan.clocks_apart = true;
    }
    tell(plan, keep_trace, |story| {
        story.group()?;
        story.rounds(3, round)
    })
}

fn round(story: &mut Story) -> Told<()> {
    let timing = story.cluster.plan.timing;
    let (beat, suspect) = (timing.beat_ns, timing.suspect_after_ns);
    let old = story.leader()?;
    let settle = timing.grant_grace_ns + story.moment(2 * suspect);
    story.pass(settle)?;
    let others: Vec<NodeId> = story.cluster.ids().filter(|id| *id != old).collect();
    let late = story.rng.chance(400_000);
    if late {
        // Its beats land, and it does not hear of that.
        others.iter().for_each(|other| story.cluster.fabric.cut(*other, old, true));
    } else {
        alone(story, old);
    }
    let mut heard = false;
    for _ in 0..250 {
        let step = story.moment(suspect / 40);
        story.pass(step)?;
        story.cluster.ask_read(old, Read::Lease);
        let Some(leader) = story.cluster.leader().filter(|leader| *leader != old) else { continue };
        story.propose(leader, 1, 100);
        if late && !heard && story.rng.chance(200_000) {
            heard = true;
            others.iter().for_each(|other| story.cluster.fabric.cut(*other, old, false));
        }
    }
    story.mend();
    let after = 2 * beat + story.moment(2 * suspect);
    story.pass(after)
}
