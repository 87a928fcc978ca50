//! Snapshots where host and acceptor are apart (protocol.md 13): the acceptor takes and keeps them by itself, for the application is
//! its host's; that is told to save, and finds what it lacks in its acceptor's snapshot area.

use super::{Replica, Role};
use crate::acceptor::Surroundings;
use crate::event::Event;
use crate::layout::host_flags;
use crate::mark;
use crate::mem::Memory;
use crate::options::Half;
use crate::planted::{self, Bug};
use crate::snapshot::{Saver, Taken, Wish};
use crate::types::{Boot, Position, Promise};

impl<M: Memory> Replica<M> {
    /// Whose application saves what this node is asked for.
    pub(super) fn saver(&self) -> Saver {
        if self.half != Half::Acceptor {
            return Saver::Here(self.applied);
        }
        let line = self.host.line();
        match self.host.boot().filter(|_| self.application().is_alive) {
            Some(boot) => Saver::Host { boot, applied: Position(line.applied) },
            None => Saver::Nobody,
        }
    }

    // The acceptor's side.

    /// Its host lacks what no log of this node has.
    pub(super) fn host_wants(&self) -> bool {
        self.host.line().flags & host_flags::WANTS != 0
    }

    /// Up to where the application's state is in this node.
    pub(super) fn has_state_up_to(&self) -> Position {
        if self.half == Half::Acceptor && self.host_wants() {
            return self.source.saved().unwrap_or_default().position;
        }
        self.applied.position
    }

    /// The snapshot area holds what the log begins with, and no host has it yet: this node has it nowhere else.
    pub(super) fn is_pinned(&self) -> bool {
        if self.half != Half::Acceptor {
            return false;
        }
        let anchor = self.acceptor.walker().anchor().position;
        let of_use =
            |at: Position| at >= self.acceptor.start() && at.0.saturating_add(self.me.ring_len) >= anchor.0;
        let held = self.source.saved().map(|point| point.position).filter(|at| of_use(*at));
        held.is_some_and(|at| match self.saver() {
            Saver::Host { applied, .. } => applied < at,
            Saver::Here(_) | Saver::Nobody => true,
        })
    }

    pub(super) fn acceptor_snapshot_tick(&mut self) {
        self.drop_former_leaders();
        self.source_tick();
        self.follow_target();
        self.keep_or_install();
        self.answer_order();
    }

    /// All bytes are here. A log that goes on beyond them stays as it is; one that ends before begins anew behind them. Neither
    /// takes an application: this node has what the bytes say as long as it has them.
    fn keep_or_install(&mut self) {
        let whole = self.target.whole().map(|(_, taken)| taken.point).zip(self.target.order().copied());
        let Some((point, order)) = whole.filter(|_| !self.source.is_saving()) else {
            return self.acceptor.open_log();
        };
        let at = point.position;
        let replaces = planted::is(Bug::SnapshotReplacesLog);
        if at < self.acceptor.start() {
            self.target.refuse_old();
            return self.acceptor.open_log();
        }
        if self.acceptor.walker().anchor().position >= at && !replaces {
            self.keep_taken();
            self.target.handle_kept();
            return self.acceptor.open_log();
        }
        // A follower that counts is told for its host's sake: its log will get there.
        let counts = order.about.counts && self.acceptor.writer() == order.from;
        if counts && !replaces {
            return self.acceptor.open_log();
        }
        let Some(anchor) = self.acceptor.close_log(&mut surroundings!(self), point) else { return };
        if anchor >= at && !replaces {
            // The log has it: kept the next time.
            return;
        }
        let (number, _) = self.target.load();
        self.keep_taken();
        self.handle_loaded(self.now, number, true);
    }

    fn keep_taken(&mut self) {
        if let Some((header, taken)) = self.target.taken() {
            self.source.keep(self.me, &self.areas.snapshot, header, &taken.configuration);
        }
    }

    // The host's side.

    /// Neither its acceptor's log nor its snapshot area has what comes next.
    pub(super) fn wants_snapshot(&self) -> bool {
        self.touch.lacks.is_some() && self.touch.found_none && !self.target.has_found()
    }

    pub(super) fn host_snapshot_tick(&mut self) {
        self.look_for_what_lacks();
        self.save_for_acceptor();
    }

    fn look_for_what_lacks(&mut self) {
        let link = &self.links[self.me.node];
        let boot = link.peer().boot;
        if !link.is_up() || self.touch.is_orphaned() || self.stuck {
            return;
        }
        let (from, to) = self.acceptor.copied_log();
        if from <= self.applied.position && !self.acceptor.is_overwritten(&self.areas.log) {
            self.touch.lacks = None;
            self.touch.sought_at = None;
            self.touch.found_none = false;
            if self.target.is_seeking() && !self.target.is_loading() {
                self.target.forget();
            }
            return;
        }
        let since = *self.touch.lacks.get_or_insert(self.now);
        if self.me.snapshot_len == 0 {
            self.get_stuck(mark::Applier::StuckBelow);
            return;
        }
        self.follow_target();
        if let Some((_, taken)) = self.target.whole()
            && self.proposer.role() == Role::Follower
        {
            // The log has gone on since it was found.
            let at = taken.point.position;
            if at > self.applied.position && (from..=to).contains(&at) {
                let (number, len) = self.target.load();
                self.events.push(Event::LoadSnapshot { number, len });
            } else {
                self.target.forget();
            }
        }
        let due = self.touch.sought_at.unwrap_or(since);
        let area_is_free = !self.source.is_saving() && !self.touch.delivery.uses_area();
        if !self.target.is_seeking() && self.now >= due && area_is_free {
            self.touch.found_none |= self.touch.sought_at.is_some();
            self.touch.sought_at = Some(self.now.after(self.timing.repeat_ns));
            self.target.seek(self.now, self.me.node, boot);
        }
    }

    /// The application is what the own acceptor's snapshot says: the copy of its log begins there.
    pub(super) fn begin_behind(&mut self, taken: &Taken) {
        let newest = self.acceptor.roster().anchored();
        let newer = newest.index > taken.configuration.index;
        let configuration = if newer { newest.clone() } else { taken.configuration.clone() };
        self.acceptor.begin_copy(taken.point, configuration);
    }

    fn save_for_acceptor(&mut self) {
        let line = self.acceptor.progress();
        let order = if line.save_by == self.me.boot.0 { line.save } else { 0 };
        if self.touch.delivery.handle_order(order) {
            let (from, boot) = (self.me.node, Boot(0));
            let floor = self.applied.position;
            let wish = Wish { from, boot, sequence: order, promise: Promise::NONE, floor };
            self.source.handle_wish((order != 0).then_some(wish));
        }
        if self.touch.delivery.waits().is_none() {
            return;
        }
        if let Some(answer) = self.ask_source() {
            self.touch.delivery.handle_saved(&self.areas.snapshot, answer.verdict);
        }
    }
}
