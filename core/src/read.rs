//! Reads that wait to be answered: how they are asked for, and why one is not answered (protocol.md 9).
//!
//! Reads of one kind are answered in the order in which they arrived, so a number stands for all before it and no memory is
//! spent on a single one: who asked for which number is for the host to know. What a check is made of stands in
//! `proposer/reads.rs`.

use core::fmt;

#[cfg(feature = "model")]
use crate::canonical::{Canonical, Counter, Space};
use crate::table::Table;
use crate::types::{Index, Instant, NodeId, Position, Promise, Term};

/// So many reads of one kind may wait at a time.
pub const MAX_READS: u64 = 1 << 16;

/// How a read makes sure that it misses nothing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub enum Read {
    /// By the leader: it READs the promises of a majority. Needs no clock.
    #[default]
    Quorum,
    /// By any node: it READs the leader's line and then the promises of a majority. Needs no clock, and no processor but its
    /// own.
    Follower,
    /// By the leader, while the beats that it posted bind a majority: READs nothing. Hangs on clocks, and must be allowed by
    /// [`LeaseReads`].
    Lease,
}

impl Read {
    /// All of them.
    pub const ALL: [Read; 3] = [Read::Quorum, Read::Follower, Read::Lease];
}

/// Lease reads are allowed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LeaseReads {
    /// The rates of any two clocks of the group differ by less than this, in parts per million. Where that is not so, a lease
    /// read may be stale.
    pub clocks_drift_below_ppm: u64,
}

/// A read that waits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ReadTicket {
    /// How it was asked for.
    pub how: Read,
    /// 1, 2, 3, … among those.
    pub number: u64,
}

/// Why a read was not even begun.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ReadError {
    /// This node does not lead, and only a leader can read like this.
    NotLeader {
        /// Who this node follows; nobody when it does not know.
        leader: NodeId,
    },
    /// This node is in no group.
    NotFormed,
    /// Lease reads are not allowed here.
    NoLeaseReads,
    /// [`MAX_READS`] wait already.
    Full,
}

/// Why a read that was begun ends without an answer. It can be asked for again.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum ReadFailure {
    /// The node does not lead any more.
    LostLead,
    /// No leader that has committed anything was found in time.
    NoLeader,
    /// No majority was found in time to be behind the leader (or, for a lease, to be bound to it).
    NoMajority,
    /// What the read must see was not applied in time.
    NotApplied,
}

impl fmt::Display for ReadFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ReadFailure::LostLead => "the lead was lost",
            ReadFailure::NoLeader => "no leader was found in time",
            ReadFailure::NoMajority => "no majority was found in time",
            ReadFailure::NotApplied => "what it must see was not applied in time",
        })
    }
}

/// Where the batch at the head of a queue is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Stage {
    /// There is none.
    Idle,
    /// Waits for the line of a leader that has committed something.
    Looking,
    /// Waits until all up to `commit` is applied; then promises are to be read, all equal to `promise`.
    Following { promise: Promise, commit: Position },
    /// Promises are being read.
    Checking { promise: Promise, commit: Position },
    /// Waits until all up to there is applied; then it is answered.
    Applying { commit: Position },
}

/// Reads of one kind: first those that were answered, then a batch, then those that arrived later.
#[derive(Clone, Debug)]
pub(crate) struct Queue {
    pub(crate) stage: Stage,
    /// The last number given.
    arrived: u64,
    /// The last that is in a batch, or was.
    taken: u64,
    /// The last that has ended.
    ended: u64,
    /// The last that arrived before the clock showed `settled_at`: a later reading was made after it had arrived.
    settled: u64,
    settled_at: Instant,
    /// When the oldest of the batch arrived, and when the oldest behind it did.
    batch_since: Instant,
    rest_since: Instant,
    /// All up to here end without an answer, and were not reported yet.
    failed: Option<(u64, ReadFailure)>,
    /// Of each node the last READ of its progress line that was posted before the check began.
    pub(crate) before: Table<u32>,
    /// The entry that made the configuration which the check asks.
    pub(crate) asks: (Term, Index),
}

impl Queue {
    pub(crate) fn new() -> Queue {
        Queue {
            stage: Stage::Idle,
            arrived: 0,
            taken: 0,
            ended: 0,
            settled: 0,
            settled_at: Instant(0),
            batch_since: Instant(0),
            rest_since: Instant(0),
            failed: None,
            before: Table::from_fn(|_| 0),
            asks: (Term(0), Index(0)),
        }
    }

    /// One more; its number, if there is room.
    pub(crate) fn push(&mut self, now: Instant) -> Option<u64> {
        if self.arrived - self.ended >= MAX_READS {
            return None;
        }
        self.settle(now);
        if self.arrived == self.taken {
            self.rest_since = now;
        }
        self.arrived += 1;
        Some(self.arrived)
    }

    /// A time was read: whatever arrived when the clock showed less arrived before that.
    pub(crate) fn settle(&mut self, now: Instant) {
        if now > self.settled_at {
            self.settled = self.arrived;
            self.settled_at = now;
        }
    }

    /// Some wait that are in no batch, and none is under way.
    pub(crate) fn wants_batch(&self) -> bool {
        self.stage == Stage::Idle && self.arrived > self.taken
    }

    /// Some that arrived before the time at hand was read wait, and no batch is under way.
    pub(crate) fn wants_settled_batch(&self) -> bool {
        self.stage == Stage::Idle && self.settled > self.taken
    }

    /// All that wait are the next batch.
    pub(crate) fn take(&mut self, stage: Stage) {
        self.take_up_to(self.arrived, stage);
    }

    /// Those of them are that arrived before the time at hand was read.
    pub(crate) fn take_settled(&mut self, stage: Stage) {
        self.take_up_to(self.settled, stage);
    }

    fn take_up_to(&mut self, number: u64, stage: Stage) {
        self.taken = number;
        self.batch_since = self.rest_since;
        // Whoever stays arrived at that reading of the clock.
        self.rest_since = self.settled_at;
        self.stage = stage;
    }

    /// A bug to be planted: who arrived meanwhile is served by what was asked before.
    pub(crate) fn join(&mut self) {
        self.taken = self.arrived;
    }

    /// All that wait end without an answer.
    pub(crate) fn fail_all(&mut self, why: ReadFailure) {
        self.stage = Stage::Idle;
        self.taken = self.arrived;
        self.fail_up_to(self.arrived, why);
    }

    fn fail_up_to(&mut self, number: u64, why: ReadFailure) {
        if number > self.ended {
            self.failed = Some((number, why));
        }
    }

    /// What has waited for `limit_ns` ends without an answer. Says whether anything did.
    pub(crate) fn expire(&mut self, now: Instant, limit_ns: u64, behind: ReadFailure) -> bool {
        let why = match self.stage {
            Stage::Idle => behind,
            Stage::Looking => ReadFailure::NoLeader,
            Stage::Checking { .. } => ReadFailure::NoMajority,
            Stage::Following { .. } | Stage::Applying { .. } => ReadFailure::NotApplied,
        };
        let batch = self.stage != Stage::Idle && now.since(self.batch_since) >= limit_ns;
        let rest = self.arrived > self.taken && now.since(self.rest_since) >= limit_ns;
        if rest {
            self.fail_all(why);
        } else if batch {
            self.stage = Stage::Idle;
            self.fail_up_to(self.taken, why);
        }
        batch || rest
    }

    /// What has ended and was not reported: up to which number, and why if without an answer. Nobody can answer while nothing is
    /// `applied`.
    pub(crate) fn poll(&mut self, applied: Option<Position>) -> Option<(u64, Option<ReadFailure>)> {
        if let Some((number, why)) = self.failed.take() {
            self.ended = number;
            return Some((number, Some(why)));
        }
        match self.stage {
            Stage::Applying { commit } if applied.is_some_and(|applied| applied >= commit) => {
                self.stage = Stage::Idle;
                self.ended = self.taken;
                Some((self.taken, None))
            }
            _ => None,
        }
    }
}

#[cfg(feature = "model")]
impl Queue {
    pub(crate) fn canonical(&self, me: NodeId, out: &mut impl Canonical) {
        let Queue {
            stage,
            arrived,
            taken,
            ended,
            settled,
            settled_at,
            batch_since,
            rest_since,
            failed,
            before,
            asks,
        } = self;
        // Numbers only matter by what lies between them.
        out.plain((stage, arrived - ended, taken.saturating_sub(*ended), settled.saturating_sub(*taken)));
        out.plain(failed.map(|(number, why)| (number - ended, why)));
        out.moment(*settled_at);
        if arrived > ended {
            out.moment(*batch_since);
            out.moment(*rest_since);
        }
        if matches!(stage, Stage::Checking { .. }) {
            out.plain(asks);
            before.canonical(out, |node, number, out| {
                out.count(Space::new(Counter::Reading, me, node), u64::from(*number));
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: u64 = 100;

    #[test]
    fn who_arrives_while_a_batch_is_under_way_waits_for_the_next() {
        let mut queue = Queue::new();
        assert_eq!((queue.push(Instant(1)), queue.push(Instant(1))), (Some(1), Some(2)));
        assert!(queue.wants_batch());
        queue.take(Stage::Applying { commit: Position(64) });
        assert_eq!(queue.push(Instant(2)), Some(3));
        assert!(!queue.wants_batch());
        assert_eq!(queue.poll(Some(Position(0))), None);
        assert_eq!(queue.poll(Some(Position(64))), Some((2, None)));
        assert!(queue.wants_batch());
        assert_eq!(queue.poll(Some(Position(64))), None);
    }

    #[test]
    fn only_what_arrived_before_the_clock_was_read_is_settled() {
        let mut queue = Queue::new();
        queue.push(Instant(5));
        assert!(!queue.wants_settled_batch());
        queue.settle(Instant(5));
        assert!(!queue.wants_settled_batch(), "the same reading");
        queue.settle(Instant(6));
        queue.push(Instant(6));
        assert!(queue.wants_settled_batch());
        queue.take_settled(Stage::Applying { commit: Position(0) });
        assert_eq!(queue.poll(Some(Position(0))), Some((1, None)));
        assert!(!queue.wants_settled_batch());
    }

    #[test]
    fn every_read_ends_once_and_in_time() {
        let mut queue = Queue::new();
        queue.push(Instant(1));
        queue.take(Stage::Looking);
        queue.push(Instant(50));
        assert!(!queue.expire(Instant(100), LIMIT, ReadFailure::LostLead));
        assert!(queue.expire(Instant(101), LIMIT, ReadFailure::LostLead));
        assert_eq!(queue.poll(Some(Position(0))), Some((1, Some(ReadFailure::NoLeader))));
        assert!(!queue.expire(Instant(149), LIMIT, ReadFailure::LostLead));
        assert!(queue.expire(Instant(150), LIMIT, ReadFailure::LostLead));
        queue.push(Instant(151));
        queue.fail_all(ReadFailure::LostLead);
        assert_eq!(queue.poll(Some(Position(0))), Some((3, Some(ReadFailure::LostLead))));
        assert_eq!(queue.poll(Some(Position(0))), None);
        queue.fail_all(ReadFailure::LostLead);
        assert_eq!(queue.poll(Some(Position(0))), None);
    }

    #[test]
    fn too_many_are_refused_until_some_have_ended() {
        let mut queue = Queue::new();
        (1..=MAX_READS).for_each(|number| assert_eq!(queue.push(Instant(1)), Some(number)));
        assert_eq!(queue.push(Instant(1)), None);
        queue.fail_all(ReadFailure::LostLead);
        assert_eq!(queue.push(Instant(1)), None, "not before it was said");
        assert!(queue.poll(Some(Position(0))).is_some());
        assert!(queue.push(Instant(1)).is_some());
    }
}
