//! Invariant 2: a committed entry is in the log of every later leader. Else a leader would overwrite what was acknowledged.

use ringleader_core::types::{Index, LogPoint, NodeId, Term};

use super::Violation;
use super::committed_prefixes::compare;
use crate::history::{self, Committed, History};
use crate::view::Member;

/// Who was elected when.
#[derive(Clone, Debug, Default)]
pub struct LeaderCompleteness {
    elected: Vec<(Term, NodeId, u32)>,
}

impl LeaderCompleteness {
    /// A node was elected: its log must hold all that is committed. `compared` is what was compared of it before.
    pub fn elected(
        &mut self,
        member: &Member,
        term: Term,
        compared: LogPoint,
        history: &History,
        ring_len: u64,
    ) -> Result<(), Violation> {
        self.elected.push((term, member.id, member.life));
        // A leader that was elected late may find entries that a later one has committed: those it need not have.
        let last = (1..=history.len() as u64)
            .rev()
            .filter_map(|index| history.at(Index(index)))
            .find(|entry| entry.by < term);
        let end = last.map_or(compared.position, |entry| entry.next.position);
        compare(member, &member.home.log, history, ring_len, compared, end)
            .map(|_| ())
            .map_err(|found| Violation::new(2, format!("elected in term {term}: {}", found.what)))
    }

    /// An entry got committed, by a leader of term `entry.by` (the entry may be older): leaders of later terms have it already.
    pub fn committed(
        &self,
        entry: &Committed,
        before: &LogPoint,
        members: &[Member],
        ring_len: u64,
    ) -> Result<(), Violation> {
        for (term, id, life) in self.elected.iter().filter(|(term, ..)| *term > entry.by) {
            let Some(leader) = members.iter().find(|m| m.id == *id && m.life == *life && m.alive) else {
                continue;
            };
            let held = history::read(&leader.home.log, ring_len, before);
            if !held.is_ok_and(|held| held.fingerprint == entry.fingerprint) {
                return Err(Violation::new(
                    2,
                    format!(
                        "entry {} of term {} is committed in term {}, and node {id}, leader of term {term}, has not got it ({:?})",
                        entry.index,
                        entry.term,
                        entry.by,
                        held.map(|held| held.term)
                    ),
                ));
            }
        }
        Ok(())
    }
}
