//! Acceptor, proposer and applier of one node in one process: who gets which input, and in which order outputs are asked for.
//!
//! Nothing is decided here. A DPU runs the acceptor and its detector alone, its host the rest.

use crate::acceptor::{Acceptor, Surroundings};
#[cfg(feature = "model")]
use crate::canonical::{Canonical, Counter, Space};
use crate::entry;
use crate::event::{Event, Events};
use crate::forming::Forming;
use crate::inquiry::Inquiry;
use crate::layout::{
    AnswerLine, ConfigBlock, Header, LAYOUT_VERSION, Line, MAGIC, RequestLine, control, log, request_kind,
};
use crate::layout::{answer_of, request_of, snapshot as snapshot_area};
use crate::link::{self, Geometry, Link};
use crate::mailbox::Inbox;
use crate::mark;
use crate::mem::{Areas, Memory};
use crate::membership::{Configuration, Readmit};
use crate::options::{Half, Identity, Options, OptionsError};
use crate::planted::{self, Bug};
use crate::proposer::peer::FollowerState;
use crate::proposer::{Proposer, Role, Work};
use crate::snapshot::{CatchUp, Source, Taking, Target};
use crate::table::Table;
use crate::timing::Timing;
use crate::types::{Boot, Incarnation, Index, Instant, LogPoint, MAX_NODES, NodeId, Position, Promise, Term};
use crate::verb::{Class, Completion, Status as VerbStatus, Verb};
use crate::watch::Watch;

/// Control verbs that have not come back after so many times `suspect_after` never will.
const STALLED: u64 = 4;

/// Why no group is being formed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum FormError {
    /// This node belongs to a group, or is locked to one that is being formed.
    NotFresh,
    /// Group id 0 means no group.
    Group,
    /// A member that is reached is in a group already: this node may be let into that, and forms none without it.
    InGroup,
}

/// What a leader knows of one follower.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FollowerStatus {
    /// What it does with it.
    pub state: FollowerState,
    /// Up to here the follower's bytes are this node's.
    pub matched: Position,
    /// Applied there, as known here.
    pub applied: Position,
    /// Whether it counts for a commit now.
    pub counts: bool,
    /// What is done about its need for a snapshot, while it is [`FollowerState::Behind`].
    pub catch_up: Option<CatchUp>,
}

/// A look at a replica from outside.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Status {
    /// This node.
    pub node: NodeId,
    /// Its group; 0 before it is formed.
    pub group: u128,
    /// What it does.
    pub role: Role,
    /// The promise in force.
    pub promise: Promise,
    /// Who this node follows: the promise's holder, as long as its beats come; nobody otherwise.
    pub leader: NodeId,
    /// Who may write its log area now.
    pub writer: NodeId,
    /// A former writer is being fenced, and the log is not looked at before that is over.
    pub fencing: bool,
    /// End of what is staged by this leader; end of what was walked otherwise.
    pub end: LogPoint,
    /// Known committed here: the leader's commit, or the anchor.
    pub commit: Position,
    /// Index at `commit`.
    pub commit_index: Index,
    /// The acceptor's anchor.
    pub anchor: LogPoint,
    /// Handed to the application.
    pub applied: LogPoint,
    /// Nothing below is served.
    pub base: Position,
    /// Of an acceptor whose host is apart: its log begins there, behind the last snapshot that it has taken.
    pub start: Position,
    /// Followers, by id, while this node leads.
    pub followers: [Option<FollowerStatus>; MAX_NODES + 1],
    /// Nodes to which this one is connected, and whose memory fits: bit n for node n.
    pub reached: u16,
    /// This node is in no group, and one that it reaches is.
    pub met_group: bool,
    /// Index of the entry of the configuration in force; see [`Replica::configuration`].
    pub config_index: Index,
    /// This node was a member of its group, and is none any more.
    pub removed: bool,
    /// So many voters came back as other lives than the configuration names.
    pub lost: usize,
    /// The snapshot that this node takes.
    pub taking: Option<Taking>,
    /// Of an acceptor whose host is apart: how that is. `None` before one came, and where nothing is apart.
    pub host: Option<HostStatus>,
    /// Of a host that is apart: its acceptor was not seen to run for `suspect_after`, and nothing is known of what goes on.
    pub acceptor_silent: bool,
}

/// What an acceptor knows of its host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HostStatus {
    /// Which start of it.
    pub boot: Boot,
    /// It was heard of late.
    pub is_alive: bool,
    /// It is alive, and leads.
    pub leads: bool,
}

/// One node of a group: see the module. `M` is where its memory is.
#[derive(Clone, Debug)]
pub struct Replica<M> {
    me: Identity,
    half: Half,
    /// An acceptor's view of its host, and a host's of its acceptor, where they are apart.
    host: Host,
    touch: Touch,
    timing: Timing,
    /// Who is to be connected to.
    peers: Table<bool>,
    /// Those of them that a group is formed with.
    founders: Table<bool>,
    areas: Areas<M>,
    now: Instant,
    links: Table<Link>,
    watches: Table<Watch>,
    requests: Table<Inbox>,
    answers: Table<Inbox>,
    acceptor: Acceptor,
    proposer: Proposer,
    forming: Forming,
    /// In force: on a leader the newest in its log, else by what was walked (protocol.md 5).
    configuration: Configuration,
    /// Of the configuration that the group was formed with; 0 when this node came later.
    formed_hash: u64,
    header_version: u32,
    block: ConfigBlock,
    block_version: u32,
    readmit: Readmit,
    /// The lives that were connected last.
    found: Table<Incarnation>,
    inquiry: Inquiry,
    source: Source,
    target: Target,
    /// Index of a committed configuration that does not name this node, though one before it did.
    removed: Option<Index>,
    majority_lost: bool,
    applied: LogPoint,
    base: Position,
    stuck: bool,
    /// Something may have changed that is told to others over the control plane.
    control_due: bool,
    forgetful: Table<Boot>,
    events: Events,
}

/// What a proposer works with, lent from the parts of a replica.
macro_rules! work {
    ($replica:ident) => {
        Work {
            now: $replica.now,
            areas: &$replica.areas,
            links: &$replica.links,
            watches: &mut $replica.watches,
            acceptor: &mut $replica.acceptor,
            configuration: &$replica.configuration,
            removed: $replica.removed.is_some(),
            events: &mut $replica.events,
            applied: $replica.applied.position,
            base: $replica.base,
            is_loading: $replica.target.is_loading() || $replica.touch.lacks.is_some(),
        }
    };
}

/// What an acceptor works with, lent from the parts of a replica.
macro_rules! surroundings {
    ($replica:ident) => {
        Surroundings {
            now: $replica.now,
            areas: &$replica.areas,
            links: &$replica.links,
            events: &mut $replica.events,
        }
    };
}

mod apart;
mod apply;
mod form;
mod members;
mod snapshots;
mod snapshots_apart;
use apart::{Host, Touch};
pub use apply::{Entry, ProposeError, Ticket};
pub use members::RecoverError;

impl<M: Memory> Replica<M> {
    /// A node that belongs to no group yet. All areas are zero; the header is written now.
    pub fn new(options: Options, areas: Areas<M>, now: Instant) -> Result<Replica<M>, OptionsError> {
        let me = options.check()?;
        Replica::start(me, options, areas, now)
    }

    fn start(
        me: Identity,
        options: Options,
        areas: Areas<M>,
        now: Instant,
    ) -> Result<Replica<M>, OptionsError> {
        let Options { half, peers, timing, quorum, own_copy, confirm, lease_reads, seed, .. } = options;
        let apart = half == Half::Proposer;
        let ring_len = me.ring_len;
        if areas.control.len() != control::LEN
            || areas.log.len() != log::len(ring_len)
            || areas.staging.len() != log::len(ring_len)
            || areas.snapshot.len() != snapshot_area::len(me.snapshot_len)
        {
            return Err(OptionsError::AreaLen);
        }
        let mut replica = Replica {
            me,
            half,
            host: Host::new(),
            touch: Touch::new(),
            timing,
            peers: Table::from_fn(|node| peers[node.slot()] || apart && node == me.node),
            founders: Table::from_fn(|node| peers[node.slot()]),
            areas,
            now,
            links: Table::from_fn(Link::new),
            watches: Table::from_fn(|_| Watch::new()),
            requests: Table::from_fn(|_| Inbox::default()),
            answers: Table::from_fn(|_| Inbox::default()),
            acceptor: Acceptor::new(me, half, timing, now),
            proposer: Proposer::new(me, half, timing, quorum, own_copy, confirm, lease_reads, seed),
            forming: Forming::new(me),
            configuration: Configuration::default(),
            formed_hash: 0,
            header_version: 0,
            block: ConfigBlock::default(),
            block_version: 0,
            readmit: Readmit::Ask,
            found: Table::from_fn(|_| Incarnation(0)),
            inquiry: Inquiry::default(),
            source: Source::new(),
            target: Target::new(),
            removed: None,
            majority_lost: false,
            applied: LogPoint::default(),
            base: Position(0),
            stuck: false,
            control_due: true,
            forgetful: Table::from_fn(|_| Boot(0)),
            events: Events::default(),
        };
        replica.write_header();
        Ok(replica)
    }

    fn write_header(&mut self) {
        // A host's control area is a copy.
        if self.half == Half::Proposer {
            return;
        }
        self.header_version += 1;
        Header {
            magic: MAGIC,
            layout: LAYOUT_VERSION,
            group_low: self.configuration.group as u64,
            group_high: (self.configuration.group >> 64) as u64,
            node: u64::from(self.me.node.0),
            incarnation: self.me.incarnation.0,
            boot: self.me.boot.0,
            ring_len: self.me.ring_len,
            max_entry: self.me.max_entry,
            proposer: self.proposer_boot().0,
            ..Header::default()
        }
        .write(&self.areas.control, control::HEADER, self.header_version);
    }

    /// The memory, for the fabric and for who wants to look.
    pub fn areas(&self) -> &Areas<M> {
        &self.areas
    }

    // Inputs.

    /// A verb ended.
    pub fn handle_completion(&mut self, now: Instant, done: Completion) {
        self.now = self.now.max(now);
        let node = done.id.peer;
        // The own host's end of a log queue pair is at an acceptor that is apart, too.
        if !node.is_valid() || !self.peers[node] && node != self.me.node {
            return;
        }
        let log_plane = matches!(done.id.class, Class::Entries | Class::Beat | Class::Confirm);
        self.control_due |= !log_plane || done.status != VerbStatus::Success;
        match done.id.class {
            Class::Entries | Class::Beat | Class::Confirm | Class::Open | Class::Close => {
                self.proposer.handle_completion(&mut work!(self), &done);
            }
            Class::Arm | Class::Grant | Class::Fence => {
                self.acceptor.handle_completion(&mut surroundings!(self), &done);
                self.proposer.handle_own_promise(&mut work!(self));
            }
            Class::Connect | Class::Header => {
                let geometry = self.geometry();
                let staging = &self.areas.staging;
                let link = &mut self.links[node];
                match link.handle_completion(self.now, &done, self.timing.repeat_ns, geometry, staging) {
                    link::Change::Up => self.handle_link_up(node),
                    link::Change::Down => self.handle_link_down(node),
                    link::Change::Changed => self.handle_header_changed(node),
                    link::Change::None => {}
                }
            }
            Class::Fetch => self.handle_fetched(&done),
            Class::Progress
            | Class::Config
            | Class::Request
            | Class::Answer
            | Class::Leader
            | Class::Host
            | Class::Line
            | Class::Lines
            | Class::Pull
            | Class::Push => self.handle_control(&done),
        }
    }

    fn geometry(&self) -> Geometry {
        Geometry { group: self.configuration.group, ring_len: self.me.ring_len, max_entry: self.me.max_entry }
    }

    /// A line was written to a peer, or one of its lines was read.
    fn handle_control(&mut self, done: &Completion) {
        let node = done.id.peer;
        if done.id.epoch != self.links[node].connection() || !self.links[node].is_up() {
            return;
        }
        if done.status != VerbStatus::Success {
            return self.fail_link(node);
        }
        match done.id.class {
            Class::Request => self.proposer.peer_mut(node).outbox.handle_success(done.id.number),
            Class::Answer => self.acceptor.handle_answer_written(node, done.id.number),
            Class::Config if self.configuration.is_formed() => self.handle_inquiry(node, done.id.number),
            Class::Leader => self.proposer.handle_leader_line(&mut work!(self), done),
            Class::Host | Class::Line | Class::Lines | Class::Pull | Class::Push => self.handle_touched(done),
            Class::Config => {
                if let Some(reply) = self.forming.handle_block(node, done.id.number, &self.areas.staging) {
                    self.acceptor.answer_other(reply.to, reply.boot, reply.sequence, reply.verdict);
                }
            }
            _ => {
                let boot = self.links[node].peer().boot;
                self.watches[node].handle_success(self.now, done.id.number, node, boot, &self.areas.staging);
                if let Some(promise) = self.watches[node].line().map(|line| Promise(line.promise)) {
                    self.proposer.handle_promise(&mut work!(self), promise, node);
                    self.proposer.judge_promises(&mut work!(self));
                }
            }
        }
    }

    fn fail_link(&mut self, node: NodeId) {
        if self.links[node].fail(self.now, self.timing.repeat_ns) == link::Change::Down {
            self.handle_link_down(node);
        }
    }

    fn handle_header_changed(&mut self, node: NodeId) {
        let peer = self.links[node].peer();
        if let Some(member) = self.configuration.member(node) {
            let formed = member.incarnation == peer.incarnation && peer.group == self.configuration.group;
            self.proposer.peer_mut(node).handle_formed(formed);
        }
    }

    fn handle_link_up(&mut self, node: NodeId) {
        if node == self.me.node {
            return self.handle_own_link_up();
        }
        let peer = self.links[node].peer();
        self.acceptor.handle_link_up(node);
        self.proposer.handle_link_up(node, &self.links[node]);
        self.found[node] = peer.incarnation;
        self.judge_losses();
        if let Some(member) = self.configuration.member(node) {
            let known = member.incarnation == peer.incarnation;
            let formed = known && peer.group == self.configuration.group;
            self.proposer.peer_mut(node).handle_formed(formed);
            if !known && self.forgetful[node] != peer.boot {
                self.forgetful[node] = peer.boot;
                self.events.push(Event::Forgetful { node });
            }
        }
    }

    fn handle_link_down(&mut self, node: NodeId) {
        if node == self.me.node {
            self.handle_own_link_down();
        }
        self.acceptor.handle_link_down(node);
        self.proposer.handle_link_down(self.now, node);
        self.watches[node].handle_down();
        self.forming.handle_link_down(node);
        self.inquiry.handle_down(node);
        self.requests[node].zero::<RequestLine, _>(&self.areas.control, request_of(node));
        self.answers[node].zero::<AnswerLine, _>(&self.areas.control, answer_of(node));
    }

    /// Looks at everything others may have written, and at the clock. To be called in every turn of the agent's loop.
    pub fn handle_tick(&mut self, now: Instant) {
        self.now = self.now.max(now);
        self.control_due = true;
        if self.half == Half::Acceptor {
            self.look_at_host();
        }
        self.look_at_mailboxes();
        if self.half == Half::Proposer {
            self.follow_acceptor();
        } else {
            let application = self.application();
            self.tell_host(application.is_alive);
            self.acceptor.handle_tick(&mut surroundings!(self), &mut self.watches, application);
        }
        if self.acceptor.walker().is_damaged() && !self.stuck {
            self.get_stuck(mark::Applier::StuckDamaged);
        }
        // Before the proposer compares a follower's start with it: proposals since the last tick have moved the end.
        self.raise_base();
        self.proposer.handle_own_promise(&mut work!(self));
        if self.configuration.is_formed() {
            self.follow_configuration();
            self.proposer.handle_tick(&mut work!(self));
            self.mend_members();
            self.ask_around();
            self.tell_locked();
            match self.half {
                Half::Whole => self.snapshot_tick(),
                Half::Acceptor => self.acceptor_snapshot_tick(),
                Half::Proposer => self.host_snapshot_tick(),
            }
        } else {
            self.form_tick();
        }
        self.drop_stalled();
    }

    fn look_at_mailboxes(&mut self) {
        for slot in 1..=MAX_NODES {
            let node = NodeId(slot as u8);
            if !self.links[node].is_up() {
                if !self.peers[node] {
                    self.meet_stranger(node);
                }
                continue;
            }
            let peer = self.links[node].peer();
            if self.half == Half::Proposer {
                self.look_for_orders(node);
            } else if let Some(line) =
                self.requests[node].look::<RequestLine, _>(&self.areas.control, request_of(node))
            {
                if line.from_boot != peer.proposer.0 {
                    self.requests[node].zero::<RequestLine, _>(&self.areas.control, request_of(node));
                    // Of a host that its acceptor has met since, perhaps.
                    self.links[node].look_again();
                } else if line.to_boot == self.me.boot.0 && line.to_incarnation == self.me.incarnation.0 {
                    self.handle_request_line(node, &line);
                }
            }
            self.look_at_answer(node);
        }
    }

    fn look_at_answer(&mut self, node: NodeId) {
        if !self.links[node].is_up() {
            return;
        }
        if let Some(line) = self.answers[node].look::<AnswerLine, _>(&self.areas.control, answer_of(node)) {
            if line.from_boot != self.links[node].peer().boot.0 {
                self.answers[node].zero::<AnswerLine, _>(&self.areas.control, answer_of(node));
            } else if line.to_boot == self.me.boot.0 {
                self.proposer.handle_line(&mut work!(self), node, line);
            }
        }
    }

    fn handle_request_line(&mut self, node: NodeId, line: &RequestLine) {
        self.watches[node].handle_alive(self.now);
        let forming = line.kind == request_kind::FORM || line.kind == request_kind::FORMED;
        if !forming && self.hears(node, line.kind) {
            self.acceptor.handle_line(&mut surroundings!(self), node, line);
            self.proposer.handle_own_promise(&mut work!(self));
            if line.kind == request_kind::CAMPAIGN {
                let (boot, term) = (Boot(line.from_boot), Term(line.term));
                self.proposer.handle_campaign(&mut work!(self), node, boot, line.sequence, term);
            }
            self.handle_snapshot_line(node, line);
            return;
        }
        self.acceptor.handle_end(node, line);
        if forming {
            let formed =
                self.configuration.is_formed().then_some((self.configuration.group, self.formed_hash));
            let (reply, configuration) = self.forming.handle_line(node, line, formed, &self.links);
            if let Some(configuration) = configuration {
                self.put_in_force(configuration);
            }
            if let Some(reply) = reply {
                self.acceptor.answer_other(reply.to, reply.boot, reply.sequence, reply.verdict);
            }
        }
    }

    // Housekeeping.

    /// Never waits for the transport: what does not come back is an error after a while.
    fn drop_stalled(&mut self) {
        let limit = self.timing.suspect_after_ns * STALLED;
        for slot in 1..=MAX_NODES {
            let node = NodeId(slot as u8);
            let stalled = self.links[node].is_stalled(self.now, limit)
                || self.links[node].is_up()
                    && (self.watches[node].is_stalled(self.now, limit)
                        || self.acceptor.is_stalled(node, self.now, limit)
                        || self.proposer.reads().is_stalled(node, self.now, limit)
                        || self.target.is_stalled(node, self.now, limit)
                        || node == self.me.node && self.touch.is_stalled(self.now, limit)
                        || node == self.me.node && self.acceptor.is_pull_stalled(self.now, limit)
                        || self.proposer.peer(node).outbox.is_stalled(self.now, limit));
            if stalled {
                self.fail_link(node);
            }
        }
    }

    fn raise_base(&mut self) {
        let mut high = self.acceptor.walker().high();
        if let Some(lead) = self.proposer.leadership() {
            high = high.max(lead.end.position);
        }
        if let Some(beat) = self.acceptor.beat().filter(|beat| beat.leader == self.acceptor.promise().0) {
            high = high.max(Position(beat.matched));
        }
        let inflight = u64::from(self.timing.inflight).min(entry::longest_slot(self.me.ring_len));
        let above = if planted::is(Bug::BaseFromEnd) { 0 } else { inflight + self.me.max_entry };
        let base = (high.0.saturating_add(above)).saturating_sub(self.me.ring_len);
        self.base = self.base.max(Position(base));
    }

    // Outputs.

    /// The next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        // An application that is writing its state, or becoming another, answers nothing.
        let applied = (!self.is_application_away()).then_some(self.applied.position);
        let event = self.events.pop().or_else(|| self.proposer.poll_commit());
        event.or_else(|| self.proposer.reads_mut().poll(applied))
    }

    /// The next verb. To be asked for after the events: the application hears of a commit before the beat that spreads it is
    /// posted.
    pub fn poll_verb(&mut self) -> Option<Verb> {
        if let Some(verb) = self.proposer.poll_log(&mut work!(self)) {
            return Some(verb);
        }
        // Between a proposal and its commit there is nothing else to look for.
        let verb = if self.control_due { self.poll_control() } else { None };
        self.control_due = verb.is_some();
        verb
    }

    fn poll_control(&mut self) -> Option<Verb> {
        self.proposer.proceed_reads(&mut work!(self));
        if let Some(verb) = self.proposer.poll_control(&mut work!(self)) {
            return Some(verb);
        }
        let verb = match self.half {
            Half::Proposer => self.poll_touch(),
            _ => self.acceptor.poll_verb(&surroundings!(self)),
        };
        if verb.is_some() {
            return verb;
        }
        for slot in 1..=MAX_NODES {
            let node = NodeId(slot as u8);
            if !self.peers[node] {
                continue;
            }
            let free = self.proposer.peer(node).outbound.is_closed();
            let verb = self.links[node]
                .poll(self.now, free)
                .or_else(|| self.watches[node].poll(self.now, &self.links[node], node));
            if verb.is_some() {
                return verb;
            }
        }
        let verb = self.inquiry.poll(&self.links).or_else(|| self.forming.poll(&self.links));
        verb.or_else(|| self.poll_fetch())
    }

    /// When the replica wants a tick at the latest, though nothing happened.
    pub fn poll_timeout(&self) -> Option<Instant> {
        Some(self.now.after(self.timing.beat_ns / 4))
    }

    fn leader(&self) -> NodeId {
        let promise = self.acceptor.promise();
        let leads = match self.half {
            // Whether its host says so.
            Half::Acceptor => self.application().leads,
            Half::Whole | Half::Proposer => self.proposer.role() == Role::Leader,
        };
        let own = promise.node() == self.me.node && !leads;
        if self.acceptor.is_quiet() || own { NodeId::NOBODY } else { promise.node() }
    }

    /// What the application has been handed, or was passed over because it is not the application's.
    pub fn applied(&self) -> LogPoint {
        self.applied
    }

    /// How this replica is.
    pub fn status(&self) -> Status {
        let anchor = *self.acceptor.walker().anchor();
        let lead = self.proposer.leadership();
        let mut followers = [None; MAX_NODES + 1];
        if let Some(lead) = lead {
            for node in lead.audience.nodes() {
                let peer = self.proposer.peer(node);
                let member = self.configuration.member(node);
                followers[node.slot()] = Some(FollowerStatus {
                    state: peer.state,
                    matched: peer.matched,
                    applied: if node == self.me.node { self.applied.position } else { peer.applied },
                    counts: member
                        .is_some_and(|member| self.proposer.counts(self.now, &self.watches, member)),
                    catch_up: self.proposer.catch_up_of(node),
                });
            }
        }
        let acceptor_silent = self.is_acceptor_silent();
        let committed = lead.filter(|lead| lead.has_committed()).map_or(anchor, |lead| lead.committed);
        Status {
            node: self.me.node,
            group: self.configuration.group,
            role: self.proposer.role(),
            promise: self.acceptor.promise(),
            leader: if acceptor_silent { NodeId::NOBODY } else { self.leader() },
            writer: self.acceptor.writer(),
            fencing: self.acceptor.is_fencing(),
            end: lead.map_or(*self.acceptor.walker().cursor(), |lead| lead.end),
            commit: committed.position,
            commit_index: committed.index,
            anchor,
            applied: self.applied,
            base: self.base,
            start: self.acceptor.start(),
            followers,
            reached: self
                .links
                .entries()
                .fold(0, |mask, (node, link)| mask | u16::from(link.is_up()) << node.0),
            met_group: !self.configuration.is_formed() && self.has_met_group(),
            config_index: self.configuration.index,
            removed: self.removed.is_some(),
            lost: self.lost_voters(),
            host: self.host_status(),
            acceptor_silent,
            taking: self.target.taking(),
        }
    }
}

#[cfg(feature = "model")]
impl<M: Memory> Replica<M> {
    /// A replica whose ring may be of any power of two from four slots on, for a model.
    pub fn tiny(options: Options, areas: Areas<M>, now: Instant) -> Result<Replica<M>, OptionsError> {
        let me = options.check_above(4 * entry::SLOT_ALIGN)?;
        Replica::start(me, options, areas, now)
    }

    /// The state in canonical form; all events have been asked for. The memory is not part of it.
    pub fn canonical<C: Canonical>(&self, out: &mut C) {
        let Replica {
            me,
            half: _,
            host: _,
            touch: _,
            timing: _,
            peers: _,
            founders: _,
            areas: _,
            now,
            links,
            watches,
            requests,
            answers,
            acceptor,
            proposer,
            forming,
            configuration,
            formed_hash,
            header_version: _,
            block: _,
            block_version: _,
            readmit: _,
            found,
            inquiry,
            source,
            target,
            removed,
            majority_lost,
            applied,
            base,
            stuck,
            control_due,
            forgetful,
            events: _,
        } = self;
        let me = me.node;
        out.now(*now);
        links.canonical(out, |_, link, out| link.canonical(me, out));
        watches.canonical(out, |node, watch, out| watch.canonical(me, node, out));
        requests.canonical(out, |node, inbox, out| {
            inbox.canonical(Space::new(Counter::Request, node, me), out);
        });
        answers.canonical(out, |node, inbox, out| {
            inbox.canonical(Space::new(Counter::Answer, node, me), out);
        });
        acceptor.canonical(out);
        proposer.canonical(out);
        forming.canonical(out);
        inquiry.canonical(out);
        source.canonical(out);
        target.canonical(out);
        out.plain((configuration, formed_hash, found, removed, majority_lost));
        out.plain((applied, base, stuck, control_due, forgetful));
    }
}
