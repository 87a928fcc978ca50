//! `ringleader kv --nodes N`: a group on this machine to try things with. A process a node, on loopback and shared memory, with a
//! configuration of its own that other commands take, too; all of it goes when this process does. When that is killed the nodes die
//! of it, and what they leave is swept by the next such command.

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Signal, pidfd_send_signal};

use super::LOCAL_RING_LEN;
use crate::config::Config;
use crate::processes::{Fate, Process};
use crate::scratch::{self, SHARED_MEMORY, Scratch};
use crate::service::control::{Answer, Question, ask};
use crate::service::{Error, say};
use crate::signals::Signals;

/// What the directories of such groups begin with.
const PREFIX: &str = "ringleader-kv-";
/// How long the nodes may take to come up, and to end: one that is stopped does not.
const PATIENCE: Duration = Duration::from_secs(30);
const END: Duration = Duration::from_secs(10);
const NAP: Duration = Duration::from_millis(20);

/// What group.
#[derive(Clone, Debug)]
pub struct Options {
    /// Nodes.
    pub nodes: u8,
    /// The port of the first; the others have the next ones.
    pub port: u16,
    /// Bytes that the state may come to.
    pub memory: u64,
}

/// Starts it, says how to talk to it, and waits for a signal.
pub fn run(options: &Options) -> Result<(), Error> {
    let failed = |error: io::Error| Error::Failed(error.to_string());
    let signals = Signals::install().map_err(failed)?;
    if !options.memory.is_multiple_of(64 << 10) {
        return Err(Error::Wrong(format!("--memory {}: it is a multiple of 64K", options.memory)));
    }
    // One that is taken is better known before anything is made.
    for node in 0..u16::from(options.nodes) {
        let Some(port) = options.port.checked_add(node) else {
            return Err(Error::Wrong(format!(
                "--port {}: there are no {} ports from there on",
                options.port, options.nodes
            )));
        };
        TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(|error| {
            Error::Wrong(format!("cannot listen at 127.0.0.1:{port}: {error}: see --port"))
        })?;
    }
    let shared = Path::new(SHARED_MEMORY);
    let base = if shared.is_dir() { shared.to_owned() } else { env::temp_dir() };
    scratch::sweep(&base, PREFIX);
    let scratch = Scratch::make(&base, PREFIX).map_err(failed)?;
    let path = scratch.dir().join("group.toml");
    fs::write(&path, configuration(options, scratch.dir())).map_err(failed)?;
    let mut nodes = Vec::new();
    let ended = bring_up(options, &path, &signals, &mut nodes).and_then(|is_up| {
        if is_up {
            tell(options, &path).map_err(failed)?;
            watch(&mut nodes, &path, &signals)?;
        }
        Ok(())
    });
    let gone: Vec<u8> =
        nodes.iter().filter(|(_, process)| process.is_gone()).map(|(node, _)| *node).collect();
    let stopped = stop(&mut nodes);
    for node in gone.into_iter().filter(|node| answers(&path, *node)) {
        say(format_args!(
            "node {node}, which somebody started again, goes on without the others: end it where it was started"
        ));
    }
    drop(scratch);
    ended.and(stopped)
}

fn configuration(options: &Options, dir: &Path) -> String {
    let ids: Vec<String> = (1..=options.nodes).map(|id| id.to_string()).collect();
    let mut text = format!(
        "# Made by `ringleader kv --nodes {}`, and gone when that ends.\ngroup = \"kv\"\nmembers = [{}]\nfabric = \"shm\"\n\
         ring = {LOCAL_RING_LEN}\nsnapshot = {}\nreadmit = \"auto\"\n\n[shm]\ndirectory = {:?}\n\n[kv.addresses]\n",
        options.nodes,
        ids.join(", "),
        options.memory,
        dir.join("nodes"),
    );
    for node in 1..=options.nodes {
        let _ = writeln!(text, "{node} = \"127.0.0.1:{}\"", port_of(options, node));
    }
    text
}

fn port_of(options: &Options, node: u8) -> u16 {
    options.port + u16::from(node) - 1
}

/// Starts the nodes and forms the group; false when a signal came in between.
fn bring_up(
    options: &Options,
    path: &Path,
    signals: &Signals,
    nodes: &mut Vec<(u8, Process)>,
) -> Result<bool, Error> {
    let program = env::current_exe().map_err(|error| Error::Failed(error.to_string()))?;
    let begun = Instant::now();
    let mut controls: Vec<PathBuf> = Vec::new();
    for node in 1..=options.nodes {
        let mut command = Command::new(&program);
        command.arg("kv").arg("--config").arg(path).args(["--node", &node.to_string()]);
        command
            .args(["--parent", &std::process::id().to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        let started = Process::start(&mut command);
        nodes.push((node, started.map_err(|error| Error::Failed(format!("node {node}: {error}")))?));
        let config = Config::read(path, Some(node)).map_err(|error| Error::Failed(error.to_string()))?;
        controls.push(config.control);
    }
    for control in &controls {
        while ask(control, &Question::Status, PATIENCE).is_err() {
            if signals.is_raised() {
                return Ok(false);
            }
            check(nodes)?;
            if begun.elapsed() > PATIENCE {
                return Err(Error::Failed("the nodes do not come up".to_owned()));
            }
            std::thread::sleep(NAP);
        }
    }
    let Some(first) = controls.first() else { return Ok(false) };
    let timeout_ms = PATIENCE.as_millis() as u64;
    match ask(first, &Question::Form { timeout_ms }, PATIENCE + Duration::from_secs(5)) {
        Ok(Answer::Formed { .. }) => Ok(true),
        _ if signals.is_raised() => Ok(false),
        Ok(Answer::Failed { why }) => Err(Error::Failed(format!("the group is not formed: {why}"))),
        Ok(_) => Err(Error::Failed("the group is not formed".to_owned())),
        Err(why) => Err(Error::Failed(why)),
    }
}

/// A node that ends while they are brought up has said why.
fn check(nodes: &mut [(u8, Process)]) -> Result<(), Error> {
    for (node, process) in nodes {
        if process.went().map_err(|error| Error::Failed(error.to_string()))? {
            return Err(Error::Failed(format!(
                "node {node} did not come up; how much memory each takes is set by --memory"
            )));
        }
    }
    Ok(())
}

fn tell(options: &Options, path: &Path) -> io::Result<()> {
    let (first, path) = (options.port, path.display());
    let text = format!(
        "ready: {} nodes at 127.0.0.1:{first} to {}\n\
         redis-cli -c -p {first} SET greeting hello      # any of them: -c follows to the node that leads\n\
         redis-cli -c -p {} GET greeting\n\
         ringleader status --config {path} --node 1\n\
         ringleader transfer --config {path} --node 1 --to 2\n\
         Ctrl-C ends all of them, and nothing is kept.\n",
        options.nodes,
        port_of(options, options.nodes),
        port_of(options, options.nodes),
    );
    match io::stdout().lock().write_all(text.as_bytes()) {
        // Whoever closed it does not want to read it.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

/// Whether the node runs, be it that somebody has started it again.
fn answers(path: &Path, node: u8) -> bool {
    Config::read(path, Some(node))
        .is_ok_and(|config| ask(&config.control, &Question::Status, Duration::from_secs(1)).is_ok())
}

/// Waits for a signal, or until no node runs any more.
fn watch(nodes: &mut [(u8, Process)], path: &Path, signals: &Signals) -> Result<(), Error> {
    loop {
        let mut fds = vec![PollFd::from_borrowed_fd(signals.fd(), PollFlags::IN)];
        let alive = nodes.iter().filter(|(_, process)| !process.is_gone());
        fds.extend(alive.map(|(_, process)| PollFd::from_borrowed_fd(process.pidfd(), PollFlags::IN)));
        if fds.len() == 1 && !nodes.iter().any(|(node, _)| answers(path, *node)) {
            return Err(Error::Failed("no node runs any more".to_owned()));
        }
        let _ = poll(&mut fds, Some(&Timespec { tv_sec: 1, tv_nsec: 0 }));
        if signals.is_raised() {
            return Ok(());
        }
        for (node, process) in &mut *nodes {
            if process.went().map_err(|error| Error::Failed(error.to_string()))? {
                let (fate, path) = (process.fate(), path.display());
                say(format_args!(
                    "node {node} has ended ({}); start it again: ringleader kv --config {path} --node {node}",
                    if *fate == Fate::Shot { "killed".to_owned() } else { fate.to_string() }
                ));
            }
        }
    }
}

/// Tells all to end, and waits for them.
fn stop(nodes: &mut [(u8, Process)]) -> Result<(), Error> {
    for (_, process) in nodes.iter().filter(|(_, process)| !process.is_gone()) {
        // One that has just ended needs no signal.
        let _ = pidfd_send_signal(process.pidfd(), Signal::TERM);
    }
    let begun = Instant::now();
    for (node, process) in nodes {
        while !process.is_gone() {
            if process.went().map_err(|error| Error::Failed(error.to_string()))? {
                break;
            }
            if begun.elapsed() > END {
                say(format_args!("node {node} does not end, and is killed"));
                process
                    .kill()
                    .and_then(|_| process.wait())
                    .map_err(|error| Error::Failed(error.to_string()))?;
                break;
            }
            std::thread::sleep(NAP);
        }
    }
    Ok(())
}
