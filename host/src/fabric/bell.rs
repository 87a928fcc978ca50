//! What wakes a sleeping agent thread: a peer's WRITE rings a bell. Not: who is told to ring it, and when (the fabrics).

use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::AtomicU64;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::thread::futex::{Wait, WaitFlags, WaitPtr, WaitvFlags, waitv};
use rustix::time::{ClockId, clock_gettime};

use super::shm;

/// Bells that a thread can listen to at once: one a group.
pub(crate) const MAX_BELLS: usize = 64;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub enum Bell<'a> {
    /// Has rung when the low half of the word is not `seen` any more; whoever changes it wakes its sleepers.
    Word {
        /// Counts the rings.
        word: &'a AtomicU64,
        /// The count before the sleeper last looked whether there is something to do.
        seen: u32,
    },
    /// Has rung when it is readable.
    Descriptor(BorrowedFd<'a>),
}

/// Sleeps until one of the bells rings, at most for `ns`. False at once when nothing can sleep on these: some are words and
/// some descriptors, or several are words and the kernel is older than Linux 5.16.
pub(crate) fn sleep(bells: &[Bell<'_>], ns: u64) -> bool {
    match bells {
        [] => false,
        [Bell::Word { word, seen }] => {
            shm::futex_wait(word, *seen, ns);
            true
        }
        [Bell::Word { .. }, ..] => sleep_on_words(bells, ns),
        [Bell::Descriptor(_), ..] => sleep_on_descriptors(bells, ns),
    }
}

fn sleep_on_words(bells: &[Bell<'_>], ns: u64) -> bool {
    let mut waits: heapless::Vec<Wait, MAX_BELLS> = heapless::Vec::new();
    for bell in bells {
        let Bell::Word { word, seen } = *bell else { return false };
        let mut wait = Wait::new();
        wait.val = u64::from(seen);
        // The low half comes first on all machines here.
        wait.uaddr = WaitPtr::new(word.as_ptr().cast());
        wait.flags = WaitFlags::SIZE_U32;
        if waits.push(wait).is_err() {
            return false;
        }
    }
    // This call takes a moment, not a duration.
    let now = clock_gettime(ClockId::Monotonic);
    let until = (now.tv_nsec as u64).saturating_add(ns);
    let until = Timespec {
        tv_sec: now.tv_sec.saturating_add((until / 1_000_000_000) as i64),
        tv_nsec: (until % 1_000_000_000) as i64,
    };
    let slept = waitv(&waits, WaitvFlags::empty(), Some(&until), ClockId::Monotonic);
    !matches!(slept, Err(Errno::NOSYS | Errno::INVAL | Errno::PERM))
}

fn sleep_on_descriptors(bells: &[Bell<'_>], ns: u64) -> bool {
    let mut fds: heapless::Vec<PollFd<'_>, MAX_BELLS> = heapless::Vec::new();
    let mut last = None;
    for bell in bells {
        let Bell::Descriptor(descriptor) = *bell else { return false };
        // Groups on one device have one descriptor.
        if last.replace(descriptor.as_raw_fd()) == Some(descriptor.as_raw_fd()) {
            continue;
        }
        if fds.push(PollFd::from_borrowed_fd(descriptor, PollFlags::IN)).is_err() {
            return false;
        }
    }
    let limit = Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as i64 };
    // Whatever it says, the fabrics are looked at next.
    let _ = poll(&mut fds, Some(&limit));
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;
    use std::time::{Duration, Instant};

    const AN_HOUR: u64 = 3_600_000_000_000;

    #[test]
    fn any_of_many_bells_ends_a_sleep() {
        let words: Vec<AtomicU64> = (0..MAX_BELLS as u64).map(AtomicU64::new).collect();
        let bells = |rung: Option<usize>| -> Vec<Bell<'_>> {
            let seen = |at: usize| at as u32 ^ u32::from(rung == Some(at));
            words.iter().enumerate().map(|(at, word)| Bell::Word { word, seen: seen(at) }).collect()
        };
        for rung in [0, 1, MAX_BELLS - 1] {
            let begun = Instant::now();
            // An hour: a bell that is not heard would be noticed. A kernel that is too old says so.
            let _ = sleep(&bells(Some(rung)), AN_HOUR);
            assert!(begun.elapsed() < Duration::from_secs(600));
        }
        let _ = sleep(&bells(None), 1_000_000);
        let (reader, writer) = rustix::pipe::pipe().expect("a pipe");
        let (silent, _open) = rustix::pipe::pipe().expect("a pipe");
        let descriptors = [Bell::Descriptor(silent.as_fd()), Bell::Descriptor(reader.as_fd())];
        assert!(sleep(&descriptors, 1_000_000));
        rustix::io::write(&writer, b"!").expect("room");
        assert!(sleep(&descriptors, AN_HOUR));
        assert!(!sleep(&[descriptors[0], Bell::Word { word: &words[0], seen: 0 }], AN_HOUR));
        assert!(!sleep(&[], AN_HOUR));
    }
}
