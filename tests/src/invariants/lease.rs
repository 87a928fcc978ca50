//! Invariant 7, the acceptors' half: nobody votes within `lease` of a whole beat of the leader it promised to, unless that
//! beat is *yielding* (protocol.md 6, steps 2 and 5). Else a lease read could miss what a successor acknowledged.
//!
//! A lease runs from the moment at which the beat was there to be seen, whether its acceptor's processor ran or not, and
//! whatever has been written over it since.

use ringleader_core::layout::{BeatLine, Line, beat_flags, log};
use ringleader_core::timing::Timing;
use ringleader_core::types::{NodeId, Promise};

use super::Violation;
use crate::schedule::Plan;
use crate::view::Member;

/// The last whole beat in each log area, and since when it stands there.
#[derive(Clone, Debug)]
pub struct Lease {
    lease_ns: u64,
    beats: [Option<(BeatLine, u64)>; 16],
    promise: [Promise; 16],
}

impl Lease {
    /// Of a run's acceptors. Where clocks drift beyond the bound a lease is worth nothing, and nobody promises one (A5).
    pub fn new(plan: &Plan) -> Lease {
        let Timing { lease_ns, drift_ppm, .. } = plan.timing;
        let kept = if plan.drift_ppm <= drift_ppm / 2 { 1_000_000 - drift_ppm } else { 0 };
        Lease { lease_ns: lease_ns * kept / 1_000_000, beats: [None; 16], promise: [Promise::NONE; 16] }
    }

    /// A node starts with empty memory.
    pub fn started(&mut self, node: NodeId) {
        self.beats[node.slot()] = None;
        self.promise[node.slot()] = Promise::NONE;
    }

    /// Something landed there, or a node is about to step, or has just stepped: what stands in its log is there to be seen.
    pub fn look(&mut self, member: &Member, now_ns: u64) {
        let Some(line) = BeatLine::read(&member.home.log, log::BEAT) else { return };
        let last = &mut self.beats[member.id.slot()];
        if last.is_none_or(|(before, _)| before != line) {
            *last = Some((line, now_ns));
        }
    }

    /// A node stepped. `had_access`: its promise may have been asked for by a leader, to whom leases are no bar.
    pub fn after_step(
        &mut self,
        member: &Member,
        now_ns: u64,
        had_access: impl Fn(Promise) -> bool,
    ) -> Result<(), Violation> {
        let promise = &mut self.promise[member.id.slot()];
        let (old, new) = (*promise, member.seen.promise);
        *promise = new;
        if old == new || had_access(new) {
            return Ok(());
        }
        let Some((beat, since_ns)) = self.beats[member.id.slot()] else { return Ok(()) };
        let yielding = beat.flags & beat_flags::YIELDING != 0;
        if beat.leader == old.0 && !yielding && now_ns - since_ns < self.lease_ns {
            return Err(Violation::new(
                7,
                format!(
                    "node {} votes for {new} only {} us after a beat of {old}: its lease is {} us",
                    member.id,
                    (now_ns - since_ns) / 1000,
                    self.lease_ns / 1000
                ),
            ));
        }
        Ok(())
    }
}
