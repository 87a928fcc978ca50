//! Acceptor's ends: Arm, Grant and Fence, in the order posted.
//!
//! A fence takes permission away and completes only when every piece that passed before has landed.

use ringleader_core::types::NodeId;
use ringleader_core::verb::{Class, Completion, Plane, RequestId, Status, Verb};

use super::ends::{GateState, PipeId, PipeState, done};
use super::{Fabric, Happening, SEATS};

impl Fabric {
    pub(super) fn post_gate_step(&mut self, acceptor: NodeId, peer: NodeId, verb: Verb) {
        let Some(home_life) = self.process_of(acceptor) else { return };
        let now = self.now_ns;
        self.trace.note(now, || format!("{acceptor}: asks {}", describe(&verb, peer)));
        let gate = self.gate_mut(acceptor, peer);
        gate.steps.push_back(verb);
        if gate.steps.len() == 1 {
            let after = self.step_ns(verb.id().class);
            self.schedule(after, Happening::GateStep { acceptor, peer, home_life });
        }
    }

    pub(super) fn step_gate(&mut self, acceptor: NodeId, peer: NodeId, home_life: u32) {
        if self.process_of(acceptor) != Some(home_life) {
            return;
        }
        let Some(&verb) = self.gate(acceptor, peer).steps.front() else { return };
        match verb {
            Verb::Arm { id, numbers } => self.arm(acceptor, peer, id, numbers),
            Verb::Grant { id } => self.grant(acceptor, peer, id),
            Verb::Fence { .. } => return self.fence(acceptor, peer, home_life),
            _ => unreachable!("only steps of an acceptor's end are queued here"),
        }
        self.next_gate_step(acceptor, peer, home_life);
    }

    /// How long the next change of a queue pair's state takes.
    pub(super) fn step_ns(&mut self, class: Class) -> u64 {
        let tail = if self.rng.chance(self.weather.state_tail_ppm) {
            self.faults.slow_steps += 1;
            self.rng.below(self.weather.state_tail_ns)
        } else {
            0
        };
        let slow = self.weather.slow_step.filter(|(slow, _)| *slow == class).map_or(0, |(_, ns)| ns);
        self.rng.within(self.weather.state_ns) + tail + slow
    }

    /// Whether a queue pair's state cannot be changed this time: the poster hears of it, and nothing else happens.
    pub(super) fn step_fails(&mut self, node: NodeId, id: RequestId) -> bool {
        let fails = self.rng.chance(self.weather.step_fails_ppm);
        if fails {
            self.faults.failed_steps += 1;
            self.complete(node, done(id, Status::Failed));
        }
        fails
    }

    fn next_gate_step(&mut self, acceptor: NodeId, peer: NodeId, home_life: u32) {
        let gate = self.gate_mut(acceptor, peer);
        gate.steps.pop_front();
        if let Some(next) = gate.steps.front().map(|verb| verb.id().class) {
            let after = self.step_ns(next);
            self.schedule(after, Happening::GateStep { acceptor, peer, home_life });
        }
    }

    fn arm(&mut self, acceptor: NodeId, peer: NodeId, id: RequestId, numbers: u64) {
        let initiator = PipeId { from: peer, to: acceptor, plane: Plane::Log };
        if self.step_fails(acceptor, id) {
            return;
        }
        let value = self.rng.word();
        let early = self.process_of(peer).is_some() && self.pipe(initiator).state != PipeState::Closed;
        if early {
            self.pipe_mut(initiator).armed_early = true;
            self.breach(
                11,
                format!(
                    "node {acceptor} armed its end for node {peer} (epoch {}) before that one's was closed",
                    id.epoch
                ),
            );
        }
        let gate = self.gate_mut(acceptor, peer);
        gate.state = GateState::Armed;
        gate.epoch = id.epoch;
        gate.ours = value;
        gate.theirs = numbers;
        let now = self.now_ns;
        self.trace.note(now, || format!("{acceptor}: armed for {peer} (epoch {})", id.epoch));
        self.complete(acceptor, Completion { id, status: Status::Success, value });
    }

    fn grant(&mut self, acceptor: NodeId, peer: NodeId, id: RequestId) {
        if self.step_fails(acceptor, id) {
            return;
        }
        let gate = self.gate(acceptor, peer);
        let fits = gate.state == GateState::Armed && gate.epoch == id.epoch;
        if fits {
            for other in (0..SEATS).map(|slot| NodeId(slot as u8)).filter(|other| *other != peer) {
                let other_gate = self.gate(acceptor, other);
                let (state, passed) = (other_gate.state, other_gate.passed);
                if state == GateState::Granted || passed > 0 {
                    self.breach(
                        3,
                        format!(
                            "node {acceptor} lets node {peer} write while node {other} still can ({state:?}, {passed} pieces on their way)"
                        ),
                    );
                }
            }
            self.gate_mut(acceptor, peer).state = GateState::Granted;
        }
        let now = self.now_ns;
        self.trace.note(now, || format!("{acceptor}: lets {peer} write: {fits} (epoch {})", id.epoch));
        let status = if fits { Status::Success } else { Status::Failed };
        self.complete(acceptor, done(id, status));
    }

    fn fence(&mut self, acceptor: NodeId, peer: NodeId, home_life: u32) {
        let gate = self.gate_mut(acceptor, peer);
        if gate.state != GateState::Closed {
            gate.state = GateState::Fencing;
        }
        let mut wait = self.rng.within(self.weather.fence_ns);
        if self.rng.chance(self.weather.fence_tail_ppm) {
            self.faults.slow_fences += 1;
            wait += self.rng.below(self.weather.fence_tail_ns);
        }
        self.schedule(wait, Happening::FenceEnd { acceptor, peer, home_life });
    }

    pub(super) fn end_fence(&mut self, acceptor: NodeId, peer: NodeId, home_life: u32) {
        if self.process_of(acceptor) != Some(home_life) {
            return;
        }
        let drains = self.weather.fence_drains;
        let Some(&Verb::Fence { id }) = self.gate(acceptor, peer).steps.front() else { return };
        if self.step_fails(acceptor, id) {
            // Permission is taken away, and nobody has waited for what passed before.
            return self.next_gate_step(acceptor, peer, home_life);
        }
        let gate = self.gate_mut(acceptor, peer);
        if gate.passed > 0 && drains {
            gate.fence = Some(id);
            self.faults.fences_waited += 1;
            return;
        }
        self.fenced(acceptor, peer, id, home_life);
    }

    /// A piece that had passed has landed: a fence may have waited for it.
    pub(super) fn passed_landed(&mut self, acceptor: NodeId, peer: NodeId) {
        let Some(home_life) = self.process_of(acceptor) else { return };
        let gate = self.gate_mut(acceptor, peer);
        if gate.passed == 0
            && let Some(id) = gate.fence.take()
        {
            self.fenced(acceptor, peer, id, home_life);
        }
    }

    fn fenced(&mut self, acceptor: NodeId, peer: NodeId, id: RequestId, home_life: u32) {
        self.gate_mut(acceptor, peer).state = GateState::Closed;
        let now = self.now_ns;
        self.trace.note(now, || format!("{acceptor}: fenced {peer} (epoch {})", id.epoch));
        self.complete(acceptor, done(id, Status::Success));
        self.next_gate_step(acceptor, peer, home_life);
    }
}

fn describe(verb: &Verb, peer: NodeId) -> String {
    match verb {
        Verb::Arm { id, .. } => format!("to be armed for {peer} (epoch {})", id.epoch),
        Verb::Grant { id } => format!("to let {peer} write (epoch {})", id.epoch),
        Verb::Fence { id } => format!("to fence {peer} (epoch {})", id.epoch),
        other => format!("for {other:?}"),
    }
}
