//! What there was of everything, in a round and in all of them.

use std::collections::BTreeMap;
use std::fmt;

use crate::record::Record;
use crate::wire::How;

/// Something that is counted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Happened {
    /// Commands.
    Commands,
    /// Attempts at them.
    Attempts,
    /// Attempts that were acknowledged.
    Acknowledged,
    /// Attempts of which nothing is known, or that no leader took.
    Unknown,
    /// Reads by a quorum.
    QuorumReads,
    /// Reads at followers.
    FollowerReads,
    /// Reads by a lease.
    LeaseReads,
    /// Reads that failed, or were asked of the wrong node.
    NotRead,
    /// Processes killed.
    Killed,
    /// Processes told to end.
    Closed,
    /// Processes stopped.
    Stopped,
    /// Stopped processes that others shot.
    Shot,
    /// Processes that ended because they could not fence another in time.
    Fenced,
    /// Processes that took the place of one that was gone.
    Restarted,
    /// Changes of the members, made by order.
    Changed,
    /// Hand-overs of the lead that came about.
    Transferred,
    /// Leaders.
    Leaders,
    /// States of other nodes that were taken, by nodes that had fallen behind and lived on.
    Taken,
    /// Faults for which there was nobody at that moment.
    Passed,
}

const NAMES: [(Happened, &str); 19] = [
    (Happened::Commands, "commands"),
    (Happened::Attempts, "attempts"),
    (Happened::Acknowledged, "acknowledged"),
    (Happened::Unknown, "unknown or refused"),
    (Happened::QuorumReads, "quorum reads"),
    (Happened::FollowerReads, "follower reads"),
    (Happened::LeaseReads, "lease reads"),
    (Happened::NotRead, "reads not answered"),
    (Happened::Killed, "kills"),
    (Happened::Closed, "ends"),
    (Happened::Stopped, "stops"),
    (Happened::Shot, "shot"),
    (Happened::Fenced, "ended for want of a fence"),
    (Happened::Restarted, "restarts"),
    (Happened::Changed, "member changes"),
    (Happened::Transferred, "transfers"),
    (Happened::Leaders, "leaders"),
    (Happened::Taken, "snapshots taken"),
    (Happened::Passed, "faults passed over"),
];

/// See the module.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Counts(BTreeMap<Happened, u64>);

impl Counts {
    /// One more.
    pub fn add(&mut self, what: Happened) {
        self.add_many(what, 1);
    }

    /// So many more.
    pub fn add_many(&mut self, what: Happened, count: usize) {
        *self.0.entry(what).or_default() += count as u64;
    }

    /// How many.
    pub fn of(&self, what: Happened) -> u64 {
        self.0.get(&what).copied().unwrap_or_default()
    }

    /// What clients did.
    pub fn add_record(&mut self, record: &Record) {
        let mut commands: Vec<(u32, u32)> =
            record.attempts.iter().map(|attempt| (attempt.command.client, attempt.command.number)).collect();
        commands.sort_unstable();
        commands.dedup();
        let acknowledged = record.acknowledged();
        self.add_many(Happened::Commands, commands.len());
        self.add_many(Happened::Attempts, record.attempts.len());
        self.add_many(Happened::Acknowledged, acknowledged);
        self.add_many(Happened::Unknown, record.attempts.len() - acknowledged);
        self.add_many(Happened::QuorumReads, record.answered(How::Quorum));
        self.add_many(Happened::FollowerReads, record.answered(How::Follower));
        self.add_many(Happened::LeaseReads, record.answered(How::Lease));
        self.add_many(Happened::NotRead, record.not_read as usize);
    }

    /// All of another.
    pub fn add_all(&mut self, other: &Counts) {
        for (what, count) in &other.0 {
            *self.0.entry(*what).or_default() += count;
        }
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (what, name)) in NAMES.iter().enumerate() {
            write!(f, "{}{} {name}", if at == 0 { "" } else { ", " }, self.of(*what))?;
        }
        Ok(())
    }
}
