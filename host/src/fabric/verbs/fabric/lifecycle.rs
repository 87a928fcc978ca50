//! The states of the ends that a fabric posts to: connected, opened, closed, and what the worker reports of them.
//!
//! An end goes down in three steps: ERR, drained, RESET. The first and the last are the worker's; in between this thread takes
//! what completes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ringleader_core::types::Epoch;
use ringleader_core::verb::{Class, Completion, RequestId, Status};
use tracing::{error, warn};

use super::{CutOff, REUNION, VerbsFabric};
use crate::fabric::verbs::ends::{ControlState, DOWN, LogState};
use crate::fabric::verbs::qp::{Armed, Numbers, QueuePair};
use crate::fabric::verbs::worker::{End, Job, Report};

/// What is under way on a queue pair in ERR is flushed at once. After this long it never will be.
const DRAIN_LIMIT: Duration = Duration::from_millis(200);

impl VerbsFabric {
    pub(super) fn connect(&mut self, slot: usize, id: RequestId) {
        let Some(peer) = &mut self.peers[slot] else { return };
        if peer.log.state != LogState::Closed {
            return self.completions.push(id, Status::Failed, 0);
        }
        // One that was wanted before is wanted no more.
        if let Some(former) = peer.control.state.wanted() {
            self.completions.push(former, Status::Flushed, 0);
        }
        let since = Instant::now();
        match (peer.control.state, peer.control.qp.clone()) {
            (ControlState::Failing { .. }, _) => {
                peer.control.state = ControlState::Failing { connect: id, since };
            }
            (ControlState::Draining { .. }, _) => {
                peer.control.state = ControlState::Draining { connect: id, since };
            }
            (_, Some(qp)) => {
                peer.control.state = ControlState::Failing { connect: id, since };
                self.closing |= 1 << slot;
                if !self.send(Job::Fail { end: End::Control, peer: id.peer, qp }) {
                    self.fail_connect(slot, id);
                }
            }
            (_, None) => self.meet(slot, id),
        }
    }

    fn meet(&mut self, slot: usize, id: RequestId) {
        let Some(peer) = &mut self.peers[slot] else { return };
        peer.control.state = ControlState::Meeting { connect: id };
        let former = peer.control.qp.take();
        if !self.send(Job::Meet { id, former }) {
            self.fail_connect(slot, id);
        }
    }

    fn fail_connect(&mut self, slot: usize, id: RequestId) {
        if let Some(peer) = &mut self.peers[slot] {
            peer.control.state = ControlState::Broken;
        }
        self.completions.push(id, Status::Failed, 0);
    }

    pub(super) fn open(&mut self, slot: usize, id: RequestId, armed: Armed) {
        let Some(peer) = &mut self.peers[slot] else { return };
        if peer.control.state != ControlState::Up {
            return self.completions.push(id, DOWN, 0);
        }
        if peer.log.state != LogState::Closed || id.epoch == Epoch(0) {
            return self.completions.push(id, Status::Failed, 0);
        }
        peer.log.state = LogState::Opening;
        peer.log.epoch = id.epoch;
        peer.remote.log.key = armed.key;
        let (qp, packet) = (peer.log.qp.clone(), peer.log.packet);
        let sent = qp.is_some_and(|qp| self.send(Job::Open { id, qp, packet, peer: armed.qp }));
        if !sent {
            self.finish_open(slot, Completion { id, status: Status::Failed, value: 0 });
        }
    }

    fn finish_open(&mut self, slot: usize, done: Completion) {
        if let Some(peer) = &mut self.peers[slot]
            && peer.log.state == LogState::Opening
            && peer.log.epoch == done.id.epoch
        {
            let is_up = done.status == Status::Success;
            peer.log.state = if is_up { LogState::Ready } else { LogState::Broken };
        }
        self.completions.push(done.id, done.status, 0);
    }

    pub(super) fn close(&mut self, slot: usize, id: RequestId) {
        let Some(peer) = &mut self.peers[slot] else { return };
        match peer.log.state {
            LogState::Closed => {
                let numbers = peer.log.numbers().map_or(0, Numbers::pack);
                self.completions.push(id, Status::Success, numbers);
            }
            LogState::Failing { .. } | LogState::Draining { .. } | LogState::Resetting { .. } => {
                self.completions.push(id, Status::Failed, 0);
            }
            LogState::Opening | LogState::Ready | LogState::Broken => {
                let since = Instant::now();
                self.closing |= 1 << slot;
                // Without one, because the last close got no other, there is nothing to bring to ERR.
                let Some(qp) = peer.log.qp.clone() else {
                    peer.log.state = LogState::Draining { close: id, since };
                    return;
                };
                peer.log.state = LogState::Failing { close: id, since };
                if !self.send(Job::Fail { end: End::Log, peer: id.peer, qp }) {
                    self.finish_close(slot, id, None);
                }
            }
        }
    }

    fn finish_close(&mut self, slot: usize, id: RequestId, end: Option<(Arc<QueuePair>, u32)>) {
        if end.is_some()
            && let Some(peer) = &mut self.peers[slot]
        {
            // What never completed reads no byte any more: only now may the core hear of it, which reuses them.
            peer.log.posted.abandon(Status::Flushed);
            self.take_ended(slot, End::Log);
        }
        let Some(peer) = &mut self.peers[slot] else { return };
        match end {
            Some((qp, packet)) => {
                peer.log.qp = Some(qp);
                peer.log.packet = packet;
                peer.log.state = LogState::Closed;
                let numbers = peer.log.numbers().map_or(0, Numbers::pack);
                self.completions.push(id, Status::Success, numbers);
            }
            None => {
                peer.log.state = LogState::Broken;
                self.completions.push(id, Status::Failed, 0);
            }
        }
    }

    #[cold]
    pub(super) fn handle_reports(&mut self) {
        while let Ok(report) = self.reports.pop() {
            let of_job = match &report {
                Report::Done(done) => done.id.class != Class::Connect,
                Report::Failed { .. } | Report::Reset { .. } => true,
                Report::Met { .. } | Report::Lost { .. } | Report::Port { .. } | Report::Dead => false,
            };
            self.working -= u32::from(of_job);
            match report {
                Report::Met { id, qp, remote } => {
                    let Some(peer) = &mut self.peers[id.peer.slot()] else { continue };
                    if peer.control.state == (ControlState::Meeting { connect: id }) {
                        peer.control.qp = Some(qp);
                        peer.control.state = ControlState::Up;
                        peer.control.epoch = id.epoch;
                        peer.remote = remote;
                        let numbers = peer.log.numbers().map_or(0, Numbers::pack);
                        self.completions.push(id, Status::Success, numbers);
                    }
                }
                Report::Failed { end, peer, ok } => self.handle_failed(peer.slot(), end, ok),
                Report::Reset { peer, end } => {
                    let state = self.peers[peer.slot()].as_ref().map(|peer| peer.log.state);
                    if let Some(LogState::Resetting { close }) = state {
                        self.finish_close(peer.slot(), close, end);
                    }
                }
                Report::Done(done) => self.handle_verb_done(done),
                Report::Lost { peer } => {
                    if let Some(peer) = &mut self.peers[peer.slot()] {
                        peer.break_end(End::Control);
                    }
                }
                Report::Port { up } => {
                    self.cut_off = if up { CutOff::Until(Instant::now() + REUNION) } else { CutOff::Yes }
                }
                Report::Dead => self.handle_dead(),
            }
        }
    }

    fn handle_verb_done(&mut self, done: Completion) {
        let slot = done.id.peer.slot();
        match done.id.class {
            Class::Open => self.finish_open(slot, done),
            Class::Connect => {
                let Some(peer) = &mut self.peers[slot] else { return };
                // One that was wanted no more has ended already.
                if peer.control.state == (ControlState::Meeting { connect: done.id }) {
                    peer.control.state = ControlState::Down;
                    self.completions.push(done.id, done.status, 0);
                }
            }
            _ => self.completions.push(done.id, done.status, done.value),
        }
    }

    /// A queue pair is in ERR: what is under way on it comes back now.
    fn handle_failed(&mut self, slot: usize, end: End, ok: bool) {
        let Some(peer) = &mut self.peers[slot] else { return };
        match end {
            End::Log => {
                let LogState::Failing { close, since } = peer.log.state else { return };
                if ok {
                    peer.log.state = LogState::Draining { close, since };
                } else {
                    self.finish_close(slot, close, None);
                }
            }
            End::Control => {
                // Should it not work, the queue pair is destroyed soon, which is as good.
                if let ControlState::Failing { connect, since } = peer.control.state {
                    peer.control.state = ControlState::Draining { connect, since };
                }
            }
        }
    }

    /// Goes on with ends that are drained, or never will be.
    #[cold]
    pub(super) fn close_drained(&mut self) {
        for slot in 0..16 {
            if self.closing & 1 << slot == 0 {
                continue;
            }
            let Some(peer) = &mut self.peers[slot] else { continue };
            let (log, control) = (peer.log.state, peer.control.state);
            if let LogState::Draining { close, since } = log {
                let is_late = !peer.log.posted.is_empty() && since.elapsed() > DRAIN_LIMIT;
                if is_late {
                    warn!(node = slot, "a queue pair in error does not complete what is under way");
                }
                if is_late || peer.log.posted.is_empty() {
                    peer.log.state = LogState::Resetting { close };
                    let qp = peer.log.qp.take();
                    let job = Job::Reset { peer: close.peer, qp, drained: !is_late };
                    if !self.send(job) {
                        self.finish_close(slot, close, None);
                    }
                }
            }
            if let ControlState::Draining { connect, since } = control {
                let Some(peer) = &mut self.peers[slot] else { continue };
                if !peer.control.posted.is_empty() && since.elapsed() > DRAIN_LIMIT {
                    peer.control.posted.abandon(Status::Flushed);
                    self.take_ended(slot, End::Control);
                }
                let Some(peer) = &mut self.peers[slot] else { continue };
                if peer.control.posted.is_empty() {
                    self.meet(slot, connect);
                }
            }
            if self.peers[slot].as_ref().is_none_or(|peer| !peer.is_closing()) {
                self.closing &= !(1 << slot);
            }
        }
    }

    #[cold]
    pub(super) fn handle_dead(&mut self) {
        if self.dead {
            return;
        }
        self.dead = true;
        error!("no verb is carried out any more");
        for slot in 0..16 {
            for end in [End::Control, End::Log] {
                if let Some(peer) = &mut self.peers[slot] {
                    peer.break_end(end);
                    peer.posted(end).abandon(Status::Failed);
                    self.take_ended(slot, end);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::verbs::Choice;
    use crate::fabric::verbs::trial::rig::{Hub, Node, connect, id, open};
    use ringleader_core::verb::Verb;

    const A: u8 = 1;
    const B: u8 = 2;

    /// Two nodes of which A writes to B; the number of A's queue pair.
    fn two() -> (Node, Node, u32) {
        let hub = Hub::default();
        let node = |node, peer| Node::new(&hub, node, &[peer], &Choice::default(), None).expect("a device");
        let (mut a, mut b) = (node(A, B), node(B, A));
        let (numbers, _) = connect((&mut a, A), (&mut b, B), 1);
        open((&mut a, A), (&mut b, B), 1, numbers);
        (a, b, Numbers::unpack(numbers).qp)
    }

    #[test]
    #[ignore = "needs an RDMA device: make lab"]
    fn an_end_without_a_queue_pair_gets_one_by_being_closed() {
        let (mut a, mut b, _) = two();
        // As after a close for which the device had no other.
        let end = &mut a.fabric.peers[usize::from(B)].as_mut().expect("known").log;
        (end.qp, end.state) = (None, LogState::Broken);
        let closed = a.does(Verb::Close { id: id(B, Class::Close, 1, 0) });
        assert_eq!(closed.status, Status::Success);
        assert_eq!(b.does(Verb::Fence { id: id(A, Class::Fence, 1, 0) }).status, Status::Success);
        open((&mut a, A), (&mut b, B), 2, closed.value);
    }

    /// Until the queue pair is gone, what it never completed may still be read.
    #[test]
    #[ignore = "needs an RDMA device: make lab"]
    fn what_never_completes_ends_when_its_queue_pair_is_gone() {
        let (mut a, _b, number) = two();
        let never = id(B, Class::Entries, 1, 7);
        a.fabric.peers[usize::from(B)].as_mut().expect("known").log.posted.push(never.pack(), None);
        let close = a.post(Verb::Close { id: id(B, Class::Close, 1, 0) });
        let begun = Instant::now();
        let ended = loop {
            a.reap();
            if let Some(ended) = a.take(never) {
                break ended;
            }
            assert!(begun.elapsed() < Duration::from_secs(20), "it does not end");
        };
        assert_eq!(ended.status, Status::Flushed);
        assert!(begun.elapsed() >= DRAIN_LIMIT);
        let closed = a.take(close).expect("no earlier than the close");
        assert_eq!(closed.status, Status::Success);
        assert_ne!(Numbers::unpack(closed.value).qp, number, "another one");
        assert_eq!(a.fabric.strays(), 0);
    }
}
