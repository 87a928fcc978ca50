//! The fence of the shared-memory fabric. The bytes that are copied are a cell that must never be used by two at once: loom
//! fails when an access is not ordered with one before it.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use super::explore;
use crate::fence::{NOBODY, enter, give, is_quiet, leave, take, writer};
use crate::sync::{AtomicU64, yield_now};

const A: u32 = 7;
const B: u32 = 8;

/// The two words between an acceptor and one writer.
struct Pair {
    grant: AtomicU64,
    busy: AtomicU64,
}

impl Pair {
    fn new(granted: u64) -> Pair {
        Pair { grant: AtomicU64::new(granted), busy: AtomicU64::new(NOBODY) }
    }

    /// A writer's copy; whether it was granted.
    fn copy(&self, me: u64, bytes: &UnsafeCell<u64>) -> bool {
        let granted = enter(&self.grant, &self.busy, me);
        if granted {
            bytes.with_mut(|_| ());
        }
        leave(&self.busy);
        granted
    }

    fn fence(&self, tag: u32) {
        take(&self.grant);
        while !is_quiet(&self.busy, tag) {
            yield_now();
        }
    }
}

/// Once a fence is complete no store of the former writer lands, and all that it stored is seen.
pub fn what_was_written_under_a_grant_is_over() {
    explore(6, || {
        let me = writer(A, 1);
        let shared = Arc::new((Pair::new(me), UnsafeCell::new(0)));
        let other = Arc::clone(&shared);
        let writes = thread::spawn(move || {
            let (pair, bytes) = &*other;
            pair.copy(me, bytes);
            pair.copy(me, bytes)
        });
        let (pair, bytes) = &*shared;
        pair.fence(A);
        bytes.with_mut(|_| ());
        writes.join().expect("the writer ends");
        assert!(!pair.copy(me, bytes), "epochs are never granted twice");
    });
}

/// Who is granted sees what the acceptor did before.
pub fn a_grant_hands_over() {
    explore(6, || {
        let me = writer(A, 1);
        let shared = Arc::new((Pair::new(NOBODY), UnsafeCell::new(0)));
        let other = Arc::clone(&shared);
        let writes = thread::spawn(move || other.0.copy(me, &other.1));
        shared.1.with_mut(|_| ());
        give(&shared.0.grant, me);
        writes.join().expect("the writer ends");
    });
}

/// The writer of the next epoch goes on behind all that the acceptor did between.
pub fn a_new_epoch_sees_what_was_before() {
    explore(6, || {
        let shared = Arc::new((Pair::new(writer(A, 1)), UnsafeCell::new(0)));
        let other = Arc::clone(&shared);
        let writes = thread::spawn(move || {
            let (pair, bytes) = &*other;
            pair.copy(writer(A, 1), bytes);
            pair.copy(writer(A, 2), bytes);
        });
        let (pair, bytes) = &*shared;
        pair.fence(A);
        bytes.with_mut(|_| ());
        give(&pair.grant, writer(A, 2));
        writes.join().expect("the writer ends");
        pair.fence(A);
        bytes.with_mut(|_| ());
    });
}

/// The grant goes from one writer to another: never are both in their copies, and the second sees the first one's.
pub fn the_grant_passes_on() {
    explore(4, || {
        let shared = Arc::new((Pair::new(writer(A, 1)), Pair::new(NOBODY), UnsafeCell::new(0)));
        let (one, two) = (Arc::clone(&shared), Arc::clone(&shared));
        let former = thread::spawn(move || one.0.copy(writer(A, 1), &one.2));
        let next = thread::spawn(move || two.1.copy(writer(B, 1), &two.2));
        shared.0.fence(A);
        give(&shared.1.grant, writer(B, 1));
        former.join().expect("the writer ends");
        next.join().expect("the writer ends");
        shared.1.fence(B);
        shared.2.with_mut(|_| ());
    });
}
