//! What does the core itself cost between a proposal and its commit? Three replicas over a fabric that does nothing: the
//! leader's way through propose, poll_verb, handle_completion and poll_event, in nanoseconds, beside the clock that times it.

#[path = "../../../core/tests/group/mod.rs"]
mod group;

use std::hint::black_box;

use group::{Group, RING, Words, copy};
use ringleader_core::event::Event;
use ringleader_core::layout::log;
use ringleader_core::replica::Replica;
use ringleader_core::types::Instant;
use ringleader_core::verb::{Completion, Status};

const ROUNDS: usize = 2000;
const SAMPLES: usize = 20;

fn main() {
    let mut group = Group::new();
    group.nodes[0].replica.form(Instant(0), 0x1234).expect("fresh");
    group.until("a leader", |group| group.leader().is_some());
    (0..50).for_each(|_| group.turn());
    let leader = group.leader().expect("a leader");
    let (mut commits, mut clocks) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let now = Instant(group.now);
        for _ in 0..SAMPLES {
            let before = std::time::Instant::now();
            clocks.push(before.elapsed().as_nanos());
            let before = std::time::Instant::now();
            commit(&mut group.nodes[leader].replica, now);
            commits.push(before.elapsed().as_nanos());
            while let Some(verb) = group.nodes[leader].replica.poll_verb() {
                let done = group.carry_out(leader, verb);
                group.nodes[leader].replica.handle_completion(now, done);
            }
        }
        // What the fabric left out: the followers get the leader's log and beat, and apply.
        for follower in (0..3).filter(|node| *node != leader) {
            let (from, to) = (group.nodes[leader].areas.log.clone(), group.nodes[follower].areas.log.clone());
            copy(&from, 0, &to, 0, 64);
            copy(&from, log::RING, &to, log::RING, RING as u32);
        }
        (0..3).for_each(|_| group.turn());
    }
    println!(
        "commit of 64 bytes, core alone: p50 {} ns; the clock around it: p50 {} ns",
        median(commits),
        median(clocks)
    );
}

fn done(id: ringleader_core::verb::RequestId) -> Completion {
    Completion { id, status: Status::Success, value: 0 }
}

#[inline(never)]
fn commit(replica: &mut Replica<Words>, now: Instant) {
    replica.propose(now, &[7; 64]).expect("room");
    // Two WRITEs, or four where the lap ends between.
    loop {
        let write = replica.poll_verb().expect("WRITEs for the followers until it is committed");
        replica.handle_completion(now, done(write.id()));
        if matches!(black_box(replica.poll_event()), Some(Event::Committed { .. })) {
            return;
        }
    }
}

fn median(mut samples: Vec<u128>) -> u128 {
    samples.sort_unstable();
    samples[samples.len() / 2]
}
