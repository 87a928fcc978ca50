//! What an acceptor does about snapshots: it answers requests for them, leaves its log alone while one is being loaded, and begins
//! it anew behind one (protocol.md 11).

use super::{Acceptor, Answered, Operation, Surroundings};
use crate::entry;
use crate::mem::Memory;
use crate::planted::{self, Bug};
use crate::request::Answer;
use crate::snapshot::Taken;
use crate::types::{Boot, LogPoint, NodeId, Position, Promise};

impl Acceptor {
    /// Answers a request about a snapshot in the peer's answer line.
    pub(crate) fn answer_snapshot(&mut self, from: NodeId, boot: Boot, sequence: u64, answer: Answer) {
        let answered = &self.answered[from];
        let older = answered.boot == boot && sequence < answered.sequence;
        let same = answered.boot == boot && answered.sequence == sequence && answered.answer == answer;
        if !older && !same {
            self.answered[from] = Answered { boot, sequence, answer, void: false };
            self.answers[from].say_again();
            self.revision += 1;
        }
    }

    /// Leaves the log alone from now on: who could write is fenced, and nobody gets a grant until [`Acceptor::open_log`]. Returns up
    /// to where it is committed once nobody can write and it was walked to its end, going by that `point` is. Votes go on.
    pub(crate) fn close_log<M: Memory>(
        &mut self,
        on: &mut Surroundings<M>,
        point: LogPoint,
    ) -> Option<Position> {
        if self.operation != Operation::Idle {
            return None;
        }
        if !self.closed {
            self.closed = true;
            self.fence_writer(on);
            // Who has still to be fenced ends in the same.
            if !self.inbound.iter().any(|inbound| inbound.may_write()) {
                self.walker.handle_fence();
            }
        }
        if self.inbound.iter().any(|inbound| inbound.may_write()) {
            return None;
        }
        self.walker.vouch(point);
        self.walker.is_done().then_some(self.walker.anchor().position)
    }

    /// Grants are given again.
    pub(crate) fn open_log(&mut self) {
        self.closed = false;
    }

    /// The application is what the snapshot says: the log begins behind it.
    pub(crate) fn install<M: Memory>(&mut self, on: &mut Surroundings<M>, taken: &Taken) {
        let voted = self.votes();
        // What former writers left there may fit, and be known here only: a copy of a log that is elsewhere is exact from the former
        // anchor on, not from here.
        on.areas.log.store(entry::offset(self.me.ring_len, taken.point.position), 0);
        self.walker.install(taken.point);
        if !planted::is(Bug::SnapshotConfigForgotten) {
            self.roster.install(taken.configuration.clone());
        }
        self.progress.config_index = self.roster.anchored().index.0;
        self.be_silent_if_new(on.now, voted);
        if planted::is(Bug::SnapshotForgetsPromise) {
            self.promise = Promise::NONE;
        }
        if self.grant_due {
            // What was answered is of the former log: the same request, repeated, is judged anew.
            self.answered[self.promise.node()].void = true;
            self.grant_due = false;
        }
        self.closed = false;
        self.revision += 1;
        if self.here != self.me.node {
            // In the same line as the new anchor: a host would take what the old log has below that for final.
            self.progress.start = taken.point.position.0;
            self.progress.applied = self.progress.applied.max(taken.point.position.0);
        }
        self.publish(on);
    }
}
