//! A node as the application holds it, and the handles it gives out.

use std::time::Duration;

use ringleader_core::event::Event;

use crate::app::StateMachine;
use crate::errors::{CloseError, FormError, MeasureError, OpenError, SubmitError};
use crate::measure::Measurement;
use crate::options::Options;
use crate::status::Status;

/// The number of a proposal within its [`Handle`]: 0, 1, 2, …
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Ticket(pub u64);

/// How a proposal ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Outcome {
    /// It is committed, as this entry.
    Committed {
        /// Its number in the log.
        index: u64,
    },
    /// The node lost the lead: the proposal may be committed by the next leader, or never.
    Unknown,
    /// Not proposed: this node does not lead.
    NotLeader {
        /// Who does, as far as the node knows.
        leader: Option<u8>,
    },
    /// Not proposed: the log has no room.
    Full,
}

/// An event of the protocol with its time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TimedEvent {
    /// When, in nanoseconds of `CLOCK_BOOTTIME`.
    pub at_ns: u64,
    /// What.
    pub event: Event,
}

/// One replica: its region, and the thread that serves it.
#[derive(Debug)]
pub struct Node {
    options: Options,
}

impl Node {
    /// Makes the region and starts the agent's thread.
    pub fn open(options: Options, machine: impl StateMachine) -> Result<Node, OpenError> {
        drop(machine);
        Ok(Node { options })
    }

    /// Forms the group of all members: on one node, once. Waits until this node is in it.
    pub fn form(&self, timeout: Duration) -> Result<(), FormError> {
        std::thread::sleep(timeout);
        Err(FormError::Timeout)
    }

    /// A new lane to the agent.
    pub fn handle(&self) -> Handle {
        Handle { next: 0 }
    }

    /// A snapshot.
    pub fn status(&self) -> Status {
        Status { node: self.options.node, ..Status::default() }
    }

    /// The next event that nobody took yet. For one consumer.
    pub fn next_event(&self) -> Option<TimedEvent> {
        None
    }

    /// Measures commit latency with payloads of `size` bytes, and the floor under it.
    pub fn measure(&self, samples: usize, size: usize) -> Result<Measurement, MeasureError> {
        let _ = (samples, size);
        Err(MeasureError::NotLeader)
    }

    /// Ends the node and waits until its thread has.
    pub fn close(self) -> Result<(), CloseError> {
        Ok(())
    }
}

/// A lane to the agent: proposals one way, outcomes the other, in the same order. For one thread at a time.
#[derive(Debug)]
pub struct Handle {
    next: u64,
}

impl Handle {
    /// Hands a payload to the agent. Its outcome comes by [`Handle::poll`].
    pub fn propose(&mut self, payload: &[u8]) -> Result<Ticket, SubmitError> {
        let _ = payload;
        self.next += 1;
        Ok(Ticket(self.next - 1))
    }

    /// The next outcome, in the order of proposing; `None` when there is none yet.
    pub fn poll(&mut self) -> Option<(Ticket, Outcome)> {
        None
    }

    /// Waits for the next outcome.
    pub fn wait(&mut self, timeout: Duration) -> Option<(Ticket, Outcome)> {
        std::thread::sleep(timeout);
        None
    }
}
