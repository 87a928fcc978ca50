//! Invariant 1: logs committed up to p hold the same bytes up to p. That is what replication means.

use ringleader_core::types::{LogPoint, NodeId, Position};

use super::Violation;
use crate::fabric::SimArea;
use crate::history::{self, History};
use crate::view::Member;

/// How far each node's log was compared with the one history.
#[derive(Clone, Debug, Default)]
pub struct CommittedPrefixes {
    compared: [Option<LogPoint>; 16],
    /// The furthest end that any log ever had, committed or not: up to there rings may have been written.
    furthest: Position,
}

impl CommittedPrefixes {
    /// A node starts with empty memory.
    pub fn started(&mut self, node: NodeId) {
        self.compared[node.slot()] = None;
    }

    /// Compares what a node has come to know as committed.
    pub fn after_step(&mut self, member: &Member, history: &History, ring_len: u64) -> Result<(), Violation> {
        let start = LogPoint::start(member.seen.group);
        let parts = [Some(member.seen), Some(member.parts.0), member.parts.1];
        self.furthest = parts.iter().flatten().map(|part| part.end).fold(self.furthest, Position::max);
        let compared = self.compared[member.id.slot()].get_or_insert(start);
        let anchor = member.seen.anchor;
        if anchor.position > compared.position {
            *compared = compare(member, &member.home.log, history, ring_len, *compared, anchor.position)?;
        }
        if compared.position == anchor.position && *compared != anchor {
            return Err(Violation::new(
                1,
                format!("node {} has the anchor {anchor:?}, where its log says {compared:?}", member.id),
            ));
        }
        Ok(())
    }

    /// A node's log begins behind a snapshot, at a place of the history.
    pub fn loaded(&mut self, member: &Member, point: LogPoint) {
        self.compared[member.id.slot()] = Some(point);
    }

    /// Up to where a node's log is known to be the history.
    pub fn compared(&self, member: &Member) -> LogPoint {
        self.compared[member.id.slot()].unwrap_or(LogPoint::start(member.seen.group))
    }

    /// The run is over: all that a node's ring still holds of what it knows committed, also what was compared long ago.
    pub fn whole(&self, member: &Member, history: &History, ring_len: u64) -> Result<(), Violation> {
        // A node that was stopped has not raised its base: others may have written over what it has applied, also with what was
        // given up since.
        let end = self.furthest.max(history.end().position).0;
        let from =
            member.seen.base.max(member.seen.start).0.max((end + ring_len / 4).saturating_sub(ring_len));
        let mut at = LogPoint::start(member.seen.group);
        while at.position.0 < from {
            let Some(known) = history.at(at.index.next()) else { return Ok(()) };
            at = known.next;
        }
        compare(member, &member.home.log, history, ring_len, at, member.seen.anchor.position).map(|_| ())
    }
}

/// Compares a log with the history from one place up to another; returns the place reached.
pub fn compare(
    member: &Member,
    area: &SimArea,
    history: &History,
    ring_len: u64,
    from: LogPoint,
    to: Position,
) -> Result<LogPoint, Violation> {
    let mut at = from;
    while at.position < to {
        let Some(known) = history.at(at.index.next()) else { break };
        let entry = history::read(area, ring_len, &at).map_err(|end| {
            Violation::new(
                1,
                format!(
                    "node {} has no valid entry {} at {} ({end:?}), which is committed (term {})",
                    member.id, known.index, at.position, known.term
                ),
            )
        })?;
        if (entry.term, entry.fingerprint) != (known.term, known.fingerprint) {
            return Err(Violation::new(
                1,
                format!(
                    "node {} holds another entry {} at {}: term {}, proposal {}; committed is term {}, proposal {}",
                    member.id,
                    entry.index,
                    at.position,
                    entry.term,
                    entry.proposal,
                    known.term,
                    known.proposal
                ),
            ));
        }
        at = entry.next;
    }
    Ok(at)
}
