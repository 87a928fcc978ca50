//! What the fabric does for the core, verb by verb.

use std::process::Command;
use std::time::{Duration, Instant};

use ringleader_core::layout::{log, snapshot};
use ringleader_core::options::Half;
use ringleader_core::verb::{Class, Plane, Source, Status, Verb};

use super::super::Device;
use super::super::trial::rig::{
    Hub, Node, RING_LEN, SNAPSHOT_LEN, connect, end_both, id, open, options, write_log,
};
use super::{A, B, Choice, two};
use crate::fabric::Fabric;

#[test]
#[ignore = "needs an RDMA device: make lab"]
fn lines_are_written_and_read() {
    let (mut a, mut b) = two();
    connect((&mut a, A), (&mut b, B), 1);
    a.staging.store(128, 77);
    let write = |plane_epoch, number| Verb::Write {
        id: id(B, Class::Request, plane_epoch, number),
        plane: Plane::Control,
        source: Source::Staging,
        from: 128,
        to: 1024,
        len: 192,
    };
    assert_eq!(a.does(write(1, 1)).status, Status::Success);
    assert_eq!(b.control.load(1024), 77);
    b.control.store(256, 99);
    let read = Verb::Read { id: id(B, Class::Progress, 1, 2), from: 256, to: 4096, len: 128 };
    assert_eq!(a.does(read).status, Status::Success);
    assert_eq!(a.staging.load(4096), 99);
    assert_eq!(a.does(write(2, 3)).status, Status::Flushed, "of another connection");
    // Out of the area: refused here, and the queue pair is broken.
    let outside = Verb::Read { id: id(B, Class::Progress, 1, 4), from: 1 << 16, to: 4096, len: 128 };
    assert_eq!(a.does(outside).status, Status::Failed);
    assert_eq!(a.does(write(1, 5)).status, Status::Flushed);
    // B hears that A wants a new session, and its queue pair is taken down.
    let at_a = a.post(Verb::Connect { id: id(B, Class::Connect, 2, 0) });
    let mut number = 10;
    loop {
        a.reap();
        let at_b = Verb::Write {
            id: id(A, Class::Request, 1, number),
            plane: Plane::Control,
            source: Source::Staging,
            from: 128,
            to: 1024,
            len: 192,
        };
        number += 1;
        if b.does(at_b).status != Status::Success {
            break;
        }
    }
    let at_b = b.post(Verb::Connect { id: id(A, Class::Connect, 2, 0) });
    let (done_a, done_b) = end_both((&mut a, at_a), (&mut b, at_b));
    assert_eq!((done_a.status, done_b.status), (Status::Success, Status::Success));
    assert_eq!(a.does(write(2, 6)).status, Status::Success);
    assert_eq!((a.fabric.strays(), b.fabric.strays()), (0, 0));
}

#[test]
#[ignore = "needs an RDMA device: make lab"]
fn only_who_is_granted_writes_a_log() {
    let (mut a, mut b) = two();
    let (numbers, _) = connect((&mut a, A), (&mut b, B), 1);
    for word in 0..64 {
        a.staging.store(log::RING + word * 8, 1000 + word);
    }
    assert_eq!(a.does(write_log(B, 1, 1, log::RING, 64)).status, Status::Flushed, "not open");
    // Armed, opened, not granted: the peer's device refuses, and everything behind is flushed.
    let armed = b.does(Verb::Arm { id: id(A, Class::Arm, 1, 0), numbers });
    let opened = a.does(Verb::Open { id: id(B, Class::Open, 1, 0), numbers: armed.value });
    assert_eq!(opened.status, Status::Success);
    let (first, second) =
        (a.post(write_log(B, 1, 2, log::RING, 64)), a.post(write_log(B, 1, 3, log::RING, 64)));
    assert_eq!(a.end(first).status, Status::Refused);
    assert_eq!(a.end(second).status, Status::Flushed);
    assert_eq!(b.log.load(log::RING), 0);
    // Closed, fenced, and up again with a grant.
    let closed = a.does(Verb::Close { id: id(B, Class::Close, 1, 0) });
    assert_eq!(closed.status, Status::Success);
    assert_ne!(closed.value, numbers, "another packet number");
    assert_eq!(b.does(Verb::Fence { id: id(A, Class::Fence, 1, 0) }).status, Status::Success);
    assert_eq!(b.does(Verb::Grant { id: id(A, Class::Grant, 1, 1) }).status, Status::Flushed);
    assert_eq!(b.does(Verb::Arm { id: id(A, Class::Arm, 1, 1), numbers }).status, Status::Failed, "used");
    open((&mut a, A), (&mut b, B), 2, closed.value);
    let written = a.does(write_log(B, 2, 4, log::RING, 512));
    assert_eq!(written.status, Status::Success);
    assert!((0..64).all(|word| b.log.load(log::RING + word * 8) == 1000 + word));
    // A stream: pieces are rung together, and all land.
    for piece in 0..16u64 {
        a.staging.store(log::RING + piece * 8192, piece + 1);
    }
    let ids: Vec<_> = (0..16u32)
        .map(|piece| a.post(write_log(B, 2, 5 + piece, log::RING + u64::from(piece) * 8192, 8192)))
        .collect();
    assert!(ids.into_iter().all(|id| a.end(id).status == Status::Success));
    assert!((0..16).all(|piece| b.log.load(log::RING + piece * 8192) == piece + 1));
    // Out of the log area: refused here.
    assert_eq!(a.does(write_log(B, 2, 30, 1 << 40, 64)).status, Status::Failed);
    assert_eq!(a.does(write_log(B, 2, 31, log::RING, 64)).status, Status::Flushed);
    assert_eq!((a.fabric.strays(), b.fabric.strays()), (0, 0));
    assert!(a.ended.is_empty() && b.ended.is_empty());
}

#[test]
#[ignore = "needs an RDMA device: make lab"]
fn a_snapshot_is_fetched_and_never_written() {
    let (mut a, mut b) = two();
    connect((&mut a, A), (&mut b, B), 1);
    let end = snapshot::BYTES + SNAPSHOT_LEN;
    for at in (snapshot::BYTES..end).step_by(8) {
        b.snapshot.store(at, at);
    }
    let piece = |number, from, len| Verb::Fetch { id: id(B, Class::Fetch, 1, number), from, to: from, len };
    let ids: Vec<_> = (0..SNAPSHOT_LEN / 65536)
        .map(|at| a.post(piece(at as u32, snapshot::BYTES + at * 65536, 65536)))
        .collect();
    assert!(ids.into_iter().all(|id| a.end(id).status == Status::Success));
    assert!((snapshot::BYTES..end).step_by(8).all(|at| a.snapshot.load(at) == at));
    assert_eq!(a.does(piece(90, end, 8)).status, Status::Failed, "behind the end");
    assert_eq!((a.fabric.strays(), b.fabric.strays()), (0, 0));
}

#[test]
#[ignore = "needs an RDMA device: make lab"]
fn a_word_of_the_log_confirms_what_was_written_before() {
    let (mut a, mut b) = two();
    let (numbers, _) = connect((&mut a, A), (&mut b, B), 1);
    open((&mut a, A), (&mut b, B), 1, numbers);
    let confirm = |epoch, number, to| Verb::Confirm {
        id: id(B, Class::Confirm, epoch, number),
        from: log::RING + 504,
        to,
    };
    for round in 0..100u32 {
        a.staging.store(log::RING + 504, u64::from(round) + 1);
        let written = a.post(write_log(B, 1, 2 * round, log::RING, 512));
        let read = a.post(confirm(1, 2 * round + 1, 960));
        assert_eq!(a.end(written).status, Status::Success);
        assert_eq!(a.end(read).status, Status::Success);
        assert_eq!(a.staging.load(960), u64::from(round) + 1);
    }
    assert_eq!(b.does(Verb::Fence { id: id(A, Class::Fence, 1, 1) }).status, Status::Success);
    assert_ne!(a.does(confirm(1, 300, 960)).status, Status::Success, "fenced");
    assert_eq!((a.fabric.strays(), b.fabric.strays()), (0, 0));
}

#[test]
#[ignore = "needs an RDMA device: make lab"]
fn what_is_under_way_to_a_dead_peer_ends() {
    let (mut a, mut b) = two();
    let (numbers, _) = connect((&mut a, A), (&mut b, B), 1);
    open((&mut a, A), (&mut b, B), 1, numbers);
    drop(b);
    let ids: Vec<_> = (0..30).map(|number| a.post(write_log(B, 1, number, log::RING, 64))).collect();
    let ends: Vec<_> = ids.into_iter().map(|id| a.end(id).status).collect();
    assert_eq!(ends[0], Status::Unreachable);
    assert!(ends[1..].iter().all(|end| *end == Status::Flushed), "{ends:?}");
    assert_eq!(a.does(Verb::Close { id: id(B, Class::Close, 1, 0) }).status, Status::Success);
    // Closed while everything is still under way: all of it ends before the close does.
    let connect = a.post(Verb::Connect { id: id(B, Class::Connect, 2, 0) });
    let again = a.post(Verb::Connect { id: id(B, Class::Connect, 3, 0) });
    assert_eq!(a.end(connect).status, Status::Flushed, "one that is wanted no more");
    (0..200).for_each(|_| {
        a.reap();
    });
    assert!(a.take(again).is_none(), "nobody is there");
    assert_eq!(a.fabric.strays(), 0);
}

#[test]
#[ignore = "needs an RDMA device: make lab"]
fn a_close_drains_what_is_under_way() {
    let (mut a, mut b) = two();
    let (mut numbers, _) = connect((&mut a, A), (&mut b, B), 1);
    for epoch in 1..20 {
        open((&mut a, A), (&mut b, B), epoch, numbers);
        assert_eq!(b.does(Verb::Fence { id: id(A, Class::Fence, epoch, 0) }).status, Status::Success);
        // Nobody answers any more: the transport goes on trying.
        let ids: Vec<_> = (0..20).map(|number| a.post(write_log(B, epoch, number, log::RING, 256))).collect();
        let closed = a.does(Verb::Close { id: id(B, Class::Close, epoch, 0) });
        assert_eq!(closed.status, Status::Success);
        numbers = closed.value;
        for id in ids {
            let done = a.take(id).expect("it ended before the close");
            assert_ne!(done.status, Status::Success);
        }
    }
    assert_eq!(a.fabric.strays(), 0);
}

/// A fence whose READ cannot leave the device is no fence, and not stuck either: it is done when the port is up again.
#[test]
#[ignore = "needs a soft-RoCE device on v0: make lab"]
fn a_fence_waits_for_the_port() {
    let (mut a, mut b) = two();
    let (numbers, _) = connect((&mut a, A), (&mut b, B), 1);
    open((&mut a, A), (&mut b, B), 1, numbers);
    assert_eq!(a.does(write_log(B, 1, 1, log::RING, 64)).status, Status::Success);
    assert!(!b.fabric.is_cut_off());
    let set = |state: &str| {
        let status = Command::new("ip").args(["link", "set", "v0", state]).status();
        assert!(status.expect("ip runs").success());
    };
    set("down");
    let deadline = Instant::now() + Duration::from_secs(10);
    while !b.fabric.is_cut_off() && Instant::now() < deadline {
        b.reap();
    }
    assert!(b.fabric.is_cut_off());
    let fence = |number| Verb::Fence { id: id(A, Class::Fence, 1, number) };
    assert_eq!(b.does(fence(0)).status, Status::Failed);
    assert!(b.fabric.is_cut_off());
    set("up");
    let mut number = 1;
    while b.does(fence(number)).status != Status::Success {
        assert!(Instant::now() < deadline + Duration::from_secs(20), "never fenced");
        number += 1;
    }
    assert!(b.fabric.is_cut_off(), "it has time");
}

/// A host knocks at its acceptor, which arms it, lets it write and fences it like any other; and has it READ, and nobody else.
#[test]
#[ignore = "needs an RDMA device: make lab"]
fn a_host_writes_to_its_acceptor_and_reads_it_back() {
    let hub = Hub::default();
    let part = |node, half, peers: &[u8]| {
        let device = Device::open(&Choice::default(), 1, 2).expect("a device");
        let options = options(node, peers, &Choice::default(), None);
        let options = super::super::Options { half, ..options };
        Node::new_on(&device, &hub, &options).expect("a node on it")
    };
    let (mut acceptor, mut host) = (part(A, Half::Acceptor, &[B]), part(A, Half::Proposer, &[A, B]));
    let connected = host.does(Verb::Connect { id: id(A, Class::Connect, 1, 0) });
    assert_eq!(connected.status, Status::Success, "nothing was asked of the acceptor");
    open((&mut host, A), (&mut acceptor, A), 1, connected.value);
    host.staging.store(log::RING, 7);
    assert_eq!(host.does(write_log(A, 1, 1, log::RING, 64)).status, Status::Success);
    assert_eq!((acceptor.log.load(log::RING), host.log.load(log::RING)), (7, 0));
    let pull = |number, plane, at, len| Verb::Pull { id: id(A, Class::Pull, 1, number), plane, at, len };
    assert_eq!(host.does(pull(2, Plane::Log, log::RING, 64)).status, Status::Success);
    assert_eq!(host.log.load(log::RING), 7);
    acceptor.control.store(64, 9);
    assert_eq!(host.does(pull(3, Plane::Control, 0, 4096)).status, Status::Success);
    assert_eq!(host.control.load(64), 9);
    host.snapshot.store(65536, 11);
    let push = |number, at, len| Verb::Push { id: id(A, Class::Push, 1, number), at, len };
    assert_eq!(host.does(push(7, 65536, 64)).status, Status::Success);
    assert_eq!(acceptor.snapshot.load(65536), 11);
    assert_eq!(acceptor.does(Verb::Fence { id: id(A, Class::Fence, 1, 0) }).status, Status::Success);
    assert_ne!(host.does(write_log(A, 1, 4, log::RING + 64, 64)).status, Status::Success);
    assert_eq!(acceptor.log.load(log::RING + 64), 0);
    // Only inside the areas, and of nobody but the own acceptor.
    assert_eq!(host.does(pull(5, Plane::Log, log::RING + RING_LEN, 64)).status, Status::Failed);
    let (mut a, mut b) = two();
    connect((&mut a, A), (&mut b, B), 1);
    b.log.store(log::RING, 5);
    let foreign = Verb::Pull { id: id(B, Class::Pull, 1, 1), plane: Plane::Log, at: log::RING, len: 64 };
    assert_eq!(a.does(foreign).status, Status::Failed);
    assert_eq!(a.log.load(log::RING), 0);
    a.snapshot.store(65536, 13);
    let foreign = Verb::Push { id: id(B, Class::Push, 1, 2), at: 65536, len: 64 };
    assert_eq!(a.does(foreign).status, Status::Failed);
    assert_eq!(b.snapshot.load(65536), 0);
}
