//! `ringleader run`: one node as a process of its own, until a signal ends it.
//!
//! Lines of the standard input are proposed while the node leads; every applied entry goes out as a line (`applied`). The
//! node is told to form its group, and asked how it is, over a socket of its own (`control`). One thread, the desk, does
//! all that; it sleeps whenever nothing comes, for the agent needs the processor.

mod applied;
pub mod control;
mod lines;
mod members;
pub mod status;

use std::collections::VecDeque;
use std::fmt;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Scope};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::getpgrp;
use rustix::termios::tcgetpgrp;
use tracing::warn;

use crate::config::{Config, Fabric};
use crate::exchange::Key;
use crate::signals::Signals;
use crate::stderr::Stderr;
use crate::{Handle, Node, Outcome, Role, Status, SubmitError};
use applied::{Keeper, Writer};
use control::{Asked, Control};
use lines::Lines;
use status::NodeStatus;

/// How long the desk sleeps when nothing comes: with proposals on their way, and without.
const NAP_BUSY: Duration = Duration::from_micros(500);
const NAP_IDLE: Duration = Duration::from_millis(20);
/// Questions answered at a time.
const MAX_ASKED: usize = 8;

/// Why a node could not be run, or did not end well.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The configuration, or what it names, is wrong: nothing was started, nothing is left behind.
    Wrong(String),
    /// Something failed on the way.
    Failed(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Wrong(what) | Error::Failed(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for Error {}

/// Runs the node until a signal comes. Applied entries go to the file, which must not be there yet or be empty, or else
/// to the standard output.
pub fn run(config: &Config, applied: Option<&Path>) -> Result<(), Error> {
    let failed = |error: io::Error| Error::Failed(error.to_string());
    let signals = Signals::install().map_err(failed)?;
    let control = Control::bind(&config.control).map_err(Error::Wrong)?;
    let (out, made) = match applied {
        Some(path) => open_applied(path)?,
        None => (io::stdout().as_fd().try_clone_to_owned().map_err(failed)?.into(), Made(None)),
    };
    let (keeper, writer) = applied::keeper(out).map_err(failed)?;
    let node = open(config, keeper)?;
    made.keep();
    let desk = Desk {
        config,
        node: &node,
        handle: node.handle(),
        lines: Lines::new(),
        outstanding: VecDeque::new(),
        count: Count::default(),
        shown: None,
    };
    let ended = desk.run(&signals, &control, &writer);
    let closed = node.close().map_err(|error| Error::Failed(error.to_string()));
    let written = writer.finish().map_err(|error| match applied {
        Some(path) => Error::Failed(format!("{}: {error}", path.display())),
        None => Error::Failed(format!("standard output: {error}")),
    });
    // What broke says more than that the node has ended.
    written.and(closed).and(ended)
}

/// The node of the configuration.
fn open(config: &Config, keeper: Keeper) -> Result<Node, Error> {
    let wrong = |error: &dyn fmt::Display| Error::Wrong(error.to_string());
    match &config.fabric {
        Fabric::Shm { .. } => {
            let options = config.shm_options().expect("it is shared memory");
            Node::open(options, keeper).map_err(|error| wrong(&error))
        }
        Fabric::Verbs(verbs) => {
            let key = Key::read(&verbs.key_file).map_err(|error| wrong(&error))?;
            let Some(options) = config.verbs_options(key) else {
                return Err(Error::Wrong(format!(
                    "{}: fabric = \"verbs\" is not part of this build",
                    config.path.display()
                )));
            };
            Node::open(options, keeper).map_err(|error| wrong(&error))
        }
    }
}

/// A file that goes again unless it is kept.
struct Made(Option<PathBuf>);

impl Made {
    fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            let _ = std::fs::remove_file(path);
        }
    }
}

fn open_applied(path: &Path) -> Result<(std::fs::File, Made), Error> {
    let wrong = |what: &dyn fmt::Display| Error::Wrong(format!("--applied {}: {what}", path.display()));
    let is_new = !path.exists();
    // A pipe without a reader is not waited for: no signal would end that.
    let flags = OFlags::NONBLOCK.bits() as i32;
    let opened = OpenOptions::new().append(true).create(true).custom_flags(flags).open(path);
    let file = opened.map_err(|error| match error.raw_os_error() {
        Some(libc::ENXIO) => wrong(&"nobody reads this pipe"),
        _ => wrong(&error),
    })?;
    fcntl_getfl(&file)
        .and_then(|flags| fcntl_setfl(&file, flags - OFlags::NONBLOCK))
        .map_err(|error| wrong(&error))?;
    let made = Made(is_new.then(|| path.to_owned()));
    let metadata = file.metadata().map_err(|error| wrong(&error))?;
    if metadata.is_file() && metadata.len() > 0 {
        // A node begins with the first entry: behind what another has written that would be twice there.
        return Err(wrong(&"is not empty: a node writes all entries from the first on"));
    }
    Ok((file, made))
}

/// What became of the lines.
#[derive(Default)]
struct Count {
    committed: u64,
    unknown: u64,
    refused: u64,
    told: bool,
}

struct Desk<'a> {
    config: &'a Config,
    node: &'a Node,
    handle: Handle,
    lines: Lines,
    /// Number of each line that the agent has, in its order.
    outstanding: VecDeque<u64>,
    count: Count,
    /// The last status line.
    shown: Option<String>,
}

impl Desk<'_> {
    fn run(mut self, signals: &Signals, control: &Control, writer: &Writer) -> Result<(), Error> {
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let asked = Asked::default();
            let ended = loop {
                if signals.is_raised() {
                    break Ok(());
                }
                let status = self.node.status();
                if status.closed {
                    break Err(Error::Failed("the agent has ended".to_owned()));
                }
                if writer.is_broken() {
                    // What broke is told by whoever waits for its end.
                    break Ok(());
                }
                self.show(&status);
                self.propose(&status);
                self.take_outcomes();
                self.wait(signals, control);
                self.answer(scope, control, &asked, &stop);
            };
            stop.store(true, Ordering::Relaxed);
            ended
        })
    }

    /// Waits until something comes, but not for long: outcomes and changes come without a sound.
    fn wait(&mut self, signals: &Signals, control: &Control) {
        let nap = if self.outstanding.is_empty() { NAP_IDLE } else { NAP_BUSY };
        let stdin = io::stdin();
        let mut fds = vec![
            PollFd::from_borrowed_fd(signals.fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(control.fd(), PollFlags::IN),
        ];
        if self.lines.wants_more() && !is_in_background(stdin.as_fd()) {
            fds.push(PollFd::new(&stdin, PollFlags::IN));
        }
        let nap = Timespec { tv_sec: 0, tv_nsec: i64::from(nap.subsec_nanos()) };
        // A signal ends it early, and is looked for next.
        if poll(&mut fds, Some(&nap)).is_ok_and(|count| count > 0)
            && fds.get(2).is_some_and(|fd| !fd.revents().is_empty())
        {
            let stdin: BorrowedFd<'_> = stdin.as_fd();
            self.lines.receive(stdin, self.handle.max_payload());
        }
    }

    /// Proposes lines while this node leads, and says so when it does not.
    fn propose(&mut self, status: &Status) {
        let leads = status.role == Role::Leader;
        let other = status.leader.filter(|leader| *leader != status.node);
        let mut refused: Option<(u64, u64)> = None;
        while let Some((number, line)) = self.lines.next() {
            let Some(line) = line else {
                say(format_args!(
                    "line {number}: longer than an entry can be ({} bytes): not proposed",
                    self.handle.max_payload()
                ));
                self.count.refused += 1;
                self.lines.done();
                continue;
            };
            if !leads {
                // Nobody leads: somebody soon will.
                if other.is_none() {
                    break;
                }
                self.count.refused += 1;
                refused = Some((refused.map_or(number, |(first, _)| first), number));
                self.lines.done();
                continue;
            }
            match self.handle.propose(line) {
                Ok(_) => self.outstanding.push_back(number),
                Err(SubmitError::Full) => break,
                // It is noticed next.
                Err(_) => break,
            }
            self.lines.done();
        }
        if let (Some((first, last)), Some(leader)) = (refused, other) {
            say(format_args!("{}: not proposed: node {leader} leads", numbered(first, last)));
        }
        if self.lines.is_over() && self.outstanding.is_empty() && !self.count.told {
            self.count.told = true;
            let Count { committed, unknown, refused, .. } = self.count;
            if committed + unknown + refused > 0 {
                say(format_args!(
                    "end of input: {committed} lines committed, {unknown} of unknown outcome, {refused} not proposed"
                ));
            }
        }
    }

    fn take_outcomes(&mut self) {
        let (mut unknown, mut refused) = (None, None);
        while let Some((_, outcome)) = self.handle.poll() {
            let Some(number) = self.outstanding.pop_front() else { break };
            let (range, count) = match outcome {
                Outcome::Committed { .. } => {
                    self.count.committed += 1;
                    continue;
                }
                Outcome::Unknown => (&mut unknown, &mut self.count.unknown),
                Outcome::NotLeader { .. } => (&mut refused, &mut self.count.refused),
            };
            *count += 1;
            let first = range.map_or(number, |(first, _)| first);
            *range = Some((first, number));
        }
        if let Some((first, last)) = unknown {
            say(format_args!("{}: the lead was lost: may be applied, or never", numbered(first, last)));
        }
        if let Some((first, last)) = refused {
            say(format_args!("{}: not proposed: the lead was lost", numbered(first, last)));
        }
    }

    /// Says what has changed.
    fn show(&mut self, status: &Status) {
        let line = describe(self.config, status);
        if self.shown.as_ref() != Some(&line) {
            say(format_args!("{line}"));
            self.shown = Some(line);
        }
    }

    /// Takes questions in; each is answered by a thread of its own, for forming takes its time.
    fn answer<'scope>(
        &self,
        scope: &'scope Scope<'scope, '_>,
        control: &Control,
        asked: &Asked,
        stop: &'scope AtomicBool,
    ) where
        Self: 'scope,
    {
        while let Some(stream) = control.accept() {
            let Some(turn) = asked.turn(MAX_ASKED) else { continue };
            let node = self.node;
            let name = self.config.group;
            let answer = move || {
                control::answer(&stream, node, name.as_str(), stop);
                drop(turn);
            };
            if let Err(error) = thread::Builder::new().name("control".to_owned()).spawn_scoped(scope, answer)
            {
                warn!(%error, "cannot answer");
            }
        }
    }
}

/// Whether it is a terminal that another job has now: reading it would stop this process, and with it the node.
fn is_in_background(stdin: BorrowedFd<'_>) -> bool {
    tcgetpgrp(stdin).is_ok_and(|group| group != getpgrp())
}

/// What a node is, in a few words.
fn describe(config: &Config, status: &Status) -> String {
    let node = status.node;
    if !status.formed {
        return format!(
            "node {node} of {}: waits for its group to be formed: ringleader form --config {} --node {node}, once; or to be added to one: ringleader member add {node}, asked of its leader",
            config.group,
            config.path.display()
        );
    }
    let NodeStatus { group, .. } = NodeStatus::new("", status);
    let (name, path) = (config.group, config.path.display());
    if status.removed {
        return format!(
            "node {node} of {name}: was removed from group {group}; to add it again, start it anew"
        );
    }
    if status.voters == 0 {
        return format!("node {node} of {name}: comes to group {group}, waits for its log");
    }
    if status.lost > 0 && status.voters - status.lost <= status.voters / 2 {
        return format!(
            "node {node} of {name}: group {group} has stopped: {} of {} voters came back without their memory; what is left: ringleader recover --config {path} --node {node}",
            status.lost, status.voters
        );
    }
    match (status.role, status.leader) {
        (Role::Leader, _) => {
            format!("node {node} of {}: leads in term {}, group {group}", config.group, status.term)
        }
        (_, Some(leader)) if leader != node => {
            format!(
                "node {node} of {}: follows node {leader} in term {}, group {group}",
                config.group, status.term
            )
        }
        _ => format!("node {node} of {}: nobody leads, group {group}", config.group),
    }
}

fn numbered(first: u64, last: u64) -> String {
    if first == last { format!("line {first}") } else { format!("lines {first} to {last}") }
}

/// For people. Whoever closed the standard error output, or does not read it, does not want to hear it.
fn say(what: fmt::Arguments<'_>) {
    let _ = Stderr.write_all(format!("{what}\n").as_bytes());
}
