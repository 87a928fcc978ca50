//! What no protocol leads to, and memory can hold all the same: an application stops there, says so, and is handed nothing.

mod group;

use group::{Group, MS, RING};
use ringleader_core::entry::{self, Kind, write};
use ringleader_core::event::Event;
use ringleader_core::layout::log;
#[cfg(feature = "marks")]
use ringleader_core::mark::{self, Machine};
use ringleader_core::types::{Instant, Position, Term};
use ringleader_core::verb::Class;

/// A group with a leader, and a follower of it.
fn led() -> (Group, usize) {
    let mut group = Group::new();
    group.nodes[0].replica.form(Instant(0), 0x1234).expect("fresh");
    group.until("a leader", |group| group.leader().is_some());
    group.propose(0, 3);
    group.until("all applied", |group| group.nodes.iter().all(|node| node.applied.len() == 3));
    let follower = (group.leader().expect("a leader") + 1) % 3;
    (group, follower)
}

/// Lets a node apply what it can, and says whether it says that it is stuck.
fn is_stuck(group: &mut Group, node: usize) -> bool {
    let node = &mut group.nodes[node];
    node.replica.handle_tick(Instant(group.now));
    while node.replica.apply(|entry| node.applied.push(entry.payload.to_vec())) {}
    std::iter::from_fn(|| node.replica.poll_event()).any(|event| matches!(event, Event::Stuck { .. }))
}

#[test]
fn an_entry_of_a_kind_that_is_not_known_here_stops_the_application_and_not_the_log() {
    let (mut group, follower) = led();
    let at = group.nodes[follower].replica.status().applied;
    group.nodes[follower].stopped = true;
    let leader = group.leader().expect("a leader");
    group.nodes[leader].replica.propose(Instant(group.now), b"the next").expect("room");
    // The beat that tells the follower of the commit has landed; it has not looked yet.
    (0..60).for_each(|_| group.turn());
    // As a newer version would make it: the same entry, valid, of another kind.
    let area = &group.nodes[follower].areas.log;
    let offset = entry::offset(RING, at.position);
    let (term, commit) = (Term(area.load(offset + 8)), Position(area.load(offset + 16)));
    write(area, RING, &at, term, commit, Kind(9), b"the next");
    assert!(is_stuck(&mut group, follower));
    assert_eq!(group.nodes[follower].applied.len(), 3);
    let status = group.nodes[follower].replica.status();
    assert!(status.anchor.position > status.applied.position, "it is kept, and counts as committed");
    #[cfg(feature = "marks")]
    assert!(Machine::count(mark::Applier::StuckUnknown) > 0);
}

#[test]
fn committed_bytes_that_change_before_they_are_applied_are_not_applied() {
    let (mut group, follower) = led();
    let leader = group.leader().expect("a leader");
    group.nodes[leader].replica.propose(Instant(group.now), b"the next").expect("room");
    let applied = group.nodes[follower].replica.status().applied;
    // Turns of the loop without applying: the anchor passes the entry.
    for _ in 0..60 {
        group.now += MS / 4;
        for me in 0..3 {
            if me == follower {
                turn_without_applying(&mut group, me);
            } else {
                group.run(me);
            }
        }
    }
    assert!(group.nodes[follower].replica.status().anchor.position > applied.position);
    let area = group.nodes[follower].areas.log.clone();
    // Another index in its header: nothing stands there any more.
    area.store(log::RING + applied.position.0 % RING, 99);
    assert!(is_stuck(&mut group, follower));
    assert_eq!(group.nodes[follower].applied.len(), 3);
    #[cfg(feature = "marks")]
    assert!(Machine::count(mark::Applier::StuckInvalid) > 0);
}

fn turn_without_applying(group: &mut Group, me: usize) {
    group.nodes[me].replica.handle_tick(Instant(group.now));
    while group.nodes[me].replica.poll_event().is_some() {}
    while let Some(verb) = group.nodes[me].replica.poll_verb() {
        let done = group.carry_out(me, verb);
        group.nodes[me].replica.handle_completion(Instant(group.now), done);
    }
}

#[test]
fn bytes_that_change_after_they_were_judged_stop_the_anchor_and_the_application() {
    let (mut group, follower) = led();
    let leader = group.leader().expect("a leader");
    let at = group.nodes[follower].replica.status().anchor;
    group.nodes[leader].replica.propose(Instant(group.now), b"the next").expect("room");
    let mut held = Vec::new();
    while let Some(verb) = group.nodes[leader].replica.poll_verb() {
        let entries = verb.id().class == Class::Entries;
        let done = group.carry_out(leader, verb);
        // The leader does not hear of it before the follower has walked over the entry.
        if entries {
            held.push(done);
        } else {
            group.nodes[leader].replica.handle_completion(Instant(group.now), done);
        }
    }
    turn_without_applying(&mut group, follower);
    let status = group.nodes[follower].replica.status();
    assert!(status.end.position > at.position && status.anchor == at, "walked, and not known committed");
    group.nodes[follower].areas.log.store(log::RING + at.position.0 % RING, 99);
    for done in held {
        group.nodes[leader].replica.handle_completion(Instant(group.now), done);
    }
    group.now += MS;
    group.run(leader);
    assert!(is_stuck(&mut group, follower));
    assert_eq!(group.nodes[follower].replica.status().anchor, at);
    #[cfg(feature = "marks")]
    assert!(Machine::count(mark::Applier::StuckDamaged) > 0);
}
