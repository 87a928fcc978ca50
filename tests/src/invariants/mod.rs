//! What must hold in every run (protocol.md, section 14), one file each, checked after every step of any node.
//!
//! 13 and 14 are about what happens in the end, `linearizability` about what clients were told; both are judged when a run is
//! over. Of 9 the half about learners, and all of 7 and 10, wait for learners, reads and journals in the core.

pub mod acknowledged;
pub mod base;
pub mod committed_prefixes;
pub mod incarnations;
pub mod leader_completeness;
pub mod linearizability;
pub mod liveness;
pub mod log_order;
pub mod matched_bytes;
pub mod one_leader;
pub mod points;
pub mod ring_full;
pub mod votes;

use std::fmt;

use ringleader_core::event::Event;
use ringleader_core::types::{Index, NodeId, Position};
use ringleader_core::verb::Verb;

use crate::client::Client;
use crate::fabric::Fabric;
use crate::history::{self, History};
use crate::view::Member;

/// Something that must never happen has happened.
#[derive(Clone, Debug)]
pub struct Violation {
    /// Number of the invariant; 0 when the core gave up on itself (a failed assertion).
    pub invariant: u8,
    /// In words.
    pub what: String,
}

impl Violation {
    /// Of that invariant.
    pub fn new(invariant: u8, what: String) -> Violation {
        Violation { invariant, what }
    }

    /// Whether nothing wrong was done, but the right thing was not done in time.
    pub fn is_liveness(&self) -> bool {
        self.invariant == 13 || self.invariant == 14
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.invariant {
            0 => write!(f, "assertion: {}", self.what),
            number => write!(f, "invariant {number}: {}", self.what),
        }
    }
}

/// All invariants of a run, and the history they compare with.
#[derive(Debug)]
pub struct Watch {
    ring_len: u64,
    ids: Vec<NodeId>,
    group: Option<u128>,
    /// All committed entries.
    pub history: History,
    prefixes: committed_prefixes::CommittedPrefixes,
    completeness: leader_completeness::LeaderCompleteness,
    /// Who led which term.
    pub leaders: one_leader::OneLeader,
    points: points::Points,
    votes: votes::Votes,
    matched: matched_bytes::MatchedBytes,
    base: base::Base,
    incarnations: incarnations::Incarnations,
}

impl Watch {
    /// Over a group of these nodes.
    pub fn new(ids: Vec<NodeId>, ring_len: u64) -> Watch {
        Watch {
            ring_len,
            ids,
            group: None,
            history: History::default(),
            prefixes: Default::default(),
            completeness: Default::default(),
            leaders: Default::default(),
            points: Default::default(),
            votes: Default::default(),
            matched: Default::default(),
            base: Default::default(),
            incarnations: Default::default(),
        }
    }

    /// A node made a step.
    pub fn after_step(
        &mut self,
        node: NodeId,
        members: &[Member],
        fabric: &Fabric,
        client: &mut Client,
    ) -> Result<(), Violation> {
        let member = member(members, node);
        self.incarnations.after_step(member)?;
        if member.life != 1 {
            return Ok(());
        }
        self.votes.after_step(member, fabric, &self.leaders, &self.ids)?;
        self.leaders.after_step(member, fabric, &self.ids)?;
        if !member.seen.formed {
            return Ok(());
        }
        self.same_group(member)?;
        self.points.after_step(member)?;
        self.base.after_step(member)?;
        self.learn(member, members, member.seen.anchor.position, client)?;
        self.prefixes.after_step(member, &self.history, self.ring_len)?;
        self.matched.after_step(
            member,
            members,
            &self.prefixes,
            &self.incarnations,
            &self.history,
            self.ring_len,
        )
    }

    /// A node tells its host something.
    pub fn event(
        &mut self,
        node: NodeId,
        event: &Event,
        members: &[Member],
        client: &mut Client,
    ) -> Result<(), Violation> {
        let member = member(members, node);
        match *event {
            Event::Elected { term } => {
                self.leaders.elected(member, term)?;
                self.incarnations.elected(member, term, members)?;
                let compared = self.prefixes.compared(member);
                self.completeness.elected(member, term, compared, &self.history, self.ring_len)
            }
            Event::GaveUp { .. } => {
                self.leaders.gave_up(node);
                Ok(())
            }
            Event::Behind { node: other } => self.base.left_behind(member, members, other),
            Event::Committed { term, index, position } => {
                self.learn(member, members, position, client)?;
                if self
                    .history
                    .at(index)
                    .is_none_or(|entry| entry.term != term || entry.next.position != position)
                {
                    return Err(Violation::new(
                        5,
                        format!(
                            "node {node} commits entry {index} of its term {term} up to {position}; there stands {:?}",
                            self.history.at(index)
                        ),
                    ));
                }
                let history = &self.history;
                client.committed(node, term, index, |number, proposal, term, index| {
                    acknowledged::check(history, number, proposal, term, index)
                })
            }
            _ => Ok(()),
        }
    }

    /// A node hands an entry to its application.
    pub fn applied(
        &mut self,
        node: NodeId,
        index: Index,
        payload: u64,
        members: &[Member],
    ) -> Result<(), Violation> {
        self.points.applied(member(members, node), index, payload, &self.history)
    }

    /// A node posts a verb.
    pub fn posted(&mut self, node: NodeId, verb: &Verb, members: &[Member]) -> Result<(), Violation> {
        let member = member(members, node);
        self.leaders.posted(member, verb)?;
        self.votes.posted(member, verb)?;
        self.base.posted(member, verb, self.ring_len)
    }

    /// The run is over: what clients were told, and when, must fit the log.
    pub fn end(&self, client: &Client) -> Result<(), Violation> {
        let log: Vec<linearizability::Entry> = (1..=self.history.len() as u64)
            .filter_map(|index| self.history.at(Index(index)))
            .filter(|entry| entry.kind == ringleader_core::entry::Kind::PAYLOAD)
            .map(|entry| linearizability::Entry {
                index: entry.index,
                term: entry.term,
                number: entry.proposal,
            })
            .collect();
        linearizability::judge(client.writes(), &[], &log)
            .map_err(|what| Violation::new(6, format!("no order of operations fits: {what}")))
    }

    /// A node's process is gone.
    pub fn died(&mut self, node: NodeId) {
        self.leaders.gave_up(node);
        self.matched.forget(node);
    }

    /// The last entry a node has handed to its application.
    pub fn last_applied(&self, node: &Member) -> Index {
        self.points.last_applied(node)
    }

    /// The history grows along a node that takes more for committed than anybody before.
    fn learn(
        &mut self,
        member: &Member,
        members: &[Member],
        to: Position,
        client: &mut Client,
    ) -> Result<(), Violation> {
        // A node takes for committed what its own leadership, or the leader it promised to, says is.
        let by = member.seen.promise.term();
        while self.history.end().position < to {
            let at = self.history.end();
            // A leader's newest entries are in its staging ring before they are in its own log.
            let mut entry = history::read(&member.home.log, self.ring_len, &at)
                .or_else(|_| history::read(&member.home.staging, self.ring_len, &at))
                .map_err(|end| {
                    Violation::new(
                        5,
                        format!(
                            "node {} takes all up to {to} for committed, and has no valid entry at {} ({end:?})",
                            member.id, at.position
                        ),
                    )
                })?;
            entry.by = by;
            log_order::check(&at, &entry)?;
            points::held_by_majority(member, &entry, members, self.ring_len)?;
            self.completeness.committed(&entry, &at, members, self.ring_len)?;
            acknowledged::committed(client, &entry)?;
            self.history.push(entry);
        }
        Ok(())
    }

    fn same_group(&mut self, member: &Member) -> Result<(), Violation> {
        match self.group {
            None => {
                self.group = Some(member.seen.group);
                self.history = History::new(member.seen.group);
                Ok(())
            }
            Some(group) if group == member.seen.group => Ok(()),
            Some(group) => Err(Violation::new(
                1,
                format!("node {} is in group {:x}, others in {group:x}", member.id, member.seen.group),
            )),
        }
    }
}

fn member(members: &[Member], node: NodeId) -> &Member {
    members.iter().find(|member| member.id == node).expect("all nodes are members of the run")
}
