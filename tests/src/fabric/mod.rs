//! A simulated fabric of one-sided memory: nanoseconds and chance come from a seed, and all that protocol.md 2 allows happens.
//!
//! WRITEs read their source when they are sent, in pieces, and each piece lands at a time of its own; READs copy word
//! by word at different times; permission is checked a piece at a time, like access flags, and only a fence waits for
//! what has passed. The fabric keeps the promises of section 2 and no other. What it sees broken by the core (a source
//! byte that changed under a WRITE, two writers, arming too early) it keeps as a breach.

mod domain;
mod ends;
mod gate;
mod memory;
mod pieces;
mod pipe;
mod weather;

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};

use ringleader_core::layout;
use ringleader_core::mem::Areas;
use ringleader_core::types::NodeId;
use ringleader_core::verb::{Completion, Plane, Verb};

pub use self::domain::Domain;
use self::ends::{Gate, Pipe, Readable};
pub use self::ends::{GateState, PipeId};
pub use self::memory::{SimArea, SimMemory, fingerprint, same};
use self::pieces::Piece;
pub use self::weather::{Faults, Weather};
use crate::rng::Rng;
use crate::trace::Trace;

const SLOTS: usize = 16;
/// Seats: nodes, or their acceptors, and behind them hosts that are apart.
const SEATS: usize = 2 * SLOTS;

/// The seat of a node's host, where host and acceptor are apart.
pub fn host_of(node: NodeId) -> NodeId {
    NodeId(node.0 + SLOTS as u8)
}

/// The node that a seat is of.
pub fn node_of(seat: NodeId) -> NodeId {
    NodeId(seat.0 % SLOTS as u8)
}

/// Whether that is the seat of a host that is apart.
pub fn is_host(seat: NodeId) -> bool {
    seat.slot() >= SLOTS
}

/// The memory of one life of a node.
#[derive(Clone, Debug)]
pub struct Home {
    /// READ and WRITE for all.
    pub control: SimArea,
    /// READ for all, WRITE for the granted one.
    pub log: SimArea,
    /// Local.
    pub staging: SimArea,
    /// READ for all, into the reader's own; stored into by nobody else.
    pub snapshot: SimArea,
}

impl Home {
    /// Memory of zeros for a ring of that length, and snapshots of up to so many bytes.
    pub fn new(ring_len: u64, snapshot_len: u64) -> Home {
        Home {
            control: SimArea::new(SimMemory::zeroed(layout::control::LEN)),
            log: SimArea::new(SimMemory::zeroed(layout::log::len(ring_len))),
            staging: SimArea::new(SimMemory::zeroed(layout::log::len(ring_len))),
            snapshot: SimArea::new(SimMemory::zeroed(layout::snapshot::len(snapshot_len))),
        }
    }
}

impl Home {
    /// The same memory for a replica.
    pub fn areas(&self) -> Areas<SimMemory> {
        Areas {
            control: self.control.clone(),
            log: self.log.clone(),
            staging: self.staging.clone(),
            snapshot: self.snapshot.clone(),
        }
    }
}

/// Something the core did that protocol.md forbids, seen by the fabric.
#[derive(Clone, Debug)]
pub struct Breach {
    /// Number of the invariant of section 14.
    pub invariant: u8,
    /// What happened.
    pub what: String,
}

#[derive(Debug)]
struct Port {
    /// Counts starts.
    lives: u32,
    /// The life whose process runs.
    process: Option<u32>,
    /// The life whose memory answers.
    memory: Option<u32>,
    home: Option<Home>,
    completions: VecDeque<Completion>,
    /// Of the verbs that have completed, the one posted last.
    newest: u64,
}

#[derive(Debug)]
enum Happening {
    Piece(Piece),
    Ack { pipe: PipeId, life: u32, serial: u64 },
    Expire { pipe: PipeId, life: u32, serial: u64, status: ringleader_core::verb::Status },
    Settle { pipe: PipeId, life: u32 },
    PipeStep { pipe: PipeId, home_life: u32 },
    PipeGiveUp { pipe: PipeId, home_life: u32 },
    GateStep { acceptor: NodeId, peer: NodeId, home_life: u32 },
    FenceEnd { acceptor: NodeId, peer: NodeId, home_life: u32 },
}

#[derive(Debug)]
struct Scheduled {
    at_ns: u64,
    /// Breaks ties in the order of scheduling.
    order: u64,
    what: Happening,
}

impl PartialEq for Scheduled {
    fn eq(&self, other: &Self) -> bool {
        (self.at_ns, self.order) == (other.at_ns, other.order)
    }
}

impl Eq for Scheduled {}

impl PartialOrd for Scheduled {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Scheduled {
    // The heap gives the largest; the earliest is wanted.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at_ns, other.order).cmp(&(self.at_ns, self.order))
    }
}

/// The fabric between all nodes of a run.
#[derive(Debug)]
pub struct Fabric {
    now_ns: u64,
    rng: Rng,
    /// What it is like out there.
    pub weather: Weather,
    /// What happened, by kind.
    pub faults: Faults,
    /// The story.
    pub trace: Trace,
    queue: BinaryHeap<Scheduled>,
    scheduled: u64,
    ports: Vec<Port>,
    /// By plane, poster and target.
    pipes: Vec<Pipe>,
    /// By acceptor and peer.
    gates: Vec<Gate>,
    /// Hosts and acceptors are apart.
    split: bool,
    /// By sender and receiver: nothing passes.
    cut: [[bool; SEATS]; SEATS],
    /// By sender: what it sends passes at once and lands any time until then.
    slow_landings_until: [u64; SEATS],
    breaches: Vec<Breach>,
    landings: u64,
    /// In whose beat line the last thing that happened landed.
    beat_landed: Option<NodeId>,
    posted: u64,
}

impl Fabric {
    /// A fabric with nobody in it.
    pub fn new(seed: u64, split: bool, weather: Weather, trace: Trace) -> Fabric {
        let mut rng = Rng::new(seed);
        let mut others = Rng::new(seed ^ 0x5e47_0000_0000_0000);
        Fabric {
            now_ns: 0,
            weather,
            faults: Faults::default(),
            trace,
            queue: BinaryHeap::new(),
            scheduled: 0,
            ports: (0..SEATS)
                .map(|_| Port {
                    lives: 0,
                    process: None,
                    memory: None,
                    home: None,
                    completions: VecDeque::new(),
                    newest: 0,
                })
                .collect(),
            pipes: (0..2 * PIPES)
                .map(|at| Pipe::new(if at < PIPES { rng.word() } else { others.word() }))
                .collect(),
            gates: (0..SLOTS * SEATS).map(|_| Gate::new()).collect(),
            split,
            cut: [[false; SEATS]; SEATS],
            slow_landings_until: [0; SEATS],
            breaches: Vec::new(),
            landings: 0,
            beat_landed: None,
            posted: 0,
            rng,
        }
    }

    /// A node starts with this memory; what it had before is gone.
    pub fn start(&mut self, node: NodeId, home: Home) {
        self.stop(node);
        let port = &mut self.ports[node.slot()];
        port.lives += 1;
        port.process = Some(port.lives);
        port.memory = Some(port.lives);
        port.home = Some(home);
    }

    /// A node is gone, all of it.
    pub fn stop(&mut self, node: NodeId) {
        self.fail_domain(node, Domain::Process);
        self.fail_domain(node, Domain::Memory);
    }

    /// A part of a node ends. With its process its posting ends and all it had outstanding are gone (what has left it may
    /// land); its memory goes with it, or later, or never.
    pub fn fail_domain(&mut self, node: NodeId, domain: Domain) {
        let peers = (0..SLOTS).map(|peer| NodeId(peer as u8));
        let port = &mut self.ports[node.slot()];
        match domain {
            Domain::Process => {
                port.process = None;
                port.completions.clear();
                for peer in peers {
                    for plane in [Plane::Control, Plane::Log] {
                        let number = self.rng.word();
                        let pipe = self.pipe_mut(PipeId { from: node, to: peer, plane });
                        let life = pipe.life + 1;
                        *pipe = Pipe { life, ..Pipe::new(number) };
                    }
                }
            }
            Domain::Memory => {
                assert!(port.process.is_none(), "memory is its process's own, and never ends before it");
                port.memory = None;
                if !is_host(node) {
                    let all = (0..SEATS).map(|seat| NodeId(seat as u8));
                    all.for_each(|seat| *self.gate_mut(node, seat) = Gate::new());
                }
            }
        }
    }

    /// The time now.
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// When the next thing happens.
    pub fn next_ns(&self) -> Option<u64> {
        self.queue.peek().map(|next| next.at_ns)
    }

    /// Moves time on, to at most what [`Fabric::next_ns`] says.
    pub fn advance(&mut self, to_ns: u64) {
        self.now_ns = self.now_ns.max(to_ns);
    }

    /// Lets the next thing happen.
    pub fn step(&mut self) {
        let Some(next) = self.queue.pop() else { return };
        self.now_ns = self.now_ns.max(next.at_ns);
        match next.what {
            Happening::Piece(piece) => self.move_piece(piece),
            Happening::Ack { pipe, life, serial } => self.acknowledge(pipe, life, serial),
            Happening::Expire { pipe, life, serial, status } => self.expire(pipe, life, serial, status),
            Happening::Settle { pipe, life } => {
                if self.pipe(pipe).life == life {
                    self.settle(pipe);
                }
            }
            Happening::PipeStep { pipe, home_life } => self.step_pipe(pipe, home_life),
            Happening::PipeGiveUp { pipe, home_life } => self.give_up_connecting(pipe, home_life),
            Happening::GateStep { acceptor, peer, home_life } => self.step_gate(acceptor, peer, home_life),
            Happening::FenceEnd { acceptor, peer, home_life } => self.end_fence(acceptor, peer, home_life),
        }
    }

    /// A node posts a verb.
    pub fn post(&mut self, node: NodeId, verb: Verb) {
        match verb {
            Verb::Write { id, plane, source, from, to, len } => {
                let pipe = PipeId { from: node, to: id.peer, plane };
                let source = ends::Written::Plane(source);
                self.post_op(pipe, id, ends::Shape::Write { source, from, to, len: u64::from(len) });
            }
            Verb::Push { id, at, len } => {
                let pipe = PipeId { from: node, to: id.peer, plane: Plane::Control };
                let source = ends::Written::Snapshot;
                self.post_op(pipe, id, ends::Shape::Write { source, from: at, to: at, len: u64::from(len) });
            }
            Verb::Read { id, from, to, len } => {
                let pipe = PipeId { from: node, to: id.peer, plane: Plane::Control };
                self.post_op(
                    pipe,
                    id,
                    ends::Shape::Read { area: Readable::Control, from, to, len: u64::from(len) },
                );
            }
            Verb::Fetch { id, from, to, len } => {
                let pipe = PipeId { from: node, to: id.peer, plane: Plane::Control };
                self.post_op(
                    pipe,
                    id,
                    ends::Shape::Read { area: Readable::Snapshot, from, to, len: u64::from(len) },
                );
            }
            Verb::Pull { id, plane, at, len } => {
                let pipe = PipeId { from: node, to: id.peer, plane: Plane::Control };
                let area = if plane == Plane::Control { Readable::OwnLines } else { Readable::OwnLog };
                self.post_op(pipe, id, ends::Shape::Read { area, from: at, to: at, len: u64::from(len) });
            }
            Verb::Confirm { id, from, to } => {
                let pipe = PipeId { from: node, to: id.peer, plane: Plane::Log };
                self.post_op(pipe, id, ends::Shape::Confirm { from, to });
            }
            Verb::Connect { id } => {
                self.post_pipe_step(PipeId { from: node, to: id.peer, plane: Plane::Control }, verb);
            }
            Verb::Open { id, .. } | Verb::Close { id } => {
                self.post_pipe_step(PipeId { from: node, to: id.peer, plane: Plane::Log }, verb);
            }
            Verb::Arm { id, .. } | Verb::Grant { id } | Verb::Fence { id } => {
                self.post_gate_step(node, self.initiator(id.peer), verb);
            }
        }
    }

    /// The next completion of a node.
    pub fn reap(&mut self, node: NodeId) -> Option<Completion> {
        self.ports[node.slot()].completions.pop_front()
    }

    /// The memory of a node, as long as it answers.
    pub fn home(&self, node: NodeId) -> Option<&Home> {
        let port = &self.ports[node.slot()];
        port.memory.and(port.home.as_ref())
    }

    /// In whose beat line something has just landed.
    pub fn take_beat_landed(&mut self) -> Option<NodeId> {
        self.beat_landed.take()
    }

    /// What the core did that it must not do, since this was last asked.
    pub fn take_breach(&mut self) -> Option<Breach> {
        if self.breaches.is_empty() { None } else { Some(self.breaches.remove(0)) }
    }

    /// State of the end that `acceptor` keeps for `peer`, and how many pieces have passed it that have not landed.
    pub fn gate_of(&self, acceptor: NodeId, peer: NodeId) -> (GateState, u32) {
        let gate = self.gate(acceptor, self.initiator(peer));
        (gate.state, gate.passed)
    }

    /// How many pieces have landed anywhere.
    pub fn landings(&self) -> u64 {
        self.landings
    }

    /// Cuts a link in one direction, or mends it.
    pub fn cut(&mut self, from: NodeId, to: NodeId, cut: bool) {
        for from in [from, host_of(from)] {
            for to in [to, host_of(to)] {
                self.cut[from.slot()][to.slot()] = cut;
            }
        }
    }

    /// Cuts what is between a node's host and its acceptor, or mends it.
    pub fn cut_host(&mut self, node: NodeId, cut: bool) {
        let host = host_of(node);
        self.cut[host.slot()][node.slot()] = cut;
        self.cut[node.slot()][host.slot()] = cut;
    }

    /// Who posts to the log areas of others for that node.
    fn initiator(&self, node: NodeId) -> NodeId {
        if self.split { host_of(node) } else { node }
    }

    /// Whether a link is cut.
    pub fn is_cut(&self, from: NodeId, to: NodeId) -> bool {
        self.cut[from.slot()][to.slot()]
    }

    /// Breaks a posting end: what is outstanding fails, or the next verb does.
    pub fn break_pipe(&mut self, pipe: PipeId) {
        self.faults.broken_queue_pairs += 1;
        let (life, front) = {
            let broken = self.pipe_mut(pipe);
            (broken.life, broken.ops.front().map(|op| op.serial))
        };
        match front {
            Some(serial) => self.fail(pipe, life, serial, ringleader_core::verb::Status::Unreachable),
            None => self.pipe_mut(pipe).cracked = true,
        }
    }

    /// Breaks an acceptor's end, which only the initiator will notice.
    pub fn break_gate(&mut self, acceptor: NodeId, peer: NodeId) {
        let gate = self.gate_mut(acceptor, self.initiator(peer));
        if matches!(gate.state, GateState::Armed | GateState::Granted) {
            gate.state = GateState::Error;
            self.faults.broken_queue_pairs += 1;
        }
    }

    /// A posting end completes nothing for so long.
    pub fn mute(&mut self, pipe: PipeId, for_ns: u64) {
        self.faults.silences += 1;
        let until = self.now_ns + for_ns;
        self.pipe_mut(pipe).mute_until_ns = until;
    }

    /// For so long, what a node sends passes the permission check at once, and lands some time before that is over: a writer
    /// that is stopped in the middle of its copies.
    pub fn slow_landings(&mut self, from: NodeId, for_ns: u64) {
        let from = self.initiator(from);
        self.slow_landings_until[from.slot()] = self.now_ns + for_ns;
    }

    /// All links are mended, all silence ends, and the weather is this.
    pub fn heal(&mut self, weather: Weather) {
        self.weather = weather;
        self.cut = [[false; SEATS]; SEATS];
        self.slow_landings_until = [0; SEATS];
        for index in 0..self.pipes.len() {
            self.pipes[index].mute_until_ns = 0;
            self.settle(pipe_at(index));
        }
    }

    fn schedule(&mut self, after_ns: u64, what: Happening) {
        self.scheduled += 1;
        self.queue.push(Scheduled { at_ns: self.now_ns + after_ns, order: self.scheduled, what });
    }

    fn latency_ns(&mut self) -> u64 {
        let tail =
            if self.rng.chance(self.weather.tail_ppm) { self.rng.below(self.weather.tail_ns) } else { 0 };
        self.rng.within(self.weather.latency_ns) + tail
    }

    fn complete(&mut self, node: NodeId, completion: Completion) {
        let now = self.now_ns;
        if completion.status != ringleader_core::verb::Status::Success {
            self.trace.note(now, || {
                let id = completion.id;
                format!(
                    "{node}: {:?} for {} (epoch {}, number {}) ends {:?}",
                    id.class, id.peer, id.epoch, id.number, completion.status
                )
            });
        }
        self.ports[node.slot()].completions.push_back(completion);
    }

    fn breach(&mut self, invariant: u8, what: String) {
        let now = self.now_ns;
        self.trace.note(now, || format!("BREACH of invariant {invariant}: {what}"));
        self.breaches.push(Breach { invariant, what });
    }

    fn pipe(&self, id: PipeId) -> &Pipe {
        &self.pipes[pipe_index(id)]
    }

    fn pipe_mut(&mut self, id: PipeId) -> &mut Pipe {
        &mut self.pipes[pipe_index(id)]
    }

    fn gate(&self, acceptor: NodeId, peer: NodeId) -> &Gate {
        &self.gates[acceptor.slot() * SEATS + peer.slot()]
    }

    fn gate_mut(&mut self, acceptor: NodeId, peer: NodeId) -> &mut Gate {
        &mut self.gates[acceptor.slot() * SEATS + peer.slot()]
    }

    /// The life whose process can post, arm and fence.
    fn process_of(&self, node: NodeId) -> Option<u32> {
        self.ports[node.slot()].process
    }

    /// The life whose memory can be read and written.
    fn memory_of(&self, node: NodeId) -> Option<u32> {
        self.ports[node.slot()].memory
    }
}

/// Posting ends of nodes; as many of hosts come behind them.
const PIPES: usize = 2 * SLOTS * SLOTS;

fn pipe_index(id: PipeId) -> usize {
    let plane = match id.plane {
        Plane::Control => 0,
        Plane::Log => 1,
    };
    let (group, from) = (id.from.slot() / SLOTS, id.from.slot() % SLOTS);
    group * PIPES + (plane * SLOTS + from) * SLOTS + id.to.slot()
}

fn pipe_at(index: usize) -> PipeId {
    let (group, index) = (index / PIPES, index % PIPES);
    PipeId {
        from: NodeId((group * SLOTS + index / SLOTS % SLOTS) as u8),
        to: NodeId((index % SLOTS) as u8),
        plane: if index / SLOTS / SLOTS == 0 { Plane::Control } else { Plane::Log },
    }
}
