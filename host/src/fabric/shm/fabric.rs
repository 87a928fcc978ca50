//! The fabric: carries verbs out, keeps the state of each peer's queue pairs, and watches peers die.
//!
//! WRITEs and READs are copies made inside `post`; only fences take longer, and are polled by `reap`. Not here: how a
//! region is found or mapped, how a copy is fenced.

use std::io;
use std::path::Path;
use std::sync::Arc;

use ringleader_core::layout::{control, log, snapshot};
use ringleader_core::options::Half;
use ringleader_core::types::{Boot, Incarnation, NodeId};
use ringleader_core::verb::{Completion, Plane, RequestId, Source, Status, Verb};
use rustix::time::{ClockId, clock_gettime};

use super::acceptor::{Acceptor, Context, Writers};
use super::error::RegionError;
use super::fence;
use super::header;
use super::link::{Link, Wrote};
use super::process::{Process, find_dead, tag_of};
use super::region::{Found, Identity, Region};
use super::wake::Bell;
use crate::exchange::GroupName;
use crate::fabric::completions::Completions;
use crate::fabric::map::{Mapped, Mapping};
use crate::fabric::{self, Fabric};

/// Peers are looked at this often.
const WATCH_EVERY_NS: u64 = 1_000_000;
/// The clock is read once in so many reaps that found something ...
const REAPS_PER_LOOK: u32 = 16;
/// ... and one that found nothing counts for this many, because there is time.
const IDLE_REAP: u32 = 4;

/// For tests of the fence, never for use: an environment variable that, set to n > 0, makes the process stop itself
/// (SIGSTOP) in the middle of the copy of its n-th granted log WRITE, marked busy. Read once, when the fabric is made.
pub const STOP_IN_COPY: &str = "RINGLEADER_TEST_STOP_IN_COPY";

/// What a fabric is made with.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// Directory with the region files of all nodes; made if it is missing.
    pub dir: &'a Path,
    /// This node.
    pub node: NodeId,
    /// What of it this is.
    pub half: Half,
    /// This start of the process.
    pub boot: Boot,
    /// This life of promise and log.
    pub incarnation: Incarnation,
    /// Length of the ring in bytes: a power of two.
    pub ring_len: u64,
    /// Length of a snapshot in bytes: a multiple of 64 KiB; 0: there are none.
    pub snapshot_len: u64,
    /// The name of the group: nodes of another name are not connected to. `None`: all are.
    pub group_name: Option<GroupName>,
    /// A writer that is seen in one and the same copy for this long while it is fenced is shot. Well below what the core
    /// allows a fence to take.
    pub fence_limit_ns: u64,
}

/// The memory of a node, all zeros: what its replica works on. Nobody else reaches that of a host whose acceptor is apart.
#[derive(Clone, Debug)]
pub struct Areas {
    /// Control area: peers READ and WRITE it.
    pub control: Mapped,
    /// Log area: peers READ it, the one that is granted WRITEs it.
    pub log: Mapped,
    /// Staging area: private; sources of WRITEs and targets of READs.
    pub staging: Mapped,
    /// Snapshot area: peers READ it.
    pub snapshot: Mapped,
}

/// The initiator's end of a log queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum LogEnd {
    Closed,
    Ready,
    Error,
}

/// One peer's queue pairs.
#[derive(Debug)]
struct Peer {
    /// What this node writes with into the peer's log area; 0 unless the end is ready and the peer alive.
    me: u64,
    log_end: LogEnd,
    /// Whether the control queue pair is up.
    is_up: bool,
    /// Whether the peer was found gone since the last connect that succeeded.
    is_gone: bool,
    link: Option<Link>,
    acceptor: Acceptor,
    /// The last fault of its region that was logged: connects are repeated, and so would it be.
    logged: Option<String>,
}

/// The shared-memory fabric of one node.
#[derive(Debug)]
pub struct ShmFabric {
    peers: [Peer; 16],
    completions: Completions,
    areas: Areas,
    tag: u32,
    /// Granted log WRITEs until the process stops itself; 0: never.
    stop_in: u32,
    /// One bit a peer whose fence is under way.
    fencing: u16,
    /// Reaps counted since the clock was read.
    reaps: u32,
    looked_ns: u64,
    fence_limit_ns: u64,
    shots: u64,
    /// `None` when this node looks by itself; and the WRITEs counted before it last looked.
    bell: Option<Bell>,
    arrivals: u64,
    node: NodeId,
    half: Half,
    region: Region,
}

impl ShmFabric {
    /// Makes the region of this node, and its fabric. On an error nothing is left behind.
    pub fn create(options: &Options<'_>) -> Result<(ShmFabric, Areas), RegionError> {
        let Options {
            dir,
            node,
            half,
            boot,
            incarnation,
            ring_len,
            snapshot_len,
            group_name,
            fence_limit_ns,
        } = *options;
        let (boot_word, incarnation) = (boot.0, incarnation.0);
        let identity =
            Identity { node, half, boot: boot_word, incarnation, ring_len, snapshot_len, group_name };
        let region = Region::create(dir, identity)?;
        let areas = match areas(&region, half, ring_len, snapshot_len) {
            Ok(areas) => areas,
            Err(error) => {
                region.unlink()?;
                return Err(RegionError::io(dir, "get memory for staging")(error));
            }
        };
        let peers = std::array::from_fn(|slot| {
            let peer = NodeId(slot as u8);
            Peer {
                me: fence::NOBODY,
                log_end: LogEnd::Closed,
                is_up: false,
                is_gone: false,
                link: None,
                acceptor: Acceptor::new(
                    region.word(header::grant_of(peer)),
                    region.word(header::busy_of(peer)),
                ),
                logged: None,
            }
        });
        let stop_in = std::env::var(STOP_IN_COPY).ok().and_then(|count| count.parse().ok()).unwrap_or(0);
        let fabric = ShmFabric {
            peers,
            completions: Completions::new(),
            areas: areas.clone(),
            tag: tag_of(boot.0),
            stop_in,
            fencing: 0,
            reaps: 0,
            looked_ns: now_ns(),
            fence_limit_ns,
            shots: 0,
            bell: None,
            arrivals: 0,
            node,
            half,
            region,
        };
        Ok((fabric, areas))
    }

    /// From now on WRITEs of peers wake this node, so that it may sleep ([`Fabric::fall_asleep`]).
    pub fn be_woken(&mut self) {
        let bell = Bell::new(self.region.word(header::SLEEPER), self.region.word(header::ARRIVALS));
        bell.hang();
        self.bell = Some(bell);
    }

    /// Writers shot so far.
    pub fn shots(&self) -> u64 {
        self.shots
    }

    /// Takes the region's name away. Peers that are connected notice when the fabric is dropped.
    pub fn unlink(&self) -> Result<(), RegionError> {
        self.region.unlink()
    }

    /// Compares a word of the peer's control area with `expected` and swaps it for `desired`, over the control queue pair.
    /// The completion's value is the word that was found.
    pub fn post_cas(&mut self, id: RequestId, offset: u64, expected: u64, desired: u64) {
        let (status, value) = match self.peer(id).control() {
            Err(status) => (status, 0),
            Ok(link) => match link.cas(offset, expected, desired) {
                Some(found) => (Status::Success, found),
                None => (self.peer(id).break_control(), 0),
            },
        };
        self.completions.push(id, status, value);
    }

    #[inline(always)]
    fn peer(&mut self, id: RequestId) -> &mut Peer {
        &mut self.peers[usize::from(id.peer.0 & 15)]
    }

    #[inline(always)]
    fn write_log(&mut self, id: RequestId, source: Source, from: u64, to: u64, len: u32) -> Status {
        let me = fence::writer(self.tag, id.epoch.0);
        let peer = &mut self.peers[usize::from(id.peer.0 & 15)];
        let Some(link) = peer.link.as_ref().filter(|_| peer.me == me) else {
            return peer.down();
        };
        let source = match source {
            Source::Staging => &self.areas.staging,
            Source::Log => &self.areas.log,
        };
        let wrote = if self.stop_in == 0 {
            link.write_log(me, source, from, to, len)
        } else {
            write_log_counted(&mut self.stop_in, link, me, source, from, to, len)
        };
        match wrote {
            Wrote::All => Status::Success,
            Wrote::Refused => peer.break_log(Status::Refused),
            Wrote::OutOfRange => peer.break_log(Status::Failed),
        }
    }

    #[inline]
    fn write_control(&mut self, id: RequestId, source: Source, from: u64, to: u64, len: u32) -> Status {
        let peer = &mut self.peers[usize::from(id.peer.0 & 15)];
        let source = match source {
            Source::Staging => &self.areas.staging,
            Source::Log => &self.areas.log,
        };
        match peer.control() {
            Err(status) => status,
            Ok(link) if link.write_control(source, from, to, len) => Status::Success,
            Ok(_) => peer.break_control(),
        }
    }

    #[inline]
    fn read_control(&mut self, id: RequestId, from: u64, to: u64, len: u32) -> Status {
        let peer = &mut self.peers[usize::from(id.peer.0 & 15)];
        match peer.control() {
            Err(status) => status,
            Ok(link) if link.read_control(from, &self.areas.staging, to, len) => Status::Success,
            Ok(_) => peer.break_control(),
        }
    }

    fn confirm(&mut self, id: RequestId, from: u64, to: u64) -> Status {
        let me = fence::writer(self.tag, id.epoch.0);
        let peer = &mut self.peers[usize::from(id.peer.0 & 15)];
        let Some(link) = peer.link.as_ref().filter(|_| peer.me == me) else {
            return peer.down();
        };
        match link.read_log(me, from, &self.areas.staging, to) {
            Wrote::All => Status::Success,
            Wrote::Refused => peer.break_log(Status::Refused),
            Wrote::OutOfRange => peer.break_log(Status::Failed),
        }
    }

    fn fetch(&mut self, id: RequestId, from: u64, to: u64, len: u32) -> Status {
        let peer = &mut self.peers[usize::from(id.peer.0 & 15)];
        match peer.control() {
            Err(status) => status,
            Ok(link) if link.read_snapshot(from, &self.areas.snapshot, to, len) => Status::Success,
            Ok(_) => peer.break_control(),
        }
    }

    fn pull(&mut self, id: RequestId, plane: Plane, at: u64, len: u32) -> Status {
        // Another's log would land in a copy of the own one; and what is no copy is changed by nobody but its peers.
        if id.peer != self.node || self.half != Half::Proposer {
            return Status::Failed;
        }
        let own = match plane {
            Plane::Control => &self.areas.control,
            Plane::Log => &self.areas.log,
        };
        let peer = &mut self.peers[self.node.slot()];
        match peer.control() {
            Err(status) => status,
            Ok(link) if link.pull(plane, at, own, len) => Status::Success,
            Ok(_) => peer.break_control(),
        }
    }

    fn push(&mut self, id: RequestId, at: u64, len: u32) -> Status {
        // Nobody but a host stores into another process's snapshot area, and only into its acceptor's.
        if id.peer != self.node || self.half != Half::Proposer {
            return Status::Failed;
        }
        let peer = &mut self.peers[self.node.slot()];
        match peer.control() {
            Err(status) => status,
            Ok(link) if link.push(at, &self.areas.snapshot, len) => Status::Success,
            Ok(_) => peer.break_control(),
        }
    }

    fn open(&mut self, id: RequestId, numbers: u64) -> Status {
        let me = fence::writer(self.tag, id.epoch.0);
        let peer = self.peer(id);
        match peer.control() {
            Err(status) => status,
            // An acceptor that made other numbers is another process: the one that is mapped is dead.
            Ok(link) if u64::from(link.process.tag) != numbers => Status::Unreachable,
            Ok(_) if peer.log_end != LogEnd::Closed || id.epoch.0 == 0 => Status::Failed,
            Ok(_) => {
                peer.log_end = LogEnd::Ready;
                peer.me = me;
                Status::Success
            }
        }
    }

    fn connect(&mut self, id: RequestId) -> Status {
        let (node, own) = (id.peer, self.node);
        if !node.is_valid() || node == own && self.half != Half::Proposer {
            return Status::Failed;
        }
        let region = &self.region;
        let peer = &mut self.peers[node.slot()];
        peer.me = fence::NOBODY;
        peer.log_end = LogEnd::Closed;
        peer.is_up = false;
        let found = match find(region, node, own, peer.link.take()) {
            Ok(link) => {
                peer.logged = None;
                link
            }
            Err(error) => {
                let error = error.to_string();
                if peer.logged.as_ref() != Some(&error) {
                    tracing::warn!(node = node.0, "cannot connect: {error}");
                    peer.logged = Some(error);
                }
                peer.is_gone = true;
                return Status::Failed;
            }
        };
        peer.is_gone = found.is_none();
        peer.is_up = found.is_some();
        peer.link = found;
        if peer.is_up {
            tracing::debug!(node = node.0, "connected");
            Status::Success
        } else {
            Status::Unreachable
        }
    }

    fn post_acceptor(&mut self, verb: &Verb) {
        let slot = usize::from(verb.id().peer.0 & 15);
        let peer = &mut self.peers[slot];
        let writers =
            Writers { directory: self.region.directory(), node: verb.id().peer, connected: peer.connected() };
        let mut context = Context { writers, tag: self.tag, completions: &mut self.completions };
        peer.acceptor.post(verb, &mut context);
        if peer.acceptor.is_fencing() {
            self.fencing |= 1 << slot;
        }
    }

    /// Everything that is not a copy.
    #[cold]
    #[inline(never)]
    fn post_rare(&mut self, verb: &Verb) {
        let tag = u64::from(self.tag);
        let (status, value) = match *verb {
            Verb::Connect { id } => (self.connect(id), tag),
            Verb::Open { id, numbers } => (self.open(id, numbers), 0),
            Verb::Close { id } => {
                // Copies are complete when `post` returns: there is nothing to drain.
                let peer = self.peer(id);
                peer.me = fence::NOBODY;
                peer.log_end = LogEnd::Closed;
                (Status::Success, tag)
            }
            Verb::Pull { id, plane, at, len } => (self.pull(id, plane, at, len), 0),
            Verb::Push { id, at, len } => (self.push(id, at, len), 0),
            _ => return self.post_acceptor(verb),
        };
        self.completions.push(verb.id(), status, if status == Status::Success { value } else { 0 });
    }

    /// Looks at the fences under way.
    #[cold]
    fn poll_fences(&mut self) {
        let now_ns = now_ns();
        for (slot, peer) in self.peers.iter_mut().enumerate() {
            if self.fencing & 1 << slot == 0 {
                continue;
            }
            let writers = Writers {
                directory: self.region.directory(),
                node: NodeId(slot as u8),
                connected: peer.connected(),
            };
            let mut context = Context { writers, tag: self.tag, completions: &mut self.completions };
            self.shots += u64::from(peer.acceptor.poll(now_ns, self.fence_limit_ns, &mut context));
            if !peer.acceptor.is_fencing() {
                self.fencing &= !(1 << slot);
            }
        }
    }

    /// Looks whether peers died, when it is time for it.
    #[cold]
    fn watch(&mut self) {
        self.reaps = 0;
        let now_ns = now_ns();
        if now_ns.saturating_sub(self.looked_ns) < WATCH_EVERY_NS {
            return;
        }
        self.looked_ns = now_ns;
        let mut watched: heapless::Vec<usize, 16> = heapless::Vec::new();
        let mut gone: u16 = 0;
        for (slot, peer) in self.peers.iter_mut().enumerate() {
            let Some(link) = peer.link.as_mut().filter(|_| !peer.is_gone) else { continue };
            link.populate_step();
            if link.is_closed() {
                gone |= 1 << slot;
            }
            // As many as there are peers fit.
            let _ = watched.push(slot);
        }
        let pidfds = watched.iter().filter_map(|slot| Some(self.peers[*slot].link.as_ref()?.process.pidfd()));
        find_dead(pidfds, |i| gone |= 1 << watched[i]);
        for (slot, peer) in self.peers.iter_mut().enumerate() {
            if gone & 1 << slot != 0 {
                tracing::debug!(node = slot, "gone");
                peer.is_gone = true;
                peer.is_up = false;
                peer.me = fence::NOBODY;
            }
        }
    }
}

impl Fabric for ShmFabric {
    #[inline]
    fn post(&mut self, verb: &Verb) {
        let (id, status) = match *verb {
            Verb::Write { id, plane: Plane::Log, source, from, to, len } => {
                (id, self.write_log(id, source, from, to, len))
            }
            Verb::Write { id, plane: Plane::Control, source, from, to, len } => {
                (id, self.write_control(id, source, from, to, len))
            }
            Verb::Read { id, from, to, len } => (id, self.read_control(id, from, to, len)),
            Verb::Confirm { id, from, to } => (id, self.confirm(id, from, to)),
            Verb::Fetch { id, from, to, len } => (id, self.fetch(id, from, to, len)),
            _ => return self.post_rare(verb),
        };
        self.completions.push(id, status, 0);
    }

    #[inline]
    fn reap(&mut self, out: &mut [Completion]) -> usize {
        if self.fencing != 0 {
            self.poll_fences();
        }
        if let Some(bell) = &self.bell {
            self.arrivals = bell.count();
        }
        let count = self.completions.take(out);
        self.reaps += if count == 0 { IDLE_REAP } else { 1 };
        if self.reaps >= REAPS_PER_LOOK {
            self.watch();
        }
        count
    }

    fn fall_asleep(&mut self) -> Option<fabric::Bell<'_>> {
        let bell = self.bell.as_ref().filter(|_| self.fencing == 0)?;
        Some(bell.lie_down(self.arrivals))
    }

    fn wake_up(&mut self) {
        if let Some(bell) = &self.bell {
            bell.get_up();
        }
    }
}

impl Peer {
    /// The link of a control queue pair that is up; else how requests on it end.
    #[inline(always)]
    fn control(&self) -> Result<&Link, Status> {
        self.link.as_ref().filter(|_| self.is_up).ok_or_else(|| self.down())
    }

    /// The process at the other end, if it is there.
    fn connected(&self) -> Option<Arc<Process>> {
        self.link
            .as_ref()
            .filter(|link| self.is_up && !link.is_closed())
            .map(|link| Arc::clone(&link.process))
    }

    /// How requests end on a queue pair that is not up.
    #[cold]
    fn down(&self) -> Status {
        if self.is_gone { Status::Unreachable } else { Status::Flushed }
    }

    #[cold]
    fn break_log(&mut self, status: Status) -> Status {
        self.me = fence::NOBODY;
        self.log_end = LogEnd::Error;
        status
    }

    #[cold]
    fn break_control(&mut self) -> Status {
        self.is_up = false;
        Status::Failed
    }
}

/// The memory of a node with that region. A host has a copy of its acceptor's control and log areas, and a snapshot area, for itself
/// alone.
fn areas(region: &Region, half: Half, ring_len: u64, snapshot_len: u64) -> io::Result<Areas> {
    let own = |len| -> io::Result<Mapped> {
        let mapping = Mapping::anonymous(len)?;
        mapping.populate(0, u64::MAX)?;
        Ok(mapping.slice(0, len))
    };
    let staging = own(log::len(ring_len))?;
    if half == Half::Proposer {
        let (control, log) = (own(control::LEN)?, own(log::len(ring_len))?);
        let snapshot = match snapshot::len(snapshot_len) {
            0 => control.part(0, 0),
            len => own(len)?,
        };
        return Ok(Areas { control, log, staging, snapshot });
    }
    Ok(Areas { control: region.control(), log: region.log(), staging, snapshot: region.snapshot() })
}

/// The link to a peer that is alive: `former` when it still is the one, else a new one; `None` when there is none.
fn find(
    region: &Region,
    node: NodeId,
    own: NodeId,
    former: Option<Link>,
) -> Result<Option<Link>, RegionError> {
    let Some(found) = Found::look(region.directory(), node)? else { return Ok(None) };
    found.check(region, node == own)?;
    if let Some(link) = former.filter(|link| link.process.boot == found.boot() && !link.is_gone()) {
        return Ok(Some(link));
    }
    match found.owner()? {
        Some(process) => Link::new(&found, process, own).map(Some),
        None => Ok(None),
    }
}

/// The copy with the test hook armed.
#[cold]
fn write_log_counted(
    stop_in: &mut u32,
    link: &Link,
    me: u64,
    source: &Mapped,
    from: u64,
    to: u64,
    len: u32,
) -> Wrote {
    let wrote = if *stop_in == 1 {
        link.write_log_and_stop(me, source, from, to, len)
    } else {
        link.write_log(me, source, from, to, len)
    };
    if wrote == Wrote::All {
        *stop_in -= 1;
    }
    wrote
}

fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

#[cfg(test)]
mod tests;
