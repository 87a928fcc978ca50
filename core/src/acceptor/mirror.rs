//! An acceptor that is elsewhere, as the proposer of its node sees it: what it has published, and a copy of its log
//! (protocol.md 13).
//!
//! Bytes below an anchor that was published before they were READ are final. Bytes above it are looked at for a candidacy alone,
//! after the own acceptor's vote: nobody writes there before this node does, unless it votes for another.

use super::{Acceptor, Surroundings};
use crate::detector::Detector;
use crate::entry;
use crate::layout::{AnswerLine, ProgressLine, progress_flags};
use crate::link::Link;
use crate::mem::{Area, Memory};
use crate::membership::Configuration;
use crate::planted::{self, Bug};
use crate::request::Answer;
use crate::roster::Roster;
use crate::types::{Incarnation, Instant, LogPoint, NodeId, Position, Promise};
use crate::verb::{Class, Completion, NUMBER_MASK, Plane, RequestId, Status, Verb};

/// Bytes of one READ of the log at the most.
const PULL: u64 = 256 * 1024;

/// The copy of the log, and what is still to be READ.
#[derive(Clone, Debug)]
pub(crate) struct Mirror {
    /// Up to here the bytes are those of the acceptor.
    end: Position,
    /// The published anchor: up to here they are final.
    anchor: Position,
    /// Where the acceptor's log begins.
    start: Position,
    /// The READ under way: its number, up to where it goes, and since when.
    flight: Option<(u32, Position, Instant)>,
    number: u32,
    /// The own acceptor voted, for this promise, and its log ends there.
    voted: Option<(Promise, LogPoint)>,
    /// All of that was READ and walked.
    walked: bool,
}

impl Mirror {
    pub(super) fn new() -> Mirror {
        Mirror {
            end: Position(0),
            anchor: Position(0),
            start: Position(0),
            flight: None,
            number: 0,
            voted: None,
            walked: false,
        }
    }

    /// Up to here the log may be READ.
    fn known(&self) -> Position {
        self.voted.map_or(self.anchor, |(_, last)| self.anchor.max(last.position))
    }
}

impl Acceptor {
    /// The life of the acceptor, which this node is then, too.
    pub(crate) fn adopt(&mut self, incarnation: Incarnation) {
        self.me.incarnation = incarnation;
    }

    /// It has published this.
    pub(crate) fn handle_published(&mut self, now: Instant, line: &ProgressLine) {
        // An answer may be newer than the line that was READ before it; terms never fall.
        if Promise(line.promise).term() < self.promise.term() {
            return;
        }
        self.take_promise(Promise(line.promise));
        self.writer = if line.grant == 0 { NodeId::NOBODY } else { Promise(line.grant).node() };
        let quiet = line.flags & progress_flags::QUIET != 0;
        self.detector = if quiet { Detector::quiet(now) } else { Detector::new(now) };
        self.progress = *line;
        if let Some(mirror) = &mut self.mirror {
            mirror.anchor = mirror.anchor.max(Position(line.anchor));
            mirror.start = mirror.start.max(Position(line.start));
        }
    }

    /// It has promised. What was READ above the anchor for a candidacy says nothing under another promise.
    fn take_promise(&mut self, promise: Promise) {
        self.promise = promise;
        let another = |mirror: &Mirror| mirror.voted.is_some_and(|(mine, _)| mine != promise);
        if self.mirror.as_ref().is_some_and(another) {
            self.forget_own_vote();
        }
    }

    /// It has voted for this node: its log ends where the answer says. Returns that end once all of it was READ and walked.
    pub(crate) fn follow_own_vote<M: Memory>(
        &mut self,
        log: &Area<M>,
        answer: &Answer,
        line: &AnswerLine,
    ) -> Option<LogPoint> {
        let promise = Promise(line.promise);
        self.take_promise(promise);
        let mirror = self.mirror.as_mut()?;
        if mirror.voted.is_none() {
            mirror.voted = Some((promise, answer.last));
            mirror.end = mirror.end.min(self.walker.anchor().position);
            // What is under way was asked for before the vote.
            mirror.flight = None;
        }
        self.walk_mirror(log);
        let cursor = *self.walker.cursor();
        let whole = cursor.rank() == answer.last.rank() && cursor.position == answer.last.position
            || planted::is(Bug::AsksBeforeItsLog);
        if let Some(mirror) = self.mirror.as_mut().filter(|_| whole) {
            mirror.walked = true;
            self.candidacy = self.roster.in_force().clone();
        }
        whole.then_some(cursor)
    }

    /// Whether a candidacy of this node is judged by what its whole log said: it has the vote of its acceptor.
    pub(crate) fn knows_candidacy(&self) -> bool {
        match &self.mirror {
            Some(mirror) => mirror.walked,
            None => self.writer == self.me.node,
        }
    }

    /// The candidacy is over: what was READ above the anchor may be replaced by now.
    pub(crate) fn forget_own_vote(&mut self) {
        let anchor = self.walker.anchor().position;
        let Some(mirror) = &mut self.mirror else { return };
        mirror.walked = false;
        if mirror.voted.take().is_some() {
            mirror.end = mirror.end.min(anchor);
            mirror.flight = None;
            self.walker.handle_fence();
        }
    }

    /// Walks what is here of the log.
    pub(crate) fn walk_mirror<M: Memory>(&mut self, log: &Area<M>) {
        let Some(mirror) = &self.mirror else { return };
        let (end, anchor) = (mirror.end, mirror.anchor);
        self.walker.follow(log, self.me.ring_len, end, anchor);
        self.roster.follow(&self.walker, log, self.me.ring_len);
    }

    /// From where to where the acceptor's log goes, as far as it is final and was published: nothing below is in its ring.
    pub(crate) fn copied_log(&self) -> (Position, Position) {
        let Some(mirror) = &self.mirror else { return Default::default() };
        let kept = mirror.anchor.0.saturating_sub(self.me.ring_len);
        (mirror.start.max(Position(kept)), mirror.anchor)
    }

    /// Whether all was READ up to the anchor, and is not all a log: some of it was written over since a host before had applied it.
    pub(crate) fn is_overwritten<M: Memory>(&self, log: &Area<M>) -> bool {
        let cursor = self.walker.cursor();
        let read = self.mirror.as_ref().is_some_and(|mirror| {
            mirror.flight.is_none() && mirror.end >= mirror.anchor && cursor.position < mirror.anchor
        });
        read && entry::judge(log, self.me.ring_len, cursor).is_err()
    }

    /// The next READ of the log, of as much as there is room for: what the application does not have yet stays.
    pub(crate) fn poll_pull<M: Memory>(&mut self, on: &Surroundings<M>, applied: Position) -> Option<Verb> {
        let ring_len = self.me.ring_len;
        let link: &Link = &on.links[self.me.node];
        let mirror = self.mirror.as_mut()?;
        let start = mirror.end;
        let lap_end = (start.0 | (ring_len - 1)) + 1;
        let room = applied.0.saturating_add(ring_len);
        let to = mirror.known().0.min(start.0 + PULL).min(lap_end).min(room);
        // Between what it had before a snapshot and that there is nothing.
        let is_gone = start < mirror.start;
        if mirror.flight.is_some() || !link.is_up() || to <= start.0 || is_gone {
            return None;
        }
        mirror.number = (mirror.number + 1) & NUMBER_MASK;
        mirror.flight = Some((mirror.number, Position(to), on.now));
        Some(Verb::Pull {
            id: RequestId {
                peer: self.me.node,
                class: Class::Pull,
                epoch: link.connection(),
                number: mirror.number,
            },
            plane: Plane::Log,
            at: entry::offset(ring_len, start),
            len: (to - start.0) as u32,
        })
    }

    pub(crate) fn handle_pulled(&mut self, done: &Completion) {
        let Some(mirror) = &mut self.mirror else { return };
        let Some((_, to, _)) = mirror.flight.take_if(|(number, ..)| *number == done.id.number) else {
            return;
        };
        if done.status == Status::Success {
            mirror.end = mirror.end.max(to);
        }
    }

    /// The way to it is down.
    pub(crate) fn handle_own_link_down(&mut self) {
        if let Some(mirror) = &mut self.mirror {
            mirror.flight = None;
        }
    }

    pub(crate) fn is_pull_stalled(&self, now: Instant, limit: u64) -> bool {
        let flight = self.mirror.as_ref().and_then(|mirror| mirror.flight);
        flight.is_some_and(|(_, _, since)| now.since(since) > limit)
    }

    /// The application has everything up to there: the copy begins, with the newest configuration that is known committed.
    pub(crate) fn begin_copy(&mut self, point: LogPoint, configuration: Configuration) {
        self.walker.install(point);
        self.roster = Roster::new();
        self.roster.install(configuration);
        if let Some(mirror) = &mut self.mirror {
            mirror.end = point.position;
            // What is under way was asked for before.
            mirror.flight = None;
        }
    }
}
