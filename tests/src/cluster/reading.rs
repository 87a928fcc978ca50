//! Reads of the run's client, the handing over of a lead, and stopping a node at a chosen place of its loop.
//!
//! A read arrives somewhere in a node's loop, after the loop has read its clock; the node may have been stopped in between, so
//! that the clock at hand is an old one. It is answered when the node's host is told that it may be.

use ringleader_core::event::Event;
use ringleader_core::read::{Read, ReadError};
use ringleader_core::types::{Index, NodeId};
use ringleader_core::verb::{Class, Verb};

use super::{Cluster, Stage, at};
use crate::fabric::node_of;
use crate::invariants::{Violation, reads};

/// Where in its loop a node is to be stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trap {
    /// Behind completions, proposals, and tick.
    AfterInputs,
    /// Behind events and applying.
    AfterEvents,
    /// Behind so many READs of lines, posted while a read waits.
    AfterReads(u32),
    /// Behind so many beats.
    AfterBeats(u32),
    /// Behind all verbs.
    AfterVerbs,
}

impl Cluster {
    /// A client asks a node for a read: it arrives when the node's loop comes to it.
    pub fn ask_read(&mut self, id: NodeId, how: Read) {
        let id = self.proposer(id);
        self.nodes[at(id)].asked.push(how);
    }

    /// A leader is told to hand over; whether it begins to.
    pub fn transfer(&mut self, id: NodeId, to: NodeId) -> bool {
        let id = self.proposer(id);
        if self.is_paused(id) {
            return false;
        }
        let node = &mut self.nodes[at(id)];
        let now = node.clock_read;
        let begun = node.replica.as_mut().map(|replica| replica.transfer(now, to));
        self.note(|| format!("node {id} is told to hand over to {to}: {begun:?}"));
        let begun = begun.is_some_and(|begun| begun.is_ok());
        self.fabric.faults.transfers += u64::from(begun);
        begun
    }

    /// A node is stopped when it comes to that place, until somebody continues it.
    pub fn set_trap(&mut self, id: NodeId, trap: Trap) {
        self.trap = Some((id, trap));
    }

    /// Nobody is stopped who was not yet.
    pub fn clear_trap(&mut self) {
        self.trap = None;
    }

    /// Whether the trap has been sprung, or was never set.
    pub fn trap_is_sprung(&self) -> bool {
        self.trap.is_none()
    }

    pub(super) fn springs_after(&mut self, id: NodeId, stage: Stage) -> bool {
        let sprung = match stage {
            Stage::Inputs => Trap::AfterInputs,
            Stage::Events => Trap::AfterEvents,
            Stage::Verbs => Trap::AfterVerbs,
        };
        if self.trap != Some((id, sprung)) {
            return false;
        }
        self.spring(id);
        true
    }

    /// Whether the node stops behind this verb.
    pub(super) fn springs_on(&mut self, id: NodeId, verb: &Verb) -> bool {
        let class = verb.id().class;
        let (left, next) = match self.trap {
            Some((whom, Trap::AfterReads(left)))
                if whom == id
                    && matches!(class, Class::Progress | Class::Leader)
                    && self.client.waits_at(node_of(id)) =>
            {
                (left, Trap::AfterReads(left - 1))
            }
            Some((whom, Trap::AfterBeats(left))) if whom == id && class == Class::Beat => {
                (left, Trap::AfterBeats(left - 1))
            }
            _ => return false,
        };
        self.trap = Some((id, next));
        if left > 1 {
            return false;
        }
        self.spring(id);
        true
    }

    fn spring(&mut self, id: NodeId) {
        self.trap = None;
        self.fabric.faults.pauses += 1;
        self.pause(id, u64::MAX);
    }

    /// Reads that arrive at this place of a node's loop.
    pub(super) fn arrivals(&mut self, id: NodeId) {
        if !self.proposes(id) {
            return;
        }
        let asked = std::mem::take(&mut self.nodes[at(id)].asked);
        for how in asked {
            self.begin_read(id, how);
        }
        if self.plan.read_ppm > 0 && self.reading && self.rng.chance(self.plan.read_ppm) {
            let how = self.rng.pick(&Read::ALL);
            for _ in 0..1 + self.rng.below(3) {
                self.begin_read(id, how);
            }
        }
    }

    fn begin_read(&mut self, id: NodeId, how: Read) {
        let node = &mut self.nodes[at(id)];
        let now = node.clock_read;
        let Some(replica) = &mut node.replica else { return };
        match replica.read(now, how) {
            Ok(ticket) => {
                self.client.read_begun(node_of(id), ticket, now);
                self.note(|| format!("node {id} is asked for {how:?} read {}", ticket.number));
            }
            Err(ReadError::Full) => panic!("the client asks for far less than may wait"),
            Err(_) => {}
        }
    }

    /// A node told its host what became of reads.
    pub(super) fn read_event(&mut self, id: NodeId, event: &Event) -> Result<(), Violation> {
        let (how, number, saw) = match *event {
            Event::ReadReady { how, number } => {
                let applied =
                    self.nodes[at(id)].replica.as_ref().map(|replica| replica.status().applied.index);
                (how, number, Some(applied.unwrap_or(Index(0))))
            }
            Event::ReadFailed { how, number, .. } => (how, number, None),
            _ => return Ok(()),
        };
        self.client.read_ended(node_of(id), how, number, saw, reads::answered)
    }

    /// Behind its events, a node keeps no read waiting that should have ended.
    pub(super) fn reads_end(&self, id: NodeId) -> Result<(), Violation> {
        let (now, limit) = (self.nodes[at(id)].clock_read, self.plan.timing.read_limit_ns());
        reads::none_overdue(self.client.oldest_read_at(node_of(id)), now, limit)
    }
}
