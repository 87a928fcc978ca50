//! The handshake between a writer and the acceptor it writes to: two words, four functions, nothing else.
//!
//! The writer marks itself *busy*, then looks whether it still has the *grant*; the acceptor takes the grant away, then
//! looks whether the writer is busy. With a full fence between each side's store and its load, at least one of them
//! sees the other's store (the store-buffer test, also known as Dekker's). So when the acceptor finds the mark gone,
//! every copy that passed the check is complete, and none will pass it again: epochs are never granted twice.
//!
//! Generic over the word, so that a model checker can drive exactly this code (`tests/loom`).

use std::sync::atomic::{self, AtomicU64, Ordering};

/// An atomic word and the full fence that goes with it.
pub(super) trait Word {
    fn load(&self, order: Ordering) -> u64;
    fn store(&self, value: u64, order: Ordering);
    fn full_fence();
}

impl Word for AtomicU64 {
    #[inline(always)]
    fn load(&self, order: Ordering) -> u64 {
        AtomicU64::load(self, order)
    }

    #[inline(always)]
    fn store(&self, value: u64, order: Ordering) {
        AtomicU64::store(self, value, order);
    }

    #[inline(always)]
    fn full_fence() {
        atomic::fence(Ordering::SeqCst);
    }
}

/// No grant, or no mark.
pub(super) const NOBODY: u64 = 0;

/// Who may write, or is writing: the process (its boot, folded) and the epoch of the log queue pair. Never [`NOBODY`].
///
/// With the boot in it, the mark that a dead process left behind is told apart from its successor's, and no grant
/// that was meant for the dead one serves the successor.
#[inline(always)]
pub(super) fn writer(tag: u32, epoch: u32) -> u64 {
    u64::from(tag) << 32 | u64::from(epoch)
}

/// Writer: before a copy. False: not granted, and nothing may be copied. `leave` must follow either way.
#[inline(always)]
pub(super) fn enter<W: Word>(grant: &W, busy: &W, me: u64) -> bool {
    // Relaxed: the full fence orders it before the load below.
    busy.store(me, Ordering::Relaxed);
    W::full_fence();
    // Acquire: no byte of the copy is stored before the grant was seen.
    grant.load(Ordering::Acquire) == me
}

/// Writer: after the copy, or instead of it.
#[inline(always)]
pub(super) fn leave<W: Word>(busy: &W) {
    // Release: who sees the mark gone sees every byte of the copy.
    busy.store(NOBODY, Ordering::Release);
}

/// Acceptor: lets `who` write from now on.
pub(super) fn give<W: Word>(grant: &W, who: u64) {
    // Release: the writer sees everything the acceptor did before.
    grant.store(who, Ordering::Release);
}

/// Acceptor: nobody passes the check any more. Copies that passed it may still be under way: ask [`is_quiet`].
pub(super) fn take<W: Word>(grant: &W) {
    // Relaxed: the full fence orders it before every later look at the mark.
    grant.store(NOBODY, Ordering::Relaxed);
    W::full_fence();
}

/// Acceptor, after [`take`]: whether no copy of the process `tag` is under way.
///
/// A mark of another process is no obstacle: it is either dead, or its successor, which was never granted anything.
pub(super) fn is_quiet<W: Word>(busy: &W, tag: u32) -> bool {
    // Acquire: pairs with `leave`, so that the bytes of the last copy are seen.
    let mark = busy.load(Ordering::Acquire);
    mark == NOBODY || mark >> 32 != u64::from(tag)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;
    use std::thread;

    #[test]
    fn a_mark_binds_only_the_process_it_names() {
        let busy = AtomicU64::new(writer(7, 1));
        assert!(!is_quiet(&busy, 7));
        assert!(is_quiet(&busy, 8));
        leave(&busy);
        assert!(is_quiet(&busy, 7));
    }

    #[test]
    fn only_the_granted_epoch_of_the_granted_process_enters() {
        let (grant, busy) = (AtomicU64::new(NOBODY), AtomicU64::new(NOBODY));
        assert!(!enter(&grant, &busy, writer(7, 1)));
        give(&grant, writer(7, 1));
        assert!(enter(&grant, &busy, writer(7, 1)));
        assert!(!enter(&grant, &busy, writer(7, 2)));
        assert!(!enter(&grant, &busy, writer(8, 1)));
        take(&grant);
        assert!(!enter(&grant, &busy, writer(7, 1)));
    }

    /// Both sides at once, again and again, as close together as two threads get: the store-buffer test itself.
    #[test]
    fn a_fence_that_finds_quiet_has_turned_the_writer_away() {
        const ROUNDS: u64 = 40_000;
        let (grant, busy) = (AtomicU64::new(NOBODY), AtomicU64::new(NOBODY));
        let (round, done) = (AtomicU64::new(0), AtomicU64::new(0));
        let landed = AtomicU64::new(0);
        let wait = |word: &AtomicU64, value: u64| {
            let mut spins = 0u32;
            while word.load(Ordering::Acquire) != value {
                spins += 1;
                if spins.is_multiple_of(1 << 12) {
                    thread::yield_now();
                }
            }
        };
        let mut late = 0;
        thread::scope(|scope| {
            scope.spawn(|| {
                for i in 1..=ROUNDS {
                    wait(&round, i);
                    if enter(&grant, &busy, writer(7, i as u32)) {
                        landed.store(i, Ordering::Relaxed);
                    }
                    leave(&busy);
                    done.store(i, Ordering::Release);
                }
            });
            for i in 1..=ROUNDS {
                give(&grant, writer(7, i as u32));
                round.store(i, Ordering::Release);
                // The writer sees the round some hundred cycles later: shift the two against each other around that.
                for step in 0..i % 512 {
                    std::hint::black_box(step);
                }
                take(&grant);
                while !is_quiet(&busy, 7) {
                    std::hint::spin_loop();
                }
                let seen = landed.load(Ordering::Relaxed);
                wait(&done, i);
                late += u32::from(landed.load(Ordering::Relaxed) != seen);
            }
        });
        assert_eq!(late, 0, "copies landed behind a fence");
    }

    #[test]
    fn after_a_quiet_fence_the_words_stand_still() {
        const ROUNDS: u32 = 2_000;
        let (grant, busy) = (AtomicU64::new(NOBODY), AtomicU64::new(NOBODY));
        let words: Vec<AtomicU64> = (0..16).map(|_| AtomicU64::new(0)).collect();
        let stop = AtomicBool::new(false);
        let mut late = 0;
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut value = 1;
                while !stop.load(Ordering::Relaxed) {
                    // A writer that always believes it has the newest epoch: the harshest one.
                    let me = grant.load(Ordering::Relaxed);
                    if me != NOBODY && enter(&grant, &busy, me) {
                        for word in &words {
                            word.store(value, Ordering::Relaxed);
                        }
                        value += 1;
                    }
                    leave(&busy);
                }
            });
            for epoch in 1..=ROUNDS {
                give(&grant, writer(7, epoch));
                if epoch % 16 == 0 {
                    thread::yield_now();
                }
                take(&grant);
                while !is_quiet(&busy, 7) {
                    std::hint::spin_loop();
                }
                let first = words[0].load(Ordering::Relaxed);
                for word in words.iter().cycle().take(4 * words.len()) {
                    late += u32::from(word.load(Ordering::Relaxed) != first);
                }
            }
            stop.store(true, Ordering::Relaxed);
        });
        assert_eq!(late, 0, "copies landed behind a fence");
    }
}
