//! The copy of a log area that is in a host's memory: an acceptor cannot load from there, and walks this.
//!
//! To the acceptor it must be memory as the protocol knows it (protocol.md 2 and 13): what it sees may be old, but
//!
//! - a beat is seen behind the bytes that it vouches for. Its `matched` says that these are the leader's; bytes that were READ before
//!   the beat was may be a former leader's, and the walker would take them for final. So the beat line is READ first, and shown last;
//! - a fence leaves it exact: once nothing of the writer lands any more, everything that a walk can come to is READ again, and a beat
//!   that came meanwhile is shown, before the fence is done.
//!
//! Everything above the published anchor is READ each time: what is at or below it is final. Not here: how it is READ (`far`).

use ringleader_core::entry::{self, HEADER_LEN, Kind, SLOT_ALIGN, longest_slot, slot_len};
use ringleader_core::layout::{BeatLine, Line, ProgressLine, control, log};
use ringleader_core::mem::{Area, Memory, acquire, full};
use ringleader_core::types::Position;

/// Few enough for a fence, and enough to be worth their way.
const CHUNK: u64 = 256 << 10;

/// The words of a beat line, whole or not.
pub(super) type RawBeat = [u64; 8];

/// The host's memory.
pub(super) trait Source {
    /// Why it cannot be read.
    type Error;

    /// The beat line as it stands there.
    fn beat(&mut self) -> Result<RawBeat, Self::Error>;

    /// Copies bytes of the log area to the same place of the copy.
    fn copy(&mut self, offset: u64, len: u32) -> Result<(), Self::Error>;
}

/// See the module.
#[derive(Debug)]
pub(super) struct Shadow<S, M> {
    pub(super) source: S,
    /// The copy.
    log: Area<M>,
    /// This acceptor's own control area, where its anchor is published.
    control: Area<M>,
    ring_len: u64,
    /// Bytes READ at once.
    chunk: u64,
    anchor: u64,
    /// The beat line that the copy has.
    shown: RawBeat,
}

/// What stands somewhere in the copy.
enum Next {
    /// Something that may be an entry, and what is behind it.
    Entry { position: u64, index: u64 },
    /// Nothing that a walk goes over.
    End,
    /// So far it must be READ to tell.
    Beyond(u64),
}

impl<S: Source, M: Memory> Shadow<S, M> {
    /// Over a copy that is all zeros.
    pub(super) fn new(source: S, log: Area<M>, control: Area<M>, ring_len: u64) -> Shadow<S, M> {
        Shadow { source, log, control, ring_len, chunk: CHUNK, anchor: 0, shown: [0; 8] }
    }

    /// Looks for a beat, and takes what it vouches for. Whether there was one.
    pub(super) fn look(&mut self) -> Result<bool, S::Error> {
        let anchor = self.look_at_anchor();
        let beat = self.source.beat()?;
        if beat == self.shown {
            return Ok(false);
        }
        self.take(anchor, self.vouched(anchor, &beat))?;
        self.show(beat);
        Ok(true)
    }

    /// Takes everything that a walk can come to. Nobody writes there meanwhile.
    pub(super) fn catch_up(&mut self) -> Result<(), S::Error> {
        let anchor = self.look_at_anchor();
        let beat = self.source.beat()?;
        let (mut taken, limit) = (self.vouched(anchor, &beat), anchor.saturating_add(self.ring_len));
        self.take(anchor, taken)?;
        let (mut at, mut index) = (anchor, None);
        loop {
            match self.next(at, index, taken) {
                Next::Entry { position, index: this } => (at, index) = (position, this.checked_add(1)),
                Next::End => break,
                Next::Beyond(_) if taken >= limit => break,
                Next::Beyond(needed) => {
                    let to = needed.max(taken.saturating_add(self.chunk)).min(limit);
                    self.take(taken, to)?;
                    taken = to;
                }
            }
        }
        self.show(beat);
        Ok(())
    }

    /// The published anchor, or the last one where that is being written.
    fn look_at_anchor(&mut self) -> u64 {
        if let Some(line) = ProgressLine::read(&self.control, control::PROGRESS) {
            self.anchor = line.anchor / SLOT_ALIGN * SLOT_ALIGN;
        }
        self.anchor
    }

    /// Up to where a beat vouches for the bytes; it may be none.
    fn vouched(&self, anchor: u64, beat: &RawBeat) -> u64 {
        let to = BeatLine::open(beat).map_or(0, |line| line.matched.max(line.commit));
        // More than a ring is the whole ring.
        let to = to.checked_next_multiple_of(SLOT_ALIGN).unwrap_or(u64::MAX);
        to.clamp(anchor, anchor.saturating_add(self.ring_len))
    }

    fn take(&mut self, from: u64, to: u64) -> Result<(), S::Error> {
        let mut at = from;
        while at < to {
            let until_end = self.ring_len - (at & (self.ring_len - 1));
            let len = self.chunk.min(until_end).min(to - at);
            self.source.copy(entry::offset(self.ring_len, Position(at)), len as u32)?;
            at += len;
        }
        Ok(())
    }

    /// Who sees the beat sees the bytes.
    fn show(&mut self, beat: RawBeat) {
        full();
        self.log.write(log::BEAT, &beat);
        self.shown = beat;
    }

    /// What stands there, when what is below `taken` was READ. Whatever `entry::judge` goes over is an entry here; what else is one here
    /// costs a READ.
    fn next(&self, position: u64, index: Option<u64>, taken: u64) -> Next {
        if position + HEADER_LEN > taken {
            return Next::Beyond(position + SLOT_ALIGN);
        }
        acquire();
        let at = entry::offset(self.ring_len, Position(position));
        let header: [u64; 4] = std::array::from_fn(|word| self.log.load(at + 8 * word as u64));
        let [this, term, _, word] = header;
        let (len, kind) = (word as u32, Kind((word >> 32) as u8));
        let slot = slot_len(len as usize);
        let in_ring = (position & (self.ring_len - 1)) + slot <= self.ring_len;
        if this == 0
            || index.is_some_and(|index| index != this)
            || term == 0
            || slot > longest_slot(self.ring_len)
            || !in_ring
        {
            return Next::End;
        }
        let end = position + slot;
        if end > taken {
            return Next::Beyond(end);
        }
        let lap = (self.log.load(at + slot - 8) >> 32) as u32;
        if lap != (position / SLOT_ALIGN) as u32 {
            return Next::End;
        }
        let position = if kind == Kind::PAD { end.next_multiple_of(self.ring_len) } else { end };
        Next::Entry { position, index: this }
    }
}

#[cfg(test)]
mod tests;
