//! How nodes find each other: over TCP, under the group's key, they tell each other who they are and exchange the *cards*
//! by which their queue pairs meet. Nothing of the protocol's own goes this way, and safety does not depend on it.
//!
//! One session per pair of nodes at a time; its life is that of the one control queue pair between the two. A session
//! comes about only when both have called [`Exchange::meet`]. When a node calls it again, or dies, the other hears
//! [`Event::Lost`].
//!
//! `desk` is the thread, `peer` its state for one peer, `connection` one TCP connection (Noise NNpsk0), `wire` the bytes.

mod connection;
mod desk;
mod error;
mod identity;
mod key;
mod peer;
mod resolve;
mod seat;
mod wake;
mod wire;

use std::collections::VecDeque;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use std::{array, fmt};

use ringleader_core::options::Half;
use ringleader_core::timing::Timing;
use ringleader_core::types::{MAX_NODES, NodeId};
use rtrb::{Consumer, Producer, RingBuffer};

use desk::Desk;
use peer::{Address, Peer};
use resolve::Resolver;
use seat::SEATS;
use wake::Wake;

pub use error::{ExchangeError, MeetError};
pub use identity::{GroupName, Identity};
pub use key::{KEY_LEN, Key, KeyError, KeyFault};
pub use seat::{host_of, is_host, node_of};

/// Bytes of a card.
pub const CARD_LEN: usize = 192;

/// What one end's fabric tells the other's so that their queue pairs can meet. Nothing here looks into it.
pub type Card = [u8; CARD_LEN];

/// What an exchange is started with.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where this node is called; `None` for a host whose acceptor is apart, which nobody calls.
    pub listen: Option<SocketAddr>,
    /// Where the other nodes are called, or their acceptors, `address:port` or `name:port`, by id. Names are looked up for each call. A
    /// host whose acceptor is apart calls that one, too.
    pub peers: [Option<String>; MAX_NODES + 1],
    /// The group's.
    pub key: Key,
    /// This node.
    pub identity: Identity,
    /// How long everything may take.
    pub timeouts: Timeouts,
}

/// How long everything may take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timeouts {
    /// A wish to meet waits for the other side's.
    pub meet: Duration,
    /// Getting connected, and a caller until it has said who it is.
    pub handshake: Duration,
    /// A connection on which nothing is heard is over after this: several times `alive`.
    pub idle: Duration,
    /// A sign of life is sent this often.
    pub alive: Duration,
    /// The pause before a failed call is repeated, at first.
    pub retry_min: Duration,
    /// The longest pause.
    pub retry_max: Duration,
}

impl Timeouts {
    /// For a group with this timing.
    pub fn new(timing: &Timing) -> Timeouts {
        let suspect_after = Duration::from_nanos(timing.suspect_after_ns);
        // A process that is stopped for a while keeps its sessions, for its memory still answers; a dead one closes them, and a
        // host that came back without them says so at the next sign of life. Only what is cut off is left to this.
        let idle = (100 * suspect_after).max(Duration::from_secs(10));
        Timeouts {
            meet: (10 * suspect_after).max(Duration::from_millis(200)),
            handshake: Duration::from_secs(1),
            idle,
            alive: idle / 10,
            retry_min: Duration::from_millis(10),
            retry_max: Duration::from_millis(500),
        }
    }
}

/// What happened.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
#[expect(clippy::large_enum_variant, reason = "handed over without memory of its own")]
pub enum Event {
    /// Both wanted it. Both ends get this, each with the other's card.
    Met {
        /// Whom.
        peer: NodeId,
        /// The number that this side gave its wish.
        attempt: u64,
        /// The session, different from all others of this exchange.
        session: u64,
        /// Who the peer is.
        identity: Identity,
        /// Its card.
        card: Card,
    },
    /// This attempt is over. (Not told of one that a later attempt or [`Exchange::leave`] put an end to.)
    Failed {
        /// Whom.
        peer: NodeId,
        /// The number that this side gave its wish.
        attempt: u64,
        /// What came in between.
        why: MeetError,
    },
    /// The host of a node has called, and waits for [`Exchange::meet`]. Soon it goes again.
    Knocks {
        /// Its seat ([`host_of`]).
        peer: NodeId,
    },
    /// The session is over, or the peer wants another one: the control queue pair is to be taken down. (Not told of one
    /// that [`Exchange::meet`] or [`Exchange::leave`] of this side put an end to.)
    Lost {
        /// Whose.
        peer: NodeId,
        /// Which.
        session: u64,
    },
}

/// What the agent's thread asks of the desk.
#[derive(Clone, Copy)]
enum Command {
    Meet { peer: NodeId, attempt: u64, card: Card },
    Leave { peer: NodeId },
    Group { group: u128 },
}

/// Room for commands and events between the two threads. What finds none waits on its own side.
const QUEUE: usize = 64;

/// One node's exchange. Its thread ends, and its connections with it, when it is dropped.
#[derive(Debug)]
pub struct Exchange {
    local_addr: SocketAddr,
    commands: Producer<Command>,
    events: Consumer<Event>,
    /// The last command for each peer, and in the first place the group's, that found no room yet.
    held: [Option<Command>; SEATS],
    wake: Arc<Wake>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A card has keys to memory in it.
        match self {
            Event::Met { peer, attempt, session, .. } => {
                write!(f, "Met(node {peer}, attempt {attempt}, session {session})")
            }
            Event::Failed { peer, attempt, why } => {
                write!(f, "Failed(node {peer}, attempt {attempt}, {why:?})")
            }
            Event::Knocks { peer } => write!(f, "Knocks(node {peer})"),
            Event::Lost { peer, session } => write!(f, "Lost(node {peer}, session {session})"),
        }
    }
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Command::Meet { peer, attempt, .. } => write!(f, "Meet({peer}, {attempt})"),
            Command::Leave { peer } => write!(f, "Leave({peer})"),
            Command::Group { group } => write!(f, "Group({group:032x})"),
        }
    }
}

impl Exchange {
    /// Listens, and starts the thread.
    pub fn start(options: Options) -> Result<Exchange, ExchangeError> {
        let now = Instant::now();
        let Identity { node: me, half, .. } = options.identity;
        let addresses = check(&options)?;
        let needs_names = addresses.iter().flatten().any(|address| matches!(address, Address::Name(_)));
        let (listener, local_addr) = match options.listen {
            None => (None, SocketAddr::from(([0, 0, 0, 0], 0))),
            Some(at) => {
                let listen = |error| ExchangeError::Listen { at, error };
                let listener = TcpListener::bind(at).map_err(listen)?;
                listener.set_nonblocking(true).map_err(listen)?;
                let local_addr = listener.local_addr().map_err(listen)?;
                (Some(listener), local_addr)
            }
        };
        let wake = Arc::new(Wake::new().map_err(ExchangeError::System)?);
        let stop = Arc::new(AtomicBool::new(false));
        let (commands, their_commands) = RingBuffer::new(QUEUE);
        let (their_events, events) = RingBuffer::new(QUEUE);
        let resolver = needs_names.then(|| Resolver::start(Arc::clone(&wake))).transpose();
        let mut peers: [Option<Peer>; SEATS] = array::from_fn(|_| None);
        for (at, address) in addresses.into_iter().enumerate() {
            let (node, known) = (NodeId(at as u8), address.is_some());
            let calls = half == Half::Proposer || me < node;
            peers[at] = address.map(|address| Peer::new(node, Some(address), calls, now));
            // Whose acceptor may be called may turn out to have a host apart. It calls.
            if half != Half::Proposer && known || half == Half::Acceptor && node == me {
                let host = host_of(node);
                peers[host.slot()] = Some(Peer::new(host, None, false, now));
            }
        }
        let desk = Desk {
            peers,
            identity: options.identity,
            key: options.key,
            timeouts: options.timeouts,
            listener,
            wake: Arc::clone(&wake),
            stop: Arc::clone(&stop),
            commands: their_commands,
            events: their_events,
            backlog: VecDeque::with_capacity(QUEUE),
            strangers: Vec::new(),
            resolver: resolver.map_err(ExchangeError::System)?,
            sessions: 0,
            accept_at: now,
            accept_fails: false,
            logged: VecDeque::new(),
        };
        let thread = thread::Builder::new()
            .name(format!("exchange-{me}"))
            .spawn(move || desk.run())
            .map_err(ExchangeError::System)?;
        let held = [None; SEATS];
        Ok(Exchange { local_addr, commands, events, held, wake, stop, thread: Some(thread) })
    }

    /// Wants a session with a peer. A former one ends, and so does a former attempt. Never waits.
    ///
    /// `attempt` comes back with what becomes of it: [`Event::Met`], or [`Event::Failed`] when the peer did not want to,
    /// or could not, within [`Timeouts::meet`].
    pub fn meet(&mut self, peer: NodeId, attempt: u64, card: &Card) {
        self.command(peer.slot(), Command::Meet { peer, attempt, card: *card });
    }

    /// Wants nothing of a peer any more. A session ends, and so does an attempt. Never waits.
    pub fn leave(&mut self, peer: NodeId) {
        self.command(peer.slot(), Command::Leave { peer });
    }

    /// The group is formed: from now on this node says so. Never waits.
    pub fn set_group(&mut self, group: u128) {
        self.command(0, Command::Group { group });
    }

    /// What happened next. Never waits, and allocates nothing.
    pub fn poll(&mut self) -> Option<Event> {
        if self.held.iter().any(Option::is_some) {
            self.hand_over();
        }
        self.events.pop().ok()
    }

    /// Where this node is called: with the port that the system chose, when it was asked to. Nowhere, when it does not listen.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    fn command(&mut self, slot: usize, command: Command) {
        // The latest is what is wanted: it takes the place of one that was not handed over yet.
        if let Some(held) = self.held.get_mut(slot) {
            *held = Some(command);
            self.hand_over();
        }
    }

    fn hand_over(&mut self) {
        for held in &mut self.held {
            if let Some(command) = held.take()
                && self.commands.push(command).is_err()
            {
                *held = Some(command);
                break;
            }
        }
        self.wake.wake();
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        // Release: pairs with the desk's look at it.
        self.stop.store(true, Ordering::Release);
        self.wake.wake();
        if let Some(thread) = self.thread.take() {
            // It panicked, and said so.
            let _ = thread.join();
        }
    }
}

/// Everything that can be told without touching the system.
fn check(options: &Options) -> Result<[Option<Address>; MAX_NODES + 1], ExchangeError> {
    let me = options.identity.node;
    let wrong = |text: String| Err(ExchangeError::Option(text));
    if !me.is_valid() {
        return wrong(format!("node {me}: ids are 1 to {MAX_NODES}"));
    }
    let is_host = options.identity.half == Half::Proposer;
    if options.peers[0].is_some() || options.peers[me.slot()].is_some() != is_host {
        return wrong(match is_host {
            true => format!("the host of node {me} needs the address of its acceptor, and nobody has id 0"),
            false => format!("node {me} cannot be its own peer, and nobody has id 0"),
        });
    }
    let Timeouts { meet, handshake, idle, alive, retry_min, retry_max } = options.timeouts;
    if [meet, handshake, idle, alive, retry_min].contains(&Duration::ZERO)
        || alive >= idle
        || retry_min > retry_max
    {
        return wrong("the exchange's time-outs contradict each other".to_owned());
    }
    let mut addresses = array::from_fn(|_| None);
    for (to, text) in addresses.iter_mut().zip(&options.peers) {
        let Some(text) = text else { continue };
        *to =
            Some(address(text).ok_or_else(|| ExchangeError::Option(format!("{text:?} is no address:port")))?);
    }
    Ok(addresses)
}

/// An address or name with a port.
fn address(text: &str) -> Option<Address> {
    if let Ok(address) = text.parse() {
        return Some(Address::Fixed(address));
    }
    let (host, port) = text.rsplit_once(':')?;
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    let is_right =
        !host.is_empty() && host.bytes().all(is_name) && port.parse::<u16>().is_ok_and(|port| port > 0);
    is_right.then(|| Address::Name(text.to_owned()))
}

/// Whether a text can be a node's address: `address:port` or `name:port`.
pub fn is_address(text: &str) -> bool {
    address(text).is_some()
}
