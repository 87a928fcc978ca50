//! A leader that reads by its lease hands over, and is cut off from everybody at some moment of that; or it takes the lead back
//! just when the other one stands, or long before that one hears that it should.
//!
//! What is at stake: a lease that was given up is worth nothing, and a beat that is not *yielding* binds who is told to stand,
//! too.

use ringleader_core::read::Read;
use ringleader_core::timing::Timing;
use ringleader_core::types::NodeId;
use ringleader_core::verb::Plane;

use crate::cluster::Cluster;
use crate::fabric::PipeId;
use crate::run::Outcome;
use crate::schedule::Plan;
use crate::story::{Ended, Story, Told, tell};

/// See the module.
pub(super) fn run(seed: u64, keep_trace: usize) -> Outcome {
    tell(
        quick(seed, if seed.is_multiple_of(2) { Timing::LOCAL } else { Timing::HARDWARE }),
        keep_trace,
        |story| {
            story.group()?;
            story.rounds(4, round)
        },
    )
}

/// A fabric that is quick against beats, and lease reads.
pub(super) fn quick(seed: u64, timing: Timing) -> Plan {
    let beat = timing.beat_ns;
    let mut plan = Plan::quiet(seed, 3, timing);
    plan.lease_reads = true;
    plan.read_ppm = 20_000;
    plan.loop_ns = (beat / 200, beat / 50);
    plan.weather.latency_ns = (beat / 400, beat / 100);
    plan.weather.state_ns = (beat / 400, beat / 100);
    plan.weather.fence_ns = (beat / 400, beat / 50);
    plan
}

fn round(story: &mut Story) -> Told<()> {
    let timing = story.cluster.plan.timing;
    let beat = timing.beat_ns;
    let old = story.leader()?;
    let new = story.any_but(old);
    let third: Vec<NodeId> = story.cluster.ids().filter(|id| *id != old && *id != new).collect();
    let settle = timing.grant_grace_ns + story.moment(4 * beat);
    story.pass(settle)?;
    let late = story.rng.chance(700_000);
    if late {
        let flight_ns = timing.campaign_timeout_ns - beat / 2 + story.moment(3 * beat);
        let pipe = PipeId { from: old, to: new, plane: Plane::Control };
        story.cluster.fabric.weather.slow_flight = Some((pipe, flight_ns));
    }
    if !story.cluster.transfer(old, new) {
        return Err(Ended::Untold);
    }
    match story.rng.below(2) {
        // That one hears of it late, when beats have bound it again; others have not heard these.
        _ if late => {
            story.pass(beat)?;
            story.cluster.fabric.weather.slow_flight = None;
            let near = timing.campaign_timeout_ns - beat - story.moment(beat);
            story.pass(near)?;
            third.iter().for_each(|other| story.cut(old, *other, true));
            let stands = |cluster: &Cluster| cluster.member(new).seen.stands;
            let stood = story.cluster.run_until(4 * beat, stands)?;
            if stood && story.rng.chance(500_000) {
                alone(story, old);
            }
        }
        // Cut off, and hears of nothing.
        0 => {
            story.until_within(10 * beat, |cluster| cluster.member(new).seen.stands)?;
            alone(story, old);
        }
        // The way to whom it hands over to breaks when that one has heard of it.
        _ => {
            story.until_within(10 * beat, |cluster| cluster.member(new).seen.stands)?;
            story.cluster.fabric.break_pipe(PipeId { from: old, to: new, plane: Plane::Log });
            third.iter().for_each(|other| story.cut(old, *other, true));
            story.cluster.fabric.cut(new, old, true);
        }
    }
    // All the while it is asked for what it has, and another may have more.
    for _ in 0..150 {
        let step = story.moment(beat / 8);
        story.pass(step)?;
        story.cluster.ask_read(old, Read::Lease);
        if let Some(leader) = story.cluster.leader().filter(|leader| *leader != old) {
            story.propose(leader, 1, 100);
        }
    }
    story.mend();
    let after = story.moment(2 * timing.suspect_after_ns);
    story.pass(after)
}

/// Nothing passes to or from it.
pub(super) fn alone(story: &mut Story, id: NodeId) {
    let others: Vec<NodeId> = story.cluster.ids().filter(|other| *other != id).collect();
    others.into_iter().for_each(|other| story.cut(id, other, true));
}
