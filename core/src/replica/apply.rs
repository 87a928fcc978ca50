//! The application's side of a replica: proposals, reads, handing over, and committed entries in their order.

use super::{Replica, Role};
use crate::entry::{self, Kind, max_payload, peek, slot_len};
use crate::event::Event;
use crate::mark::{self, mark};
use crate::mem::Memory;
use crate::options::Half;
use crate::planted::{self, Bug};
use crate::proposer::{TransferError, Work};
use crate::read::{Read, ReadError, ReadTicket};
use crate::types::{Index, Instant, NodeId, Position, Term};

/// Entries that are not the application's are skipped at most so many at a time.
const MAX_SKIPS: usize = 1024;

/// A proposal under way, by the entry it became.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Ticket {
    /// The leader's term.
    pub term: Term,
    /// The entry's index.
    pub index: Index,
}

/// Why nothing was proposed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ProposeError {
    /// This node does not lead.
    NotLeader {
        /// Who this node follows; nobody when it does not know.
        leader: NodeId,
    },
    /// No room in the ring until more is applied.
    Full,
    /// The payload is larger than a slot may be.
    TooLarge {
        /// Bytes of the largest payload.
        max: usize,
    },
}

/// A committed entry, lent to the application for one call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry<'a> {
    /// Its index.
    pub index: Index,
    /// The term of the leader that made it.
    pub term: Term,
    /// Where its slot begins.
    pub position: Position,
    /// What was proposed.
    pub payload: &'a [u8],
}

impl<M: Memory> Replica<M> {
    /// Proposes an entry. It is in the log when [`Event::Committed`] of the ticket's term reaches its index.
    pub fn propose(&mut self, now: Instant, payload: &[u8]) -> Result<Ticket, ProposeError> {
        self.now = self.now.max(now);
        let Some(lead) = self.proposer.leadership() else {
            return Err(ProposeError::NotLeader { leader: self.leader() });
        };
        let (term, behind) = (lead.term, lead.end.index);
        let takes_payload = lead.started && lead.transfer.is_none();
        if slot_len(payload.len()) > self.me.max_entry {
            return Err(ProposeError::TooLarge { max: max_payload(self.me.max_entry) });
        }
        // A leader that takes itself out leaves what comes now to its successor.
        if !takes_payload || !self.configuration.names(self.me.node, self.me.incarnation) {
            return Err(ProposeError::Full);
        }
        match self.proposer.stage(&work!(self), Kind::PAYLOAD, payload) {
            Ok(_) if planted::is(Bug::TicketOfThePad) => Ok(Ticket { term, index: behind.next() }),
            Ok(end) => Ok(Ticket { term, index: end.index }),
            Err(_) => Err(ProposeError::Full),
        }
    }

    /// Begins a read: it is to be answered, or ends without an answer, when [`Event::ReadReady`] or [`Event::ReadFailed`] of its
    /// kind reaches its number. The answer is what the application has then: all that was acknowledged to anybody before
    /// this call.
    pub fn read(&mut self, now: Instant, how: Read) -> Result<ReadTicket, ReadError> {
        self.now = self.now.max(now);
        self.control_due = true;
        match self.proposer.read(&work!(self), how) {
            Err(ReadError::NotLeader { .. }) => Err(ReadError::NotLeader { leader: self.leader() }),
            other => other,
        }
    }

    /// Hands the lead over to another voter. It has worked when [`Event::GaveUp`] says [`GiveUp::Asked`]; until then, or until
    /// [`Event::TransferFailed`], no payload is taken and no read answered by the lease.
    ///
    /// [`GiveUp::Asked`]: crate::event::GiveUp::Asked
    pub fn transfer(&mut self, now: Instant, to: NodeId) -> Result<(), TransferError> {
        self.now = self.now.max(now);
        if self.proposer.role() != Role::Leader {
            return Err(TransferError::NotLeader { leader: self.leader() });
        }
        self.control_due = true;
        self.proposer.transfer(&mut work!(self), to)
    }

    /// Hands the next committed entry to `f` and counts it applied; `false` when there is none.
    ///
    /// The payload is lent from the log area: it is final, and stays until `f` returns.
    pub fn apply(&mut self, f: impl FnOnce(Entry<'_>)) -> bool {
        // An acceptor that is apart knows how far its host is, and hands out nothing itself.
        if self.half == Half::Acceptor {
            return false;
        }
        let anchor = self.acceptor.walker().anchor().position;
        for _ in 0..MAX_SKIPS {
            if self.applied.position >= anchor || self.stuck || self.is_application_away() {
                return false;
            }
            let valid = match peek(&self.areas.log, self.me.ring_len, &self.applied) {
                Ok(valid) if valid.next.position <= anchor => valid,
                _ => return self.get_stuck(mark::Applier::StuckInvalid),
            };
            match valid.kind {
                Kind::PAYLOAD => {
                    let at = entry::offset(self.me.ring_len, self.applied.position) + entry::HEADER_LEN;
                    f(Entry {
                        index: valid.next.index,
                        term: valid.term,
                        position: self.applied.position,
                        payload: self.areas.log.lend(at, valid.len as usize),
                    });
                    mark(mark::Applier::Applied);
                    self.applied = valid.next;
                    return true;
                }
                Kind::CONFIG => {
                    mark(mark::Applier::SkippedConfig);
                    self.applied = valid.next;
                }
                Kind::NO_OP => {
                    mark(mark::Applier::SkippedNoOp);
                    self.applied = valid.next;
                }
                Kind::PAD => {
                    mark(mark::Applier::SkippedPad);
                    self.applied = valid.next;
                }
                // Made by a newer version: it is kept and passed on, and nothing behind it is applied here.
                _ => return self.get_stuck(mark::Applier::StuckUnknown),
            }
        }
        false
    }

    pub(super) fn get_stuck(&mut self, why: mark::Applier) -> bool {
        mark(why);
        self.stuck = true;
        self.events.push(Event::Stuck { position: self.applied.position });
        false
    }
}
