//! The beat line in this node's own log area, as its acceptor sees it.
//!
//! A beat whose CRC fails is no beat; the last whole one stays. But somebody is writing it: what stood there before may be a beat
//! that nobody here saw, so a lease runs from such a change, too. What a beat *means* is for acceptor, walker and detector.

#[cfg(feature = "model")]
use crate::canonical::{Canonical, beat_line};
use crate::layout::{BeatLine, Line, beat_flags, log};
use crate::mem::{Area, Memory, acquire};
use crate::planted::{self, Bug};
#[cfg(feature = "model")]
use crate::types::NodeId;
use crate::types::{Instant, Promise};

/// Words of a beat line, whatever they are.
pub(crate) type RawBeat = [u64; 8];

/// The last whole beat, and when it came.
#[derive(Clone, Default, Debug)]
pub(crate) struct BeatWatch {
    raw: RawBeat,
    whole: Option<BeatLine>,
    /// Words seen last that are no beat.
    torn: RawBeat,
    /// It changed after the last whole beat.
    is_torn: bool,
    moved_at: Option<Instant>,
    /// It moved, and the clock was not read since: the time above is from before it was seen.
    fresh: bool,
}

impl BeatWatch {
    /// The last whole beat.
    pub(crate) fn line(&self) -> Option<&BeatLine> {
        self.whole.as_ref()
    }

    /// Whether a beat was seen to move within the last `ns`, whole or not.
    ///
    /// A lease runs from the moment at which the beat was *seen*, and the time at hand was read before: until a later one is
    /// known, the beat moved just now.
    pub(crate) fn moved_within(&self, now: Instant, ns: u64) -> bool {
        self.moved_at.is_some_and(|at| self.fresh && at == now || now.since(at) < ns)
    }

    /// Whether the line has changed since the last whole beat: what that said may be no more so.
    pub(crate) fn is_torn(&self) -> bool {
        self.is_torn
    }

    /// Looks at the line now; one load while it does not change. Returns whether a new whole beat was there.
    #[inline]
    pub(crate) fn look<M: Memory>(&mut self, now: Instant, area: &Area<M>) -> bool {
        self.settle(now);
        if area.load(BeatLine::last_word(log::BEAT)) == self.raw[7] {
            return false;
        }
        self.take(now, &raw(area))
    }

    /// Judges words that were read just now.
    pub(crate) fn take(&mut self, now: Instant, words: &RawBeat) -> bool {
        self.settle(now);
        if *words == self.raw {
            return false;
        }
        let beat = BeatLine::open(words);
        match beat {
            Some(_) => (self.raw, self.whole) = (*words, beat),
            None if *words == self.torn || planted::is(Bug::TornBeatUnseen) => return false,
            None => self.torn = *words,
        }
        self.is_torn = beat.is_none();
        self.moved_at = Some(now);
        self.fresh = true;
        beat.is_some()
    }

    /// The first time that was read after the beat was seen is when it was seen, on the safe side.
    fn settle(&mut self, now: Instant) {
        if self.fresh && self.moved_at.is_some_and(|at| now > at) {
            self.moved_at = Some(now);
            self.fresh = false;
        }
    }
}

/// The words that stand there now.
pub(crate) fn raw<M: Memory>(area: &Area<M>) -> RawBeat {
    let mut words = [0; 8];
    acquire();
    area.read(log::BEAT, &mut words);
    words
}

/// Whether these words are a whole beat of the leader of `promise` that is giving up.
pub(crate) fn is_yielding(raw: &RawBeat, promise: Promise) -> bool {
    BeatLine::open(raw).is_some_and(|beat| {
        beat.leader == promise.0 && beat.flags & beat_flags::YIELDING != 0 && promise != Promise::NONE
    })
}

#[cfg(feature = "model")]
impl BeatWatch {
    pub(crate) fn canonical(&self, me: NodeId, out: &mut impl Canonical) {
        // `whole` is what `raw` says.
        let BeatWatch { raw, whole: _, torn, is_torn, moved_at, fresh } = self;
        canonical_raw(raw, me, out);
        canonical_raw(torn, me, out);
        out.moment_if_any(*moved_at);
        out.plain((is_torn, fresh));
    }
}

/// Words of a beat line in the log area of `me`, whatever they are.
#[cfg(feature = "model")]
pub(crate) fn canonical_raw(raw: &RawBeat, me: NodeId, out: &mut impl Canonical) {
    let line = BeatLine::open(raw);
    out.plain(line.is_some());
    match line {
        Some(line) => beat_line(&line, me, out),
        None => out.plain(raw),
    }
}
