//! When two states are one: a 128-bit hash of a state in canonical form.
//!
//! *Sound*: states with one hash (collisions of 128 bits aside: for 10^8 states less than 10^-22) behave alike.
//! - A counter's values are numbered anew by their order among all copies of that counter, in all nodes and on all their
//!   ways, with gaps kept as "none", "one", "more". The core only compares them, steps the newest, and looks one
//!   back (an epoch that is being armed).
//! - A moment that has been is numbered by its order among that node's moments. Its clock moves in steps that are as long
//!   as every time-out that can fire, and a node takes too few of them for those that cannot: "now" or "before" decides.
//!   What is yet to come keeps its distance.
//! - CRCs and versions that nobody compares follow from the rest and are left out of whole lines. A torn line is hashed
//!   as it stands.

use std::hash::{Hash, Hasher};

use ringleader_core::canonical::{
    Canonical, Counter, Space, answer_line, beat_line, progress_line, request_line,
};
use ringleader_core::layout::{AnswerLine, BeatLine, LeaderLine, Line, ProgressLine, RequestLine};
use ringleader_core::replica::Replica;
use ringleader_core::types::{Instant, NodeId};
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
    /// Moments that have been, and where their order goes.
    moments: Vec<(u64, usize)>,
}

impl Sink {
    /// The form of what was taken in.
    pub fn form(mut self) -> Form {
        let mut order: Vec<u64> = self.moments.iter().map(|(at, _)| *at).collect();
        order.sort_unstable_by(|a, b| b.cmp(a));
        order.dedup();
        // 0 is now, whether anything happened now or not.
        let first = u8::from(order.first() != Some(&self.now));
        for (at, place) in &self.moments {
            let behind = order.iter().position(|other| other == at).unwrap_or(0);
            self.plain[*place] = first + behind as u8;
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

/// The form of the memory of `me`.
pub fn form_of_words(map: &Map, me: NodeId, words: &[u64]) -> Form {
    let mut sink = Sink::default();
    for part in map.parts() {
        put_part(&mut sink, me, part.holds, &words[part.at..part.at + part.len]);
    }
    sink.form()
}

fn put_part(sink: &mut Sink, me: NodeId, holds: Holds, words: &[u64]) {
    match holds {
        Holds::Plain => sink.plain(words),
        Holds::Leader => put_line(sink, words, |line: &LeaderLine, sink| {
            sink.plain((line.term, line.commit, line.commit_index, line.flags));
        }),
        Holds::OwnProgress => put_line(sink, words, |line, sink| progress_line(line, me, sink)),
        Holds::Progress(of) => {
            put_line(sink, words, |line: &ProgressLine, sink| progress_line(line, of, sink))
        }
        Holds::RequestFrom(of) => put_line(sink, words, |line, sink| request_line(line, of, me, sink)),
        Holds::RequestTo(to) => {
            put_line(sink, words, |line: &RequestLine, sink| request_line(line, me, to, sink));
        }
        Holds::AnswerFrom(of) => put_line(sink, words, |line, sink| answer_line(line, of, me, sink)),
        Holds::AnswerTo(to) => {
            put_line(sink, words, |line: &AnswerLine, sink| answer_line(line, me, to, sink));
        }
        Holds::Beat => put_line(sink, words, |line, sink| beat_line(line, me, sink)),
        Holds::BeatTo(to) => put_line(sink, words, |line: &BeatLine, sink| beat_line(line, to, sink)),
    }
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
    for end in ends.map(usize::from) {
        let values = &mut sorted[start..end];
        values.sort_unstable();
        let (mut before, mut number) = (0, 0);
        for (value, place) in values {
            number += (*value - before).min(2) as u8;
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
