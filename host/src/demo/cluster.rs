//! The nodes of a demo as processes: started, told, heard, struck, and never left behind.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::now_ns;
use super::wire::{Frame, Inbox, Order, Outbox, Report};
pub use crate::signals::Signals;

/// What became of a node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fate {
    /// Runs.
    Running,
    /// Stopped by the demo.
    Stopped,
    /// Killed by the demo.
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
            Fate::Shot => f.write_str("was killed (SIGKILL), not by the demo"),
            Fate::Died(how) => write!(f, "died: {how}"),
            Fate::Closed => f.write_str("ended by itself"),
        }
    }
}

/// One node.
#[derive(Debug)]
pub struct Member {
    /// Its id.
    pub id: u8,
    /// What became of it.
    pub fate: Fate,
    /// What is to be sent to it.
    pub outbox: Outbox,
    child: Child,
    pidfd: OwnedFd,
    socket: UnixStream,
    inbox: Inbox,
    /// Its process has been waited for.
    gone: bool,
}

/// Something that happened.
#[derive(Debug)]
pub enum Notice {
    /// A node said something of a group.
    Said(u8, u8, Report),
    /// A node's process is gone; its fate says how.
    Gone(u8),
    /// The user wants the demo to end.
    Interrupted,
}

/// All nodes. Dropped, it kills those that still live.
#[derive(Debug)]
pub struct Cluster {
    members: Vec<Member>,
    signals: Signals,
}

impl Cluster {
    /// Starts the processes of nodes 1..=`nodes`. They know nothing yet.
    ///
    /// To be called by the thread that lives as long as the program: a node dies with the thread that started it.
    pub fn start(nodes: u8, signals: Signals) -> io::Result<Cluster> {
        let mut cluster = Cluster { members: Vec::new(), signals };
        for id in 1..=nodes {
            cluster.members.push(Member::start(id)?);
        }
        Ok(cluster)
    }

    /// The nodes, by id.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// One node.
    pub fn member(&mut self, id: u8) -> &mut Member {
        &mut self.members[usize::from(id) - 1]
    }

    /// Whether a signal to end came in the meantime.
    pub fn is_interrupted(&self) -> bool {
        self.signals.is_raised()
    }

    /// Sends what is to be sent, waits until something happens, at most for `timeout`, and appends it to `notices`.
    pub fn wait(&mut self, timeout: Duration, notices: &mut Vec<Notice>) -> io::Result<()> {
        let ready = self.poll(timeout)?;
        if ready.interrupted {
            notices.push(Notice::Interrupted);
        }
        for (member, ready) in self.members.iter_mut().zip(ready.members) {
            if ready.says || ready.gone {
                member.hear(notices, ready.gone)?;
            }
            if ready.gone {
                let status = member.child.wait()?;
                member.gone = true;
                member.fate = fate(&member.fate, status);
                notices.push(Notice::Gone(member.id));
            }
        }
        Ok(())
    }

    fn poll(&mut self, timeout: Duration) -> io::Result<Ready> {
        let mut fds = vec![PollFd::from_borrowed_fd(self.signals.fd(), PollFlags::IN)];
        for member in self.members.iter_mut() {
            // A node that is gone is heard of by its pidfd.
            let _ = member.outbox.send(&mut member.socket);
        }
        for member in self.members.iter().filter(|member| !member.gone) {
            let more = if member.outbox.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
            fds.push(PollFd::new(&member.socket, PollFlags::IN | more));
            fds.push(PollFd::new(&member.pidfd, PollFlags::IN));
        }
        let timeout =
            Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: i64::from(timeout.subsec_nanos()) };
        match poll(&mut fds, Some(&timeout)) {
            Err(rustix::io::Errno::INTR) => {}
            done => drop(done?),
        }
        let mut ready = Ready { interrupted: !fds[0].revents().is_empty(), members: Vec::new() };
        let mut pairs = fds[1..].chunks_exact(2);
        for member in &self.members {
            let pair = if member.gone { None } else { pairs.next() };
            ready.members.push(pair.map_or(MemberReady { says: false, gone: false }, |pair| MemberReady {
                says: pair[0].revents().contains(PollFlags::IN),
                gone: pair[1].revents().contains(PollFlags::IN),
            }));
        }
        Ok(ready)
    }
}

struct Ready {
    interrupted: bool,
    members: Vec<MemberReady>,
}

#[derive(Clone, Copy)]
struct MemberReady {
    says: bool,
    gone: bool,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for member in self.members.iter_mut().filter(|member| !member.gone) {
            // By the child's handle: a process that is not waited for keeps its number.
            let _ = member.child.kill();
            let _ = member.child.wait();
        }
    }
}

impl Member {
    fn start(id: u8) -> io::Result<Member> {
        let (socket, theirs) = UnixStream::pair()?;
        socket.set_nonblocking(true)?;
        let mut command = Command::new("/proc/self/exe");
        command
            .arg0("ringleader")
            .args(["node", "--id", &id.to_string(), "--parent", &std::process::id().to_string()])
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            // Ctrl-C is the demo's to handle: a node that dies of it would look like a fault.
            .process_group(0);
        if id != 1 {
            // A test of the fabric: were it all nodes that stop in the middle of a copy, no majority would be left.
            command.env_remove("RINGLEADER_TEST_STOP_IN_COPY");
        }
        let mut child = command.spawn()?;
        let pid = Pid::from_child(&child);
        let pidfd = pidfd_open(pid, PidfdFlags::empty()).inspect_err(|_| {
            let _ = child.kill();
            let _ = child.wait();
        })?;
        Ok(Member {
            id,
            fate: Fate::Running,
            outbox: Outbox::default(),
            child,
            pidfd,
            socket,
            inbox: Inbox::default(),
            gone: false,
        })
    }

    /// Whether it runs.
    pub fn runs(&self) -> bool {
        self.fate == Fate::Running
    }

    /// Whether it lives, be it stopped.
    pub fn lives(&self) -> bool {
        matches!(self.fate, Fate::Running | Fate::Stopped)
    }

    /// Tells it something.
    pub fn order(&mut self, order: &Order) {
        self.outbox.push(order);
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

    fn signal(&self, signal: Signal) -> io::Result<u64> {
        let at_ns = now_ns();
        match pidfd_send_signal(self.pidfd.as_fd(), signal) {
            // It died by itself: the pidfd says so.
            Err(rustix::io::Errno::SRCH) => {}
            sent => sent?,
        }
        Ok(at_ns)
    }

    /// Takes what it said; all of it when it is gone.
    fn hear(&mut self, notices: &mut Vec<Notice>, all: bool) -> io::Result<()> {
        loop {
            let before = notices.len();
            // A connection that is reset has no more to say.
            let open = self.inbox.receive(&mut self.socket).unwrap_or(false);
            while let Some(frame) = self.inbox.take::<Report>()? {
                if let (group, Frame::Message(report)) = frame {
                    notices.push(Notice::Said(self.id, group, report));
                }
            }
            if !all || !open || notices.len() == before {
                return Ok(());
            }
        }
    }
}

fn fate(before: &Fate, status: ExitStatus) -> Fate {
    match (before, status.signal()) {
        (Fate::Killed, _) => Fate::Killed,
        (_, Some(signal)) if signal == Signal::KILL.as_raw() => Fate::Shot,
        (_, None) if status.success() => Fate::Closed,
        _ => Fate::Died(status.to_string()),
    }
}
