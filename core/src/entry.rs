//! An entry of the log: how it is encoded, and how bytes that somebody may have written are judged (protocol.md 3).
//!
//! A slot is `index u64, term u64, commit u64, len u32, kind u8, reserved [u8; 3]`, the payload, zeros, and as its very last
//! 8 bytes the tail `chain u32, lap u32`. It is a multiple of 64 bytes long and never crosses the ring's end.

use crate::crc;
use crate::layout::log;
use crate::mem::{Area, Memory, acquire};
use crate::planted::{self, Bug};
use crate::types::{Chain, Index, LogPoint, Position, Term};

/// Bytes before the payload.
pub const HEADER_LEN: u64 = 32;
/// Bytes after the payload and its padding.
pub const TAIL_LEN: u64 = 8;
/// Slots are multiples of this.
pub const SLOT_ALIGN: u64 = 64;

/// Bytes of the slot of a payload of `len` bytes.
pub const fn slot_len(len: usize) -> u64 {
    (HEADER_LEN + len as u64 + TAIL_LEN).next_multiple_of(SLOT_ALIGN)
}

/// The largest payload whose slot is at most `max_entry` bytes (a multiple of 64).
pub const fn max_payload(max_entry: u64) -> usize {
    (max_entry - HEADER_LEN - TAIL_LEN) as usize
}

/// The longest slot in a ring of `ring_len` bytes: an eighth of it, but one slot at least where a model's ring is tiny.
pub const fn longest_slot(ring_len: u64) -> u64 {
    let eighth = ring_len / 8;
    if eighth < SLOT_ALIGN { SLOT_ALIGN } else { eighth }
}

/// What an entry is. Numbers that this version does not know are kept: such an entry is valid, and not applied.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Kind(pub u8);

impl Kind {
    /// A proposal of the application.
    pub const PAYLOAD: Kind = Kind(0);
    /// The first entry of a leader.
    pub const NO_OP: Kind = Kind(1);
    /// A configuration.
    pub const CONFIG: Kind = Kind(2);
    /// Fills the end of the ring: the next entry stands at the next multiple of the ring's length.
    pub const PAD: Kind = Kind(3);
}

/// An entry found valid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Valid {
    /// Bytes of payload.
    pub len: u32,
    /// Bytes of the whole slot.
    pub slot: u64,
    /// What it is.
    pub kind: Kind,
    /// The leader that made it.
    pub term: Term,
    /// That leader's commit when it was made.
    pub commit: Position,
    /// The place after it.
    pub next: LogPoint,
}

/// Why there is no valid entry. To the protocol all are the same; metrics tell them apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// Another index stands there: nothing was written yet in this lap.
    Nothing,
    /// The slot is larger than an entry may be, or crosses the ring's end.
    Length,
    /// The term is 0 or falls, or the commit is ahead of the entry itself.
    Order,
    /// The tail is of another lap.
    Lap,
    /// The tail's chain is not that of these bytes after the entry before.
    Chain,
    /// Something stands between payload and tail: not all words of the slot have landed.
    Padding,
}

/// Low 32 bits of the number of 64-byte slots before `position`.
fn lap(position: Position) -> u32 {
    (position.0 / SLOT_ALIGN) as u32
}

/// Whether a slot of that length may stand at `at`: inside the ring, and not in the last lap of the stream, whose end is no
/// position any more. (No log ever gets there; a number in a damaged line may.)
#[inline]
fn fits(slot: u64, ring_len: u64, at: &LogPoint) -> bool {
    slot <= longest_slot(ring_len)
        && (at.position.0 & (ring_len - 1)) + slot <= ring_len
        && at.position.0 <= u64::MAX - ring_len
}

/// Offset in a log or staging area of a position.
#[inline]
pub fn offset(ring_len: u64, position: Position) -> u64 {
    log::RING + (position.0 & (ring_len - 1))
}

/// The four words of a header, as they stand in memory.
#[derive(Clone, Copy)]
struct Header([u64; 4]);

impl Header {
    fn index(&self) -> u64 {
        self.0[0]
    }

    fn term(&self) -> u64 {
        self.0[1]
    }

    fn commit(&self) -> u64 {
        self.0[2]
    }

    fn len(&self) -> u32 {
        self.0[3] as u32
    }

    fn kind(&self) -> u8 {
        (self.0[3] >> 32) as u8
    }

    /// Everything that can be told from header and tail without the payload, in the protocol's order.
    fn check(&self, tail: u64, ring_len: u64, at: &LogPoint) -> Result<u64, End> {
        let slot = slot_len(self.len() as usize);
        if !fits(slot, ring_len, at) {
            return Err(End::Length);
        }
        if self.term() == 0
            || self.term() < at.term.0
            || self.term() > Term::MAX.0
            || self.commit() > at.position.0
        {
            return Err(End::Order);
        }
        if (tail >> 32) as u32 != lap(at.position) {
            return Err(End::Lap);
        }
        Ok(slot)
    }

    fn valid(&self, slot: u64, chain: u32, ring_len: u64, at: &LogPoint) -> Valid {
        let end = at.position.0 + slot;
        let next = if self.kind() == Kind::PAD.0 { end.next_multiple_of(ring_len) } else { end };
        Valid {
            len: self.len(),
            slot,
            kind: Kind(self.kind()),
            term: Term(self.term()),
            commit: Position(self.commit()),
            next: LogPoint {
                index: Index(self.index()),
                term: Term(self.term()),
                position: Position(next),
                chain: Chain(if planted::is(Bug::CrcNotChained) { 0 } else { chain }),
            },
        }
    }
}

/// Judges the slot at `at` in the ring of a log area, `ring_len` bytes long.
///
/// `at` is the place after the entry before. The bytes may change at any time: each is read once, and what is returned was
/// computed from what was read.
pub fn judge<M: Memory>(area: &Area<M>, ring_len: u64, at: &LogPoint) -> Result<Valid, End> {
    let start = offset(ring_len, at.position);
    // The common case of a walker that waits: one load says that nothing was written here yet.
    if area.load(start) != at.index.next().0 {
        return Err(End::Nothing);
    }
    let (header, tail, slot) = header_and_tail(area, ring_len, at)?;
    let (chain, last) = chain_of_live(area, start, at.chain, &header);
    if tail as u32 != chain && !planted::is(Bug::CrcNotChecked) {
        return Err(End::Chain);
    }
    // The chain does not cover it, and words land in any order: an entry that lacks a zero here would count, and stay
    // different from the same entry elsewhere.
    let padding = start + HEADER_LEN + u64::from(header.len()).next_multiple_of(8);
    if last >> (header.len() % 8 * 8) != 0
        || (padding..start + slot - TAIL_LEN).step_by(8).any(|at| area.load(at) != 0)
    {
        return Err(End::Padding);
    }
    Ok(header.valid(slot, chain, ring_len, at))
}

/// The entry at `at` by its header and tail alone: for bytes that were judged before and are final since.
///
/// Checks all that `judge` checks but chain and padding, so that bytes which changed after all end in `Err`, never outside the
/// ring.
#[inline]
pub fn peek<M: Memory>(area: &Area<M>, ring_len: u64, at: &LogPoint) -> Result<Valid, End> {
    let (header, tail, slot) = header_and_tail(area, ring_len, at)?;
    Ok(header.valid(slot, tail as u32, ring_len, at))
}

/// Copies the payload of the entry between two places out, as words; `None` when it does not fit, or what stands there now is
/// not the entry that was judged: the chain of `next` covers what is copied.
pub fn copy_payload<M: Memory>(
    area: &Area<M>,
    ring_len: u64,
    at: &LogPoint,
    next: &LogPoint,
    out: &mut [u64],
) -> Option<usize> {
    let (header, ..) = header_and_tail(area, ring_len, at).ok()?;
    let len = header.len() as usize;
    let words = out.get_mut(..len.div_ceil(8))?;
    area.read(offset(ring_len, at.position) + HEADER_LEN, words);
    let bytes = &zerocopy::IntoBytes::as_bytes(words)[..len];
    (chain_of(at.chain, &header.0, bytes) == next.chain.0).then_some(len)
}

fn header_and_tail<M: Memory>(
    area: &Area<M>,
    ring_len: u64,
    at: &LogPoint,
) -> Result<(Header, u64, u64), End> {
    let start = offset(ring_len, at.position);
    acquire();
    let mut words = [0; 4];
    area.read(start, &mut words);
    let header = Header(words);
    if header.index() != at.index.next().0 {
        return Err(End::Nothing);
    }
    // The length is judged before the tail is looked for: it says where the tail is.
    let slot = slot_len(header.len() as usize);
    if !fits(slot, ring_len, at) {
        return Err(End::Length);
    }
    let tail = area.load(start + slot - TAIL_LEN);
    header.check(tail, ring_len, at)?;
    Ok((header, tail, slot))
}

/// The chain over a header that was read and a payload that is read now, piece by piece; and the payload's last word when
/// it has room for more, which must be padding.
fn chain_of_live<M: Memory>(area: &Area<M>, start: u64, seed: Chain, header: &Header) -> (u32, u64) {
    let mut buffer = [0u64; 64];
    buffer[..4].copy_from_slice(&header.0);
    let mut chain = seed.0;
    let mut at = start + HEADER_LEN;
    let mut left = header.len() as usize;
    let mut filled = 4;
    loop {
        let words = left.div_ceil(8).min(buffer.len() - filled);
        area.read(at, &mut buffer[filled..filled + words]);
        let bytes = (words * 8).min(left);
        chain = crc::append(chain, &zerocopy::IntoBytes::as_bytes(&buffer[..])[..filled * 8 + bytes]);
        at += words as u64 * 8;
        left -= bytes;
        if left == 0 {
            let is_whole = header.len().is_multiple_of(8);
            return (chain, if is_whole { 0 } else { buffer[filled + words - 1] });
        }
        filled = 0;
    }
}

/// The chain over a header and a payload; a small payload is joined to its header, for one pass is faster than two.
#[inline]
fn chain_of(seed: Chain, header: &[u64; 4], payload: &[u8]) -> u32 {
    const SMALL: usize = 96;
    let header: &[u8; HEADER_LEN as usize] = zerocopy::transmute_ref!(header);
    if payload.len() <= SMALL {
        let mut joined = [0; HEADER_LEN as usize + SMALL];
        joined[..header.len()].copy_from_slice(header);
        joined[header.len()..header.len() + payload.len()].copy_from_slice(payload);
        crc::append(seed.0, &joined[..header.len() + payload.len()])
    } else {
        crc::append(crc::append(seed.0, header), payload)
    }
}

/// Encodes an entry at `at` into the ring of a staging area; returns the place after it.
///
/// The caller has made sure that the slot fits before the ring's end and that nobody reads those bytes any more.
#[inline]
pub fn write<M: Memory>(
    area: &Area<M>,
    ring_len: u64,
    at: &LogPoint,
    term: Term,
    commit: Position,
    kind: Kind,
    payload: &[u8],
) -> LogPoint {
    let words = [at.index.next().0, term.0, commit.0, payload.len() as u64 | u64::from(kind.0) << 32];
    let header = Header(words);
    let slot = slot_len(payload.len());
    let start = offset(ring_len, at.position);
    assert!(start + slot <= log::RING + ring_len, "an entry never crosses the ring's end");
    let chain = chain_of(at.chain, &words, payload);
    area.write_padded(start, slot, &words, payload, u64::from(chain) | u64::from(lap(at.position)) << 32);
    header.valid(slot, chain, ring_len, at).next
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::AtomicU64;
    use std::vec::Vec;

    use super::*;

    const RING: u64 = 512 * 1024;

    fn area() -> Area<Vec<AtomicU64>> {
        Area::new((0..log::len(RING) / 8).map(|_| AtomicU64::new(0)).collect())
    }

    impl Memory for Vec<AtomicU64> {
        fn words(&self) -> &[AtomicU64] {
            self
        }
    }

    fn point(index: u64, term: u64, position: u64) -> LogPoint {
        LogPoint { index: Index(index), term: Term(term), position: Position(position), chain: Chain(77) }
    }

    #[test]
    fn golden_bytes() {
        let area = area();
        let next = write(&area, RING, &point(4, 2, 64), Term(3), Position(64), Kind::PAYLOAD, b"ringleader");
        let mut words = [0; 8];
        area.read(log::RING + 64, &mut words);
        assert_eq!(
            words,
            [
                5,
                3,
                64,
                10,
                u64::from_le_bytes(*b"ringlead"),
                u64::from_le_bytes(*b"er\0\0\0\0\0\0"),
                0,
                1 << 32 | u64::from(next.chain.0),
            ]
        );
        assert_eq!(next.position, Position(128));
        assert_eq!(slot_len(0), 64);
        assert_eq!(slot_len(24), 64);
        assert_eq!(slot_len(25), 128);
        assert_eq!(slot_len(max_payload(RING / 8)), RING / 8);
    }

    #[test]
    fn what_was_written_is_valid_for_all_lengths_around_the_buffers_edges() {
        let area = area();
        for len in (0..600).chain([4095, 4096, 40_000, max_payload(RING / 8)]) {
            let payload: Vec<u8> = (0..len).map(|i| (i * 7) as u8).collect();
            let at = point(9, 3, RING * 5);
            let next = write(&area, RING, &at, Term(3), Position(0), Kind::PAYLOAD, &payload);
            let valid = judge(&area, RING, &at).expect("just written");
            assert_eq!((valid.next, valid.len as usize, valid.slot), (next, len, slot_len(len)));
            assert_eq!(peek(&area, RING, &at), Ok(valid));
        }
    }

    /// One row a reason, in the order in which they are judged; each row breaks one thing of a valid entry.
    #[test]
    fn judge_as_a_table() {
        let at = point(7, 4, RING * 3 + 128);
        type Break = fn(&Area<Vec<AtomicU64>>, u64);
        let rows: [(&str, Break, Result<(), End>); 16] = [
            ("as written", |_, _| {}, Ok(())),
            ("index 0", |a, o| a.store(o, 0), Err(End::Nothing)),
            ("index before", |a, o| a.store(o, 7), Err(End::Nothing)),
            ("index after", |a, o| a.store(o, 9), Err(End::Nothing)),
            ("length huge", |a, o| a.store(o + 24, 0xffff_ffff), Err(End::Length)),
            ("length over an eighth", |a, o| a.store(o + 24, RING / 8), Err(End::Length)),
            ("term 0", |a, o| a.store(o + 8, 0), Err(End::Order)),
            ("term falls", |a, o| a.store(o + 8, 3), Err(End::Order)),
            ("term above 56 bits", |a, o| a.store(o + 8, 1 << 56), Err(End::Order)),
            ("commit ahead", |a, o| a.store(o + 16, RING * 3 + 129), Err(End::Order)),
            ("lap before", |a, o| a.store(o + 120, a.load(o + 120) - ((RING / 64) << 32)), Err(End::Lap)),
            ("tail not there yet", |a, o| a.store(o + 120, 0), Err(End::Lap)),
            ("payload differs", |a, o| a.store(o + 40, 1), Err(End::Chain)),
            ("kind differs", |a, o| a.store(o + 24, a.load(o + 24) ^ 1 << 32), Err(End::Chain)),
            ("a word of another lap before the tail", |a, o| a.store(o + 112, 1), Err(End::Padding)),
            ("and behind the payload", |a, o| a.store(o + 88, a.load(o + 88) | 1 << 63), Err(End::Padding)),
        ];
        for (name, break_it, expected) in rows {
            let area = area();
            write(&area, RING, &at, Term(4), Position(RING * 3 + 128), Kind::PAYLOAD, &[5; 62]);
            break_it(&area, offset(RING, at.position));
            assert_eq!(judge(&area, RING, &at).map(|_| ()), expected, "{name}");
        }
    }

    #[test]
    fn another_chain_before_or_any_flipped_bit_is_torn() {
        let area = area();
        let at = point(7, 4, 0);
        write(&area, RING, &at, Term(4), Position(0), Kind::PAYLOAD, &[9; 40]);
        assert_eq!(judge(&area, RING, &LogPoint { chain: Chain(78), ..at }), Err(End::Chain));
        for bit in 0..128 * 8 {
            let word = log::RING + bit / 64 * 8;
            let before = area.load(word);
            area.store(word, before ^ 1 << (bit % 64));
            let end = judge(&area, RING, &at).expect_err("a flipped bit");
            assert_eq!(end == End::Padding, (72 * 8..120 * 8).contains(&bit), "bit {bit}");
            area.store(word, before);
        }
    }

    /// For all lengths, also those that end within a word.
    #[test]
    fn every_byte_between_payload_and_tail_must_be_zero() {
        for len in 0..130 {
            let area = area();
            let at = point(7, 4, 0);
            write(&area, RING, &at, Term(4), Position(0), Kind::PAYLOAD, &[9; 130][..len]);
            for byte in HEADER_LEN + len as u64..slot_len(len) - TAIL_LEN {
                let word = log::RING + byte / 8 * 8;
                let before = area.load(word);
                area.store(word, before | 1 << (byte % 8 * 8));
                assert_eq!(judge(&area, RING, &at), Err(End::Padding), "byte {byte} of a payload of {len}");
                area.store(word, before);
            }
            assert!(judge(&area, RING, &at).is_ok());
        }
    }

    #[test]
    fn unknown_kinds_and_reserved_bytes_are_valid() {
        let area = area();
        let at = point(1, 1, 0);
        write(&area, RING, &at, Term(1), Position(0), Kind(200), b"new");
        assert_eq!(judge(&area, RING, &at).map(|v| v.kind), Ok(Kind(200)));
        // A later version uses the reserved bytes: the chain covers them.
        let words = [2, 1, 0, 3 | 0xabcdef << 40];
        let chain = crc::append(crc::append(77, zerocopy::IntoBytes::as_bytes(&words)), b"new");
        area.write(log::RING, &words);
        area.store(log::RING + 56, u64::from(chain));
        assert!(judge(&area, RING, &at).is_ok());
    }

    #[test]
    fn the_entry_after_a_pad_stands_at_the_next_lap() {
        let area = area();
        let at = point(3, 1, RING - 64 * 5);
        let next = write(&area, RING, &at, Term(1), Position(0), Kind::PAD, b"");
        assert_eq!(next.position, Position(RING));
        let at = point(3, 1, RING - 64);
        assert_eq!(write(&area, RING, &at, Term(1), Position(0), Kind::PAD, b"").position, Position(RING));
        assert_eq!(judge(&area, RING, &at).map(|v| v.next.position), Ok(Position(RING)));
    }

    #[test]
    fn nothing_stands_in_the_lap_that_has_no_end() {
        let area = area();
        let last = u64::MAX - RING + 1;
        let at = point(3, 1, last - 64);
        write(&area, RING, &at, Term(1), Position(0), Kind::PAYLOAD, &[1; 20]);
        assert_eq!(judge(&area, RING, &at).map(|valid| valid.next.position), Ok(Position(last)));
        for position in [last, u64::MAX - 63] {
            let at = point(3, 1, position);
            let start = offset(RING, at.position);
            let words = [4, 1, 0, u64::from(Kind::PAD.0) << 32];
            area.write_padded(start, 64, &words, &[], u64::from(lap(at.position)) << 32);
            assert_eq!(judge(&area, RING, &at), Err(End::Length));
            assert_eq!(peek(&area, RING, &at), Err(End::Length));
        }
    }

    #[test]
    fn a_slot_across_the_rings_end_is_torn_and_an_exact_fit_is_not() {
        let area = area();
        let at = point(3, 1, RING - 128);
        write(&area, RING, &at, Term(1), Position(0), Kind::PAYLOAD, &[1; 60]);
        assert!(judge(&area, RING, &at).is_ok());
        area.store(offset(RING, at.position) + 24, 100);
        assert_eq!(judge(&area, RING, &at), Err(End::Length));
    }
}
