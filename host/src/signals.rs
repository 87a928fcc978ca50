//! The signals by which a user ends the program: from their installation on they are noted, and end nothing by themselves.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// See the module.
#[derive(Debug)]
pub struct Signals(UnixStream);

impl Signals {
    /// To be called by the program's first thread, before there are others, and before anything is made that would be left behind.
    pub fn install() -> io::Result<Signals> {
        let (signals, raised) = UnixStream::pair()?;
        signals.set_nonblocking(true)?;
        // The first registration of a signal has a moment at which it is caught already and noted nowhere: it has to wait for that.
        let all = SigSet::from_iter([Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP]);
        let before = all.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::low_level::pipe::register(signal, raised.try_clone()?)?;
        }
        before.thread_set_mask()?;
        Ok(Signals(signals))
    }

    /// Whether one came.
    pub fn is_raised(&self) -> bool {
        let mut fds = [PollFd::new(&self.0, PollFlags::IN)];
        poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|count| count > 0)
    }

    /// Ready to be read once one came.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
