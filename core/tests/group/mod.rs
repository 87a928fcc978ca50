//! Three replicas and a fabric that carries every verb out at once: for tests that need a whole group and hardly any faults.
//! Faults are the simulator's.

#![allow(dead_code, reason = "each test program uses its own part")]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use ringleader_core::event::Event;
use ringleader_core::layout::{control, log, snapshot};
use ringleader_core::mem::{Area, Areas, Memory};
use ringleader_core::membership::Change;
use ringleader_core::options::{Half, Options};
use ringleader_core::proposer::{Confirm, OwnCopy, Quorum, Role};
use ringleader_core::replica::{Replica, Ticket};
use ringleader_core::snapshot::Writer;
use ringleader_core::timing::Timing;
use ringleader_core::types::{Boot, Incarnation, Instant, NodeId};
use ringleader_core::verb::{Completion, Plane, Source, Status, Verb};

pub(crate) const RING: u64 = 512 * 1024;
pub(crate) const SNAPSHOT: u64 = 256 * 1024;
pub(crate) const MS: u64 = 1_000_000;

#[derive(Clone)]
pub(crate) struct Words(pub(crate) Arc<[AtomicU64]>);

impl Memory for Words {
    fn words(&self) -> &[AtomicU64] {
        &self.0
    }
}

pub(crate) fn area(len: u64) -> Area<Words> {
    Area::new(Words((0..len / 8).map(|_| AtomicU64::new(0)).collect()))
}

pub(crate) fn copy(from: &Area<Words>, at: u64, to: &Area<Words>, place: u64, len: u32) {
    for word in 0..u64::from(len) / 8 {
        to.store(place + word * 8, from.load(at + word * 8));
    }
}

pub(crate) struct Node {
    pub(crate) id: u8,
    pub(crate) half: Half,
    pub(crate) replica: Replica<Words>,
    pub(crate) areas: Areas<Words>,
    /// Per peer: epoch armed or granted here, and whether granted.
    pub(crate) inbound: [(u32, bool); 6],
    pub(crate) applied: Vec<Vec<u8>>,
    pub(crate) committed: u64,
    pub(crate) alive: bool,
    /// The process is stopped; its memory answers.
    pub(crate) stopped: bool,
    /// So many arms fail.
    pub(crate) arm_failures: u32,
    /// The application takes entries.
    pub(crate) applies: bool,
    /// The application can save its state.
    pub(crate) can_save: bool,
    /// What it is told about snapshots is left to the test.
    pub(crate) keeps: bool,
    pub(crate) kept: Option<Event>,
    /// It was told that its group is not formed.
    pub(crate) refused: bool,
    /// READs of snapshots end in the next turn.
    fetched: Option<Completion>,
}

pub(crate) struct Group {
    pub(crate) nodes: Vec<Node>,
    pub(crate) now: u64,
    /// Who does not reach whom.
    pub(crate) cuts: BTreeSet<(usize, usize)>,
}

/// A node in that life, which looks for so many founders.
pub(crate) fn node(id: u8, founders: u8, life: u64, now: Instant) -> Node {
    part(id, Half::Whole, founders, life, now)
}

/// A node of which only one half is here.
pub(crate) fn part(id: u8, half: Half, founders: u8, life: u64, now: Instant) -> Node {
    let snapshot_len = SNAPSHOT;
    let areas = Areas {
        control: area(control::LEN),
        log: area(log::len(RING)),
        staging: area(log::len(RING)),
        snapshot: area(snapshot::len(snapshot_len)),
    };
    let mut peers = [false; 16];
    (1..=founders).filter(|peer| *peer != id).for_each(|peer| peers[usize::from(peer)] = true);
    let options = Options {
        node: NodeId(id),
        half,
        peers,
        ring_len: RING,
        max_entry: RING / 8,
        snapshot_len,
        timing: Timing { catchup_limit_ns: 1000 * MS, ..Timing::LOCAL },
        quorum: Quorum::Live,
        own_copy: OwnCopy::Last,
        confirm: Confirm::Completion,
        lease_reads: None,
        incarnation: Incarnation(10 + u64::from(id) + life * 100),
        boot: Boot(20 + u64::from(id) + life * 100 + u64::from(half == Half::Proposer) * 1000),
        seed: u64::from(id),
    };
    let replica = Replica::new(options, areas.clone(), now).expect("good options");
    Node {
        id,
        half,
        replica,
        areas,
        inbound: [(0, false); 6],
        applied: Vec::new(),
        committed: 0,
        alive: true,
        stopped: false,
        arm_failures: 0,
        applies: true,
        can_save: true,
        keeps: false,
        kept: None,
        refused: false,
        fetched: None,
    }
}

impl Group {
    pub(crate) fn new() -> Group {
        Group {
            nodes: (1..=3u8).map(|id| node(id, 3, 0, Instant(0))).collect(),
            now: 0,
            cuts: BTreeSet::new(),
        }
    }

    /// A group that has committed something, and who leads it.
    pub(crate) fn led() -> (Group, usize) {
        let mut group = Group::new();
        group.nodes[0].replica.form(Instant(group.now), 77 << 64 | 5).expect("fresh");
        group.until("a leader", |group| group.leader().is_some());
        let leader = group.leader().expect("just seen");
        group.until("its first entry", |group| group.nodes[leader].replica.status().commit_index.0 > 0);
        (group, leader)
    }

    /// Neither reaches the other, or both do again.
    pub(crate) fn cut(&mut self, one: usize, other: usize, cut: bool) {
        for way in [(one, other), (other, one)] {
            if cut {
                self.cuts.insert(way)
            } else {
                self.cuts.remove(&way)
            };
        }
    }

    pub(crate) fn turns(&mut self, count: usize) {
        (0..count).for_each(|_| self.turn());
    }

    /// A change that may have to wait for its time.
    #[track_caller]
    pub(crate) fn change(&mut self, leader: usize, change: Change) -> Ticket {
        let mut ticket = None;
        self.until("a change", |group| {
            group.nodes[leader].replica.connect_to(change.node());
            ticket = group.nodes[leader].replica.change(Instant(group.now), &change).ok();
            ticket.is_some()
        });
        let ticket = ticket.expect("just made");
        self.until("it is committed", |group| group.nodes[leader].committed >= ticket.index.0);
        ticket
    }

    pub(crate) fn carry_out(&mut self, me: usize, verb: Verb) -> Completion {
        let id = verb.id();
        let Some(peer) =
            self.nodes.iter().position(|node| node.id == id.peer.0 && node.half != Half::Proposer)
        else {
            return Completion { id, status: Status::Unreachable, value: 0 };
        };
        let (from_id, to_id) = (usize::from(self.nodes[me].id), id.peer.slot());
        let mut done = Completion { id, status: Status::Success, value: 7 };
        let (here, there) = (self.nodes[me].areas.clone(), self.nodes[peer].areas.clone());
        let epoch = id.epoch.0;
        match verb {
            Verb::Arm { .. } if self.nodes[me].arm_failures > 0 => {
                self.nodes[me].arm_failures -= 1;
                done.status = Status::Failed;
            }
            Verb::Arm { .. } => self.nodes[me].inbound[to_id] = (epoch, false),
            Verb::Grant { .. } => self.nodes[me].inbound[to_id] = (epoch, true),
            Verb::Fence { .. } => self.nodes[me].inbound[to_id].1 = false,
            Verb::Open { .. } | Verb::Close { .. } => {}
            _ if !self.nodes[peer].alive || self.cuts.contains(&(me, peer)) => {
                done.status = Status::Unreachable
            }
            Verb::Connect { .. } => {}
            Verb::Push { at, len, .. } => copy(&here.snapshot, at, &there.snapshot, at, len),
            Verb::Pull { plane: Plane::Control, at, len, .. } => {
                copy(&there.control, at, &here.control, at, len)
            }
            Verb::Pull { plane: Plane::Log, at, len, .. } => copy(&there.log, at, &here.log, at, len),
            Verb::Read { from, to, len, .. } => copy(&there.control, from, &here.staging, to, len),
            Verb::Fetch { from, to, len, .. } => copy(&there.snapshot, from, &here.snapshot, to, len),
            Verb::Confirm { from, to, .. } => copy(&there.log, from, &here.staging, to, 8),
            Verb::Write { plane, source, from, to, len, .. } => {
                let source = if source == Source::Staging { &here.staging } else { &here.log };
                match plane {
                    Plane::Control => copy(source, from, &there.control, to, len),
                    Plane::Log if self.nodes[peer].inbound[from_id] == (epoch, true) => {
                        copy(source, from, &there.log, to, len);
                    }
                    Plane::Log => done.status = Status::Refused,
                }
            }
        }
        done
    }

    pub(crate) fn turn(&mut self) {
        self.now += MS / 4;
        for me in 0..self.nodes.len() {
            if self.nodes[me].alive && !self.nodes[me].stopped {
                self.run(me);
            }
        }
    }

    /// One turn of one node's loop.
    pub(crate) fn run(&mut self, me: usize) {
        if let Some(done) = self.nodes[me].fetched.take() {
            self.nodes[me].replica.handle_completion(Instant(self.now), done);
        }
        self.nodes[me].replica.handle_tick(Instant(self.now));
        for verbs in 0.. {
            assert!(verbs < 10_000, "one turn never ends");
            while let Some(event) = self.nodes[me].replica.poll_event() {
                match event {
                    Event::Committed { index, .. } => self.nodes[me].committed = index.0,
                    Event::FormRefused => self.nodes[me].refused = true,
                    Event::SaveSnapshot { .. } | Event::LoadSnapshot { .. } => {
                        self.nodes[me].kept = Some(event);
                        if !self.nodes[me].keeps {
                            self.do_kept(me);
                        }
                    }
                    _ => {}
                }
            }
            let Node { replica, applied, applies, .. } = &mut self.nodes[me];
            while *applies && replica.apply(|entry| applied.push(entry.payload.to_vec())) {}
            let Some(verb) = replica.poll_verb() else { break };
            let done = self.carry_out(me, verb);
            if let Verb::Fetch { .. } = verb {
                self.nodes[me].fetched = Some(done);
                continue;
            }
            self.nodes[me].replica.handle_completion(Instant(self.now), done);
        }
    }

    /// The application does what it was told about snapshots. Its state is how many entries it has, and something that makes it long.
    pub(crate) fn do_kept(&mut self, me: usize) {
        let longest = self.nodes.iter().map(|node| node.applied.clone()).max_by_key(Vec::len);
        let longest = longest.unwrap_or_default();
        let now = Instant(self.now);
        let Node { replica, areas, applied, can_save, kept, .. } = &mut self.nodes[me];
        match kept.take() {
            Some(Event::SaveSnapshot { number }) => {
                let mut writer = Writer::new(&areas.snapshot);
                writer.write(&(applied.len() as u64).to_le_bytes()).expect("short enough");
                writer.write(&vec![applied.len() as u8; SNAPSHOT as usize - 100]).expect("short enough");
                let saved = writer.finish();
                replica.handle_saved(now, number, Some(saved).filter(|_| *can_save));
            }
            Some(Event::LoadSnapshot { number, len }) => {
                let bytes = areas.snapshot.lend_loading(len).expect("it was READ");
                let count = bytes.first_chunk().map_or(u64::MAX, |word| u64::from_le_bytes(*word));
                let state = usize::try_from(count).ok().and_then(|count| longest.get(..count));
                if let Some(state) = state {
                    *applied = state.to_vec();
                }
                let loaded = state.is_some();
                replica.handle_loaded(now, number, loaded);
            }
            _ => {}
        }
    }

    pub(crate) fn leader(&self) -> Option<usize> {
        self.nodes.iter().position(|node| node.alive && node.replica.status().role == Role::Leader)
    }

    pub(crate) fn until(&mut self, what: &str, mut happened: impl FnMut(&mut Group) -> bool) {
        for _ in 0..20_000 {
            if happened(self) {
                return;
            }
            self.turn();
        }
        panic!("not within five seconds: {what}");
    }

    pub(crate) fn propose(&mut self, from: usize, count: usize) {
        for i in 0..count {
            let leader = self.leader().expect("a leader");
            let payload = format!("entry {}", from + i);
            let mut ticket = None;
            // A new leader has no room before a majority is in its window.
            self.until("room", |group| {
                ticket = group.nodes[leader].replica.propose(Instant(group.now), payload.as_bytes()).ok();
                ticket.is_some()
            });
            let ticket = ticket.expect("room");
            self.until("a commit", |group| group.nodes[leader].committed >= ticket.index.0);
        }
    }
}
