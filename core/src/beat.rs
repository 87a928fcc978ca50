//! The beat line in this node's own log area, as its acceptor sees it.
//!
//! A beat whose CRC fails is no beat; the last whole one stays. What a beat *means* is for acceptor, walker and detector.

use crate::layout::{BeatLine, Line, beat_flags, log};
use crate::mem::{Area, Memory, acquire};
use crate::types::{Instant, Promise};

/// Words of a beat line, whatever they are.
pub(crate) type RawBeat = [u64; 8];

/// The last whole beat, and when it came.
#[derive(Clone, Default, Debug)]
pub(crate) struct BeatWatch {
    raw: RawBeat,
    whole: Option<BeatLine>,
    moved_at: Option<Instant>,
}

impl BeatWatch {
    /// The last whole beat.
    pub(crate) fn line(&self) -> Option<&BeatLine> {
        self.whole.as_ref()
    }

    /// When a whole beat was last seen to differ from the one before.
    pub(crate) fn moved_at(&self) -> Option<Instant> {
        self.moved_at
    }

    /// Looks at the line now; one load while it does not change. Returns whether a new whole beat was there.
    #[inline]
    pub(crate) fn look<M: Memory>(&mut self, now: Instant, area: &Area<M>) -> bool {
        if area.load(BeatLine::last_word(log::BEAT)) == self.raw[7] {
            return false;
        }
        self.take(now, &raw(area))
    }

    /// Judges words that were read just now.
    pub(crate) fn take(&mut self, now: Instant, words: &RawBeat) -> bool {
        if *words == self.raw {
            return false;
        }
        let Some(beat) = BeatLine::open(words) else { return false };
        self.raw = *words;
        self.whole = Some(beat);
        self.moved_at = Some(now);
        true
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
