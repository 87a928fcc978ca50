//! Invariant 8: no acceptor grants two candidates in a term, nor any before the former writer is fenced, and a refusal
//! changes no state. Majorities of grants are all that keeps two leaders apart.

use std::collections::{BTreeMap, BTreeSet};

use ringleader_core::layout::{AnswerLine, Line, RequestLine, request_kind, verdict};
use ringleader_core::types::{NodeId, Promise, Term};
use ringleader_core::verb::{Class, Verb};

use super::Violation;
use super::one_leader::OneLeader;
use crate::fabric::{Fabric, GateState};
use crate::view::Member;

/// Promises of all acceptors, and what was asked of them.
#[derive(Clone, Debug, Default)]
pub struct Votes {
    promise: [Promise; 16],
    before: [Promise; 16],
    votes: BTreeMap<(NodeId, Term), NodeId>,
    asked: BTreeSet<(NodeId, Promise)>,
    /// Of those, the ones that leaders asked for.
    access: BTreeSet<(NodeId, Promise)>,
    /// Terms of requests, by acceptor, asker and the asker's sequence number.
    terms: BTreeMap<(NodeId, NodeId, u64), Term>,
}

impl Votes {
    /// A node starts with empty memory, in which nothing is promised.
    pub fn started(&mut self, node: NodeId) {
        self.promise[node.slot()] = Promise::NONE;
        self.before[node.slot()] = Promise::NONE;
        self.votes.retain(|(acceptor, _), _| *acceptor != node);
    }

    /// A node stepped.
    pub fn after_step(
        &mut self,
        member: &Member,
        fabric: &Fabric,
        leaders: &OneLeader,
        peers: &[NodeId],
    ) -> Result<(), Violation> {
        let id = member.id;
        let (old, new) = (self.promise[id.slot()], member.seen.promise);
        self.before[id.slot()] = old;
        if old == new {
            return Ok(());
        }
        self.promise[id.slot()] = new;
        if new.term() < old.term() {
            return Err(Violation::new(8, format!("node {id}: its promise fell from {old} to {new}")));
        }
        let of_leader = leaders.leader_of(new.term()) == Some(new.node());
        let first = *self.votes.entry((id, new.term())).or_insert(new.node());
        if first != new.node() && !of_leader {
            return Err(Violation::new(
                8,
                format!("node {id} promised term {} to {first} and {}", new.term(), new.node()),
            ));
        }
        if new.node() != id && !self.asked.contains(&(id, new)) {
            return Err(Violation::new(8, format!("node {id} promised {new}, which nobody asked of it")));
        }
        for peer in peers.iter().filter(|peer| **peer != id) {
            let (state, passed) = fabric.gate_of(id, *peer);
            if state == GateState::Granted || passed > 0 {
                return Err(Violation::new(
                    8,
                    format!(
                        "node {id} promised {new} while node {peer} can write ({state:?}, {passed} on their way)"
                    ),
                ));
            }
        }
        Ok(())
    }

    /// Whether a leader asked that acceptor for that promise.
    pub fn had_access(&self, acceptor: NodeId, promise: Promise) -> bool {
        self.access.contains(&(acceptor, promise))
    }

    /// A node posts a verb: requests are noted, and a refusal must not come with the promise it refuses.
    pub fn posted(&mut self, member: &Member, verb: &Verb) -> Result<(), Violation> {
        let Verb::Write { id, from, .. } = *verb else { return Ok(()) };
        match id.class {
            Class::Request => {
                if let Some(line) = RequestLine::read(&member.home.staging, from)
                    && (line.kind == request_kind::VOTE || line.kind == request_kind::ACCESS)
                {
                    let promise = Promise::new(Term(line.term), member.id);
                    self.asked.insert((id.peer, promise));
                    if line.kind == request_kind::ACCESS {
                        self.access.insert((id.peer, promise));
                    }
                    self.terms.insert((id.peer, member.id, line.sequence), Term(line.term));
                }
            }
            Class::Answer => {
                let Some(line) = AnswerLine::read(&member.answers, from) else { return Ok(()) };
                let refused = matches!(line.verdict, verdict::BEHIND | verdict::LEASE | verdict::OLDER);
                let (old, new) = (self.before[member.id.slot()], self.promise[member.id.slot()]);
                let term = self.terms.get(&(member.id, id.peer, line.sequence));
                if refused && old != new && term.is_some_and(|term| new == Promise::new(*term, id.peer)) {
                    return Err(Violation::new(
                        8,
                        format!(
                            "node {} refused node {}, and yet its promise became {new}",
                            member.id, id.peer
                        ),
                    ));
                }
            }
            _ => {}
        }
        Ok(())
    }
}
