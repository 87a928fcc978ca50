//! Invariant 9: learners, former incarnations and who was removed never count. That rests on what is judged here: voters of two
//! committed configurations in a row differ by at most one life, so that majorities meet; nobody stands or leads as a
//! learner; and a node goes by a configuration only as long as that stands in its log (protocol.md 5 and 10).

use std::collections::BTreeSet;
use std::sync::Arc;

use ringleader_core::entry::{self, Kind};
use ringleader_core::membership::{Configuration, Role};
use ringleader_core::types::{Incarnation, Index, LogPoint, NodeId, Term};

use super::Violation;
use crate::fabric::SimArea;
use crate::history::{self, Committed};
use crate::view::Member;

/// All configurations that were seen.
#[derive(Clone, Debug, Default)]
pub struct Configurations {
    committed: Arc<Configuration>,
    /// By which entry each was made that was ever committed.
    all: Vec<Index>,
    /// Newer ones that were in force somewhere; some of them may be gone.
    newer: Vec<Arc<Configuration>>,
    /// Lives that were members of any.
    named: BTreeSet<(NodeId, Incarnation)>,
    /// Nodes that went by one that their log did not hold when they looked last.
    stale: BTreeSet<NodeId>,
    /// Lives that a committed one took out.
    removed: BTreeSet<(NodeId, Incarnation)>,
}

impl Configurations {
    /// The newest one known committed; without members before the group was formed.
    pub fn committed(&self) -> &Arc<Configuration> {
        &self.committed
    }

    /// All that may be in force anywhere: the newest one committed, and those above it.
    pub fn relevant(&self) -> impl Iterator<Item = &Arc<Configuration>> {
        self.newer.iter().chain([&self.committed])
    }

    /// A node has another configuration in force.
    pub fn in_force(&mut self, configuration: &Arc<Configuration>) {
        if configuration.voters() == 0 {
            return;
        }
        self.named.extend(configuration.members().map(|member| (member.node, member.incarnation)));
        if self.committed.voters() == 0 {
            self.committed = Arc::clone(configuration);
        } else if configuration.index > self.committed.index && !self.newer.contains(configuration) {
            self.newer.push(Arc::clone(configuration));
        }
    }

    /// A configuration entry got committed.
    pub fn learn(
        &mut self,
        entry: &Committed,
        at: &LogPoint,
        area: &SimArea,
        ring_len: u64,
    ) -> Result<(), Violation> {
        if entry.kind != Kind::CONFIG {
            return Ok(());
        }
        let Some(next) = parse(&self.committed, entry, at, area, ring_len) else {
            return Err(Violation::new(9, format!("entry {} is no configuration", entry.index)));
        };
        let (before, after) = (voters(&self.committed), voters(&next));
        if before.symmetric_difference(&after).count() > 1 {
            return Err(Violation::new(
                9,
                format!(
                    "entry {} of term {} makes voters {after:?} of {before:?}: their majorities need not meet",
                    entry.index, entry.term
                ),
            ));
        }
        let (before, after) = (lives(&self.committed), lives(&next));
        if let Some((node, life)) = self.removed.intersection(&after).next() {
            return Err(Violation::new(
                9,
                format!(
                    "entry {} of term {} takes {life:?} of node {node} back, which was removed",
                    entry.index, entry.term
                ),
            ));
        }
        self.removed.extend(before.difference(&after));
        self.newer.retain(|newer| newer.index > next.index);
        self.all.push(next.index);
        self.committed = Arc::new(next);
        Ok(())
    }

    /// A node stepped.
    pub fn stepped(&mut self, member: &Member, ring_len: u64) -> Result<(), Violation> {
        let (seen, configuration) = (&member.seen, &member.acceptors);
        let takes_part = seen.leads || seen.stands;
        let role = member.configuration.member(member.id).map(|one| one.role);
        if takes_part && (member.configuration.voters() == 0 || role.is_some_and(|role| role != Role::Voter))
        {
            return Err(Violation::new(
                9,
                format!("node {} stands or leads as {role:?} ({})", member.id, seen.promise),
            ));
        }
        let counts = seen.formed
            || takes_part && !seen.is_stale
            || seen.promise.0 != 0
            || seen.writer != NodeId::NOBODY;
        if counts && !self.named.contains(&(member.id, member.incarnation)) {
            return Err(Violation::new(
                9,
                format!("node {} lost its memory and takes part again (promise {})", member.id, seen.promise),
            ));
        }
        // Whatever lies below the anchor is known, however the anchor got there.
        let last =
            self.all.iter().rev().find(|index| **index <= seen.anchor.index).copied().unwrap_or_default();
        if seen.formed && configuration.index < last {
            return Err(Violation::new(
                9,
                format!(
                    "node {} goes by the configuration of entry {}, though that of entry {last} is below its anchor",
                    member.id, configuration.index
                ),
            ));
        }
        // A leader was elected by its whole log. (Where it is apart it goes by one of its own, and may be deposed without knowing it yet.)
        let leads = seen.leads && !seen.is_stale && seen.leading == seen.promise;
        if leads && member.configuration.index < last {
            return Err(Violation::new(
                9,
                format!(
                    "node {} leads by the configuration of entry {}, though that of entry {last} is below its anchor",
                    member.id, member.configuration.index
                ),
            ));
        }
        // What a leader goes by stands in its staging ring, and who asks for votes has walked its whole log before.
        let was_stale = self.stale.remove(&member.id);
        if takes_part || configuration.index <= seen.anchor.index {
            return Ok(());
        }
        let mut at = seen.anchor;
        while let Ok(entry) = history::read(&member.home.log, ring_len, &at) {
            if (entry.index, entry.term) == (configuration.index, configuration.term) {
                return Ok(());
            }
            at = entry.next;
        }
        // A log that was written while its node did not run is looked at when no request comes first, and after the fence that
        // a request begins.
        if seen.fencing || !was_stale {
            self.stale.insert(member.id);
            return Ok(());
        }
        Err(Violation::new(
            9,
            format!(
                "node {} goes by the configuration of entry {} of term {}, which its log does not hold",
                member.id, configuration.index, configuration.term
            ),
        ))
    }
}

/// The lives that are members.
fn lives(configuration: &Configuration) -> BTreeSet<(NodeId, Incarnation)> {
    configuration.members().map(|member| (member.node, member.incarnation)).collect()
}

/// The lives that vote.
pub fn voters(configuration: &Configuration) -> BTreeSet<(NodeId, Incarnation)> {
    configuration
        .members()
        .filter(|member| member.role == Role::Voter)
        .map(|member| (member.node, member.incarnation))
        .collect()
}

fn parse(
    of: &Configuration,
    entry: &Committed,
    at: &LogPoint,
    area: &SimArea,
    ring_len: u64,
) -> Option<Configuration> {
    let mut words = [0; Configuration::MAX_PAYLOAD / 8];
    let len = entry::copy_payload(area, ring_len, at, &entry.next, &mut words)?;
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).take(len).collect();
    let (index, term): (Index, Term) = (entry.index, entry.term);
    Configuration::from_payload(of.group, index, term, &bytes)
}
