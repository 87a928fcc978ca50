//! The entries that a ring still holds up to a known end, found backwards and checked forwards.
//!
//! A ring that has wrapped holds the last lap only, and nothing says where its first whole entry begins. But the tail of
//! an entry names the position at which it starts, and ends where the next one starts: so the tails are followed from
//! the known end down to what newer entries have overwritten. From there on the chain of the entry before is known, and
//! every entry can be judged.

use std::fmt;

use ringleader_core::entry::{End, Kind, SLOT_ALIGN, TAIL_LEN, Valid, judge, offset, slot_len};
use ringleader_core::layout::log;
use ringleader_core::mem::{Area, Memory};
use ringleader_core::types::{Chain, Index, LogPoint, Position, Term};

/// The entries held: from here on they can be judged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Held {
    /// Before the first entry.
    pub start: LogPoint,
    /// Whether entries before it have been overwritten.
    pub is_wrapped: bool,
}

/// Something that is not as it must be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Damage {
    /// The end is above what can be, or not where an entry can end.
    End {
        /// It.
        end: Position,
    },
    /// No entry ends where one must.
    Tail {
        /// Where one must end.
        end: Position,
    },
    /// An entry's header, payload or tail.
    Entry {
        /// The entry.
        index: Index,
        /// Its slot.
        position: Position,
    },
    /// A byte between payload and tail is not zero.
    Padding {
        /// The entry.
        index: Index,
        /// Its slot.
        position: Position,
    },
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Damage::End { end } => write!(f, "position {end}, up to which entries are applied, cannot be"),
            Damage::Tail { end } => write!(f, "damaged entry: none ends at position {end}"),
            Damage::Entry { index, position } => write!(f, "damaged entry {index} at position {position}"),
            Damage::Padding { index, position } => {
                write!(f, "damaged padding of entry {index} at position {position}")
            }
        }
    }
}

impl std::error::Error for Damage {}

/// A log area, and the length of its ring.
struct Ring<'a, M> {
    area: &'a Area<M>,
    len: u64,
}

/// The tail of an entry.
#[derive(Clone, Copy, Debug)]
struct Tail {
    /// Where its entry starts.
    start: Position,
    chain: Chain,
}

impl<M: Memory> Ring<'_, M> {
    fn max_slot(&self) -> u64 {
        self.len / 8
    }

    fn load(&self, position: u64) -> u64 {
        self.area.load(offset(self.len, Position(position)))
    }

    /// Index, slot length and kind by the header at `position`, if its length can be.
    fn header(&self, position: u64) -> Option<(Index, u64, Kind)> {
        let word = self.load(position + 24);
        let slot = slot_len(word as u32 as usize);
        let fits = slot <= self.max_slot() && position % self.len + slot <= self.len;
        fits.then(|| (Index(self.load(position)), slot, Kind((word >> 32) as u8)))
    }

    /// What the word before `end` says if it is a tail: where its entry starts may be anything.
    fn tail(&self, end: u64) -> Tail {
        let word = self.load(end - TAIL_LEN);
        // The lap counts slots, in 32 bits: of all positions with that lap the last one before `end`.
        let slots = ((end / SLOT_ALIGN) as u32).wrapping_sub((word >> 32) as u32);
        let start = end.saturating_sub(u64::from(slots) * SLOT_ALIGN);
        Tail { start: Position(start), chain: Chain(word as u32) }
    }

    /// The entry that ends at `end`, by header and tail, of which nothing below `low` may be read: `Err` when there is none
    /// though there must be, `None` when it begins below `low`.
    fn before(&self, end: u64, low: u64) -> Result<Option<(Tail, Index)>, Damage> {
        let tail = self.tail(end);
        let start = tail.start.0;
        let length = end - start;
        if (SLOT_ALIGN..=self.max_slot()).contains(&length) && start.is_multiple_of(SLOT_ALIGN) {
            if start < low && end - low < self.max_slot() && !self.is_whole_below(end, low) {
                return Ok(None);
            }
            if start >= low
                && let Some((index, slot, kind)) = self.header(start)
                && slot == length
                && (kind != Kind::PAD || end.is_multiple_of(self.len))
            {
                return Ok(Some((tail, index)));
            }
        }
        if end.is_multiple_of(self.len)
            && let Some(pad) = self.pad_before(end, low)
        {
            return Ok(pad);
        }
        Err(Damage::Tail { end: Position(end) })
    }

    /// The pad that fills the ring up to `end`; `Some(None)` when it is below `low`, or may be.
    fn pad_before(&self, end: u64, low: u64) -> Option<Option<(Tail, Index)>> {
        let lowest = end.saturating_sub(self.max_slot());
        let mut at = end - SLOT_ALIGN;
        while at >= lowest.max(low) {
            let tail = self.tail(at + SLOT_ALIGN);
            if tail.start.0 == at
                && let Some((index, SLOT_ALIGN, Kind::PAD)) = self.header(at)
            {
                return Some(Some((tail, index)));
            }
            at = at.checked_sub(SLOT_ALIGN)?;
        }
        (low > lowest).then_some(None)
    }

    /// Whether an entry ends at `end` after all that starts at or above `low`: its tail was changed then.
    fn is_whole_below(&self, end: u64, low: u64) -> bool {
        let next = self.header(end).map_or(Index(0), |(index, ..)| index);
        (low..end).step_by(SLOT_ALIGN as usize).any(|at| {
            self.header(at).is_some_and(|(index, slot, _)| at + slot == end && index.next() == next)
        })
    }

    /// Up to where something newer than the entry that ends at `end`, the end of the log, may have been written.
    ///
    /// Whole entries above it (of a leader before the last) are known by header and tail together, so that one changed
    /// byte makes no such entry; one that is there in part only where it touches what is known.
    fn high(&self, end: &LogPoint) -> u64 {
        // Pieces land at most the leader's window above the end of the log; a window is at most half the smallest ring.
        let reach = end.position.0 + self.len / 2;
        let mut high = end.position.0;
        let mut next = (end.position.0, end.index.next());
        // What goes on from the end, as far as it is whole, and the torn entry behind it.
        while next.0 < reach
            && let Some((index, slot, kind)) = self.header(next.0)
            && index == next.1
        {
            let after = next.0 + slot;
            high = after;
            if self.tail(after).start.0 != next.0 {
                break;
            }
            let pad = kind == Kind::PAD;
            next = (if pad { after.next_multiple_of(self.len) } else { after }, index.next());
        }
        // What an earlier leader left behind: the rest of the entry that was overwritten last, and what follows it.
        let rest = (high + SLOT_ALIGN..high + self.max_slot()).step_by(SLOT_ALIGN as usize).find(|after| {
            let start = self.tail(*after).start.0;
            start < high && start + self.max_slot() >= *after
        });
        high = rest.unwrap_or(high);
        for at in (end.position.0..reach).step_by(SLOT_ALIGN as usize) {
            let ahead = (at - end.position.0) / SLOT_ALIGN + 1;
            if let Some((index, slot, _)) = self.header(at)
                && index > end.index
                && index.0 - end.index.0 <= ahead
                && self.tail(at + slot).start.0 == at
            {
                high = high.max(at + slot);
            }
        }
        high
    }
}

/// Finds the entries held below `end`, which is the end of a log (of what was applied, for example) of group `group`.
///
/// Follows the tails only: [`verify`] judges the entries. `Err` when no entry ends where one must.
pub fn held<M: Memory>(area: &Area<M>, ring_len: u64, group: u128, end: Position) -> Result<Held, Damage> {
    let ring = Ring { area, len: ring_len };
    if end.0 == 0 {
        return Ok(Held { start: LogPoint::start(group), is_wrapped: false });
    }
    if !end.0.is_multiple_of(SLOT_ALIGN) || end.0 > u64::MAX / 2 {
        return Err(Damage::End { end });
    }
    // Nothing of the lap before the last can be there; how much of the last lap is gone is known below.
    let at_least = end.0.saturating_sub(ring_len);
    let last = ring.before(end.0, at_least)?.ok_or(Damage::Tail { end })?;
    let low = ring.high(&log_end(&ring, end, last)).saturating_sub(ring_len);
    let mut at = LogPoint { index: last.1, position: last.0.start, ..LogPoint::default() };
    if at.position.0 < low {
        return Err(Damage::End { end });
    }
    loop {
        let position = at.position.0;
        if position == 0 {
            let first = LogPoint::start(group);
            let is_first = at.index == first.index.next();
            let damage = Damage::Entry { index: at.index, position: at.position };
            return if is_first { Ok(Held { start: first, is_wrapped: false }) } else { Err(damage) };
        }
        // What ends at the lowest position has been overwritten, its tail included.
        let before = if position > low { ring.before(position, low)? } else { None };
        match before {
            Some((tail, index)) if index.next() == at.index => {
                at = LogPoint { index, position: tail.start, ..LogPoint::default() };
            }
            Some((tail, index)) => return Err(Damage::Entry { index, position: tail.start }),
            None => return Ok(Held { start: first_judged(&ring, at, low)?, is_wrapped: true }),
        }
    }
}

/// The place from which on entries can be judged, when `at` is where the lowest whole entry starts: there, when the
/// tail of the entry before it is still there, else behind it.
fn first_judged<M: Memory>(ring: &Ring<'_, M>, at: LogPoint, low: u64) -> Result<LogPoint, Damage> {
    let position = at.position.0;
    let point = |index: Index, position, chain| LogPoint { index, term: Term(0), position, chain };
    // In front of a multiple of the ring's length the tail before may be a pad's, anywhere.
    if position > low && !position.is_multiple_of(ring.len) {
        return Ok(point(Index(at.index.0.wrapping_sub(1)), at.position, ring.tail(position).chain));
    }
    let damage = Damage::Entry { index: at.index, position: at.position };
    let (index, slot, kind) = ring.header(position).ok_or(damage)?;
    let end = position + slot;
    let tail = ring.tail(end);
    if tail.start != at.position {
        return Err(damage);
    }
    let next = if kind == Kind::PAD { end.next_multiple_of(ring.len) } else { end };
    Ok(point(index, Position(next), tail.chain))
}

/// Goes on from `end` as far as entries are valid.
fn log_end<M: Memory>(ring: &Ring<'_, M>, end: Position, (tail, index): (Tail, Index)) -> LogPoint {
    let mut at = LogPoint { index, term: Term(0), position: end, chain: tail.chain };
    // A ring's worth at the most, whatever the bytes are.
    while at.position.0 - end.0 < ring.len
        && let Ok(valid) = judge(ring.area, ring.len, &at)
    {
        at = valid.next;
    }
    at
}

/// Judges every entry from `held.start` up to `end`, and hands each to `each` with its position.
pub fn verify<M: Memory>(
    area: &Area<M>,
    ring_len: u64,
    held: &Held,
    end: Position,
    mut each: impl FnMut(Position, &Valid),
) -> Result<LogPoint, Damage> {
    let mut at = held.start;
    while at.position < end {
        let (index, position) = (at.index.next(), at.position);
        let valid = judge(area, ring_len, &at).map_err(|end| match end {
            End::Padding => Damage::Padding { index, position },
            _ => Damage::Entry { index, position },
        })?;
        if valid.next.position > end {
            return Err(Damage::Entry { index, position });
        }
        each(position, &valid);
        at = valid.next;
    }
    Ok(at)
}

const _: () = assert!(log::RING.is_multiple_of(SLOT_ALIGN));

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use ringleader_core::entry::{max_payload, write};

    use super::*;

    const RING: u64 = 512 * 1024;
    const GROUP: u128 = 0x1234_5678_9abc;

    struct Words(Box<[AtomicU64]>);

    impl Memory for Words {
        fn words(&self) -> &[AtomicU64] {
            &self.0
        }
    }

    /// A log area with what was written to it, as a leader would.
    struct Written {
        area: Area<Words>,
        /// Every place between two entries, the start first; a pad's next is behind the gap.
        points: Vec<LogPoint>,
        seed: u64,
    }

    impl Written {
        fn new() -> Written {
            let area = Area::new(Words((0..log::len(RING) / 8).map(|_| AtomicU64::new(0)).collect()));
            Written { area, points: vec![LogPoint::start(GROUP)], seed: 1 }
        }

        fn random(&mut self) -> u64 {
            self.seed ^= self.seed << 13;
            self.seed ^= self.seed >> 7;
            self.seed ^= self.seed << 17;
            self.seed
        }

        fn last(&self) -> LogPoint {
            *self.points.last().unwrap()
        }

        fn push(&mut self, term: u64, payload: &[u8]) {
            let at = self.last();
            let left = RING - at.position.0 % RING;
            if slot_len(payload.len()) > left {
                self.write(term, Kind::PAD, &[]);
            }
            self.write(term, Kind::PAYLOAD, payload);
        }

        fn write(&mut self, term: u64, kind: Kind, payload: &[u8]) {
            let at = self.last();
            let next = write(&self.area, RING, &at, Term(term), Position(0), kind, payload);
            self.points.push(next);
        }

        /// Entries of mixed lengths up to position `end`, at least.
        fn fill(&mut self, term: u64, end: u64) {
            while self.last().position.0 < end {
                let random = self.random();
                let len = match random % 16 {
                    0 => (random >> 8) as usize % max_payload(RING / 8),
                    1..4 => (random >> 8) as usize % 3000,
                    _ => (random >> 8) as usize % 200,
                };
                let payload: Vec<u8> = (0..len).map(|i| (random as usize + i * 7) as u8).collect();
                self.push(term, &payload);
            }
        }

        fn check(&self, end: Position) -> Result<(Held, LogPoint), Damage> {
            let held = held(&self.area, RING, GROUP, end)?;
            let reached = verify(&self.area, RING, &held, end, |_, _| {})?;
            Ok((held, reached))
        }

        fn flip(&self, position: u64, bit: u32) {
            let at = offset(RING, Position(position & !7));
            let bit = (position % 8) as u32 * 8 + bit;
            self.area.store(at, self.area.load(at) ^ 1 << bit);
        }
    }

    #[test]
    fn an_empty_log_and_one_that_has_not_wrapped_begin_at_the_start() {
        let mut log = Written::new();
        assert_eq!(log.check(Position(0)).unwrap().1, LogPoint::start(GROUP));
        log.fill(1, RING / 2);
        for point in log.points.clone() {
            let (held, end) = log.check(point.position).unwrap();
            assert!(!held.is_wrapped);
            assert_eq!(end, point);
        }
    }

    #[test]
    fn a_wrapped_log_is_checked_from_the_first_entry_that_can_be() {
        let mut log = Written::new();
        for end in [RING, RING + RING / 2, 2 * RING, 3 * RING + 640, 7 * RING - 64, 9 * RING + 12_345] {
            log.fill(1, end);
            let last = log.last();
            let lowest = last.position.0 - RING;
            let ends = log.points.iter().filter(|point| point.position.0 >= lowest + RING / 4);
            for point in ends {
                let (held, reached) = log.check(point.position).unwrap();
                assert_eq!((reached.index, reached.position), (point.index, point.position));
                assert!(held.is_wrapped);
                // At most one entry in part and one whole, which has lost the chain before it, are passed over.
                let start = held.start.position.0;
                assert!(start >= lowest && start <= lowest + 2 * RING / 8, "{start} {lowest}");
                let at = log.points.iter().find(|point| point.position.0 == start).unwrap();
                assert_eq!((at.index, at.chain), (held.start.index, held.start.chain));
            }
        }
    }

    #[test]
    fn every_flipped_byte_of_the_entries_is_found() {
        for laps in [0, 5] {
            let mut log = Written::new();
            log.fill(1, laps * RING + RING / 2);
            let applied = log.points[log.points.len() - 3].position;
            let (held, _) = log.check(applied).unwrap();
            let first = log.points.iter().position(|point| point.position == held.start.position).unwrap();
            for i in first..log.points.len() - 3 {
                let at = log.points[i];
                let valid = judge(&log.area, RING, &at).unwrap();
                let random = log.random();
                let step = if valid.slot > 512 { 97 } else { 3 };
                for byte in (at.position.0..at.position.0 + valid.slot).step_by(step) {
                    let bit = (random >> (byte % 60)) as u32 % 8;
                    log.flip(byte, bit);
                    assert!(log.check(applied).is_err(), "lap {laps}, byte {byte} of {at:?} {valid:?}");
                    log.flip(byte, bit);
                }
            }
            log.check(applied).unwrap();
        }
    }

    #[test]
    fn what_landed_above_the_end_is_no_damage() {
        let mut log = Written::new();
        log.fill(1, 4 * RING + 1000);
        // Another leader replaces the end of the log, by less than what stood there.
        let above = log.last();
        let cut = log.points.iter().position(|point| point.position.0 > above.position.0 - 150_000).unwrap();
        log.points.truncate(cut);
        log.fill(2, log.last().position.0 + 4000);
        let end = log.last();
        assert!(end.position < above.position);
        let (held, reached) = log.check(end.position).unwrap();
        assert_eq!(reached, end);
        assert!(held.start.position.0 >= end.position.0 - RING);
        // And a piece of what comes next.
        while log.last().position.0 < above.position.0 + 20_000 {
            log.push(2, &[7; 5000]);
            // Its last pieces have not landed yet.
            let tail = offset(RING, log.last().position) - 8;
            let word = log.area.load(tail);
            log.area.store(tail, 0);
            log.check(end.position).unwrap();
            log.area.store(tail, word);
        }
    }

    #[test]
    fn garbage_is_damage_and_never_a_panic() {
        let mut log = Written::new();
        log.fill(1, 2 * RING + 5000);
        let last = log.last();
        for _ in 0..200 {
            for _ in 0..50 {
                let (at, value) = (log.random(), log.random());
                log.area.store(log::RING + (at % RING) / 8 * 8, value);
            }
            let end = log.random();
            let _ = log.check(Position(end));
            let _ = log.check(Position(end & !63));
            let _ = log.check(Position(end % (8 * RING) / 64 * 64));
            let _ = log.check(Position(u64::MAX));
            let _ = log.check(last.position);
        }
    }
}
