//! Invariant 14: once faults stop and a majority is connected, a leader is elected and proposals commit within a bound; a
//! stopped or dead minority delays nobody for longer. Else the group would be safe and of no use.

use ringleader_core::types::{Index, NodeId};

use super::ring_full::RingFull;
use super::{Violation, Watch};
use crate::view::Member;

/// What is asked of a group that was healed.
#[derive(Clone, Debug)]
pub struct Liveness {
    /// When it was healed.
    healed_ns: u64,
    bound_ns: u64,
    /// Acknowledgements that were there before.
    acknowledged: u64,
    /// How many more there must be.
    more: u64,
    /// Entries to be applied by all that can, once acknowledgements are enough.
    target: Option<Index>,
    ring_full: RingFull,
}

impl Liveness {
    /// From now on all must get well.
    pub fn new(now_ns: u64, bound_ns: u64, acknowledged: u64, more: u64, refused_as_full: u64) -> Liveness {
        Liveness {
            healed_ns: now_ns,
            bound_ns,
            acknowledged,
            more,
            target: None,
            ring_full: RingFull::new(refused_as_full),
        }
    }

    /// Whether all is well; an error when it is not and should be. `behind` are nodes that need a snapshot.
    pub fn judge(
        &mut self,
        now_ns: u64,
        watch: &Watch,
        members: &[Member],
        can_run: impl Fn(NodeId) -> bool,
        acknowledged: u64,
        refused_as_full: u64,
    ) -> Result<bool, Violation> {
        if self.target.is_none() && acknowledged >= self.acknowledged + self.more {
            let last = (1..=watch.history.len() as u64).rev().map(Index).find(|index| {
                watch
                    .history
                    .at(*index)
                    .is_some_and(|entry| entry.kind == ringleader_core::entry::Kind::PAYLOAD)
            });
            self.target = last;
        }
        let late: Vec<u8> = match self.target {
            Some(target) => members
                .iter()
                .filter(|m| m.belongs() && can_run(m.id) && watch.last_applied(m) < target)
                .map(|m| m.id.0)
                .collect(),
            None => Vec::new(),
        };
        if self.target.is_some() && late.is_empty() {
            return Ok(true);
        }
        let waited = now_ns - self.healed_ns;
        if waited <= self.bound_ns {
            return Ok(false);
        }
        let leaders: Vec<u8> =
            members.iter().filter(|m| m.belongs() && m.seen.leads).map(|m| m.id.0).collect();
        let full = self.ring_full.refused(refused_as_full);
        let progress = acknowledged - self.acknowledged;
        let what = match self.target {
            Some(target) => format!("nodes {late:?} have not applied entry {target}"),
            None => format!("{progress} of {} new proposals are acknowledged", self.more),
        };
        let what = format!("{} us after all faults stopped {what}; leaders {leaders:?}", waited / 1000);
        self.ring_full.judge(refused_as_full, self.target.is_none(), &what)?;
        Err(Violation::new(14, format!("{what}, {full} refused as full")))
    }

    /// Whether the time for it is over.
    pub fn is_over(&self, now_ns: u64) -> bool {
        self.waited_ns(now_ns) > self.bound_ns
    }

    /// How long it has taken up to now.
    pub fn waited_ns(&self, now_ns: u64) -> u64 {
        now_ns - self.healed_ns
    }
}
