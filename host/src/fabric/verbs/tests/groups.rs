//! Several groups on one device of one thread: completions find their group, keys stay in theirs, places are taken and left.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ringleader_core::layout::log;
use ringleader_core::options::Half;
use ringleader_core::verb::{Class, Status, Verb};

use super::super::cq::status_of;
use super::super::device::Device;
use super::super::parts::Parts;
use super::super::place::LogPlace;
use super::super::port::Choice;
use super::super::qp::{Numbers, Operation, Permission, QueuePair, Request};
use super::super::trial::rig::{self, Hub, Node, RING_LEN, SNAPSHOT_LEN, connect, id, open, write_log};
use super::{A, B};

/// A writer and an acceptor of one group, each on the device of its own thread.
fn pair(devices: &[Arc<Device>; 2], epoch: u32) -> (Node, Node) {
    let hub = Hub::default();
    let node = |device, node, peer| {
        let options = rig::options(node, &[peer], &Choice::default(), None);
        Node::new_on(device, &hub, &options).expect("a place")
    };
    let (mut a, mut b) = (node(&devices[0], A, B), node(&devices[1], B, A));
    let (numbers, _) = connect((&mut a, A), (&mut b, B), epoch);
    open((&mut a, A), (&mut b, B), epoch, numbers);
    (a, b)
}

fn devices(groups: usize) -> [Arc<Device>; 2] {
    [0, 1].map(|_| Device::open(&Choice::default(), groups, 1).expect("a device"))
}

#[test]
#[ignore = "needs an RDMA device: make lab"]
fn completions_find_their_group_whoever_takes_them() {
    let devices = devices(3);
    let mut groups: Vec<(Node, Node)> = (0..3).map(|_| pair(&devices, 1)).collect();
    // The ids of the core are the same in each group.
    let posted: Vec<_> = (0..20).map(|number| write_log(B, 1, number, log::RING, 64)).collect();
    for (a, _) in &mut groups {
        for verb in &posted {
            a.post(*verb);
        }
    }
    let deadline = Instant::now() + Duration::from_secs(20);
    // One of them takes all that there is.
    while groups[2].0.ended.len() < posted.len() {
        groups[2].0.reap();
        assert!(Instant::now() < deadline, "they complete");
    }
    std::thread::sleep(Duration::from_millis(200));
    groups[2].0.reap();
    for (a, _) in &mut groups {
        assert!(posted.iter().all(|verb| a.end(verb.id()).status == Status::Success));
        assert!(a.ended.is_empty(), "each once");
        assert_eq!(a.fabric.strays(), 0);
    }
    // A group that breaks breaks alone.
    let (a, b) = &mut groups[0];
    assert_eq!(b.does(Verb::Fence { id: id(A, Class::Fence, 1, 0) }).status, Status::Success);
    assert_ne!(a.does(write_log(B, 1, 50, log::RING, 64)).status, Status::Success);
    for (a, _) in &mut groups[1..] {
        assert_eq!(a.does(write_log(B, 1, 50, log::RING, 64)).status, Status::Success);
    }
}

#[test]
#[ignore = "needs an RDMA device: make lab"]
fn a_place_is_left_and_taken_again() {
    let devices = devices(2);
    let (_stays, mut first) = (pair(&devices, 1), pair(&devices, 1));
    for round in 0..3u32 {
        // What is under way when a group goes must not be taken for what the next one posts.
        for number in 0..10 {
            first.0.post(write_log(B, 1, number, log::RING, 64));
        }
        drop(first);
        assert_eq!(devices[0].groups(), 1);
        first = pair(&devices, 1);
        assert_eq!(devices[0].groups(), 2);
        for number in 0..10 {
            let done = first.0.does(write_log(B, 1, number, log::RING, 64));
            assert_eq!(done.status, Status::Success, "round {round}");
        }
        assert!(first.0.ended.is_empty());
    }
    // A queue has room for 16 peers at the least: here for 1, 1 and 14.
    let peers: Vec<u8> = (2..=15).collect();
    let of_many = || {
        let options = rig::options(A, &peers, &Choice::default(), None);
        Node::new_on(&devices[0], &Hub::default(), &options)
    };
    let _third = of_many().expect("room");
    let refused = of_many().err().expect("no room").to_string();
    assert!(refused.contains("completions"), "{refused}");
}

/// Each group has domains of its own: a key that another one gave out opens nothing on this one's queue pairs.
#[test]
#[ignore = "needs an RDMA device: make lab"]
fn a_key_of_another_group_is_void() {
    let device = Device::open(&Choice::default(), 2, 1).expect("a device");
    let parts = || {
        Parts::new(&device, (Half::Whole, &LogPlace::Own), (RING_LEN, SNAPSHOT_LEN), 1, 14, None, false)
            .expect("a place")
    };
    let ((one, _), (two, _)) = (parts(), parts());
    let (ours, theirs) =
        (one.log_area.region().expect("it is here"), two.log_area.region().expect("it is here"));
    let path = one.path(&one.own()).expect("an address");
    let itself = |qp: QueuePair| {
        let numbers = Numbers { qp: qp.number(), packet: 77 };
        qp.connect(&path, numbers, 77, Permission::ReadWrite).expect("connected");
        qp
    };
    let ended = |parts: &Parts, end: &mut Option<Status>| {
        parts.log_cq.poll(|done| *end = Some(status_of(done.code))).expect("a queue");
        parts.control_cq.poll(|done| *end = Some(status_of(done.code))).expect("a queue");
    };
    for (qp, source, target, expected) in [
        (one.log_qp(), &one.staging, ours, Status::Success),
        (one.log_qp(), &one.staging, theirs, Status::Refused),
        (one.control_qp(), &one.lines, &one.control_area, Status::Success),
        (one.control_qp(), &one.lines, &two.control_area, Status::Refused),
        (one.control_qp(), &one.lines, theirs, Status::Refused),
    ] {
        let qp = itself(qp.expect("made"));
        let request = Request {
            id: 1,
            operation: Operation::Write,
            local: source.range(0, 64).expect("inside"),
            address: target.address(),
            key: target.remote_key(),
        };
        assert!(qp.post(&[request]).is_ok());
        let (mut end, deadline) = (None, Instant::now() + Duration::from_secs(20));
        while end.is_none() {
            ended(&one, &mut end);
            assert!(Instant::now() < deadline, "it does not end");
        }
        assert_eq!(end, Some(expected));
    }
}
