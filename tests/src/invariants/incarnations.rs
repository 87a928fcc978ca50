//! Invariant 9, by votes: who is elected has promises of a majority of the voters of its configuration, all of the lives that
//! it names. Majorities of lives that have forgotten what they promised are no majorities.
//!
//! By completions `matched_bytes` and `points` judge the same: they look for what is matched or committed in the memory of those
//! lives only.

use std::collections::BTreeSet;

use ringleader_core::types::{Incarnation, NodeId, Promise, Term};

use super::Violation;
use super::configurations::voters;
use crate::view::Member;

/// What acceptors promised in each of their lives.
#[derive(Clone, Debug, Default)]
pub struct Incarnations {
    promised: BTreeSet<(NodeId, Incarnation, Promise)>,
    last: [Promise; 16],
}

impl Incarnations {
    /// A node starts a new life.
    pub fn started(&mut self, node: NodeId) {
        self.last[node.slot()] = Promise::NONE;
    }

    /// A node stepped.
    pub fn after_step(&mut self, member: &Member) {
        let last = &mut self.last[member.id.slot()];
        if *last != member.seen.promise {
            *last = member.seen.promise;
            self.promised.insert((member.id, member.incarnation, member.seen.promise));
        }
    }

    /// A node was elected.
    pub fn elected(&self, member: &Member, term: Term) -> Result<(), Violation> {
        let promise = Promise::new(term, member.id);
        let all = voters(&member.configuration);
        let given = |(id, life): &(NodeId, Incarnation)| self.promised.contains(&(*id, *life, promise));
        let votes: Vec<u8> = all.iter().filter(|one| given(one)).map(|(id, _)| id.0).collect();
        if votes.len() * 2 <= all.len() {
            return Err(Violation::new(
                9,
                format!("node {} is elected in term {term} by {votes:?} of {all:?}", member.id),
            ));
        }
        Ok(())
    }

    /// The last promise of a node in its current life.
    pub fn promise(&self, node: NodeId) -> Promise {
        self.last[node.slot()]
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ringleader_core::membership::{self, Configuration};

    use super::*;

    #[test]
    fn promises_of_other_lives_make_no_majority() {
        let promise = Promise::new(Term(3), NodeId(1));
        let three = (1..=3).map(|id| membership::Member::voter(NodeId(id), Incarnation(1)));
        let configuration = Arc::new(Configuration::formed(1, three));
        let of = |id: u8, life: u64, promise| {
            let mut member = Member::new(NodeId(id), 512 * 1024, 0);
            member.incarnation = Incarnation(life);
            member.configuration = Arc::clone(&configuration);
            member.seen.promise = promise;
            member
        };
        let mut incarnations = Incarnations::default();
        incarnations.after_step(&of(1, 1, promise));
        incarnations.after_step(&of(2, 2, promise));
        assert!(incarnations.elected(&of(1, 1, promise), Term(3)).is_err(), "one of three");
        incarnations.after_step(&of(3, 1, promise));
        assert!(incarnations.elected(&of(1, 1, promise), Term(3)).is_ok());
        assert!(incarnations.elected(&of(1, 1, promise), Term(4)).is_err());
    }
}
