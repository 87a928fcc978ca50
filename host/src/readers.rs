//! All readers of a node, as the agent serves them: which reads wait, and whose they are.
//!
//! The core numbers the reads of a kind and ends them in that order, so one queue a kind is enough.

use std::collections::VecDeque;

use ringleader_core::read::{MAX_READS, Read, ReadError, ReadTicket};

use crate::reader::{AgentEnd, ReadOutcome, Reply, WINDOW};

/// See the head of this file.
#[derive(Debug)]
pub(crate) struct Readers {
    rows: Vec<Option<Row>>,
    /// By kind, in the order of their numbers.
    waiting: [VecDeque<Waiting>; Read::ALL.len()],
}

#[derive(Debug)]
struct Row {
    end: AgentEnd,
    /// Reads taken of it.
    taken: u64,
    /// Those of them that wait. Never more than there is room for replies.
    on_the_way: usize,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    /// Its number in the core.
    ticket: u64,
    row: usize,
    /// Its number in its reader.
    number: u64,
}

impl Readers {
    pub(crate) fn new() -> Readers {
        Readers { rows: Vec::new(), waiting: Default::default() }
    }

    /// Takes a new reader. This is where memory for its reads is set aside.
    pub(crate) fn add(&mut self, end: AgentEnd) {
        let row = Row { end, taken: 0, on_the_way: 0 };
        match self.rows.iter_mut().find(|row| row.is_none()) {
            Some(free) => *free = Some(row),
            None => self.rows.push(Some(row)),
        }
        let wanted = (self.rows.len() * WINDOW).min(MAX_READS as usize);
        for waiting in &mut self.waiting {
            waiting.reserve(wanted.saturating_sub(waiting.len()));
        }
    }

    /// Whether any read waits.
    pub(crate) fn any_waits(&self) -> bool {
        self.waiting.iter().any(|waiting| !waiting.is_empty())
    }

    /// Takes up to `batch` reads of each reader; how many. One for which there is no room stays where it is.
    pub(crate) fn take(
        &mut self,
        batch: usize,
        mut read: impl FnMut(Read) -> Result<ReadTicket, ReadError>,
    ) -> usize {
        let mut moved = 0;
        for at in 0..self.rows.len() {
            let Some(row) = &mut self.rows[at] else { continue };
            for _ in 0..batch {
                if row.end.replies.slots() <= row.on_the_way {
                    break;
                }
                let Ok(how) = row.end.asks.peek().copied() else { break };
                let begun = read(how);
                if begun == Err(ReadError::Full) {
                    break;
                }
                // It was just seen.
                let _ = row.end.asks.pop();
                let number = row.taken;
                row.taken += 1;
                moved += 1;
                match begun {
                    Ok(ticket) => {
                        row.on_the_way += 1;
                        let waiting = Waiting { ticket: ticket.number, row: at, number };
                        self.waiting[how as usize].push_back(waiting);
                    }
                    Err(error) => row.reply(number, refused(error)),
                }
            }
            if row.on_the_way == 0 && row.end.asks.is_abandoned() && row.end.asks.is_empty() {
                self.rows[at] = None;
            }
        }
        moved
    }

    /// All reads of a kind up to that number have ended; how many that were.
    pub(crate) fn ended(&mut self, how: Read, ticket: u64, outcome: ReadOutcome) -> u64 {
        let mut count = 0;
        while let Some(front) = self.waiting[how as usize].front().copied()
            && front.ticket <= ticket
        {
            self.waiting[how as usize].pop_front();
            let row = self.rows[front.row].as_mut().expect("a reader stays as long as something of it waits");
            row.on_the_way -= 1;
            row.reply(front.number, outcome);
            count += 1;
        }
        count
    }

    /// The agent ends.
    pub(crate) fn close(mut self) {
        for how in Read::ALL {
            self.ended(how, u64::MAX, ReadOutcome::Closed);
        }
    }
}

impl Row {
    /// The caller has seen to the room.
    fn reply(&mut self, number: u64, outcome: ReadOutcome) {
        self.end
            .replies
            .push(Reply { number, outcome })
            .expect("no read is taken without room for its reply");
        if let Some(ring) = &self.end.ring {
            ring();
        }
    }
}

fn refused(error: ReadError) -> ReadOutcome {
    match error {
        ReadError::NotLeader { leader } => {
            ReadOutcome::NotLeader { leader: Some(leader.0).filter(|leader| *leader != 0) }
        }
        ReadError::NoLeaseReads => ReadOutcome::NoLeaseReads,
        ReadError::NotFormed => ReadOutcome::NotFormed,
        error => unreachable!("a read for which there is no room waits: {error:?}"),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::reader::Reader;
    use crate::shared::Shared;
    use crate::status::Board;
    use crate::sync::AtomicBool;

    fn reader(readers: &mut Readers) -> Reader {
        let shared = Shared { closed: AtomicBool::new(false), board: Board::new(), max_payload: 0 };
        let (reader, end) = Reader::new(Arc::new(shared), None);
        readers.add(end);
        reader
    }

    /// A core that takes so many.
    fn core(next: &mut u64, left: &mut usize) -> impl FnMut(Read) -> Result<ReadTicket, ReadError> {
        move |how| {
            if *left == 0 {
                return Err(ReadError::Full);
            }
            *left -= 1;
            *next += 1;
            Ok(ReadTicket { how, number: *next })
        }
    }

    #[test]
    fn one_end_ends_all_before_it_whose_they_are() {
        let mut readers = Readers::new();
        let (mut a, mut b) = (reader(&mut readers), reader(&mut readers));
        for _ in 0..2 {
            a.ask(Read::Quorum).unwrap();
            b.ask(Read::Quorum).unwrap();
        }
        let (mut next, mut left) = (0, 3);
        assert_eq!(readers.take(8, core(&mut next, &mut left)), 3, "no room for the fourth");
        assert!(readers.any_waits());
        let ready = ReadOutcome::Ready { applied_index: 7 };
        readers.ended(Read::Quorum, 2, ready);
        assert_eq!(
            (a.poll(), a.poll(), b.poll()),
            (Some((crate::Ticket(0), ready)), Some((crate::Ticket(1), ready)), None)
        );
        readers.ended(Read::Quorum, 3, ready);
        assert_eq!(b.poll(), Some((crate::Ticket(0), ready)));
        left = 1;
        assert_eq!(readers.take(8, core(&mut next, &mut left)), 1);
        readers.close();
        assert_eq!(b.poll(), Some((crate::Ticket(1), ReadOutcome::Closed)));
        assert_eq!((b.poll(), b.outstanding()), (None, 0));
    }

    #[test]
    fn refusals_are_said_at_once_and_who_is_gone_is_forgotten() {
        let mut readers = Readers::new();
        let mut a = reader(&mut readers);
        a.ask(Read::Lease).unwrap();
        readers.take(8, |_| Err(ReadError::NoLeaseReads));
        assert_eq!(a.poll(), Some((crate::Ticket(0), ReadOutcome::NoLeaseReads)));
        drop(a);
        readers.take(8, |_| Err(ReadError::Full));
        assert!(readers.rows[0].is_none());
    }
}
