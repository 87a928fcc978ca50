//! The acceptor's end of the log queue pair that one peer writes through: closed, armed, granted, fenced (protocol.md 4).
//!
//! Flags only ever add permission, fences only ever take it away, and nothing is armed before the peer's end is known closed:
//! a former life's retransmission would be acknowledged without being carried out.

#[cfg(feature = "model")]
use crate::canonical::{Canonical, Counter, Space};
use crate::layout::{RequestLine, qp};
use crate::mark::{self, mark};
use crate::planted::{self, Bug};
use crate::types::{Boot, Epoch, Instant, NodeId};
use crate::verb::{Class, Completion, RequestId, Status, Verb};

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum State {
    Closed,
    Arming,
    Armed,
    Granting,
    Granted,
    /// `permitted`: it could write until now.
    Fencing {
        permitted: bool,
    },
}

/// What the peer's request line says of its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Shown {
    boot: Boot,
    ready: bool,
    epoch: Epoch,
    numbers: u64,
}

/// One peer's way into the log area.
#[derive(Clone, Debug)]
pub(crate) struct Inbound {
    peer: NodeId,
    state: State,
    epoch: Epoch,
    /// What the peer opens its end with.
    numbers: u64,
    /// Boot of the process at the other end when it was armed.
    armed_for: Boot,
    /// What the peer's end gave when it was closed last.
    peer_numbers: u64,
    shown: Option<Shown>,
    wanted: Option<Class>,
    retry_at: Instant,
}

/// What a completion changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Change {
    None,
    /// Armed, or failed to be.
    Shown,
    Granted,
    Fenced,
}

impl Inbound {
    pub(crate) fn new(peer: NodeId) -> Inbound {
        Inbound {
            peer,
            state: State::Closed,
            epoch: Epoch(0),
            numbers: 0,
            armed_for: Boot(0),
            peer_numbers: 0,
            shown: None,
            wanted: None,
            retry_at: Instant(0),
        }
    }

    pub(crate) fn peer(&self) -> NodeId {
        self.peer
    }

    /// The epoch for the answer line: one that is being armed is not shown before it is.
    pub(crate) fn shown_epoch(&self) -> Epoch {
        if self.state == State::Arming { Epoch(self.epoch.0 - 1) } else { self.epoch }
    }

    pub(crate) fn numbers(&self) -> u64 {
        self.numbers
    }

    /// [`qp`] state for the answer line.
    pub(crate) fn shown_state(&self) -> u8 {
        match self.state {
            State::Closed | State::Arming | State::Fencing { .. } => qp::FENCED,
            State::Armed | State::Granting => qp::ARMED,
            State::Granted => qp::GRANTED,
        }
    }

    pub(crate) fn is_granted(&self) -> bool {
        self.state == State::Granted
    }

    /// A write may still land, or a fence is not proved yet.
    pub(crate) fn may_write(&self) -> bool {
        matches!(self.state, State::Granting | State::Granted | State::Fencing { permitted: true })
    }

    /// Armed for that life of the peer, and its end is up: one flag away from writing.
    pub(crate) fn can_grant(&self, boot: Boot) -> bool {
        self.state == State::Armed
            && self.armed_for == boot
            && self
                .shown
                .is_some_and(|shown| shown.ready && shown.epoch == self.epoch && shown.boot == self.armed_for)
    }

    pub(crate) fn grant(&mut self) {
        assert!(self.state == State::Armed, "only an armed queue pair is granted");
        mark(mark::Inbound::Granting);
        self.state = State::Granting;
        self.wanted = Some(Class::Grant);
    }

    /// Takes write permission away, whatever state it is in; nothing to do where there is none.
    pub(crate) fn fence(&mut self) {
        let permitted = match self.state {
            State::Granting | State::Granted => true,
            State::Armed => false,
            _ => return,
        };
        self.state = State::Fencing { permitted };
        self.wanted = Some(Class::Fence);
    }

    /// A request line of the process that is at the other end now.
    pub(crate) fn handle_line(&mut self, line: &RequestLine) {
        self.shown = Some(Shown {
            boot: Boot(line.from_boot),
            ready: line.qp_state == qp::READY,
            epoch: Epoch(line.qp_epoch),
            numbers: line.qp_numbers,
        })
        .filter(|_| line.qp_state == qp::READY || line.qp_state == qp::CLOSED);
    }

    /// The peer cannot be heard: what it showed is not known to hold.
    pub(crate) fn handle_down(&mut self) {
        self.shown = None;
    }

    /// Arms what is closed at both ends, and fences what the peer has closed or left. `boot` is the process that is
    /// connected now, if any. Returns whether what the answer line shows has changed.
    pub(crate) fn tick(&mut self, boot: Option<Boot>) -> bool {
        let Some(boot) = boot else { return false };
        match self.state {
            State::Armed | State::Granting | State::Granted => {
                let left = self.armed_for != boot;
                // Closed again, or made anew with another number before it was ever opened.
                let closed = self.shown.is_some_and(|shown| {
                    !shown.ready && (shown.epoch >= self.epoch || shown.numbers != self.peer_numbers)
                });
                if left || closed {
                    mark(match self.state {
                        State::Armed => mark::Inbound::ArmedLeft,
                        _ => mark::Inbound::GrantedLeft,
                    });
                    self.fence();
                    return true;
                }
            }
            State::Closed => {
                if let Some(shown) = self.shown
                    && shown.boot == boot
                    // Never before the peer's end is known closed in the epoch before. A peer that never opened that
                    // one takes it for closed when it is shown fenced.
                    && (!shown.ready && (shown.epoch >= self.epoch || self.armed_for != boot)
                        || planted::is(Bug::ArmBeforeClosed))
                {
                    self.epoch = Epoch(self.epoch.0 + 1);
                    self.armed_for = boot;
                    self.peer_numbers = shown.numbers;
                    mark(mark::Inbound::Arming);
                    self.state = State::Arming;
                    self.wanted = Some(Class::Arm);
                    return true;
                }
            }
            _ => {}
        }
        false
    }

    pub(crate) fn poll(&mut self, now: Instant) -> Option<Verb> {
        // Only after a failure: never at once again.
        if now < self.retry_at {
            return None;
        }
        let class = self.wanted.take()?;
        let id = RequestId { peer: self.peer, class, epoch: self.epoch, number: 0 };
        Some(match class {
            Class::Arm => Verb::Arm { id, numbers: self.peer_numbers },
            Class::Grant => Verb::Grant { id },
            _ => Verb::Fence { id },
        })
    }

    pub(crate) fn handle_completion(&mut self, now: Instant, done: &Completion, repeat_ns: u64) -> Change {
        if done.id.epoch != self.epoch {
            return Change::None;
        }
        let success = done.status == Status::Success;
        match (done.id.class, self.state) {
            (Class::Arm, State::Arming) => {
                self.numbers = done.value;
                if success {
                    mark(mark::Inbound::Armed);
                    self.state = State::Armed;
                } else {
                    mark(mark::Inbound::ArmFailed);
                    self.state = State::Fencing { permitted: false };
                    self.wanted = Some(Class::Fence);
                    self.retry_at = now.after(repeat_ns);
                }
                Change::Shown
            }
            (Class::Grant, State::Granting) if success => {
                mark(mark::Inbound::Granted);
                self.state = State::Granted;
                Change::Granted
            }
            // A flag that could not be set: start over with another epoch.
            (Class::Grant, State::Granting) => {
                mark(mark::Inbound::GrantFailed);
                self.fence();
                Change::Shown
            }
            (Class::Fence, State::Fencing { .. }) if success => {
                mark(mark::Inbound::Closed);
                self.state = State::Closed;
                Change::Fenced
            }
            // A fence that failed is no fence: try again; `fence_limit` ends it.
            (Class::Fence, State::Fencing { .. }) => {
                mark(mark::Inbound::FenceFailed);
                self.wanted = Some(Class::Fence);
                self.retry_at = now.after(repeat_ns);
                Change::None
            }
            _ => Change::None,
        }
    }
}

#[cfg(feature = "model")]
impl Inbound {
    pub(crate) fn canonical(&self, me: NodeId, out: &mut impl Canonical) {
        let Inbound { peer, state, epoch, numbers, armed_for, peer_numbers, shown, wanted, retry_at } = *self;
        let epochs = Space::new(Counter::Epoch, me, peer);
        let ends = Space::new(Counter::End, peer, me);
        out.plain((state, armed_for, wanted, shown.is_some()));
        out.count(epochs, u64::from(epoch.0));
        out.count(Space::new(Counter::Armed, me, peer), numbers);
        out.count(ends, peer_numbers);
        out.moment(retry_at);
        if let Some(Shown { boot, ready, epoch, numbers }) = shown {
            out.plain((boot, ready));
            out.count(epochs, u64::from(epoch.0));
            out.count(ends, numbers);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: NodeId = NodeId(2);
    const BOOT: Boot = Boot(7);

    fn line(qp_state: u8, epoch: u32) -> RequestLine {
        RequestLine { from_boot: BOOT.0, qp_state, qp_epoch: epoch, ..RequestLine::default() }
    }

    fn end(inbound: &mut Inbound, class: Class, status: Status) -> Change {
        let verb = inbound.poll(Instant(0)).expect("a verb");
        assert_eq!(verb.id().class, class);
        inbound.handle_completion(Instant(0), &Completion { id: verb.id(), status, value: 0 }, 10)
    }

    /// An epoch that is being armed is not shown fenced: its peer would take it for closed, and never open it.
    #[test]
    fn from_closed_to_granted_and_back() {
        let mut inbound = Inbound::new(PEER);
        assert!(!inbound.tick(Some(BOOT)), "nothing is known of the peer's end");
        inbound.handle_line(&line(qp::CLOSED, 0));
        assert!(inbound.tick(Some(BOOT)));
        assert_eq!((inbound.shown_state(), inbound.shown_epoch()), (qp::FENCED, Epoch(0)));
        assert_eq!(end(&mut inbound, Class::Arm, Status::Success), Change::Shown);
        assert_eq!((inbound.shown_state(), inbound.shown_epoch()), (qp::ARMED, Epoch(1)));
        assert!(!inbound.can_grant(BOOT), "the peer's end is not up");
        inbound.handle_line(&line(qp::READY, 1));
        assert!(inbound.can_grant(BOOT));
        assert!(!inbound.can_grant(Boot(BOOT.0 + 1)), "another life of it was promised to");
        inbound.grant();
        assert!(inbound.may_write(), "from the moment the flag may be set");
        assert_eq!(end(&mut inbound, Class::Grant, Status::Success), Change::Granted);
        inbound.fence();
        assert!(inbound.may_write(), "until the fence is proved");
        assert_eq!(end(&mut inbound, Class::Fence, Status::Success), Change::Fenced);
        assert!(!inbound.may_write());
        assert!(!inbound.tick(Some(BOOT)), "not armed before the peer is closed");
        inbound.handle_line(&line(qp::CLOSED, 1));
        assert!(inbound.tick(Some(BOOT)));
    }
}
