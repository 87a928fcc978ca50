//! What a thread of the application proposes with: a [`Handle`], its tickets and their outcomes.

use std::fmt;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::errors::SubmitError;
use crate::lane::{self, HandleEnd};
use crate::shared::Shared;
use crate::sync::Ordering;

/// The number of a proposal within its [`Handle`]: 0, 1, 2, …
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Ticket(pub u64);

/// How a proposal ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Outcome {
    /// It is committed, as this entry: it will be applied on every node, once.
    Committed {
        /// Its number in the log.
        index: u64,
    },
    /// The node lost the lead, or was closed: the proposal may be committed by the next leader, or never
    /// ([`crate`] says how to propose it again and keep it single).
    Unknown,
    /// Not proposed, and never will be: this node does not lead, or an earlier proposal of the same handle ended
    /// without a commit and its outcome was not polled yet when this one was made.
    NotLeader {
        /// Who leads, as far as the node knows; this node itself when it leads again.
        leader: Option<u8>,
    },
}

/// A lane to the agent: proposals one way, outcomes the other, in the same order. For one thread at a time; further
/// handles come from [`crate::Node::handle`].
///
/// Nothing in it waits for a lock, and proposing allocates nothing (up to 128 KiB; a larger payload is boxed).
///
/// **A pipeline has no gaps.** When the lead is lost, every proposal of the handle that is on its way ends
/// [`Outcome::Unknown`], and every one behind it [`Outcome::NotLeader`], also those made later, until the application
/// has polled the first of these outcomes. So if a proposal is committed, all that this handle proposed before it since
/// the last such outcome are, too, and stand before it in the log.
#[derive(Debug)]
pub struct Handle {
    lane: HandleEnd,
    shared: Arc<Shared>,
    proposed: u64,
    polled: u64,
    life: u32,
}

impl Handle {
    pub(crate) fn new(lane: HandleEnd, shared: Arc<Shared>) -> Handle {
        Handle { lane, shared, proposed: 0, polled: 0, life: 0 }
    }

    /// Hands a payload to the agent. Its outcome comes by [`Handle::poll`].
    pub fn propose(&mut self, payload: &[u8]) -> Result<Ticket, SubmitError> {
        self.check(payload.len())?;
        self.lane.push(payload, self.life)?;
        self.proposed += 1;
        Ok(Ticket(self.proposed - 1))
    }

    /// Lends a place for a payload of `len` bytes, zeros at first, where the agent takes it from: what is written there is not
    /// copied into the lane any more. Proposed when it is committed; dropped, it never was.
    pub fn draft(&mut self, len: usize) -> Result<Draft<'_>, SubmitError> {
        self.check(len)?;
        let draft = self.lane.draft(len)?;
        Ok(Draft { draft, proposed: &mut self.proposed, life: self.life })
    }

    fn check(&self, len: usize) -> Result<(), SubmitError> {
        // Relaxed: nothing else is read on the strength of this flag.
        if self.shared.closed.load(Ordering::Relaxed) {
            return Err(SubmitError::Closed);
        }
        if len > self.shared.max_payload {
            return Err(SubmitError::TooLarge { max: self.shared.max_payload });
        }
        Ok(())
    }

    /// The next outcome, in the order of proposing; `None` when there is none yet.
    pub fn poll(&mut self) -> Option<(Ticket, Outcome)> {
        let ended = self.lane.is_abandoned();
        let outcome = match self.lane.pop() {
            Some(reply) => {
                if !matches!(reply.outcome, Outcome::Committed { .. }) && reply.life == self.life {
                    self.life = self.life.wrapping_add(1);
                }
                reply.outcome
            }
            // The agent ended before it took this one, or in the midst of it.
            None if ended && self.polled < self.proposed => Outcome::Unknown,
            None => return None,
        };
        self.polled += 1;
        Some((Ticket(self.polled - 1), outcome))
    }

    /// Waits for the next outcome; `None` when none came in time, or nothing is outstanding.
    pub fn wait(&mut self, timeout: Duration) -> Option<(Ticket, Outcome)> {
        let mut round = 0_u32;
        let mut deadline = None;
        loop {
            if let Some(ended) = self.poll() {
                return Some(ended);
            }
            if self.outstanding() == 0 {
                return None;
            }
            round = round.saturating_add(1);
            match round {
                ..200 => std::hint::spin_loop(),
                200..300 => thread::yield_now(),
                _ => {
                    // The clock is first read when the wait is long already.
                    let deadline = *deadline.get_or_insert_with(|| Instant::now() + timeout);
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return self.poll();
                    }
                    thread::sleep(left.min(Duration::from_micros(50)));
                }
            }
        }
    }

    /// Proposals whose outcome was not polled yet.
    pub fn outstanding(&self) -> u64 {
        self.proposed - self.polled
    }

    /// The largest payload that fits into an entry, in bytes.
    pub fn max_payload(&self) -> usize {
        self.shared.max_payload
    }
}

/// A proposal that is being written, in place: see [`Handle::draft`].
pub struct Draft<'a> {
    draft: lane::Draft<'a>,
    proposed: &'a mut u64,
    life: u32,
}

impl Draft<'_> {
    /// Its payload: one slice, which begins at a multiple of 8 bytes.
    pub fn bytes(&mut self) -> &mut [u8] {
        self.draft.bytes()
    }

    /// Cuts it to `len` bytes, if it is longer.
    pub fn truncate(&mut self, len: usize) {
        self.draft.truncate(len);
    }

    /// Proposes it. Its outcome comes by [`Handle::poll`].
    pub fn commit(self) -> Ticket {
        self.draft.commit(self.life);
        *self.proposed += 1;
        Ticket(*self.proposed - 1)
    }
}

impl fmt::Debug for Draft<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Draft").finish_non_exhaustive()
    }
}
