//! Invariant 3: one leader per term; at most one writer, the local one included, can write a log area. Two writers of one
//! ring would leave bytes that neither of them knows.

use std::collections::BTreeMap;

use ringleader_core::layout::log;
use ringleader_core::types::{NodeId, Term};
use ringleader_core::verb::{Class, Verb};

use super::Violation;
use crate::fabric::{Fabric, GateState};
use crate::view::Member;

/// Who led which term. (That an acceptor's end gets write permission while another has it is seen by the fabric.)
#[derive(Clone, Debug, Default)]
pub struct OneLeader {
    leaders: BTreeMap<Term, NodeId>,
    leads: [Option<Term>; 16],
    /// The beat line in each log area before its node stepped, and whether that node could write it.
    beats: [([u64; 8], bool); 16],
}

impl OneLeader {
    /// A node says that it was elected.
    pub fn elected(&mut self, member: &Member, term: Term) -> Result<(), Violation> {
        let first = *self.leaders.entry(term).or_insert(member.id);
        self.leads[member.id.slot()] = Some(term);
        if first != member.id {
            return Err(Violation::new(3, format!("nodes {first} and {} both lead term {term}", member.id)));
        }
        Ok(())
    }

    /// A node gave up, or died.
    pub fn gave_up(&mut self, node: NodeId) {
        self.leads[node.slot()] = None;
    }

    /// A node stepped: its own account of leading must fit, and it must not write beside another.
    pub fn after_step(&self, member: &Member, fabric: &Fabric, peers: &[NodeId]) -> Result<(), Violation> {
        let seen = &member.seen;
        if seen.leads && !seen.is_untold && self.leaders.get(&seen.leading.term()) != Some(&member.id) {
            return Err(Violation::new(
                3,
                format!(
                    "node {} leads with promise {}, for which it was not elected",
                    member.id, seen.leading
                ),
            ));
        }
        if seen.writer != NodeId::NOBODY && seen.writer != seen.promise.node() {
            return Err(Violation::new(
                3,
                format!("node {} promised {}, and lets node {} write", member.id, seen.promise, seen.writer),
            ));
        }
        if seen.writer == member.id {
            for peer in peers.iter().filter(|peer| **peer != member.id) {
                let (state, passed) = fabric.gate_of(member.id, *peer);
                if state == GateState::Granted || passed > 0 {
                    return Err(Violation::new(
                        3,
                        format!("node {} writes its own log while node {peer} can ({state:?})", member.id),
                    ));
                }
            }
        }
        Ok(())
    }

    /// A node is about to step: what its log area holds now.
    pub fn before_step(&mut self, member: &Member) {
        self.beats[member.id.slot()] = (beat(member), member.seen.writer == member.id);
    }

    /// A node stepped: what it wrote to its own log area, its acceptor let it write.
    pub fn wrote(&self, member: &Member) -> Result<(), Violation> {
        let (before, could) = self.beats[member.id.slot()];
        if !could && member.seen.writer != member.id && before != beat(member) {
            return Err(Violation::new(
                3,
                format!("node {} writes its own log, whose writer is {}", member.id, member.seen.writer),
            ));
        }
        Ok(())
    }

    /// A node posts a verb: only a leader sends entries.
    pub fn posted(&self, member: &Member, verb: &Verb) -> Result<(), Violation> {
        if verb.id().class == Class::Entries && self.leads[member.id.slot()].is_none() {
            return Err(Violation::new(
                3,
                format!("node {} sends entries and does not lead: {verb:?}", member.id),
            ));
        }
        Ok(())
    }

    /// Who led that term.
    pub fn leader_of(&self, term: Term) -> Option<NodeId> {
        self.leaders.get(&term).copied()
    }

    /// How many terms had a leader.
    pub fn count(&self) -> u64 {
        self.leaders.len() as u64
    }
}

fn beat(member: &Member) -> [u64; 8] {
    let mut words = [0; 8];
    member.home.log.read(log::BEAT, &mut words);
    words
}
