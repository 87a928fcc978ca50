//! Whom the group can lose. A group that loses the memory of a majority has stopped for good: that is as it must be, and
//! nothing is learned from it. So nobody is struck whose loss might come to that, whichever change of the members that is
//! under way comes about.

use std::collections::{BTreeMap, BTreeSet};

use ringleader::{Change, Members};

/// What is known of the members.
#[derive(Clone, Debug, Default)]
pub struct Book {
    /// The newest configuration that is known committed.
    committed: Members,
    /// The newest that any leader had.
    newest: Members,
    /// Changes that were begun and may come about; whether they are still being asked for.
    pending: Vec<(Change, bool)>,
}

impl Book {
    /// A leader says who is in the group.
    pub fn handle_members(&mut self, members: &Members) {
        let place = |members: &Members| (members.term, members.index);
        if place(members) >= place(&self.newest) {
            self.newest = members.clone();
        }
        if members.index == members.committed_index && place(members) >= place(&self.committed) {
            self.committed = members.clone();
            let role = |node: &u8| {
                members.members.iter().find(|member| member.node == *node).map(|member| member.role.as_str())
            };
            self.pending.retain(|(change, is_asked)| {
                let is_made = match change {
                    Change::Promote { node } => role(node) == Some("voter"),
                    Change::Remove { node } => role(node).is_none(),
                    Change::Add { node, .. } | Change::Readmit { node } => role(node).is_some(),
                };
                *is_asked || !is_made
            });
        }
    }

    /// A change is asked for.
    pub fn begin(&mut self, change: &Change) {
        self.pending.push((change.clone(), true));
    }

    /// It is asked for no more. It may come about as long as no leader says that it has, unless that is `out_of_the_question`.
    pub fn end(&mut self, change: &Change, out_of_the_question: bool) {
        let Some(at) = self.pending.iter().position(|pending| *pending == (change.clone(), true)) else {
            return;
        };
        if out_of_the_question {
            self.pending.remove(at);
        } else {
            self.pending[at].1 = false;
        }
    }

    /// The newest configuration that is known committed.
    pub fn committed(&self) -> &Members {
        &self.committed
    }

    /// Whether a node is, or may be, a member.
    pub fn may_be_member(&self, node: u8) -> bool {
        let all = self.committed.members.iter().chain(&self.newest.members);
        all.into_iter().any(|member| member.node == node)
            || self
                .pending
                .iter()
                .any(|(change, _)| matches!(change, Change::Add { node: added, .. } if *added == node))
    }

    /// Whether the group can go on in the end when those nodes lose their memory, and a change is made besides. `lives` are the
    /// lives of the processes that are there.
    pub fn can_lose(
        &self,
        lost: &BTreeSet<u8>,
        change: Option<&Change>,
        lives: &BTreeMap<u8, String>,
    ) -> bool {
        let pending: Vec<&Change> = self.pending.iter().map(|(change, _)| change).chain(change).collect();
        // Each may come about or not; more than a few at a time are too many to think of.
        if self.committed.members.is_empty() || pending.len() > 4 {
            return false;
        }
        [&self.committed, &self.newest].into_iter().all(|members| {
            (0..1_u32 << pending.len()).all(|which| {
                let mut voters: BTreeMap<u8, bool> = members
                    .members
                    .iter()
                    .filter(|member| member.role == "voter")
                    .map(|member| (member.node, lives.get(&member.node) == Some(&member.incarnation)))
                    .collect();
                // A learner may have become a voter since, and counts as one that is lost then.
                voters.extend(lost.iter().map(|node| (*node, false)));
                for (_, change) in pending.iter().enumerate().filter(|(at, _)| which >> at & 1 == 1) {
                    match change {
                        Change::Promote { node } => {
                            let is_there = lives.contains_key(node) && !lost.contains(node);
                            voters.entry(*node).or_insert(is_there);
                        }
                        Change::Remove { node } => drop(voters.remove(node)),
                        Change::Add { .. } | Change::Readmit { .. } => {}
                    }
                }
                2 * voters.values().filter(|is_whole| **is_whole).count() > voters.len()
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use ringleader::members::Member;

    use super::*;

    fn members(index: u64, voters: &[u8]) -> Members {
        let member = |node: &u8| Member {
            node: *node,
            role: "voter".into(),
            incarnation: format!("{node}"),
            ..Member::default()
        };
        Members {
            index,
            committed_index: index,
            members: voters.iter().map(member).collect(),
            ..Members::default()
        }
    }

    fn lives(nodes: &[u8]) -> BTreeMap<u8, String> {
        nodes.iter().map(|node| (*node, node.to_string())).collect()
    }

    fn book(voters: &[u8]) -> Book {
        let mut book = Book::default();
        book.handle_members(&members(1, voters));
        book
    }

    #[test]
    fn of_three_one_can_be_lost_and_of_five_two() {
        let can = |voters: &[u8], there: &[u8], lost: &[u8]| {
            book(voters).can_lose(&lost.iter().copied().collect(), None, &lives(there))
        };
        assert!(can(&[1, 2, 3], &[1, 2, 3], &[2]) && !can(&[1, 2, 3], &[1, 2, 3], &[2, 3]));
        assert!(!can(&[1, 2, 3], &[1, 2], &[2]) && can(&[1, 2, 3], &[1, 2], &[3]));
        assert!(can(&[1, 2, 3, 4, 5], &[1, 2, 3, 4], &[1]) && !can(&[1, 2, 3, 4, 5], &[1, 2, 3], &[1]));
        assert!(!can(&[1, 2], &[1, 2], &[1]) && can(&[1, 2], &[1, 2], &[]));
        assert!(!Book::default().can_lose(&BTreeSet::new(), None, &lives(&[1, 2, 3])));
        let mut reborn = lives(&[1, 2, 3]);
        reborn.insert(3, "another".to_owned());
        assert!(!book(&[1, 2, 3]).can_lose(&BTreeSet::from([1]), None, &reborn));
    }

    #[test]
    fn a_change_that_may_come_about_is_thought_of() {
        let mut book = book(&[1, 2, 3]);
        let remove = Change::Remove { node: 3 };
        let lost = BTreeSet::from([1]);
        assert!(book.can_lose(&lost, None, &lives(&[1, 2, 3])));
        assert!(!book.can_lose(&lost, Some(&remove), &lives(&[1, 2, 3])));
        book.begin(&remove);
        assert!(!book.can_lose(&lost, None, &lives(&[1, 2, 3])));
        book.end(&remove, true);
        assert!(book.can_lose(&lost, None, &lives(&[1, 2, 3])));
        // Made or not known: until the leader says that there are two voters, it is either.
        book.begin(&remove);
        book.end(&remove, false);
        assert!(!book.can_lose(&lost, None, &lives(&[1, 2, 3])));
        book.handle_members(&members(2, &[1, 2]));
        assert!(book.can_lose(&BTreeSet::new(), None, &lives(&[1, 2])));
        book = self::book(&[1, 2, 3]);
        // Who is promoted makes it four, of which one can be lost, but not that one and another.
        book.begin(&Change::Promote { node: 4 });
        assert!(book.can_lose(&lost, None, &lives(&[1, 2, 3, 4])));
        assert!(!book.can_lose(&BTreeSet::from([1, 4]), None, &lives(&[1, 2, 3, 4])));
    }
}
