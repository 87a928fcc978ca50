//! Invariant 13, before it is too late, and 5: no ring is filled into its reserve, and no slot is overwritten that is not
//! applied (protocol.md 8, Room). A log without room for a first entry could never be left; what is lost is never applied.

use std::collections::BTreeMap;

use ringleader_core::entry::Kind;
use ringleader_core::layout::log;
use ringleader_core::types::{LogPoint, NodeId, Position, Term};
use ringleader_core::verb::{Class, Verb};

use super::Violation;
use crate::history;
use crate::view::{Member, Seen};

/// Where each leader's own entries begin.
#[derive(Clone, Debug, Default)]
pub struct Room {
    starts: BTreeMap<(NodeId, Term), LogPoint>,
}

impl Room {
    /// A node was elected, and has written nothing yet.
    pub fn elected(&mut self, member: &Member, term: Term, ring_len: u64) {
        let mut end = member.seen.anchor;
        while let Ok(entry) = history::read(&member.home.log, ring_len, &end) {
            end = entry.next;
        }
        self.starts.insert((member.id, term), end);
    }

    /// A leader took a payload; its log now ends at `seen.end`. `applied`: of all nodes, as far as they ever got.
    pub fn proposed(
        &self,
        id: NodeId,
        seen: &Seen,
        mut applied: Vec<Position>,
        ring_len: u64,
    ) -> Result<(), Violation> {
        applied.sort_unstable_by(|one, other| other.cmp(one));
        let majority = applied[applied.len() / 2];
        let needed = majority.min(seen.applied);
        if seen.end.0 > needed.0 + ring_len / 2 {
            return Err(Violation::new(
                13,
                format!(
                    "leader {id} takes payload up to {}, more than half a ring above {needed}, up to which it and a \
                     majority have applied",
                    seen.end
                ),
            ));
        }
        Ok(())
    }

    /// A leader sends entries, the last of them ending at `end`.
    pub fn posted(
        &self,
        member: &Member,
        (follower, applied): (&Member, Position),
        end: Position,
        ring_len: u64,
    ) -> Result<(), Violation> {
        if !follower.belongs() {
            return Ok(());
        }
        let brim = applied.0 + ring_len;
        let (from, to) = (member.id, follower.id);
        if end.0 > brim {
            return Err(Violation::new(
                5,
                format!("node {from} overwrites what node {to} has not applied: up to {end}, above {brim}"),
            ));
        }
        if end.0 > brim - ring_len / 8 && end > self.first_end(member, ring_len) {
            return Err(Violation::new(
                13,
                format!(
                    "node {from} fills the ring of node {to} up to {end}: the reserve below {brim} is for others"
                ),
            ));
        }
        Ok(())
    }

    /// Where the first entry of a leader's term ends.
    fn first_end(&self, leader: &Member, ring_len: u64) -> Position {
        let Some(start) = self.starts.get(&(leader.id, leader.seen.leading.term())) else {
            return Position(0);
        };
        let first = |at: &LogPoint| history::read(&leader.home.staging, ring_len, at).ok();
        match first(start) {
            Some(pad) if pad.kind == Kind::PAD => {
                first(&pad.next).map_or(start.position, |entry| entry.next.position)
            }
            Some(entry) => entry.next.position,
            None => start.position,
        }
    }
}

/// Where the last byte of an Entries WRITE stands in the log of who posts it; none for any other verb.
pub fn end_of_entries(member: &Member, verb: &Verb, ring_len: u64) -> Option<Position> {
    let Verb::Write { id, to, len, .. } = *verb else { return None };
    let base = member.seen.base.0;
    let start = base + (to.wrapping_sub(log::RING).wrapping_sub(base) & (ring_len - 1));
    (id.class == Class::Entries).then_some(Position(start + u64::from(len)))
}
