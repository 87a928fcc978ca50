//! The WRITEs and READs under way on one log queue pair, oldest first: they complete in the order in which they were posted.
//!
//! A ring of fixed size, because every proposal goes through it.

#[cfg(feature = "model")]
use crate::canonical::{Canonical, Space};
use crate::types::{Instant, Position};

/// Requests under way to one follower: entries, beats, and READs that confirm. A power of two.
const MAX_FLIGHTS: usize = 32;

/// A request that has not completed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Flight {
    pub(crate) number: u32,
    pub(crate) posted_at: Instant,
    pub(crate) what: What,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum What {
    /// Bytes from `start` on; when they are there everything before `end` is (a gap behind a pad is skipped).
    Entries {
        start: Position,
        end: Position,
    },
    Beat,
    /// A READ of what was written before it.
    Confirm,
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Flights {
    ring: [Flight; MAX_FLIGHTS],
    /// Counts of all that ever left and ever came; the ones between are under way.
    landed: usize,
    posted: usize,
}

impl Flights {
    pub(crate) fn new() -> Flights {
        let none = Flight { number: 0, posted_at: Instant(0), what: What::Beat };
        Flights { ring: [none; MAX_FLIGHTS], landed: 0, posted: 0 }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.posted.wrapping_sub(self.landed)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn is_full(&self) -> bool {
        self.len() == MAX_FLIGHTS
    }

    /// Room for a beat is kept: it must never wait behind entries.
    #[inline]
    pub(crate) fn has_room_for_entries(&self) -> bool {
        self.len() < MAX_FLIGHTS - 1
    }

    #[inline]
    pub(crate) fn push(&mut self, flight: Flight) {
        assert!(!self.is_full(), "whoever posts has looked for room");
        self.ring[self.posted % MAX_FLIGHTS] = flight;
        self.posted = self.posted.wrapping_add(1);
    }

    #[inline]
    pub(crate) fn oldest(&self) -> Option<&Flight> {
        (!self.is_empty()).then(|| &self.ring[self.landed % MAX_FLIGHTS])
    }

    /// Takes the flight of that number out, if it is the oldest.
    #[inline]
    pub(crate) fn land(&mut self, number: u32) -> Option<Flight> {
        let flight = *self.oldest().filter(|flight| flight.number == number)?;
        self.landed = self.landed.wrapping_add(1);
        Some(flight)
    }

    pub(crate) fn clear(&mut self) {
        self.landed = self.posted;
    }

    /// First source byte that one of them reads.
    pub(crate) fn oldest_source(&self) -> Option<Position> {
        (0..self.len()).find_map(|step| match self.ring[self.landed.wrapping_add(step) % MAX_FLIGHTS].what {
            What::Entries { start, .. } => Some(start),
            What::Beat | What::Confirm => None,
        })
    }
}

#[cfg(feature = "model")]
impl Flights {
    /// What is under way; how much ever was does not matter.
    pub(crate) fn canonical(&self, numbers: Space, out: &mut impl Canonical) {
        out.plain(self.len());
        for step in 0..self.len() {
            let Flight { number, posted_at, what } = self.ring[self.landed.wrapping_add(step) % MAX_FLIGHTS];
            out.count(numbers, u64::from(number));
            out.moment(posted_at);
            out.plain(what);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_oldest_lands_and_the_ring_goes_round() {
        let mut flights = Flights::new();
        let flight = |number, what| Flight { number, posted_at: Instant(0), what };
        for round in 0..100 {
            flights.push(flight(round, What::Beat));
            flights.push(flight(
                round + 1000,
                What::Entries { start: Position(u64::from(round)), end: Position(0) },
            ));
            assert_eq!(flights.oldest_source(), Some(Position(u64::from(round))));
            assert_eq!(flights.land(round + 1000), None);
            assert!(flights.land(round).is_some());
            assert!(flights.land(round + 1000).is_some());
            assert!(flights.is_empty() && flights.oldest_source().is_none());
        }
        (0..MAX_FLIGHTS as u32 - 1).for_each(|number| flights.push(flight(number, What::Beat)));
        assert!(!flights.has_room_for_entries() && !flights.is_full());
        flights.clear();
        assert!(flights.is_empty());
    }
}
