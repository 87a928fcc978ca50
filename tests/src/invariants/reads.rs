//! Invariant 7, as it happens: a read returns the effect of every proposal that was acknowledged before it began, and of all
//! that reads before it have returned. And every read ends in time, if without an answer (9).

use ringleader_core::types::{Index, Instant};

use super::Violation;
use crate::client::OpenRead;

/// A read is answered from a state in which everything up to `saw` is applied.
pub fn answered(read: &OpenRead, saw: Index) -> Result<(), Violation> {
    if saw >= read.must_see {
        return Ok(());
    }
    Err(Violation::new(
        7,
        format!(
            "node {} answers {:?} read {} from entry {saw}, and entry {} was acknowledged before it began",
            read.node, read.ticket.how, read.ticket.number, read.must_see
        ),
    ))
}

/// A node has just looked at its clock and told its host all it had to.
pub fn none_overdue(oldest: Option<&OpenRead>, now: Instant, limit_ns: u64) -> Result<(), Violation> {
    match oldest.filter(|read| now.since(read.asked_at) >= limit_ns) {
        None => Ok(()),
        Some(read) => Err(Violation::new(
            14,
            format!(
                "node {} keeps {:?} read {} waiting for {} us, and its limit is {} us",
                read.node,
                read.ticket.how,
                read.ticket.number,
                now.since(read.asked_at) / 1000,
                limit_ns / 1000
            ),
        )),
    }
}
