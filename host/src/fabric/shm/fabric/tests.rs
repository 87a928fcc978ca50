//! Two fabrics in one process: states of queue pairs, statuses, bounds. Other processes are in the process tests.

use super::*;
use std::sync::atomic::Ordering;

use ringleader_core::mem::Area;
use ringleader_core::mem::Memory;
use ringleader_core::types::Epoch;
use ringleader_core::verb::Class;

const SNAPSHOT: u64 = 1 << 17;
const RING: u64 = 512 * 1024;
const A: NodeId = NodeId(1);
const B: NodeId = NodeId(2);

struct Side {
    fabric: ShmFabric,
    control: Area<Mapped>,
    log: Area<Mapped>,
    staging: Area<Mapped>,
    snapshot: Area<Mapped>,
}

impl Side {
    fn new(dir: &Path, node: NodeId, boot: u64) -> Side {
        Side::of(dir, node, Half::Whole, boot)
    }

    fn of(dir: &Path, node: NodeId, half: Half, boot: u64) -> Side {
        let options = Options {
            dir,
            node,
            boot: Boot(boot),
            incarnation: Incarnation(boot),
            ring_len: RING,
            snapshot_len: if half == Half::Whole { SNAPSHOT } else { 0 },
            half,
            group_name: None,
            fence_limit_ns: 1_000_000_000,
        };
        let (fabric, areas) = ShmFabric::create(&options).unwrap();
        let Areas { control, log, staging, snapshot } = areas;
        let [control, log, staging, snapshot] = [control, log, staging, snapshot].map(Area::new);
        Side { fabric, control, log, staging, snapshot }
    }

    /// Posts one verb and takes its completion.
    fn run(&mut self, verb: Verb) -> (Status, u64) {
        self.fabric.post(&verb);
        let done = self.reap_one().expect("every verb here completes at once");
        assert_eq!(done.id, verb.id());
        (done.status, done.value)
    }

    fn reap_one(&mut self) -> Option<Completion> {
        let id = RequestId { peer: A, class: Class::Progress, epoch: Epoch(0), number: 0 };
        let mut out = [Completion { id, status: Status::Failed, value: 0 }];
        (self.fabric.reap(&mut out) == 1).then(|| out[0])
    }

    fn connect(&mut self, peer: NodeId) -> u64 {
        let (status, value) = self.run(Verb::Connect { id: id(peer, Class::Connect, 1) });
        assert_eq!(status, Status::Success);
        value
    }

    fn write(&mut self, peer: NodeId, epoch: u32, to: u64, len: u32) -> Status {
        let id = id(peer, Class::Entries, epoch);
        self.run(Verb::Write { id, plane: Plane::Log, source: Source::Staging, from: 0, to, len }).0
    }

    fn tell(&mut self, peer: NodeId, to: u64, len: u32) -> Status {
        let id = id(peer, Class::Request, 1);
        self.run(Verb::Write { id, plane: Plane::Control, source: Source::Staging, from: 0, to, len }).0
    }

    fn ask(&mut self, peer: NodeId, from: u64, len: u32) -> Status {
        let id = id(peer, Class::Progress, 1);
        self.run(Verb::Read { id, from, to: 4096, len }).0
    }

    /// Looks at the peers now rather than when it is time.
    fn watch(&mut self) {
        self.fabric.looked_ns = 0;
        self.fabric.watch();
    }
}

fn id(peer: NodeId, class: Class, epoch: u32) -> RequestId {
    RequestId { peer, class, epoch: Epoch(epoch), number: 7 }
}

fn arm(epoch: u32, numbers: u64) -> Verb {
    Verb::Arm { id: id(A, Class::Arm, epoch), numbers }
}

fn grant(epoch: u32) -> Verb {
    Verb::Grant { id: id(A, Class::Grant, epoch) }
}

fn fence_verb(epoch: u32) -> Verb {
    Verb::Fence { id: id(A, Class::Fence, epoch) }
}

fn open(epoch: u32, numbers: u64) -> Verb {
    Verb::Open { id: id(B, Class::Open, epoch), numbers }
}

fn close(epoch: u32) -> Verb {
    Verb::Close { id: id(B, Class::Close, epoch) }
}

#[test]
fn who_has_other_memory_is_not_connected_to_and_hears_why() {
    let dir = tempfile::tempdir().unwrap();
    let create = |node, half, ring_len, snapshot_len| {
        let (boot, incarnation) = (Boot(half as u64 + 100 * u64::from(node)), Incarnation(7));
        let dir = dir.path();
        let of = Options {
            dir,
            node: NodeId(node),
            half,
            boot,
            incarnation,
            ring_len,
            snapshot_len,
            group_name: GroupName::new(if node == 4 { "stock" } else { "orders" }),
            fence_limit_ns: 1,
        };
        ShmFabric::create(&of).unwrap().0
    };
    let said = |from: &mut ShmFabric, to| {
        from.post(&Verb::Connect { id: id(to, Class::Connect, 1) });
        let why = from.peers[to.slot()].logged.clone();
        assert_eq!(from.peers[to.slot()].is_up, why.is_none());
        why
    };
    let mut host = create(1, Half::Proposer, RING, SNAPSHOT);
    let _acceptor = create(1, Half::Acceptor, RING, 2 * SNAPSHOT);
    let _fits = create(2, Half::Whole, RING, 2 * SNAPSHOT);
    let _longer = create(3, Half::Whole, 2 * RING, SNAPSHOT);
    let why = said(&mut host, A).expect("it could not save there");
    assert!(why.contains("131072") && why.contains("262144") && why.contains("acceptor"), "{why}");
    assert_eq!(said(&mut host, B), None, "its own affair");
    let _stock = create(4, Half::Whole, RING, SNAPSHOT);
    let why = said(&mut host, NodeId(4)).expect("it is no member");
    assert!(why.contains("its group is \"stock\", and this node's is \"orders\""), "{why}");
    let why = said(&mut host, NodeId(3)).expect("its log could not be written");
    assert!(why.contains("its ring has 1048576 bytes, and this node's has 524288"), "{why}");
}

/// A writes, B accepts; connected both ways.
fn pair() -> (tempfile::TempDir, Side, Side, u64, u64) {
    let dir = tempfile::tempdir().unwrap();
    let (mut a, mut b) = (Side::new(dir.path(), A, 100), Side::new(dir.path(), B, 200));
    let (a_number, b_number) = (a.connect(B), b.connect(A));
    (dir, a, b, a_number, b_number)
}

const OK: (Status, u64) = (Status::Success, 0);

#[test]
fn a_write_lands_only_while_armed_opened_and_granted() {
    let (_dir, mut a, mut b, a_number, _) = pair();
    a.staging.write(0, &[1, 2, 3, 4, 5, 6, 7, 8, 9]);
    assert_eq!(a.write(B, 1, 64, 72), Status::Flushed, "the end is closed");

    let (status, b_number) = b.run(arm(1, a_number));
    assert_eq!(status, Status::Success);
    assert_eq!(a.run(open(1, b_number)), OK);
    assert_eq!(a.write(B, 1, 64, 72), Status::Refused, "armed is not granted");
    assert_eq!(a.write(B, 1, 64, 72), Status::Flushed, "a refusal breaks the queue pair");
    assert_eq!(a.run(open(1, b_number)).0, Status::Failed, "it must be closed first");
    assert_eq!(a.run(close(1)), (Status::Success, a_number));
    assert_eq!(a.run(open(1, b_number)), OK);

    assert_eq!(b.run(grant(1)), OK);
    assert_eq!(a.write(B, 2, 64, 72), Status::Flushed, "another epoch");
    assert_eq!(a.write(B, 1, 64, 72), Status::Success);
    let mut words = [0; 9];
    b.log.read(64, &mut words);
    assert_eq!(words, [1, 2, 3, 4, 5, 6, 7, 8, 9]);
    assert_eq!(b.log.load(64 + 72), 0);

    assert_eq!(b.run(fence_verb(1)), OK);
    a.staging.store(0, 99);
    assert_eq!(a.write(B, 1, 64, 8), Status::Refused);
    assert_eq!(b.log.load(64), 1);
    assert_eq!(b.fabric.shots(), 0);
}

#[test]
fn an_acceptor_keeps_to_its_order() {
    let (_dir, mut a, mut b, a_number, b_number) = pair();
    assert_eq!(b.run(grant(1)).0, Status::Flushed, "nothing is armed");
    assert_eq!(b.run(fence_verb(1)), OK, "nothing to fence");
    assert_eq!(b.run(arm(0, a_number)).0, Status::Failed, "epoch 0 is nobody's");
    assert_eq!(b.run(arm(1, a_number + 1)).0, Status::Unreachable, "numbers of another process");
    assert_eq!(b.run(arm(1, a_number)), (Status::Success, b_number));
    assert_eq!(b.run(grant(2)).0, Status::Flushed, "another epoch");
    assert_eq!(b.run(grant(1)), OK);
    assert_eq!(b.run(arm(2, a_number)).0, Status::Failed, "granted, not fenced");
    assert_eq!(b.run(fence_verb(1)), OK);
    assert_eq!(b.run(arm(1, a_number)).0, Status::Failed, "an epoch is not used twice");
    assert_eq!(b.run(arm(2, a_number)).0, Status::Success);
    assert_eq!(a.run(open(2, b_number)), OK);
    assert_eq!(a.write(B, 2, 0, 64), Status::Refused);
    assert_eq!(b.run(Verb::Arm { id: id(NodeId(9), Class::Arm, 1), numbers: 0 }).0, Status::Unreachable);
}

#[test]
fn wrong_ranges_fail_and_break_the_queue_pair() {
    let (_dir, mut a, mut b, a_number, b_number) = pair();
    b.run(arm(1, a_number));
    b.run(grant(1));
    let end = log::len(RING);
    for (from, to, len) in [
        (0, end, 8),
        (0, end - 8, 16),
        (0, u64::MAX - 7, 8),
        (0, u64::MAX, 8),
        (u64::MAX - 7, 0, 8),
        (end, 0, 8),
        (0, 0, u32::MAX - 7),
        (0, 4, 8),
        (4, 0, 8),
        (0, 0, 12),
    ] {
        a.run(close(1));
        assert_eq!(a.run(open(1, b_number)), OK);
        let id = id(B, Class::Entries, 1);
        let verb = Verb::Write { id, plane: Plane::Log, source: Source::Staging, from, to, len };
        assert_eq!(a.run(verb).0, Status::Failed, "{from} {to} {len}");
        assert_eq!(a.write(B, 1, 0, 8), Status::Flushed);

        a.connect(B);
        let control = Verb::Write { id, plane: Plane::Control, source: Source::Log, from, to, len };
        assert_eq!(a.run(control).0, Status::Failed, "{from} {to} {len}");
        assert_eq!(a.tell(B, 0, 8), Status::Flushed);
        a.connect(B);
        assert_eq!(a.run(Verb::Read { id, from: to, to: from, len }).0, Status::Failed);
        assert_eq!(a.ask(B, 0, 8), Status::Flushed);
        a.connect(B);
    }
    assert_eq!(a.run(open(1, b_number)), OK);
    assert_eq!(a.write(B, 1, end - 64, 64), Status::Success, "the very end is inside");
}

#[test]
fn control_lines_are_written_read_and_swapped_one_sidedly() {
    let (_dir, mut a, b, _, _) = pair();
    a.staging.write(0, &[11, 12]);
    assert_eq!(a.tell(B, 1024, 16), Status::Success);
    assert_eq!((b.control.load(1024), b.control.load(1032)), (11, 12));
    b.control.store(128, 77);
    assert_eq!(a.ask(B, 128, 8), Status::Success);
    assert_eq!(a.staging.load(4096), 77);

    let swap = id(B, Class::Progress, 1);
    for (expected, desired, found) in [(77, 78, 77), (77, 79, 78), (78, 80, 78)] {
        a.fabric.post_cas(swap, 128, expected, desired);
        let done = a.reap_one().unwrap();
        assert_eq!((done.status, done.value), (Status::Success, found));
    }
    assert_eq!(b.control.load(128), 80);
    a.fabric.post_cas(swap, ringleader_core::layout::control::LEN, 0, 0);
    assert_eq!(a.reap_one().unwrap().status, Status::Failed);
    a.fabric.post_cas(swap, 128, 0, 0);
    assert_eq!(a.reap_one().unwrap().status, Status::Flushed);
}

#[test]
fn a_snapshot_is_fetched_and_a_word_of_the_log_confirms_as_long_as_there_is_a_grant() {
    let (_dir, mut a, mut b, a_number, b_number) = pair();
    b.snapshot.store(65536, 7);
    b.snapshot.store(65536 + 1016, 9);
    let fetch = |from, to, len| Verb::Fetch { id: id(B, Class::Fetch, 1), from, to, len };
    assert_eq!(a.run(fetch(65536, 65536, 1024)).0, Status::Success);
    assert_eq!((a.snapshot.load(65536), a.snapshot.load(65536 + 1016)), (7, 9));
    assert_eq!(a.run(fetch(65536 + SNAPSHOT, 0, 8)).0, Status::Failed, "behind the end");
    a.connect(B);

    let confirm = |from, to| Verb::Confirm { id: id(B, Class::Confirm, 1), from, to };
    assert_eq!(a.run(confirm(0, 960)).0, Status::Flushed, "nothing is open");
    assert_eq!(b.run(arm(1, a_number)).0, Status::Success);
    assert_eq!(a.run(open(1, b_number)).0, Status::Success);
    assert_eq!(b.run(grant(1)).0, Status::Success);
    a.staging.store(56, 11);
    assert_eq!(a.write(B, 1, 0, 64), Status::Success);
    assert_eq!(a.run(confirm(56, 960)).0, Status::Success);
    assert_eq!(a.staging.load(960), 11);
    assert_eq!(b.run(fence_verb(1)).0, Status::Success);
    assert_eq!(a.run(confirm(56, 960)).0, Status::Refused);
}

#[test]
fn nobody_is_reached_who_is_not_there() {
    let dir = tempfile::tempdir().unwrap();
    let mut a = Side::new(dir.path(), A, 100);
    for (peer, status) in [
        (B, Status::Unreachable),
        (A, Status::Failed),
        (NodeId(0), Status::Failed),
        (NodeId(16), Status::Failed),
        (NodeId(255), Status::Failed),
    ] {
        assert_eq!(a.ask(peer, 0, 8), Status::Flushed, "never connected");
        assert_eq!(a.run(Verb::Connect { id: id(peer, Class::Connect, 1) }).0, status);
        let after = if peer == B { Status::Unreachable } else { Status::Flushed };
        assert_eq!(a.ask(peer, 0, 8), after);
        assert_eq!(a.write(peer, 1, 0, 8), after);
    }
}

#[test]
fn a_closed_peer_is_gone_and_its_successor_is_another() {
    let (dir, mut a, b, a_number, b_number) = pair();
    drop(b);
    assert_eq!(a.ask(B, 0, 8), Status::Success, "its memory still answers until the watch looks");
    a.watch();
    assert_eq!(a.ask(B, 0, 8), Status::Unreachable);
    assert_eq!(a.write(B, 1, 0, 8), Status::Unreachable);
    assert_eq!(a.run(Verb::Connect { id: id(B, Class::Connect, 2) }).0, Status::Unreachable);

    let mut b = Side::new(dir.path(), B, 201);
    b.connect(A);
    a.connect(B);
    let (status, new_number) = b.run(arm(1, a_number));
    assert_eq!(status, Status::Success);
    assert_ne!(new_number, b_number);
    assert_eq!(a.run(open(1, b_number)).0, Status::Unreachable, "numbers of the dead one");
    assert_eq!(a.run(open(1, new_number)), OK);
    assert_eq!(b.run(grant(1)), OK);
    assert_eq!(a.write(B, 1, 0, 8), Status::Success);
}

#[test]
fn a_grant_for_a_dead_process_does_not_serve_its_successor() {
    let (dir, a, mut b, a_number, _) = pair();
    b.run(arm(1, a_number));
    b.run(grant(1));
    drop(a);
    let mut a = Side::new(dir.path(), A, 101);
    a.connect(B);
    assert_eq!(a.run(open(1, u64::from(tag_of(200)))), OK);
    assert_eq!(a.write(B, 1, 0, 8), Status::Refused);
}

#[test]
fn a_mark_left_by_a_dead_process_delays_no_fence() {
    let (_dir, _a, mut b, a_number, _) = pair();
    b.run(arm(1, a_number));
    b.run(grant(1));
    // As if an earlier process of node 1 had died in the middle of a copy, and this one had not written yet.
    b.fabric.region.word(header::busy_of(A)).words()[0].store(fence::writer(99, 1), Ordering::Relaxed);
    assert_eq!(b.run(fence_verb(1)), OK);
}

#[test]
fn verbs_wait_behind_a_fence_in_their_order() {
    let (_dir, _a, mut b, a_number, b_number) = pair();
    b.run(arm(1, a_number));
    b.run(grant(1));
    let busy = b.fabric.region.word(header::busy_of(A));
    busy.words()[0].store(fence::writer(tag_of(100), 1), Ordering::Relaxed);
    for verb in [fence_verb(1), arm(2, a_number), grant(2)] {
        b.fabric.post(&verb);
    }
    for _ in 0..100 {
        assert_eq!(b.reap_one(), None);
    }
    busy.words()[0].store(fence::NOBODY, Ordering::Release);
    let classes: Vec<_> = std::iter::from_fn(|| b.reap_one())
        .map(|done| (done.id.class, done.id.epoch.0, done.status, done.value))
        .collect();
    assert_eq!(
        classes,
        [
            (Class::Fence, 1, Status::Success, 0),
            (Class::Arm, 2, Status::Success, b_number),
            (Class::Grant, 2, Status::Success, 0),
        ]
    );
}

#[test]
fn a_second_owner_is_turned_away_and_a_reconnect_keeps_the_mapping() {
    let (dir, mut a, b, _, _) = pair();
    let options = Options {
        dir: dir.path(),
        half: Half::Whole,
        node: A,
        boot: Boot(1),
        incarnation: Incarnation(1),
        ring_len: RING,
        snapshot_len: SNAPSHOT,
        group_name: None,
        fence_limit_ns: 1,
    };
    let error = ShmFabric::create(&options).unwrap_err().to_string();
    let path = super::super::path_of(dir.path(), A);
    assert_eq!(error, format!("{}: in use by process {}", path.display(), std::process::id()));
    let before = a.fabric.peers[2].link.as_ref().unwrap() as *const Link;
    let pidfd = a.fabric.peers[2].link.as_ref().unwrap().process.clone();
    a.connect(B);
    assert_eq!(a.fabric.peers[2].link.as_ref().unwrap() as *const Link, before);
    assert!(std::sync::Arc::ptr_eq(&pidfd, &a.fabric.peers[2].link.as_ref().unwrap().process));
    b.fabric.unlink().unwrap();
    assert!(!super::super::path_of(dir.path(), B).exists());
}

/// A host takes its acceptor for one peer among others, which arms it, lets it write and fences it like any other; and has it READ.
#[test]
fn a_host_writes_to_its_acceptor_and_reads_it_back() {
    let dir = tempfile::tempdir().unwrap();
    let mut acceptor = Side::of(dir.path(), A, Half::Acceptor, 1);
    let mut host = Side::of(dir.path(), A, Half::Proposer, 2);
    let numbers = host.connect(A);
    let armed = acceptor.run(Verb::Arm { id: id(A, Class::Arm, 1), numbers });
    assert_eq!(armed.0, Status::Success, "its process is found, though nobody connected to it");
    assert_eq!(acceptor.run(Verb::Grant { id: id(A, Class::Grant, 1) }).0, Status::Success);
    assert_eq!(host.run(Verb::Open { id: id(A, Class::Open, 1), numbers: armed.1 }).0, Status::Success);
    host.staging.store(1 << 16, 7);
    let write = Verb::Write {
        id: id(A, Class::Entries, 1),
        plane: Plane::Log,
        source: Source::Staging,
        from: 1 << 16,
        to: 1 << 16,
        len: 64,
    };
    assert_eq!(host.run(write).0, Status::Success);
    assert_eq!((acceptor.log.load(1 << 16), host.log.load(1 << 16)), (7, 0));
    let pull = |plane, at, len| Verb::Pull { id: id(A, Class::Pull, 1), plane, at, len };
    assert_eq!(host.run(pull(Plane::Log, 1 << 16, 64)).0, Status::Success);
    assert_eq!(host.log.load(1 << 16), 7);
    acceptor.control.store(64, 9);
    assert_eq!(host.run(pull(Plane::Control, 0, 4096)).0, Status::Success);
    assert_eq!(host.control.load(64), 9);
    assert_eq!(acceptor.run(Verb::Fence { id: id(A, Class::Fence, 1) }).0, Status::Success);
    assert_eq!(host.run(write).0, Status::Refused);
    // Only a host does that, only of its own acceptor, and only inside the areas.
    assert_eq!(host.run(pull(Plane::Log, RING, 1 << 17)).0, Status::Failed);
    let mut other = Side::new(dir.path(), B, 3);
    other.connect(A);
    assert_eq!(other.run(pull(Plane::Log, 1 << 16, 64)).0, Status::Failed);
    assert_eq!(other.log.load(1 << 16), 0);
    let connect = Verb::Connect { id: id(B, Class::Connect, 1) };
    assert_eq!(other.run(connect).0, Status::Failed, "a node that is whole has no way to itself");
}
