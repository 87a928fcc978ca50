//! Invariant 6: an acknowledged proposal is applied exactly once, everywhere, in order. That is what a client is promised.
//!
//! Checked at the log: what is acknowledged stands committed at the acknowledged index, no payload stands there more
//! often than a leader took it, and every application gets exactly the history (`points`).

use ringleader_core::entry::Kind;
use ringleader_core::types::{Index, Term};

use super::Violation;
use crate::client::{Client, Proposal};
use crate::history::{Committed, History};

/// A leader acknowledges a proposal.
pub fn check(
    history: &History,
    number: u64,
    proposal: &Proposal,
    term: Term,
    index: Index,
) -> Result<(), Violation> {
    let entry = history.at(index);
    if entry.is_none_or(|entry| entry.term != term || entry.payload != proposal.hash) {
        return Err(Violation::new(
            6,
            format!(
                "proposal {number} is acknowledged as entry {index} of term {term}; committed there is {entry:?}"
            ),
        ));
    }
    Ok(())
}

/// An entry got committed.
pub fn committed(client: &mut Client, entry: &Committed) -> Result<(), Violation> {
    if entry.kind != Kind::PAYLOAD {
        return Ok(());
    }
    let Some(proposal) = client.seen_committed(entry.proposal).filter(|known| known.hash == entry.payload)
    else {
        return Err(Violation::new(6, format!("entry {} holds what nobody proposed", entry.index)));
    };
    proposal.committed += 1;
    if proposal.committed > proposal.tries {
        return Err(Violation::new(
            6,
            format!(
                "proposal {} was taken {} times and is committed {} times",
                entry.proposal, proposal.tries, proposal.committed
            ),
        ));
    }
    Ok(())
}
