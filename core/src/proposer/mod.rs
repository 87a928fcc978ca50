//! The part of a node that campaigns, leads and replicates (protocol.md 7 and 8). It asks acceptors, its own among them, and
//! writes only where one of them has granted it to.

mod apart;
mod candidate;
mod catchup;
mod change;
mod confirm;
mod flights;
mod follower;
mod leader;
mod lease;
pub(crate) mod outbound;
pub(crate) mod peer;
mod reads;
mod transfer;
mod window;

use apart::Apart;
use candidate::Election;
pub use confirm::Confirm;
use leader::Leadership;
pub use leader::{OwnCopy, Quorum};
pub use peer::FollowerState;
use peer::Peer;
use reads::Reads;
pub use transfer::TransferError;

use crate::acceptor::{Acceptor, Surroundings};
#[cfg(feature = "model")]
use crate::canonical::{Canonical, Counter, Space};
use crate::event::{Event, Events, GiveUp};
use crate::layout;
use crate::layout::AnswerLine;
use crate::link::Link;
use crate::mailbox::Route;
use crate::mark;
use crate::mem::{Areas, Memory};
use crate::membership::Configuration;
use crate::options::{Half, Identity};
use crate::proposer::flights::What;
use crate::read::LeaseReads;
use crate::rng::Rng;
use crate::table::Table;
use crate::timing::Timing;
use crate::types::{Boot, Incarnation, Instant, MAX_NODES, NodeId, Position, Promise};
use crate::verb::{Class, Completion, Status, Verb};
use crate::watch::Watch;

/// What a node does in its group.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Role {
    /// Follows, or waits for somebody to follow.
    Follower,
    /// Asks for votes.
    Candidate,
    /// Leads.
    Leader,
    /// Has given up, and is telling its followers so.
    Yielding,
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Proposer {
    me: Identity,
    /// The acceptor that is here, by its node: nobody's, where it is apart. The own one is then one like the others.
    here: NodeId,
    /// It proposes: not what is an acceptor alone, which asks for nothing but that a group be formed.
    proposes: bool,
    timing: Timing,
    quorum: Quorum,
    own_copy: OwnCopy,
    confirm: Confirm,
    lease_reads: Option<LeaseReads>,
    /// Whether it ever asks for votes.
    stands: bool,
    role: Role,
    peers: Table<Peer>,
    sequence: u64,
    rng: Rng,
    /// The highest promise seen anywhere, own candidacies included: the next term is above it.
    max_promise: Promise,
    /// Until then its leader, if it has one, is waited for.
    respected_until: Instant,
    /// Refused for its log in the last campaign.
    was_older: bool,
    rest_until: Instant,
    election: Election,
    lead: Leadership,
    /// The last request to stand that was obeyed.
    obeyed: (Boot, u64),
    reads: Reads,
    /// What it takes when the own acceptor is apart.
    apart: Apart,
}

/// What a proposer works with; everything is lent for one call.
pub(crate) struct Work<'a, M> {
    pub(crate) now: Instant,
    pub(crate) areas: &'a Areas<M>,
    pub(crate) links: &'a Table<Link>,
    pub(crate) watches: &'a mut Table<Watch>,
    pub(crate) acceptor: &'a mut Acceptor,
    pub(crate) configuration: &'a Configuration,
    /// This node is known to be no member any more.
    pub(crate) removed: bool,
    pub(crate) events: &'a mut Events,
    /// The own application has everything up to here.
    pub(crate) applied: Position,
    /// Nothing below is served.
    pub(crate) base: Position,
    /// The own application becomes that of a snapshot: until that is over this node does not stand.
    pub(crate) is_loading: bool,
}

impl<M: Memory> Work<'_, M> {
    /// The own acceptor, and what it works with.
    pub(crate) fn acceptor(&mut self) -> (&mut Acceptor, Surroundings<'_, M>) {
        let surroundings =
            Surroundings { now: self.now, areas: self.areas, links: self.links, events: self.events };
        (self.acceptor, surroundings)
    }
}

impl Proposer {
    #[expect(clippy::too_many_arguments, reason = "each is an option of its own")]
    pub(crate) fn new(
        me: Identity,
        half: Half,
        timing: Timing,
        quorum: Quorum,
        own_copy: OwnCopy,
        confirm: Confirm,
        lease_reads: Option<LeaseReads>,
        seed: u64,
    ) -> Proposer {
        Proposer {
            me,
            here: if half == Half::Whole { me.node } else { NodeId::NOBODY },
            proposes: half != Half::Acceptor,
            timing,
            quorum,
            own_copy,
            confirm,
            lease_reads,
            stands: half != Half::Acceptor,
            role: Role::Follower,
            peers: Table::from_fn(Peer::new),
            sequence: 0,
            rng: Rng::new(seed),
            max_promise: Promise::NONE,
            respected_until: Instant(0),
            was_older: false,
            rest_until: Instant(0),
            election: Election::Idle,
            lead: Leadership::default(),
            obeyed: (Boot(0), 0),
            reads: Reads::new(),
            apart: Apart::new(),
        }
    }

    /// The life of the acceptor that is apart.
    pub(crate) fn adopt(&mut self, incarnation: Incarnation) {
        self.me.incarnation = incarnation;
    }

    /// See the field.
    pub(crate) fn set_stands(&mut self, stands: bool) {
        self.stands = stands;
    }

    pub(crate) fn role(&self) -> Role {
        self.role
    }

    pub(crate) fn peer(&self, node: NodeId) -> &Peer {
        &self.peers[node]
    }

    pub(crate) fn peer_mut(&mut self, node: NodeId) -> &mut Peer {
        &mut self.peers[node]
    }

    pub(crate) fn next_sequence(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }

    fn see_promise(&mut self, promise: Promise) {
        self.max_promise = self.max_promise.max(promise);
    }

    /// A promise of somebody else. One that is higher than all before may have a leader who has not been heard of yet: it is
    /// waited for, and from now on, so that a candidate whom nobody elects and who stands again and again cannot hold up
    /// the others.
    fn respect_promise(&mut self, now: Instant, promise: Promise) {
        if promise > self.max_promise {
            self.max_promise = promise;
            self.respected_until = now.after(self.timing.suspect_after_ns);
        }
    }

    // Inputs.

    pub(crate) fn handle_link_up(&mut self, node: NodeId, link: &Link) {
        let peer = &mut self.peers[node];
        peer.outbound.handle_link_up(link.peer().boot, link.numbers());
        peer.outbox.say_again();
        peer.line = None;
        if peer.life != link.peer().incarnation {
            // What was asked, what was known to be in the group, and what was behind, was a life that is gone.
            peer.life = link.peer().incarnation;
            peer.ask_nothing();
            peer.formed = false;
            if peer.state == FollowerState::Behind {
                peer.turn(FollowerState::Down);
            }
        }
    }

    pub(crate) fn handle_link_down(&mut self, now: Instant, node: NodeId) {
        self.reads.handle_link_down(node);
        let peer = &mut self.peers[node];
        peer.binds = None;
        peer.outbox.handle_down();
        peer.line = None;
        peer.outbound.close();
        if peer.state != FollowerState::Behind {
            peer.turn(FollowerState::Down);
        }
        peer.broken_at = now;
    }

    /// An answer line of the process that is connected now.
    pub(crate) fn handle_line<M: Memory>(&mut self, on: &mut Work<M>, node: NodeId, line: AnswerLine) {
        on.watches[node].handle_alive(on.now);
        let peer = &mut self.peers[node];
        peer.handle_line(on.now, line);
        if self.proposes && !peer.outbound.handle_answer(&line) {
            // Fenced under us.
            peer.outbound.close();
            self.handle_broken(on.now, node);
        }
        self.handle_promise(on, Promise(line.promise), node);
    }

    /// Somebody's promise was seen, in a line or an answer.
    pub(crate) fn handle_promise<M: Memory>(&mut self, on: &mut Work<M>, promise: Promise, of: NodeId) {
        if on.configuration.names(of, on.links[of].peer().incarnation) {
            self.respect_promise(on.now, promise);
            if self.role == Role::Leader && promise.term() > self.lead.term {
                let handed = self.is_handed_to(promise.node());
                self.give_up(on, if handed { GiveUp::Asked } else { GiveUp::HigherPromise });
            }
        }
    }

    pub(crate) fn handle_completion<M: Memory>(&mut self, on: &mut Work<M>, done: &Completion) {
        let node = done.id.peer;
        match done.id.class {
            Class::Open | Class::Close => {
                let peer = &mut self.peers[node];
                peer.outbound.handle_completion(on.now, done, self.timing.repeat_ns);
                if peer.outbound.is_closed() && done.id.class == Class::Close {
                    peer.drained();
                }
            }
            Class::Entries | Class::Beat | Class::Confirm => self.handle_flight(on, done),
            _ => {}
        }
    }

    fn handle_flight<M: Memory>(&mut self, on: &mut Work<M>, done: &Completion) {
        let node = done.id.peer;
        let peer = &mut self.peers[node];
        // A completion of an older epoch moves nothing: what it wrote may have been replaced since.
        if done.id.epoch != peer.outbound.epoch() {
            return;
        }
        let Some(flight) = peer.land(done.id.number) else { return };
        let mut good = done.status == Status::Success;
        if good && peer.is_in_window() {
            good = match flight.what {
                What::Confirm => self.handle_confirmed(on, node),
                _ => self.handle_landed(on, node, flight),
            };
        }
        if !good {
            self.peers[node].outbound.close();
            self.handle_broken(on.now, node);
        }
    }

    /// The way into a follower's log broke. That deposes nobody: one follower is asked again.
    fn handle_broken(&mut self, now: Instant, node: NodeId) {
        let peer = &mut self.peers[node];
        if matches!(peer.state, FollowerState::Window | FollowerState::Preparing | FollowerState::Asking) {
            peer.turn(FollowerState::Broken);
            peer.broken_at = now;
        }
    }

    /// Everything that moves by itself.
    pub(crate) fn handle_tick<M: Memory>(&mut self, on: &mut Work<M>) {
        match self.role {
            Role::Leader => self.lead_tick(on),
            Role::Yielding => self.yield_tick(on),
            Role::Follower | Role::Candidate => self.campaign_tick(on),
        }
        self.close_silent(on.now);
        self.read_tick(on);
    }

    /// A WRITE that does not come back is an error: never wait for the transport.
    fn close_silent(&mut self, now: Instant) {
        for slot in 1..=MAX_NODES {
            let node = NodeId(slot as u8);
            let peer = &mut self.peers[node];
            let silent = peer
                .flights
                .oldest()
                .is_some_and(|flight| now.since(flight.posted_at) > self.timing.quorum_lost_ns);
            if silent && peer.outbound.close() {
                self.handle_broken(now, node);
            }
        }
    }

    /// The own acceptor promised something: a candidacy or leadership of another term ends in the same step.
    pub(crate) fn handle_own_promise<M: Memory>(&mut self, on: &mut Work<M>) {
        let promise = on.acceptor.promise();
        match self.role {
            Role::Leader if promise != Promise::new(self.lead.term, self.me.node) => {
                let handed = self.is_handed_to(promise.node());
                self.give_up(on, if handed { GiveUp::Asked } else { GiveUp::OwnAcceptor });
            }
            Role::Candidate if promise.term() > self.max_promise.term() || self.is_outvoted(promise) => {
                let why = match self.election {
                    Election::Votes { .. } => mark::Candidate::Superseded,
                    _ => mark::Candidate::OwnSuperseded,
                };
                self.end_campaign(on, why);
            }
            _ => {}
        }
        self.see_promise(promise);
    }

    fn is_outvoted(&self, promise: Promise) -> bool {
        match self.election {
            Election::Votes { term, .. } => promise != Promise::new(term, self.me.node),
            Election::OwnVote { term, .. } => promise.term() >= term && promise.node() != self.me.node,
            _ => false,
        }
    }

    // Outputs.

    /// The next WRITE to a log.
    #[inline]
    pub(crate) fn poll_log<M: Memory>(&mut self, on: &mut Work<M>) -> Option<Verb> {
        if matches!(self.role, Role::Leader | Role::Yielding) { self.poll_write(on) } else { None }
    }

    /// The next verb that brings an end of a queue pair up or down, or carries a request.
    pub(crate) fn poll_control<M: Memory>(&mut self, on: &mut Work<M>) -> Option<Verb> {
        if let Some(verb) = self.poll_line(on) {
            return Some(verb);
        }
        for (node, link) in on.links.entries() {
            let peer = &mut self.peers[node];
            if let Some(verb) = peer.outbound.poll(on.now) {
                return Some(verb);
            }
            if !link.is_up() {
                continue;
            }
            // The lines are its host's, except for what makes a group: that is for its acceptor.
            let mine = match self.proposes {
                true => self.here == self.me.node || on.configuration.is_formed(),
                false => peer.is_asking_form(),
            };
            if !mine {
                continue;
            }
            let mut line = peer.request_line();
            if !self.proposes {
                line.qp_state = 0;
            }
            line.from_boot = self.me.boot.0;
            line.to_boot = link.peer().boot.0;
            line.to_incarnation = link.peer().incarnation.0;
            peer.outbox.set(line);
            let every = if peer.is_waiting() || !peer.outbound.is_ready() {
                self.timing.repeat_ns
            } else {
                self.timing.repeat_ns * 10
            };
            peer.outbox.repeat_every(on.now, every);
            let route = Route {
                class: Class::Request,
                from: layout::staging::request(node.slot()),
                to: layout::request_of(self.me.node),
            };
            if let Some(verb) = peer.outbox.poll(on.now, link.connection(), &on.areas.staging, node, route) {
                return Some(verb);
            }
        }
        None
    }

    /// Tells a member that its configuration is in force, until it says so too.
    pub(crate) fn tell_formed(&mut self, now: Instant, node: NodeId, group: u128, hash: u64) {
        if self.peers[node].asked == 0 {
            let sequence = self.next_sequence();
            self.peers[node].tell_formed(now, sequence, group, hash);
        }
    }

    fn report(&mut self, on: &mut Events, event: Event) {
        on.push(event);
    }
}

#[cfg(feature = "model")]
impl Proposer {
    pub(crate) fn canonical(&self, out: &mut impl Canonical) {
        let Proposer {
            me,
            here: _,
            proposes: _,
            timing: _,
            quorum: _,
            own_copy: _,
            confirm: _,
            lease_reads: _,
            stands: _,
            role,
            peers,
            sequence,
            rng,
            max_promise,
            respected_until,
            was_older,
            rest_until,
            election,
            lead,
            obeyed,
            reads,
            apart: _,
        } = self;
        out.plain((role, rng, max_promise, was_older));
        out.moment(*respected_until);
        out.count(Space::own(Counter::Sequence, me.node), *sequence);
        out.moment(*rest_until);
        election.canonical(out);
        out.plain(obeyed);
        reads.canonical(me.node, out);
        let leads = matches!(role, Role::Leader | Role::Yielding);
        if leads {
            lead.canonical(me.node, out);
        } else {
            // All that the next leadership takes over.
            out.count(Space::own(Counter::Beat, me.node), lead.beat_counter);
        }
        peers.canonical(out, |node, peer, out| peer.canonical(me.node, node, leads, out));
    }
}
