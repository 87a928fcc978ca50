//! What a thread of the application reads with: a [`Reader`], and how reads end.
//!
//! A read asks when the application's own state may be looked at, so that it misses nothing acknowledged to anybody before
//! (docs/protocol.md, section 9). The state itself is the application's, and so is the way there.

use std::fmt;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

pub use ringleader_core::read::{LeaseReads, Read, ReadFailure};

use crate::errors::SubmitError;
use crate::handle::Ticket;
use crate::shared::Shared;
use crate::sync::{Consumer, Ordering, Producer, RingBuffer};

/// Reads of one reader that have not been polled.
pub(crate) const WINDOW: usize = 4096;

/// How a read ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ReadOutcome {
    /// The state machine of this node has been handed everything that was acknowledged to anybody before the read was asked
    /// for: what it has made of that can be looked at now. State that another thread keeps is to be looked at when it is as
    /// far as this.
    Ready {
        /// The last entry that the state machine has been handed, or that was passed over because it is not the
        /// application's.
        applied_index: u64,
    },
    /// No answer came about in time, or the lead was lost. Nothing has happened: it can be asked for again.
    Failed(ReadFailure),
    /// This node does not lead, and only a leader can read like this.
    NotLeader {
        /// Who leads, as far as the node knows.
        leader: Option<u8>,
    },
    /// The node is in no group yet.
    NotFormed,
    /// Lease reads were not allowed when the node was opened ([`crate::Options::lease_reads`]).
    NoLeaseReads,
    /// The node was closed.
    Closed,
}

/// An end of a read on its way to its reader.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reply {
    pub(crate) number: u64,
    pub(crate) outcome: ReadOutcome,
}

/// The agent's end.
pub(crate) struct AgentEnd {
    pub(crate) asks: Consumer<Read>,
    pub(crate) replies: Producer<Reply>,
    /// Called when there are replies, by the agent's thread: it may not wait for anything.
    pub(crate) ring: Option<Box<dyn Fn() + Send>>,
}

impl fmt::Debug for AgentEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentEnd").field("asks", &self.asks).field("replies", &self.replies).finish()
    }
}

/// A way to read, for one thread at a time; further ones come from [`crate::Node::reader`].
///
/// Nothing in it waits for a lock. However many reads wait, one check serves all of them.
#[derive(Debug)]
pub struct Reader {
    asks: Producer<Read>,
    replies: Consumer<Reply>,
    shared: Arc<Shared>,
    asked: u64,
    polled: u64,
}

impl Reader {
    pub(crate) fn new(shared: Arc<Shared>, ring: Option<Box<dyn Fn() + Send>>) -> (Reader, AgentEnd) {
        let (asks_in, asks_out) = RingBuffer::new(WINDOW);
        let (replies_in, replies_out) = RingBuffer::new(WINDOW);
        let reader = Reader { asks: asks_in, replies: replies_out, shared, asked: 0, polled: 0 };
        (reader, AgentEnd { asks: asks_out, replies: replies_in, ring })
    }

    /// Asks for a read. How it ends comes by [`Reader::poll`].
    pub fn ask(&mut self, how: Read) -> Result<Ticket, SubmitError> {
        // Relaxed: nothing else is read on the strength of this flag.
        if self.shared.closed.load(Ordering::Relaxed) {
            return Err(SubmitError::Closed);
        }
        if self.outstanding() >= WINDOW as u64 {
            return Err(SubmitError::Full);
        }
        self.asks.push(how).map_err(|_| SubmitError::Full)?;
        self.asked += 1;
        Ok(Ticket(self.asked - 1))
    }

    /// The next read that has ended; `None` when none has. Those of one kind end in the order in which they were asked for.
    pub fn poll(&mut self) -> Option<(Ticket, ReadOutcome)> {
        let ended = self.replies.is_abandoned();
        // The ring does not synchronise this answer: with the fence, replies given before the end are seen after it.
        crate::sync::fence(Ordering::Acquire);
        let reply = match self.replies.pop() {
            Ok(reply) => reply,
            Err(_) if ended && self.outstanding() > 0 => {
                // The agent is gone, and whatever it had not ended with it.
                Reply { number: self.asked - self.outstanding(), outcome: ReadOutcome::Closed }
            }
            Err(_) => return None,
        };
        self.polled += 1;
        Some((Ticket(reply.number), reply.outcome))
    }

    /// Reads, and waits for the end of that; reads asked for before are to have been polled. `None` when it has not ended in
    /// time; it is polled later, then.
    pub fn read(&mut self, how: Read, timeout: Duration) -> Option<ReadOutcome> {
        if self.ask(how).is_err() {
            return Some(ReadOutcome::Closed);
        }
        let mut round = 0_u32;
        let mut deadline = None;
        loop {
            if let Some((_, outcome)) = self.poll() {
                return Some(outcome);
            }
            round = round.saturating_add(1);
            match round {
                ..200 => std::hint::spin_loop(),
                200..300 => thread::yield_now(),
                _ => {
                    let deadline = *deadline.get_or_insert_with(|| Instant::now() + timeout);
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return self.poll().map(|(_, outcome)| outcome);
                    }
                    thread::sleep(left.min(Duration::from_micros(50)));
                }
            }
        }
    }

    /// Reads whose end was not polled yet.
    pub fn outstanding(&self) -> u64 {
        self.asked - self.polled
    }
}
