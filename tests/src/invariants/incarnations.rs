//! Invariant 9: former incarnations never count (learners: once the core has them). Majorities of lives that have forgotten
//! what they promised, or what they held, are no majorities.
//!
//! Three ways to count: by votes (a leader's majority is of first lives, whose promises were seen), by taking part (who lost
//! its memory promises nothing and writes nothing), and by completions (`matched_bytes` and `points` look for what is
//! matched or committed in the memory of first lives only).

use std::collections::BTreeSet;

use ringleader_core::types::{NodeId, Promise, Term};

use super::Violation;
use crate::view::Member;

/// What acceptors of the group promised in the lives that the configuration names.
#[derive(Clone, Debug, Default)]
pub struct Incarnations {
    promised: BTreeSet<(NodeId, Promise)>,
    last: [Promise; 16],
}

impl Incarnations {
    /// A node stepped.
    pub fn after_step(&mut self, member: &Member) -> Result<(), Violation> {
        let seen = &member.seen;
        if member.life == 1 {
            let last = &mut self.last[member.id.slot()];
            if *last != seen.promise {
                *last = seen.promise;
                self.promised.insert((member.id, seen.promise));
            }
            return Ok(());
        }
        let counts =
            seen.formed || seen.leads || seen.promise != Promise::NONE || seen.writer != NodeId::NOBODY;
        if counts {
            return Err(Violation::new(
                9,
                format!("node {} lost its memory and takes part again (promise {})", member.id, seen.promise),
            ));
        }
        Ok(())
    }

    /// A node was elected: by promises of a majority, all of them of lives that the configuration names.
    pub fn elected(&self, member: &Member, term: Term, members: &[Member]) -> Result<(), Violation> {
        let promise = Promise::new(term, member.id);
        let votes: Vec<u8> = members
            .iter()
            .map(|one| one.id)
            .filter(|id| self.promised.contains(&(*id, promise)))
            .map(|id| id.0)
            .collect();
        if votes.len() * 2 <= members.len() {
            return Err(Violation::new(
                9,
                format!("node {} is elected in term {term} by {votes:?} of {}", member.id, members.len()),
            ));
        }
        Ok(())
    }

    /// The last promise of a node in the life that counts.
    pub fn promise(&self, node: NodeId) -> Promise {
        self.last[node.slot()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::Home;
    use crate::view::Seen;

    fn member(id: u8, life: u32, promise: Promise) -> Member {
        let home = Home::new(512 * 1024);
        let seen = Seen { formed: life == 1, promise, ..Seen::default() };
        Member { id: NodeId(id), life, alive: true, seen, first_home: home.clone(), home }
    }

    #[test]
    fn promises_of_later_lives_make_no_majority() {
        let promise = Promise::new(Term(3), NodeId(1));
        let members = [member(1, 1, promise), member(2, 2, promise), member(3, 1, Promise::NONE)];
        let mut incarnations = Incarnations::default();
        assert!(incarnations.after_step(&members[0]).is_ok());
        assert!(incarnations.after_step(&members[1]).is_err(), "it takes part again");
        assert!(incarnations.elected(&members[0], Term(3), &members).is_err(), "one of three");
        assert!(incarnations.after_step(&member(3, 1, promise)).is_ok());
        assert!(incarnations.elected(&members[0], Term(3), &members).is_ok());
        assert!(incarnations.elected(&members[0], Term(4), &members).is_err());
    }
}
