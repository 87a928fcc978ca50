//! Sleeping until a peer has written: two words in the software NIC's page of the sleeper's region, and a futex.
//!
//! *Sleeper*: 0, the owner looks by itself and nobody wakes it; 1, it can be woken; 2, it sleeps. *Arrivals* counts the WRITEs of
//! peers, as long as the owner can be woken. The owner remembers the count from before it last looked at its memory: a
//! WRITE that came since has changed the count, and then it does not fall asleep.

use std::sync::atomic::{AtomicU64, Ordering};

use ringleader_core::mem::Memory;

use super::os;
use crate::fabric;
use crate::fabric::map::Mapped;

const LOOKS_BY_ITSELF: u64 = 0;
const AWAKE: u64 = 1;
const ASLEEP: u64 = 2;

/// The two words of one region.
#[derive(Debug)]
pub(super) struct Bell {
    sleeper: Mapped,
    arrivals: Mapped,
}

impl Bell {
    pub(super) fn new(sleeper: Mapped, arrivals: Mapped) -> Bell {
        Bell { sleeper, arrivals }
    }

    fn sleeper(&self) -> &AtomicU64 {
        &self.sleeper.words()[0]
    }

    fn arrivals(&self) -> &AtomicU64 {
        &self.arrivals.words()[0]
    }

    /// Owner: from now on peers wake it.
    pub(super) fn hang(&self) {
        self.sleeper().store(AWAKE, Ordering::SeqCst);
    }

    /// Owner: WRITEs so far. To be asked before memory is looked at.
    #[inline]
    pub(super) fn count(&self) -> u64 {
        // Acquire: what was counted is seen by the looks that follow.
        self.arrivals().load(Ordering::Acquire)
    }

    /// Owner: from now on WRITEs, counted beyond `seen`, end a sleep.
    pub(super) fn lie_down(&self, seen: u64) -> fabric::Bell<'_> {
        // SeqCst, here and in `ring`: either the writer sees that the owner sleeps, or the owner the writer's count.
        self.sleeper().store(ASLEEP, Ordering::SeqCst);
        fabric::Bell::Word { word: self.arrivals(), seen: seen as u32 }
    }

    /// Owner: has slept.
    pub(super) fn get_up(&self) {
        self.sleeper().store(AWAKE, Ordering::SeqCst);
    }

    /// Peer: it has written. One load where the owner looks by itself.
    #[inline(always)]
    pub(super) fn ring(&self) {
        if self.sleeper().load(Ordering::Relaxed) != LOOKS_BY_ITSELF {
            self.ring_aloud();
        }
    }

    #[cold]
    fn ring_aloud(&self) {
        self.arrivals().fetch_add(1, Ordering::SeqCst);
        if self.sleeper().load(Ordering::SeqCst) == ASLEEP {
            os::futex_wake(self.arrivals());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    use super::*;
    use crate::fabric::map::Mapping;

    fn bell() -> Arc<Bell> {
        let page = Mapping::anonymous(4096).unwrap();
        Arc::new(Bell::new(page.slice(0, 8), page.slice(128, 8)))
    }

    fn sleep(bell: &Bell, seen: u64, ns: u64) {
        assert!(fabric::sleep(&[bell.lie_down(seen)], ns));
        bell.get_up();
    }

    #[test]
    fn nothing_is_slept_through() {
        let bell = bell();
        bell.ring();
        assert_eq!(bell.count(), 0, "nobody is to be woken");
        bell.hang();
        let ringer = Arc::clone(&bell);
        let rounds = 2_000;
        let thread = std::thread::spawn(move || (0..rounds).for_each(|_| ringer.ring()));
        let begun = Instant::now();
        let mut seen = bell.count();
        while seen < rounds {
            // An hour: a wake that is missed would be noticed.
            sleep(&bell, seen, 3_600_000_000_000);
            seen = bell.count();
        }
        thread.join().unwrap();
        assert!(begun.elapsed() < Duration::from_secs(600));
    }

    #[test]
    fn a_sleep_ends_by_itself() {
        let bell = bell();
        bell.hang();
        sleep(&bell, bell.count(), 1_000_000);
        bell.ring();
        // What came before it is not slept over.
        sleep(&bell, 0, 3_600_000_000_000);
    }
}
