//! The ends that this node posts to, as the beating thread sees them: what state, what is under way, what was asked for.
//!
//! A request posted while an end is not up ends here, behind all that the device still has to complete.

use std::sync::Arc;
use std::time::Instant;

use ringleader_core::types::Epoch;
use ringleader_core::verb::{RequestId, Status};

use super::posted::Posted;
use super::qp::{Numbers, QueuePair};
use super::worker::{End, Remote};

/// The initiator's end of a log queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LogState {
    /// In RESET, and nothing under way.
    Closed,
    Opening,
    Ready,
    /// An error: to be closed.
    Broken,
    /// On its way to ERR.
    Failing {
        close: RequestId,
        since: Instant,
    },
    /// In ERR: waits for what is under way.
    Draining {
        close: RequestId,
        since: Instant,
    },
    /// On its way to RESET.
    Resetting {
        close: RequestId,
    },
}

/// See [`LogState`].
#[derive(Debug)]
pub(super) struct LogEnd {
    /// `None` while the worker resets it.
    pub(super) qp: Option<Arc<QueuePair>>,
    /// The first packet number of its next life.
    pub(super) packet: u32,
    pub(super) state: LogState,
    /// Of the life that it is in, or had last.
    pub(super) epoch: Epoch,
    pub(super) posted: Posted,
}

impl LogEnd {
    /// Of an end that is closed, and has what it takes to be opened.
    pub(super) fn numbers(&self) -> Option<Numbers> {
        let qp = self.qp.as_ref()?;
        Some(Numbers { qp: qp.number(), packet: self.packet })
    }
}

/// A control queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ControlState {
    Down,
    /// What was under way on the former one is drained, for the connection that is wanted.
    Failing {
        connect: RequestId,
        since: Instant,
    },
    Draining {
        connect: RequestId,
        since: Instant,
    },
    Meeting {
        connect: RequestId,
    },
    Up,
    /// An error: to be connected anew.
    Broken,
}

impl ControlState {
    /// The connection that is being made.
    pub(super) fn wanted(self) -> Option<RequestId> {
        match self {
            ControlState::Failing { connect, .. }
            | ControlState::Draining { connect, .. }
            | ControlState::Meeting { connect } => Some(connect),
            ControlState::Down | ControlState::Up | ControlState::Broken => None,
        }
    }
}

/// See [`ControlState`].
#[derive(Debug)]
pub(super) struct ControlEnd {
    pub(super) qp: Option<Arc<QueuePair>>,
    pub(super) state: ControlState,
    /// Number of the connection that is up, or was last.
    pub(super) epoch: Epoch,
    pub(super) posted: Posted,
}

/// Both ends to one peer.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) control: ControlEnd,
    pub(super) log: LogEnd,
    pub(super) remote: Remote,
}

impl Peer {
    pub(super) fn new(log: QueuePair, packet: u32) -> Peer {
        Peer {
            control: ControlEnd {
                qp: None,
                state: ControlState::Down,
                epoch: Epoch(0),
                posted: Posted::new(),
            },
            log: LogEnd {
                qp: Some(Arc::new(log)),
                packet,
                state: LogState::Closed,
                epoch: Epoch(0),
                posted: Posted::new(),
            },
            remote: Remote::default(),
        }
    }

    /// What is under way at one of them.
    #[inline]
    pub(super) fn posted(&mut self, end: End) -> &mut Posted {
        match end {
            End::Control => &mut self.control.posted,
            End::Log => &mut self.log.posted,
        }
    }

    /// An error: nothing is posted to this end any more until it is opened or connected again.
    pub(super) fn break_end(&mut self, end: End) {
        match end {
            End::Control if self.control.state == ControlState::Up => {
                self.control.state = ControlState::Broken
            }
            End::Log if self.log.state == LogState::Ready => self.log.state = LogState::Broken,
            _ => {}
        }
    }

    /// Whether nothing is under way at either end.
    pub(super) fn is_quiet(&self) -> bool {
        self.control.posted.is_empty() && self.log.posted.is_empty() && !self.is_closing()
    }

    /// Whether an end waits for what is under way.
    pub(super) fn is_closing(&self) -> bool {
        let log = matches!(self.log.state, LogState::Failing { .. } | LogState::Draining { .. });
        let control =
            matches!(self.control.state, ControlState::Failing { .. } | ControlState::Draining { .. });
        log || control
    }
}

/// How a request ends that finds its end not up.
pub(super) const DOWN: Status = Status::Flushed;
