//! Invariant 12: nothing below `base` is served. Bytes below it may be of a later lap, and would be taken for a log.

use ringleader_core::layout::log;
use ringleader_core::types::{NodeId, Position};
use ringleader_core::verb::{Class, Plane, Verb};

use super::Violation;
use crate::view::Member;

/// The last base of each node, which never falls.
#[derive(Clone, Debug, Default)]
pub struct Base {
    base: [Position; 16],
    /// The highest position that was ever sent to each node.
    sent: [Position; 16],
    /// The same when the host of a node, apart from it, last READ its log: nothing else gets into what it serves from.
    copied: [Position; 16],
}

impl Base {
    /// A node starts with empty memory.
    pub fn started(&mut self, node: NodeId) {
        self.base[node.slot()] = Position(0);
        self.sent[node.slot()] = Position(0);
        self.copied[node.slot()] = Position(0);
    }

    /// A host that is apart starts, which serves others from what it READs of its acceptor's log from now on.
    pub fn host_started(&mut self, node: NodeId) {
        self.base[node.slot()] = Position(0);
        self.copied[node.slot()] = Position(0);
    }

    /// A node stepped.
    pub fn after_step(&mut self, member: &Member) -> Result<(), Violation> {
        let last = &mut self.base[member.id.slot()];
        if member.seen.base < *last {
            return Err(Violation::new(
                12,
                format!("node {}: its base fell from {last} to {}", member.id, member.seen.base),
            ));
        }
        *last = member.seen.base;
        Ok(())
    }

    /// A node begins its log behind a snapshot: there is nothing below that it could serve.
    pub fn loaded(&self, member: &Member) -> Result<(), Violation> {
        if member.seen.base < member.seen.applied {
            return Err(Violation::new(
                12,
                format!(
                    "node {} has a log that begins at {}, and would serve from {} on",
                    member.id, member.seen.applied, member.seen.base
                ),
            ));
        }
        Ok(())
    }

    /// A leader leaves a node behind, which costs a snapshot, or everything: it must be below the leader's base.
    pub fn left_behind(&self, leader: &Member, members: &[Member], node: NodeId) -> Result<(), Violation> {
        let Some(left) = members.iter().find(|member| member.id == node && member.belongs()) else {
            return Ok(());
        };
        // One that has promised another since was judged by what it answered before, and may have got there by now.
        let is_led = left.seen.promise == leader.seen.leading;
        if is_led && left.seen.anchor.position >= leader.seen.base {
            return Err(Violation::new(
                12,
                format!(
                    "node {} (base {}) leaves node {node} behind, whose anchor is {}",
                    leader.id, leader.seen.base, left.seen.anchor.position
                ),
            ));
        }
        Ok(())
    }

    /// A leader sends entries: what it sends lies in `[base, end)`, and nobody can have written a later lap over that.
    pub fn posted(&mut self, member: &Member, verb: &Verb, ring_len: u64) -> Result<(), Violation> {
        let own = member.id.slot();
        if let Verb::Pull { plane: Plane::Log, .. } = verb {
            self.copied[own] = self.sent[own];
        }
        let Verb::Write { id, from, to, len, .. } = *verb else { return Ok(()) };
        if id.class != Class::Entries {
            return Ok(());
        }
        let (base, end) = (member.seen.base.0, member.seen.end.0);
        if from != to || to < log::RING || to - log::RING + u64::from(len) > ring_len {
            return Err(Violation::new(
                12,
                format!("node {} sends entries across the ring: {verb:?}", member.id),
            ));
        }
        // The only place in the log that this can be, if it is at or above the base.
        let position = base + ((to - log::RING).wrapping_sub(base) & (ring_len - 1));
        if position + u64::from(len) > end {
            return Err(Violation::new(
                12,
                format!(
                    "node {} sends what is not in its log: offset {}, {len} bytes, with base {base} and end {end}",
                    member.id,
                    to - log::RING
                ),
            ));
        }
        // Whatever was sent to this node while it followed may have landed, also above the end that it found then.
        let sent = if member.seen.is_apart { self.copied[own] } else { self.sent[own] };
        if base + ring_len < sent.0 {
            return Err(Violation::new(
                12,
                format!(
                    "node {} serves from {base} on; up to {sent} was sent to it, which is more than a ring above",
                    member.id
                ),
            ));
        }
        let sent = &mut self.sent[id.peer.slot()];
        *sent = (*sent).max(Position(position + u64::from(len)));
        Ok(())
    }
}
