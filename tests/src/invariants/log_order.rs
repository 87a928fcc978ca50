//! Invariant 4: along a log terms never fall and indexes grow by one. Votes compare (term, index) and nothing else.

use ringleader_core::types::LogPoint;

use super::Violation;
use crate::history::Committed;

/// Checks an entry against the place it stands at.
pub fn check(before: &LogPoint, entry: &Committed) -> Result<(), Violation> {
    if entry.index != before.index.next() || entry.term < before.term || entry.position != before.position {
        return Err(Violation::new(4, format!("entry {entry:?} follows {before:?}")));
    }
    Ok(())
}
