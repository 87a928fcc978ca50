//! What the agent's thread does when a round of its loop found nothing to do.
//!
//! On a shared machine there are more agents than processors: one that spins keeps the others from their work, and one
//! that sleeps long is late with its beats. Hence a short spin, a few yields, then sleeps that grow to a small bound.

use std::num::NonZeroU64;
use std::time::Duration;
use std::{hint, thread};

use ringleader_core::types::Instant;

/// How the agent waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Idle {
    /// Never gives the processor away: lowest latency, for a processor of its own.
    Busy,
    /// Spins, then yields, then sleeps for short times that grow to 100 microseconds.
    #[default]
    Adaptive,
}

const SPINS: u32 = 32;
const YIELDS: u32 = 64;
const SLEEP_MIN_NS: u64 = 10_000;
const SLEEP_MAX_NS: u64 = 100_000;
/// A sleep takes this much longer than asked for, on a machine with little to do.
const WAKE_NS: u64 = 60_000;

/// The rounds without progress so far.
#[derive(Debug)]
pub(crate) struct Idler {
    idle: Idle,
    rounds: u32,
    sleep_ns: u64,
}

/// One step of waiting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    Spin,
    Yield,
    Sleep(u64),
}

impl Idler {
    /// For the calling thread, whose sleeps are made exact.
    pub(crate) fn new(idle: Idle) -> Idler {
        // Without it the kernel may add 50 microseconds to a sleep. A kernel that refuses only makes it later.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        Idler::of_caller(idle)
    }

    /// For a thread that is not this crate's, and is left as it is.
    pub(crate) fn of_caller(idle: Idle) -> Idler {
        Idler { idle, rounds: 0, sleep_ns: SLEEP_MIN_NS }
    }

    /// Something was done: waiting begins anew.
    #[inline]
    pub(crate) fn reset(&mut self) {
        self.rounds = 0;
        self.sleep_ns = SLEEP_MIN_NS;
    }

    /// Nothing was done, and nothing has to be done before `until`. `sleep` may know how to sleep until something comes: it is
    /// asked first, and says whether it did.
    pub(crate) fn wait(&mut self, now: Instant, until: Option<Instant>, sleep: impl FnOnce(u64) -> bool) {
        let left = until.map_or(SLEEP_MAX_NS, |until| until.since(now));
        if self.rounds >= SPINS && self.idle == Idle::Adaptive && left > WAKE_NS && sleep(left - WAKE_NS) {
            return;
        }
        match self.step(now, until) {
            Step::Spin => hint::spin_loop(),
            Step::Yield => thread::yield_now(),
            Step::Sleep(ns) => thread::sleep(Duration::from_nanos(ns)),
        }
    }

    fn step(&mut self, now: Instant, until: Option<Instant>) -> Step {
        if self.idle == Idle::Busy {
            return Step::Spin;
        }
        self.rounds = self.rounds.saturating_add(1);
        if self.rounds <= SPINS {
            return Step::Spin;
        }
        let left = until.map_or(u64::MAX, |until| until.since(now));
        if self.rounds <= SPINS + YIELDS || left < SLEEP_MIN_NS + WAKE_NS {
            return Step::Yield;
        }
        let ns = self.sleep_ns.min(left - WAKE_NS);
        self.sleep_ns = (self.sleep_ns * 3 / 2).min(SLEEP_MAX_NS);
        Step::Sleep(ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_gets_longer_until_progress_and_never_passes_the_deadline() {
        let mut idler = Idler { idle: Idle::Adaptive, rounds: 0, sleep_ns: SLEEP_MIN_NS };
        let now = Instant(1_000_000_000);
        let steps: Vec<Step> = (0..200).map(|_| idler.step(now, None)).collect();
        assert_eq!(steps[0], Step::Spin);
        assert_eq!(steps[SPINS as usize], Step::Yield);
        assert_eq!(steps[(SPINS + YIELDS) as usize], Step::Sleep(SLEEP_MIN_NS));
        assert_eq!(steps[199], Step::Sleep(SLEEP_MAX_NS));
        assert_eq!(idler.step(now, Some(now.after(100_000))), Step::Sleep(100_000 - WAKE_NS));
        assert_eq!(idler.step(now, Some(now.after(20_000))), Step::Yield);
        assert_eq!(idler.step(now, Some(Instant(0))), Step::Yield);
        idler.reset();
        assert_eq!(idler.step(now, None), Step::Spin);
    }

    #[test]
    fn a_busy_agent_only_spins() {
        let mut idler = Idler { idle: Idle::Busy, rounds: 0, sleep_ns: SLEEP_MIN_NS };
        assert!((0..1000).all(|_| idler.step(Instant(0), None) == Step::Spin));
    }
}
