//! The one cursor over a log area: it serves votes, applying, and catching up (protocol.md 5).
//!
//! A log area is written by somebody else, who may at any time replace entries that were valid a moment ago by others. What
//! the walker found is therefore worth as much as its mode says: *unconfirmed* finds nothing that may be kept, *confirmed*
//! and *fenced* do.

use crate::entry::{Kind, judge, peek};
use crate::layout::BeatLine;
use crate::mark::{self, mark};
use crate::mem::{Area, Memory};
use crate::planted::{self, Bug};
use crate::types::{LogPoint, Position, Promise};

/// Bytes walked in one step at the most: a step is a part of an agent's loop.
pub const STEP_BYTES: u64 = 1 << 20;

/// What may be said of the bytes between anchor and cursor.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Mode {
    /// A writer may be replacing them: every pass starts at the anchor again. `told` is what the beat that was seen before
    /// this pass says of the writer's progress here.
    Unconfirmed { told: Option<Told> },
    /// They are the granted leader's own; the cursor goes on from where it is.
    Confirmed,
}

/// What a beat of the promise's leader says.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Told {
    /// Up to here the bytes are the leader's.
    matched: Position,
    /// Up to here they are committed; never above `matched`.
    commit: Position,
}

/// Cursor and anchor of one log area.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Walker {
    anchor: LogPoint,
    cursor: LogPoint,
    mode: Mode,
    /// Nobody can write: one pass is enough.
    fenced: bool,
    /// A place in the group's log that is committed by somebody else's word.
    vouched: Option<LogPoint>,
    /// The pass under way reached the end of the log.
    at_end: bool,
    /// Highest end ever walked in this incarnation.
    high: Position,
    /// Bytes that were confirmed are not valid any more: memory was damaged, nothing below is trusted further.
    damaged: bool,
    /// The last configuration that the anchor has passed, and the last one of the current pass.
    anchored: Option<ConfigEntry>,
    walked: Option<ConfigEntry>,
}

/// Where a configuration entry stands: the places before it and after it. Equal for equal entries only.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ConfigEntry {
    /// The place before it.
    pub before: LogPoint,
    /// The place after it; the chain covers its bytes.
    pub next: LogPoint,
}

impl Walker {
    /// A walker whose log is known committed up to `anchor`.
    pub fn new(anchor: LogPoint) -> Walker {
        Walker {
            anchor,
            cursor: anchor,
            mode: Mode::Unconfirmed { told: None },
            fenced: true,
            vouched: None,
            at_end: false,
            high: anchor.position,
            damaged: false,
            anchored: None,
            walked: None,
        }
    }

    /// The log begins anew behind a snapshot: all up to there is known committed, and nobody can write.
    pub(crate) fn install(&mut self, point: LogPoint) {
        let high = self.high.max(point.position);
        *self = Walker { high, ..Walker::new(point) };
    }

    /// The last configuration entry that the anchor has passed here.
    pub fn anchored_config(&self) -> Option<ConfigEntry> {
        self.anchored
    }

    /// The last configuration entry of the current pass; `None` when there is none above the anchor.
    pub fn walked_config(&self) -> Option<ConfigEntry> {
        self.walked
    }

    /// The last entry known committed.
    pub fn anchor(&self) -> &LogPoint {
        &self.anchor
    }

    /// How far the current pass is.
    pub fn cursor(&self) -> &LogPoint {
        &self.cursor
    }

    /// Highest end ever walked in this incarnation.
    pub fn high(&self) -> Position {
        self.high
    }

    /// Whether confirmed bytes were found changed.
    pub fn is_damaged(&self) -> bool {
        self.damaged
    }

    /// The newest entry that is certainly in the log, whatever a writer is doing right now.
    pub fn lower_bound(&self) -> &LogPoint {
        if self.mode == Mode::Confirmed || self.fenced && self.at_end { &self.cursor } else { &self.anchor }
    }

    /// A writer got permission: nothing above the anchor is known any more.
    pub fn handle_grant(&mut self) {
        self.restart(false);
    }

    /// The writer was fenced: a pass that starts now finds what stays.
    pub fn handle_fence(&mut self) {
        self.restart(true);
    }

    fn restart(&mut self, fenced: bool) {
        mark(if fenced { mark::Walker::FencedPass } else { mark::Walker::Unconfirmed });
        self.fenced = fenced;
        self.vouched = None;
        self.begin_pass(None);
    }

    /// Somebody who knows says that `point` is committed. A fenced log that has this very place is committed up to there, which takes a
    /// pass from the anchor to see.
    pub(crate) fn vouch(&mut self, point: LogPoint) {
        if self.fenced && self.vouched != Some(point) {
            self.vouched = Some(point);
            self.begin_pass(None);
        }
    }

    fn begin_pass(&mut self, told: Option<Told>) {
        if !planted::is(Bug::WalkFromValid) {
            self.cursor = self.anchor;
        }
        if !planted::is(Bug::ConfigNotRolledBack) {
            self.walked = None;
        }
        self.at_end = false;
        self.mode = Mode::Unconfirmed { told };
    }

    /// Whether a fenced log has been walked to its end: then [`Walker::cursor`] is its last entry.
    pub fn is_done(&self) -> bool {
        self.fenced && self.at_end
    }

    /// Walks on. `beat` is the last whole beat in the area, looked at before this call.
    ///
    /// Only a beat that names `promise` says anything. Returns whether anything moved.
    pub fn step<M: Memory>(
        &mut self,
        area: &Area<M>,
        ring_len: u64,
        promise: Promise,
        beat: Option<&BeatLine>,
    ) -> bool {
        let beat = beat.filter(|beat| promise != Promise::NONE && beat.leader == promise.0);
        if let Mode::Unconfirmed { told } = self.mode {
            let fresh = beat.map(|beat| Told {
                matched: Position(beat.matched),
                commit: Position(beat.commit.min(beat.matched)),
            });
            // A pass that began before a beat was seen cannot be confirmed by it; the next one can. In a fenced log a
            // second pass is only worth it for what the first one did not know.
            if self.cursor == self.anchor || self.at_end && (!self.fenced || told != fresh) {
                self.begin_pass(fresh);
            }
            self.confirm(promise);
        }
        let moved = self.walk(area, ring_len, promise);
        moved | self.advance_anchor(area, ring_len, beat)
    }

    /// Follows a log of which a copy is made, up to `end`; up to `anchor` it is known committed, and final.
    pub(crate) fn follow<M: Memory>(
        &mut self,
        copy: &Area<M>,
        ring_len: u64,
        end: Position,
        anchor: Position,
    ) {
        let mut budget = STEP_BYTES;
        while budget > 0 && self.cursor.position < end {
            let Ok(valid) = judge(copy, ring_len, &self.cursor) else { break };
            if self.cursor.position.0 + valid.slot > end.0 {
                break;
            }
            if valid.kind == Kind::CONFIG {
                self.walked = Some(ConfigEntry { before: self.cursor, next: valid.next });
            }
            self.cursor = valid.next;
            self.high = self.high.max(valid.next.position);
            budget = budget.saturating_sub(valid.slot);
        }
        self.move_anchor(copy, ring_len, anchor.min(self.cursor.position));
    }

    /// Confirmed as soon as the pass stands behind an entry of the granted term that its writer knows is here.
    fn confirm(&mut self, promise: Promise) {
        if let Mode::Unconfirmed { told: Some(told) } = self.mode
            && (self.cursor.term == promise.term() || planted::is(Bug::ConfirmWithoutOwnTerm))
            && self.cursor.position <= told.matched
        {
            mark(mark::Walker::Confirmed);
            self.mode = Mode::Confirmed;
        }
    }

    fn walk<M: Memory>(&mut self, area: &Area<M>, ring_len: u64, promise: Promise) -> bool {
        let mut budget = STEP_BYTES;
        let mut moved = false;
        while budget > 0 {
            let Ok(valid) = judge(area, ring_len, &self.cursor) else {
                if self.fenced && !self.at_end {
                    mark(mark::Walker::FencedDone);
                }
                self.at_end = true;
                break;
            };
            let config =
                (valid.kind == Kind::CONFIG).then_some(ConfigEntry { before: self.cursor, next: valid.next });
            self.walked = config.or(self.walked);
            self.cursor = valid.next;
            self.at_end = false;
            self.high = self.high.max(valid.next.position);
            if let Mode::Unconfirmed { told: Some(told) } = self.mode
                && self.cursor.position <= told.commit
            {
                // The leader's bytes, and committed ones: final, whatever comes behind them.
                mark(mark::Walker::AnchorTold);
                self.anchor = self.cursor;
                self.anchored = config.or(self.anchored);
            }
            if self.vouched == Some(self.cursor) {
                mark(mark::Walker::Vouched);
                self.anchor = self.cursor;
                self.anchored = self.walked.or(self.anchored);
            }
            self.confirm(promise);
            moved = true;
            budget = budget.saturating_sub(valid.slot);
        }
        moved
    }

    /// The anchor follows the beat's commit over what is confirmed. Those entries were judged by the cursor and are final.
    fn advance_anchor<M: Memory>(&mut self, area: &Area<M>, ring_len: u64, beat: Option<&BeatLine>) -> bool {
        let (Some(beat), Mode::Confirmed) = (beat, self.mode) else { return false };
        self.move_anchor(area, ring_len, Position(beat.commit).min(self.cursor.position))
    }

    fn move_anchor<M: Memory>(&mut self, area: &Area<M>, ring_len: u64, target: Position) -> bool {
        let mut budget = STEP_BYTES;
        let before = self.anchor.position;
        while self.anchor.position < target && budget > 0 && !self.damaged {
            match peek(area, ring_len, &self.anchor) {
                Ok(valid) if valid.next.position <= target => {
                    mark(mark::Walker::AnchorMoved);
                    if valid.kind == Kind::CONFIG {
                        self.anchored = Some(ConfigEntry { before: self.anchor, next: valid.next });
                    }
                    self.anchor = valid.next;
                    budget = budget.saturating_sub(valid.slot);
                }
                Ok(_) => break,
                Err(_) => {
                    mark(mark::Walker::Damaged);
                    self.damaged = true;
                }
            }
        }
        self.anchor.position != before
    }
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::AtomicU64;
    use std::vec::Vec;

    use super::*;
    use crate::entry::{Kind, write};
    use crate::layout::log;
    use crate::types::{NodeId, Term};

    const RING: u64 = 512 * 1024;

    fn area() -> Area<Vec<AtomicU64>> {
        Area::new((0..log::len(RING) / 8).map(|_| AtomicU64::new(0)).collect())
    }

    fn fill(area: &Area<Vec<AtomicU64>>, mut at: LogPoint, term: u64, count: usize) -> LogPoint {
        for i in 0..count {
            at = write(area, RING, &at, Term(term), Position(0), Kind::PAYLOAD, &[i as u8; 20]);
        }
        at
    }

    #[test]
    fn what_a_new_leader_knows_committed_is_final_before_it_has_an_entry_of_its_own() {
        let area = area();
        fill(&area, LogPoint::start(1), 1, 5);
        let mut walker = Walker::new(LogPoint::start(1));
        walker.handle_grant();
        walker.step(&area, RING, promise(2), Some(&beat(2, 192, 128)));
        assert_eq!(walker.anchor().index.0, 2);
        assert_eq!(walker.lower_bound().index.0, 2, "what lies behind may still be replaced");
        walker.step(&area, RING, promise(2), Some(&beat(2, 128, 256)));
        assert_eq!(walker.anchor().index.0, 2, "a commit above matched counts up to that");
    }

    #[test]
    fn a_fenced_log_is_committed_up_to_a_place_that_another_vouches_for() {
        let area = area();
        let place = fill(&area, LogPoint::start(1), 1, 3);
        let end = fill(&area, place, 1, 2);
        let mut walker = Walker::new(LogPoint::start(1));
        walker.handle_fence();
        walker.step(&area, RING, promise(1), None);
        let elsewhere = [
            LogPoint { term: Term(2), ..place },
            LogPoint { chain: end.chain, ..place },
            LogPoint { index: end.index, ..place },
        ];
        for other in elsewhere {
            walker.vouch(other);
            assert!(!walker.is_done(), "it has to be walked for that");
            walker.step(&area, RING, promise(1), None);
            assert!(walker.is_done());
            assert_eq!((walker.anchor().index.0, walker.cursor()), (0, &end), "{other:?} is not in this log");
        }
        walker.vouch(place);
        walker.step(&area, RING, promise(1), None);
        assert_eq!((walker.anchor(), walker.cursor()), (&place, &end));
        walker.vouch(place);
        assert!(walker.is_done(), "which is known by now");

        walker.handle_grant();
        walker.vouch(end);
        walker.step(&area, RING, promise(1), None);
        assert_eq!(walker.anchor(), &place, "who may write may be replacing what was found");
    }

    fn beat(term: u64, matched: u64, commit: u64) -> BeatLine {
        BeatLine { leader: Promise::new(Term(term), NodeId(2)).0, matched, commit, ..BeatLine::default() }
    }

    fn promise(term: u64) -> Promise {
        Promise::new(Term(term), NodeId(2))
    }

    #[test]
    fn a_fenced_log_is_walked_once_to_its_end() {
        let area = area();
        let end = fill(&area, LogPoint::start(1), 1, 5);
        let mut walker = Walker::new(LogPoint::start(1));
        walker.handle_fence();
        walker.step(&area, RING, promise(1), None);
        assert!(walker.is_done());
        assert_eq!(walker.cursor(), &end);
        assert_eq!(walker.anchor().index.0, 0);
    }

    #[test]
    fn unconfirmed_entries_are_walked_again_and_may_be_replaced() {
        let area = area();
        let start = LogPoint::start(1);
        fill(&area, start, 1, 5);
        let mut walker = Walker::new(start);
        walker.handle_grant();
        walker.step(&area, RING, promise(2), None);
        assert_eq!(walker.cursor().index.0, 5);
        assert_eq!(walker.lower_bound().index.0, 0);
        let end = fill(&area, start, 2, 2);
        // matched alone does not confirm: an entry of the term must lie below it.
        walker.step(&area, RING, promise(2), Some(&beat(2, 0, 0)));
        assert_eq!(walker.cursor(), &end, "the old suffix is not chained to the new entries");
        assert_eq!(walker.lower_bound().index.0, 0);
        walker.step(&area, RING, promise(2), Some(&beat(2, 64, 0)));
        assert_eq!(walker.lower_bound(), &end);
        walker.step(&area, RING, promise(2), Some(&beat(2, 128, 128)));
        assert_eq!(walker.anchor(), &end);
    }

    #[test]
    fn an_old_suffix_below_matched_does_not_confirm() {
        let area = area();
        let start = LogPoint::start(1);
        fill(&area, start, 1, 5);
        let mut walker = Walker::new(start);
        walker.handle_grant();
        walker.step(&area, RING, promise(2), Some(&beat(2, 192, 0)));
        walker.step(&area, RING, promise(2), Some(&beat(2, 192, 0)));
        assert_eq!(walker.anchor().index.0, 0);
        assert_eq!(walker.lower_bound().index.0, 0);
    }

    #[test]
    fn a_configuration_goes_with_the_suffix_it_stood_in() {
        let area = area();
        let start = LogPoint::start(1);
        let before = fill(&area, start, 1, 1);
        let next = write(&area, RING, &before, Term(1), Position(0), Kind::CONFIG, b"whoever");
        let mut walker = Walker::new(start);
        walker.handle_grant();
        walker.step(&area, RING, promise(2), None);
        assert_eq!(walker.walked_config(), Some(ConfigEntry { before, next }));
        assert_eq!(walker.anchored_config(), None);
        fill(&area, before, 2, 1);
        walker.step(&area, RING, promise(2), None);
        assert_eq!(walker.walked_config(), None, "replaced");
        let next = write(&area, RING, &before, Term(2), Position(0), Kind::CONFIG, b"others");
        walker.step(&area, RING, promise(2), Some(&beat(2, next.position.0, next.position.0)));
        walker.step(&area, RING, promise(2), Some(&beat(2, next.position.0, next.position.0)));
        assert_eq!(walker.anchored_config(), Some(ConfigEntry { before, next }));
    }

    #[test]
    fn a_beat_of_another_promise_moves_nothing() {
        let area = area();
        let start = LogPoint::start(1);
        fill(&area, start, 1, 5);
        let mut walker = Walker::new(start);
        walker.handle_grant();
        walker.step(&area, RING, promise(2), Some(&beat(1, 320, 320)));
        assert_eq!(walker.anchor().index.0, 0);
    }

    #[test]
    fn a_caught_up_follower_is_confirmed_by_its_anchor() {
        let area = area();
        let end = fill(&area, LogPoint::start(1), 2, 5);
        let mut walker = Walker::new(end);
        walker.handle_grant();
        walker.step(&area, RING, promise(2), Some(&beat(2, end.position.0, end.position.0)));
        let end = fill(&area, end, 2, 3);
        walker.step(&area, RING, promise(2), None);
        assert_eq!(walker.lower_bound(), &end);
    }

    #[test]
    fn bytes_that_change_after_they_were_confirmed_stop_the_anchor() {
        let area = area();
        fill(&area, LogPoint::start(1), 2, 5);
        let mut walker = Walker::new(LogPoint::start(1));
        walker.handle_grant();
        walker.step(&area, RING, promise(2), Some(&beat(2, 320, 64)));
        assert_eq!(walker.anchor().index.0, 1);
        area.store(log::RING + 128 + 24, u64::MAX);
        walker.step(&area, RING, promise(2), Some(&beat(2, 320, 320)));
        assert_eq!(walker.anchor().index.0, 2);
        assert!(walker.is_damaged());
    }
}
