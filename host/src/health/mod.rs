//! What the world outside may ask of a running agent, and what its service manager is told: `/healthz`, `/readyz` and `/metrics`
//! over HTTP, and sd_notify(3).
//!
//! One thread does all of it, and only looks: at counters and snapshots that the agent posts anyway. Nothing here takes part in a
//! commit, and whoever asks badly, slowly or too often costs at most this thread, [`MAX_CONNECTIONS`] descriptors and their buffers.
//!
//! What is watched is behind [`Watched`]: [`Nodes`], for nodes and for acceptors alone, or what an agent of another kind makes of it.
//!
//! ```no_run
//! use ringleader::health::{Door, Nodes, parse_address};
//! # use ringleader::{Acceptor, AgentOptions, AgentThread, Options};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let options = Options::new("/dev/shm/orders", 1, [1, 2, 3]);
//!
//! // Before anything else is made: a wrong address leaves nothing behind.
//! let door = Door::bind(Some(parse_address("127.0.0.1:7490")?))?;
//! let agent = AgentThread::start(&AgentOptions::default())?;
//! let acceptor = Acceptor::open_on(&agent, options)?;
//! let health = door.open(Nodes::new(&agent).with_acceptor("orders", &acceptor))?; // READY=1
//! // ... until a signal comes ...
//! health.stopping(); // STOPPING=1
//! acceptor.close()?;
//! # Ok(())
//! # }
//! ```

mod connection;
mod nodes;
mod notify;
mod page;
mod pulse;
mod request;
mod server;

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;
use std::{fmt, io};

use mio::Waker;

pub use nodes::Nodes;
pub(crate) use nodes::describe_acceptor;
use notify::Manager;
pub(crate) use notify::VARIABLES;
pub use page::{Kind, Metric, Page};
pub use server::MAX_CONNECTIONS;
use server::Server;

/// The port of node_exporter, which a DPU runs.
const NODE_EXPORTER: u16 = 9100;
/// How long the end may wait for the thread, which may itself be waiting for a service manager that does not listen.
const END: Duration = Duration::from_secs(2);

/// What is watched. Called by the health thread, several times a second: it may wait for nothing.
pub trait Watched: Send + 'static {
    /// Rounds that the agent's thread has made so far; `None` while it has none to make. The process counts as alive as long as
    /// this grows.
    fn rounds(&self) -> Option<u64>;

    /// How everything is that has to be ready: a line each.
    fn readiness(&self) -> Vec<Readiness>;

    /// Everything that can be counted. What is not there now is left out.
    fn measure(&self, page: &mut Page);
}

/// Whether one thing is ready, and in one line how it is, or why it is not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Readiness {
    /// It is.
    pub is_ready: bool,
    /// The line, without its end.
    pub text: String,
}

/// An address where health is asked for: one that can be listened at, and is nobody else's by custom.
pub fn parse_address(text: &str) -> Result<SocketAddr, String> {
    let address: SocketAddr =
        text.parse().map_err(|_| format!("{text:?} is no address:port, as in \"127.0.0.1:7490\""))?;
    if address.port() == NODE_EXPORTER {
        return Err(format!(
            "{text}: port {NODE_EXPORTER} is node_exporter's, and taken on every DPU: choose another, such as 7490"
        ));
    }
    Ok(address)
}

/// The address, taken, and who started this process, known; nothing is served yet.
#[derive(Debug)]
pub struct Door {
    listener: Option<TcpListener>,
    manager: Option<Manager>,
}

impl Door {
    /// Listens at `address`, if there is one. An error in words.
    pub fn bind(address: Option<SocketAddr>) -> Result<Door, String> {
        let listen = |address: SocketAddr| {
            TcpListener::bind(address)
                .map_err(|error| format!("cannot listen at {address} for questions after health: {error}"))
        };
        let listener = address.map(listen).transpose()?;
        Ok(Door { listener, manager: Manager::of_environment() })
    }

    /// Where it listens.
    pub fn address(&self) -> Option<SocketAddr> {
        self.listener.as_ref().and_then(|listener| listener.local_addr().ok())
    }

    /// Answers from now on, and tells the service manager that the service is up. Without an address, and without a service
    /// manager, there is nothing to do, and no thread.
    pub fn open(self, watched: impl Watched) -> io::Result<Health> {
        if self.listener.is_none() && self.manager.is_none() {
            return Ok(Health(None));
        }
        let told = Arc::new(Told::default());
        let (server, waker) = Server::new(self.listener, self.manager, watched, Arc::clone(&told))?;
        let (sender, ended) = mpsc::channel::<()>();
        thread::Builder::new().name("health".to_owned()).spawn(move || {
            // Whoever ends it hears that it has, however it does.
            let _ended = sender;
            server.run();
        })?;
        Ok(Health(Some(Running { told, waker, ended })))
    }
}

/// The thread, until this is dropped.
#[must_use = "nothing is answered any more once it is dropped"]
pub struct Health(Option<Running>);

struct Running {
    told: Arc<Told>,
    waker: Waker,
    ended: Receiver<()>,
}

/// What the thread is told.
#[derive(Default, Debug)]
struct Told {
    /// The service ends.
    stopping: AtomicBool,
    /// The thread is to end.
    end: AtomicBool,
}

impl Health {
    /// The service ends: its manager is told, and it is not ready any more.
    pub fn stopping(&self) {
        if let Some(running) = &self.0 {
            running.tell(&running.told.stopping);
        }
    }
}

impl Running {
    fn tell(&self, what: &AtomicBool) {
        // Relaxed: nothing else is read on the strength of it; the waker is a system call away.
        what.store(true, Ordering::Relaxed);
        // The next look, a moment later, would find it, too.
        let _ = self.waker.wake();
    }
}

impl Drop for Health {
    fn drop(&mut self) {
        if let Some(running) = &self.0 {
            running.tell(&running.told.stopping);
            running.tell(&running.told.end);
            // Nothing is ever sent: it ends by the thread's end.
            let _ = running.ended.recv_timeout(END);
        }
    }
}

impl fmt::Debug for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Health").field("running", &self.0.is_some()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
