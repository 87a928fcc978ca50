//! The standard error output for what is told by the way: a line for which there is no room, because nobody reads, is dropped.
//! Whoever tells is the thread that beats, or the one that looks for signals, and neither may wait for a terminal.
//!
//! Not for what a program was run for.

use std::io::{self, Write};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// See the module. To be given whole lines.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stderr;

impl Write for Stderr {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut stderr = io::stderr().lock();
        let mut fds = [PollFd::new(&stderr, PollFlags::OUT)];
        if poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) == Ok(0) {
            return Ok(bytes.len());
        }
        stderr.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
