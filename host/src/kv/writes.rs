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

    /// Looks how proposals ended; those that were refused, and are not in the log.
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

    /// Another node's state has taken the place of this one: takes out what is not in it for certain, and what may be. That is all
    /// the rest that has an outcome; the outcomes were there before the state was, but had not to be looked at by now.
    pub(super) fn take_ended(&mut self) -> (Vec<Origin>, Vec<Origin>) {
        let refused = self.poll();
        let polled = self.polled;
        let (ended, rest): (VecDeque<_>, _) =
            self.flights.drain(..).partition(|flight| flight.number < polled);
        self.flights = rest;
        (refused, ended.into_iter().flat_map(|flight| flight.origins).collect())
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lane::lane;
    use crate::lanes::{Lanes, Refusal};
    use crate::shared::Shared;
    use crate::status::Board;
    use crate::sync::AtomicBool;
    use ringleader_core::types::{Index, Term};
    use std::sync::Arc;

    fn writes() -> (Writes, Lanes) {
        let (end, agents) = lane();
        let mut lanes = Lanes::new();
        lanes.add(agents);
        let shared = Shared { closed: AtomicBool::new(false), board: Board::new(), max_payload: 1000 };
        let bounds = Bounds { size: u64::MAX, value: 1000 };
        (Writes::new(Handle::new(end, Arc::new(shared)), 7, bounds), lanes)
    }

    fn propose(writes: &mut Writes, client: u64) {
        assert!(writes.push(&[b"DEL", b"a"], Origin { client, slot: 0, is_heavy: false }));
        assert!(writes.propose());
    }

    fn lead(lanes: &mut Lanes, next: &mut u64) {
        lanes.propose(64, None, |_| {
            *next += 1;
            Ok((Term(1), Index(*next)))
        });
    }

    fn whose(origins: &[Origin]) -> Vec<u64> {
        origins.iter().map(|origin| origin.client).collect()
    }

    #[test]
    fn what_is_before_one_that_is_found_and_still_on_its_way_is_not_in_the_log() {
        let (mut writes, mut lanes) = writes();
        (0..4).for_each(|client| propose(&mut writes, client));
        lead(&mut lanes, &mut 0);
        assert!(writes.poll().is_empty() && writes.any());
        assert!(writes.find(8, 1).origins.is_empty(), "another life's");
        let found = writes.find(7, 0);
        assert_eq!((whose(&found.origins), whose(&found.lost)), (vec![0], vec![]));
        let found = writes.find(7, 2);
        assert_eq!((whose(&found.origins), whose(&found.lost)), (vec![2], vec![1]));
        assert!(writes.is_through(2) && !writes.is_through(3));
        // Once.
        assert!(writes.find(7, 2).origins.is_empty());
    }

    #[test]
    fn what_was_on_its_way_is_in_doubt_and_what_came_after_is_not() {
        let (mut writes, mut lanes) = writes();
        let mut next = 0;
        propose(&mut writes, 1);
        propose(&mut writes, 2);
        lead(&mut lanes, &mut next);
        lanes.gave_up(Term(1));
        propose(&mut writes, 3);
        lead(&mut lanes, &mut next);
        assert_eq!(whose(&writes.poll()), [3], "refused, though this node leads again");
        assert_eq!(writes.doubt(), Some(1));
        assert_eq!(whose(&writes.find(7, 0).origins), [1], "a later leader has it");
        propose(&mut writes, 4);
        lead(&mut lanes, &mut next);
        assert_eq!(whose(&writes.take_doubtful(1)), [2]);
        assert_eq!((writes.doubt(), writes.any()), (None, true));
    }

    /// The outcomes come with the state, and nobody has looked at them.
    #[test]
    fn nobody_knows_what_is_in_a_state_that_took_the_place_of_the_log() {
        let (mut writes, mut lanes) = writes();
        let mut next = 0;
        propose(&mut writes, 1);
        propose(&mut writes, 2);
        lead(&mut lanes, &mut next);
        lanes.committed(Term(1), Index(1));
        propose(&mut writes, 3);
        lanes.gave_up(Term(1));
        lanes.propose(64, None, |_| Err(Refusal::NotLeader(None)));
        let (lost, doubtful) = writes.take_ended();
        assert_eq!((whose(&lost), whose(&doubtful)), (vec![3], vec![1, 2]));
        // What is proposed now is behind that state.
        propose(&mut writes, 4);
        lead(&mut lanes, &mut next);
        let (lost, doubtful) = writes.take_ended();
        assert!(lost.is_empty() && doubtful.is_empty() && writes.any());
    }
}
