//! `ringleader kv`: a replicated key-value server that speaks the protocol of Redis, over the public parts of this library.
//!
//! A node's agent has a thread, as everywhere; all clients are served by another (`server`), which is handed every committed entry
//! (`machine`) and owns the keys (`store`). Writes of all clients go into entries together (`writes`, `batch`), reads wait until the
//! node is known to have applied everything that was acknowledged (`reads`). docs/kv.md says what clients may rely on.

mod batch;
mod client;
mod clients;
mod clock;
mod cluster;
mod command;
mod execute;
mod facts;
mod glob;
pub mod group;
mod local;
mod machine;
mod password;
mod reads;
mod reply;
mod request;
mod server;
mod snapshot;
mod store;
mod table;
mod writes;

use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use mio::net::TcpListener;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Waker};
use rustix::process::{Resource, getrlimit};

use crate::command::Command;
use crate::config::{Config, Fabric};
use crate::health::{MAX_CONNECTIONS, Nodes};
use crate::members::Members;
use crate::service::control::{Asked, Control, answer_all};
use crate::service::hosted::describe;
use crate::service::{Error, bind_health, open, say, start_agent, watch};
use crate::signals::Signals;
use crate::{Node, Options};
use facts::Facts;
use machine::{Bell, Machine, Shared};
use password::Password;
use request::Limits;
use server::{OTHERS, Server, WAKER};

/// Descriptors that are not clients'.
const OTHER_FDS: u64 = 64 + MAX_CONNECTIONS as u64;
/// Bytes by which a command may be larger than an entry: it gets an error of its own, and its sender stays.
const SLACK: usize = 64 << 10;
/// How often it is looked who is in the group.
const MEMBERS_EVERY: Duration = Duration::from_secs(1);

/// Runs a node until a signal comes. Who forms the group is told how, unless it is formed by whoever started the node.
pub fn run(config: &Config, is_of_group: bool) -> Result<(), Error> {
    let failed = |error: std::io::Error| Error::Failed(error.to_string());
    let wrong = |what: String| Error::Wrong(what);
    let signals = Signals::install().map_err(failed)?;
    let listen = config.kv.listen;
    let password = config.kv.password_file.as_deref().map(Password::read).transpose().map_err(wrong)?;
    let control = Control::bind(&config.control).map_err(wrong)?;
    let listener =
        TcpListener::bind(listen).map_err(|error| wrong(format!("cannot listen at {listen}: {error}")))?;
    let poll = Poll::new().map_err(failed)?;
    let waker = Waker::new(poll.registry(), WAKER).map_err(failed)?;
    for (fd, token) in [signals.fd().as_raw_fd(), control.fd().as_raw_fd()].into_iter().zip(OTHERS) {
        poll.registry().register(&mut SourceFd(&fd), token, Interest::READABLE).map_err(failed)?;
    }
    let shared = Shared::new(Bell::new(waker));
    let door = bind_health(std::slice::from_ref(config))?;
    let agent = start_agent(std::slice::from_ref(config))?;
    let Some(node) = open(config, &agent, Machine(Arc::clone(&shared)), &signals)? else { return Ok(()) };
    let facts = facts(config, &node, password);
    if !is_of_group {
        tell_where(config);
    }
    let health = door.open(watch(Nodes::new(&agent), config, &node)).map_err(failed)?;
    let ended = Server::new(&node, &facts, Arc::clone(&shared), poll, listener)
        .map_err(failed)
        .and_then(|server| serve(server, config, is_of_group, &node, &signals, &control));
    health.stopping();
    // The agent may be waiting for a server that is no more.
    shared.close();
    let closed = node.close().map_err(|error| Error::Failed(error.to_string()));
    ended.and(closed)
}

fn facts(config: &Config, node: &Node, password: Option<Password>) -> Facts {
    let max_entry = node.handle().max_payload();
    let snapshot_len = config.snapshot_len.unwrap_or(config.ring_len);
    // A client has a descriptor.
    let fds = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let max_fds = usize::try_from(fds.saturating_sub(OTHER_FDS)).unwrap_or(usize::MAX).max(1);
    Facts {
        group: config.group.to_string(),
        listen: config.kv.listen,
        addresses: config.kv.addresses.clone(),
        password,
        reads_by_lease: config.lease_reads.is_some(),
        max_clients: config.kv.max_clients.min(max_fds),
        limits: Limits { len: max_entry + SLACK, count: server::MAX_ARGS },
        max_reply: (64 << 20).max(2 * max_entry),
        max_size: snapshot::room(snapshot_len),
    }
}

fn tell_where(config: &Config) {
    let kv = &config.kv;
    say(format_args!("node {} of {}: serves clients at {}", config.node, config.group, kv.listen));
    let is_here = |address: &str| {
        address.starts_with("127.") || address.starts_with("[::1]") || address.starts_with("localhost:")
    };
    if matches!(config.fabric, Fabric::Verbs(_)) && kv.addresses.values().any(|address| is_here(address)) {
        say(format_args!(
            "clients on other machines will not find all nodes: {} has loopback addresses in [kv.addresses], or none",
            config.path.display()
        ));
    }
}

fn serve(
    mut server: Server<'_>,
    config: &Config,
    is_of_group: bool,
    node: &Node,
    signals: &Signals,
    control: &Control,
) -> Result<(), Error> {
    let stop = AtomicBool::new(false);
    let ended = thread::scope(|scope| {
        let asked = Asked::default();
        let mut events = Events::with_capacity(1024);
        let mut shown = None;
        let mut asking = Asking::default();
        let ended = loop {
            if let Err(error) = server.run_once(&mut events) {
                break Err(Error::Failed(format!("clients cannot be waited for: {error}")));
            }
            if events.iter().any(|event| event.token() == OTHERS[0]) && signals.is_raised() {
                break Ok(());
            }
            if events.iter().any(|event| event.token() == OTHERS[1]) {
                answer_all(control, scope, node, config.group, &asked, &stop);
            }
            let status = server.status();
            if status.closed {
                break Err(Error::Failed("the agent has ended".to_owned()));
            }
            let now = (
                status.formed,
                status.removed,
                status.voters,
                status.lost,
                status.role,
                status.leader,
                status.term,
            );
            if shown != Some(now) && (status.formed || !is_of_group) {
                shown = Some(now);
                say(format_args!("{}", describe(config, status)));
                asking.again();
            }
            if let Some(members) = asking.poll(node) {
                server.set_members(members);
            }
        };
        stop.store(true, Ordering::Relaxed);
        ended
    });
    drop(server);
    ended
}

/// Asks the agent now and then who is in the group, and does not wait for it.
#[derive(Default)]
struct Asking {
    answer: Option<Receiver<Members>>,
    asked_at: Option<Instant>,
}

impl Asking {
    /// It may have changed.
    fn again(&mut self) {
        self.asked_at = None;
    }

    fn poll(&mut self, node: &Node) -> Option<Members> {
        if let Some(members) = self.answer.as_ref().and_then(|answer| answer.try_recv().ok()) {
            self.answer = None;
            return Some(members);
        }
        if self.answer.is_none() && self.asked_at.is_none_or(|at| at.elapsed() >= MEMBERS_EVERY) {
            let (reply, answer) = mpsc::channel();
            if node.send(Command::Members { reply }).is_ok() {
                self.answer = Some(answer);
            }
            self.asked_at = Some(Instant::now());
        }
        None
    }
}

/// Bytes of the ring of a group that `ringleader kv --nodes` starts.
pub(crate) const LOCAL_RING_LEN: u64 = Options::RING_LEN / 4;
