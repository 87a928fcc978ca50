//! The thread beside the one that beats: everything that takes a device or a peer its time. It changes the states of queue
//! pairs, meets peers through the exchange, fences, and hears of the device's asynchronous events. Each group has its own: when a
//! node dies that led many, their fences do not wait for each other.
//!
//! Jobs come through a bounded channel and are done in order; what came of them goes back through a ring that the beating
//! thread looks at. It never waits for a peer.

use std::fs::File;
use std::io::Read;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::thread;
use std::time::{Duration, Instant};

use ringleader_core::options::Half;
use ringleader_core::types::{Boot, Epoch, NodeId};
use ringleader_core::verb::{Class, Completion, RequestId, Status};
use rtrb::Producer;
use tracing::{debug, error, warn};

use super::card::{Card, Fields, Own, RemoteRange};
use super::device::News;
use super::error::VerbsError;
use super::flush::Flush;
use super::inbound::{Inbound, Refusal};
use super::parts::Parts;
use super::qp::{Armed, NUMBER_MASK, Numbers, Path, Permission, QueuePair};
use super::rendezvous::{Meeting, Rendezvous};
use crate::exchange::{host_of, is_host};
use ringleader_core::layout::control;

/// Looks at exchange and device when no job comes, this often: while a peer is being met, and else.
const TICK_MEETING: Duration = Duration::from_millis(1);
const TICK: Duration = Duration::from_millis(5);
/// On a device with several groups these take turns, up to so many, in looking as often as that.
const TICKS_MAX: u32 = 8;

/// For tests, never for use: an environment variable that, set to `node:n`, makes the device of that node seem broken (as by
/// `IBV_EVENT_DEVICE_FATAL`) n milliseconds after the start.
pub const DEVICE_FATAL_AFTER: &str = "RINGLEADER_TEST_DEVICE_FATAL";

/// Which of the two queue pairs that this node posts to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum End {
    Control,
    Log,
}

/// What the beating thread wants done.
#[derive(Debug)]
pub(super) enum Job {
    /// Find the peer, over a control queue pair that was never used. The former one is destroyed.
    Meet { id: RequestId, former: Option<Arc<QueuePair>> },
    /// To ERR.
    Fail { end: End, peer: NodeId, qp: Arc<QueuePair> },
    /// Drained: to RESET, or destroyed and another one made: where RESET is not to be relied on, and when it could not be drained.
    Reset { peer: NodeId, qp: Option<Arc<QueuePair>>, drained: bool },
    /// The initiator's end: up.
    Open { id: RequestId, qp: Arc<QueuePair>, packet: u32, peer: u32 },
    /// The acceptor's end.
    Arm { id: RequestId, peer: Numbers },
    /// The acceptor's end.
    Grant { id: RequestId },
    /// The acceptor's end.
    Fence { id: RequestId },
    /// The group was formed.
    Formed { group: u128 },
}

/// What came of it.
#[derive(Debug)]
pub(super) enum Report {
    /// A session, with everything up.
    Met { id: RequestId, qp: Arc<QueuePair>, remote: Remote },
    /// It is in ERR, or could not be brought there.
    Failed { end: End, peer: NodeId, ok: bool },
    /// The initiator's end is in RESET, and has a new packet number.
    Reset { peer: NodeId, end: Option<(Arc<QueuePair>, u32)> },
    /// A verb is over.
    Done(Completion),
    /// The session is over: its control queue pair is in ERR.
    Lost { peer: NodeId },
    /// The port went down, or came up.
    Port { up: bool },
    /// The device is gone.
    Dead,
}

/// Where a peer's memory is.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Remote {
    pub(super) control: RemoteRange,
    pub(super) log_readable: RemoteRange,
    pub(super) log: RemoteRange,
    pub(super) snapshot: RemoteRange,
    /// WRITEs to it are to wake it.
    pub(super) wakes: bool,
}

/// What is known of a peer that was met.
#[derive(Debug)]
struct Session {
    number: u64,
    boot: Boot,
    half: Half,
    path: Path,
    qp: Arc<QueuePair>,
}

#[derive(Debug, Default)]
struct Peer {
    inbound: Option<Inbound>,
    session: Option<Session>,
    /// The attempt to meet under way: its verb, its number, and the queue pair that waits for it.
    attempt: Option<(RequestId, u64, QueuePair, u32)>,
}

/// See the module.
pub(super) struct Worker<R> {
    parts: Arc<Parts>,
    jobs: Receiver<Job>,
    reports: Producer<Report>,
    rendezvous: R,
    /// By seat: behind the nodes are the hosts of those whose acceptor is apart.
    peers: [Peer; 32],
    flush: Flush,
    random: File,
    attempts: u64,
    dead: bool,
    /// What was heard of the device before.
    heard: News,
    fatal_at: Option<Instant>,
    /// The own host's seat.
    host: NodeId,
}

impl<R: Rendezvous> Worker<R> {
    pub(super) fn new(
        parts: &Arc<Parts>,
        node: NodeId,
        peers: &[NodeId],
        rendezvous: R,
        (jobs, reports): (Receiver<Job>, Producer<Report>),
        flush: Flush,
    ) -> Result<Worker<R>, VerbsError> {
        let name = parts.context.name();
        let random = File::open("/dev/urandom").map_err(VerbsError::call("open /dev/urandom", name))?;
        let mut table: [Peer; 32] = Default::default();
        // An acceptor has its own host write, too; and to a host nobody writes.
        let own = (parts.half == Half::Acceptor).then_some(&node);
        for peer in peers.iter().chain(own).filter(|_| parts.half != Half::Proposer) {
            table[peer.slot()].inbound = Some(Inbound::new(parts)?);
        }
        let after = std::env::var(DEVICE_FATAL_AFTER).ok().and_then(|text| {
            let (named, after) = text.split_once(':')?;
            (named == node.to_string()).then(|| after.parse().ok())?
        });
        Ok(Worker {
            parts: Arc::clone(parts),
            jobs,
            reports,
            host: host_of(node),
            rendezvous,
            peers: table,
            flush,
            random,
            attempts: 0,
            dead: false,
            heard: parts.device.news(),
            fatal_at: after.map(|after| Instant::now() + Duration::from_millis(after)),
        })
    }

    /// Until the fabric is dropped.
    pub(super) fn run(mut self) {
        loop {
            let meets = self.peers.iter().any(|peer| peer.attempt.is_some());
            // One thread a group: many groups look less often each.
            let idle = TICK * self.parts.device.groups().clamp(1, TICKS_MAX);
            match self.jobs.recv_timeout(if meets { TICK_MEETING } else { idle }) {
                Ok(job) => self.handle_job(job),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            loop {
                match self.jobs.try_recv() {
                    Ok(job) => self.handle_job(job),
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => return,
                }
            }
            while let Some(meeting) = self.rendezvous.poll() {
                self.handle_meeting(meeting);
            }
            let news = self.parts.device.news();
            if news != self.heard {
                self.handle_news(news);
            }
            if !self.dead && self.flush.is_lost() {
                self.die();
            }
            if self.fatal_at.is_some_and(|at| Instant::now() >= at) {
                self.fatal_at = None;
                error!(
                    device = self.parts.context.name(),
                    "the device is taken for gone, as a test wants it"
                );
                self.die();
            }
        }
    }

    fn report(&mut self, mut report: Report) {
        // The ring has room for all that can be under way; should it be full, the beating thread is late.
        while let Err(rtrb::PushError::Full(back)) = self.reports.push(report) {
            if self.reports.is_abandoned() {
                return;
            }
            report = back;
            thread::yield_now();
        }
    }

    fn done(&mut self, id: RequestId, status: Status, value: u64) {
        // Nobody asked for a session with a host: it knocked.
        if is_host(id.peer) {
            return;
        }
        self.report(Report::Done(Completion { id, status, value }));
    }

    /// A random packet number.
    pub(super) fn packet(&mut self) -> u32 {
        let mut bytes = [0; 4];
        self.random.read_exact(&mut bytes).expect("the system always has random numbers");
        u32::from_ne_bytes(bytes) & NUMBER_MASK
    }

    fn handle_job(&mut self, job: Job) {
        match job {
            Job::Meet { id, former } => {
                self.peers[id.peer.slot()].session = None;
                drop(former);
                self.meet(id);
            }
            Job::Fail { end, peer, qp } => {
                let failed = qp.fail();
                self.log_error(peer, &failed);
                self.report(Report::Failed { end, peer, ok: failed.is_ok() });
            }
            Job::Reset { peer, qp, drained } => self.reset(peer, qp, drained),
            Job::Open { id, qp, packet, peer } => {
                let opened = match &self.peers[id.peer.slot()].session {
                    _ if self.dead => Err(Status::Unreachable),
                    None => Err(Status::Unreachable),
                    Some(session) => {
                        let peer = Numbers { qp: peer, packet };
                        let opened = qp.connect(&session.path, peer, packet, Permission::Nothing);
                        self.log_error(id.peer, &opened);
                        opened.map_err(|_| Status::Failed)
                    }
                };
                self.done(id, opened.err().unwrap_or(Status::Success), 0);
            }
            Job::Arm { id, peer } => {
                let armed = self.arm(id, peer);
                self.end(id, armed.map(Armed::pack));
            }
            Job::Grant { id } => {
                let ended = self.on_inbound(id, |inbound, _, _| inbound.grant(id.epoch));
                self.end(id, ended.map(|()| 0));
            }
            Job::Fence { id } => {
                let ended = self.on_inbound(id, Inbound::fence);
                self.end(id, ended.map(|()| 0));
            }
            Job::Formed { group } => self.rendezvous.set_group(group),
        }
    }

    /// Arms for whoever writes for that node: itself, or its host.
    fn arm(&mut self, id: RequestId, peer: Numbers) -> Result<Armed, Refusal> {
        let slot = id.peer.slot();
        let is_apart = self.peers[slot].session.as_ref().is_none_or(|session| session.half == Half::Acceptor);
        let seat = if is_apart { host_of(id.peer).slot() } else { slot };
        let writer = self.peers[seat].session.as_ref().map(|session| (session.boot, session.path));
        match (&mut self.peers[slot].inbound, writer) {
            (Some(inbound), Some((boot, path))) if !self.dead => {
                inbound.arm(&self.parts, (id.epoch, boot), &path, peer)
            }
            _ => Err(Refusal::State(Status::Unreachable)),
        }
    }

    fn on_inbound(
        &mut self,
        id: RequestId,
        carry_out: impl FnOnce(&mut Inbound, &Arc<Parts>, &mut Flush) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        match &mut self.peers[id.peer.slot()].inbound {
            Some(inbound) if !self.dead => carry_out(inbound, &self.parts, &mut self.flush),
            _ => Err(Refusal::State(Status::Failed)),
        }
    }

    fn end(&mut self, id: RequestId, ended: Result<u64, Refusal>) {
        match ended {
            Ok(value) => self.done(id, Status::Success, value),
            Err(Refusal::State(status)) => self.done(id, status, 0),
            Err(Refusal::Device(error)) => {
                warn!(node = id.peer.0, class = ?id.class, %error, "cannot change a queue pair");
                self.done(id, Status::Failed, 0);
            }
        }
    }

    fn log_error(&self, peer: NodeId, result: &Result<(), VerbsError>) {
        if let Err(error) = result {
            warn!(node = peer.0, %error, "cannot change a queue pair");
        }
    }

    fn reset(&mut self, peer: NodeId, qp: Option<Arc<QueuePair>>, drained: bool) {
        let packet = self.packet();
        let fresh = |parts: &Arc<Parts>| parts.log_qp().map(Arc::new);
        let reset = match qp {
            Some(qp) if self.parts.is_reset_strict() => match qp.reset() {
                Ok(()) if drained => Ok(qp),
                // RESET ends what ERR did not: no byte is read any more. What completes nevertheless is told by its id.
                Ok(()) => fresh(&self.parts),
                Err(error) => Err(error),
            },
            former => {
                drop(former);
                fresh(&self.parts)
            }
        };
        let end = match reset {
            Ok(qp) if !self.dead => Some((qp, packet)),
            Ok(_) => None,
            Err(error) => {
                warn!(node = peer.0, %error, "cannot change a queue pair");
                None
            }
        };
        self.report(Report::Reset { peer, end });
    }

    /// Asks for a session, with a queue pair whose number no former peer knows.
    fn meet(&mut self, id: RequestId) {
        let packet = self.packet();
        self.attempts += 1;
        let attempt = self.attempts;
        let peer = &mut self.peers[id.peer.slot()];
        peer.attempt = None;
        match self.parts.control_qp() {
            Ok(qp) if !self.dead => {
                let own = if id.peer == self.host { self.parts.own_for_host() } else { self.parts.own() };
                let card = Fields::new(&own, Numbers { qp: qp.number(), packet }).card();
                peer.attempt = Some((id, attempt, qp, packet));
                self.rendezvous.meet(id.peer, attempt, &card);
            }
            Ok(_) => self.done(id, Status::Unreachable, 0),
            Err(error) => {
                warn!(node = id.peer.0, %error, "cannot make a queue pair");
                self.done(id, Status::Failed, 0);
            }
        }
    }

    fn handle_meeting(&mut self, meeting: Meeting) {
        match meeting {
            Meeting::Met { peer, attempt, session, boot, half, card } => {
                let slot = usize::from(peer.0 & 31);
                let Some((id, _, qp, packet)) =
                    self.peers[slot].attempt.take_if(|(_, number, ..)| *number == attempt)
                else {
                    return;
                };
                let qp = Arc::new(qp);
                match self.bring_up(&card, &qp, packet) {
                    Ok((remote, path)) => {
                        debug!(node = peer.0, session, "met");
                        let handle = Arc::clone(&qp);
                        self.peers[slot].session = Some(Session { number: session, boot, half, path, qp });
                        // Of a host nothing was asked.
                        if !is_host(peer) {
                            self.report(Report::Met { id, qp: handle, remote });
                        }
                    }
                    Err(Refusal::State(status)) => {
                        warn!(
                            node = peer.0,
                            "its card fits no peer of this node, or the own address is gone"
                        );
                        self.done(id, status, 0);
                    }
                    Err(refusal) => self.end(id, Err(refusal)),
                }
            }
            Meeting::Knocks { peer } => {
                let id = RequestId { peer, class: Class::Connect, epoch: Epoch(0), number: 0 };
                self.peers[usize::from(peer.0 & 31)].session = None;
                self.meet(id);
            }
            Meeting::Failed { peer, attempt } => {
                let slot = usize::from(peer.0 & 31);
                let over = self.peers[slot].attempt.take_if(|(_, number, ..)| *number == attempt);
                if let Some((id, ..)) = over {
                    self.done(id, Status::Unreachable, 0);
                }
            }
            Meeting::Lost { peer, session } => {
                let slot = usize::from(peer.0 & 31);
                let lost = self.peers[slot].session.take_if(|known| known.number == session);
                if let Some(lost) = lost {
                    debug!(node = peer.0, session, "lost");
                    let failed = lost.qp.fail();
                    self.log_error(peer, &failed);
                    if !is_host(peer) {
                        self.report(Report::Lost { peer });
                    }
                }
            }
        }
    }

    /// Connects the control queue pair to the one of the card.
    fn bring_up(&self, card: &Card, qp: &QueuePair, packet: u32) -> Result<(Remote, Path), Refusal> {
        let unfit = || Refusal::State(Status::Failed);
        let fields = Fields::judge(card, control::LEN, self.parts.log_len()).ok_or_else(unfit)?;
        let own = self.parts.own();
        let peer = Own {
            lid: fields.lid,
            mtu: fields.mtu,
            gid: (fields.has_gid == 1).then_some(fields.gid),
            reads_started: fields.reads_started,
            reads_served: fields.reads_served,
            wakes: fields.wakes == 1,
            control: fields.control,
            log_readable: fields.log_readable,
            log: fields.log,
            snapshot: fields.snapshot,
        };
        if peer.gid.is_some() != own.gid.is_some() {
            return Err(unfit());
        }
        let path = self.parts.path(&peer).ok_or_else(unfit)?;
        let numbers = Numbers { qp: fields.qp, packet: fields.packet };
        qp.connect(&path, numbers, packet, Permission::ReadWrite)?;
        let Fields { control, log_readable, log, snapshot, .. } = fields;
        Ok((Remote { control, log_readable, log, snapshot, wakes: peer.wakes }, path))
    }

    fn handle_news(&mut self, news: News) {
        if news.is_dead {
            self.die();
        }
        if news.port_changes != self.heard.port_changes {
            self.report(Report::Port { up: news.is_port_up });
        }
        self.heard = news;
    }

    /// No verb will be carried out any more.
    fn die(&mut self) {
        if !self.dead {
            self.dead = true;
            self.report(Report::Dead);
        }
    }
}
