//! The nodes of a demo as processes: started, told, heard, struck, and never left behind.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::wire::{Frame, Inbox, Order, Outbox, Report};
pub use crate::processes::{Fate, Process, Signals};

/// One node.
#[derive(Debug)]
pub struct Member {
    /// Its id.
    pub id: u8,
    /// What is to be sent to it.
    pub outbox: Outbox,
    process: Process,
    socket: UnixStream,
    inbox: Inbox,
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

/// All nodes. Dropped, those that still live are killed.
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
                member.process.wait()?;
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
        for member in self.members.iter().filter(|member| !member.process.is_gone()) {
            let more = if member.outbox.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
            fds.push(PollFd::new(&member.socket, PollFlags::IN | more));
            fds.push(PollFd::from_borrowed_fd(member.process.pidfd(), PollFlags::IN));
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
            let pair = if member.process.is_gone() { None } else { pairs.next() };
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

impl Member {
    fn start(id: u8) -> io::Result<Member> {
        let (socket, theirs) = UnixStream::pair()?;
        socket.set_nonblocking(true)?;
        let mut command = Command::new("/proc/self/exe");
        command
            .arg0("ringleader")
            .args(["node", "--id", &id.to_string(), "--parent", &std::process::id().to_string()])
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null());
        if id != 1 {
            // A test of the fabric: were it all nodes that stop in the middle of a copy, no majority would be left.
            command.env_remove("RINGLEADER_TEST_STOP_IN_COPY");
        }
        let process = Process::start(&mut command)?;
        Ok(Member { id, outbox: Outbox::default(), process, socket, inbox: Inbox::default() })
    }

    /// What became of it.
    pub fn fate(&self) -> &Fate {
        self.process.fate()
    }

    /// Whether it runs.
    pub fn runs(&self) -> bool {
        self.process.runs()
    }

    /// Whether it lives, be it stopped.
    pub fn lives(&self) -> bool {
        self.process.lives()
    }

    /// Tells it something.
    pub fn order(&mut self, order: &Order) {
        self.outbox.push(order);
    }

    /// Sends it SIGKILL; returns when.
    pub fn kill(&mut self) -> io::Result<u64> {
        self.process.kill()
    }

    /// Sends it SIGSTOP; returns when.
    pub fn stop(&mut self) -> io::Result<u64> {
        self.process.stop()
    }

    /// Sends it SIGCONT; returns when.
    pub fn wake(&mut self) -> io::Result<u64> {
        self.process.wake()
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
