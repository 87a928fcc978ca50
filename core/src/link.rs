//! The control queue pair to one peer: connected with back-off, and used only after the peer's header was read and fits.
//!
//! A link says who is at the other end (boot, incarnation) and nothing about whether it is alive: that is for the detector.

#[cfg(feature = "model")]
use crate::canonical::{Canonical, Counter, Space};
use crate::layout::{Header, LAYOUT_VERSION, Line, MAGIC, control, staging};
use crate::mem::{Area, Memory};
use crate::types::{Boot, Epoch, Incarnation, Instant, NodeId};
use crate::verb::{Class, Completion, RequestId, Status, Verb};

/// Back-off doubles up to so many times the first wait.
const MAX_BACKOFF: u64 = 16;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum State {
    Down,
    Connecting,
    Checking { posted: bool },
    Up,
}

/// Who is at the other end.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub(crate) struct Peer {
    pub(crate) boot: Boot,
    pub(crate) incarnation: Incarnation,
    pub(crate) group: u128,
    /// Who writes its request lines: the same life, but where its host is apart.
    pub(crate) proposer: Boot,
}

impl Peer {
    fn of(header: &Header) -> Peer {
        Peer {
            boot: Boot(header.boot),
            incarnation: Incarnation(header.incarnation),
            group: u128::from(header.group_high) << 64 | u128::from(header.group_low),
            proposer: Boot(header.proposer),
        }
    }
}

/// What a peer's header must agree with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Geometry {
    pub(crate) group: u128,
    pub(crate) ring_len: u64,
    pub(crate) max_entry: u64,
}

/// What a completion did to a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Change {
    None,
    Up,
    Down,
    /// The header was read again, and says something else.
    Changed,
}

/// The connection to one peer.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    node: NodeId,
    state: State,
    connection: Epoch,
    since: Instant,
    retry_at: Instant,
    backoff: u64,
    peer: Peer,
    /// Opaque number of this node's end of the log queue pair to the peer.
    numbers: u64,
    /// While it is up: the header is to be read again, or is being.
    again: Again,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Again {
    No,
    Wanted,
    Posted,
}

impl Link {
    pub(crate) fn new(node: NodeId) -> Link {
        Link {
            node,
            state: State::Down,
            connection: Epoch(0),
            since: Instant(0),
            retry_at: Instant(0),
            backoff: 1,
            peer: Peer::default(),
            numbers: 0,
            again: Again::No,
        }
    }

    pub(crate) fn is_up(&self) -> bool {
        self.state == State::Up
    }

    /// Which connection in a row this is.
    pub(crate) fn connection(&self) -> Epoch {
        self.connection
    }

    /// Who was found at the other end last.
    pub(crate) fn peer(&self) -> Peer {
        self.peer
    }

    pub(crate) fn numbers(&self) -> u64 {
        self.numbers
    }

    fn id(&self, class: Class) -> RequestId {
        RequestId { peer: self.node, class, epoch: self.connection, number: 0 }
    }

    /// The next step of getting connected. `free`: nothing is open on the log queue pair to this peer.
    pub(crate) fn poll(&mut self, now: Instant, free: bool) -> Option<Verb> {
        match self.state {
            State::Down if free && now >= self.retry_at => {
                self.connection = Epoch(self.connection.0.wrapping_add(1));
                self.state = State::Connecting;
                self.since = now;
                Some(Verb::Connect { id: self.id(Class::Connect) })
            }
            State::Checking { posted: false } => {
                self.state = State::Checking { posted: true };
                Some(self.read_header())
            }
            State::Up if self.again == Again::Wanted => {
                self.again = Again::Posted;
                self.since = now;
                Some(self.read_header())
            }
            _ => None,
        }
    }

    fn read_header(&self) -> Verb {
        Verb::Read {
            id: self.id(Class::Header),
            from: control::HEADER,
            to: staging::header(self.node.slot()),
            len: size_of::<Header>() as u32,
        }
    }

    /// What the header says may have changed.
    pub(crate) fn look_again(&mut self) {
        if self.is_up() && self.again == Again::No {
            self.again = Again::Wanted;
        }
    }

    pub(crate) fn handle_completion<M: Memory>(
        &mut self,
        now: Instant,
        done: &Completion,
        repeat_ns: u64,
        geometry: Geometry,
        staging: &Area<M>,
    ) -> Change {
        if done.id.epoch != self.connection || self.state == State::Down {
            return Change::None;
        }
        if done.status != Status::Success {
            return self.fail(now, repeat_ns);
        }
        match (done.id.class, self.state) {
            (Class::Connect, State::Connecting) => {
                self.numbers = done.value;
                self.state = State::Checking { posted: false };
                Change::None
            }
            (Class::Header, State::Checking { .. }) => {
                match Header::read(staging, staging::header(self.node.slot())) {
                    Some(header) if self.accepts(&header, geometry) => {
                        self.peer = Peer::of(&header);
                        self.again = Again::No;
                        self.backoff = 1;
                        self.state = State::Up;
                        Change::Up
                    }
                    _ => self.fail(now, repeat_ns),
                }
            }
            (Class::Header, State::Up) if self.again == Again::Posted => {
                self.again = Again::No;
                match Header::read(staging, staging::header(self.node.slot())) {
                    // Being written at this moment.
                    None => Change::None,
                    Some(header) => {
                        let found = Peer::of(&header);
                        let same = found.boot == self.peer.boot && found.incarnation == self.peer.incarnation;
                        if !same || !self.accepts(&header, geometry) {
                            return self.fail(now, repeat_ns);
                        }
                        let changed = found != self.peer;
                        self.peer = found;
                        if changed { Change::Changed } else { Change::None }
                    }
                }
            }
            _ => Change::None,
        }
    }

    fn accepts(&self, header: &Header, geometry: Geometry) -> bool {
        let group = u128::from(header.group_high) << 64 | u128::from(header.group_low);
        header.magic == MAGIC
            && header.layout == LAYOUT_VERSION
            && header.node == u64::from(self.node.0)
            && header.boot != 0
            && header.incarnation != 0
            && header.ring_len == geometry.ring_len
            && header.max_entry == geometry.max_entry
            && (group == 0 || geometry.group == 0 || group == geometry.group)
    }

    /// The peer was seen to belong to the group by now (its header was read before it was formed).
    pub(crate) fn handle_formed(&mut self, group: u128) {
        self.peer.group = group;
    }

    /// The control queue pair is of no use any more; who is connected hears of it.
    pub(crate) fn fail(&mut self, now: Instant, repeat_ns: u64) -> Change {
        let was_up = self.is_up();
        self.again = Again::No;
        self.state = State::Down;
        self.retry_at = now.after(repeat_ns * self.backoff);
        self.backoff = (self.backoff * 2).min(MAX_BACKOFF);
        if was_up { Change::Down } else { Change::None }
    }

    /// Getting connected has been under way for longer than `limit`, or than several times that after it has failed before.
    pub(crate) fn is_stalled(&self, now: Instant, limit: u64) -> bool {
        let limit = limit.saturating_mul(self.backoff.min(4));
        let waits = matches!(self.state, State::Connecting | State::Checking { .. });
        (waits || self.again == Again::Posted) && now.since(self.since) > limit
    }
}

#[cfg(feature = "model")]
impl Link {
    pub(crate) fn canonical(&self, me: NodeId, out: &mut impl Canonical) {
        let Link { node, state, connection, since, retry_at, backoff, peer, numbers, again } = *self;
        out.plain((state, connection, backoff, peer, again));
        out.moment(since);
        out.moment(retry_at);
        out.count(Space::new(Counter::End, me, node), numbers);
    }
}
