//! Two fabrics in one process, and an exchange that is a table: to try a device out, in tests and benchmarks.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ringleader_core::mem::{Area, Memory};
use ringleader_core::options::Half;
use ringleader_core::timing::Timing;
use ringleader_core::types::{Boot, Epoch, NodeId};
use ringleader_core::verb::{Class, Completion, Plane, RequestId, Source, Status, Verb};

use super::super::{
    Card, Choice, Device, FenceBy, LogPlace, Meeting, Options, Rendezvous, VerbsError, VerbsFabric,
};
use crate::exchange::{host_of, is_host};
use crate::fabric::{Fabric, Mapped};

pub(in crate::fabric::verbs) const RING_LEN: u64 = 1 << 20;
pub(in crate::fabric::verbs) const SNAPSHOT_LEN: u64 = 1 << 20;

#[derive(Default)]
struct Table {
    wants: HashMap<(u8, u8), (u64, Card)>,
    sessions: HashMap<(u8, u8), u64>,
    told: HashMap<u8, VecDeque<Meeting>>,
    /// What of its node is at a seat: all of it, where nothing is said.
    halves: HashMap<u8, Half>,
    count: u64,
}

/// What all nodes of a test share.
#[derive(Clone, Default)]
pub(in crate::fabric::verbs) struct Hub(Arc<Mutex<Table>>);

/// One node's way to it.
pub(in crate::fabric::verbs) struct Desk {
    hub: Hub,
    node: NodeId,
}

impl Hub {
    pub(in crate::fabric::verbs) fn desk(&self, node: u8) -> Desk {
        Desk { hub: self.clone(), node: NodeId(node) }
    }
}

fn pair(a: u8, b: u8) -> (u8, u8) {
    (a.min(b), a.max(b))
}

impl Rendezvous for Desk {
    fn meet(&mut self, peer: NodeId, attempt: u64, card: &Card) {
        let (me, peer) = (self.node.0, peer.0);
        let mut table = self.hub.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(session) = table.sessions.remove(&pair(me, peer)) {
            let lost = Meeting::Lost { peer: NodeId(me), session };
            table.told.entry(peer).or_default().push_back(lost);
        }
        table.wants.insert((me, peer), (attempt, *card));
        if is_host(self.node) && !table.wants.contains_key(&(peer, me)) {
            table.told.entry(peer).or_default().push_back(Meeting::Knocks { peer: self.node });
        }
        if let Some((theirs, their_card)) = table.wants.remove(&(peer, me)) {
            table.wants.remove(&(me, peer));
            table.count += 1;
            let session = table.count;
            table.sessions.insert(pair(me, peer), session);
            let halves = [me, peer].map(|seat| table.halves.get(&seat).copied().unwrap_or_default());
            let met = |peer, half, attempt, card| Meeting::Met {
                peer: NodeId(peer),
                attempt,
                session,
                boot: Boot(u64::from(peer)),
                half,
                card,
            };
            table.told.entry(me).or_default().push_back(met(peer, halves[1], attempt, their_card));
            table.told.entry(peer).or_default().push_back(met(me, halves[0], theirs, *card));
        }
    }

    fn poll(&mut self) -> Option<Meeting> {
        let mut table = self.hub.0.lock().unwrap_or_else(PoisonError::into_inner);
        table.told.get_mut(&self.node.0)?.pop_front()
    }
}

/// One node: its fabric and its memory.
pub(in crate::fabric::verbs) struct Node {
    pub(in crate::fabric::verbs) fabric: VerbsFabric,
    #[cfg(test)]
    pub(in crate::fabric::verbs) control: Area<Mapped>,
    pub(in crate::fabric::verbs) log: Area<Mapped>,
    pub(in crate::fabric::verbs) staging: Area<Mapped>,
    #[cfg(test)]
    pub(in crate::fabric::verbs) snapshot: Area<Mapped>,
    /// Completions that nobody asked for yet.
    pub(in crate::fabric::verbs) ended: Vec<Completion>,
}

pub(in crate::fabric::verbs) fn options(
    node: u8,
    peers: &[u8],
    choice: &Choice,
    fence_by: Option<FenceBy>,
) -> Options {
    Options {
        choice: choice.clone(),
        node: NodeId(node),
        half: Half::Whole,
        peers: peers.iter().map(|peer| NodeId(*peer)).collect(),
        ring_len: RING_LEN,
        snapshot_len: SNAPSHOT_LEN,
        suspect_after_ns: Timing::SOFT_ROCE.suspect_after_ns,
        log: LogPlace::Own,
        fence_by,
        wakes: false,
    }
}

impl Node {
    pub(in crate::fabric::verbs) fn new(
        hub: &Hub,
        node: u8,
        peers: &[u8],
        choice: &Choice,
        fence_by: Option<FenceBy>,
    ) -> Result<Node, VerbsError> {
        let options = options(node, peers, choice, fence_by);
        let device = Device::open(choice, 1, peers.len())?;
        Node::new_on(&device, hub, &options)
    }

    /// One of several on a device.
    pub(in crate::fabric::verbs) fn new_on(
        device: &Arc<Device>,
        hub: &Hub,
        options: &Options,
    ) -> Result<Node, VerbsError> {
        let seat = if options.half == Half::Proposer { host_of(options.node) } else { options.node };
        hub.0.lock().unwrap_or_else(PoisonError::into_inner).halves.insert(seat.0, options.half);
        let (fabric, areas) = VerbsFabric::create_on(device, options, hub.desk(seat.0))?;
        Ok(Node {
            fabric,
            #[cfg(test)]
            control: Area::new(areas.control),
            log: Area::new(areas.log),
            staging: Area::new(areas.staging),
            #[cfg(test)]
            snapshot: Area::new(areas.snapshot),
            ended: Vec::new(),
        })
    }

    pub(in crate::fabric::verbs) fn post(&mut self, verb: Verb) -> RequestId {
        self.fabric.post(&verb);
        verb.id()
    }

    pub(in crate::fabric::verbs) fn reap(&mut self) -> usize {
        let id = RequestId { peer: NodeId(0), class: Class::Beat, epoch: Epoch(0), number: 0 };
        let mut out = [Completion { id, status: Status::Failed, value: 0 }; 64];
        self.fabric.ring();
        let count = self.fabric.reap(&mut out);
        self.ended.extend_from_slice(&out[..count]);
        count
    }

    pub(in crate::fabric::verbs) fn take(&mut self, id: RequestId) -> Option<Completion> {
        let at = self.ended.iter().position(|done| done.id == id)?;
        Some(self.ended.remove(at))
    }

    /// Waits for the end of one verb.
    pub(in crate::fabric::verbs) fn end(&mut self, id: RequestId) -> Completion {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            self.reap();
            if let Some(done) = self.take(id) {
                return done;
            }
            assert!(Instant::now() < deadline, "{id:?} does not end");
            std::thread::yield_now();
        }
    }

    pub(in crate::fabric::verbs) fn does(&mut self, verb: Verb) -> Completion {
        let id = self.post(verb);
        let done = self.end(id);
        assert!(!self.ended.iter().any(|other| other.id == id), "{id:?} ended twice");
        done
    }
}

pub(in crate::fabric::verbs) fn id(peer: u8, class: Class, epoch: u32, number: u32) -> RequestId {
    RequestId { peer: NodeId(peer), class, epoch: Epoch(epoch), number }
}

pub(in crate::fabric::verbs) fn write_log(peer: u8, epoch: u32, number: u32, offset: u64, len: u32) -> Verb {
    Verb::Write {
        id: id(peer, Class::Entries, epoch, number),
        plane: Plane::Log,
        source: Source::Staging,
        from: offset,
        to: offset,
        len,
    }
}

/// Connects two nodes; their initiators' numbers.
pub(in crate::fabric::verbs) fn connect(a: (&mut Node, u8), b: (&mut Node, u8), epoch: u32) -> (u64, u64) {
    let (at_a, at_b) = (id(b.1, Class::Connect, epoch, 0), id(a.1, Class::Connect, epoch, 0));
    a.0.post(Verb::Connect { id: at_a });
    b.0.post(Verb::Connect { id: at_b });
    let (done_a, done_b) = end_both((a.0, at_a), (b.0, at_b));
    assert_eq!((done_a.status, done_b.status), (Status::Success, Status::Success));
    (done_a.value, done_b.value)
}

/// Waits for one verb each of two nodes, neither of which may wait for the other.
pub(in crate::fabric::verbs) fn end_both(
    a: (&mut Node, RequestId),
    b: (&mut Node, RequestId),
) -> (Completion, Completion) {
    let deadline = Instant::now() + Duration::from_secs(20);
    let (mut done_a, mut done_b) = (None, None);
    loop {
        a.0.reap();
        b.0.reap();
        done_a = done_a.or_else(|| a.0.take(a.1));
        done_b = done_b.or_else(|| b.0.take(b.1));
        if let (Some(done_a), Some(done_b)) = (done_a, done_b) {
            return (done_a, done_b);
        }
        assert!(Instant::now() < deadline, "{done_a:?} {done_b:?}: the other does not end");
    }
}

/// Arms `acceptor` for `writer`, opens and grants; how long arm and grant took, in nanoseconds.
pub(in crate::fabric::verbs) fn open(
    writer: (&mut Node, u8),
    acceptor: (&mut Node, u8),
    epoch: u32,
    numbers: u64,
) -> (u64, u64) {
    let deadline = Instant::now() + Duration::from_secs(20);
    let (armed, arm_ns) = loop {
        let begun = Instant::now();
        let armed = acceptor.0.does(Verb::Arm { id: id(writer.1, Class::Arm, epoch, 0), numbers });
        // A host knocks, and its acceptor meets it when it hears that.
        if armed.status != Status::Unreachable || Instant::now() > deadline {
            break (armed, begun.elapsed().as_nanos() as u64);
        }
    };
    assert_eq!(armed.status, Status::Success);
    let opened =
        writer.0.does(Verb::Open { id: id(acceptor.1, Class::Open, epoch, 0), numbers: armed.value });
    assert_eq!(opened.status, Status::Success);
    let begun = Instant::now();
    let granted = acceptor.0.does(Verb::Grant { id: id(writer.1, Class::Grant, epoch, 0) });
    assert_eq!(granted.status, Status::Success);
    (arm_ns, begun.elapsed().as_nanos() as u64)
}

pub(in crate::fabric::verbs) fn bytes(memory: &Area<Mapped>) -> Vec<u64> {
    use std::sync::atomic::Ordering;
    memory.memory().words().iter().map(|word| word.load(Ordering::Relaxed)).collect()
}
