//! Child processes that are struck by signals, and never left behind: this program again, in another role.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus};

use rustix::process::{
    Pid, PidfdFlags, Signal, getppid, pidfd_open, pidfd_send_signal, set_parent_process_death_signal,
};

use crate::clock;
use crate::health::VARIABLES;
pub use crate::signals::Signals;

/// What became of a process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fate {
    /// Runs.
    Running,
    /// Stopped by its parent.
    Stopped,
    /// Killed by its parent.
    Killed,
    /// Killed by a node that could not shut it out otherwise.
    Shot,
    /// Died otherwise.
    Died(String),
    /// Ended as it was told to.
    Closed,
}

impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fate::Running => f.write_str("runs"),
            Fate::Stopped => f.write_str("was stopped"),
            Fate::Killed => f.write_str("was killed"),
            Fate::Shot => f.write_str("was killed (SIGKILL), not by its parent"),
            Fate::Died(how) => write!(f, "died: {how}"),
            Fate::Closed => f.write_str("ended by itself"),
        }
    }
}

/// A child. Dropped, it is killed.
#[derive(Debug)]
pub struct Process {
    /// What became of it, as far as is known.
    fate: Fate,
    child: Child,
    pidfd: OwnedFd,
    /// It has been waited for.
    gone: bool,
}

impl Process {
    /// Starts a process, in a process group of its own: Ctrl-C is its parent's to handle, for a child that dies of it would
    /// look like a fault.
    ///
    /// To be called by the thread that lives as long as the program, if the child calls [`die_with_parent`].
    pub fn start(command: &mut Command) -> io::Result<Process> {
        // Nor is it the service that a service manager has started.
        for variable in VARIABLES {
            command.env_remove(variable);
        }
        let mut child = command.process_group(0).spawn()?;
        let pidfd = pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).inspect_err(|_| {
            let _ = child.kill();
            let _ = child.wait();
        })?;
        Ok(Process { fate: Fate::Running, child, pidfd, gone: false })
    }

    /// What became of it, as far as is known.
    pub fn fate(&self) -> &Fate {
        &self.fate
    }

    /// Whether it runs.
    pub fn runs(&self) -> bool {
        self.fate == Fate::Running
    }

    /// Whether it lives, be it stopped.
    pub fn lives(&self) -> bool {
        matches!(self.fate, Fate::Running | Fate::Stopped)
    }

    /// Whether it has been waited for.
    pub fn is_gone(&self) -> bool {
        self.gone
    }

    /// Ready to be read when it is gone.
    pub fn pidfd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    /// Sends it SIGKILL; returns when.
    pub fn kill(&mut self) -> io::Result<u64> {
        self.fate = Fate::Killed;
        self.signal(Signal::KILL)
    }

    /// Sends it SIGSTOP; returns when.
    pub fn stop(&mut self) -> io::Result<u64> {
        self.fate = Fate::Stopped;
        self.signal(Signal::STOP)
    }

    /// Sends it SIGCONT; returns when.
    pub fn wake(&mut self) -> io::Result<u64> {
        self.fate = Fate::Running;
        self.signal(Signal::CONT)
    }

    /// Waits until it is gone.
    pub fn wait(&mut self) -> io::Result<()> {
        let status = self.child.wait()?;
        self.handle_gone(status);
        Ok(())
    }

    /// Whether it is gone now, and was not before.
    pub fn went(&mut self) -> io::Result<bool> {
        let status = if self.gone { None } else { self.child.try_wait()? };
        if let Some(status) = status {
            self.handle_gone(status);
        }
        Ok(status.is_some())
    }

    fn handle_gone(&mut self, status: ExitStatus) {
        self.gone = true;
        self.fate = match (&self.fate, status.signal()) {
            (Fate::Killed, _) => Fate::Killed,
            (_, Some(signal)) if signal == Signal::KILL.as_raw() => Fate::Shot,
            (_, None) if status.success() => Fate::Closed,
            _ => Fate::Died(status.to_string()),
        };
    }

    fn signal(&self, signal: Signal) -> io::Result<u64> {
        let at_ns = clock::now().0;
        match pidfd_send_signal(self.pidfd.as_fd(), signal) {
            // It died by itself: the pidfd says so.
            Err(rustix::io::Errno::SRCH) => {}
            sent => sent?,
        }
        Ok(at_ns)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if !self.gone {
            // By the child's handle: a process that is not waited for keeps its number.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Binds the life of this process to that of the thread that started it; false when `parent` is not its parent, or not
/// any more.
pub fn die_with_parent(parent: u32) -> io::Result<bool> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // The parent may have died before the line above: then nobody will ever send the signal.
    Ok(getppid().map(Pid::as_raw_nonzero).map(|pid| pid.get().unsigned_abs()) == Some(parent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_became_of_a_process_is_told_apart() {
        let shell = |script: &str| Process::start(Command::new("sh").args(["-c", script])).expect("starts");
        let mut process = shell("sleep 60");
        assert!(process.runs() && process.lives() && !process.went().expect("its status"));
        process.stop().expect("sent");
        assert!(!process.runs() && process.lives());
        process.wake().expect("sent");
        assert!(process.runs());
        process.kill().expect("sent");
        process.wait().expect("its status");
        assert_eq!((process.fate(), process.is_gone()), (&Fate::Killed, true));
        assert!(!process.went().expect("its status"), "told once");

        for (script, fate) in [("exit 0", Fate::Closed), ("kill -9 $$", Fate::Shot)] {
            let mut process = shell(script);
            process.wait().expect("its status");
            assert_eq!(process.fate(), &fate, "{script}");
        }
        let mut process = shell("exit 3");
        process.wait().expect("its status");
        assert!(matches!(process.fate(), Fate::Died(_)), "{:?}", process.fate());
    }
}
