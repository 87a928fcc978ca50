//! The exchange's thread: everything that the node's connections need, one event after the other.
//!
//! Callers are strangers until they have said who they are: there are few of them at a time, each has little time, and
//! the oldest goes when there are too many.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use heapless::Vec as FixedVec;
use ringleader_core::options::Half;
use rtrb::{Consumer, Producer};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tracing::{debug, warn};

use super::connection::{Connection, Step};
use super::error::MeetError;
use super::identity::Identity;
use super::key::Key;
use super::peer::{Desk as PeerDesk, Peer};
use super::resolve::Resolver;
use super::seat::{SEATS, host_of};
use super::wake::Wake;
use super::wire::Message;
use super::{Command, Event, Timeouts};

/// Callers that have not said yet who they are.
const MAX_STRANGERS: usize = 32;
/// The listener and the wake, one connection a peer, and the strangers.
const MAX_FDS: usize = 2 + SEATS + MAX_STRANGERS;
/// Callers taken in before anything else is looked at.
const ACCEPT: usize = 8;
/// How long nobody is taken in when there are no descriptors left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// What has been said of strangers and is not said again.
const MAX_LOGGED: usize = 64;

/// See the module.
pub(super) struct Desk {
    pub(super) identity: Identity,
    pub(super) key: Key,
    pub(super) timeouts: Timeouts,
    /// None of a host, which nobody calls.
    pub(super) listener: Option<TcpListener>,
    pub(super) wake: Arc<Wake>,
    pub(super) stop: Arc<AtomicBool>,
    pub(super) commands: Consumer<Command>,
    pub(super) events: Producer<Event>,
    pub(super) backlog: VecDeque<Event>,
    /// By seat.
    pub(super) peers: [Option<Peer>; SEATS],
    pub(super) strangers: Vec<Connection>,
    pub(super) resolver: Option<Resolver>,
    pub(super) sessions: u64,
    /// Nobody is taken in before this; and whether that has been said.
    pub(super) accept_at: Instant,
    pub(super) accept_fails: bool,
    pub(super) logged: VecDeque<(IpAddr, MeetError)>,
}

/// Who is ready.
#[derive(Default)]
struct Ready {
    listener: bool,
    peers: [bool; SEATS],
    strangers: [bool; MAX_STRANGERS],
}

impl Desk {
    /// Until it is told to stop. All connections end with it.
    pub(super) fn run(mut self) {
        // Acquire: whatever was done before stopping is done.
        while !self.stop.load(Ordering::Acquire) {
            let now = Instant::now();
            self.take_commands(now);
            self.take_answers(now);
            for at in 0..self.peers.len() {
                self.with_peer(now, at, Peer::handle_time);
            }
            self.drop_slow_strangers(now);
            self.hand_over();
            let ready = self.wait(now);
            let now = Instant::now();
            for (at, _) in ready.peers.iter().enumerate().filter(|(_, ready)| **ready) {
                self.with_peer(now, at, Peer::handle_ready);
            }
            // From the last: those that go take no other's place.
            for at in (0..self.strangers.len()).rev().filter(|at| ready.strangers[*at]) {
                self.hear_stranger(now, at);
            }
            if ready.listener {
                self.accept(now);
            }
            self.hand_over();
        }
    }

    fn with_peer(&mut self, now: Instant, at: usize, act: impl FnOnce(&mut Peer, &mut PeerDesk<'_>)) {
        let Some(peer) = &mut self.peers[at] else { return };
        let (backlog, resolver) = (&mut self.backlog, &self.resolver);
        let mut desk = PeerDesk {
            now,
            timeouts: &self.timeouts,
            key: &self.key,
            identity: &self.identity,
            sessions: &mut self.sessions,
            events: &mut |event| backlog.push_back(event),
            resolve: &mut |node, name| {
                if let Some(resolver) = resolver {
                    resolver.ask(node, name);
                }
            },
        };
        act(peer, &mut desk);
    }

    fn take_commands(&mut self, now: Instant) {
        while let Ok(command) = self.commands.pop() {
            match command {
                Command::Meet { peer, attempt, card } => {
                    self.with_peer(now, peer.slot(), |peer, desk| peer.meet(desk, attempt, card));
                }
                Command::Leave { peer } => self.with_peer(now, peer.slot(), |peer, _| peer.leave()),
                Command::Group { group } => self.identity.group = group,
            }
        }
    }

    fn take_answers(&mut self, now: Instant) {
        while let Some((node, address)) = self.resolver.as_ref().and_then(Resolver::answer) {
            self.with_peer(now, node.slot(), |peer, desk| peer.handle_resolved(desk, address));
        }
    }

    /// Whatever finds no room now waits for the next time: nothing is lost, and the agent never waits.
    fn hand_over(&mut self) {
        while let Some(event) = self.backlog.pop_front() {
            if let Err(rtrb::PushError::Full(event)) = self.events.push(event) {
                self.backlog.push_front(event);
                return;
            }
        }
    }

    /// Waits until something is ready or due.
    fn wait(&self, now: Instant) -> Ready {
        let due = self.peers.iter().flatten().filter_map(|peer| peer.due(&self.timeouts));
        let due = due.chain(self.strangers.iter().map(|one| one.since() + self.timeouts.handshake));
        let accepts = self.accept_at <= now;
        let due = due.chain((!accepts).then_some(self.accept_at));
        // The agent takes events without saying so.
        let due = due.chain((!self.backlog.is_empty()).then(|| now + Duration::from_millis(1))).min();

        let mut fds: FixedVec<PollFd<'_>, MAX_FDS> = FixedVec::new();
        let mut add = |fd| assert!(fds.push(fd).is_ok(), "there is room for all descriptors");
        add(PollFd::from_borrowed_fd(self.wake.fd(), PollFlags::IN));
        let listens = if accepts { PollFlags::IN } else { PollFlags::empty() };
        if let Some(listener) = &self.listener {
            add(PollFd::new(listener, listens));
        }
        let all = self.peers.iter().map(|peer| peer.as_ref().and_then(Peer::connection));
        for connection in all.clone().flatten().chain(&self.strangers) {
            add(PollFd::from_borrowed_fd(connection.fd(), connection.interest()));
        }
        let timeout = due.map(|due| timespec(due.saturating_duration_since(now)));
        let mut ready = Ready::default();
        // A signal ends it early, which does no harm.
        if poll(&mut fds, timeout.as_ref()).unwrap_or(0) == 0 {
            return ready;
        }
        let mut is_ready = fds.iter().map(|fd| !fd.revents().is_empty());
        if is_ready.next() == Some(true) {
            self.wake.clear();
        }
        ready.listener = self.listener.is_some() && is_ready.next() == Some(true) && accepts;
        for (at, _) in all.enumerate().filter(|(_, connection)| connection.is_some()) {
            ready.peers[at] = is_ready.next() == Some(true);
        }
        for (to, from) in ready.strangers.iter_mut().zip(is_ready) {
            *to = from;
        }
        ready
    }

    fn accept(&mut self, now: Instant) {
        for _ in 0..ACCEPT {
            let Some(listener) = &self.listener else { return };
            let taken = match listener.accept() {
                Ok((socket, remote)) => Connection::answer(socket, remote, &self.key, now),
                Err(error) => Err(error),
            };
            match taken {
                Ok(connection) => {
                    if self.strangers.len() == MAX_STRANGERS {
                        // The oldest had the most time; a member needs a few milliseconds of it.
                        let oldest = self.strangers.remove(0);
                        self.log_stranger(oldest.remote(), MeetError::Silent);
                    }
                    self.accept_fails = false;
                    self.strangers.push(connection);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if is_callers(error.kind()) => {}
                Err(error) => {
                    if !self.accept_fails {
                        warn!(%error, "cannot take callers in");
                    }
                    self.accept_fails = true;
                    self.accept_at = now + ACCEPT_PAUSE;
                    return;
                }
            }
        }
    }

    fn hear_stranger(&mut self, now: Instant, at: usize) {
        self.strangers[at].handle_ready(now);
        loop {
            match self.strangers[at].next(now) {
                Ok(None) => return,
                Ok(Some(Step::Opened)) => {}
                Ok(Some(Step::Said(Message::Hello(identity)))) => {
                    let connection = self.strangers.remove(at);
                    self.meet_stranger(now, connection, identity);
                    return;
                }
                Ok(Some(Step::Said(_))) => return self.drop_stranger(at, MeetError::Malformed),
                Err(error) => return self.drop_stranger(at, error),
            }
        }
    }

    /// A caller that has the key says who it is. It is told who this is, whatever is wrong: it finds the same.
    fn meet_stranger(&mut self, now: Instant, mut connection: Connection, identity: Identity) {
        connection.say(&Message::Hello(self.identity), now);
        let remote = connection.remote();
        let checked = self.identity.check(&identity, None);
        let is_host = identity.half == Half::Proposer;
        let slot = if is_host { host_of(identity.node) } else { identity.node }.slot();
        let is_caller = |peer: &&Peer| peer.is_caller();
        let Some(peer) = self.peers[slot].as_ref().filter(is_caller) else {
            let not_a_member = MeetError::NotAMember { node: identity.node };
            return self.log_stranger(remote, checked.err().unwrap_or(not_a_member));
        };
        match checked.and_then(|()| peer.check_known(&identity)) {
            Ok(()) => self.with_peer(now, slot, |peer, desk| peer.admit(desk, connection, identity)),
            Err(why) => self.with_peer(now, slot, |peer, desk| peer.refuse(desk, remote, why)),
        }
    }

    fn drop_slow_strangers(&mut self, now: Instant) {
        // They are in the order in which they came.
        while let Some(oldest) = self.strangers.first()
            && oldest.since() + self.timeouts.handshake <= now
        {
            self.drop_stranger(0, MeetError::Silent);
        }
    }

    fn drop_stranger(&mut self, at: usize, why: MeetError) {
        let stranger = self.strangers.remove(at);
        self.log_stranger(stranger.remote(), why);
    }

    /// Once per address and cause, as far as these are remembered.
    fn log_stranger(&mut self, remote: SocketAddr, why: MeetError) {
        let what = (remote.ip(), why);
        if self.logged.contains(&what) {
            return debug!(%remote, "a caller was turned away: {why}");
        }
        if self.logged.len() == MAX_LOGGED {
            self.logged.pop_front();
        }
        self.logged.push_back(what);
        // A port that is only looked at is no news.
        if why == MeetError::Closed {
            debug!(%remote, "a caller was turned away: {why}");
        } else {
            warn!(%remote, "a caller was turned away: {why}");
        }
    }
}

/// Errors of `accept` that belong to the one caller (accept(2)): the next one may be taken in.
fn is_callers(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset | ErrorKind::Interrupted)
}

/// Rounded up: what is due is then due.
fn timespec(duration: Duration) -> Timespec {
    let duration = duration + Duration::from_micros(100);
    Timespec { tv_sec: duration.as_secs() as i64, tv_nsec: i64::from(duration.subsec_nanos()) }
}
