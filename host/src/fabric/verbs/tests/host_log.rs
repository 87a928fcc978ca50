//! A log area that is in the memory of a host: here that of another opening of the same device, whose domain and key the acceptor is
//! lent as DOCA lends them.

#![expect(unsafe_code, reason = "lends a domain")]

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ringleader_core::layout::{BeatLine, Line, log};
use ringleader_core::mem::Area;
use ringleader_core::options::Half;
use ringleader_core::verb::{Class, Plane, Source, Status, Verb};

use super::super::device::Device;
use super::super::domain::Domain;
use super::super::memory::{Access, Region};
use super::super::place::{HostLog, Lender, LentLog, LogPlace};
use super::super::port::{self, Choice};
use super::super::trial::rig::{self, Hub, Node, RING_LEN, bytes, connect, id, open, write_log};
use super::{A, B};
use crate::fabric::map::Mapping;
use crate::fabric::{Fabric, Mapped};

/// The host's memory, registered until it is taken away.
struct Lent {
    memory: Mapped,
    region: Arc<Mutex<Option<Region>>>,
    log: HostLog,
}

fn lend() -> Lent {
    let (context, _) = port::open(&Choice::default()).expect("a device");
    let domain = Domain::new(&context).expect("a domain");
    let len = log::len(RING_LEN);
    let memory = Mapping::anonymous(len).expect("memory").slice(0, len);
    let region = Region::new(&domain, &memory, Access::Write).expect("registered");
    let (at, key) = ((region.address(), region.len()), region.remote_key());
    let region = Arc::new(Mutex::new(Some(region)));
    let kept: Lender = Arc::new((context, Arc::clone(&domain), Arc::clone(&region)));
    // SAFETY: the domain is held by what is dropped last.
    let log = unsafe { HostLog::new(domain.as_lent(), at, key, kept) };
    Lent { memory, region, log }
}

/// A writer, and an acceptor whose log is in its host's memory; granted.
fn pair(lent: &Lent) -> (Node, Node) {
    let _ = tracing_subscriber::fmt().with_max_level(tracing::Level::WARN).without_time().try_init();
    let hub = Hub::default();
    let mut a = Node::new(&hub, A, &[B], &Choice::default(), None).expect("a device");
    let mut options = rig::options(B, &[A], &Choice::default(), None);
    (options.half, options.snapshot_len) = (Half::Acceptor, 0);
    options.log = LogPlace::OfHost(lent.log.clone());
    let device = Device::lent(&lent.log, &Choice::default(), 1).expect("a device");
    let mut b = Node::new_on(&device, &hub, &options).expect("a place");
    let (numbers, _) = connect((&mut a, A), (&mut b, B), 1);
    open((&mut a, A), (&mut b, B), 1, numbers);
    (a, b)
}

/// Waits until something is.
fn until(what: &str, mut is: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !is() {
        assert!(Instant::now() < deadline, "{what} does not come");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// WRITEs a beat that vouches for so many bytes.
fn beat(a: &mut Node, counter: u64, matched: u64) -> Status {
    let line = BeatLine { leader: 1 << 8 | u64::from(A), counter, matched, ..BeatLine::default() };
    line.write(&a.staging, log::BEAT, counter as u32);
    let id = id(B, Class::Beat, 1, counter as u32);
    let verb = Verb::Write {
        id,
        plane: Plane::Log,
        source: Source::Staging,
        from: log::BEAT,
        to: log::BEAT,
        len: 64,
    };
    a.does(verb).status
}

#[test]
#[ignore = "needs an RDMA device: make lab"]
fn what_a_writer_writes_is_in_the_hosts_memory_and_in_the_copy_behind_its_beat() {
    let lent = lend();
    let (mut a, b) = pair(&lent);
    let host = Area::new(lent.memory.clone());
    a.staging.store(log::RING, 1234);
    assert_eq!(a.does(write_log(B, 1, 1, log::RING, 64)).status, Status::Success);
    assert_eq!(host.load(log::RING), 1234);
    assert_eq!(beat(&mut a, 1, 64), Status::Success);
    until("the beat", || BeatLine::read(&b.log, log::BEAT).is_some_and(|line| line.counter == 1));
    assert_eq!(b.log.load(log::RING), 1234);
}

#[test]
#[ignore = "needs an RDMA device: make lab"]
fn a_fence_leaves_the_copy_exact_and_the_writer_outside() {
    let lent = lend();
    let (mut a, mut b) = pair(&lent);
    let host = Area::new(lent.memory.clone());
    // Entries, as far as can be seen of them, that no beat vouches for.
    let point = ringleader_core::types::LogPoint::default();
    let (term, kind) = (ringleader_core::types::Term(1), ringleader_core::entry::Kind::PAYLOAD);
    let position = point.position;
    ringleader_core::entry::write(&a.staging, RING_LEN, &point, term, position, kind, &[7; 5000]);
    assert_eq!(a.does(write_log(B, 1, 1, log::RING, 5056)).status, Status::Success);
    assert_eq!(beat(&mut a, 1, 0), Status::Success);
    let fenced = b.does(Verb::Fence { id: id(A, Class::Fence, 1, 0) });
    assert_eq!(fenced.status, Status::Success);
    let judged = |area: &Area<Mapped>| ringleader_core::entry::judge(area, RING_LEN, &point);
    assert!(judged(&host).is_ok());
    assert_eq!(judged(&b.log), judged(&host));
    assert_eq!(bytes(&b.log)[..8], bytes(&host)[..8], "the beat");
    let before = bytes(&host);
    a.staging.store(log::RING, 4321);
    assert_ne!(a.does(write_log(B, 1, 3, log::RING, 64)).status, Status::Success);
    assert_eq!(bytes(&host), before, "nothing lands behind a fence");
}

#[test]
#[ignore = "needs an RDMA device: make lab"]
fn the_fabric_ends_when_the_host_takes_its_memory_away() {
    let lent = lend();
    let (mut a, mut b) = pair(&lent);
    assert_eq!(beat(&mut a, 1, 0), Status::Success);
    let region = lent.region.lock().expect("whole").take().expect("lent");
    region.deregister().map_err(|(_, error)| error).expect("taken away");
    assert_ne!(beat(&mut a, 2, 0), Status::Success);
    until("its end", || {
        b.reap();
        b.fabric.is_dead()
    });
}

/// What an acceptor's own host READs of its log is in that host's memory already.
#[test]
#[ignore = "needs an RDMA device: make lab"]
fn a_host_has_its_log_without_a_read() {
    let lent = lend();
    let hub = Hub::default();
    let device = Device::lent(&lent.log, &Choice::default(), 1).expect("a device");
    let mut options = rig::options(B, &[A], &Choice::default(), None);
    (options.half, options.snapshot_len) = (Half::Acceptor, 0);
    options.log = LogPlace::OfHost(lent.log.clone());
    let mut acceptor = Node::new_on(&device, &hub, &options).expect("a place");
    (options.half, options.peers) = (Half::Proposer, vec![ringleader_core::types::NodeId(B)]);
    options.log = LogPlace::Lent(LentLog { memory: lent.memory.clone(), lender: Arc::new(()) });
    let device = Device::open(&Choice::default(), 1, 1).expect("a device");
    let mut host = Node::new_on(&device, &hub, &options).expect("a place");
    let pull =
        |number| Verb::Pull { id: id(B, Class::Pull, 1, number), plane: Plane::Log, at: log::RING, len: 64 };
    assert_ne!(host.does(pull(1)).status, Status::Success, "nobody was met");
    let connecting = host.post(Verb::Connect { id: id(B, Class::Connect, 1, 0) });
    until("the host", || {
        acceptor.reap();
        host.reap();
        host.take(connecting).is_some_and(|done| done.status == Status::Success)
    });
    Area::new(lent.memory.clone()).store(log::RING, 77);
    let doorbells = host.fabric.doorbells();
    assert_eq!(host.does(pull(2)).status, Status::Success);
    assert_eq!(host.log.load(log::RING), 77);
    assert_eq!(host.fabric.doorbells(), doorbells, "no device was asked");
}
