//! One peer as this node's desk sees it: what is wanted of it, the one connection to it, and how far that is.
//!
//! The node with the lower id calls, the other answers. Once both know who the other is, the connection waits until both
//! want to meet: the one that answered offers its card as soon as it wants, the one that called gives its own in return,
//! and that is the session. A connection that waits stays, whatever becomes of the wish.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use ringleader_core::types::NodeId;
use tracing::{debug, info, warn};

use super::connection::{Connection, Step};
use super::error::MeetError;
use super::identity::Identity;
use super::key::Key;
use super::seat::{self, Named};
use super::wire::Message;
use super::{Card, Event, Timeouts};

/// The system heard nothing from there at all.
const NO_ANSWER: MeetError = MeetError::Unreachable(ErrorKind::TimedOut);

/// See the module.
pub(super) struct Peer {
    node: NodeId,
    /// Not of a host, which calls.
    address: Option<Address>,
    /// Whether this node is the one that calls.
    calls: bool,
    wish: Option<Wish>,
    link: Option<Link>,
    /// Not called again before this.
    retry_at: Instant,
    backoff: Duration,
    resolving: bool,
    /// Who it was when it was last heard.
    known: Option<Identity>,
    /// What was last said of it in the log.
    logged: Option<MeetError>,
}

/// Where a peer is called.
pub(super) enum Address {
    Fixed(SocketAddr),
    /// Looked up for each call: `host:port`.
    Name(String),
}

/// Somebody here wants to meet it.
struct Wish {
    attempt: u64,
    card: Card,
    deadline: Instant,
    /// What came in between, if it is not only that the other does not want to.
    cause: Option<MeetError>,
}

struct Link {
    connection: Connection,
    phase: Phase,
}

enum Phase {
    /// Getting connected, and to know each other.
    Opening,
    /// Both know each other. The caller may have been offered a card already.
    Waiting {
        identity: Identity,
        offered: Option<Card>,
    },
    /// The one that answered has offered its card.
    Offered {
        identity: Identity,
    },
    Met {
        session: u64,
    },
}

/// What a peer needs of the desk.
pub(super) struct Desk<'a> {
    pub(super) now: Instant,
    pub(super) timeouts: &'a Timeouts,
    pub(super) key: &'a Key,
    pub(super) identity: &'a Identity,
    pub(super) sessions: &'a mut u64,
    pub(super) events: &'a mut dyn FnMut(Event),
    pub(super) resolve: &'a mut dyn FnMut(NodeId, &str),
}

impl Peer {
    /// At that seat. `calls`: this node does.
    pub(super) fn new(seat: NodeId, address: Option<Address>, calls: bool, now: Instant) -> Peer {
        Peer {
            node: seat,
            address,
            calls,
            wish: None,
            link: None,
            retry_at: now,
            backoff: Duration::ZERO,
            resolving: false,
            known: None,
            logged: None,
        }
    }

    /// Whether it is the peer that calls this node.
    pub(super) fn is_caller(&self) -> bool {
        !self.calls
    }

    /// The connection, for whoever waits for it.
    pub(super) fn connection(&self) -> Option<&Connection> {
        self.link.as_ref().map(|link| &link.connection)
    }

    /// A new wish takes the place of a former one, and ends a former session.
    pub(super) fn meet(&mut self, desk: &mut Desk<'_>, attempt: u64, card: Card) {
        let is_used = |link: &Link| matches!(link.phase, Phase::Offered { .. } | Phase::Met { .. });
        if self.link.as_ref().is_some_and(is_used) {
            // The other end has this node's former card, or may have.
            self.link = None;
        }
        let deadline = desk.now + desk.timeouts.meet;
        self.wish = Some(Wish { attempt, card, deadline, cause: None });
        self.pursue(desk);
    }

    /// Neither a wish nor a session any more.
    pub(super) fn leave(&mut self) {
        self.wish = None;
        self.link = None;
    }

    /// It called, and said who it is. Takes the place of a former connection: whoever calls anew has given that up.
    pub(super) fn admit(&mut self, desk: &mut Desk<'_>, connection: Connection, identity: Identity) {
        self.end_session(desk);
        self.known = Some(identity);
        let phase = Phase::Waiting { identity, offered: None };
        self.link = Some(Link { connection, phase });
        self.reached();
        self.pursue(desk);
        // More may have come together with its name.
        self.hear(desk);
        if self.is_unwanted() {
            (desk.events)(Event::Knocks { peer: self.node });
        }
    }

    /// A host that has called waits for somebody here to want it, too.
    fn is_unwanted(&self) -> bool {
        let waits = self.link.as_ref().is_some_and(|link| matches!(link.phase, Phase::Waiting { .. }));
        seat::is_host(self.node) && waits && self.wish.is_none()
    }

    /// Whether this can be the peer that was heard before.
    pub(super) fn check_known(&self, identity: &Identity) -> Result<(), MeetError> {
        match &self.known {
            Some(known) if !known.is_consistent_with(identity) => Err(MeetError::Inconsistent),
            _ => Ok(()),
        }
    }

    /// It called, and something is wrong with it.
    pub(super) fn refuse(&mut self, desk: &mut Desk<'_>, remote: SocketAddr, why: MeetError) {
        self.log(Some(remote), why);
        self.fail_wish(desk, why);
    }

    /// Its address was looked up.
    pub(super) fn handle_resolved(&mut self, desk: &mut Desk<'_>, address: Option<SocketAddr>) {
        self.resolving = false;
        match address {
            Some(address) if self.link.is_none() && self.wish.is_some() => self.call(desk, address),
            Some(_) => {}
            None => {
                self.back_off(desk);
                self.fail(desk, None, MeetError::Unresolved);
            }
        }
    }

    /// Its connection is ready for something.
    pub(super) fn handle_ready(&mut self, desk: &mut Desk<'_>) {
        let Some(link) = &mut self.link else { return };
        link.connection.handle_ready(desk.now);
        self.hear(desk);
    }

    /// Takes everything whole that has come.
    fn hear(&mut self, desk: &mut Desk<'_>) {
        while let Some(link) = &mut self.link {
            match link.connection.next(desk.now) {
                Ok(None) => break,
                Ok(Some(step)) => {
                    if let Err(error) = self.handle_step(desk, step) {
                        self.break_off(desk, error);
                    }
                }
                Err(error) => self.break_off(desk, error),
            }
        }
    }

    /// Does what is due by now.
    pub(super) fn handle_time(&mut self, desk: &mut Desk<'_>) {
        let is_unwanted = self.is_unwanted();
        if let Some(link) = &mut self.link {
            let connection = &mut link.connection;
            let overdue = match link.phase {
                Phase::Opening => connection.since() + desk.timeouts.handshake,
                // It is to knock again.
                _ if is_unwanted => connection.since() + desk.timeouts.meet,
                _ => connection.heard() + desk.timeouts.idle,
            };
            if overdue <= desk.now {
                let why = if connection.is_connected() { MeetError::Silent } else { NO_ANSWER };
                self.break_off(desk, why);
            } else if connection.said() + desk.timeouts.alive <= desk.now {
                connection.say_alive(desk.now);
            }
        }
        if let Some(wish) = self.wish.take_if(|wish| wish.deadline <= desk.now) {
            // An offer stands no longer than the wish behind it.
            self.link.take_if(|link| matches!(link.phase, Phase::Offered { .. }));
            let is_calling = self.connection().is_some_and(|connection| !connection.is_connected());
            let why = wish.cause.unwrap_or(if is_calling { NO_ANSWER } else { MeetError::Timeout });
            debug!(peer = %Named(self.node), attempt = wish.attempt, %why, "not met");
            (desk.events)(Event::Failed { peer: self.node, attempt: wish.attempt, why });
        }
        self.pursue(desk);
    }

    /// When [`Peer::handle_time`] is to be called next.
    pub(super) fn due(&self, timeouts: &Timeouts) -> Option<Instant> {
        let link = self.link.as_ref().map(|link| match link.phase {
            Phase::Opening => link.connection.since() + timeouts.handshake,
            _ if self.is_unwanted() => link.connection.since() + timeouts.meet,
            _ => (link.connection.heard() + timeouts.idle).min(link.connection.said() + timeouts.alive),
        });
        let wish = self.wish.as_ref().map(|wish| wish.deadline);
        let calls = self.calls && self.link.is_none() && self.wish.is_some() && !self.resolving;
        [link, wish, calls.then_some(self.retry_at)].into_iter().flatten().min()
    }

    /// Goes on towards a session as far as both ends want one.
    fn pursue(&mut self, desk: &mut Desk<'_>) {
        let Some(wish) = &self.wish else { return };
        match &mut self.link {
            None if self.calls && !self.resolving && self.retry_at <= desk.now => match &self.address {
                Some(Address::Fixed(address)) => self.call(desk, *address),
                Some(Address::Name(name)) => {
                    self.resolving = true;
                    (desk.resolve)(self.node, name);
                }
                None => {}
            },
            Some(Link { connection, phase }) => {
                let Phase::Waiting { identity, offered } = *phase else { return };
                match offered {
                    None if self.calls => {}
                    None => {
                        connection.say(&Message::Card(wish.card), desk.now);
                        *phase = Phase::Offered { identity };
                    }
                    Some(theirs) => {
                        connection.say(&Message::Card(wish.card), desk.now);
                        self.meet_with(desk, identity, theirs);
                    }
                }
            }
            None => {}
        }
    }

    fn call(&mut self, desk: &mut Desk<'_>, address: SocketAddr) {
        self.back_off(desk);
        match Connection::dial(address, desk.key, desk.now) {
            Ok(connection) => self.link = Some(Link { connection, phase: Phase::Opening }),
            Err(error) => self.fail(desk, Some(address), MeetError::Unreachable(error.kind())),
        }
    }

    /// Until the other end proves to be a member, each call waits longer than the one before.
    fn back_off(&mut self, desk: &Desk<'_>) {
        self.backoff = (self.backoff * 2).clamp(desk.timeouts.retry_min, desk.timeouts.retry_max);
        self.retry_at = desk.now + self.backoff;
    }

    fn handle_step(&mut self, desk: &mut Desk<'_>, step: Step) -> Result<(), MeetError> {
        let Some(Link { connection, phase }) = &mut self.link else { return Ok(()) };
        match (phase, step) {
            (Phase::Opening, Step::Opened) => connection.say(&Message::Hello(*desk.identity), desk.now),
            (Phase::Opening, Step::Said(Message::Hello(identity))) => {
                desk.identity.check(&identity, Some(self.node))?;
                self.check_known(&identity)?;
                self.known = Some(identity);
                if let Some(link) = &mut self.link {
                    link.phase = Phase::Waiting { identity, offered: None };
                }
                self.reached();
                self.pursue(desk);
            }
            (_, Step::Said(Message::Alive)) => {}
            (Phase::Waiting { offered: offered @ None, .. }, Step::Said(Message::Card(card)))
                if self.calls =>
            {
                *offered = Some(card);
                self.pursue(desk);
            }
            (Phase::Offered { identity }, Step::Said(Message::Card(card))) => {
                let identity = *identity;
                self.meet_with(desk, identity, card);
            }
            _ => return Err(MeetError::Malformed),
        }
        Ok(())
    }

    /// The other end is a member. What went wrong before is over.
    fn reached(&mut self) {
        self.backoff = Duration::ZERO;
        if let Some(wish) = &mut self.wish {
            wish.cause = None;
        }
    }

    fn meet_with(&mut self, desk: &mut Desk<'_>, identity: Identity, card: Card) {
        let (Some(wish), Some(link)) = (self.wish.take(), &mut self.link) else { return };
        *desk.sessions += 1;
        let session = *desk.sessions;
        link.phase = Phase::Met { session };
        self.logged = None;
        info!(peer = %Named(self.node), remote = %link.connection.remote(), session, "met");
        (desk.events)(Event::Met { peer: self.node, attempt: wish.attempt, session, identity, card });
    }

    /// The connection is over.
    fn break_off(&mut self, desk: &mut Desk<'_>, why: MeetError) {
        let remote = self.connection().map(Connection::remote);
        let is_met = self.end_session(desk);
        self.link = None;
        if is_met {
            debug!(peer = %Named(self.node), %why, "session ended");
            self.retry_at = desk.now;
        } else {
            self.fail(desk, remote, why);
        }
    }

    /// Tells of the end of a session, if there is one.
    fn end_session(&mut self, desk: &mut Desk<'_>) -> bool {
        let Some(Link { phase: Phase::Met { session }, .. }) = self.link else { return false };
        (desk.events)(Event::Lost { peer: self.node, session });
        self.link = None;
        true
    }

    fn fail(&mut self, desk: &mut Desk<'_>, remote: Option<SocketAddr>, why: MeetError) {
        self.log(remote, why);
        self.fail_wish(desk, why);
    }

    /// What somebody has to mend ends the attempt; anything else may be over before the attempt is.
    fn fail_wish(&mut self, desk: &mut Desk<'_>, why: MeetError) {
        if !why.is_lasting() {
            if let Some(wish) = &mut self.wish {
                wish.cause = Some(why);
            }
        } else if let Some(wish) = self.wish.take() {
            (desk.events)(Event::Failed { peer: self.node, attempt: wish.attempt, why });
        }
    }

    /// Once per cause.
    fn log(&mut self, remote: Option<SocketAddr>, why: MeetError) {
        if self.logged == Some(why) {
            return;
        }
        self.logged = Some(why);
        let remote = remote.map(tracing::field::display);
        if why.is_lasting() {
            warn!(peer = %Named(self.node), remote, "{why}");
        } else {
            info!(peer = %Named(self.node), remote, "{why}");
        }
    }
}
