//! The fabric of one node on an RDMA device: posts WRITEs and READs, takes completions, and keeps the state of the ends it
//! posts to (`lifecycle`). What takes time is done by the `worker`.
//!
//! Every request is signalled and remembered until it completes, so that each ends once, whatever its queue pair goes
//! through. Only this thread posts, and only this thread takes completions of these two queues.

mod lifecycle;

use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use ringleader_core::mem::{Area, acquire};
use ringleader_core::options::Half;
use ringleader_core::types::NodeId;
use ringleader_core::verb::{Class, Completion, Plane, RequestId, Source, Status, Verb};
use rtrb::{Consumer, RingBuffer};
use tracing::{debug, error, info};

use super::card::RemoteRange;
use super::cq::{CompletionQueue, Done, POLL, status_of};
use super::device::{Device, WorkId};
use super::ends::{ControlState, DOWN, LogState, Peer};
use super::error::VerbsError;
use super::far::{FarLog, Keeper};
use super::flush::Flush;
use super::inbound::FenceBy;
use super::memory::{Local, Region};
use super::parts::{Areas, Parts, timeout_of};
use super::place::LogPlace;
use super::port::Choice;
use super::qp::{Armed, CHAIN, Numbers, Operation, Request};
use super::rendezvous::Rendezvous;
use super::worker::{End, Job, Report, Worker};
use crate::fabric::completions::Completions;
use crate::fabric::{Bell, Fabric};

/// A WRITE of at least this many bytes is likely to be followed by another one on the same queue pair, and waits for it; a
/// smaller one is what a commit waits for, and leaves at once.
const STREAM: u32 = 4096;
/// A READ that confirms WRITEs reads one word.
const CONFIRM_LEN: u32 = 8;
/// A fence that waited for the port has this long once it is up.
const REUNION: Duration = Duration::from_secs(5);
/// Looks at a beat in the host's memory before it would be missed.
const LOOKS: u64 = 16;
/// Jobs and reports that can be under way: a few a peer.
const JOBS: usize = 512;

/// What a fabric is made with.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which device, port and address.
    pub choice: Choice,
    /// This node.
    pub node: NodeId,
    /// What of it this is.
    pub half: Half,
    /// The nodes to connect to; the own one is among them where its acceptor is apart.
    pub peers: Vec<NodeId>,
    /// Length of the ring in bytes: a power of two.
    pub ring_len: u64,
    /// Length of a snapshot in bytes: a multiple of 64 KiB; 0: there are none.
    pub snapshot_len: u64,
    /// The transport's time-out follows from it.
    pub suspect_after_ns: u64,
    /// Whose memory the log area is in.
    pub log: LogPlace,
    /// How writers are fenced; in a way that is strict on the device when `None`.
    pub fence_by: Option<FenceBy>,
    /// Whether WRITEs of peers wake this node, so that it may sleep ([`Fabric::fall_asleep`]).
    pub wakes: bool,
}

/// A request that was posted and not handed to the device yet.
#[derive(Clone, Copy, Debug)]
struct Held {
    /// The core's, until it is remembered as posted; then its [`WorkId`].
    id: u64,
    operation: Operation,
    local: Place,
    from: u64,
    len: u32,
    address: u64,
    key: u32,
}

/// Memory of this node that a request reads, or a READ comes to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    Staging,
    Log,
    Snapshot,
    /// A host's copy of its acceptor's control area.
    Control,
}

impl From<Source> for Place {
    fn from(source: Source) -> Place {
        match source {
            Source::Staging => Place::Staging,
            Source::Log => Place::Log,
        }
    }
}

/// Whether the port is down.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum CutOff {
    No,
    Yes,
    /// It came up again, and what had to wait for it needs some time.
    Until(Instant),
}

/// The fabric of one node on an RDMA device.
#[derive(Debug)]
pub struct VerbsFabric {
    peers: [Option<Peer>; 16],
    completions: Completions,
    /// The chain that waits for the doorbell, all of one queue pair.
    held: heapless::Vec<Held, CHAIN>,
    held_for: (usize, End),
    /// One bit a peer with an end on its way down.
    closing: u16,
    dead: bool,
    cut_off: CutOff,
    /// Jobs of which the worker will report: while there are any, nobody sleeps.
    working: u32,
    /// Completions that nobody waited for: of queue pairs that were given up.
    strays: u64,
    /// Chains handed to the device.
    doorbells: u64,
    reports: Consumer<Report>,
    /// `None` only while the fabric is dropped.
    jobs: Option<SyncSender<Job>>,
    worker: Option<JoinHandle<()>>,
    /// Reads the log where it is in the host's memory. Ends before what it reads is given up.
    _keeper: Option<Keeper>,
    node: NodeId,
    parts: Arc<Parts>,
}

impl VerbsFabric {
    /// Opens the device for this node alone, gets memory and registers it, and starts the thread beside.
    pub fn create(
        options: &Options,
        rendezvous: impl Rendezvous,
    ) -> Result<(VerbsFabric, Areas), VerbsError> {
        let device = Device::open(&options.choice, 1, options.peers.len())?;
        VerbsFabric::create_on(&device, options, rendezvous)
    }

    /// The same on a device that is open, and may have other groups. All of them live on one thread.
    pub fn create_on(
        device: &Arc<Device>,
        options: &Options,
        rendezvous: impl Rendezvous,
    ) -> Result<(VerbsFabric, Areas), VerbsError> {
        let timeout = timeout_of(options.suspect_after_ns);
        let count = options.peers.len() as u64;
        let lens = (options.ring_len, options.snapshot_len);
        let half = (options.half, &options.log);
        let (parts, areas) = Parts::new(device, half, lens, count, timeout, options.fence_by, options.wakes)?;
        let (jobs, receiver) = sync_channel(JOBS);
        let (producer, reports) = RingBuffer::new(JOBS);
        let far = match (&options.log, &parts.shadow) {
            (LogPlace::OfHost(log), Some(copy)) => {
                Some(Arc::new(Mutex::new(FarLog::new(&parts, &areas, log, copy)?)))
            }
            _ => None,
        };
        let flush = Flush::new(&parts, far.as_ref())?;
        let (node, known) = (options.node, &options.peers);
        let mut worker = Worker::new(&parts, node, known, rendezvous, (receiver, producer), flush)?;
        let mut peers: [Option<Peer>; 16] = Default::default();
        for peer in &options.peers {
            peers[peer.slot()] = Some(Peer::new(parts.log_qp()?, worker.packet()));
        }
        let device = parts.context.name();
        let pause = Duration::from_nanos(options.suspect_after_ns / LOOKS);
        let keeper = far.map(|far| Keeper::start(format!("rl-log-{node}"), &far, pause)).transpose();
        let keeper = keeper.map_err(VerbsError::call("start of a thread", device))?;
        let worker = thread::Builder::new()
            .name(format!("rl-verbs-{}", options.node))
            .spawn(move || worker.run())
            .map_err(VerbsError::call("start of a thread", device))?;
        let address = parts.port.gid.map(|gid| gid.address().to_string());
        let order = parts.data_order().map_or_else(|error| error.to_string(), |order| order.to_string());
        let (port, mtu, fence) = (&parts.port, 128u32 << parts.port.mtu, parts.fence_by);
        info!(device, port = port.number, address, mtu, ?fence, order, "device");
        let fabric = VerbsFabric {
            peers,
            completions: Completions::new(),
            held: heapless::Vec::new(),
            held_for: (0, End::Log),
            closing: 0,
            dead: false,
            cut_off: CutOff::No,
            working: 0,
            strays: 0,
            doorbells: 0,
            reports,
            jobs: Some(jobs),
            worker: Some(worker),
            _keeper: keeper,
            node: options.node,
            parts,
        };
        Ok((fabric, areas))
    }

    /// Completions that nobody waited for: of queue pairs that were given up.
    pub fn strays(&self) -> u64 {
        self.strays
    }

    /// Chains of requests handed to the device: each costs a doorbell.
    pub fn doorbells(&self) -> u64 {
        self.doorbells
    }

    /// Whether the device carries a WRITE to this very machine out while it is posted, as soft-RoCE does.
    pub fn carries_out_at_once(&self) -> bool {
        self.parts.context.is_software()
    }

    /// Where a plane's requests of one peer go, if its end is up; else how they end.
    #[inline]
    fn post_request(&mut self, id: RequestId, mut request: Held, end: End) {
        let slot = usize::from(id.peer.0 & 15);
        let Some(peer) = self.peers[slot].as_mut().filter(|_| !self.dead) else {
            return self.completions.push(id, Status::Unreachable, 0);
        };
        let (posted, up) = match end {
            End::Log => {
                let up = peer.log.state == LogState::Ready && peer.log.epoch == id.epoch;
                (&mut peer.log.posted, up)
            }
            End::Control => {
                let up = peer.control.state == ControlState::Up && peer.control.epoch == id.epoch;
                (&mut peer.control.posted, up)
            }
        };
        if posted.is_full() {
            return self.completions.push(id, Status::Failed, 0);
        }
        if !up {
            posted.push(request.id, Some(DOWN));
            return self.take_ended(slot, end);
        }
        let number = posted.push(request.id, None);
        let place = &self.parts.place;
        request.id = WorkId { place: place.at, life: place.life, end, peer: slot as u8, number }.pack();
        if !self.held.is_empty() && self.held_for != (slot, end) || self.held.is_full() {
            self.ring();
        }
        self.held_for = (slot, end);
        // There is room: a full chain was rung just now.
        let _ = self.held.push(request);
        if request.len < STREAM {
            self.ring();
        }
    }

    /// A request that no device was asked for, because it cannot be: it breaks its queue pair, like one that was refused.
    #[cold]
    fn refuse(&mut self, id: RequestId, end: End) {
        let slot = usize::from(id.peer.0 & 15);
        self.ring();
        let Some(peer) = &mut self.peers[slot] else {
            return self.completions.push(id, Status::Failed, 0);
        };
        peer.break_end(end);
        let posted = peer.posted(end);
        if posted.is_full() {
            return self.completions.push(id, Status::Failed, 0);
        }
        posted.push(id.pack(), Some(Status::Failed));
        self.take_ended(slot, end);
    }

    /// Tells of requests that ended here, as far as none is before them.
    #[cold]
    fn take_ended(&mut self, slot: usize, end: End) {
        let Some(peer) = &mut self.peers[slot] else { return };
        while let Some((word, status)) = peer.posted(end).take_ended() {
            let id = RequestId::unpack(word);
            self.completions.push(id, status, 0);
        }
    }

    /// Where a peer's area is, and whether WRITEs to it are to wake it.
    #[inline]
    fn remote(&self, id: RequestId, plane: Plane) -> (RemoteRange, bool) {
        let peer = self.peers[usize::from(id.peer.0 & 15)].as_ref();
        peer.map_or_else(Default::default, |peer| match plane {
            Plane::Control => (peer.remote.control, peer.remote.wakes),
            Plane::Log => (peer.remote.log, peer.remote.wakes),
        })
    }

    #[inline]
    fn post_write(&mut self, verb: &Verb) {
        let Verb::Write { id, plane, source, from, to, len } = *verb else { return };
        let end = if plane == Plane::Log { End::Log } else { End::Control };
        let (remote, wakes) = self.remote(id, plane);
        let local = Place::from(source);
        let is_inside = range(&self.parts, end, local, from, len).is_some();
        let request = |address| Held {
            id: id.pack(),
            operation: if wakes { Operation::WriteAndWake } else { Operation::Write },
            local,
            from,
            len,
            address,
            key: remote.key,
        };
        match remote.at(to, len) {
            Some(address) if is_inside => self.post_request(id, request(address), end),
            // Nobody was met yet: it is down, and not wrong.
            _ if remote.len == 0 => self.post_request(id, request(0), end),
            _ => self.refuse(id, end),
        }
    }

    fn post_read(&mut self, id: RequestId, from: u64, to: u64, len: u32) {
        let (remote, _) = self.remote(id, Plane::Control);
        let is_inside = self.parts.lines.range(to, len).is_some();
        let request = |address| Held {
            id: id.pack(),
            operation: Operation::Read,
            local: Place::Staging,
            from: to,
            len,
            address,
            key: remote.key,
        };
        match remote.at(from, len) {
            Some(address) if is_inside => self.post_request(id, request(address), End::Control),
            _ if remote.len == 0 => self.post_request(id, request(0), End::Control),
            _ => self.refuse(id, End::Control),
        }
    }

    fn post_fetch(&mut self, id: RequestId, from: u64, to: u64, len: u32) {
        let peer = self.peers[usize::from(id.peer.0 & 15)].as_ref();
        let remote = peer.map_or_else(Default::default, |peer| peer.remote.snapshot);
        let is_inside = range(&self.parts, End::Control, Place::Snapshot, to, len).is_some();
        let request = |address| Held {
            id: id.pack(),
            operation: Operation::Read,
            local: Place::Snapshot,
            from: to,
            len,
            address,
            key: remote.key,
        };
        match remote.at(from, len) {
            Some(address) if is_inside => self.post_request(id, request(address), End::Control),
            // As above. Who was met and has no area for snapshots is asked for none.
            _ if remote.len == 0 => self.post_request(id, request(0), End::Control),
            _ => self.refuse(id, End::Control),
        }
    }

    fn post_pull(&mut self, id: RequestId, plane: Plane, at: u64, len: u32) {
        let remote = self.peers[usize::from(id.peer.0 & 15)].as_ref().map(|peer| match plane {
            Plane::Control => (peer.remote.control, Place::Control),
            Plane::Log => (peer.remote.log_readable, Place::Log),
        });
        if plane == Plane::Log && self.parts.lent.is_some() {
            return self.copy_lent(id, at, len);
        }
        self.post_own(id, Operation::Read, remote, at, len);
    }

    /// What a READ would bring is here: the host's own memory, which its acceptor has. It is copied as a READ would copy it, since a
    /// candidate goes by what was there once, whoever writes there afterwards.
    fn copy_lent(&mut self, id: RequestId, at: u64, len: u32) {
        let peer = self.peers[usize::from(id.peer.0 & 15)].as_ref();
        // Without the way to the acceptor nothing is known of what is final.
        let is_up = peer.is_some_and(|peer| {
            peer.control.state == ControlState::Up && peer.control.epoch == id.epoch && !self.dead
        });
        let (true, Some(lent)) = (is_up && id.peer == self.node, &self.parts.lent) else {
            return self.completions.push(id, DOWN, 0);
        };
        if range(&self.parts, End::Control, Place::Log, at, len).is_none() {
            return self.refuse(id, End::Control);
        }
        acquire();
        let copy = Area::new(self.parts.log_readable.memory());
        copy.copy_from(&Area::new(&lent.memory), at, u64::from(len));
        self.completions.push(id, Status::Success, 0);
    }

    fn post_push(&mut self, id: RequestId, at: u64, len: u32) {
        let peer = self.peers[usize::from(id.peer.0 & 15)].as_ref();
        self.post_own(
            id,
            Operation::Write,
            peer.map(|peer| (peer.remote.snapshot, Place::Snapshot)),
            at,
            len,
        );
    }

    /// From a host to its acceptor, or back, at the same place in both. Another's log would land in a copy of the own one; what is no
    /// copy is changed by nobody but its peers; and nobody but a host stores into another process's snapshot area.
    fn post_own(
        &mut self,
        id: RequestId,
        operation: Operation,
        remote: Option<(RemoteRange, Place)>,
        at: u64,
        len: u32,
    ) {
        let (remote, local) = remote.unwrap_or((RemoteRange::default(), Place::Control));
        let is_own = self.parts.half == Half::Proposer && id.peer == self.node;
        let is_inside = is_own && range(&self.parts, End::Control, local, at, len).is_some();
        let request =
            |address| Held { id: id.pack(), operation, local, from: at, len, address, key: remote.key };
        match remote.at(at, len) {
            Some(address) if is_inside => self.post_request(id, request(address), End::Control),
            _ if remote.len == 0 => self.post_request(id, request(0), End::Control),
            _ => self.refuse(id, End::Control),
        }
    }

    fn post_confirm(&mut self, id: RequestId, from: u64, to: u64) {
        let (remote, _) = self.remote(id, Plane::Log);
        let is_inside = self.parts.staging.range(to, CONFIRM_LEN).is_some();
        let request = |address| Held {
            id: id.pack(),
            operation: Operation::Read,
            local: Place::Staging,
            from: to,
            len: CONFIRM_LEN,
            address,
            key: remote.key,
        };
        match remote.at(from, CONFIRM_LEN) {
            Some(address) if is_inside => self.post_request(id, request(address), End::Log),
            _ if remote.len == 0 => self.post_request(id, request(0), End::Log),
            _ => self.refuse(id, End::Log),
        }
    }

    /// Hands a job over; false when it will not be done.
    fn send(&mut self, job: Job) -> bool {
        let reports = !matches!(job, Job::Formed { .. } | Job::Meet { .. });
        match self.jobs.as_ref().map(|jobs| jobs.try_send(job)) {
            Some(Ok(())) => {
                self.working += u32::from(reports);
                true
            }
            Some(Err(TrySendError::Full(_))) => false,
            Some(Err(TrySendError::Disconnected(_))) | None => {
                self.handle_dead();
                false
            }
        }
    }

    fn send_or_fail(&mut self, id: RequestId, job: Job) {
        if !self.send(job) {
            self.completions.push(id, Status::Failed, 0);
        }
    }

    /// Everything that changes the state of a queue pair.
    #[cold]
    #[inline(never)]
    fn post_rare(&mut self, verb: &Verb) {
        self.ring();
        let id = verb.id();
        let slot = usize::from(id.peer.0 & 15);
        // Who writes here is the worker's to know: an acceptor's own host does, and nothing is posted to that.
        let is_inbound = matches!(id.class, Class::Arm | Class::Grant | Class::Fence);
        if self.dead || !is_inbound && self.peers[slot].is_none() {
            return self.completions.push(id, Status::Unreachable, 0);
        }
        match *verb {
            Verb::Connect { id } => self.connect(slot, id),
            Verb::Open { id, numbers } => self.open(slot, id, Armed::unpack(numbers)),
            Verb::Close { id } => self.close(slot, id),
            Verb::Arm { id, numbers } => {
                self.send_or_fail(id, Job::Arm { id, peer: Numbers::unpack(numbers) });
            }
            Verb::Grant { id } => self.send_or_fail(id, Job::Grant { id }),
            Verb::Fence { id } => self.send_or_fail(id, Job::Fence { id }),
            Verb::Write { .. }
            | Verb::Read { .. }
            | Verb::Fetch { .. }
            | Verb::Pull { .. }
            | Verb::Push { .. }
            | Verb::Confirm { .. } => unreachable!("posted elsewhere"),
        }
    }

    /// Takes completions of one queue; how many. Those of other groups are kept for them.
    #[inline]
    fn poll(&mut self, end: End) -> usize {
        let VerbsFabric { parts, peers, completions, strays, .. } = self;
        let cq: &CompletionQueue = match end {
            End::Log => &parts.log_cq,
            End::Control => &parts.control_cq,
        };
        let (place, life) = (parts.place.at, parts.place.life);
        let taken = cq.poll(|done| {
            let id = WorkId::unpack(done.id);
            if id.place == place {
                land(peers, completions, strays, life, id, done);
            } else {
                parts.device.keep(id.place, done);
            }
        });
        match taken {
            Ok(count) => count,
            Err(_) => {
                self.handle_dead();
                0
            }
        }
    }

    /// Takes what other groups found.
    #[cold]
    fn take_kept(&mut self) {
        let VerbsFabric { parts, peers, completions, strays, .. } = self;
        let life = parts.place.life;
        parts.device.take_kept(parts.place.at, |done| {
            land(peers, completions, strays, life, WorkId::unpack(done.id), done);
        });
    }
}

/// A request of a device ended.
#[inline]
fn land(
    peers: &mut [Option<Peer>; 16],
    completions: &mut Completions,
    strays: &mut u64,
    life: u32,
    work: WorkId,
    done: Done,
) {
    let peer = peers[usize::from(work.peer & 15)].as_mut().filter(|_| work.life == life);
    let Some(peer) = peer else {
        *strays += 1;
        return;
    };
    let end = work.end;
    let Some(word) = peer.posted(end).land(work.number) else {
        *strays += 1;
        return;
    };
    let id = RequestId::unpack(word);
    let status = status_of(done.code);
    if status != Status::Success {
        debug!(node = id.peer.0, class = ?id.class, epoch = id.epoch.0, code = done.code, ?status, "completion");
        peer.break_end(end);
    }
    completions.push(id, status, 0);
    while let Some((word, status)) = peer.posted(end).take_ended() {
        let id = RequestId::unpack(word);
        completions.push(id, status, 0);
    }
}

/// This node's bytes of a request on that plane, if they are inside.
#[inline]
fn range(parts: &Parts, end: End, place: Place, from: u64, len: u32) -> Option<Local<'_>> {
    let region: &Region = match (end, place) {
        (End::Log, Place::Staging) => &parts.staging,
        (End::Log, Place::Log) => parts.log_area.region()?,
        (End::Control, Place::Staging) => &parts.lines,
        (End::Control, Place::Log) => &parts.log_readable,
        (End::Control, Place::Snapshot) => parts.snapshot.as_ref()?,
        (End::Control, Place::Control) => &parts.control_area,
        (End::Log, Place::Snapshot | Place::Control) => return None,
    };
    region.range(from, len)
}

impl Fabric for VerbsFabric {
    #[inline]
    fn post(&mut self, verb: &Verb) {
        match *verb {
            Verb::Write { .. } => self.post_write(verb),
            Verb::Read { id, from, to, len } => self.post_read(id, from, to, len),
            Verb::Fetch { id, from, to, len } => self.post_fetch(id, from, to, len),
            Verb::Pull { id, plane, at, len } => self.post_pull(id, plane, at, len),
            Verb::Push { id, at, len } => self.post_push(id, at, len),
            Verb::Confirm { id, from, to } => self.post_confirm(id, from, to),
            _ => self.post_rare(verb),
        }
    }

    #[inline]
    fn reap(&mut self, out: &mut [Completion]) -> usize {
        if !self.reports.is_empty() {
            self.handle_reports();
        }
        if self.parts.device.has_kept(self.parts.place.at) {
            self.take_kept();
        }
        if self.poll(End::Log) < POLL {
            self.poll(End::Control);
        }
        if self.closing != 0 {
            self.close_drained();
        }
        if self.parts.receives.as_ref().is_some_and(|receives| receives.refill().is_err()) {
            self.handle_dead();
        }
        self.completions.take(out)
    }

    #[inline]
    fn ring(&mut self) {
        if self.held.is_empty() {
            return;
        }
        self.doorbells += 1;
        let (slot, end) = self.held_for;
        let VerbsFabric { peers, parts, held, .. } = self;
        let Some(peer) = &mut peers[slot] else { return };
        let qp = match end {
            End::Log => peer.log.qp.as_ref(),
            End::Control => peer.control.qp.as_ref(),
        };
        let mut requests: heapless::Vec<Request<'_>, CHAIN> = heapless::Vec::new();
        for Held { id, operation, local, from, len, address, key } in held.iter().copied() {
            let local = range(parts, end, local, from, len).expect("looked at when it was posted");
            // A chain has room for what was held.
            let _ = requests.push(Request { id, operation, local, address, key });
        }
        let rung = qp.map_or(Err((0, std::io::ErrorKind::NotConnected.into())), |qp| qp.post(&requests));
        let count = requests.len();
        drop(requests);
        held.clear();
        if let Err((taken, error)) = rung {
            debug!(node = slot, %error, "cannot post");
            peer.posted(end).refuse(count - taken, Status::Failed);
            peer.break_end(end);
            self.take_ended(slot, end);
        }
    }

    fn fall_asleep(&mut self) -> Option<Bell<'_>> {
        let quiet = self.working == 0
            && self.reports.is_empty()
            && self.completions.is_empty()
            && self.peers.iter_mut().flatten().all(|peer| peer.is_quiet());
        if !quiet {
            return None;
        }
        match self.parts.receives.as_ref()?.fall_asleep() {
            Ok(told) => told.map(Bell::Descriptor),
            // The next reap finds out what of.
            Err(_) => None,
        }
    }

    fn wake_up(&mut self) {
        if let Some(receives) = &self.parts.receives {
            receives.wake_up();
        }
    }

    fn handle_formed(&mut self, group: u128) {
        self.send(Job::Formed { group });
    }

    fn is_cut_off(&self) -> bool {
        match self.cut_off {
            CutOff::No => false,
            CutOff::Yes => true,
            CutOff::Until(end) => Instant::now() < end,
        }
    }

    #[inline(always)]
    fn is_dead(&self) -> bool {
        // Without the worker no state of a queue pair ever changes again.
        self.dead || self.reports.is_abandoned()
    }
}

impl Drop for VerbsFabric {
    fn drop(&mut self) {
        // Without jobs the worker ends; queue pairs, memory and device go after it.
        self.jobs = None;
        if self.worker.take().is_some_and(|worker| worker.join().is_err()) {
            error!("the thread beside the fabric panicked");
        }
    }
}
