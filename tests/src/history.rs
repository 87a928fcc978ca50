//! The one log that all nodes must agree on: every entry that any node ever took for committed, in order.
//!
//! A record of what was seen, kept outside of all nodes. It judges nothing; the invariants do.

use std::sync::atomic::Ordering;

use ringleader_core::entry::{self, End, HEADER_LEN, Kind, Valid};
use ringleader_core::mem::Memory;
use ringleader_core::types::{Index, LogPoint, Position, Term};

use crate::application::Application;
use crate::fabric::{SimArea, fingerprint};

/// A committed entry.
#[derive(Clone, Copy, Debug)]
pub struct Committed {
    /// Its number.
    pub index: Index,
    /// The term of the leader that made it.
    pub term: Term,
    /// What it is.
    pub kind: Kind,
    /// Where it begins.
    pub position: Position,
    /// Bytes of its slot.
    pub slot: u64,
    /// Of all bytes of its slot.
    pub fingerprint: u64,
    /// Of its payload.
    pub payload: u64,
    /// The first word of its payload: the number of the proposal.
    pub proposal: u64,
    /// The place after it.
    pub next: LogPoint,
    /// The term in which it was first taken for committed; its own term when nobody has said yet.
    pub by: Term,
}

/// All committed entries.
#[derive(Clone, Debug, Default)]
pub struct History {
    entries: Vec<Committed>,
    /// What an application is behind each of them.
    states: Vec<Application>,
    end: LogPoint,
}

impl History {
    /// The empty log of a group.
    pub fn new(group: u128) -> History {
        History { end: LogPoint::start(group), ..History::default() }
    }

    /// The entry of that number.
    pub fn at(&self, index: Index) -> Option<&Committed> {
        self.entries.get(usize::try_from(index.0.checked_sub(1)?).ok()?)
    }

    /// The place that stands at a position, and what an application is there.
    pub fn before(&self, position: Position) -> Option<(LogPoint, Application)> {
        let at = self.entries.binary_search_by_key(&position, |entry| entry.next.position).ok()?;
        Some((self.entries[at].next, self.states[at]))
    }

    /// The place after the last.
    pub fn end(&self) -> LogPoint {
        self.end
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// One more.
    pub fn push(&mut self, entry: Committed) {
        self.end = entry.next;
        let mut state = self.states.last().copied().unwrap_or_default();
        if entry.kind == Kind::PAYLOAD {
            state.apply(entry.index, entry.payload);
        }
        self.states.push(state);
        self.entries.push(entry);
    }
}

/// Reads the entry that stands in an area at a place.
pub fn read(area: &SimArea, ring_len: u64, at: &LogPoint) -> Result<Committed, End> {
    let valid: Valid = entry::judge(area, ring_len, at)?;
    let offset = entry::offset(ring_len, at.position);
    Ok(Committed {
        index: valid.next.index,
        term: valid.term,
        kind: valid.kind,
        position: at.position,
        slot: valid.slot,
        fingerprint: fingerprint(area, offset, valid.slot),
        payload: hash_words(words_of(area, offset + HEADER_LEN, valid.len as usize), valid.len as usize),
        proposal: if valid.len >= 8 { area.load(offset + HEADER_LEN) } else { 0 },
        next: valid.next,
        by: valid.term,
    })
}

/// Of a payload, as [`Committed::payload`].
pub fn hash(payload: &[u8]) -> u64 {
    let words = payload.chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    });
    hash_words(words, payload.len())
}

fn words_of(area: &SimArea, offset: u64, len: usize) -> impl Iterator<Item = u64> {
    let start = (offset / 8) as usize;
    let words = &area.memory().words()[start..start + len.div_ceil(8)];
    let rest = len % 8;
    let last = words.len().wrapping_sub(1);
    words.iter().enumerate().map(move |(at, word)| {
        let word = word.load(Ordering::Relaxed);
        if at == last && rest != 0 { word & ((1 << (rest * 8)) - 1) } else { word }
    })
}

fn hash_words(words: impl Iterator<Item = u64>, len: usize) -> u64 {
    words.fold(len as u64, |hash, word| (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(27))
}
