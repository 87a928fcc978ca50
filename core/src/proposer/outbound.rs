//! The initiator's end of the log queue pair to one acceptor: closed, opening, ready, closing (protocol.md 4).
//!
//! It belongs to the node, not to its leadership: both ends are kept armed and ready at all times, so that a new leader only
//! needs a flag to be set. After any error it is closed unasked, and what was outstanding is drained before that is shown.

#[cfg(feature = "model")]
use crate::canonical::{Canonical, Counter, Space};
use crate::layout::{AnswerLine, qp};
use crate::types::{Boot, Epoch, Instant, NodeId};
use crate::verb::{Class, Completion, RequestId, Status, Verb};

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum State {
    Closed,
    Opening,
    Ready,
    Closing,
}

/// This node's way into one peer's log area.
#[derive(Clone, Debug)]
pub(crate) struct Outbound {
    peer: NodeId,
    state: State,
    /// Of the acceptor's process `boot`.
    epoch: Epoch,
    boot: Boot,
    /// Last epoch that is known closed.
    closed: Epoch,
    /// Opaque number of this end, and of the acceptor's.
    numbers: u64,
    peer_numbers: u64,
    wanted: Option<Class>,
    /// After a failure: not before this.
    retry_at: Instant,
}

impl Outbound {
    pub(crate) fn new(peer: NodeId) -> Outbound {
        Outbound {
            peer,
            state: State::Closed,
            epoch: Epoch(0),
            boot: Boot(0),
            closed: Epoch(0),
            numbers: 0,
            peer_numbers: 0,
            wanted: None,
            retry_at: Instant(0),
        }
    }

    pub(crate) fn epoch(&self) -> Epoch {
        self.epoch
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.state == State::Ready
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.state == State::Closed
    }

    /// Neither up nor down.
    pub(crate) fn is_opening(&self) -> bool {
        self.state == State::Opening
    }

    /// What was outstanding is being drained.
    pub(crate) fn is_closing(&self) -> bool {
        self.state == State::Closing
    }

    /// [`qp`] state and epoch for the request line.
    pub(crate) fn shown(&self) -> (u8, Epoch, u64) {
        match self.state {
            State::Closed | State::Opening => (qp::CLOSED, self.closed, self.numbers),
            State::Ready | State::Closing => (qp::READY, self.epoch, self.numbers),
        }
    }

    /// A link to this process came up. Links come up only while this end is closed.
    pub(crate) fn handle_link_up(&mut self, boot: Boot, numbers: u64) {
        self.numbers = numbers;
        if self.boot != boot {
            // Epochs count the arms of one acceptor's life.
            self.boot = boot;
            self.epoch = Epoch(0);
            self.closed = Epoch(0);
        }
    }

    /// ERR, drain, RESET. Returns whether there was anything to close.
    pub(crate) fn close(&mut self) -> bool {
        let open = matches!(self.state, State::Opening | State::Ready);
        if open {
            self.state = State::Closing;
            self.wanted = Some(Class::Close);
        }
        open
    }

    /// The acceptor shows its end: open when it is armed anew. Returns `false` when it was fenced under us: close.
    pub(crate) fn handle_answer(&mut self, line: &AnswerLine) -> bool {
        let epoch = Epoch(line.qp_epoch);
        match self.state {
            State::Closed if line.qp_state == qp::ARMED && epoch > self.closed => {
                self.epoch = epoch;
                self.peer_numbers = line.qp_numbers;
                self.state = State::Opening;
                self.wanted = Some(Class::Open);
                true
            }
            State::Closed if line.qp_state == qp::FENCED && epoch > self.closed => {
                // Armed and fenced again before it was opened here: it never will be.
                self.epoch = epoch;
                self.closed = epoch;
                true
            }
            State::Opening | State::Ready => {
                !(epoch > self.epoch || epoch == self.epoch && line.qp_state == qp::FENCED)
            }
            _ => true,
        }
    }

    pub(crate) fn poll(&mut self, now: Instant) -> Option<Verb> {
        if now < self.retry_at {
            return None;
        }
        let class = self.wanted.take()?;
        let id = RequestId { peer: self.peer, class, epoch: self.epoch, number: 0 };
        Some(match class {
            Class::Open => Verb::Open { id, numbers: self.peer_numbers },
            _ => Verb::Close { id },
        })
    }

    /// Returns whether what the request line shows has changed.
    pub(crate) fn handle_completion(&mut self, now: Instant, done: &Completion, repeat_ns: u64) -> bool {
        if done.id.epoch != self.epoch {
            return false;
        }
        match (done.id.class, self.state) {
            (Class::Open, State::Opening) if done.status == Status::Success => {
                self.state = State::Ready;
                true
            }
            (Class::Open, State::Opening) => self.close(),
            (Class::Close, State::Closing) if done.status == Status::Success => {
                self.numbers = done.value;
                self.closed = self.epoch;
                self.state = State::Closed;
                true
            }
            // A close that failed has drained nothing: again.
            (Class::Close, State::Closing) => {
                self.wanted = Some(Class::Close);
                self.retry_at = now.after(repeat_ns);
                false
            }
            _ => false,
        }
    }
}

#[cfg(feature = "model")]
impl Outbound {
    pub(crate) fn canonical(&self, me: NodeId, out: &mut impl Canonical) {
        let Outbound { peer, state, epoch, boot, closed, numbers, peer_numbers, wanted, retry_at } = *self;
        let epochs = Space::new(Counter::Epoch, peer, me);
        out.plain((state, boot, wanted));
        out.count(epochs, u64::from(epoch.0));
        out.count(epochs, u64::from(closed.0));
        out.count(Space::new(Counter::End, me, peer), numbers);
        out.count(Space::new(Counter::Armed, peer, me), peer_numbers);
        out.moment(retry_at);
    }
}
