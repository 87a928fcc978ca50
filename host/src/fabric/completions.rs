//! The completion queue: a ring that is allocated once.

use ringleader_core::types::{Epoch, NodeId};
use ringleader_core::verb::{Class, Completion, RequestId, Status};

/// Completions that fit. An agent reaps after each batch it posts, and one batch is a few lines and WRITEs a peer.
const CAPACITY: usize = 1 << 14;
const MASK: usize = CAPACITY - 1;

/// Completions in the order in which they came about.
#[derive(Debug)]
pub(crate) struct Completions {
    ring: Box<[Completion; CAPACITY]>,
    /// Counts what was taken out; never above `tail`.
    head: usize,
    /// Counts what was put in; at most `CAPACITY` above `head`.
    tail: usize,
}

impl Completions {
    pub(crate) fn new() -> Completions {
        let id = RequestId { peer: NodeId::NOBODY, class: Class::Connect, epoch: Epoch(0), number: 0 };
        let none = Completion { id, status: Status::Failed, value: 0 };
        let ring = vec![none; CAPACITY].into_boxed_slice();
        Completions { ring: ring.try_into().expect("made with that length"), head: 0, tail: 0 }
    }

    #[inline(always)]
    pub(crate) fn push(&mut self, id: RequestId, status: Status, value: u64) {
        assert!(self.tail - self.head < CAPACITY, "completions are reaped before thousands more are posted");
        self.ring[self.tail & MASK] = Completion { id, status, value };
        self.tail += 1;
    }

    #[cfg(feature = "verbs")]
    pub(crate) fn is_empty(&self) -> bool {
        self.head == self.tail
    }

    #[inline]
    pub(crate) fn take(&mut self, out: &mut [Completion]) -> usize {
        let count = out.len().min(self.tail - self.head);
        for slot in &mut out[..count] {
            *slot = self.ring[self.head & MASK];
            self.head += 1;
        }
        if self.head == self.tail {
            // From the start again: what was used last is still in the cache.
            (self.head, self.tail) = (0, 0);
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u32) -> RequestId {
        RequestId { peer: NodeId(1), class: Class::Beat, epoch: Epoch(1), number }
    }

    #[test]
    fn nothing_is_lost_or_reordered_over_many_laps() {
        let mut completions = Completions::new();
        let mut out = [Completion { id: id(0), status: Status::Failed, value: 0 }; 100];
        let (mut put, mut got) = (0, 0);
        for round in 0..2_000u32 {
            for _ in 0..round % 137 {
                completions.push(id(put), Status::Success, u64::from(put));
                put += 1;
            }
            loop {
                let count = completions.take(&mut out);
                for done in &out[..count] {
                    assert_eq!((done.id.number, done.value), (got, u64::from(got)));
                    got += 1;
                }
                if count < out.len() {
                    break;
                }
            }
        }
        assert_eq!(put, got);
    }
}
