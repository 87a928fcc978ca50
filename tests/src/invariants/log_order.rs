//! Invariant 4: along a log terms never fall and indexes grow by one. Votes compare (term, index) and nothing else.

use ringleader_core::entry::{self, TAIL_LEN, slot_len};
use ringleader_core::types::LogPoint;

use super::Violation;
use crate::fabric::SimArea;
use crate::history::Committed;

/// Checks an entry against the place it stands at.
pub fn check(before: &LogPoint, entry: &Committed) -> Result<(), Violation> {
    if entry.index != before.index.next() || entry.term < before.term || entry.position != before.position {
        return Err(Violation::new(4, format!("entry {entry:?} follows {before:?}")));
    }
    Ok(())
}

/// Why no valid entry stands at a place, when that is because one was written there that does not follow.
pub fn unfit(area: &SimArea, ring_len: u64, before: &LogPoint) -> Option<Violation> {
    let start = entry::offset(ring_len, before.position);
    let (index, term, len) = (area.load(start), area.load(start + 8), area.load(start + 24) as u32);
    let slot = slot_len(len as usize);
    if slot > ring_len - (before.position.0 & (ring_len - 1)) {
        return None;
    }
    let is_of_this_lap = area.load(start + slot - TAIL_LEN) >> 32 == before.position.0 / entry::SLOT_ALIGN;
    let follows = index == before.index.0 + 1 && term >= before.term.0;
    (is_of_this_lap && !follows)
        .then(|| Violation::new(4, format!("entry {index} of term {term} follows {before:?}")))
}
