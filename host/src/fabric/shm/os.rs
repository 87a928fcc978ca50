//! The few system calls that have no safe wrapper elsewhere. Nothing is decided here.
//!
//! Locks are of the *open file description* kind: they belong to the opened file, vanish with it however the process
//! ends, and can be asked for without being taken, so that looking at a region never keeps its next owner out.

#![expect(unsafe_code, reason = "fcntl of open-file-description locks, futex, and raise")]

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::AtomicU64;

fn whole_file() -> libc::flock {
    // SAFETY: a plain C struct of integers, for which zeros are a value; `l_pid` must be 0 for these locks.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = libc::F_WRLCK as _;
    lock.l_whence = libc::SEEK_SET as _;
    lock
}

/// Locks the file for this description of it. False: another one holds it.
pub(super) fn try_lock(file: impl AsFd) -> io::Result<bool> {
    let lock = whole_file();
    // SAFETY: the descriptor is open for the duration of the borrow, and `lock` is a valid `flock` that is only read.
    if unsafe { libc::fcntl(file.as_fd().as_raw_fd(), libc::F_OFD_SETLK, &lock) } == 0 {
        return Ok(true);
    }
    match io::Error::last_os_error() {
        error if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => Ok(false),
        error => Err(error),
    }
}

/// Gives the lock up at once. Closing the file would do it only when no child process holds a copy of the descriptor, as
/// each does between fork and exec.
pub(super) fn unlock(file: impl AsFd) {
    let mut lock = whole_file();
    lock.l_type = libc::F_UNLCK as _;
    // SAFETY: as in `try_lock`. Unlocking an open file cannot fail in a way that could be acted upon.
    unsafe { libc::fcntl(file.as_fd().as_raw_fd(), libc::F_OFD_SETLK, &lock) };
}

/// Whether another description of the file holds its lock.
pub(super) fn is_locked(file: impl AsFd) -> io::Result<bool> {
    let mut lock = whole_file();
    // SAFETY: the descriptor is open for the duration of the borrow, and `lock` is a valid `flock` of our own.
    if unsafe { libc::fcntl(file.as_fd().as_raw_fd(), libc::F_OFD_GETLK, &mut lock) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(lock.l_type != libc::F_UNLCK as libc::c_short)
}

/// Sleeps for at most `ns` while the low half of the word is `expected`. Wakes early at will: whoever calls looks again.
pub(in crate::fabric) fn futex_wait(word: &AtomicU64, expected: u32, ns: u64) {
    let limit = libc::timespec {
        tv_sec: (ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (ns % 1_000_000_000) as libc::c_long,
    };
    // SAFETY: the kernel reads an aligned half word (the low one: all machines here are little-endian) of a word that lives
    // for the call, by its address alone, and a `timespec` that does.
    unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr().cast::<u32>(), libc::FUTEX_WAIT, expected, &limit);
    }
}

/// Wakes whoever sleeps on the word, in any process.
pub(super) fn futex_wake(word: &AtomicU64) {
    // SAFETY: as above; the memory is not even read.
    unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr().cast::<u32>(), libc::FUTEX_WAKE, i32::MAX);
    }
}

/// Stops this process before the call returns, until it is continued.
pub(super) fn stop_self() {
    // SAFETY: no handler runs; `raise` directs the signal at this thread, so that it does not run on meanwhile.
    unsafe { libc::raise(libc::SIGSTOP) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn a_lock_is_seen_without_being_taken_and_goes_with_its_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let owner = File::create_new(&path).unwrap();
        let other = File::options().read(true).write(true).open(&path).unwrap();
        assert!(!is_locked(&other).unwrap());
        assert!(try_lock(&owner).unwrap());
        assert!(is_locked(&other).unwrap());
        assert!(!try_lock(&other).unwrap());
        assert!(!is_locked(&owner).unwrap(), "its own lock is not another's");
        let copy = owner.try_clone().unwrap();
        drop(owner);
        assert!(is_locked(&other).unwrap(), "a copy of the descriptor keeps the lock");
        unlock(&copy);
        assert!(!is_locked(&other).unwrap());
        assert!(try_lock(&other).unwrap());
    }
}
