//! `ringleader run`: one node as a process of its own, or nodes of several groups on one agent thread, until a signal ends it.
//!
//! Lines of the standard input are proposed while the node leads; every applied entry goes out as a line (`applied`). A
//! node is told to form its group, and asked how it is, over a socket of its own (`control`). One thread, the desk, does
//! all that for all `hosted` nodes; it sleeps whenever nothing comes, for the agent needs the processor.

mod acceptor;
mod applied;
pub mod control;
pub(crate) mod hosted;
mod lines;
mod members;
pub mod status;

use std::fmt;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::getpgrp;
use rustix::termios::tcgetpgrp;

use crate::config::{Config, Fabric};
use crate::exchange::Key;
use crate::health::{Door, Nodes};
use crate::signals::Signals;
use crate::stderr::Stderr;
use crate::{AgentOptions, AgentThread, MAX_GROUPS, Node, Options, StateMachine, placement};
pub use acceptor::run_acceptor;
use control::{Asked, Control};
use hosted::{Hosted, Taken, describe};
use lines::Lines;

/// How long the desk sleeps when nothing comes: with proposals on their way, and without.
const NAP_BUSY: Duration = Duration::from_micros(500);
const NAP_IDLE: Duration = Duration::from_millis(20);

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

/// Runs the nodes of these configurations until a signal comes. Applied entries of a single one go to the file `applied`, which
/// must not be there yet or be empty, or else to the standard output; those of several to `<group>.applied` in the directory
/// `applied`, which must be given.
pub fn run(configs: &[Config], applied: Option<&Path>) -> Result<(), Error> {
    let failed = |error: io::Error| Error::Failed(error.to_string());
    let signals = Signals::install().map_err(failed)?;
    check_together(configs, applied)?;
    let several = configs.len() > 1;
    let controls: Result<Vec<Control>, String> =
        configs.iter().map(|config| Control::bind(&config.control)).collect();
    let controls = controls.map_err(Error::Wrong)?;
    let door = bind_health(configs)?;
    let agent = start_agent(configs)?;
    let (mut nodes, mut kept) = (Vec::new(), Vec::new());
    for config in configs {
        let path = match applied {
            Some(dir) if several => Some(dir.join(format!("{}.applied", config.group))),
            path => path.map(Path::to_owned),
        };
        let (out, made) = match &path {
            Some(path) => open_applied(path)?,
            None => (io::stdout().as_fd().try_clone_to_owned().map_err(failed)?.into(), Made(None)),
        };
        let (keeper, writer) = applied::keeper(out).map_err(failed)?;
        let Some(node) = open(config, &agent, keeper, &signals)? else { return Ok(()) };
        nodes.push((node, writer, path));
        kept.push(made);
    }
    let watched = configs
        .iter()
        .zip(&nodes)
        .fold(Nodes::new(&agent), |watched, (config, (node, _, _))| watch(watched, config, node));
    let health = door.open(watched).map_err(failed)?;
    kept.into_iter().for_each(Made::keep);
    let hosted = configs.iter().zip(&nodes).zip(&controls);
    let hosted = hosted.map(|((config, (node, writer, _)), control)| {
        Hosted::new(config, several.then_some(config.group), node, writer, control)
    });
    let mut ended = Desk { hosted: hosted.collect(), lines: Lines::new(), told: false }.run(&signals);
    health.stopping();
    for (node, writer, path) in nodes {
        let closed = node.close().map_err(|error| Error::Failed(error.to_string()));
        let written = writer.finish().map_err(|error| match path {
            Some(path) => Error::Failed(format!("{}: {error}", path.display())),
            None => Error::Failed(format!("standard output: {error}")),
        });
        // What broke says more than that the node has ended.
        ended = written.and(closed).and(ended);
    }
    ended
}

/// Whether these can be hosted together.
fn check_together(configs: &[Config], applied: Option<&Path>) -> Result<(), Error> {
    let wrong = |what: String| Err(Error::Wrong(what));
    let [first, others @ ..] = configs else { return wrong("no configuration".to_owned()) };
    if configs.len() > MAX_GROUPS {
        return wrong(format!(
            "{} configurations: a process hosts {MAX_GROUPS} groups at most",
            configs.len()
        ));
    }
    let health = health_address(configs);
    for (at, config) in others.iter().enumerate() {
        let path = config.path.display();
        if let Some(other) = configs[..=at].iter().find(|other| other.group == config.group) {
            return wrong(format!("{path}: group {} is that of {}, too", config.group, other.path.display()));
        }
        if let (Some(wanted), Some(is)) = (config.health, health)
            && wanted != is
        {
            return wrong(format!(
                "{path}: [health] listen is the one process's: {is} in all files, or left out"
            ));
        }
        if config.pin != first.pin || config.idle != first.idle {
            let first = first.path.display();
            return wrong(format!("{path}: `pin` and `idle` are those of the one thread: as in {first}"));
        }
    }
    match applied {
        Some(dir) if !others.is_empty() && !dir.is_dir() => {
            wrong(format!("--applied {}: with several groups this is a directory", dir.display()))
        }
        None if !others.is_empty() => {
            wrong("--applied: with several groups the directory of their files must be given".to_owned())
        }
        _ => Ok(()),
    }
}

/// Where the process is asked for its health: one address, whatever it hosts.
fn health_address(configs: &[Config]) -> Option<SocketAddr> {
    configs.iter().find_map(|config| config.health)
}

/// That address, taken.
pub(crate) fn bind_health(configs: &[Config]) -> Result<Door, Error> {
    let door = Door::bind(health_address(configs)).map_err(Error::Wrong)?;
    if let Some(address) = door.address() {
        say(format_args!("health and metrics at http://{address}"));
    }
    Ok(door)
}

/// With this node among those that are watched.
pub(crate) fn watch(watched: Nodes, config: &Config, node: &Node) -> Nodes {
    let config = config.clone();
    watched.with(config.group, node.view(), move |status| describe(&config, status))
}

/// The thread of all of them.
pub(crate) fn start_agent(configs: &[Config]) -> Result<AgentThread, Error> {
    let (pin, idle) = configs.first().map_or_else(Default::default, |first| (first.pin, first.idle));
    let options = AgentOptions { pin, idle, groups: configs.len() };
    AgentThread::start(&options).map_err(|error| Error::Wrong(error.to_string()))
}

/// The node of a configuration, with this application; `None` when a signal came before it had what it waits for.
pub(crate) fn open(
    config: &Config,
    agent: &AgentThread,
    machine: impl StateMachine,
    signals: &Signals,
) -> Result<Option<Node>, Error> {
    let lent = placement::lend(config, options_of(config)?, || signals.is_raised())?;
    let Some((options, lent)) = lent else { return Ok(None) };
    let node = Node::open_on(agent, options, machine).map_err(|error| Error::Wrong(error.to_string()))?;
    lent.map(|lent| lent.watch(&node)).transpose()?;
    Ok(Some(node))
}

/// What a node of this configuration is opened with.
fn options_of(config: &Config) -> Result<Options, Error> {
    match &config.fabric {
        Fabric::Shm { .. } => Ok(config.shm_options().expect("it is shared memory")),
        Fabric::Verbs(verbs) => {
            let key = Key::read(&verbs.key_file).map_err(|error| Error::Wrong(error.to_string()))?;
            config.verbs_options(key).ok_or_else(|| {
                let path = config.path.display();
                Error::Wrong(format!("{path}: fabric = \"verbs\" is not part of this build"))
            })
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

struct Desk<'a> {
    hosted: Vec<Hosted<'a>>,
    lines: Lines,
    /// What became of the lines is told.
    told: bool,
}

impl Desk<'_> {
    fn run(mut self, signals: &Signals) -> Result<(), Error> {
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let asked = Asked::default();
            while !signals.is_raised() {
                self.hosted.iter_mut().for_each(Hosted::look);
                if self.hosted.iter().all(Hosted::is_over) {
                    break;
                }
                self.propose();
                self.hosted.iter_mut().for_each(Hosted::take_outcomes);
                self.wait(signals);
                for hosted in &self.hosted {
                    hosted.answer(scope, &asked, &stop);
                }
            }
            stop.store(true, Ordering::Relaxed);
        });
        self.hosted.into_iter().try_for_each(Hosted::ended)
    }

    /// Waits until something comes, but not for long: outcomes and changes come without a sound.
    fn wait(&mut self, signals: &Signals) {
        let nap = if self.hosted.iter().any(Hosted::waits) { NAP_BUSY } else { NAP_IDLE };
        let stdin = io::stdin();
        let mut fds = vec![PollFd::from_borrowed_fd(signals.fd(), PollFlags::IN)];
        fds.extend(
            self.hosted.iter().map(|hosted| PollFd::from_borrowed_fd(hosted.control.fd(), PollFlags::IN)),
        );
        let before = fds.len();
        if self.lines.wants_more() && !is_in_background(stdin.as_fd()) {
            fds.push(PollFd::new(&stdin, PollFlags::IN));
        }
        let nap = Timespec { tv_sec: 0, tv_nsec: i64::from(nap.subsec_nanos()) };
        // A signal ends it early, and is looked for next.
        if poll(&mut fds, Some(&nap)).is_ok_and(|count| count > 0)
            && fds.get(before).is_some_and(|fd| !fd.revents().is_empty())
        {
            let longest = self.hosted.iter().map(Hosted::max_line).max().unwrap_or(0);
            self.lines.receive(stdin.as_fd(), longest);
        }
    }

    /// Proposes lines to the groups that they are for. A line that has to wait keeps those behind it waiting.
    fn propose(&mut self) {
        while let Some((number, line)) = self.lines.next() {
            let taken = match self.hosted.as_mut_slice() {
                [one] => one.propose(number, line),
                several => {
                    let (name, line) = line.map_or((None, None), prefixed);
                    match several.iter_mut().find(|hosted| name.is_some() && name == hosted.name().as_deref())
                    {
                        Some(hosted) => hosted.propose(number, line),
                        None => {
                            say(format_args!(
                                "line {number}: does not begin with the name of a group here, and a space: not proposed"
                            ));
                            Taken::Done
                        }
                    }
                }
            };
            if taken == Taken::Waits {
                break;
            }
            self.lines.done();
        }
        self.hosted.iter_mut().for_each(Hosted::tell_refused);
        let done = self.lines.is_over() && !self.hosted.iter().any(Hosted::waits);
        if done && !self.told {
            self.told = true;
            self.hosted.iter().for_each(Hosted::tell_count);
        }
    }
}

/// The name that a line begins with, and what comes behind the space after it.
fn prefixed(line: &[u8]) -> (Option<&str>, Option<&[u8]>) {
    let space = line.iter().position(|byte| *byte == b' ');
    let (name, rest) = line.split_at(space.unwrap_or(0));
    (str::from_utf8(name).ok().filter(|name| !name.is_empty()), rest.get(1..))
}

/// Whether it is a terminal that another job has now: reading it would stop this process, and with it the node.
fn is_in_background(stdin: BorrowedFd<'_>) -> bool {
    tcgetpgrp(stdin).is_ok_and(|group| group != getpgrp())
}

/// For people. Whoever closed the standard error output, or does not read it, does not want to hear it.
pub(crate) fn say(what: fmt::Arguments<'_>) {
    let _ = Stderr.write_all(format!("{what}\n").as_bytes());
}
