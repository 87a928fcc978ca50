//! All lanes of a node, as the agent serves them: whose turn it is, what is on its way, and in which order it ends.
//!
//! Proposals of all lanes leave for the core in one order, their indexes grow in it, and so one queue of what is on its
//! way is enough: a commit takes from its front. No reply of a lane is ever given before that of an earlier proposal.

use std::collections::VecDeque;

use ringleader_core::types::{Index, Term};

use crate::handle::Outcome;
use crate::lane::{self, AgentEnd, Reply, Take};

/// Why the core took no proposal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refusal {
    /// It does not lead.
    NotLeader(Option<u8>),
    /// There is no room in the log now.
    Full,
}

/// See the head of this file.
#[derive(Debug)]
pub(crate) struct Lanes {
    rows: Vec<Option<Row>>,
    on_the_way: VecDeque<OnTheWay>,
    scratch: Box<[u8; lane::INLINE_MAX]>,
    first: usize,
}

#[derive(Debug)]
struct Row {
    end: AgentEnd,
    /// See [`Reply`].
    life: u32,
    /// Its proposals in `on_the_way`. Never more than there is room for replies.
    on_the_way: usize,
}

#[derive(Clone, Copy, Debug)]
struct OnTheWay {
    term: Term,
    index: Index,
    row: usize,
    life: u32,
}

impl Row {
    fn reply(&mut self, outcome: Outcome, life: u32) {
        if !matches!(outcome, Outcome::Committed { .. }) && life == self.life {
            self.life = self.life.wrapping_add(1);
        }
        self.end.reply(Reply { outcome, life });
    }
}

enum Step {
    Went,
    Refused,
    /// Nothing more of this lane for now.
    Next,
    /// Nothing more of any lane for now.
    Stop,
}

impl Lanes {
    pub(crate) fn new() -> Lanes {
        Lanes { rows: Vec::new(), on_the_way: VecDeque::new(), scratch: lane::scratch(), first: 0 }
    }

    /// Takes a new lane. This is where memory for its proposals is set aside.
    pub(crate) fn add(&mut self, end: AgentEnd) {
        let row = Row { end, life: 0, on_the_way: 0 };
        match self.rows.iter_mut().find(|row| row.is_none()) {
            Some(free) => *free = Some(row),
            None => self.rows.push(Some(row)),
        }
        let wanted = self.rows.len() * lane::WINDOW;
        self.on_the_way.reserve(wanted - self.on_the_way.len());
    }

    /// Hands up to `batch` proposals of each lane to the core; returns how many left their lanes.
    ///
    /// A proposal that finds no room stays at the head of its lane. `leader` is whom to name to those that are refused
    /// without asking the core.
    pub(crate) fn propose(
        &mut self,
        batch: usize,
        leader: Option<u8>,
        mut propose: impl FnMut(&[u8]) -> Result<(Term, Index), Refusal>,
    ) -> usize {
        let mut moved = 0;
        let count = self.rows.len();
        for turn in 0..count {
            let at = (self.first + turn) % count;
            let Some(row) = &mut self.rows[at] else { continue };
            let mut left = batch;
            while left > 0 && row.end.room() > row.on_the_way {
                match step(row, at, &mut self.on_the_way, &mut self.scratch, leader, &mut propose) {
                    Step::Went | Step::Refused => moved += 1,
                    Step::Next => break,
                    Step::Stop => {
                        // Who found no room is first when there is some.
                        self.first = at;
                        return moved;
                    }
                }
                left -= 1;
            }
            if row.on_the_way == 0 && row.end.is_over() {
                self.rows[at] = None;
            }
        }
        if moved > 0 {
            self.first = (self.first + 1) % count;
        }
        moved
    }

    /// Everything of `term` up to `index` is committed; how many that were.
    pub(crate) fn committed(&mut self, term: Term, index: Index) -> u64 {
        let mut count = 0;
        while let Some(front) = self.on_the_way.front().copied()
            && front.term == term
            && front.index <= index
        {
            self.end_front(front, Outcome::Committed { index: front.index.0 });
            count += 1;
        }
        count
    }

    /// The lead of `term` is lost: nobody here knows how its proposals end; how many they are.
    pub(crate) fn gave_up(&mut self, term: Term) -> u64 {
        let mut count = 0;
        while let Some(front) = self.on_the_way.front().copied()
            && front.term <= term
        {
            self.end_front(front, Outcome::Unknown);
            count += 1;
        }
        count
    }

    /// The agent ends: what is on its way ends unknown, what waits was never proposed.
    pub(crate) fn close(mut self) {
        self.gave_up(Term::MAX);
        self.propose(usize::MAX, None, |_| Err(Refusal::NotLeader(None)));
    }

    fn end_front(&mut self, front: OnTheWay, outcome: Outcome) {
        self.on_the_way.pop_front();
        let row =
            self.rows[front.row].as_mut().expect("a lane stays as long as something of it is on its way");
        row.on_the_way -= 1;
        row.reply(outcome, front.life);
    }
}

/// One proposal of one lane.
fn step(
    row: &mut Row,
    at: usize,
    on_the_way: &mut VecDeque<OnTheWay>,
    scratch: &mut [u8; lane::INLINE_MAX],
    leader: Option<u8>,
    propose: &mut impl FnMut(&[u8]) -> Result<(Term, Index), Refusal>,
) -> Step {
    let (current, waiting) = (row.life, row.on_the_way);
    let refused = |leader| Outcome::NotLeader { leader };
    let taken = row.end.head(scratch, |payload, life| {
        if life != current {
            return Take::Taken((Err(refused(leader)), life));
        }
        match propose(payload) {
            Ok(point) => Take::Taken((Ok(Some(point)), life)),
            // The event that ends what is on its way is still to come: not before that.
            Err(Refusal::NotLeader(_)) if waiting > 0 => Take::Kept((Ok(None), life)),
            Err(Refusal::NotLeader(leader)) => Take::Taken((Err(refused(leader)), life)),
            Err(Refusal::Full) => Take::Kept((Ok(None), life)),
        }
    });
    match taken {
        None => Step::Next,
        Some((Ok(Some((term, index))), life)) => {
            row.on_the_way += 1;
            on_the_way.push_back(OnTheWay { term, index, row: at, life });
            Step::Went
        }
        Some((Ok(None), _)) => Step::Stop,
        Some((Err(outcome), life)) => {
            row.reply(outcome, life);
            Step::Refused
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lane::HandleEnd;

    fn outcomes(handle: &mut HandleEnd) -> Vec<Outcome> {
        std::iter::from_fn(|| handle.pop()).map(|reply| reply.outcome).collect()
    }

    /// Takes everything, in one term.
    fn leader(term: u64, next: &mut u64) -> impl FnMut(&[u8]) -> Result<(Term, Index), Refusal> {
        move |_| {
            *next += 1;
            Ok((Term(term), Index(*next)))
        }
    }

    #[test]
    fn commits_answer_all_lanes_in_the_order_of_proposing() {
        let mut lanes = Lanes::new();
        let (mut a, end) = lane::lane();
        lanes.add(end);
        let (mut b, end) = lane::lane();
        lanes.add(end);
        for _ in 0..3 {
            a.push(b"a", 0).unwrap();
            b.push(b"b", 0).unwrap();
        }
        let mut next = 0;
        assert_eq!(lanes.propose(2, None, leader(1, &mut next)), 4);
        assert_eq!(lanes.propose(2, None, leader(1, &mut next)), 2);
        lanes.committed(Term(1), Index(3));
        assert_eq!(outcomes(&mut a), [1, 2].map(|index| Outcome::Committed { index }));
        assert_eq!(outcomes(&mut b), [3].map(|index| Outcome::Committed { index }));
        lanes.committed(Term(1), Index(6));
        assert_eq!(outcomes(&mut a).len() + outcomes(&mut b).len(), 3);
    }

    #[test]
    fn a_lost_lead_leaves_no_gap_until_its_handle_has_seen_it() {
        let mut lanes = Lanes::new();
        let (mut handle, end) = lane::lane();
        lanes.add(end);
        let mut next = 0;
        handle.push(b"1", 0).unwrap();
        handle.push(b"2", 0).unwrap();
        lanes.propose(8, None, leader(1, &mut next));
        handle.push(b"3", 0).unwrap();
        // The core says so before its event does: nothing of this lane is answered out of order.
        assert_eq!(lanes.propose(8, None, |_| Err(Refusal::NotLeader(Some(2)))), 0);
        lanes.committed(Term(1), Index(1));
        lanes.gave_up(Term(1));
        // This node leads again before the handle looks: what it queued meanwhile is refused all the same.
        handle.push(b"4", 0).unwrap();
        lanes.propose(8, Some(1), leader(3, &mut next));
        let refused = Outcome::NotLeader { leader: Some(1) };
        assert_eq!(
            outcomes(&mut handle),
            [Outcome::Committed { index: 1 }, Outcome::Unknown, refused, refused]
        );
        handle.push(b"5", 1).unwrap();
        lanes.propose(8, Some(1), leader(3, &mut next));
        lanes.committed(Term(1), Index(9));
        assert_eq!(outcomes(&mut handle), [], "a commit of another term is not meant");
        lanes.committed(Term(3), Index(3));
        assert_eq!(outcomes(&mut handle), [Outcome::Committed { index: 3 }]);
    }

    #[test]
    fn no_room_keeps_the_order_and_no_reply_is_ever_lost() {
        let mut lanes = Lanes::new();
        let (mut handle, end) = lane::lane();
        lanes.add(end);
        let mut next = 0;
        for _ in 0..lane::WINDOW + 2 {
            handle.push(b"x", 0).unwrap();
        }
        assert_eq!(lanes.propose(4, None, |_| Err(Refusal::Full)), 0);
        assert_eq!(lanes.propose(usize::MAX, None, leader(1, &mut next)), lane::WINDOW);
        assert_eq!(lanes.propose(4, None, leader(1, &mut next)), 0, "no room for another reply");
        lanes.committed(Term(1), Index(u64::MAX));
        assert_eq!(lanes.propose(4, None, leader(1, &mut next)), 0, "not before replies were taken");
        assert_eq!(outcomes(&mut handle).len(), lane::WINDOW);
        assert_eq!(lanes.propose(4, None, leader(1, &mut next)), 2);
        drop(handle);
        lanes.propose(4, None, leader(1, &mut next));
        assert!(lanes.rows[0].is_some(), "two are on their way");
        lanes.gave_up(Term(1));
        lanes.propose(4, None, leader(1, &mut next));
        assert!(lanes.rows[0].is_none());
    }
}
