//! How another thread's `poll` is ended: a counter of the system's.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};

/// Shared by those that wake and the one that is woken.
#[derive(Debug)]
pub(super) struct Wake(OwnedFd);

impl Wake {
    pub(super) fn new() -> io::Result<Wake> {
        Ok(Wake(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    /// Never waits.
    pub(super) fn wake(&self) {
        // Refused only when it has been woken 2^64 times and did not look: it is awake then.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    /// Awake: the next wake counts anew.
    pub(super) fn clear(&self) {
        let _ = rustix::io::read(&self.0, &mut [0_u8; 8]);
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
