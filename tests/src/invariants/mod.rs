//! What must hold in every run (protocol.md, section 14), one file each, checked after every step of any node.
//!
//! 13 and 14 are about what happens in the end, `linearizability` about what clients were told; both are judged when a run is
//! over. Of 7 there are two halves, what acceptors owe to reads (`lease`) and what reads owe to clients (`reads`); 10 waits
//! for journals in the core. What proves that they find anything are planted bugs (`make planted`).

pub mod acknowledged;
pub mod base;
pub mod beats;
pub mod committed_prefixes;
pub mod configurations;
pub mod incarnations;
pub mod leader_completeness;
pub mod lease;
pub mod linearizability;
pub mod live_quorum;
pub mod liveness;
pub mod log_order;
pub mod matched_bytes;
pub mod one_leader;
pub mod points;
pub mod reads;
pub mod ring_full;
pub mod room;
pub mod votes;

use std::fmt;
use std::sync::Arc;

use ringleader_core::event::Event;
use ringleader_core::membership::Configuration;
use ringleader_core::types::{Index, LogPoint, NodeId, Position};
use ringleader_core::verb::Verb;

use crate::application::Application;
use crate::client::Client;
use crate::fabric::{Fabric, SimArea};
use crate::history::{self, History};
use crate::schedule::Plan;
use crate::view::{Member, Seen};

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
    room: room::Room,
    lease: lease::Lease,
    live: live_quorum::LiveQuorum,
    incarnations: incarnations::Incarnations,
    /// All configurations that were seen.
    pub configurations: configurations::Configurations,
}

impl Watch {
    /// Over a group of these nodes.
    pub fn new(ids: Vec<NodeId>, plan: &Plan) -> Watch {
        Watch {
            ring_len: plan.ring_len,
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
            room: Default::default(),
            lease: lease::Lease::new(plan),
            live: live_quorum::LiveQuorum::new(plan.timing, plan.stored_quorum),
            incarnations: Default::default(),
            configurations: Default::default(),
        }
    }

    /// A node is about to step, at the beginning of its loop or further on.
    /// `runs`: whether its acceptor does, and whether its proposer does.
    pub fn before_step(&mut self, member: &Member, runs: (bool, bool), begins: bool, now_ns: u64) {
        if begins {
            self.live.runs(member.id, runs, now_ns);
        }
        self.leaders.before_step(member);
        self.lease.look(member, now_ns);
    }

    /// Something landed in a node's beat line.
    pub fn beat_landed(&mut self, member: &Member, now_ns: u64) {
        self.lease.look(member, now_ns);
    }

    /// A node made a step of whatever kind, of which its host may not have been told yet.
    pub fn stepped(&mut self, member: &Member, now_ns: u64) -> Result<(), Violation> {
        self.leaders.wrote(member)?;
        self.configurations.in_force(&member.configuration);
        if !Arc::ptr_eq(&member.configuration, &member.acceptors) {
            self.configurations.in_force(&member.acceptors);
        }
        let (id, votes, leaders) = (member.id, &self.votes, &self.leaders);
        self.lease.after_step(member, now_ns, |promise| {
            votes.had_access(id, promise) || leaders.leader_of(promise.term()) == Some(promise.node())
        })?;
        self.lease.look(member, now_ns);
        Ok(())
    }

    /// A node has looked at its memory, and nobody has written there since.
    pub fn looked(&mut self, member: &Member) -> Result<(), Violation> {
        self.configurations.stepped(member, self.ring_len)
    }

    /// A node starts with empty memory.
    /// `is_alone`: its host is apart.
    pub fn started(&mut self, node: NodeId, is_alone: bool) {
        self.incarnations.started(node);
        self.prefixes.started(node);
        self.points.started(node, is_alone);
        self.votes.started(node);
        self.base.started(node);
        self.lease.started(node);
    }

    /// A host that is apart starts; whether its application has kept its state.
    pub fn host_started(&mut self, node: NodeId, resumes: bool) {
        self.points.host_started(node, resumes);
        self.base.host_started(node);
    }

    /// A node made a step, and has told its host of it.
    pub fn after_step(
        &mut self,
        node: NodeId,
        members: &[Member],
        fabric: &Fabric,
        client: &mut Client,
    ) -> Result<(), Violation> {
        let member = member(members, node);
        self.incarnations.after_step(member);
        self.live.after_step(member, fabric.now_ns())?;
        self.votes.after_step(member, fabric, &self.leaders, &self.ids)?;
        self.leaders.after_step(member, fabric, &self.ids)?;
        if !member.seen.formed {
            return Ok(());
        }
        self.same_group(member)?;
        self.points.after_step(member)?;
        self.base.after_step(member)?;
        beats::after_step(member)?;
        points::behind_commit(member, &self.history)?;
        // A host that is apart reports a commit later than it counts it, and may go by another configuration then.
        let counted = member.seen.is_apart && member.seen.leads;
        let known = if counted { member.seen.commit } else { member.seen.anchor.position };
        self.learn(member, members, known, client)?;
        self.begins_anew(member)?;
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
        now_ns: u64,
        client: &mut Client,
    ) -> Result<(), Violation> {
        let member = member(members, node);
        match *event {
            Event::Elected { term } => {
                self.leaders.elected(member, term)?;
                self.room.elected(member, term, self.ring_len);
                // Its own promise may be of this very step.
                self.incarnations.after_step(member);
                self.incarnations.elected(member, term)?;
                let compared = self.prefixes.compared(member);
                self.completeness.elected(member, term, compared, &self.history, self.ring_len)
            }
            Event::GaveUp { .. } => {
                self.leaders.gave_up(node);
                Ok(())
            }
            Event::Behind { node: other } => self.base.left_behind(member, members, other),
            Event::Committed { term, index, position } => {
                self.live.commits(member, now_ns)?;
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

    /// The log of an acceptor that is apart may have begun anew behind a snapshot.
    fn begins_anew(&mut self, member: &Member) -> Result<(), Violation> {
        let start = member.seen.start;
        if start <= self.prefixes.compared(member).position {
            return Ok(());
        }
        let Some((point, _)) = self.history.before(start) else {
            return Err(Violation::new(
                1,
                format!("node {} begins its log at {start}, where no entry ends", member.id),
            ));
        };
        self.prefixes.loaded(member, point);
        self.matched.loaded(member.id);
        Ok(())
    }

    /// A node's application has become what a snapshot says.
    pub fn loaded(&mut self, node: NodeId, state: &Application, members: &[Member]) -> Result<(), Violation> {
        let member = member(members, node);
        let point = self.points.loaded(member, state, &self.history)?;
        // A host that is apart begins its copy there; the log is as it was.
        if !member.seen.is_apart {
            self.prefixes.loaded(member, point);
            self.matched.loaded(node);
        }
        self.base.loaded(member)
    }

    /// A node posts a verb.
    pub fn posted(&mut self, node: NodeId, verb: &Verb, members: &[Member]) -> Result<(), Violation> {
        let poster = member(members, node);
        self.leaders.posted(poster, verb)?;
        self.votes.posted(poster, verb)?;
        let told = beats::posted(poster, verb)?;
        if let Some(beat) = told {
            let follower = member(members, verb.id().peer);
            let from = self.prefixes.compared(follower);
            beats::holds(poster, follower, &beat, from, &self.history, self.ring_len)?;
        }
        self.base.posted(poster, verb, self.ring_len)?;
        match room::end_of_entries(poster, verb, self.ring_len) {
            Some(end) => {
                let follower = member(members, verb.id().peer);
                let applied = self.points.applied_by(follower.id, follower.incarnation);
                self.room.posted(poster, (follower, applied), end, self.ring_len)
            }
            None => Ok(()),
        }
    }

    /// A leader took a payload, after which it is as `seen`.
    pub fn proposed(
        &self,
        node: NodeId,
        seen: &Seen,
        configuration: &Configuration,
    ) -> Result<(), Violation> {
        let applied = configurations::voters(configuration).into_iter().map(|(id, life)| match id == node {
            true => seen.applied,
            false => self.points.applied_by(id, life),
        });
        self.room.proposed(node, seen, applied.collect(), self.ring_len)
    }

    /// The run is over: all logs must still be the history, and what clients were told, and when, must fit it.
    pub fn end(&self, client: &Client, members: &[Member]) -> Result<(), Violation> {
        for member in members.iter().filter(|member| member.belongs() && member.seen.formed) {
            self.prefixes.whole(member, &self.history, self.ring_len)?;
        }
        let log: Vec<linearizability::Entry> = (1..=self.history.len() as u64)
            .filter_map(|index| self.history.at(Index(index)))
            .filter(|entry| entry.kind == ringleader_core::entry::Kind::PAYLOAD)
            .map(|entry| linearizability::Entry {
                index: entry.index,
                term: entry.term,
                number: entry.proposal,
            })
            .collect();
        linearizability::judge(client.writes(), client.reads(), &log)
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
        let by = if member.seen.leads { member.seen.leading } else { member.seen.promise }.term();
        while self.history.end().position < to {
            let at = self.history.end();
            let area = newest(member, &at, self.ring_len);
            let mut entry = history::read(area, self.ring_len, &at).map_err(|end| {
                let unfit = |area| log_order::unfit(area, self.ring_len, &at);
                let other = unfit(&member.home.log).or_else(|| unfit(&member.home.staging));
                other.unwrap_or(Violation::new(
                    5,
                    format!(
                        "node {} takes all up to {to} for committed, and has no valid entry at {} ({end:?})",
                        member.id, at.position
                    ),
                ))
            })?;
            entry.by = by;
            log_order::check(&at, &entry)?;
            points::held_by_majority(member, area, &entry, members, self.ring_len)?;
            self.completeness.committed(&entry, &at, members, self.ring_len)?;
            acknowledged::committed(client, &entry)?;
            self.configurations.learn(&entry, &at, area, self.ring_len)?;
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

/// Where a node has the entry at a place that it takes for committed: a leader's own are in its staging ring before they are
/// in its own log, where something older may stand; all others are in its log.
pub(crate) fn newest<'a>(member: &'a Member, at: &LogPoint, ring_len: u64) -> &'a SimArea {
    let (log, staging) = (&member.home.log, &member.home.staging);
    match history::read(staging, ring_len, at) {
        Ok(entry) if member.seen.leads && entry.term == member.seen.leading.term() => staging,
        // It gave up in this very step.
        Ok(_) if history::read(log, ring_len, at).is_err() => staging,
        _ => log,
    }
}

fn member(members: &[Member], node: NodeId) -> &Member {
    members.iter().find(|member| member.id == node).expect("all nodes are members of the run")
}
