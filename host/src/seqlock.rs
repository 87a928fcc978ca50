//! Words that belong together, posted by one thread, which never waits, and read by others, which read again when they came
//! in between (a sequence lock).

use crate::sync::{AtomicU64, Ordering, fence, yield_now};

/// See the head of this file.
#[derive(Debug)]
pub(crate) struct SeqLock<const WORDS: usize> {
    /// Odd while the words are being replaced.
    version: AtomicU64,
    words: [AtomicU64; WORDS],
}

impl<const WORDS: usize> SeqLock<WORDS> {
    /// All words 0.
    pub(crate) fn new() -> SeqLock<WORDS> {
        SeqLock { version: AtomicU64::new(0), words: std::array::from_fn(|_| AtomicU64::new(0)) }
    }

    /// For one thread only, always the same.
    pub(crate) fn post(&self, words: &[u64; WORDS]) {
        let version = self.version.load(Ordering::Relaxed);
        self.version.store(version + 1, Ordering::Relaxed);
        // Who sees one of the words below sees the odd version, too.
        fence(Ordering::Release);
        for (to, word) in self.words.iter().zip(words) {
            to.store(*word, Ordering::Relaxed);
        }
        // And who sees this version sees all of the words.
        self.version.store(version + 2, Ordering::Release);
    }

    /// What was posted last. Waits when something is just being posted.
    pub(crate) fn read(&self) -> [u64; WORDS] {
        loop {
            let version = self.version.load(Ordering::Acquire);
            let words = std::array::from_fn(|i| self.words[i].load(Ordering::Relaxed));
            // Pairs with the writer's fence: a word of a later post makes the version below another one.
            fence(Ordering::Acquire);
            if version.is_multiple_of(2) && self.version.load(Ordering::Relaxed) == version {
                return words;
            }
            yield_now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn what_is_read_is_never_a_mixture() {
        let lock = SeqLock::<94>::new();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                (0..20_000).for_each(|i| lock.post(&[i; 94]));
                stop.store(true, Ordering::Relaxed);
            });
            while !stop.load(Ordering::Relaxed) {
                let words = lock.read();
                assert!(words.iter().all(|word| *word == words[0]));
            }
        });
    }
}
