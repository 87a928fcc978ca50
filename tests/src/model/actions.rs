//! All that can happen in a state, one small step each, and what comes of it.
//!
//! A node's step is one call of the core: a completion, a proposal, or a tick with what a host does behind it (events,
//! applying, posting). That a host stops between two of these is a choice of the order; that it stops between a tick and
//! its posts is no state of its own, because what was posted may be sent as late as one likes, or never.

use std::sync::Arc;

use ringleader_core::layout::log;
use ringleader_core::proposer::Role;
use ringleader_core::read::Read;
use ringleader_core::types::NodeId;
use ringleader_core::verb::{Completion, Plane, Status, Verb};

use super::fabric::{GATES, GateState, PipeId, PipeState, done, half_of, ordered_pair};
use super::invariants;
use super::memory::{AreaKind, Map, NODES};
use super::start::WAIT_NS;
use super::state::{Bounds, Life, State};
use crate::invariants::Violation;

/// Something that happens.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Action {
    /// A node looks around, and posts what it wants to post.
    Tick(NodeId),
    /// The same, after a time in which every time-out ended.
    Wait(NodeId),
    /// A leader is given a proposal.
    Propose(NodeId),
    /// A node is asked for a read: a leader asks a majority, another one the leader's line first.
    Read(NodeId),
    /// Half a WRITE or READ is sent and lands; which verb of its queue pair, which half.
    Land(PipeId, usize, u8),
    /// Half a WRITE of a queue pair that is no more lands at a node; which of all such halves.
    LandLate(NodeId, usize),
    /// The poster gets the completion of its oldest verb.
    Complete(PipeId),
    /// The oldest verb that cannot land fails.
    Fail(PipeId),
    /// It is taken for a duplicate, and acknowledged.
    FalseSuccess(PipeId),
    /// A queue pair breaks with what is outstanding on it.
    Break(PipeId),
    /// Connect, Open or Close.
    Step(PipeId),
    /// Arm, Grant or Fence at an acceptor, towards a peer; a fence takes two of these.
    Gate(NodeId, NodeId),
    /// A process ends, and its memory with it.
    Crash(NodeId),
    /// A process is stopped for ever.
    Stop(NodeId),
}

/// What all states of a search have in common.
#[derive(Clone, Debug)]
pub struct World {
    /// How far it goes.
    pub bounds: Bounds,
    /// Where memory is.
    pub map: Map,
}

impl World {
    /// A world with these bounds.
    pub fn new(bounds: Bounds) -> World {
        World { bounds, map: Map::new(bounds.slots * 64) }
    }
}

impl World {
    /// Everything that can happen on the fabric, faults apart.
    pub fn fabric_actions(&self, state: &State) -> Vec<Action> {
        let mut found = Vec::new();
        PipeId::all().for_each(|id| self.pipe_actions(state, id, &mut found));
        (0..GATES).for_each(|at| self.gate_actions(state, at, &mut found));
        found
    }

    /// Everything that can happen.
    pub fn choices(&self, state: &State) -> Vec<Action> {
        let mut found = Vec::new();
        self.fault_actions(state, &mut found);
        self.input_actions(state, &mut found);
        let ticks = State::ids().filter(|id| {
            let node = state.node(*id);
            node.life == Life::Running && !node.idle
        });
        found.extend(ticks.map(Action::Tick));
        found.extend(self.fabric_actions(state));
        found
    }

    /// What can happen on one posting end; what comes first is what a calm fabric would do.
    pub(crate) fn pipe_actions(&self, state: &State, id: PipeId, found: &mut Vec<Action>) {
        let fabric = &state.fabric;
        let pipe = fabric.pipe(id);
        let runs = state.node(id.from).life == Life::Running;
        let target = state.node(id.to).life != Life::Dead;
        if state.node(id.from).life == Life::Dead {
            return;
        }
        if runs && pipe.ops.first().is_some_and(|op| op.end.is_some() || op.landed == super::fabric::BOTH) {
            found.push(Action::Complete(id));
        }
        if let Some(first) = fabric.first_unlanded(id) {
            if target && fabric.permits(id, (pipe.ours, pipe.theirs)) {
                found.extend(fabric.landable(id).into_iter().map(|(at, half)| Action::Land(id, at, half)));
            } else {
                found.push(Action::Fail(id));
                if pipe.armed_early && first == 0 {
                    found.push(Action::FalseSuccess(id));
                }
            }
        }
        if runs && !pipe.steps.is_empty() {
            found.push(Action::Step(id));
        }
    }

    pub(crate) fn gate_actions(&self, state: &State, at: usize, found: &mut Vec<Action>) {
        let (acceptor, peer) = ordered_pair(at);
        let gate = state.fabric.gate(acceptor, peer);
        let Some(verb) = gate.steps.front() else { return };
        // The first half of a fence is carried out for a stopped process too.
        let unheard = matches!(verb, Verb::Fence { .. }) && gate.state != GateState::Revoked;
        match state.node(acceptor).life {
            Life::Running => found.push(Action::Gate(acceptor, peer)),
            Life::Stopped if unheard => found.push(Action::Gate(acceptor, peer)),
            _ => {}
        }
    }

    /// Faults that may still happen.
    pub(crate) fn fault_actions(&self, state: &State, found: &mut Vec<Action>) {
        if state.spent.faults < self.bounds.faults {
            for id in State::ids().filter(|id| state.node(*id).life == Life::Running) {
                found.push(Action::Crash(id));
                found.push(Action::Stop(id));
            }
        }
        if state.spent.breaks < self.bounds.breaks {
            found.extend(
                PipeId::all()
                    .filter(|id| {
                        id.plane == Plane::Log
                            && state.node(id.from).life != Life::Dead
                            && state.fabric.first_unlanded(*id).is_some()
                    })
                    .map(Action::Break),
            );
        }
        for at in 0..state.fabric.ghosts.len() {
            let ghost = &state.fabric.ghosts[at];
            let id = PipeId { from: ghost.from, to: ghost.to, plane: ghost.plane };
            if ghost.passed || state.fabric.permits(id, ghost.ends) {
                found.push(Action::LandLate(ghost.to, at));
            }
        }
    }

    /// Proposals and time-outs that may still happen.
    pub(crate) fn input_actions(&self, state: &State, found: &mut Vec<Action>) {
        let runs = |id: &NodeId| state.node(*id).life == Life::Running;
        if state.spent.proposals < self.bounds.proposals {
            let leads = |id: &NodeId| state.node(*id).replica.status().role == Role::Leader;
            found.extend(State::ids().filter(runs).filter(leads).map(Action::Propose));
        }
        if state.spent.reads < self.bounds.reads {
            found.extend(State::ids().filter(runs).map(Action::Read));
        }
        if state.spent.waits.iter().sum::<u8>() < self.bounds.waits {
            let may = |id: &NodeId| state.spent.waits[id.slot() - 1] < self.bounds.waits_each;
            found.extend(State::ids().filter(runs).filter(may).map(Action::Wait));
        }
    }

    /// Lets something happen; `None` when it changes nothing, or does not happen within the bounds.
    pub fn apply(&self, state: &State, action: Action) -> Result<Option<State>, Violation> {
        let mut next = state.clone();
        let happened = match action {
            Action::Tick(id) => {
                self.step_node(&mut next, id, true, |replica, now| replica.handle_tick(now))?
            }
            Action::Wait(id) => {
                next = self.wait(state, id)?;
                next.spent.waits[id.slot() - 1] += 1;
                true
            }
            Action::Propose(id) => {
                next.spent.proposals += 1;
                let payload = u64::from(next.spent.proposals).to_le_bytes();
                let mut taken = false;
                self.step_node(&mut next, id, false, |replica, now| {
                    taken = replica.propose(now, &payload).is_ok();
                })?;
                taken
            }
            Action::Read(id) => {
                next.spent.reads += 1;
                let leads = state.node(id).replica.status().role == Role::Leader;
                let how = if leads { Read::Quorum } else { Read::Follower };
                let mut begun = None;
                self.step_node(&mut next, id, false, |replica, now| begun = replica.read(now, how).ok())?;
                if let Some(ticket) = begun {
                    let record = Arc::make_mut(&mut next.record);
                    record.reading.push((id, ticket, record.known));
                }
                begun.is_some()
            }
            Action::Land(id, at, half) => self.land(&mut next, id, at, half)?,
            Action::LandLate(_, at) => {
                let ghost = next.on_fabric(|fabric| fabric.ghosts.remove(at));
                let area = area_of(ghost.plane);
                let place = self.map.find(area, ghost.offset, ghost.words.len() as u64 * 8);
                next.node_mut(ghost.to).place(&self.map, ghost.to, place.start, &ghost.words);
                invariants::final_bytes(self, &next, ghost.to)?;
                true
            }
            Action::Complete(id) => {
                let op = next.on_fabric(|fabric| fabric.pipe_mut(id).ops.remove(0));
                let status = op.end.unwrap_or(Status::Success);
                if let (Verb::Read { to, len, .. }, Status::Success) = (op.verb, status) {
                    let place = self.map.find(AreaKind::Staging, to, u64::from(len));
                    next.node_mut(id.from).place(&self.map, id.from, place.start, &op.read.concat());
                }
                self.complete(&mut next, id.from, done(op.verb.id(), status))?
            }
            Action::Fail(id) => {
                let permitted = {
                    let (pipe, gate) = (next.fabric.pipe(id), next.fabric.gate(id.to, id.from));
                    let known = (gate.theirs, gate.ours) == (pipe.ours, pipe.theirs);
                    known && gate.state != GateState::Closed && next.node(id.to).life != Life::Dead
                };
                let status = if permitted { Status::Refused } else { Status::Unreachable };
                self.fail(&mut next, id, status)
            }
            Action::Break(id) => {
                next.spent.breaks += 1;
                // What was sent may be in the air.
                next.on_fabric(|fabric| fabric.strand(id));
                self.fail(&mut next, id, Status::Unreachable)
            }
            Action::FalseSuccess(id) => {
                next.on_fabric(|fabric| fabric.pipe_mut(id).ops[0].end = Some(Status::Success));
                true
            }
            Action::Step(id) => self.pipe_step(&mut next, id)?,
            Action::Gate(acceptor, peer) => self.gate_step(&mut next, acceptor, peer)?,
            Action::Crash(id) => {
                next.spent.faults += 1;
                next.on_fabric(|fabric| fabric.remove(id));
                next.node_mut(id).life = Life::Dead;
                if self.bounds.reads > 0 {
                    Arc::make_mut(&mut next.record).reading.retain(|(node, ..)| *node != id);
                }
                true
            }
            Action::Stop(id) => {
                next.spent.faults += 1;
                next.node_mut(id).life = Life::Stopped;
                true
            }
        };
        let within = next.spent.candidates <= self.bounds.candidates;
        if happened && within {
            invariants::one_writer(&next)?;
        }
        Ok((happened && within).then_some(next))
    }

    pub(crate) fn wait(&self, state: &State, id: NodeId) -> Result<State, Violation> {
        let mut next = state.clone();
        next.node_mut(id).clock += WAIT_NS;
        self.step_node(&mut next, id, true, |replica, now| replica.handle_tick(now))?;
        Ok(next)
    }

    fn complete(&self, state: &mut State, id: NodeId, done: Completion) -> Result<bool, Violation> {
        self.step_node(state, id, false, |replica, now| replica.handle_completion(now, done))?;
        Ok(true)
    }

    fn fail(&self, state: &mut State, id: PipeId, status: Status) -> bool {
        state.on_fabric(|fabric| {
            let at = fabric.first_unlanded(id).expect("only what is outstanding fails");
            fabric.fail(id, at, status);
        });
        true
    }

    fn land(&self, state: &mut State, id: PipeId, at: usize, half: u8) -> Result<bool, Violation> {
        let op = &state.fabric.pipe(id).ops[at];
        let mut read = Vec::new();
        match (op.verb, op.source.clone()) {
            (Verb::Write { plane, to, len, .. }, Some(source)) => {
                let (start, end) = half_of(len, half);
                let to = self.map.find(area_of(plane), to + start, end - start);
                let words = &source[(start / 8) as usize..(end / 8) as usize];
                state.node_mut(id.to).place(&self.map, id.to, to.start, words);
                invariants::final_bytes(self, state, id.to)?;
            }
            (Verb::Read { from, len, .. }, _) => {
                let (start, end) = half_of(len, half);
                let from = self.map.find(AreaKind::Control, from + start, end - start);
                read = state.node(id.to).words[from].to_vec();
            }
            _ => unreachable!("only WRITEs and READs are outstanding"),
        }
        state.on_fabric(|fabric| {
            let op = &mut fabric.pipe_mut(id).ops[at];
            op.landed |= 1 << half;
            op.read[usize::from(half)] = read;
        });
        Ok(true)
    }

    fn pipe_step(&self, state: &mut State, id: PipeId) -> Result<bool, Violation> {
        let verb = state.on_fabric(|fabric| fabric.pipe_mut(id).steps.pop_front());
        let verb = verb.expect("a step is enabled when there is one");
        let log = PipeId { plane: Plane::Log, ..id };
        let mut ended = Vec::new();
        let completion = match verb {
            Verb::Connect { id: request } => {
                let there = state.node(id.to).life != Life::Dead;
                let value = state.on_fabric(|fabric| {
                    ended.extend(fabric.close(PipeId { plane: Plane::Control, ..id }));
                    ended.extend(fabric.close(log));
                    if there {
                        fabric.pipe_mut(id).state = PipeState::Open;
                    }
                    fabric.pipe(log).ours
                });
                let status = if there { Status::Success } else { Status::Unreachable };
                Completion { id: request, status, value }
            }
            Verb::Open { id: request, numbers } => state.on_fabric(|fabric| {
                let pipe = fabric.pipe_mut(id);
                if pipe.state != PipeState::Closed {
                    return done(request, Status::Failed);
                }
                (pipe.state, pipe.theirs) = (PipeState::Open, numbers);
                done(request, Status::Success)
            }),
            Verb::Close { id: request } => {
                let value = state.on_fabric(|fabric| {
                    ended = fabric.close(id);
                    fabric.pipe(id).ours
                });
                Completion { id: request, status: Status::Success, value }
            }
            _ => unreachable!("only steps of a posting end are queued there"),
        };
        for done in ended.into_iter().chain([completion]) {
            self.complete(state, id.from, done)?;
        }
        Ok(true)
    }

    fn gate_step(&self, state: &mut State, acceptor: NodeId, peer: NodeId) -> Result<bool, Violation> {
        let drains = self.bounds.fences_drain;
        let completion = state.on_fabric(|fabric| {
            let initiator = PipeId { from: peer, to: acceptor, plane: Plane::Log };
            let gate = fabric.gate_mut(acceptor, peer);
            let verb = *gate.steps.front().expect("a step is enabled when there is one");
            let completion = match verb {
                Verb::Arm { id, numbers } if gate.state == GateState::Closed => {
                    gate.state = GateState::Armed;
                    gate.theirs = numbers;
                    gate.ours += 1;
                    let value = gate.ours;
                    let far = fabric.pipe_mut(initiator);
                    far.armed_early |= far.state != PipeState::Closed;
                    Completion { id, status: Status::Success, value }
                }
                Verb::Grant { id } if gate.state == GateState::Armed => {
                    gate.state = GateState::Granted;
                    done(id, Status::Success)
                }
                Verb::Arm { id, .. } | Verb::Grant { id } => done(id, Status::Failed),
                Verb::Fence { .. } if gate.state != GateState::Revoked => {
                    fabric.revoke(acceptor, peer, drains);
                    return None;
                }
                Verb::Fence { id } => {
                    fabric.closed(acceptor, peer);
                    done(id, Status::Success)
                }
                _ => unreachable!("only steps of an acceptor's end are queued there"),
            };
            fabric.gate_mut(acceptor, peer).steps.pop_front();
            Some(completion)
        });
        match completion {
            Some(done) => self.complete(state, acceptor, done),
            None => Ok(true),
        }
    }
}

fn area_of(plane: Plane) -> AreaKind {
    match plane {
        Plane::Control => AreaKind::Control,
        Plane::Log => AreaKind::Log,
    }
}

/// Where in a log area the slot of an entry is: all entries of a model take one slot.
pub(crate) fn slot_offset(ring_len: u64, index: u64) -> u64 {
    log::RING + (index - 1) * 64 % ring_len
}

const _: () = assert!(NODES == 3, "pairs are counted for three nodes");
