//! A let-go follower comes back while what it misses is at the edge of the ring: the last entries that the leader may still
//! serve, or the first that it may not.
//!
//! What is at stake: nothing below `base` is served, no source byte is reused while it is being sent, and nobody waits.

use crate::run::Outcome;
use crate::story::{Story, Told, plan, tell};

/// See the module.
pub(super) fn run(seed: u64, keep_trace: usize) -> Outcome {
    tell(plan(seed, 4), keep_trace, |story| {
        story.group()?;
        let rounds = story.rng.within((1, 3));
        story.rounds(rounds, round)
    })
}

fn round(story: &mut Story) -> Told<()> {
    let timing = story.cluster.plan.timing;
    let suspect = timing.suspect_after_ns;
    let ring_len = story.cluster.plan.ring_len;
    let leader = story.leader()?;
    let away = story.any_but(leader);
    let is_cut = story.rng.chance(400_000);
    if is_cut {
        story.cut(leader, away, true);
    } else {
        story.pause(away, u64::MAX);
    }
    // It misses between three eighths and seven eighths of a ring; three quarters are what can be served.
    let missed = ring_len * 3 / 8 + story.rng.below(ring_len / 2);
    let largest = story.rng.pick(&[2_000, 20_000, 60_000]);
    let from = story.cluster.member(away).seen.applied;
    let until = story.cluster.now_ns() + story.soon_ns();
    loop {
        let end = story.cluster.member(leader).seen.end;
        let fell = !story.cluster.member(leader).seen.leads || story.cluster.now_ns() > until;
        if fell || end.0 >= from.0 + missed {
            break;
        }
        let largest = (from.0 + missed - end.0).clamp(64, largest) as usize;
        let burst = story.rng.within((1, 4));
        if story.propose(leader, burst, largest) == 0 {
            story.pass(timing.beat_ns / 4)?;
        }
        let between = story.moment(timing.beat_ns / 8);
        story.pass(between)?;
    }
    // While it comes back the log grows on, or the leader falls, or both.
    if is_cut {
        story.cut(leader, away, false);
    } else {
        story.cluster.resume(away);
    }
    let steps = story.rng.within((1, 12));
    for _ in 0..steps {
        story.propose(leader, 2, largest as usize);
        let between = story.moment(timing.beat_ns / 2);
        story.pass(between)?;
    }
    if story.rng.chance(400_000) {
        let asleep = 2 * suspect + story.moment(4 * suspect);
        story.pause(leader, asleep);
    }
    let after = story.moment(4 * suspect);
    story.pass(after)
}
