//! Invariant 11: no source byte changes while a request that reads it is outstanding, and no completion of an older epoch
//! moves `matched`. A commit counts on what `matched` says.
//!
//! Sources are watched by the fabric, which alone knows what is outstanding. Here: whatever a leader takes for matched
//! stands in that follower's log, byte for byte, whatever completion made it think so.

use ringleader_core::entry;
use ringleader_core::types::{LogPoint, NodeId, Position, Promise};

use super::committed_prefixes::CommittedPrefixes;
use super::incarnations::Incarnations;
use super::log_order;
use super::{Violation, newest};
use crate::fabric::same;
use crate::history::{self, History};
use crate::view::Member;

/// Up to where each leader's view of each follower was compared, and under which promise.
#[derive(Clone, Debug)]
pub struct MatchedBytes {
    compared: Vec<(Promise, LogPoint)>,
    /// What was matched when it was looked at last.
    looked_at: Vec<Position>,
}

impl Default for MatchedBytes {
    fn default() -> MatchedBytes {
        MatchedBytes {
            compared: vec![(Promise::NONE, LogPoint::default()); 16 * 16],
            looked_at: vec![Position(0); 16 * 16],
        }
    }
}

impl MatchedBytes {
    /// A leader stepped.
    pub fn after_step(
        &mut self,
        leader: &Member,
        members: &[Member],
        prefixes: &CommittedPrefixes,
        incarnations: &Incarnations,
        history: &History,
        ring_len: u64,
    ) -> Result<(), Violation> {
        if !leader.seen.leads {
            return Ok(());
        }
        // Also those that are dead: what they acknowledged stands in their memory.
        for follower in members {
            let view = leader.seen.followers[follower.id.slot()];
            // A later leader may replace what was matched and never committed.
            let superseded = incarnations.promise(follower.id).term() > leader.seen.leading.term();
            // Of who has started anew since, or is not named any more, nothing is known.
            let same = leader.configuration.names(follower.id, follower.incarnation);
            if !view.in_window || superseded || !same {
                continue;
            }
            let pair = leader.id.slot() * 16 + follower.id.slot();
            let compared = &mut self.compared[pair];
            if compared.0 == leader.seen.leading && self.looked_at[pair] == view.matched {
                continue;
            }
            self.looked_at[pair] = view.matched;
            if compared.0 != leader.seen.leading || compared.1.position > view.matched {
                *compared = (leader.seen.leading, prefixes.compared(follower));
            }
            while compared.1.position < view.matched {
                match step(leader, follower, history, compared.1, ring_len)? {
                    Some(next) => compared.1 = next,
                    None => break,
                }
            }
        }
        Ok(())
    }

    /// A node's log begins anew behind a snapshot: what was compared before says nothing of what is behind it.
    pub fn loaded(&mut self, node: NodeId) {
        for leader in 0..16 {
            self.compared[leader * 16 + node.slot()].0 = Promise::NONE;
        }
    }

    /// A node is gone: nothing of what was compared holds any more.
    pub fn forget(&mut self, node: NodeId) {
        for other in 0..16 {
            self.compared[node.slot() * 16 + other].0 = Promise::NONE;
            self.compared[other * 16 + node.slot()].0 = Promise::NONE;
        }
    }
}

/// Compares one entry, as the leader has it; `None` when only a part of it is matched yet.
fn step(
    leader: &Member,
    follower: &Member,
    history: &History,
    at: LogPoint,
    ring_len: u64,
) -> Result<Option<LogPoint>, Violation> {
    let matched = leader.seen.followers[follower.id.slot()].matched;
    let lost = |why: String| {
        Violation::new(
            11,
            format!(
                "leader {} ({}) takes node {} for matched up to {matched}, which at {} {why}",
                leader.id, leader.seen.leading, follower.id, at.position
            ),
        )
    };
    let offset = entry::offset(ring_len, at.position);
    let log = &follower.home.log;
    // What is committed may have left the leader's ring.
    if let Some(known) = history.at(at.index.next())
        && known.next.position <= matched
        && history::read(log, ring_len, &at).is_ok_and(|entry| entry.fingerprint == known.fingerprint)
    {
        return Ok(Some(known.next));
    }
    let mut why = String::from("continues no entry of the leader's");
    let area = newest(leader, &at, ring_len);
    if let Ok(entry) = history::read(area, ring_len, &at) {
        let len = entry.slot.min(matched.0 - at.position.0);
        if same(log, offset, area, offset, len) {
            return Ok((len == entry.slot).then_some(entry.next));
        }
        why = format!("holds other bytes (entry {}, term {})", entry.index, entry.term);
    }
    Err(log_order::unfit(&leader.home.staging, ring_len, &at).unwrap_or(lost(why)))
}
