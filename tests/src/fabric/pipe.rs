//! Posting ends: sending, acknowledging, failing and flushing verbs in order; Connect, Open and Close.

use ringleader_core::layout::{AnswerLine, BeatLine, Line, RequestLine};
use ringleader_core::types::{NodeId, Promise};
use ringleader_core::verb::{Class, Completion, Plane, RequestId, Status, Verb};

use super::ends::{GateState, Op, PipeId, PipeState, Shape, done};
use super::{Fabric, Happening, fingerprint};
use crate::words;

impl Fabric {
    pub(super) fn post_op(&mut self, id: PipeId, request: RequestId, shape: Shape) {
        let Some(home_life) = self.process_of(id.from) else { return };
        self.posted += 1;
        let posted = self.posted;
        let fingerprint = self.source_fingerprint(id.from, &shape);
        let (timeout_ns, byte_ps) = (self.weather.timeout_ns, self.weather.byte_ps);
        let now = self.now_ns;
        let len = match shape {
            Shape::Write { len, .. } | Shape::Read { len, .. } => len,
            Shape::Confirm { .. } => 8,
        };
        let line = match self.trace.is_on() {
            true => self.line_in(id.from, request.class, &shape),
            false => String::new(),
        };
        self.trace.note(now, || match shape {
            Shape::Write { from, to, len, .. } => format!(
                "{}: WRITE {:?} -> {} [{from} -> {to}, +{len}] (epoch {}, number {}){line}",
                id.from, request.class, id.to, request.epoch, request.number
            ),
            Shape::Read { .. } | Shape::Confirm { .. } => {
                format!("{}: READ {:?} of {} (number {})", id.from, request.class, id.to, request.number)
            }
        });
        let pipe = self.pipe_mut(id);
        let serial = pipe.next_serial;
        pipe.next_serial += 1;
        let open = pipe.state == PipeState::Open;
        pipe.ops.push_back(Op {
            serial,
            posted,
            id: request,
            shape,
            end: (!open).then_some(Status::Flushed),
            pieces: 0,
            deadline_ns: 0,
            fingerprint,
            doomed: false,
        });
        let life = pipe.life;
        if !open {
            self.settle(id);
            return;
        }
        if pipe.cracked {
            pipe.cracked = false;
            let after = self.latency_ns();
            self.schedule(after, Happening::Expire { pipe: id, life, serial, status: Status::Unreachable });
            return;
        }
        let sent_ns = now.max(pipe.sent_ns) + len * byte_ps / 1000;
        pipe.sent_ns = sent_ns;
        let doomed = matches!(shape, Shape::Write { .. }) && self.rng.chance(self.weather.partial_ppm);
        let op = self.pipe_mut(id).op(serial).expect("just pushed");
        op.deadline_ns = sent_ns + timeout_ns;
        op.doomed = doomed;
        self.send_pieces(id, serial, sent_ns - now);
        if self.rng.chance(self.weather.mute_ppm) {
            let for_ns = self.rng.below(self.weather.mute_ns);
            self.mute(id, for_ns);
        }
        debug_assert!(self.process_of(id.from) == Some(home_life));
    }

    /// All of the WRITE or READ has happened; the poster gets to know.
    pub(super) fn acknowledge(&mut self, id: PipeId, life: u32, serial: u64) {
        let now = self.now_ns;
        let (answers_cut, resend_ns) = (self.is_cut(id.to, id.from), self.weather.resend_ns);
        let pipe = self.pipe_mut(id);
        if pipe.life != life {
            return;
        }
        let Some(op) = pipe.op(serial) else { return };
        if op.end.is_some() {
            return;
        }
        if answers_cut {
            if now + resend_ns > op.deadline_ns {
                self.expire(id, life, serial, Status::Unreachable);
            } else {
                self.faults.resends += 1;
                self.schedule(resend_ns, Happening::Ack { pipe: id, life, serial });
            }
            return;
        }
        op.end = Some(Status::Success);
        self.settle(id);
    }

    /// A verb got no answer, or a bad one.
    pub(super) fn expire(&mut self, id: PipeId, life: u32, serial: u64, status: Status) {
        let false_success_ppm = self.weather.false_success_ppm;
        let lucky = self.rng.chance(false_success_ppm);
        let pipe = self.pipe_mut(id);
        if pipe.life != life {
            return;
        }
        let early = pipe.armed_early;
        let Some(op) = pipe.op(serial) else { return };
        if op.end.is_some() {
            return;
        }
        if early && lucky && status == Status::Unreachable {
            // The new life of the acceptor's end takes the resent packets for duplicates (protocol.md 2, A3).
            op.end = Some(Status::Success);
            self.faults.false_successes += 1;
            self.settle(id);
            return;
        }
        if status == Status::Unreachable {
            self.faults.timeouts += 1;
        }
        self.fail(id, life, serial, status);
    }

    /// A verb fails: the end is in error, and everything behind the verb is flushed.
    pub(super) fn fail(&mut self, id: PipeId, life: u32, serial: u64, status: Status) {
        let pipe = self.pipe_mut(id);
        if pipe.life != life {
            return;
        }
        pipe.state = PipeState::Error;
        for op in pipe.ops.iter_mut().filter(|op| op.serial >= serial) {
            // Whatever is behind may have landed, and even have been answered: it completes as flushed all the same.
            op.end = Some(if op.serial == serial { status } else { Status::Flushed });
        }
        self.settle(id);
    }

    /// Gives the poster all completions that are due, in order.
    pub(super) fn settle(&mut self, id: PipeId) {
        let now = self.now_ns;
        let pipe = self.pipe_mut(id);
        if pipe.mute_until_ns > now {
            if pipe.ops.front().is_some_and(|op| op.end.is_some()) {
                let (wait, life) = (pipe.mute_until_ns - now, pipe.life);
                self.schedule(wait, Happening::Settle { pipe: id, life });
            }
            return;
        }
        while self.pipe(id).ops.front().is_some_and(|op| op.end.is_some()) {
            let op = self.pipe_mut(id).ops.pop_front().expect("just seen");
            self.finish(id, &op);
        }
    }

    /// Everything outstanding ends now: what is not known to have succeeded is flushed.
    fn drain(&mut self, id: PipeId) {
        let mut failed = false;
        while let Some(mut op) = self.pipe_mut(id).ops.pop_front() {
            let end = op.end.get_or_insert(Status::Flushed);
            if failed && *end == Status::Success {
                // Behind a first error nothing succeeds, though it may have landed.
                *end = Status::Flushed;
            }
            failed |= *end != Status::Success;
            self.finish(id, &op);
        }
    }

    fn finish(&mut self, id: PipeId, op: &Op) {
        let status = op.end.expect("only ended verbs are finished");
        self.check_source(id, op, "until its completion");
        if status == Status::Flushed {
            self.faults.flushed += 1;
        }
        let port = &mut self.ports[id.from.slot()];
        self.faults.reordered_completions += u64::from(op.posted < port.newest);
        port.newest = port.newest.max(op.posted);
        if status == Status::Success && id.plane == Plane::Log {
            let gate = self.gate(id.to, id.from);
            let fenced = gate.state != GateState::Granted || gate.ours != self.pipe(id).theirs;
            self.faults.completions_past_fence += u64::from(fenced);
        }
        self.complete(id.from, done(op.id, status));
    }

    /// What a line that is about to be written says.
    fn line_in(&self, node: NodeId, class: Class, shape: &Shape) -> String {
        let (Some(home), Shape::Write { from, .. }) = (self.home(node), *shape) else { return String::new() };
        match class {
            Class::Request => RequestLine::read(&home.staging, from).map(|line| describe_request(&line)),
            Class::Answer => AnswerLine::read(&home.staging, from).map(|line| describe_answer(&line)),
            Class::Beat => BeatLine::read(&home.staging, from).map(|line| {
                let leader = Promise(line.leader);
                format!(": {leader}, commit {}, matched {}, flags {}", line.commit, line.matched, line.flags)
            }),
            _ => None,
        }
        .unwrap_or_default()
    }

    fn source_fingerprint(&self, node: NodeId, shape: &Shape) -> u64 {
        let Shape::Write { source, from, len, .. } = *shape else { return 0 };
        let Some(home) = self.home(node) else { return 0 };
        fingerprint(source.area(home), from, len)
    }

    /// Invariant 11: no source byte changes while a request that reads it is outstanding.
    pub(super) fn check_source(&mut self, id: PipeId, op: &Op, when: &str) {
        if self.source_fingerprint(id.from, &op.shape) != op.fingerprint {
            self.source_changed(id, op.id, &op.shape, when);
        }
    }

    pub(super) fn source_changed(&mut self, id: PipeId, request: RequestId, shape: &Shape, when: &str) {
        let what = format!(
            "node {}: the source of {:?} {} to node {} changed {when}: {shape:?}",
            id.from, request.class, request.number, id.to
        );
        self.breach(11, what);
    }

    pub(super) fn post_pipe_step(&mut self, id: PipeId, verb: Verb) {
        let Some(home_life) = self.process_of(id.from) else { return };
        let pipe = self.pipe_mut(id);
        pipe.steps.push_back(verb);
        if pipe.steps.len() == 1 {
            let after = self.step_ns(verb.id().class);
            self.schedule(after, Happening::PipeStep { pipe: id, home_life });
        }
    }

    pub(super) fn step_pipe(&mut self, id: PipeId, home_life: u32) {
        if self.process_of(id.from) != Some(home_life) {
            return;
        }
        let Some(&verb) = self.pipe(id).steps.front() else { return };
        match verb {
            Verb::Connect { id: request } => {
                if !self.connect(id, request) {
                    let wait = self.weather.timeout_ns;
                    self.schedule(wait, Happening::PipeGiveUp { pipe: id, home_life });
                    return;
                }
            }
            Verb::Open { id: request, numbers } => self.open(id, request, numbers),
            Verb::Close { id: request } if self.step_fails(id.from, request) => {}
            Verb::Close { id: request } => {
                let value = self.close(id);
                self.complete(id.from, Completion { id: request, status: Status::Success, value });
            }
            _ => unreachable!("only steps of a posting end are queued here"),
        }
        self.next_pipe_step(id, home_life);
    }

    pub(super) fn give_up_connecting(&mut self, id: PipeId, home_life: u32) {
        if self.process_of(id.from) != Some(home_life) {
            return;
        }
        if let Some(verb) = self.pipe(id).steps.front() {
            let request = verb.id();
            self.complete(id.from, done(request, Status::Unreachable));
            self.next_pipe_step(id, home_life);
        }
    }

    fn next_pipe_step(&mut self, id: PipeId, home_life: u32) {
        let pipe = self.pipe_mut(id);
        pipe.steps.pop_front();
        if let Some(next) = pipe.steps.front().map(|verb| verb.id().class) {
            let after = self.step_ns(next);
            self.schedule(after, Happening::PipeStep { pipe: id, home_life });
        }
    }

    /// Drains the former connection and makes a new one; false when the peer cannot be found.
    fn connect(&mut self, id: PipeId, request: RequestId) -> bool {
        debug_assert!(request.class == Class::Connect);
        self.close(PipeId { plane: Plane::Control, ..id });
        let value = self.close(PipeId { plane: Plane::Log, ..id });
        // Somebody must answer, whose memory this is.
        let Some(target_life) = self.process_of(id.to).and(self.memory_of(id.to)) else { return false };
        if self.is_cut(id.from, id.to) || self.is_cut(id.to, id.from) {
            return false;
        }
        let pipe = self.pipe_mut(id);
        let again = pipe.target_life != 0;
        pipe.state = PipeState::Open;
        pipe.life += 1;
        pipe.target_life = target_life;
        self.faults.reconnects += u64::from(again);
        self.complete(id.from, Completion { id: request, status: Status::Success, value });
        true
    }

    fn open(&mut self, id: PipeId, request: RequestId, numbers: u64) {
        if self.step_fails(id.from, request) {
            return;
        }
        let target_life = self.memory_of(id.to).unwrap_or(0);
        let now = self.now_ns;
        let pipe = self.pipe_mut(id);
        let status = if pipe.state == PipeState::Closed { Status::Success } else { Status::Failed };
        if status == Status::Success {
            pipe.state = PipeState::Open;
            pipe.life += 1;
            pipe.theirs = numbers;
            pipe.target_life = target_life;
        }
        self.trace.note(now, || format!("{}: opens its end to {} (epoch {})", id.from, id.to, request.epoch));
        self.complete(id.from, done(request, status));
    }

    /// ERR, drain, RESET. Returns the new number of the end.
    fn close(&mut self, id: PipeId) -> u64 {
        self.drain(id);
        let number = self.rng.word();
        let pipe = self.pipe_mut(id);
        pipe.state = PipeState::Closed;
        pipe.life += 1;
        pipe.ours = number;
        pipe.mute_until_ns = 0;
        pipe.cracked = false;
        pipe.armed_early = false;
        let now = self.now_ns;
        self.trace.note(now, || format!("{}: closed its {:?} end to {}", id.from, id.plane, id.to));
        number
    }
}

fn describe_request(line: &RequestLine) -> String {
    let kind = words::request(line.kind);
    format!(
        ": asks {kind} #{} in term {} with last ({}, {}); own end {} {}",
        line.sequence,
        line.term,
        line.last_term,
        line.last_index,
        words::end(line.qp_state),
        line.qp_epoch
    )
}

fn describe_answer(line: &AnswerLine) -> String {
    let verdict = words::answer(line.verdict);
    format!(
        ": says {verdict} #{}, promise {}, last ({}, {}) up to {}, anchor {}; its end {} {}",
        line.sequence,
        Promise(line.promise),
        line.last_term,
        line.last_index,
        line.last_position,
        line.anchor_position,
        words::end(line.qp_state),
        line.qp_epoch
    )
}
