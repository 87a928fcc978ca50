//! Writes on their way: gathered into entries, proposed, and found again in the log by the number that they have there.
//!
//! Nothing is ever proposed twice. What is on its way when the lead is lost is *in doubt* until a read that a later leader answers has
//! been here: what that leader's log has of it was applied before, and what was not applied by then never will be.

use std::collections::VecDeque;
use std::mem;

use tracing::debug;

use super::batch::{Batch, len_of};
use super::clock::Clock;
use super::execute::Bounds;
use crate::{Handle, Outcome, SubmitError};

/// An entry is proposed when it has come to so many bytes, though there are more commands: this is what travels without an allocation.
const ENTRY_LEN: usize = 64 << 10;
/// Entries on their way: more commands go into the next one meanwhile.
const MAX_FLIGHTS: usize = 64;

/// Whose command it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Origin {
    pub(super) client: u64,
    pub(super) slot: u64,
    /// It is answered with a value.
    pub(super) is_heavy: bool,
}

/// An entry on its way.
#[derive(Debug)]
struct Flight {
    number: u64,
    origins: Vec<Origin>,
    /// The lead was lost.
    in_doubt: bool,
}

/// What the log says of an entry of this node.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Whose commands are in it.
    pub(super) origins: Vec<Origin>,
    /// Those of entries before it, which are not in the log.
    pub(super) lost: Vec<Origin>,
}

/// See the head of this file.
#[derive(Debug)]
pub(super) struct Writes {
    handle: Handle,
    /// This life of this node.
    life: u64,
    bounds: Bounds,
    clock: Clock,
    batch: Batch,
    origins: Vec<Origin>,
    /// By number. The number is that of the handle's ticket.
    flights: VecDeque<Flight>,
    next: u64,
    /// Number of the next outcome.
    polled: u64,
    /// The time of the last entry.
    stamped: i64,
    /// There was no room for the batch.
    is_full: bool,
}

impl Writes {
    pub(super) fn new(handle: Handle, life: u64, bounds: Bounds) -> Writes {
        Writes {
            handle,
            life,
            bounds,
            clock: Clock::new(),
            batch: Batch::new(),
            origins: Vec::new(),
            flights: VecDeque::new(),
            next: 0,
            polled: 0,
            stamped: 0,
            is_full: false,
        }
    }

    /// The time, as this node would put it into an entry.
    pub(super) fn now(&self) -> i64 {
        self.clock.now()
    }

    /// The log has come to this time.
    pub(super) fn pass_time(&mut self, time: i64) {
        self.clock.pass(time);
    }

    /// The longest entry, in bytes.
    pub(super) fn max_entry(&self) -> usize {
        self.handle.max_payload()
    }

    /// Whether anything is on its way.
    pub(super) fn any(&self) -> bool {
        !self.flights.is_empty()
    }

    /// Whether anything waits for room.
    pub(super) fn is_full(&self) -> bool {
        self.is_full
    }

    /// Takes a command in, which fits into an entry; false when there is no room for it now.
    pub(super) fn push(&mut self, args: &[&[u8]], origin: Origin) -> bool {
        if self.batch.len() + len_of(args) > self.max_entry() && !self.propose() {
            return false;
        }
        if self.batch.len() >= ENTRY_LEN && !self.propose() {
            return false;
        }
        self.batch.push(args);
        self.origins.push(origin);
        true
    }

    /// Proposes what has been gathered; false when there was no room, and it stays.
    pub(super) fn propose(&mut self) -> bool {
        self.batch.is_empty() || self.propose_batch()
    }

    /// Proposes an entry so that the log's time passes `end`, unless one on its way will do that.
    pub(super) fn pass(&mut self, end: i64) {
        if !self.any() || self.stamped < end {
            self.propose_batch();
        }
    }

    fn propose_batch(&mut self) -> bool {
        self.is_full = self.flights.len() >= MAX_FLIGHTS;
        if self.is_full {
            return false;
        }
        let time = self.clock.stamp();
        let Bounds { size, value } = self.bounds;
        match self.handle.propose(self.batch.seal(self.life, self.next, time, size, value)) {
            Ok(_) => {}
            Err(SubmitError::Full) => {
                self.is_full = true;
                return false;
            }
            Err(error) => {
                // The node ends: so does this server, and its clients find out by that.
                debug!(%error, "nothing is proposed any more");
                return false;
            }
        }
        self.batch.clear();
        let origins = mem::take(&mut self.origins);
        self.flights.push_back(Flight { number: self.next, origins, in_doubt: false });
        self.next += 1;
        self.stamped = time;
        true
    }

    /// Takes out what was not proposed yet, because this node does not lead any more.
    pub(super) fn take_back(&mut self) -> Vec<Origin> {
        self.batch.clear();
        self.is_full = false;
        mem::take(&mut self.origins)
    }

    /// Looks how proposals ended; those that were refused, and are not in the log. To be called when all that has been applied is
    /// carried out.
    pub(super) fn poll(&mut self) -> Vec<Origin> {
        let mut refused = Vec::new();
        while let Some((ticket, outcome)) = self.handle.poll() {
            self.polled = ticket.0 + 1;
            let Ok(at) = self.flights.binary_search_by_key(&ticket.0, |flight| flight.number) else {
                continue;
            };
            match outcome {
                // It comes to be applied, and is found then.
                Outcome::Committed { .. } => {}
                Outcome::Unknown => self.flights[at].in_doubt = true,
                Outcome::NotLeader { .. } => {
                    refused.extend(self.flights.remove(at).into_iter().flat_map(|flight| flight.origins));
                }
            }
        }
        refused
    }

    /// The last number that is in doubt.
    pub(super) fn doubt(&self) -> Option<u64> {
        self.flights.iter().rev().find(|flight| flight.in_doubt).map(|flight| flight.number)
    }

    /// An entry of this life and number is applied. Numbers are in the log in their order: what is before it on its way is not in the
    /// log.
    pub(super) fn find(&mut self, life: u64, number: u64) -> Found {
        let mut found = Found::default();
        if life != self.life {
            return found;
        }
        while self.flights.front().is_some_and(|flight| flight.number <= number)
            && let Some(flight) = self.flights.pop_front()
        {
            if flight.number == number {
                found.origins = flight.origins;
            } else {
                found.lost.extend(flight.origins);
            }
        }
        found
    }

    /// Takes out what is in doubt, up to this number.
    pub(super) fn take_doubtful(&mut self, up_to: u64) -> Vec<Origin> {
        let (doubtful, rest): (VecDeque<_>, _) =
            self.flights.drain(..).partition(|flight| flight.in_doubt && flight.number <= up_to);
        self.flights = rest;
        doubtful.into_iter().flat_map(|flight| flight.origins).collect()
    }

    /// Another node's state has taken the place of this one: takes out what may be in it, which is everything whose outcome was told.
    pub(super) fn take_ended(&mut self) -> Vec<Origin> {
        let polled = self.polled;
        let (ended, rest): (VecDeque<_>, _) =
            self.flights.drain(..).partition(|flight| flight.number < polled);
        self.flights = rest;
        ended.into_iter().flat_map(|flight| flight.origins).collect()
    }

    /// The number of the last entry that was proposed.
    pub(super) fn last(&self) -> Option<u64> {
        self.next.checked_sub(1)
    }

    /// Whether the entry of that number is on its way no more.
    pub(super) fn is_through(&self, number: u64) -> bool {
        self.flights.front().is_none_or(|flight| flight.number > number)
    }
}
