//! A peer's process: is it alive, and end it. Not: its region.
//!
//! Held by pidfd, which names one process for ever; a number alone may name another one a moment later.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::fence;

/// Do not wait.
const AT_ONCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// One process, with the boot that its region named when it was opened.
#[derive(Debug)]
pub(super) struct Process {
    pidfd: OwnedFd,
    pub(super) pid: u64,
    pub(super) boot: u64,
    /// The boot folded into half a word: what the fence words know it by.
    pub(super) tag: u32,
}

impl Process {
    /// The process with this number now; `None` when there is none. The caller checks that it is the one meant.
    pub(super) fn open(pid: u64, boot: u64) -> io::Result<Option<Process>> {
        let Some(number) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return Ok(None) };
        match pidfd_open(number, PidfdFlags::empty()) {
            Ok(pidfd) => Ok(Some(Process { pidfd, pid, boot, tag: tag_of(boot) })),
            Err(rustix::io::Errno::SRCH) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Readable when no thread of the process runs any more.
    pub(super) fn pidfd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    /// Whether the process is over: none of its threads will ever store anything again.
    pub(super) fn is_dead(&self) -> bool {
        let mut fds = [PollFd::new(&self.pidfd, PollFlags::IN)];
        // An error tells nothing about the process: it counts as alive, and is asked again.
        matches!(poll(&mut fds, Some(&AT_ONCE)), Ok(1))
    }

    /// Sends SIGKILL.
    pub(super) fn shoot(&self) -> io::Result<()> {
        Ok(pidfd_send_signal(&self.pidfd, Signal::KILL)?)
    }
}

/// Which of the processes are over, without waiting: calls `dead` with the index of each.
pub(super) fn find_dead<'a>(pidfds: impl Iterator<Item = BorrowedFd<'a>>, mut dead: impl FnMut(usize)) {
    let mut fds: heapless::Vec<PollFd<'a>, 16> =
        pidfds.take(16).map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
    if fds.is_empty() || !matches!(poll(&mut fds, Some(&AT_ONCE)), Ok(count) if count > 0) {
        return;
    }
    for (i, fd) in fds.iter().enumerate() {
        if !fd.revents().is_empty() {
            dead(i);
        }
    }
}

/// The half word by which the fence words name a boot. Never 0.
pub(super) fn tag_of(boot: u64) -> u32 {
    ((boot >> 32) as u32 ^ boot as u32).max(1)
}

/// Names the namespace that process numbers are counted in: a number from another one names a stranger.
pub(super) fn pid_namespace() -> io::Result<u64> {
    Ok(fs::metadata("/proc/self/ns/pid")?.ino())
}

const _: () = assert!(fence::NOBODY == 0);

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_killed_process_is_dead_before_anyone_waits_for_it() {
        let mut child = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().unwrap();
        let process = Process::open(u64::from(child.id()), 1).unwrap().unwrap();
        assert!(!process.is_dead());
        let mut found = Vec::new();
        find_dead([process.pidfd()].into_iter(), |i| found.push(i));
        assert!(found.is_empty());
        process.shoot().unwrap();
        while !process.is_dead() {
            std::thread::yield_now();
        }
        find_dead([process.pidfd()].into_iter(), |i| found.push(i));
        assert_eq!(found, [0]);
        child.wait().unwrap();
    }

    #[test]
    fn numbers_that_no_process_can_have_name_none() {
        for pid in [0, u64::from(u32::MAX), u64::MAX, i32::MAX as u64] {
            assert!(Process::open(pid, 1).unwrap().is_none());
        }
    }
}
