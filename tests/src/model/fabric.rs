//! The smallest fabric that does all that protocol.md 2 allows: queue pairs with what is outstanding on them, the
//! acceptors' ends, and what is in the air of queue pairs that are no more. Nothing here has a time.
//!
//! What happens is chosen from outside, one small step at a time. A WRITE or READ moves in two halves, each read when it is
//! sent, in any order. That permission is checked and that bytes land are one step: a fence waits for what passed
//! before, so a half that lands after the revocation can as well have landed before it.

use std::collections::VecDeque;

use ringleader_core::canonical::{Canonical, Counter, Space};
use ringleader_core::types::NodeId;
use ringleader_core::verb::{Class, Completion, Plane, RequestId, Status, Verb};

use super::canonical::{Form, Sink, pair, put_carried};
use super::memory::{NODES, Words};

/// Posting ends: two planes of each ordered pair.
pub const PIPES: usize = 2 * NODES as usize * (NODES as usize - 1);
/// Acceptors' ends: one of each ordered pair.
pub const GATES: usize = NODES as usize * (NODES as usize - 1);

/// A posting end.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PipeId {
    /// Who posts.
    pub from: NodeId,
    /// Whose memory is meant.
    pub to: NodeId,
    /// Which plane.
    pub plane: Plane,
}

impl PipeId {
    /// All of them.
    pub fn all() -> impl Iterator<Item = PipeId> {
        (0..PIPES).map(|at| {
            let (from, to) = ordered_pair(at / 2);
            PipeId { from, to, plane: if at % 2 == 0 { Plane::Control } else { Plane::Log } }
        })
    }

    /// Its place among all.
    pub fn at(self) -> usize {
        2 * pair_at(self.from, self.to) + usize::from(self.plane == Plane::Log)
    }
}

/// The pair in that place: whose it is, and towards whom.
pub fn ordered_pair(at: usize) -> (NodeId, NodeId) {
    let (from, to) = (at / 2 + 1, at % 2 + 1);
    (NodeId(from as u8), NodeId((to + usize::from(to >= from)) as u8))
}

/// The place of a pair.
pub fn pair_at(of: NodeId, to: NodeId) -> usize {
    2 * (of.slot() - 1) + to.slot() - 1 - usize::from(to > of)
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum PipeState {
    Closed,
    Open,
    /// After an error: nothing is sent.
    Error,
}

/// A WRITE or READ that has not completed.
#[derive(Clone, Debug)]
pub(crate) struct Op {
    pub(crate) verb: Verb,
    /// What has landed, a bit a half.
    pub(crate) landed: u8,
    pub(crate) end: Option<Status>,
    /// What a WRITE carries: its source as it was when it was posted.
    pub(crate) source: Option<Words>,
    /// What a READ has brought, by halves. It is placed when the poster gets the completion: nobody looks before.
    pub(crate) read: [Vec<u64>; 2],
}

/// Both halves.
pub(crate) const BOTH: u8 = 3;

#[derive(Clone, Debug)]
pub(crate) struct Pipe {
    pub(crate) state: PipeState,
    /// Number of this end; another one after each close.
    pub(crate) ours: u64,
    /// The number of the acceptor's end that it was opened with.
    pub(crate) theirs: u64,
    /// The acceptor armed while this end was not closed: what is sent again may be taken for a duplicate.
    pub(crate) armed_early: bool,
    pub(crate) ops: Vec<Op>,
    /// Connect, Open, Close, in the order posted.
    pub(crate) steps: VecDeque<Verb>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum GateState {
    Closed,
    Armed,
    Granted,
    /// A fence has taken permission away and has not been reported.
    Revoked,
}

#[derive(Clone, Debug)]
pub(crate) struct Gate {
    pub(crate) state: GateState,
    pub(crate) ours: u64,
    pub(crate) theirs: u64,
    /// Arm, Grant, Fence, in the order posted.
    pub(crate) steps: VecDeque<Verb>,
}

/// Half a WRITE whose queue pair is no more, and which may land yet.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Ghost {
    pub(crate) from: NodeId,
    pub(crate) to: NodeId,
    pub(crate) plane: Plane,
    /// Numbers of the two ends it was sent with.
    pub(crate) ends: (u64, u64),
    pub(crate) offset: u64,
    pub(crate) words: Vec<u64>,
    /// It passed the check before the fence (only where fences do not drain).
    pub(crate) passed: bool,
}

/// All queue pairs.
#[derive(Clone, Debug)]
pub struct Fabric {
    pub(crate) pipes: [Pipe; PIPES],
    pub(crate) gates: [Gate; GATES],
    pub(crate) ghosts: Vec<Ghost>,
}

impl Fabric {
    /// Nothing is connected.
    pub fn new() -> Fabric {
        Fabric {
            pipes: std::array::from_fn(|_| Pipe {
                state: PipeState::Closed,
                ours: 1,
                theirs: 0,
                armed_early: false,
                ops: Vec::new(),
                steps: VecDeque::new(),
            }),
            gates: std::array::from_fn(|_| Gate {
                state: GateState::Closed,
                ours: 0,
                theirs: 0,
                steps: VecDeque::new(),
            }),
            ghosts: Vec::new(),
        }
    }

    pub(crate) fn pipe(&self, id: PipeId) -> &Pipe {
        &self.pipes[id.at()]
    }

    pub(crate) fn pipe_mut(&mut self, id: PipeId) -> &mut Pipe {
        &mut self.pipes[id.at()]
    }

    pub(crate) fn gate(&self, acceptor: NodeId, peer: NodeId) -> &Gate {
        &self.gates[pair_at(acceptor, peer)]
    }

    pub(crate) fn gate_mut(&mut self, acceptor: NodeId, peer: NodeId) -> &mut Gate {
        &mut self.gates[pair_at(acceptor, peer)]
    }

    /// A node posts a verb; `source` is what a WRITE is to carry.
    pub(crate) fn post(&mut self, node: NodeId, verb: Verb, source: Option<Words>) {
        let peer = verb.id().peer;
        let plane = match verb {
            Verb::Write { plane, .. } => plane,
            Verb::Confirm { .. } => unreachable!("the model's replicas confirm by completions"),
            Verb::Read { .. } | Verb::Connect { .. } => Plane::Control,
            Verb::Fetch { .. } => unreachable!("there are no snapshots in a model"),
            Verb::Pull { .. } | Verb::Push { .. } => {
                unreachable!("hosts and acceptors are not apart in a model")
            }
            Verb::Open { .. } | Verb::Close { .. } => Plane::Log,
            Verb::Arm { .. } | Verb::Grant { .. } | Verb::Fence { .. } => {
                return self.gate_mut(node, peer).steps.push_back(verb);
            }
        };
        let pipe = self.pipe_mut(PipeId { from: node, to: peer, plane });
        match verb {
            Verb::Write { .. } | Verb::Read { .. } => {
                let end = (pipe.state != PipeState::Open).then_some(Status::Flushed);
                pipe.ops.push(Op { verb, landed: 0, end, source, read: [Vec::new(), Vec::new()] });
            }
            _ => pipe.steps.push_back(verb),
        }
    }

    /// Whether a write over this queue pair is let through now.
    pub(crate) fn permits(&self, id: PipeId, ends: (u64, u64)) -> bool {
        id.plane == Plane::Control || {
            let gate = self.gate(id.to, id.from);
            gate.state == GateState::Granted && (gate.theirs, gate.ours) == ends
        }
    }

    /// Where the first verb stands that has not landed, or ended.
    pub(crate) fn first_unlanded(&self, id: PipeId) -> Option<usize> {
        let pipe = self.pipe(id);
        if pipe.state != PipeState::Open {
            return None;
        }
        pipe.ops.iter().position(|op| op.end.is_none() && op.landed != BOTH)
    }

    /// Halves that can be sent and land now: of any verb that no earlier one overlaps with.
    pub(crate) fn landable(&self, id: PipeId) -> Vec<(usize, u8)> {
        let pipe = self.pipe(id);
        let Some(first) = self.first_unlanded(id) else { return Vec::new() };
        if !self.permits(id, (pipe.ours, pipe.theirs)) {
            return Vec::new();
        }
        let mut found = Vec::new();
        for (at, op) in pipe.ops.iter().enumerate().skip(first) {
            let behind =
                pipe.ops[..at].iter().any(|other| other.landed != BOTH && overlap(&other.verb, &op.verb));
            for half in 0..2 {
                if op.end.is_none() && op.landed & 1 << half == 0 && !behind {
                    found.push((at, half));
                }
            }
        }
        found
    }

    /// A verb fails: nothing behind it is carried out.
    pub(crate) fn fail(&mut self, id: PipeId, at: usize, status: Status) {
        let pipe = self.pipe_mut(id);
        pipe.state = PipeState::Error;
        for (place, op) in pipe.ops.iter_mut().enumerate().skip(at) {
            op.end = Some(if place == at { status } else { Status::Flushed });
        }
    }

    /// The queue pair ends: what of its WRITEs has not landed is in the air, and may land as long as the other end lives.
    pub(crate) fn strand(&mut self, id: PipeId) {
        let pipe = self.pipe(id);
        let ends = (pipe.ours, pipe.theirs);
        if pipe.state != PipeState::Open || !self.permits(id, ends) {
            return;
        }
        let mut ghosts = Vec::new();
        for (at, half) in self.landable(id) {
            let op = &self.pipe(id).ops[at];
            if let (Verb::Write { to, len, .. }, Some(source)) = (op.verb, &op.source) {
                let (start, end) = half_of(len, half);
                ghosts.push(Ghost {
                    from: id.from,
                    to: id.to,
                    plane: id.plane,
                    ends,
                    offset: to + start,
                    words: source[(start / 8) as usize..(end / 8) as usize].to_vec(),
                    passed: false,
                });
            }
        }
        self.ghosts.extend(ghosts);
    }

    /// ERR, drain, RESET: everything outstanding ends. Returns the completions, in order.
    pub(crate) fn close(&mut self, id: PipeId) -> Vec<Completion> {
        self.strand(id);
        let pipe = self.pipe_mut(id);
        pipe.state = PipeState::Closed;
        pipe.ours += 1;
        pipe.armed_early = false;
        let ops = std::mem::take(&mut pipe.ops);
        ops.iter()
            .map(|op| {
                let landed = op.landed == BOTH && op.end.is_none();
                let status = op.end.unwrap_or(if landed { Status::Success } else { Status::Flushed });
                done(op.verb.id(), status)
            })
            .collect()
    }

    /// A fence takes permission away. `drains`: what a fence is for.
    pub(crate) fn revoke(&mut self, acceptor: NodeId, peer: NodeId, drains: bool) {
        let id = PipeId { from: peer, to: acceptor, plane: Plane::Log };
        if !drains {
            // What was on its way passed the check, and lands whenever it likes.
            let ends = (self.gate(acceptor, peer).theirs, self.gate(acceptor, peer).ours);
            self.strand(id);
            let mut ghosts = self.ghosts.iter_mut();
            let of_writer = |ghost: &&mut Ghost| (ghost.from, ghost.to, ghost.ends) == (peer, acceptor, ends);
            ghosts.by_ref().filter(of_writer).for_each(|ghost| ghost.passed |= ghost.plane == Plane::Log);
        }
        self.gate_mut(acceptor, peer).state = GateState::Revoked;
    }

    /// A fence ends: nothing of that writer is on its way any more.
    pub(crate) fn closed(&mut self, acceptor: NodeId, peer: NodeId) {
        self.gate_mut(acceptor, peer).state = GateState::Closed;
        self.ghosts.retain(|ghost| {
            ghost.passed || ghost.plane == Plane::Control || (ghost.to, ghost.from) != (acceptor, peer)
        });
    }

    /// A node is no more: its queue pairs are gone, and what it sent may land.
    pub(crate) fn remove(&mut self, node: NodeId) {
        for id in PipeId::all().filter(|id| id.from == node) {
            self.strand(id);
            let pipe = self.pipe_mut(id);
            pipe.state = PipeState::Closed;
            pipe.ops.clear();
            pipe.steps.clear();
        }
        for at in 0..GATES {
            let (acceptor, peer) = ordered_pair(at);
            if acceptor == node {
                let gate = self.gate_mut(acceptor, peer);
                gate.state = GateState::Closed;
                gate.steps.clear();
            }
        }
        self.ghosts.retain(|ghost| ghost.to != node);
    }

    /// Its canonical form.
    pub(crate) fn form(&self) -> Form {
        let mut out = Sink::default();
        for id in PipeId::all() {
            let Pipe { state, ours, theirs, armed_early, ops, steps } = self.pipe(id);
            out.plain((*state, *armed_early, ops.len(), steps.len()));
            if id.plane == Plane::Log {
                out.count(pair(Counter::End, id.from, id.to), *ours);
                out.count(pair(Counter::Armed, id.to, id.from), *theirs);
            }
            for Op { verb, landed, end, source, read } in ops {
                out.plain((*landed, *end));
                put_verb(&mut out, id.from, verb);
                match (source, *landed) {
                    (Some(words), _) => put_carried(&mut out, verb.id().class, id.from, id.to, words),
                    (None, BOTH) => put_carried(&mut out, verb.id().class, id.from, id.to, &read.concat()),
                    (None, _) => out.plain(read),
                }
            }
            steps.iter().for_each(|verb| put_verb(&mut out, id.from, verb));
        }
        for at in 0..GATES {
            let (acceptor, peer) = ordered_pair(at);
            let Gate { state, ours, theirs, steps } = &self.gates[at];
            out.plain((*state, steps.len()));
            out.count(pair(Counter::Armed, acceptor, peer), *ours);
            out.count(pair(Counter::End, peer, acceptor), *theirs);
            steps.iter().for_each(|verb| put_verb(&mut out, acceptor, verb));
        }
        out.plain(self.ghosts.len());
        for ghost in &self.ghosts {
            let Ghost { from, to, plane, ends, offset, words, passed } = ghost;
            out.plain((*from, *to, *plane, *offset, words, *passed));
            if *plane == Plane::Log {
                out.count(pair(Counter::End, *from, *to), ends.0);
                out.count(pair(Counter::Armed, *to, *from), ends.1);
            }
        }
        out.form()
    }
}

impl Default for Fabric {
    fn default() -> Fabric {
        Fabric::new()
    }
}

fn put_verb(out: &mut Sink, node: NodeId, verb: &Verb) {
    let RequestId { peer, class, epoch, number } = verb.id();
    out.plain(class);
    let numbers = match class {
        Class::Progress => Some(Space::new(Counter::Reading, node, peer)),
        Class::Leader => Some(Space::own(Counter::Line, node)),
        Class::Request => Some(Space::new(Counter::Request, node, peer)),
        Class::Answer => Some(Space::new(Counter::Answer, node, peer)),
        Class::Entries | Class::Beat => Some(Space::new(Counter::Write, node, peer)),
        _ => None,
    };
    match numbers {
        Some(numbers) => out.count(numbers, u64::from(number)),
        None => out.plain(number),
    }
    match class {
        Class::Entries | Class::Beat | Class::Open | Class::Close => {
            out.count(Space::new(Counter::Epoch, peer, node), u64::from(epoch.0));
        }
        Class::Arm | Class::Grant | Class::Fence => {
            out.count(Space::new(Counter::Epoch, node, peer), u64::from(epoch.0));
        }
        _ => out.plain(epoch),
    }
    match *verb {
        Verb::Write { source, from, to, len, .. } => out.plain((source, from, to, len)),
        Verb::Read { from, to, len, .. } => out.plain((from, to, len)),
        Verb::Open { numbers, .. } => out.count(Space::new(Counter::Armed, peer, node), numbers),
        Verb::Arm { numbers, .. } => out.count(Space::new(Counter::End, peer, node), numbers),
        _ => {}
    }
}

fn overlap(one: &Verb, other: &Verb) -> bool {
    let target = |verb: &Verb| match *verb {
        Verb::Write { to, len, .. } => Some((0, to, to + u64::from(len))),
        Verb::Read { to, len, .. } => Some((1, to, to + u64::from(len))),
        _ => None,
    };
    match (target(one), target(other)) {
        (Some((kind, start, end)), Some((other_kind, other_start, other_end))) => {
            kind == other_kind && start < other_end && other_start < end
        }
        _ => false,
    }
}

/// Where a half begins and ends, in bytes.
pub(crate) fn half_of(len: u32, half: u8) -> (u64, u64) {
    let (len, middle) = (u64::from(len), u64::from(len / 16 * 8));
    if half == 0 { (0, middle) } else { (middle, len) }
}

pub(crate) fn done(id: RequestId, status: Status) -> Completion {
    Completion { id, status, value: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_their_own_inverse() {
        for (at, id) in PipeId::all().enumerate() {
            assert_eq!(id.at(), at);
            assert_ne!(id.from, id.to);
        }
        for at in 0..GATES {
            let (of, to) = ordered_pair(at);
            assert_eq!(pair_at(of, to), at);
        }
    }
}
