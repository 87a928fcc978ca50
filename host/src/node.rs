//! A node as the application holds it: opens the region, starts the agent, ends both.

use std::fs::File;
use std::io::{self, Read};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ringleader_core::entry;
#[cfg(feature = "verbs")]
use ringleader_core::layout::LAYOUT_VERSION;
use ringleader_core::mem::{Area, Areas};
use ringleader_core::options::{self, Half};
use ringleader_core::proposer::OwnCopy;
use ringleader_core::replica::Replica;
use ringleader_core::types::{Boot, Incarnation, NodeId};
use rtrb::Consumer;
use tracing::{info_span, warn};

use crate::agent::{Agent, Parts};
use crate::agent_thread::{AgentThread, Ended, Guest, Place};
use crate::app::StateMachine;
use crate::command::Command;
use crate::config::Notify;
use crate::errors::{CloseError, FormError, MeasureError, OpenError, TransferError};
use crate::events::{self, Events, TimedEvent};
#[cfg(feature = "verbs")]
use crate::exchange::{self, Exchange, Identity, Timeouts};
use crate::fabric::shm::{self, ShmFabric};
#[cfg(feature = "verbs")]
use crate::fabric::verbs::{self, LogPlace, VerbsFabric};
use crate::fabric::{Fabric, Mapped};
use crate::handle::Handle;
use crate::measure::{Measurement, ReadMeasurement};
use crate::metrics::Metrics;
#[cfg(feature = "verbs")]
use crate::options::VerbsOptions;
use crate::options::{Options, Transport};
use crate::reader::Reader;
use crate::shared::Shared;
use crate::status::{Board, Role, Status};
use crate::{clock, lane, memory};

/// One replica: its region, and the thread that serves it, which it may share with others ([`AgentThread`]).
///
/// Closed when it is dropped; [`Node::close`] also says how that went.
#[derive(Debug)]
pub struct Node {
    options: Options,
    /// The id of the group that it forms if it is told to: always the same, however often it is told.
    group: u128,
    shared: Arc<Shared>,
    commands: Sender<Command>,
    events: Mutex<Consumer<TimedEvent>>,
    /// What came of its end; `None` once that was asked for.
    ended: Option<Mutex<Ended>>,
    agent: AgentThread,
}

impl Node {
    /// Makes the region and starts the agent's thread. The node waits for [`Node::form`], on this node or another.
    pub fn open(options: Options, machine: impl StateMachine) -> Result<Node, OpenError> {
        options.check()?;
        let agent = AgentThread::of_one(options.node, options.pin, options.idle)?;
        Node::open_on(&agent, options, machine)
    }

    /// The same on a thread that is there, and may have the nodes of other groups: see [`AgentThread`].
    pub fn open_on(
        agent: &AgentThread,
        options: Options,
        machine: impl StateMachine,
    ) -> Result<Node, OpenError> {
        if options.half == Half::Acceptor {
            return Err(OpenError::Option("an acceptor alone has no application: Acceptor::open".to_owned()));
        }
        Node::open_half(agent, options, machine)
    }

    /// A node, or what of it the options say.
    pub(crate) fn open_half(
        agent: &AgentThread,
        options: Options,
        machine: impl StateMachine,
    ) -> Result<Node, OpenError> {
        options.check()?;
        let place = agent.take_place(&options)?;
        let (node, ring_len) = (NodeId(options.node), options.ring_len);
        let needed = options.memory_len();
        if let Some(available) = memory::available().filter(|available| *available < needed) {
            return Err(OpenError::Memory { needed, available });
        }
        let mut words = [0; 5];
        for word in &mut words {
            *word = random_word().map_err(OpenError::Random)?;
        }
        let [boot, incarnation, seed, low, high] = words;
        let core = options::Options {
            node,
            half: options.half,
            peers: options.peers(),
            ring_len,
            max_entry: options.max_entry(),
            snapshot_len: options.snapshot_len(),
            timing: options.timing,
            quorum: options.quorum,
            // This fabric carries a WRITE out while it is posted.
            own_copy: OwnCopy::First,
            confirm: options.confirm,
            lease_reads: options.lease_reads,
            incarnation: Incarnation(incarnation),
            boot: Boot(boot),
            seed,
        };
        // Before the region is made: nothing is left behind by options that cannot be.
        core.validate().map_err(|error| {
            OpenError::Option(match error {
                options::OptionsError::Timing => {
                    "the timing contradicts itself: see Timing::is_sound".to_owned()
                }
                options::OptionsError::Drift => {
                    "lease reads: clocks drift by 1 to 499999 parts per million".to_owned()
                }
                error => format!("the options are not possible: {error:?}"),
            })
        })?;
        let max_payload = entry::max_payload(options.max_entry());
        let shared = Arc::new(Shared { closed: AtomicBool::new(false), board: Board::new(), max_payload });
        let (commands, receiver) = mpsc::channel();
        let (events, consumer) = events::events();
        let outfit = Outfit { core, machine, commands: receiver, events, shared: Arc::clone(&shared) };
        let ended = match &options.transport {
            Transport::SharedMemory => open_shm(outfit, &options, agent, place)?,
            #[cfg(feature = "verbs")]
            Transport::Verbs(verbs) => open_verbs(outfit, &options, verbs, agent, place)?,
        };
        let group = u128::from(high) << 64 | u128::from(low);
        let (agent, events, ended) = (agent.clone(), Mutex::new(consumer), Some(Mutex::new(ended)));
        Ok(Node { options, group, shared, commands, events, ended, agent })
    }

    /// Forms the group of all members: on one node, once. Waits until this node is in it; the others follow.
    ///
    /// All members must be open, fresh, and reachable; until then this goes on trying, also after a timeout.
    pub fn form(&self, timeout: Duration) -> Result<(), FormError> {
        let deadline = Instant::now() + timeout;
        let refusals = self.status().form_refusals;
        let (reply, answer) = mpsc::channel();
        self.commands.send(Command::Form { group: self.group, reply }).map_err(|_| FormError::Closed)?;

        self.agent.wait_for(&answer).map_err(|_| FormError::Closed)??;
        loop {
            let status = self.status();
            if status.formed {
                return Ok(());
            }
            if status.form_refusals > refusals {
                return Err(FormError::Refused);
            }
            if Instant::now() >= deadline {
                return Err(FormError::Timeout);
            }
            if self.shared.closed.load(Ordering::Relaxed) {
                return Err(FormError::Closed);
            }
            self.agent.pause(Duration::from_millis(1));
        }
    }

    /// A new lane to the agent.
    pub fn handle(&self) -> Handle {
        let (handle, agent) = lane::lane();
        // When the agent has ended its end of the lane is dropped here, and the handle finds itself closed.
        let _ = self.commands.send(Command::Lane(agent));
        Handle::new(handle, Arc::clone(&self.shared))
    }

    /// A new way to read.
    pub fn reader(&self) -> Reader {
        self.new_reader(None)
    }

    /// The same; `ring` is called, by the agent's thread, whenever a read has ended: it may not wait for anything.
    pub(crate) fn reader_that_rings(&self, ring: impl Fn() + Send + 'static) -> Reader {
        self.new_reader(Some(Box::new(ring)))
    }

    fn new_reader(&self, ring: Option<Box<dyn Fn() + Send>>) -> Reader {
        let (reader, agent) = Reader::new(Arc::clone(&self.shared), ring);
        // As above.
        let _ = self.commands.send(Command::Reader(agent));
        reader
    }

    /// Hands the lead over to node `to`, and waits until this node follows it. Meanwhile no proposal is taken, and no read
    /// answered by the lease.
    ///
    /// When `to` is not elected within a bound (`campaign_timeout`), this node leads on.
    pub fn transfer(&self, to: u8, timeout: Duration) -> Result<(), TransferError> {
        let deadline = Instant::now() + timeout;
        let failures = self.status().transfer_failures;
        let (reply, answer) = mpsc::channel();
        self.commands.send(Command::Transfer { to, reply }).map_err(|_| TransferError::Closed)?;
        self.agent.wait_for(&answer).map_err(|_| TransferError::Closed)??;
        loop {
            let status = self.status();
            if status.role != Role::Leader && status.leader == Some(to) {
                return Ok(());
            }
            if status.transfer_failures > failures {
                return Err(TransferError::NotElected);
            }
            if status.closed {
                return Err(TransferError::Closed);
            }
            if Instant::now() >= deadline {
                return Err(TransferError::Timeout);
            }
            self.agent.pause(Duration::from_micros(100));
        }
    }

    /// A snapshot, at most some tens of microseconds old. No lock, and nothing that the agent would wait for.
    pub fn status(&self) -> Status {
        self.shared.status(self.options.node)
    }

    /// What it has done so far: numbers that only grow, as old as [`Node::status`].
    pub fn metrics(&self) -> Metrics {
        self.shared.board.read().metrics
    }

    /// Members that its options name and to which it is not connected.
    pub(crate) fn unreached(&self) -> Vec<u8> {
        let (reached, own) = (self.status().reached, self.options.node);
        let is_peer = |id: &u8| *id != own || self.options.half == Half::Proposer;
        self.options.members.iter().copied().filter(|id| is_peer(id) && !reached.contains(id)).collect()
    }

    /// The same two for any thread, for as long as it likes.
    pub fn view(&self) -> View {
        let Options { node, half, .. } = self.options;
        // An RDMA device fences by itself; and it is acceptors that fence.
        let shoots = matches!(self.options.transport, Transport::SharedMemory) && half != Half::Proposer;
        View { node, half, shoots, shared: Arc::clone(&self.shared) }
    }

    /// The next event that nobody took yet. For one consumer; when it is too slow events are dropped and counted in
    /// [`Status::events_dropped`], commits first.
    pub fn next_event(&self) -> Option<TimedEvent> {
        // A consumer that panicked left the queue as it was.
        self.events.lock().unwrap_or_else(PoisonError::into_inner).pop().ok()
    }

    /// Measures commit latency with `samples` payloads of `size` bytes, one at a time, and the floor under it, as many.
    ///
    /// Only on the leader. The payloads, all zeros, become entries like all others and are applied on every node; no
    /// proposal of a handle is served meanwhile.
    pub fn measure(&self, samples: usize, size: usize) -> Result<Measurement, MeasureError> {
        let (reply, answer) = mpsc::channel();
        let command = Command::Measure { samples, size, reply };
        self.commands.send(command).map_err(|_| MeasureError::Closed)?;
        self.agent.wait_for(&answer).map_err(|_| MeasureError::Closed)?
    }

    /// Asks something of the agent; an error when it has ended.
    pub(crate) fn send(&self, command: Command) -> Result<(), ()> {
        self.commands.send(command).map_err(|_| ())
    }

    /// Measures quorum reads, `samples` of them, one at a time, and the floor under them, as many. Only on the leader.
    pub fn measure_reads(&self, samples: usize) -> Result<ReadMeasurement, MeasureError> {
        let (reply, answer) = mpsc::channel();
        let command = Command::MeasureReads { samples, reply };
        self.commands.send(command).map_err(|_| MeasureError::Closed)?;
        self.agent.wait_for(&answer).map_err(|_| MeasureError::Closed)?
    }

    /// The life of this node's memory, as [`crate::members::Member::incarnation`] names it in hexadecimal digits. A host whose acceptor is
    /// apart has that one's, once it has met it.
    pub fn incarnation(&self) -> u64 {
        self.shared.board.read().incarnation
    }

    /// What it was opened with.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// The thread that serves it.
    pub fn agent(&self) -> &AgentThread {
        &self.agent
    }

    /// What says, whenever it is called, that the acceptor of this host, which is apart, has gone with its memory.
    #[cfg(feature = "doca")]
    pub(crate) fn orphaner(&self) -> impl FnOnce() + Send + use<> {
        let commands = self.commands.clone();
        // Fails when it has ended already.
        move || drop(commands.send(Command::Orphan))
    }

    /// Begins what [`Node::close`] waits for.
    pub(crate) fn ask_to_close(&self) {
        // Fails when it has ended already.
        let _ = self.commands.send(Command::Close);
    }

    /// Ends the agent and waits for it; drops the application; removes the region unless `keep_region` is set.
    ///
    /// Proposals on their way end [`crate::Outcome::Unknown`], those that the agent had not taken yet
    /// [`crate::Outcome::NotLeader`]. The other nodes notice as if the process had died.
    ///
    /// When the application has panicked in the agent's thread this says so ([`CloseError::Panicked`]), and the region
    /// stays, whatever `keep_region` says: it can be looked at with `ringleader log`, and the next process that opens this
    /// node in this directory puts its own in its place.
    pub fn close(mut self) -> Result<(), CloseError> {
        self.end()
    }

    fn end(&mut self) -> Result<(), CloseError> {
        let Some(ended) = self.ended.take() else { return Ok(()) };
        self.ask_to_close();
        // Nothing is told when dropping what the node was made of panics, too.
        let ended = ended.into_inner().unwrap_or_else(PoisonError::into_inner);
        self.agent.wait_for(&ended).unwrap_or(Err(CloseError::Panicked))
    }
}

/// Looks at a node, also when that has ended, and keeps nothing of it from ending. Taken by [`Node::view`].
#[derive(Clone, Debug)]
pub struct View {
    node: u8,
    half: Half,
    /// Former writers may have to be killed to shut them out.
    shoots: bool,
    shared: Arc<Shared>,
}

impl View {
    /// See [`Node::status`].
    pub fn status(&self) -> Status {
        self.shared.status(self.node)
    }

    /// See [`Node::metrics`].
    pub fn metrics(&self) -> Metrics {
        self.shared.board.read().metrics
    }

    /// What of the node it is that is looked at.
    pub fn half(&self) -> Half {
        self.half
    }

    pub(crate) fn shoots(&self) -> bool {
        self.shoots
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            warn!(node = self.options.node, %error, "did not close cleanly");
        }
    }
}

/// What an agent is made of, whatever carries its verbs.
struct Outfit<S> {
    core: options::Options,
    machine: S,
    commands: Receiver<Command>,
    events: Events,
    shared: Arc<Shared>,
}

/// A node on shared memory.
fn open_shm<S: StateMachine>(
    outfit: Outfit<S>,
    options: &Options,
    agent: &AgentThread,
    place: Place,
) -> Result<Ended, OpenError> {
    let (mut fabric, areas) = ShmFabric::create(&shm::Options {
        dir: &options.dir,
        node: outfit.core.node,
        half: outfit.core.half,
        boot: outfit.core.boot,
        incarnation: outfit.core.incarnation,
        ring_len: outfit.core.ring_len,
        snapshot_len: outfit.core.snapshot_len,
        group_name: options.group_name,
        // The core aborts at its limit: a stopped writer is shot well before.
        fence_limit_ns: options.timing.fence_limit_ns / 4,
    })?;
    // Nobody writes to a host: it looks.
    if options.notify == Notify::Imm && options.half != Half::Proposer {
        fabric.be_woken();
    }
    let keep_region = options.keep_region;
    let parts = outfit.equip(
        fabric,
        [areas.control, areas.log, areas.staging, areas.snapshot],
        ShmFabric::shots,
        options,
    )?;
    // What is left of a host says nothing.
    let keep_region = keep_region && options.half != Half::Proposer;
    let end = move |fabric: ShmFabric| if keep_region { Ok(()) } else { Ok(fabric.unlink()?) };
    Ok(host(parts, agent, place, end))
}

/// A node on an RDMA device.
#[cfg(feature = "verbs")]
fn open_verbs<S: StateMachine>(
    mut outfit: Outfit<S>,
    options: &Options,
    verbs: &VerbsOptions,
    agent: &AgentThread,
    place: Place,
) -> Result<Ended, OpenError> {
    let core = &mut outfit.core;
    let mut addresses = verbs.addresses.clone();
    if core.half != Half::Proposer {
        addresses[core.node.slot()] = None;
    }
    let exchange = Exchange::start(exchange::Options {
        listen: (core.half != Half::Proposer).then_some(verbs.listen),
        peers: addresses,
        key: verbs.key.clone(),
        identity: Identity {
            layout: LAYOUT_VERSION,
            group: 0,
            group_name: verbs.group,
            node: core.node,
            half: core.half,
            boot: core.boot,
            incarnation: core.incarnation,
            ring_len: core.ring_len,
            max_entry: core.max_entry,
            snapshot_len: core.snapshot_len,
        },
        timeouts: Timeouts::new(&options.timing),
    })?;
    let is_peer = |id: &u8| *id != core.node.0 || core.half == Half::Proposer;
    let peers: Vec<NodeId> = options.members.iter().filter(|id| is_peer(id)).map(|id| NodeId(*id)).collect();
    let device = match &options.log {
        LogPlace::OfHost(log) => verbs::Device::lent(log, &verbs.choice, peers.len())?,
        LogPlace::Own | LogPlace::Lent(_) => agent.device(&verbs.choice, peers.len())?,
    };
    let (fabric, areas) = VerbsFabric::create_on(
        &device,
        &verbs::Options {
            choice: verbs.choice.clone(),
            node: core.node,
            half: core.half,
            peers,
            ring_len: core.ring_len,
            snapshot_len: core.snapshot_len,
            suspect_after_ns: options.timing.suspect_after_ns,
            log: options.log.clone(),
            fence_by: None,
            wakes: options.notify == Notify::Imm && core.half != Half::Proposer,
        },
        exchange,
    )?;
    core.own_copy = if fabric.carries_out_at_once() { OwnCopy::First } else { OwnCopy::Last };
    let parts =
        outfit.equip(fabric, [areas.control, areas.log, areas.staging, areas.snapshot], |_| 0, options)?;
    let end = |fabric: VerbsFabric| if fabric.is_dead() { Err(CloseError::DeviceLost) } else { Ok(()) };
    Ok(host(parts, agent, place, end))
}

impl<S: StateMachine> Outfit<S> {
    /// The parts of an agent with this fabric and this memory.
    fn equip<F>(
        self,
        fabric: F,
        areas: [Mapped; 4],
        shots: fn(&F) -> u64,
        options: &Options,
    ) -> Result<Parts<Mapped, F, S>, OpenError> {
        let node = self.core.node;
        let [control, log, staging, snapshot] = areas.map(Area::new);
        let mut replica = Replica::new(self.core, Areas { control, log, staging, snapshot }, clock::now())
            .map_err(|error| OpenError::Option(format!("the options are not possible: {error:?}")))?;
        replica.set_readmit(options.readmit);
        // All of them, before there is a group, too: a leader that is no founder may be the one that lets this node in.
        for member in &options.members {
            replica.connect_to(NodeId(*member));
        }
        Ok(Parts {
            node,
            replica,
            fabric,
            machine: self.machine,
            commands: self.commands,
            events: self.events,
            shots,
            shared: self.shared,
        })
    }
}

/// Hands an agent over to its thread. `end` has the fabric's last word.
fn host<F: Fabric + Send + 'static, S: StateMachine>(
    parts: Parts<Mapped, F, S>,
    agent: &AgentThread,
    place: Place,
    end: impl FnOnce(F) -> Result<(), CloseError> + Send + 'static,
) -> Ended {
    let span = info_span!("node", id = parts.node.0, place = place.of_several());
    let (guest, ended) = Guest::new(Agent::new(parts), end, span, place);
    agent.host(Box::new(guest));
    ended
}

/// A random word that is not 0.
pub(crate) fn random_word() -> io::Result<u64> {
    let mut source = File::open("/dev/urandom")?;
    loop {
        let mut bytes = [0; 8];
        source.read_exact(&mut bytes)?;
        let word = u64::from_ne_bytes(bytes);
        if word != 0 {
            return Ok(word);
        }
    }
}
