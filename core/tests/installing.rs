//! What a node does with its log around a snapshot: it keeps a log that has what the snapshot is about, nobody writes the log while the application loads, what was promised meanwhile holds, and no read is answered by an
//! application that is not there.

mod group;

use group::{Group, MS, RING};
use ringleader_core::entry;
use ringleader_core::event::Event;
use ringleader_core::layout::{
    AnswerLine, BeatLine, Line, RequestLine, SnapshotLine, answer_of, log, request_kind, request_of, verdict,
};
use ringleader_core::proposer::{FollowerState, Role};
use ringleader_core::read::Read;
use ringleader_core::snapshot::Writer;
use ringleader_core::types::{Instant, LogPoint, NodeId, Position};

fn go_on(group: &mut Group, leader: usize, bytes: u64) {
    let to = group.nodes[leader].replica.status().end.position.0 + bytes;
    group.until("the log goes on", |group| {
        let now = Instant(group.now);
        while group.nodes[leader].replica.propose(now, &[7; 3000]).is_ok() {}
        group.nodes[leader].replica.status().commit.0 >= to
    });
}

/// So few entries that nobody is let go for them.
fn a_few(group: &mut Group, leader: usize) {
    group.until("room", |group| group.nodes[leader].replica.propose(Instant(group.now), &[8; 3000]).is_ok());
    let now = Instant(group.now);
    for _ in 0..3 {
        group.nodes[leader].replica.propose(now, &[9; 3000]).expect("room for as many again");
    }
    let end = group.nodes[leader].replica.status().end.position;
    group.until("they are committed", |group| group.nodes[leader].replica.status().commit >= end);
}

/// A node whose log goes on behind a snapshot that another one has, or ends before it; of all that it knows nothing committed, and its
/// leader has stopped. The leader, the node, the third, which has the snapshot, and what that says.
fn log_beside_a_snapshot(goes_on: bool) -> (Group, usize, usize, usize, SnapshotLine) {
    let mut group = Group::new();
    group.nodes[0].replica.form(Instant(0), 0x1234).expect("fresh");
    group.until("a leader", |group| group.leader().is_some());
    let leader = group.leader().expect("a leader");
    let (late, third) = ((leader + 1) % 3, (leader + 2) % 3);
    // The third saves one, which is replaced below by a newer one in the same place.
    group.nodes[late].stopped = true;
    go_on(&mut group, leader, 2 * RING);
    group.nodes[late].stopped = false;
    group.until("it is in window", |group| {
        let view = group.nodes[leader].replica.status().followers[late + 1];
        view.is_some_and(|view| view.state == FollowerState::Window)
    });
    a_few(&mut group, leader);
    group.until("it has all", |group| group.nodes[late].applied.len() == group.nodes[leader].applied.len());
    // Its memory is written, if it is reached, and it does not look.
    group.nodes[late].stopped = true;
    group.nodes[late].alive = goes_on;
    a_few(&mut group, leader);
    let count = group.nodes[leader].applied.len();
    group.until("the third has it", |group| group.nodes[third].applied.len() >= count);
    let point = group.nodes[third].replica.applied();
    let snapshot = saved_by_hand(&group, third, point);
    a_few(&mut group, leader);
    group.nodes[leader].stopped = true;
    let beat = group.nodes[late].areas.log.clone();
    (0..BeatLine::WORDS as u64).for_each(|word| beat.store(log::BEAT + word * 8, 0));
    group.nodes[late].stopped = false;
    group.nodes[late].alive = true;
    (group, leader, late, third, snapshot)
}

/// As if that node had saved its state just now.
fn saved_by_hand(group: &Group, node: usize, point: LogPoint) -> SnapshotLine {
    let area = group.nodes[node].areas.snapshot.clone();
    let before = SnapshotLine::read(&area, 0).expect("it saved one before");
    let mut writer = Writer::new(&area);
    writer.write(&(group.nodes[node].applied.len() as u64).to_le_bytes()).expect("short enough");
    let saved = writer.finish();
    let line = SnapshotLine {
        position: point.position.0,
        index: point.index.0,
        term: point.term.0,
        chain: point.chain.0,
        len: saved.len,
        bytes_crc: saved.crc,
        ..before
    };
    line.write(&area, 0, before.version.wrapping_add(1));
    SnapshotLine::read(&area, 0).expect("just written")
}

/// The leader tells the node to take it.
fn tell(group: &Group, (leader, node, source): (usize, usize, usize), of: &SnapshotLine) {
    let at = request_of(NodeId(leader as u8 + 1));
    let area = group.nodes[node].areas.control.clone();
    let before = RequestLine::read(&area, at).expect("it was asked for access");
    let line = RequestLine {
        kind: request_kind::TAKE,
        sequence: before.sequence + 1,
        term: group.nodes[node].replica.status().promise.term().0,
        source: source as u8 + 1,
        source_boot: of.boot,
        number: of.number,
        position: of.position,
        chain: u64::from(of.chain),
        last_term: of.term,
        last_index: of.index,
        counts: 0,
        ..before
    };
    line.write(&area, at, before.version.wrapping_add(1));
}

#[test]
fn a_log_that_has_what_a_snapshot_is_about_stays_and_is_known_committed_up_to_there() {
    let (mut group, leader, late, third, snapshot) = log_beside_a_snapshot(true);
    let before = group.nodes[late].replica.status();
    assert!(before.anchor.position.0 < snapshot.position);
    group.nodes[late].keeps = true;
    tell(&group, (leader, late, third), &snapshot);
    let asked = RequestLine::read(&group.nodes[late].areas.control, request_of(NodeId(leader as u8 + 1)));
    let asked = asked.expect("just written").sequence;
    group.until("it says so", |group| {
        assert!(group.nodes[late].kept.is_none(), "it would go back behind what it was counted for");
        let at = answer_of(NodeId(late as u8 + 1));
        let line = AnswerLine::read(&group.nodes[leader].areas.control, at);
        line.is_some_and(|line| line.sequence == asked && line.verdict == verdict::GRANTED)
    });
    let after = group.nodes[late].replica.status();
    assert_eq!((after.anchor.position.0, after.anchor.chain.0), (snapshot.position, snapshot.chain));
    group.until("it is applied from the log", |group| {
        group.nodes[late].replica.status().applied.position.0 >= snapshot.position
    });
    let after = group.nodes[late].replica.status();
    assert!(after.end.position.0 > snapshot.position, "the log is what it was");
    assert_eq!(after.base, before.base);
}

#[test]
fn while_an_application_loads_nobody_writes_the_log_and_promises_hold() {
    let (mut group, leader, late, third, snapshot) = log_beside_a_snapshot(false);
    assert!(group.nodes[late].replica.status().end.position.0 < snapshot.position);
    // What stands behind it may fit, by whatever writer of long ago. That it was not walked before is all that is known of it.
    let (from, to) = (group.nodes[leader].areas.log.clone(), group.nodes[late].areas.log.clone());
    to.copy_from(&from, entry::offset(RING, Position(snapshot.position)), entry::slot_len(3000));
    group.nodes[late].keeps = true;
    tell(&group, (leader, late, third), &snapshot);
    group.until("it is to load", |group| group.nodes[late].kept.is_some());
    let applied = group.nodes[late].replica.applied();
    group.until("the third leads, by its vote", |group| {
        assert_ne!(group.nodes[late].replica.status().role, Role::Candidate, "it does not stand");
        group.nodes[third].replica.status().role == Role::Leader
    });
    let promise = group.nodes[late].replica.status().promise;
    assert_eq!(promise.node(), NodeId(third as u8 + 1));
    let until = group.now + 20 * MS;
    group.until("some time passes", |group| {
        let status = group.nodes[late].replica.status();
        assert_eq!(status.writer, NodeId::NOBODY);
        assert!(group.nodes[late].inbound.iter().all(|(_, granted)| !granted), "nobody writes its log");
        assert_eq!(status.applied, applied);
        group.now >= until
    });
    group.nodes[late].keeps = false;
    group.do_kept(late);
    let status = group.nodes[late].replica.status();
    assert_eq!((status.applied.position.0, status.anchor), (snapshot.position, status.applied));
    group.nodes[late].replica.handle_tick(Instant(group.now));
    assert_eq!(group.nodes[late].replica.status().end, status.anchor, "the log ends there");
    assert!(status.promise >= promise, "promises hold");
    group.nodes[leader].stopped = false;
    group.until("all follow the third", |group| {
        let followers = group.nodes[third].replica.status().followers;
        followers.iter().flatten().filter(|view| view.state == FollowerState::Window).count() == 3
    });
    let leader = third;
    a_few(&mut group, leader);
    let count = group.nodes[leader].applied.len();
    group.until("all have it", |group| group.nodes.iter().all(|node| node.applied.len() >= count));
    assert!(group.nodes.iter().all(|node| node.applied[..count] == group.nodes[leader].applied[..count]));
}

/// The application of a leader that is its own source is with the snapshot: what is read of it meanwhile waits.
#[test]
fn no_read_is_answered_while_the_application_saves() {
    let mut group = Group::new();
    group.nodes[0].replica.form(Instant(0), 0x1234).expect("fresh");
    group.until("a leader", |group| group.leader().is_some());
    let leader = group.leader().expect("a leader");
    let (late, third) = ((leader + 1) % 3, (leader + 2) % 3);
    group.nodes[late].stopped = true;
    go_on(&mut group, leader, 2 * RING);
    group.nodes[third].can_save = false;
    group.nodes[leader].keeps = true;
    group.nodes[late].stopped = false;
    group.until("the leader is to save", |group| group.nodes[leader].kept.is_some());
    let ticket = group.nodes[leader].replica.read(Instant(group.now), Read::Quorum).expect("it leads");
    let mut ready = false;
    for turn in 0..40 {
        if turn == 20 {
            assert!(!ready, "nobody is there to answer");
            group.do_kept(leader);
        }
        ready |= run_and_look(&mut group, leader, ticket.number);
    }
    assert!(ready, "and it is answered afterwards");
}

/// A turn of the group in which what becomes of that node's quorum read is looked for.
fn run_and_look(group: &mut Group, node: usize, number: u64) -> bool {
    group.nodes[node].stopped = true;
    group.turn();
    group.nodes[node].stopped = false;
    let mut ready = false;
    let now = Instant(group.now);
    group.nodes[node].replica.handle_tick(now);
    loop {
        while let Some(event) = group.nodes[node].replica.poll_event() {
            ready |= matches!(event, Event::ReadReady { how: Read::Quorum, number: upto } if upto >= number);
        }
        while group.nodes[node].replica.apply(|_| {}) {}
        let Some(verb) = group.nodes[node].replica.poll_verb() else { return ready };
        let done = group.carry_out(node, verb);
        group.nodes[node].replica.handle_completion(now, done);
    }
}

/// A node has more than what was saved of another's state a while ago, and knows less of it committed than the ring of the only other
/// one holds that is left: the snapshot is below its own end, and tells it that what it has is committed.
#[test]
fn a_majority_is_not_kept_waiting_for_a_snapshot_above_its_own_log() {
    let mut group = Group::new();
    group.nodes[0].replica.form(Instant(0), 0x1234).expect("fresh");
    group.until("a leader", |group| group.leader().is_some());
    let leader = group.leader().expect("a leader");
    let (late, third) = ((leader + 1) % 3, (leader + 2) % 3);
    a_few(&mut group, leader);
    group.until("it has all", |group| {
        let (late, lead) = (group.nodes[late].replica.status(), group.nodes[leader].replica.status());
        late.anchor == lead.end && late.applied == late.anchor
    });
    let known = group.nodes[late].replica.status().anchor.position;
    group.nodes[late].stopped = true;
    a_few(&mut group, leader);
    let saved = group.nodes[leader].replica.status().commit;
    group.until("the third has it", |group| group.nodes[third].replica.applied().position >= saved);
    // The third saves its state, as if somebody else needed it.
    let at = request_of(NodeId(leader as u8 + 1));
    let area = group.nodes[third].areas.control.clone();
    let before = RequestLine::read(&area, at).expect("it was asked for access");
    let ask = RequestLine {
        kind: request_kind::SAVE,
        sequence: before.sequence + 1,
        term: group.nodes[third].replica.status().promise.term().0,
        position: saved.0,
        ..before
    };
    ask.write(&area, at, before.version.wrapping_add(1));
    group.until("it has saved", |group| SnapshotLine::read(&group.nodes[third].areas.snapshot, 0).is_some());
    a_few(&mut group, leader);
    let beat = group.nodes[late].areas.log.clone();
    (0..BeatLine::WORDS as u64).for_each(|word| beat.store(log::BEAT + word * 8, 0));
    group.nodes[late].alive = false;
    group.until("the ring has gone on beyond what it knows", |group| {
        a_few(group, leader);
        group.nodes[third].replica.status().base > known
    });
    let base = group.nodes[third].replica.status().base;
    let found = SnapshotLine::read(&group.nodes[third].areas.snapshot, 0).expect("just seen").position;
    assert!(known < base && base.0 <= found, "{known:?} {base:?} {found}");
    group.nodes[leader].alive = false;
    group.nodes[late].alive = true;
    group.nodes[late].stopped = false;
    let committed = group.nodes[third].replica.status().commit;
    group.until("the other two go on", |group| {
        let status = group.nodes[third].replica.status();
        status.role == Role::Leader && status.commit > committed
    });
}
