//! When two states are one: a 128-bit hash of a state in canonical form.
//!
//! *Sound*: states with one hash (collisions of 128 bits aside: for 10^8 states less than 10^-22) behave alike.
//! - The values of a counter are numbered anew by their order among all its copies, in all nodes and on all their ways: the
//!   core compares them, and steps the newest. Of epochs it also shows the one before the newest, so whether two
//!   of them are neighbours is kept.
//! - A moment that has been is "now" or "before", and before or behind each moment that others are compared with. A clock
//!   moves in steps as long as every time-out that can fire, and too few of them for those that cannot. What is yet
//!   to come keeps its distance.
//! - CRCs, and versions that nobody compares, follow from the rest and are left out of whole lines. A torn line is hashed
//!   as it stands.
//! - Of the staging area only the ring of a leader is kept: what a WRITE carries and what a READ has brought is part of
//!   that verb, and all else is made anew before it is used again.

use std::hash::{Hash, Hasher};

use ringleader_core::canonical::{
    Canonical, Counter, Space, answer_line, beat_line, progress_line, request_line,
};
use ringleader_core::layout::{LeaderLine, Line};
use ringleader_core::replica::Replica;
use ringleader_core::types::{Instant, NodeId};
use ringleader_core::verb::Class;
use xxhash_rust::xxh3::xxh3_128;

use super::memory::{Holds, Lent, Map, NODES};

/// A part of a state in canonical form, but for the numbers of its counters.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Form {
    plain: u128,
    /// Space in the upper half, value in the lower.
    counts: Box<[u64]>,
}

const VALUE_BITS: u32 = 36;
const VALUES: u64 = (1 << VALUE_BITS) - 1;
/// Counters, of whom, towards whom: two bits are enough for three nodes and nobody.
const SPACES: usize = 16 << 4;

/// Takes a part in.
#[derive(Default, Debug)]
pub struct Sink {
    plain: Vec<u8>,
    counts: Vec<u64>,
    now: u64,
    /// Moments that have been, and where what is said of them goes.
    moments: Vec<(u64, usize)>,
    marks: Vec<u64>,
}

impl Sink {
    /// The form of what was taken in.
    pub fn form(mut self) -> Form {
        self.marks.sort_unstable();
        self.marks.dedup();
        for (at, place) in &self.moments {
            let behind = self.marks.iter().filter(|mark| *mark <= at).count() as u8;
            self.plain[*place] = behind << 1 | u8::from(*at == self.now);
        }
        Form { plain: xxh3_128(&self.plain), counts: self.counts.into() }
    }
}

impl Hasher for Sink {
    fn finish(&self) -> u64 {
        0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.plain.extend_from_slice(bytes);
    }
}

impl Canonical for Sink {
    fn knows(&self, node: NodeId) -> bool {
        node.0 <= NODES
    }

    fn now(&mut self, now: Instant) {
        self.now = now.0;
    }

    fn moment(&mut self, at: Instant) {
        match at.0.checked_sub(self.now).filter(|ahead| *ahead > 0) {
            Some(ahead) => self.plain((1u8, ahead)),
            None => {
                self.moments.push((at.0, self.plain.len()));
                self.plain(0u8);
            }
        }
    }

    fn mark(&mut self, at: Instant) {
        self.marks.push(at.0);
        self.moment(at);
    }

    fn count(&mut self, space: Space, value: u64) {
        assert!(value < 1 << VALUE_BITS, "counters of a model stay small");
        assert!(space.of.0 <= NODES && space.to.0 <= NODES, "a model knows its nodes only");
        let space = (space.counter as u64) << 4 | u64::from(space.of.0) << 2 | u64::from(space.to.0);
        self.counts.push(space << VALUE_BITS | value);
    }
}

/// The form of a replica.
pub fn form_of(replica: &Replica<Lent>) -> Form {
    let mut sink = Sink::default();
    replica.canonical(&mut sink);
    sink.form()
}

/// The form of the memory of `me`. `leads`: its staging ring is in use.
pub fn form_of_words(map: &Map, me: NodeId, leads: bool, words: &[u64]) -> Form {
    let mut sink = Sink::default();
    sink.plain(leads);
    for part in map.parts() {
        let words = &words[part.at..part.at + part.len];
        match part.holds {
            Holds::Plain => sink.plain(words),
            Holds::Leader => put_line(&mut sink, words, leader_line),
            Holds::Progress => put_line(&mut sink, words, |line, sink| progress_line(line, me, sink)),
            Holds::Request(of) => put_line(&mut sink, words, |line, sink| request_line(line, of, me, sink)),
            Holds::Answer(of) => put_line(&mut sink, words, |line, sink| answer_line(line, of, me, sink)),
            Holds::Beat => put_line(&mut sink, words, |line, sink| beat_line(line, me, sink)),
            Holds::StagingRing if leads => sink.plain(words),
            Holds::StagingRing | Holds::OnItsWay => {}
        }
    }
    sink.form()
}

/// What a verb of `me` to `peer` carries.
pub(crate) fn put_carried(sink: &mut Sink, class: Class, me: NodeId, peer: NodeId, words: &[u64]) {
    match class {
        Class::Request => put_line(sink, words, |line, sink| request_line(line, me, peer, sink)),
        Class::Answer => put_line(sink, words, |line, sink| answer_line(line, me, peer, sink)),
        Class::Beat => put_line(sink, words, |line, sink| beat_line(line, peer, sink)),
        Class::Progress => put_line(sink, words, |line, sink| progress_line(line, peer, sink)),
        Class::Leader => put_line(sink, words, leader_line),
        _ => sink.plain(words),
    }
}

/// Nobody looks at its version.
fn leader_line(line: &LeaderLine, sink: &mut Sink) {
    sink.plain((line.term, line.commit, line.commit_index, line.flags));
}

fn put_line<L: Line>(sink: &mut Sink, words: &[u64], whole: impl FnOnce(&L, &mut Sink)) {
    match L::open(words) {
        Some(line) => {
            sink.plain(1u8);
            whole(&line, sink);
        }
        None => {
            sink.plain(0u8);
            sink.plain(words);
        }
    }
}

/// The hash of a state, from the forms of its parts and what else there is.
pub fn hash_of<'a>(forms: impl Iterator<Item = &'a Form>, rest: &[u8]) -> u128 {
    let mut bytes = rest.to_vec();
    let mut counts: Vec<u64> = Vec::with_capacity(512);
    for form in forms {
        bytes.extend_from_slice(&form.plain.to_le_bytes());
        counts.extend_from_slice(&form.counts);
    }
    // Values and their places, space by space.
    let mut ends = [0u16; SPACES];
    counts.iter().for_each(|count| ends[space_of(*count)] += 1);
    let mut sum = 0;
    for end in &mut ends {
        (*end, sum) = (sum, sum + *end);
    }
    let mut sorted = vec![(0u64, 0u16); counts.len()];
    for (count, place) in counts.iter().zip(0..) {
        let end = &mut ends[space_of(*count)];
        sorted[usize::from(*end)] = (count & VALUES, place);
        *end += 1;
    }
    let numbers = bytes.len();
    bytes.resize(numbers + counts.len(), 0);
    let mut start = 0;
    for (space, end) in ends.map(usize::from).into_iter().enumerate() {
        let farthest = if space >> 4 == Counter::Epoch as usize { 2 } else { 1 };
        let values = &mut sorted[start..end];
        values.sort_unstable();
        let (mut before, mut number) = (0, 0);
        for (value, place) in values {
            number += (*value - before).min(farthest) as u8;
            before = *value;
            bytes[numbers + usize::from(*place)] = number;
        }
        start = end;
    }
    xxh3_128(&bytes)
}

fn space_of(count: u64) -> usize {
    (count >> VALUE_BITS) as usize
}

/// Shorthand for a counter of a pair.
pub fn pair(counter: Counter, of: NodeId, to: NodeId) -> Space {
    Space::new(counter, of, to)
}

/// A value of which nothing counts, as bytes.
pub fn bytes_of(value: impl Hash) -> Vec<u8> {
    let mut sink = Sink::default();
    value.hash(&mut sink);
    sink.plain
}
