//! The beat line in this node's own log area, as its acceptor sees it.
//!
//! A beat whose CRC fails is no beat; the last whole one stays. What a beat *means* is for acceptor, walker and detector.

#[cfg(feature = "model")]
use crate::canonical::{Canonical, beat_line};
use crate::layout::{BeatLine, Line, beat_flags, log};
use crate::mem::{Area, Memory, acquire};
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
    moved_at: Option<Instant>,
    /// It moved, and the clock was not read since: the time above is from before it was seen.
    fresh: bool,
}

impl BeatWatch {
    /// The last whole beat.
    pub(crate) fn line(&self) -> Option<&BeatLine> {
        self.whole.as_ref()
    }

    /// Whether a whole beat was seen to move within the last `ns`.
    ///
    /// A lease runs from the moment at which the beat was *seen*, and the time at hand was read before: until a later one is
    /// known, the beat moved just now.
    pub(crate) fn moved_within(&self, now: Instant, ns: u64) -> bool {
        self.moved_at.is_some_and(|at| self.fresh && at == now || now.since(at) < ns)
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
        let Some(beat) = BeatLine::open(words) else { return false };
        self.raw = *words;
        self.whole = Some(beat);
        self.moved_at = Some(now);
        self.fresh = true;
        true
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
        let BeatWatch { raw, whole: _, moved_at, fresh } = self;
        canonical_raw(raw, me, out);
        out.moment_if_any(*moved_at);
        out.plain(fresh);
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
