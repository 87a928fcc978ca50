//! Invariants 6 and 7 as clients see them: there is one order of all operations that fits what each client was told and when
//! (linearizability; Herlihy and Wing, TOPLAS 1990). It is all that a client can hold against the group.
//!
//! A log is such an order already, so nothing has to be searched for: every proposal that was acknowledged stands in it where
//! it was acknowledged, once; one that ended as unknown may stand there at any later place, or never, and at most once;
//! nothing else stands there; and of two, the one that was acknowledged before the other was proposed comes first. Reads
//! see the log up to some place: all that was acknowledged before them, nothing proposed after their answer, and never less
//! than a read that ended before they began.

use std::collections::BTreeMap;

use ringleader_core::types::{Index, Term};

/// Counts what clients do and are told, in order.
pub type Moment = u64;

/// One try of a client to have a payload committed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Write {
    /// The payload.
    pub number: u64,
    /// The place that a leader gave it, for the case that it gets committed.
    pub ticket: (Term, Index),
    /// When it was proposed.
    pub invoked: Moment,
    /// When it was acknowledged; never, when it ended as unknown.
    pub acknowledged: Option<Moment>,
}

/// One read that was answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Read {
    /// When it was asked.
    pub invoked: Moment,
    /// When it was answered.
    pub answered: Moment,
    /// The last entry whose effect it saw.
    pub saw: Index,
}

/// A payload in the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Where.
    pub index: Index,
    /// Of which leader.
    pub term: Term,
    /// Which.
    pub number: u64,
}

/// Whether the log explains what clients were told; in words what it does not.
pub fn judge(writes: &[Write], reads: &[Read], log: &[Entry]) -> Result<(), String> {
    let mut by_ticket = BTreeMap::new();
    for write in writes {
        if let Some(other) = by_ticket.insert(write.ticket, write) {
            return Err(format!("one place was given to two proposals: {other:?} and {write:?}"));
        }
    }
    // Nothing in the log up to here was proposed later than this.
    let mut latest: Option<&Write> = None;
    let mut last = Index(0);
    let mut found = 0;
    for entry in log {
        if entry.index <= last {
            return Err(format!("{entry:?} stands behind entry {last}"));
        }
        last = entry.index;
        let write = by_ticket.get(&(entry.term, entry.index)).filter(|write| write.number == entry.number);
        let Some(write) = write else { return Err(format!("{entry:?} is what nobody proposed there")) };
        if let Some(before) = latest
            && write.acknowledged.is_some_and(|at| at < before.invoked)
        {
            return Err(format!(
                "{write:?} was acknowledged before {before:?} was proposed, and stands behind it"
            ));
        }
        if latest.is_none_or(|latest| latest.invoked < write.invoked) {
            latest = Some(write);
        }
        found += usize::from(write.acknowledged.is_some());
    }
    if found < writes.iter().filter(|write| write.acknowledged.is_some()).count() {
        let lost = writes.iter().find(|write| {
            write.acknowledged.is_some() && !log.iter().any(|entry| (entry.term, entry.index) == write.ticket)
        });
        return Err(format!("acknowledged, and not in the log: {lost:?}"));
    }
    judge_reads(writes, reads, log)
}

fn judge_reads(writes: &[Write], reads: &[Read], log: &[Entry]) -> Result<(), String> {
    // By the moment at which they were acknowledged, or answered, what must be seen from then on.
    let mut floors: Vec<(Moment, Index)> = writes
        .iter()
        .filter_map(|write| Some((write.acknowledged?, write.ticket.1)))
        .chain(reads.iter().map(|read| (read.answered, read.saw)))
        .collect();
    floors.sort_unstable();
    let mut known = Index(0);
    for (_, index) in &mut floors {
        known = known.max(*index);
        *index = known;
    }
    // By place in the log, when the latest proposal up to there was made.
    let by_ticket: BTreeMap<(Term, Index), Moment> =
        writes.iter().map(|write| (write.ticket, write.invoked)).collect();
    let mut latest = 0;
    let invoked: Vec<(Index, Moment)> = log
        .iter()
        .map(|entry| {
            latest = latest.max(by_ticket.get(&(entry.term, entry.index)).copied().unwrap_or(0));
            (entry.index, latest)
        })
        .collect();
    for read in reads {
        let before = floors.partition_point(|(at, _)| *at < read.invoked);
        if let Some((_, floor)) = before.checked_sub(1).map(|last| floors[last])
            && floor > read.saw
        {
            return Err(format!(
                "{read:?} did not see entry {floor}, which was acknowledged or read before it"
            ));
        }
        let seen = invoked.partition_point(|(index, _)| *index <= read.saw);
        if let Some((index, at)) = seen.checked_sub(1).map(|last| invoked[last])
            && at > read.answered
        {
            return Err(format!(
                "{read:?} saw something up to entry {index} that was proposed later, at {at}"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(number: u64, index: u64, invoked: Moment, acknowledged: Option<Moment>) -> Write {
        Write { number, ticket: (Term(1), Index(index)), invoked, acknowledged }
    }

    fn log(numbers: &[(u64, u64)]) -> Vec<Entry> {
        numbers
            .iter()
            .map(|(index, number)| Entry { index: Index(*index), term: Term(1), number: *number })
            .collect()
    }

    #[test]
    fn what_is_unknown_may_stand_in_the_log_later_or_never() {
        let writes =
            [write(7, 1, 1, Some(2)), write(8, 2, 3, None), write(9, 3, 4, None), write(9, 4, 6, Some(9))];
        assert_eq!(judge(&writes, &[], &log(&[(1, 7), (4, 9)])), Ok(()));
        assert_eq!(judge(&writes, &[], &log(&[(1, 7), (2, 8), (3, 9), (4, 9)])), Ok(()));
    }

    #[test]
    fn proposals_under_way_at_the_same_time_may_stand_in_any_order() {
        let writes = [write(7, 2, 1, Some(5)), write(8, 1, 2, Some(4))];
        assert_eq!(judge(&writes, &[], &log(&[(1, 8), (2, 7)])), Ok(()));
    }

    #[test]
    fn an_acknowledged_proposal_that_is_lost_is_noticed() {
        let writes = [write(7, 1, 1, Some(2)), write(8, 2, 3, Some(4))];
        assert!(judge(&writes, &[], &log(&[(1, 7)])).is_err());
        assert!(judge(&writes, &[], &log(&[(2, 8)])).is_err());
    }

    #[test]
    fn one_that_stands_elsewhere_than_acknowledged_or_twice_is_noticed() {
        let writes = [write(7, 1, 1, Some(2)), write(8, 2, 3, None)];
        assert!(judge(&writes, &[], &log(&[(2, 7)])).is_err());
        assert!(judge(&writes, &[], &log(&[(1, 7), (2, 7)])).is_err());
        assert!(judge(&writes, &[], &log(&[(1, 7), (1, 7)])).is_err());
    }

    #[test]
    fn what_nobody_proposed_is_noticed() {
        assert!(judge(&[write(7, 1, 1, None)], &[], &log(&[(1, 9)])).is_err());
        assert!(judge(&[], &[], &log(&[(1, 7)])).is_err());
    }

    #[test]
    fn one_place_for_two_proposals_is_noticed() {
        assert!(judge(&[write(7, 1, 1, None), write(8, 1, 2, None)], &[], &[]).is_err());
    }

    /// Across leaders: the unknown proposal of a former one must not slip in before what its client had finished.
    #[test]
    fn a_later_proposal_that_stands_before_an_acknowledged_one_is_noticed() {
        let writes = [write(7, 2, 1, Some(2)), write(8, 1, 3, Some(4))];
        assert!(judge(&writes, &[], &log(&[(1, 8), (2, 7)])).is_err());
        let unknown = [write(7, 2, 1, Some(2)), write(8, 1, 3, None)];
        assert!(judge(&unknown, &[], &log(&[(1, 8), (2, 7)])).is_err());
    }

    #[test]
    fn reads_see_what_was_acknowledged_and_nothing_from_the_future() {
        let writes = [write(7, 1, 1, Some(2)), write(8, 2, 5, Some(9))];
        let log = log(&[(1, 7), (2, 8)]);
        let read = |invoked, answered, saw| Read { invoked, answered, saw: Index(saw) };
        assert_eq!(judge(&writes, &[read(3, 4, 1), read(6, 7, 1), read(6, 8, 2)], &log), Ok(()));
        assert!(judge(&writes, &[read(3, 4, 0)], &log).is_err(), "stale");
        assert!(judge(&writes, &[read(10, 11, 1)], &log).is_err(), "stale");
        assert!(judge(&writes, &[read(3, 4, 2)], &log).is_err(), "from the future");
        assert!(judge(&writes, &[read(6, 7, 2), read(8, 9, 1)], &log).is_err(), "back in time");
    }
}
