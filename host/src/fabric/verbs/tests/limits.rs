//! What a device has only so much of, and that this side keeps to it: completions, READs, inline bytes, packets, pages.

use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ringleader_core::layout::log;
use ringleader_core::mem::Memory;
use ringleader_core::options::Half;
use ringleader_core::verb::{Class, Status, Verb};
use rustix::param::page_size;

use super::super::card::Own;
use super::super::cq::{CompletionQueue, status_of};
use super::super::device::{Device, completions_of};
use super::super::parts::{Areas, Parts};
use super::super::place::LogPlace;
use super::super::port::Choice;
use super::super::posted::DEPTH;
use super::super::qp::{Numbers, Operation, Path, Permission, QueuePair, Request};
use super::super::trial::rig::{RING_LEN, SNAPSHOT_LEN, connect, open, write_log};
use super::{A, B, two};
use crate::fabric::HUGE_PAGE;

fn parts() -> (Arc<Parts>, Areas) {
    parts_of(16)
}

/// Of a node with so many peers.
fn parts_of(peers: u64) -> (Arc<Parts>, Areas) {
    let device = Device::open(&Choice::default(), 1, 2).expect("a device");
    Parts::new(&device, (Half::Whole, &LogPlace::Own), (RING_LEN, SNAPSHOT_LEN), peers, 14, None, false)
        .expect("a device")
}

/// A queue pair connected to itself.
fn itself(qp: QueuePair, path: &Path) -> QueuePair {
    let numbers = Numbers { qp: qp.number(), packet: 77 };
    qp.connect(path, numbers, 77, Permission::ReadWrite).expect("connected");
    qp
}

/// Takes so many completions, in the order of their ids on each queue pair; how they ended.
fn take(cq: &CompletionQueue, count: usize) -> Vec<Status> {
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut ends = Vec::new();
    while ends.len() < count {
        cq.poll(|done| ends.push(status_of(done.code))).expect("the queue is not lost");
        assert!(Instant::now() < deadline, "{} of {count} completed", ends.len());
    }
    cq.poll(|done| panic!("one more: {done:?}")).expect("the queue is not lost");
    ends
}

fn write(parts: &Parts, offset: u64, len: u32) -> Request<'_> {
    Request {
        id: 1,
        operation: Operation::Write,
        local: parts.staging.range(offset, len).expect("inside"),
        address: parts.log_area.address() + offset,
        key: parts.log_area.remote_key(),
    }
}

/// Every send queue full, and nobody takes a completion before the last request has ended: well or, in ERR, not.
#[test]
#[ignore = "needs an RDMA device: make lab"]
fn completion_queues_hold_what_all_send_queues_hold() {
    let (parts, _areas) = parts();
    let path = parts.path(&parts.own()).expect("an address");
    let qps: Vec<QueuePair> = (0..2 * 16).map(|_| itself(parts.log_qp().expect("made"), &path)).collect();
    let all = qps.len() * DEPTH;
    assert_eq!(all as u64, completions_of(16));
    let fill = || {
        for qp in &qps {
            for _ in 0..DEPTH {
                assert!(qp.post(&[write(&parts, log::RING, 64)]).is_ok(), "a send queue has room");
            }
        }
        std::thread::sleep(Duration::from_millis(300));
    };
    fill();
    assert!(take(&parts.log_cq, all).iter().all(|end| *end == Status::Success));
    qps.iter().for_each(|qp| qp.fail().expect("to ERR"));
    fill();
    assert!(take(&parts.log_cq, all).iter().all(|end| *end == Status::Flushed));
    assert_eq!(parts.context.poll_event(), None, "no queue overflowed");
}

/// Both ends' limits of READs, the smaller packets of both ports; and READs beyond the limit wait their turn.
#[test]
#[ignore = "needs an RDMA device: make lab"]
fn a_path_keeps_to_what_both_ends_can() {
    let (parts, areas) = parts();
    let own = parts.own();
    let path = parts.path(&own).expect("an address");
    assert_eq!(path.mtu, own.mtu);
    assert_eq!(path.reads_started, own.reads_started.min(own.reads_served));
    // Powers of two: devices round up.
    let weak = Own { mtu: 1, reads_started: 4, reads_served: 2, ..own };
    let path = parts.path(&weak).expect("an address");
    assert_eq!((path.mtu, path.reads_started, path.reads_served), (1, 2, 4));
    let qp = itself(parts.control_qp().expect("made"), &path);
    assert_eq!(qp.in_force().expect("asked"), (1, 2, 4));
    let full = parts.path(&own).expect("an address");
    let wide = itself(parts.control_qp().expect("made"), &full);
    assert_eq!(wide.in_force().expect("asked"), (own.mtu, full.reads_started, full.reads_served));
    println!(
        "lab: packets of {} bytes, READs {} and {}",
        128u32 << own.mtu,
        own.reads_started,
        own.reads_served
    );
    areas.log.words()[0].store(99, std::sync::atomic::Ordering::Relaxed);
    for qp in [&qp, &wide] {
        for id in 0..DEPTH as u64 {
            let request = Request {
                id,
                operation: Operation::Read,
                local: parts.lines.range(0, 4096).expect("inside"),
                address: parts.log_readable.address(),
                key: parts.log_readable.remote_key(),
            };
            assert!(qp.post(&[request]).is_ok());
        }
        assert!(take(&parts.control_cq, DEPTH).iter().all(|end| *end == Status::Success));
    }
    assert_eq!(areas.staging.words()[0].load(std::sync::atomic::Ordering::Relaxed), 99);
}

/// A request with inlined bytes needs no key to them: with a wrong one it works up to the limit, and not beyond.
#[test]
#[ignore = "needs an RDMA device: make lab"]
fn small_writes_are_inlined() {
    let (parts, _areas) = parts();
    let path = parts.path(&parts.own()).expect("an address");
    let mut most = 0;
    for len in [64, 128, 192, 256, 320] {
        let qp = itself(parts.log_qp().expect("made"), &path);
        let mut request = write(&parts, log::RING, len);
        request.local.key ^= 0xffff;
        assert!(qp.post(&[request]).is_ok());
        if take(&parts.log_cq, 1)[0] == Status::Success {
            most = len;
        }
    }
    println!("lab: up to {most} bytes are inlined");
    assert!((64..=256).contains(&most), "lines are inlined, and no more than what is worth it");
}

/// What is posted in one loop to one queue pair, in pieces of a stream, costs one doorbell a chain.
#[test]
#[ignore = "needs an RDMA device: make lab"]
fn a_stream_rings_once_a_chain() {
    let (mut a, mut b) = two();
    let (numbers, _) = connect((&mut a, A), (&mut b, B), 1);
    open((&mut a, A), (&mut b, B), 1, numbers);
    let before = a.fabric.doorbells();
    let ids: Vec<_> = (0..16u32)
        .map(|piece| a.post(write_log(B, 1, piece, log::RING + u64::from(piece) * 8192, 8192)))
        .collect();
    assert!(ids.into_iter().all(|id| a.end(id).status == Status::Success));
    assert_eq!(a.fabric.doorbells() - before, 2);
    // What a commit waits for does not wait for what may come after it.
    let before = a.fabric.doorbells();
    let small = a.post(write_log(B, 1, 16, log::RING, 64));
    assert_eq!(a.fabric.doorbells() - before, 1);
    assert_eq!(a.end(small).status, Status::Success);
    let fenced = Verb::Fence { id: super::super::trial::rig::id(A, Class::Fence, 1, 0) };
    assert_eq!(b.does(fenced).status, Status::Success);
}

/// Bytes of a page of the mapping around an address.
fn page_len(address: u64) -> u64 {
    let maps = fs::read_to_string("/proc/self/smaps").expect("read");
    let mut inside = false;
    for line in maps.lines() {
        let range = line.split(' ').next().and_then(|range| range.split_once('-'));
        let bound = |hex: &str| u64::from_str_radix(hex, 16).ok();
        if let Some((Some(start), Some(end))) = range.map(|(start, end)| (bound(start), bound(end))) {
            inside = (start..end).contains(&address);
        } else if let Some(size) = line.strip_prefix("KernelPageSize:").filter(|_| inside) {
            return size.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10;
        }
    }
    panic!("no mapping has {address:#x}");
}

/// Needs root, as the lab has: it reserves huge pages.
#[test]
#[ignore = "needs an RDMA device and root: make lab"]
fn areas_are_in_huge_pages_where_there_are_some() {
    const POOL: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages";
    let before = fs::read_to_string(POOL).expect("huge pages");
    for (pages, wanted) in [("8", HUGE_PAGE), ("0", page_size() as u64)] {
        fs::write(POOL, pages).expect("root");
        let (parts, _areas) = parts();
        for region in [&parts.control_area, parts.log_area.region().expect("it is here"), &parts.staging] {
            assert_eq!(page_len(region.address()), wanted);
        }
    }
    fs::write(POOL, before).expect("root");
}
