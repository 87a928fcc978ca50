//! The health thread: takes those in who ask, answers them, looks now and then whether the agent lives, and tells the service manager.

use std::io;
use std::net::TcpListener as Bound;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use mio::net::TcpListener;
use mio::{Events, Interest, Poll, Token, Waker};

use super::connection::Connection;
use super::notify::Manager;
use super::page::Page;
use super::pulse::Pulse;
use super::request::Code;
use super::{Told, Watched};

/// Those who are answered at a time; when there is one more the one who came first goes.
pub const MAX_CONNECTIONS: usize = 32;

/// How often the agent is looked at, where the service manager asks for no more.
const LOOK: Duration = Duration::from_millis(250);
/// An agent that makes no round for so long counts as dead.
const DEAD_AFTER: Duration = Duration::from_secs(5);

const WAKER: Token = Token(0);
const LISTENER: Token = Token(1);
const FIRST: usize = 2;

const TEXT: &str = "text/plain; charset=utf-8";

/// See the head of this file.
pub(super) struct Server<W> {
    poll: Poll,
    listener: Option<TcpListener>,
    /// In the order in which they came.
    connections: Vec<Connection>,
    /// Given out so far: none is given out twice.
    tokens: usize,
    watch: Watch<W>,
    manager: Option<Manager>,
    told: Arc<Told>,
    look: Duration,
}

/// What is looked at, and what was seen.
struct Watch<W> {
    watched: W,
    pulse: Pulse,
    is_stopping: bool,
}

impl<W: Watched> Server<W> {
    pub(super) fn new(
        bound: Option<Bound>,
        manager: Option<Manager>,
        watched: W,
        told: Arc<Told>,
    ) -> io::Result<(Server<W>, Waker)> {
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), WAKER)?;
        let listener = bound.map(|bound| -> io::Result<TcpListener> {
            bound.set_nonblocking(true)?;
            let mut listener = TcpListener::from_std(bound);
            poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
            Ok(listener)
        });
        let listener = listener.transpose()?;
        let watchdog = manager.as_ref().and_then(Manager::watchdog);
        let look = watchdog.map_or(LOOK, |watchdog| LOOK.min(watchdog / 6)).max(Duration::from_millis(1));
        let limit = u32::try_from(DEAD_AFTER.as_nanos() / look.as_nanos()).unwrap_or(u32::MAX);
        let watch = Watch { watched, pulse: Pulse::new(limit), is_stopping: false };
        let (connections, tokens) = (Vec::with_capacity(MAX_CONNECTIONS), 0);
        Ok((Server { poll, listener, connections, tokens, watch, manager, told, look }, waker))
    }

    /// Until it is told to end.
    pub(super) fn run(mut self) {
        let mut events = Events::with_capacity(2 * MAX_CONNECTIONS);
        let mut due = Instant::now();
        if let Some(manager) = &self.manager {
            manager.ready();
        }
        loop {
            let now = Instant::now();
            if now >= due {
                self.look(now);
                due = now + self.look;
            }
            // A signal ends it early; whatever else it may be, the next look is not made at once.
            if let Err(error) = self.poll.poll(&mut events, Some(due - now))
                && error.kind() != io::ErrorKind::Interrupted
            {
                std::thread::sleep(self.look);
            }
            self.hear();
            if self.told.end.load(Ordering::Relaxed) {
                return;
            }
            let who: Vec<Token> = events.iter().map(mio::event::Event::token).collect();
            for token in who {
                match token {
                    WAKER => {}
                    LISTENER => self.accept(),
                    token => self.advance(token),
                }
            }
        }
    }

    /// What it was told meanwhile.
    fn hear(&mut self) {
        if self.told.stopping.load(Ordering::Relaxed) && !self.watch.is_stopping {
            self.watch.is_stopping = true;
            if let Some(manager) = &self.manager {
                manager.stopping();
            }
        }
    }

    fn look(&mut self, now: Instant) {
        self.connections.retain(|connection| !connection.is_late(now));
        // Whom there was no descriptor for when he came.
        self.accept();
        self.watch.pulse.look(self.watch.watched.rounds());
        let Some(manager) = &mut self.manager else { return };
        manager.status(&self.watch.in_one_line());
        if manager.is_due() && self.watch.pulse.take_moved() {
            manager.alive();
        }
    }

    /// As many as there is room for at a time: a crowd does not keep those from their answers who are here.
    fn accept(&mut self) {
        for _ in 0..MAX_CONNECTIONS {
            let Some(Ok((mut stream, _))) = self.listener.as_ref().map(TcpListener::accept) else { return };
            let token = Token(FIRST + self.tokens);
            self.tokens = self.tokens.wrapping_add(1) % (usize::MAX - FIRST);
            let both = Interest::READABLE | Interest::WRITABLE;
            if self.poll.registry().register(&mut stream, token, both).is_err() {
                continue;
            }
            if self.connections.len() >= MAX_CONNECTIONS {
                self.connections.remove(0);
            }
            self.connections.push(Connection::new(token, stream));
            // What was sent along is there already.
            self.advance(token);
        }
    }

    fn advance(&mut self, token: Token) {
        let Some(at) = self.connections.iter().position(|connection| connection.token == token) else {
            return;
        };
        let watch = &self.watch;
        if !self.connections[at].advance(&mut |path| watch.answer(path)) {
            let mut over = self.connections.remove(at);
            // Closing it does the same.
            let _ = self.poll.registry().deregister(over.stream());
        }
    }
}

impl<W: Watched> Watch<W> {
    fn answer(&self, path: &str) -> (Code, String, String) {
        let text = |code, body: String| (code, TEXT.to_owned(), body);
        match path {
            "/healthz" if self.pulse.is_alive() => text(Code::Ok, "alive\n".to_owned()),
            "/healthz" => text(Code::Unavailable, "the agent's thread makes no rounds\n".to_owned()),
            "/readyz" => {
                let (is_ready, body) = self.readiness();
                text(if is_ready { Code::Ok } else { Code::Unavailable }, body)
            }
            "/metrics" => {
                let mut page = Page::default();
                self.watched.measure(&mut page);
                let (body, kind) = page.encode();
                (Code::Ok, kind, body)
            }
            _ => text(Code::NotFound, "there are /healthz, /readyz and /metrics\n".to_owned()),
        }
    }

    /// Whether all is ready, and a line for each; first the reason that lies with none of them.
    fn readiness(&self) -> (bool, String) {
        let all = self.watched.readiness();
        let mut body = String::new();
        if self.is_stopping {
            body.push_str("not ready: the service ends\n");
        } else if !self.pulse.is_alive() {
            body.push_str("not ready: the agent's thread makes no rounds\n");
        }
        let is_ready = body.is_empty() && all.iter().all(|one| one.is_ready);
        for one in all {
            body.push_str(if one.is_ready { "ready: " } else { "not ready: " });
            body.push_str(&one.text);
            body.push('\n');
        }
        (is_ready, body)
    }

    fn in_one_line(&self) -> String {
        if self.is_stopping {
            return "ends".to_owned();
        }
        if !self.pulse.is_alive() {
            return "the agent's thread makes no rounds".to_owned();
        }
        let all = self.watched.readiness();
        all.into_iter().map(|one| one.text).collect::<Vec<_>>().join("; ")
    }
}
