//! A replica's part in catching up (protocol.md 11): leaders' requests about snapshots, the application in between, and the log
//! that begins anew.
//!
//! One area serves both ways: what this node saves for others, and what it takes from one of them.

use super::{Replica, Role};
use crate::acceptor::Surroundings;
use crate::event::Event;
use crate::layout::{RequestLine, request_kind, verdict};
use crate::mark::{Snapshot as Mark, mark};
use crate::mem::Memory;
use crate::options::Half;
use crate::planted::{self, Bug};
use crate::request::{About, Answer};
use crate::snapshot::{Order, Saved, Saver, SourceGround, TargetGround, Wish};
use crate::types::{Boot, Instant, NodeId, Promise, Term};
use crate::verb::{Completion, Verb};

/// What a target goes by, lent from the parts of a replica.
macro_rules! target_ground {
    ($replica:ident) => {
        TargetGround {
            now: $replica.now,
            me: $replica.me,
            timing: &$replica.timing,
            area: &$replica.areas.snapshot,
            links: &$replica.links,
            group: $replica.configuration.group,
            applied: $replica.has_state_up_to(),
            is_stuck: $replica.stuck,
            within: $replica.acceptor.copied_log(),
        }
    };
}

impl<M: Memory> Replica<M> {
    /// The application has written its state for [`Event::SaveSnapshot`] of that number; `None`: it cannot, or it does not fit.
    pub fn handle_saved(&mut self, now: Instant, number: u32, saved: Option<Saved>) {
        self.now = self.now.max(now);
        self.control_due = true;
        self.source.handle_saved(self.me, &self.areas.snapshot, number, saved);
    }

    /// The application has become what [`Event::LoadSnapshot`] of that number was about; or it is what it was before.
    pub fn handle_loaded(&mut self, now: Instant, number: u32, loaded: bool) {
        self.now = self.now.max(now);
        self.control_due = true;
        if let Some(taken) = self.target.handle_loaded(number, loaded) {
            match self.half {
                Half::Proposer => self.begin_behind(&taken),
                _ => self.acceptor.install(&mut surroundings!(self), &taken),
            }
            self.applied = taken.point;
            if !planted::is(Bug::BaseWithoutSnapshot) {
                self.base = self.base.max(taken.point.position);
            }
            self.follow_configuration();
        }
    }

    /// Whether the application is writing its state, or becoming another: nothing is applied meanwhile, and no read answered.
    pub(super) fn is_application_away(&self) -> bool {
        self.source.is_saving() && !planted::is(Bug::ApplyWhileSaving) || self.target.is_loading()
    }

    // What leaders ask for.

    /// A request line of a member.
    pub(super) fn handle_snapshot_line(&mut self, node: NodeId, line: &RequestLine) {
        let (boot, sequence) = (Boot(line.from_boot), line.sequence);
        let promise = Promise::new(Term(line.term), node);
        let about = About::from_line(line);
        // A leader that asks for something else now has no use for what it asked for before.
        if self.source.wish().is_some_and(|wish| wish.from == node) && line.kind != request_kind::SAVE {
            self.source.handle_wish(None);
        }
        if self.target.order().is_some_and(|order| order.from == node) && line.kind != request_kind::TAKE {
            self.target.abandon();
        }
        if line.kind != request_kind::SAVE && line.kind != request_kind::TAKE {
            return;
        }
        let mine = self.acceptor.promise();
        if promise.term() < mine.term() {
            let answer = Answer { verdict: verdict::BEHIND, ..Answer::default() };
            return self.acceptor.answer_snapshot(node, boot, sequence, answer);
        }
        if promise != mine || self.proposer.role() != Role::Follower {
            return;
        }
        let known = self.target.order().map(|order| (order.from, order.boot, order.sequence));
        let is_new = line.kind == request_kind::TAKE && known != Some((node, boot, sequence));
        if is_new && (self.is_pinned() || self.source.is_saving() && self.saver() == Saver::Nobody) {
            mark(Mark::Pinned);
            let answer = Answer { verdict: verdict::UNABLE, ..Answer::default() };
            return self.acceptor.answer_snapshot(node, boot, sequence, answer);
        }
        if line.kind == request_kind::SAVE {
            let floor = about.point.position;
            self.source.handle_wish(Some(Wish { from: node, boot, sequence, promise, floor }));
        } else {
            self.target.handle_order(self.now, Order { from: node, boot, sequence, promise, about });
        }
    }

    /// Everything about snapshots that moves by itself.
    pub(super) fn snapshot_tick(&mut self) {
        self.drop_former_leaders();
        self.follow_own_wish();
        self.source_tick();
        self.target_tick();
    }

    /// Only who is promised to is obeyed, and only the process that asked: another host of the same node has not.
    pub(super) fn drop_former_leaders(&mut self) {
        let promise = self.acceptor.promise();
        let wish = self.source.wish().map(|wish| (wish.promise, wish.from, wish.boot));
        if wish.is_some_and(|(by, from, boot)| by != promise || self.is_gone(from, boot)) {
            self.source.handle_wish(None);
        }
        let order = self.target.order().map(|order| (order.promise, order.from, order.boot));
        if order.is_some_and(|(by, from, boot)| by != promise || self.is_gone(from, boot)) {
            self.target.abandon();
        }
    }

    /// Whether another proposer of that node is connected by now.
    fn is_gone(&self, node: NodeId, boot: Boot) -> bool {
        if node == self.me.node {
            return boot != self.proposer_boot();
        }
        let link = &self.links[node];
        link.is_up() && link.peer().proposer != boot
    }

    /// A leader asks itself like any other.
    fn follow_own_wish(&mut self) {
        let me = self.me;
        let asked = self.proposer.leadership().and_then(|lead| lead.catchup.asks_own(me.node));
        if let Some((sequence, floor)) = asked {
            let promise = self.acceptor.promise();
            let wish = Wish { from: me.node, boot: me.boot, sequence, promise, floor };
            self.source.handle_wish(Some(wish));
        } else if self.source.wish().is_some_and(|wish| wish.from == me.node) {
            self.source.handle_wish(None);
        }
    }

    /// What can be said to who asks for a snapshot; the application may be told to save one.
    pub(super) fn ask_source(&mut self) -> Option<Answer> {
        let ground = SourceGround {
            me: self.me,
            area: &self.areas.snapshot,
            saver: self.saver(),
            roster: self.acceptor.roster(),
            is_taking: self.target.uses_area(),
        };
        let was_saving = self.source.is_saving();
        let (answer, event) = self.source.answer(&ground)?;
        if self.source.is_saving() && !was_saving {
            // What was taken before, and not installed, is gone.
            self.target.forget();
        }
        if let Some(event) = event {
            self.events.push(event);
        }
        Some(answer)
    }

    pub(super) fn source_tick(&mut self) {
        let Some(answer) = self.ask_source() else { return };
        let Some(wish) = self.source.wish() else { return };
        if wish.from == self.me.node && self.half == Half::Whole {
            self.proposer.handle_own_snapshot(answer);
        } else {
            self.acceptor.answer_snapshot(wish.from, wish.boot, wish.sequence, answer);
        }
    }

    /// Moves the READs of another node's on.
    pub(super) fn follow_target(&mut self) {
        if let Some(source) = self.target.tick(&target_ground!(self)) {
            self.connect_to(source);
        }
        if self.target.uses_area() && !self.source.is_saving() {
            self.source.discard(&self.areas.snapshot);
        }
    }

    fn target_tick(&mut self) {
        self.follow_target();
        let point = self.target.whole().map(|(_, taken)| taken.point);
        if let Some(point) = point.filter(|_| self.proposer.role() == Role::Follower) {
            match self.acceptor.close_log(&mut surroundings!(self), point) {
                // The log has all that the snapshot is about, which is applied from there.
                Some(anchor) if anchor >= point.position && !planted::is(Bug::SnapshotTakesBack) => {
                    self.target.handle_kept();
                }
                Some(_) => self.load(),
                None => {}
            }
        } else if !self.target.is_loading() {
            self.acceptor.open_log();
        }
        self.answer_order();
    }

    pub(super) fn answer_order(&mut self) {
        if let Some(order) = self.target.order() {
            let answer = self.target.answer();
            self.acceptor.answer_snapshot(order.from, order.boot, order.sequence, answer);
        }
    }

    fn load(&mut self) {
        let (number, len) = self.target.load();
        self.events.push(Event::LoadSnapshot { number, len });
        if planted::is(Bug::InstalledBeforeLoaded) {
            self.handle_loaded(self.now, number, true);
        }
    }

    // READs of another node's.

    pub(super) fn handle_fetched(&mut self, done: &Completion) {
        let broken = self.target.handle_completion(&target_ground!(self), done);
        let link = &self.links[done.id.peer];
        if broken && link.is_up() && link.connection() == done.id.epoch {
            self.fail_link(done.id.peer);
        }
    }

    pub(super) fn poll_fetch(&mut self) -> Option<Verb> {
        if self.source.is_saving() {
            return None;
        }
        self.target.poll(&target_ground!(self))
    }
}
