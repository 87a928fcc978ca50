//! A follower is let go while WRITEs to it are still on their way, and its queue pair takes long to be closed; the leader
//! goes on, fast, and its ring comes round to the bytes that those WRITEs read.
//!
//! What is at stake: letting go means ERR and drain, and then reuse.

use ringleader_core::verb::{Class, Plane};

use crate::fabric::PipeId;
use crate::run::Outcome;
use crate::story::{Told, plan, tell};

/// See the module.
pub(super) fn run(seed: u64, keep_trace: usize) -> Outcome {
    let mut plan = plan(seed, 8);
    plan.nodes = 3;
    tell(plan, keep_trace, |story| {
        let timing = story.cluster.plan.timing;
        let suspect = timing.suspect_after_ns;
        let leader = story.group()?;
        let settle = story.moment(2 * suspect);
        story.pass(settle)?;
        let slow = story.any_but(leader);
        story.cluster.fabric.mute(PipeId { from: leader, to: slow, plane: Plane::Log }, 20 * suspect);
        let asleep = 4 * suspect + story.moment(4 * suspect);
        story.pause(slow, asleep);
        let close_ns = 2 * suspect + story.moment(2 * suspect);
        story.cluster.fabric.weather.slow_step = Some((Class::Close, close_ns));
        let until_ns = story.cluster.now_ns() + 4 * suspect;
        while story.cluster.now_ns() < until_ns && story.cluster.member(leader).seen.leads {
            story.propose(leader, 2, 60_000);
            let between = story.moment(timing.beat_ns / 2);
            story.pass(between)?;
        }
        Told::Ok(())
    })
}
