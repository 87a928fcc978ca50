//! Host and acceptor of one node apart, each a replica of its own (protocol.md 13): what the one tells the other, and by which
//! lines.
//!
//! The acceptor is the authority, and goes on without its host. The host has a link to it like to any other acceptor, and READs what
//! it cannot be told: its control area, where answers of all acceptors arrive, and its log.

use super::{HostStatus, Replica, Role};
use crate::acceptor::{Application, Surroundings};
use crate::event::Event;
use crate::layout::{
    ConfigBlock, HostLine, Line, RequestLine, control, host_flags, progress_flags, request_kind, request_of,
    staging,
};
use crate::mailbox::{Inbox, Outbox, Route};
use crate::mem::Memory;
use crate::membership::Configuration;
use crate::options::Half;
use crate::proposer::Work;
use crate::snapshot::Delivery;
use crate::types::{Boot, Incarnation, Index, Instant, LogPoint, MAX_NODES, NodeId, Position, Promise, Term};
use crate::verb::{Class, Completion, NUMBER_MASK, Plane, RequestId, Verb};

/// What an acceptor knows of its host.
#[derive(Clone, Debug)]
pub(super) struct Host {
    boot: Boot,
    line: HostLine,
    inbox: Inbox,
    moved_at: Option<Instant>,
    /// What was told of it.
    told_alive: bool,
}

/// What a host needs to be in touch with its acceptor.
#[derive(Clone, Debug)]
pub(super) struct Touch {
    /// The life of the acceptor was learned.
    adopted: bool,
    /// Another life of it is there now: this node's log is gone.
    orphaned: bool,
    told: Outbox<HostLine>,
    liveness: u64,
    tell_at: Instant,
    /// The group that is to be formed.
    wish: u128,
    /// The READ of all lines under way, and when the last one was posted.
    flight: Option<(u32, Instant)>,
    number: u32,
    looked_at: Option<Instant>,
    /// Lines were READ over this connection.
    has_lines: bool,
    /// When it was last seen to run.
    reached_at: Instant,
    /// Where the application stands, which outlived a former host.
    resume: Option<(LogPoint, Configuration)>,
    /// The configuration that the acceptor has in force.
    shown: Option<Configuration>,
    /// Its promise, as the application was told.
    promised: Promise,
    /// What is saved for it.
    pub(super) delivery: Delivery,
    /// What comes next is not in its log any more, since then; and when its snapshot area was looked at for that last.
    pub(super) lacks: Option<Instant>,
    pub(super) sought_at: Option<Instant>,
    /// Nothing was found there.
    pub(super) found_none: bool,
}

impl Host {
    pub(super) fn new() -> Host {
        Host {
            boot: Boot(0),
            line: HostLine::default(),
            inbox: Inbox::default(),
            moved_at: None,
            told_alive: false,
        }
    }

    pub(super) fn boot(&self) -> Option<Boot> {
        (self.boot != Boot(0)).then_some(self.boot)
    }

    pub(super) fn line(&self) -> &HostLine {
        &self.line
    }
}

impl Touch {
    pub(super) fn new() -> Touch {
        Touch {
            adopted: false,
            orphaned: false,
            told: Outbox::new(),
            liveness: 0,
            tell_at: Instant(0),
            wish: 0,
            flight: None,
            number: 0,
            looked_at: None,
            has_lines: false,
            reached_at: Instant(0),
            resume: None,
            shown: None,
            promised: Promise::NONE,
            delivery: Delivery::new(),
            lacks: None,
            sought_at: None,
            found_none: false,
        }
    }

    pub(super) fn is_orphaned(&self) -> bool {
        self.orphaned
    }

    pub(super) fn shown(&self) -> Option<&Configuration> {
        self.shown.as_ref()
    }

    pub(super) fn is_stalled(&self, now: Instant, limit: u64) -> bool {
        self.flight.is_some_and(|(_, at)| now.since(at) > limit)
            || self.told.is_stalled(now, limit)
            || self.delivery.is_stalled(now, limit)
    }
}

impl<M: Memory> Replica<M> {
    // The acceptor's side.

    /// What its host has said since, and asked.
    pub(super) fn look_at_host(&mut self) {
        if let Some(line) = self.host.inbox.look::<HostLine, _>(&self.areas.control, control::HOST)
            && line.to_boot == self.me.boot.0
            && line.boot != 0
        {
            self.hear_host(&line);
        }
        let Some(boot) = self.host.boot() else { return };
        let me = self.me.node;
        let Some(line) = self.requests[me].look::<RequestLine, _>(&self.areas.control, request_of(me)) else {
            return;
        };
        let meant = line.to_boot == self.me.boot.0 && line.to_incarnation == self.me.incarnation.0;
        if line.from_boot == boot.0 && meant && self.configuration.is_formed() {
            self.acceptor.handle_line(&mut surroundings!(self), me, &line);
            self.handle_snapshot_line(me, &line);
        }
    }

    fn hear_host(&mut self, line: &HostLine) {
        let is_new = line.boot != self.host.boot.0;
        if is_new || line.liveness != self.host.line.liveness {
            self.host.moved_at = Some(self.now);
        }
        self.host.boot = Boot(line.boot);
        self.host.line = *line;
        let group = u128::from(line.form_high) << 64 | u128::from(line.form_low);
        if group != 0 && !self.configuration.is_formed() && self.forming.is_fresh() {
            // Nothing stands in the way, as was just seen.
            let _ = self.form(self.now, group);
        }
        let anchor = self.acceptor.walker().anchor().position;
        self.applied.position = self.applied.position.max(Position(line.applied).min(anchor));
        self.source.handle_host(self.me, &self.areas.snapshot, anchor, line);
        if is_new {
            self.write_header();
        }
    }

    /// What the acceptor publishes of the application and its proposer.
    pub(super) fn application(&self) -> Application {
        if self.half == Half::Whole {
            return Application {
                applied: self.applied.position,
                is_away: self.source.is_saving() || self.target.is_loading(),
                is_alive: true,
                leads: self.proposer.role() == Role::Leader,
                host: None,
                wants: false,
                order: None,
            };
        }
        let line = &self.host.line;
        let fresh = self.timing.host_silent_ns();
        let is_alive = self.host.moved_at.is_some_and(|at| self.now.since(at) < fresh);
        let own = self.acceptor.promise().node() == self.me.node;
        Application {
            applied: self.applied.position,
            is_away: is_alive && line.flags & host_flags::AWAY != 0,
            is_alive,
            leads: is_alive && own && line.flags & host_flags::LEADS != 0,
            host: self.host.boot(),
            wants: is_alive && self.host_wants(),
            order: self.source.order(),
        }
    }

    /// Says when its host comes, and when it is silent.
    pub(super) fn tell_host(&mut self, is_alive: bool) {
        if self.half == Half::Acceptor && is_alive != self.host.told_alive {
            self.host.told_alive = is_alive;
            self.events.push(if is_alive { Event::HostUp } else { Event::HostDown });
        }
    }

    pub(super) fn host_status(&self) -> Option<HostStatus> {
        let boot = self.host.boot().filter(|_| self.half == Half::Acceptor)?;
        let Application { is_alive, leads, .. } = self.application();
        Some(HostStatus { boot, is_alive, leads })
    }

    /// Who writes request lines for this node: its host, once there is a group.
    pub(super) fn proposer_boot(&self) -> Boot {
        self.host.boot().filter(|_| self.configuration.is_formed()).unwrap_or(self.me.boot)
    }

    // The host's side.

    /// What the acceptor has in force, when its lines were READ.
    fn see_configuration(&mut self) {
        let Some(block) = ConfigBlock::read(&self.areas.control, control::CONFIG) else { return };
        let known = self.touch.shown.as_ref().map(|shown| (shown.group, shown.entry()));
        let group = u128::from(block.group_high) << 64 | u128::from(block.group_low);
        let is_news = known != Some((group, (Term(block.term), Index(block.index))));
        if is_news && self.configuration.is_formed() && group == self.configuration.group {
            self.touch.shown = Configuration::from_block(&block);
        }
    }

    /// Takes over what the own acceptor has published.
    pub(super) fn follow_acceptor(&mut self) {
        let me = self.me.node;
        // Nodes that are whole have always something to tell each other. A host may be connected to a life that is over for good, and
        // hear of it only when it wants something of it.
        for slot in 1..=MAX_NODES {
            let node = NodeId(slot as u8);
            if node != me && self.links[node].is_up() {
                self.watches[node].want_every(self.now, self.timing.suspect_after_ns);
            }
        }
        let link = &self.links[me];
        let is_up = link.is_up();
        let moved_at = self.watches[me].moved_at().filter(|_| is_up);
        self.touch.reached_at = self.touch.reached_at.max(moved_at.unwrap_or_default());
        if self.is_acceptor_silent() || self.touch.orphaned {
            self.proposer.handle_own_lost(&mut work!(self));
        }
        if !is_up || self.touch.orphaned {
            return;
        }
        let link = &self.links[me];
        let group = link.peer().group;
        if let Some(line) = self.watches[me].line().copied() {
            self.acceptor.handle_published(self.now, &line);
            if line.flags & progress_flags::FORMED != 0 && group == 0 {
                self.links[me].look_again();
            }
        }
        self.watches[me].want_every(self.now, self.timing.beat_ns / 4);
        if group != 0 && !self.configuration.is_formed() && self.touch.has_lines {
            self.join(group);
        }
        self.acceptor.walk_mirror(&self.areas.log);
        let promise = self.acceptor.promise();
        if promise != self.touch.promised {
            self.touch.promised = promise;
            self.events.push(Event::Promised { promise });
        }
    }

    /// The own acceptor, which is apart, was not seen to run for longer than a leader may be silent. Without it nothing that is committed
    /// can be told, and nothing applied, though its memory may answer.
    pub(super) fn is_acceptor_silent(&self) -> bool {
        self.half == Half::Proposer && self.now.since(self.touch.reached_at) >= self.timing.suspect_after_ns
    }

    /// The own acceptor is in a group.
    fn join(&mut self, group: u128) {
        // The one at the anchor is final. What is above it in the log is found by walking that.
        let Some(block) = ConfigBlock::read(&self.areas.control, control::ANCHORED) else { return };
        let found = Configuration::from_block(&block).filter(|found| found.group == group);
        let Some(mut newest) = found else { return };
        self.put_in_force(newest.clone());
        let mut point = self.applied;
        if let Some((kept, configuration)) = self.touch.resume.take() {
            point = kept;
            if configuration.index > newest.index {
                newest = configuration;
            }
        }
        self.applied = point;
        self.base = self.base.max(point.position);
        self.acceptor.begin_copy(point, newest);
        self.proposer.peer_mut(self.me.node).handle_formed(true);
    }

    /// The way to the own acceptor is up.
    pub(super) fn handle_own_link_up(&mut self) {
        let me = self.me.node;
        let peer = self.links[me].peer();
        if !self.touch.adopted {
            self.touch.adopted = true;
            self.adopt(peer.incarnation);
        } else if peer.incarnation != self.me.incarnation {
            self.handle_acceptor_gone();
        }
        self.touch.has_lines = false;
        self.proposer.handle_link_up(me, &self.links[me]);
        let formed = self.configuration.is_formed() && peer.group == self.configuration.group;
        self.proposer.peer_mut(me).handle_formed(formed);
    }

    /// The acceptor of this host is gone, and its memory with it: another life of it was found, or it was heard of by other means than the
    /// fabric. Nothing happens where nothing is apart.
    pub fn handle_acceptor_gone(&mut self) {
        if self.half == Half::Proposer && !self.touch.orphaned {
            self.touch.orphaned = true;
            self.events.push(Event::Orphaned);
        }
    }

    fn adopt(&mut self, incarnation: Incarnation) {
        self.me.incarnation = incarnation;
        self.acceptor.adopt(incarnation);
        self.proposer.adopt(incarnation);
    }

    pub(super) fn handle_own_link_down(&mut self) {
        self.touch.flight = None;
        self.touch.has_lines = false;
        self.touch.told.handle_down();
        self.touch.delivery.handle_down();
        self.acceptor.handle_own_link_down();
        self.proposer.handle_own_link_down();
    }

    /// The life of this node, as far as it is known: a host that is apart learns it from its acceptor.
    pub fn incarnation(&self) -> Incarnation {
        self.me.incarnation
    }

    /// Whether this host found another life of its acceptor than the one it belongs to: it is of no more use.
    pub fn is_orphaned(&self) -> bool {
        self.touch.orphaned
    }

    /// A leader tells this node to stand.
    pub(super) fn look_for_orders(&mut self, node: NodeId) {
        let Some(line) = self.requests[node].look::<RequestLine, _>(&self.areas.control, request_of(node))
        else {
            return;
        };
        let acceptor = self.links[self.me.node].peer();
        let meant = line.to_boot == acceptor.boot.0 && line.to_incarnation == self.me.incarnation.0;
        if !meant || line.kind != request_kind::CAMPAIGN {
            return;
        }
        if line.from_boot != self.links[node].peer().proposer.0 {
            // Of a host that came to its acceptor after this one met that. The leader says it again.
            return self.links[node].look_again();
        }
        if self.hears(node, line.kind) {
            let (boot, term) = (Boot(line.from_boot), Term(line.term));
            self.proposer.handle_campaign(&mut work!(self), node, boot, line.sequence, term);
        }
    }

    /// The application of a host that is apart has kept its state: it stands behind the entry that ends there, where this configuration
    /// was committed. Both are what [`Replica::applied`] and [`Replica::committed_configuration`] said in the host's former life. To be
    /// called before anything else. Without it a host begins with the first entry of the log.
    pub fn resume(&mut self, point: LogPoint, configuration: Configuration) {
        self.touch.resume = Some((point, configuration));
    }

    /// A group is to be formed: that is for the acceptors.
    pub(super) fn wish_group(&mut self, group: u128) {
        self.touch.wish = group;
        self.touch.tell_at = self.now;
    }

    /// The next verb that goes to the own acceptor.
    pub(super) fn poll_touch(&mut self) -> Option<Verb> {
        let me = self.me.node;
        let link = &self.links[me];
        if !link.is_up() || self.touch.orphaned {
            return None;
        }
        let epoch = link.connection();
        if self.now >= self.touch.tell_at {
            self.touch.tell_at = self.now.after(self.timing.beat_ns / 4);
            self.touch.liveness += 1;
            let away = if self.source.is_saving() || self.target.is_loading() { host_flags::AWAY } else { 0 };
            let wants = if self.wants_snapshot() { host_flags::WANTS } else { 0 };
            let leads = if self.proposer.role() == Role::Leader { host_flags::LEADS } else { 0 };
            let wish = if self.configuration.is_formed() { 0 } else { self.touch.wish };
            let mut line = HostLine {
                boot: self.me.boot.0,
                to_boot: link.peer().boot.0,
                liveness: self.touch.liveness,
                applied: self.applied.position.0,
                flags: away | leads | wants,
                form_low: wish as u64,
                form_high: (wish >> 64) as u64,
                ..HostLine::default()
            };
            self.touch.delivery.report(&mut line);
            self.touch.told.set(line);
        }
        let route = Route { class: Class::Host, from: staging::HOST, to: control::HOST };
        if let Some(verb) = self.touch.told.poll(self.now, epoch, &self.areas.staging, me, route) {
            return Some(verb);
        }
        if let Some(verb) = self.proposer.poll_own_line(&work!(self)) {
            return Some(verb);
        }
        let every = if self.proposer.is_asking() { 1 } else { self.timing.beat_ns / 4 };
        let due = self.touch.looked_at.is_none_or(|at| self.now.since(at) >= every);
        if due && self.touch.flight.is_none() {
            self.touch.number = (self.touch.number + 1) & NUMBER_MASK;
            self.touch.flight = Some((self.touch.number, self.now));
            self.touch.looked_at = Some(self.now);
            let id = RequestId { peer: me, class: Class::Lines, epoch, number: self.touch.number };
            return Some(Verb::Pull { id, plane: Plane::Control, at: 0, len: control::LINES_LEN as u32 });
        }
        let applied = self.applied.position;
        // What it lacks is not in that log.
        let lacks = self.touch.lacks.is_some();
        let verb = if lacks { None } else { self.acceptor.poll_pull(&surroundings!(self), applied) };
        verb.or_else(|| self.touch.delivery.poll(self.now, &self.timing, me, epoch))
    }

    /// Such a verb ended well.
    pub(super) fn handle_touched(&mut self, done: &Completion) {
        match done.id.class {
            Class::Host => self.touch.told.handle_success(done.id.number),
            Class::Line => self.proposer.handle_line_written(done.id.number),
            Class::Pull => self.acceptor.handle_pulled(done),
            Class::Push => self.touch.delivery.handle_pushed(done.id.number),
            _ => {
                if self.touch.flight.take_if(|(number, _)| *number == done.id.number).is_some() {
                    self.touch.has_lines = true;
                    self.see_configuration();
                    for slot in 1..=MAX_NODES {
                        self.look_at_answer(NodeId(slot as u8));
                    }
                }
            }
        }
    }
}
