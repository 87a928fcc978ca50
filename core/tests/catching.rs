//! Catching up, step by step: what the simulator rarely draws, and what an operator is told.

mod group;

use group::{Group, RING};
use ringleader_core::event::Event;
use ringleader_core::layout::{
    AnswerLine, Line, RequestLine, SnapshotLine, answer_of, request_kind, request_of, snapshot, verdict,
};
use ringleader_core::proposer::FollowerState;
use ringleader_core::replica::ProposeError;
use ringleader_core::snapshot::{CatchUp, Saved};
use ringleader_core::types::{Instant, NodeId};

/// A group whose ring has gone on without one of its nodes: the leader, the one that was stopped, and the third.
fn one_behind() -> (Group, usize, usize, usize) {
    let mut group = Group::new();
    group.nodes[0].replica.form(Instant(0), 0x1234).expect("fresh");
    group.until("a leader", |group| group.leader().is_some());
    let leader = group.leader().expect("a leader");
    let (away, third) = ((leader + 1) % 3, (leader + 2) % 3);
    group.nodes[away].stopped = true;
    go_on(&mut group, leader, 2 * RING);
    group.nodes[away].stopped = false;
    (group, leader, away, third)
}

/// So many bytes are proposed and committed.
fn go_on(group: &mut Group, leader: usize, bytes: u64) {
    let to = group.nodes[leader].replica.status().end.position.0 + bytes;
    group.until("the log goes on", |group| {
        let now = Instant(group.now);
        while group.nodes[leader].replica.propose(now, &[7; 3000]).is_ok() {}
        group.nodes[leader].replica.status().commit.0 >= to
    });
}

/// As much is proposed as there is room for.
fn go_on_as_far_as_it_goes(group: &mut Group, leader: usize) {
    let now = Instant(group.now);
    while group.nodes[leader].replica.propose(now, &[7; 3000]).is_ok() {}
}

fn catch_up(group: &Group, leader: usize, node: usize) -> Option<CatchUp> {
    group.nodes[leader].replica.status().followers[node + 1]?.catch_up
}

fn is_in_window(group: &Group, leader: usize, node: usize) -> bool {
    let view = group.nodes[leader].replica.status().followers[node + 1];
    view.is_some_and(|view| view.state == FollowerState::Window)
}

fn all_the_same(group: &mut Group, leader: usize) {
    go_on(group, leader, RING / 8);
    let count = group.nodes[leader].applied.len();
    group.until("all have it", |group| group.nodes.iter().all(|node| node.applied.len() >= count));
    assert!(group.nodes.iter().all(|node| node.applied[..count] == group.nodes[leader].applied[..count]));
}

#[test]
fn a_follower_takes_a_snapshot_from_another_and_both_tell_how_far_it_is() {
    let (mut group, leader, away, third) = one_behind();
    group.nodes[away].keeps = true;
    let mut seen = Vec::new();
    group.until("it is to load", |group| {
        seen.extend(catch_up(group, leader, away));
        group.nodes[away].kept.is_some()
    });
    let source = NodeId(third as u8 + 1);
    assert!(seen.contains(&CatchUp::Saving { source }), "{seen:?}");
    let part = |of: &CatchUp| matches!(of, CatchUp::Taking { source: from, fetched, len } if *from == source && 0 < *fetched && *fetched < *len);
    assert!(seen.iter().any(part), "{seen:?}");
    let taking = group.nodes[away].replica.status().taking.expect("it takes one");
    assert!(taking.loading && taking.source == source && taking.fetched == taking.len);
    let before = group.nodes[away].replica.status();
    (0..200).for_each(|_| group.turn());
    let while_loading = group.nodes[away].replica.status();
    assert_eq!(while_loading.applied, before.applied, "nothing is applied meanwhile");
    assert_eq!(while_loading.writer, NodeId::NOBODY, "and nobody writes its log");
    group.do_kept(away);
    group.until("it is in window", |group| is_in_window(group, leader, away));
    assert!(group.nodes[away].replica.status().taking.is_none());
    all_the_same(&mut group, leader);
}

#[test]
fn a_leader_without_any_source_says_so_and_goes_on() {
    let (mut group, leader, away, third) = one_behind();
    group.nodes[leader].can_save = false;
    group.nodes[third].can_save = false;
    group.until("nobody can", |group| catch_up(group, leader, away) == Some(CatchUp::NoSource));
    go_on(&mut group, leader, 2 * RING);
    group.nodes[leader].can_save = true;
    group.until("the leader itself can", |group| is_in_window(group, leader, away));
    all_the_same(&mut group, leader);
}

#[test]
fn a_source_that_never_answers_gives_way_and_the_ring_is_not_held_for_ever() {
    let (mut group, leader, away, third) = one_behind();
    group.nodes[leader].keeps = true;
    group.nodes[third].keeps = true;
    group.until("the third is to save", |group| group.nodes[third].kept.is_some());
    // Its application is away, and so it has no room for more than half a ring: nobody waits for it for longer.
    group.until("the leader is to save", |group| group.nodes[leader].kept.is_some());
    group.do_kept(leader);
    group.nodes[leader].keeps = false;
    group.until("it is in window", |group| is_in_window(group, leader, away));
    group.do_kept(third);
    all_the_same(&mut group, leader);
}

#[test]
fn the_ring_is_held_at_the_snapshot_and_let_go_in_the_end() {
    let (mut group, leader, away, _) = one_behind();
    group.nodes[away].keeps = true;
    group.until("it is to load", |group| group.nodes[away].kept.is_some());
    let held = group.nodes[leader].replica.status().base;
    let mut full = 0;
    group.until("the ring is let go", |group| {
        let now = Instant(group.now);
        let refused = loop {
            match group.nodes[leader].replica.propose(now, &[7; 3000]) {
                Ok(_) => {}
                Err(error) => break error,
            }
        };
        full += u32::from(refused == ProposeError::Full);
        group.nodes[leader].replica.status().base.0 > held.0 + RING
    });
    assert!(full > 0);
    // What it loads by now is below the leader's base: it takes another.
    group.do_kept(away);
    group.nodes[away].keeps = false;
    group.until("it is in window", |group| is_in_window(group, leader, away));
    all_the_same(&mut group, leader);
}

#[test]
fn who_never_gets_done_costs_the_others_less_each_time() {
    let (mut group, leader, away, _) = one_behind();
    group.nodes[away].keeps = true;
    let mut rests = Vec::new();
    for _ in 0..3 {
        group.until("it is told", |group| {
            go_on_as_far_as_it_goes(group, leader);
            matches!(catch_up(group, leader, away), Some(CatchUp::Taking { .. }))
        });
        group.until("the ring is let go", |group| {
            go_on_as_far_as_it_goes(group, leader);
            catch_up(group, leader, away) == Some(CatchUp::Waiting)
        });
        let since = group.now;
        group.until("another is asked", |group| {
            go_on_as_far_as_it_goes(group, leader);
            matches!(catch_up(group, leader, away), Some(CatchUp::Saving { .. }))
        });
        rests.push(group.now - since);
    }
    assert!(rests[1] > rests[0] * 3 / 2 && rests[2] > rests[1] * 3 / 2, "{rests:?}");
    group.do_kept(away);
    group.nodes[away].keeps = false;
    group.until("it is in window", |group| is_in_window(group, leader, away));
    all_the_same(&mut group, leader);
}

#[test]
fn who_cannot_load_is_told_again_after_a_while() {
    let (mut group, leader, away, _) = one_behind();
    group.nodes[away].keeps = true;
    group.until("it is to load", |group| group.nodes[away].kept.is_some());
    let Some(Event::LoadSnapshot { number, .. }) = group.nodes[away].kept.take() else {
        panic!("that is what it was told")
    };
    let now = Instant(group.now);
    let before = group.nodes[away].replica.status();
    group.nodes[away].replica.handle_loaded(now, number.wrapping_add(1), true);
    group.nodes[away].replica.handle_saved(now, number, Some(Saved { len: 8, crc: 1 }));
    assert_eq!(group.nodes[away].replica.status().applied, before.applied, "that was another one");
    group.nodes[away].replica.handle_loaded(now, number, false);
    assert_eq!(group.nodes[away].replica.status().anchor, before.anchor);
    group.until("the leader knows", |group| catch_up(group, leader, away) == Some(CatchUp::Unable));
    group.nodes[away].keeps = false;
    go_on(&mut group, leader, RING);
    group.until("it is in window", |group| {
        group.leader().is_some_and(|leader| is_in_window(group, leader, away))
    });
    let leader = group.leader().expect("just seen");
    all_the_same(&mut group, leader);
}

#[test]
fn a_source_that_saves_another_in_the_middle_loses_its_reader_and_nothing_else() {
    let (mut group, leader, away, third) = one_behind();
    group.until(
        "it takes some of it",
        |group| matches!(catch_up(group, leader, away), Some(CatchUp::Taking { fetched, .. }) if fetched > 0),
    );
    // As if the source had begun another: its header is gone.
    let area = group.nodes[third].areas.snapshot.clone();
    (0..32).for_each(|word| area.store(word * 8, 0));
    (0..64).for_each(|word| area.store(64 * 1024 + word * 8, 5));
    group.until("another source is asked", |group| {
        catch_up(group, leader, away) == Some(CatchUp::Saving { source: NodeId(leader as u8 + 1) })
    });
    group.until("it is in window", |group| is_in_window(group, leader, away));
    all_the_same(&mut group, leader);
}

/// What a leader tells a node, in the words of its line.
fn tell(group: &mut Group, leader: usize, node: usize, change: impl FnOnce(&mut RequestLine)) {
    let at = request_of(NodeId(leader as u8 + 1));
    let area = group.nodes[node].areas.control.clone();
    let before = RequestLine::read(&area, at).expect("it was asked for access");
    let mut line = RequestLine {
        kind: request_kind::TAKE,
        sequence: before.sequence + 1,
        term: group.nodes[node].replica.status().promise.term().0,
        ..before
    };
    change(&mut line);
    line.write(&area, at, before.version.wrapping_add(1));
}

fn answer(group: &Group, leader: usize, node: usize) -> u8 {
    let at = answer_of(NodeId(node as u8 + 1));
    AnswerLine::read(&group.nodes[leader].areas.control, at).map_or(verdict::NONE, |line| line.verdict)
}

/// A group in which one node has a snapshot of some time ago, which another one needs by no means.
fn old_snapshot() -> (Group, usize, usize, usize, SnapshotLine) {
    let (mut group, leader, away, third) = one_behind();
    group.until("it is in window", |group| is_in_window(group, leader, away));
    all_the_same(&mut group, leader);
    let line = SnapshotLine::read(&group.nodes[third].areas.snapshot, 0).expect("it saved one");
    (group, leader, away, third, line)
}

fn about(line: &mut RequestLine, snapshot: &SnapshotLine, source: usize) {
    line.source = source as u8 + 1;
    line.source_boot = snapshot.boot;
    line.number = snapshot.number;
    line.position = snapshot.position;
    line.chain = u64::from(snapshot.chain);
    line.last_term = snapshot.term;
    line.last_index = snapshot.index;
}

#[test]
fn a_snapshot_of_what_is_applied_is_not_taken() {
    let (mut group, leader, away, third, snapshot) = old_snapshot();
    let before = group.nodes[away].replica.status();
    tell(&mut group, leader, away, |line| about(line, &snapshot, third));
    group.until("it says so", |group| answer(group, leader, away) == verdict::GRANTED);
    assert!(group.nodes[away].replica.status().applied.position >= before.applied.position);
    assert!(group.nodes[away].kept.is_none());
}

#[test]
fn a_snapshot_of_what_a_log_has_is_not_taken() {
    let (mut group, leader, away, third, _) = old_snapshot();
    // Its application takes nothing from here on: what it is counted for runs ahead of that.
    group.nodes[away].applies = false;
    go_on(&mut group, leader, RING / 16);
    let count = group.nodes[third].applied.len();
    group.until("the third has it", |group| group.nodes[third].applied.len() == count);
    let area = group.nodes[third].areas.snapshot.clone();
    let point = group.nodes[third].replica.applied();
    go_on(&mut group, leader, RING / 16);
    // As if the third had saved one in between.
    let mut snapshot = SnapshotLine::read(&area, 0).expect("it saved one");
    snapshot.position = point.position.0;
    snapshot.index = point.index.0;
    snapshot.term = point.term.0;
    snapshot.chain = point.chain.0;
    snapshot.write(&area, 0, 9);
    let before = group.nodes[away].replica.status();
    assert!(before.applied.position < point.position && point.position < before.anchor.position);
    // The leader would ask for access again as soon as it is fenced.
    group.nodes[leader].stopped = true;
    tell(&mut group, leader, away, |line| about(line, &snapshot, third));
    group.until("it says so", |group| answer(group, leader, away) == verdict::GRANTED);
    let after = group.nodes[away].replica.status();
    assert_eq!((after.applied, after.end), (before.applied, before.end));
    assert!(group.nodes[away].kept.is_none());
    assert!(after.anchor.position >= before.anchor.position);
}

#[test]
fn bytes_that_are_not_those_of_the_header_and_what_has_no_room_are_not_loaded() {
    let (mut group, leader, away, third) = one_behind();
    group.nodes[away].stopped = true;
    group.nodes[third].keeps = true;
    group.nodes[away].stopped = false;
    group.until("the third is to save", |group| group.nodes[third].kept.is_some());
    group.do_kept(third);
    group.nodes[third].keeps = false;
    // A byte of it changes before anybody READs it.
    let area = group.nodes[third].areas.snapshot.clone();
    area.store(snapshot::BYTES + 640, !area.load(snapshot::BYTES + 640));
    let (mut from_third, mut loaded) = (false, false);
    group.until("it is in window", |group| {
        let own = CatchUp::Saving { source: NodeId(leader as u8 + 1) };
        from_third |= catch_up(group, leader, away) == Some(own);
        loaded |= group.nodes[away].kept.is_some();
        is_in_window(group, leader, away)
    });
    assert!(from_third, "the leader had to do it itself");
    assert!(!loaded);
    all_the_same(&mut group, leader);
    // A header that says more than there is room for.
    let mut line = SnapshotLine::read(&group.nodes[leader].areas.snapshot, 0).expect("it saved one");
    line.len = u64::MAX;
    line.position += RING;
    line.write(&group.nodes[leader].areas.snapshot, 0, 9);
    tell(&mut group, leader, away, |ask| about(ask, &line, leader));
    group.until("it says so", |group| answer(group, leader, away) == verdict::UNABLE);
}

/// Its acceptor answers at once: the way there is up again before the leader looks whether it is closed.
#[test]
fn who_was_let_go_is_asked_again_however_soon_it_is_armed() {
    let mut group = Group::new();
    group.nodes[0].replica.form(Instant(0), 0x1234).expect("fresh");
    group.until("a leader", |group| group.leader().is_some());
    let leader = group.leader().expect("a leader");
    let late = (leader + 1) % 3;
    group.nodes[late].applies = false;
    group.until("it is let go", |group| {
        let now = Instant(group.now);
        while group.nodes[leader].replica.propose(now, &[7; 3000]).is_ok() {}
        let view = group.nodes[leader].replica.status().followers[late + 1];
        view.is_some_and(|view| view.state == FollowerState::LetGo)
    });
    // It closes, and then others have the processor for a while.
    group.run(leader);
    group.nodes[leader].stopped = true;
    (0..8).for_each(|_| group.turn());
    group.nodes[leader].stopped = false;
    group.nodes[late].applies = true;
    group.until("it is in window", |group| is_in_window(group, leader, late));
    all_the_same(&mut group, leader);
}
