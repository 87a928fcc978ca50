//! Invariant 5: `applied <= anchor <= commit <= matched by a majority`, and nothing is applied that is not valid. What is
//! applied cannot be taken back.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ringleader_core::entry;
use ringleader_core::types::{Incarnation, Index, LogPoint, NodeId, Position};

use super::Violation;
use super::configurations::voters;
use crate::application::Application;
use crate::fabric::{SimArea, same};
use crate::history::{Committed, History};
use crate::view::{Member, home_of};

/// The last points of each node, which never fall.
#[derive(Clone, Debug, Default)]
pub struct Points {
    applied: [Position; 16],
    anchor: [Position; 16],
    applied_index: [Index; 16],
    /// How far the application of each life got, or a snapshot that its acceptor has taken for it. What a host that dies loses was
    /// applied all the same: the ring need not hold it.
    applied_by: BTreeMap<(NodeId, Incarnation), Position>,
}

impl Points {
    /// A node starts with empty memory.
    pub fn started(&mut self, node: NodeId, is_alone: bool) {
        self.anchor[node.slot()] = Position(0);
        if !is_alone {
            self.host_started(node, false);
        }
    }

    /// And its application, unless that has kept its state.
    pub fn host_started(&mut self, node: NodeId, resumes: bool) {
        if !resumes {
            self.applied[node.slot()] = Position(0);
            self.applied_index[node.slot()] = Index(0);
        }
    }

    /// A node stepped.
    pub fn after_step(&mut self, member: &Member) -> Result<(), Violation> {
        let seen = &member.seen;
        let slot = member.id.slot();
        let ordered =
            seen.applied <= seen.anchor.position.max(seen.kept) && seen.anchor.position <= seen.commit;
        if !ordered {
            return Err(Violation::new(
                5,
                format!(
                    "node {}: applied {}, anchor {}, commit {} are out of order",
                    member.id, seen.applied, seen.anchor.position, seen.commit
                ),
            ));
        }
        if seen.applied < self.applied[slot] || seen.anchor.position < self.anchor[slot] {
            return Err(Violation::new(5, format!("node {}: applied or anchor fell", member.id)));
        }
        self.applied[slot] = seen.applied;
        self.anchor[slot] = seen.anchor.position;
        let most = self.applied_by.entry((member.id, member.incarnation)).or_default();
        *most = (*most).max(seen.applied).max(seen.start);
        let published = member.parts.0.applied;
        if seen.is_apart && published > *most {
            return Err(Violation::new(
                5,
                format!(
                    "the acceptor of node {} says {published} is applied; no host had more than {most}",
                    member.id
                ),
            ));
        }
        Ok(())
    }

    /// A node hands an entry to its application: the next payload of the history, byte for byte.
    pub fn applied(
        &mut self,
        member: &Member,
        index: Index,
        payload: u64,
        history: &History,
    ) -> Result<(), Violation> {
        let last = &mut self.applied_index[member.id.slot()];
        let next = (last.0 + 1..=index.0).find(|skipped| {
            history.at(Index(*skipped)).is_none_or(|entry| entry.kind == entry::Kind::PAYLOAD)
        });
        let known = history.at(index);
        if next != Some(index.0) || known.is_none_or(|known| known.payload != payload) {
            return Err(Violation::new(
                5,
                format!(
                    "node {} applies entry {index} after entry {last}; next is {next:?}, committed is {known:?}",
                    member.id
                ),
            ));
        }
        *last = index;
        Ok(())
    }

    /// A node's application has become what a snapshot says: exactly what it would be, had it been handed the history up to there.
    /// Returns where that is.
    pub fn loaded(
        &mut self,
        member: &Member,
        state: &Application,
        history: &History,
    ) -> Result<LogPoint, Violation> {
        let applied = member.seen.applied;
        let behind = history.before(applied);
        let Some((point, expected)) = behind.filter(|(_, expected)| expected == state) else {
            return Err(Violation::new(
                5,
                format!(
                    "node {} begins at {applied} with the state {state:?}; the history has {behind:?}",
                    member.id
                ),
            ));
        };
        let last = &mut self.applied_index[member.id.slot()];
        if expected.index < *last {
            return Err(Violation::new(5, format!("node {} had applied entry {last} before", member.id)));
        }
        *last = expected.index;
        Ok(point)
    }

    /// How far the application of a life of a node ever got.
    pub fn applied_by(&self, node: NodeId, life: Incarnation) -> Position {
        self.applied_by.get(&(node, life)).copied().unwrap_or_default()
    }

    /// The last entry a node has handed to its application.
    pub fn last_applied(&self, member: &Member) -> Index {
        self.applied_index[member.id.slot()]
    }
}

/// A node stepped: what it knows committed some leader has committed. A leader tells its host before it tells its followers.
pub fn behind_commit(member: &Member, history: &History) -> Result<(), Violation> {
    let (anchor, commit) = (member.seen.anchor.position, history.end().position);
    if anchor > commit {
        return Err(Violation::new(
            5,
            format!(
                "node {} takes all up to {anchor} for committed; leaders have committed up to {commit}",
                member.id
            ),
        ));
    }
    Ok(())
}

/// An entry got committed: a majority must hold its bytes. `area` is where it was read.
pub fn held_by_majority(
    member: &Member,
    area: &SimArea,
    entry: &Committed,
    members: &[Member],
    ring_len: u64,
) -> Result<(), Violation> {
    let offset = entry::offset(ring_len, entry.position);
    let held = |all: &BTreeSet<(NodeId, Incarnation)>| -> Vec<u8> {
        let holds = |(id, life): &&(NodeId, Incarnation)| {
            home_of(members, *id, *life).is_some_and(|home| same(&home.log, offset, area, offset, entry.slot))
        };
        all.iter().filter(holds).map(|(id, _)| id.0).collect()
    };
    let all = voters(&member.configuration);
    let fits = |all: &BTreeSet<(NodeId, Incarnation)>| held(all).len() * 2 > all.len();
    // A host that is apart may be behind its acceptor.
    let behind = !Arc::ptr_eq(&member.configuration, &member.acceptors) && fits(&voters(&member.acceptors));
    if !fits(&all) && !fits(&voters(&member.former)) && !behind {
        let held = held(&all);
        return Err(Violation::new(
            5,
            format!(
                "node {} takes entry {} of term {} (proposal {}) for committed; of {all:?} only {held:?} hold it",
                member.id, entry.index, entry.term, entry.proposal
            ),
        ));
    }
    Ok(())
}
