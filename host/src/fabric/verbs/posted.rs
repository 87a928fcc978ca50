//! The requests posted to one queue pair, oldest first: they complete in this order, each exactly once.
//!
//! A request that the device never got (its queue pair was down) waits here for those before it, and ends after them.

use ringleader_core::verb::Status;

/// Requests that one queue pair has room for: more than a core ever has under way on one.
pub(super) const DEPTH: usize = 64;

#[derive(Clone, Copy, Debug)]
struct Entry {
    id: u64,
    /// How it ended here; `None` while the device has it.
    ended: Option<Status>,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Posted {
    ring: Box<[Entry; DEPTH]>,
    /// Counts of all that ever left and ever came; the ones between are under way.
    left: usize,
    came: usize,
}

impl Posted {
    pub(super) fn new() -> Posted {
        Posted { ring: Box::new([Entry { id: 0, ended: None }; DEPTH]), left: 0, came: 0 }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.left == self.came
    }

    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.came.wrapping_sub(self.left) == DEPTH
    }

    /// A request that goes to the device, or ended before it did; its number.
    #[inline]
    pub(super) fn push(&mut self, id: u64, ended: Option<Status>) -> u32 {
        assert!(!self.is_full(), "whoever posts has looked for room");
        let number = self.came;
        self.ring[number % DEPTH] = Entry { id, ended };
        self.came = number.wrapping_add(1);
        number as u32
    }

    /// The newest `count` requests of those that were to go to the device never reached it: the first of them ended as
    /// `first`, the others behind it. Requests that ended here before may stand between them and after them.
    pub(super) fn refuse(&mut self, count: usize, first: Status) {
        let (mut back, mut left) = (self.came, count);
        while left > 0 && back != self.left {
            back = back.wrapping_sub(1);
            let ended = &mut self.ring[back % DEPTH].ended;
            if ended.is_none() {
                *ended = Some(if left == 1 { first } else { Status::Flushed });
                left -= 1;
            }
        }
    }

    /// The device completed the request of that number: its id. `None` when that is not the oldest one it has: it is not counted.
    #[inline]
    pub(super) fn land(&mut self, number: u32) -> Option<u64> {
        let oldest = self.ring[self.left % DEPTH];
        if self.is_empty() || self.left as u32 != number || oldest.ended.is_some() {
            return None;
        }
        self.left = self.left.wrapping_add(1);
        Some(oldest.id)
    }

    /// The oldest request, when it ended here.
    #[inline]
    pub(super) fn take_ended(&mut self) -> Option<(u64, Status)> {
        let oldest = self.ring[self.left % DEPTH];
        let ended = oldest.ended.filter(|_| !self.is_empty())?;
        self.left = self.left.wrapping_add(1);
        Some((oldest.id, ended))
    }

    /// Everything under way ends as `status`: the device will never tell, or is not believed any more.
    pub(super) fn abandon(&mut self, status: Status) {
        for at in 0..self.came.wrapping_sub(self.left) {
            self.ring[self.left.wrapping_add(at) % DEPTH].ended.get_or_insert(status);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_ends_once_and_in_order() {
        let mut posted = Posted::new();
        // Over the end of the numbers, too.
        (posted.left, posted.came) = (u32::MAX as usize - 1000, u32::MAX as usize - 1000);
        for round in 0..1000u64 {
            let first = posted.push(round * 10, None);
            let [second, third] = [first.wrapping_add(1), first.wrapping_add(2)];
            assert_eq!(posted.push(round * 10 + 1, None), second);
            assert_eq!(posted.push(round * 10 + 2, Some(Status::Flushed)), third);
            assert_eq!(posted.take_ended(), None, "it waits for those before it");
            assert_eq!(posted.land(second), None, "not the oldest");
            assert_eq!(posted.land(first), Some(round * 10));
            assert_eq!(posted.land(first), None, "twice");
            assert_eq!(posted.land(second), Some(round * 10 + 1));
            assert_eq!(posted.land(third), None, "the device never had it");
            assert_eq!(posted.take_ended(), Some((round * 10 + 2, Status::Flushed)));
            assert!(posted.is_empty() && posted.take_ended().is_none());
        }
    }

    #[test]
    fn what_was_refused_or_abandoned_ends_too() {
        let mut posted = Posted::new();
        (0..4).for_each(|id| {
            posted.push(id, None);
        });
        posted.refuse(2, Status::Failed);
        assert_eq!(posted.land(0), Some(0));
        assert_eq!(posted.take_ended(), None);
        posted.abandon(Status::Unreachable);
        let ended: Vec<_> = std::iter::from_fn(|| posted.take_ended()).collect();
        assert_eq!(ended, [(1, Status::Unreachable), (2, Status::Failed), (3, Status::Flushed)]);
        (0..DEPTH as u64).for_each(|id| {
            posted.push(id, None);
        });
        assert!(posted.is_full());
    }

    /// A queue pair broke while a chain was held: what was posted after that ended already, and is not the chain.
    #[test]
    fn a_chain_is_refused_and_not_what_was_posted_behind_it() {
        let mut posted = Posted::new();
        (0..3).for_each(|id| {
            posted.push(id, None);
        });
        posted.push(3, Some(Status::Flushed));
        posted.refuse(2, Status::Failed);
        assert_eq!(posted.land(0), Some(0));
        let ended: Vec<_> = std::iter::from_fn(|| posted.take_ended()).collect();
        assert_eq!(ended, [(1, Status::Failed), (2, Status::Flushed), (3, Status::Flushed)]);
        assert!(posted.is_empty());
    }
}
