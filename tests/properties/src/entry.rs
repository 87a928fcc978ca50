//! Judging a slot: what is found valid is valid by a second, plain reading of the format; nothing else is.

use arbitrary::{Result, Unstructured};
use ringleader_core::crc;
use ringleader_core::entry::{self, HEADER_LEN, Kind, SLOT_ALIGN, TAIL_LEN, Valid, offset, slot_len};
use ringleader_core::layout::{MIN_RING_LEN, log};
use ringleader_core::mem::Area;
use ringleader_core::types::{Chain, Index, LogPoint, Position, Term};

use crate::choice::{about, roll, with, word};
use crate::memory::{Words, area, bytes_of, xor};

/// `judge` and `peek` on arbitrary bytes, and on entries of which some bytes were changed, at any position.
pub fn judge(bytes: &[u8]) {
    with(bytes, |u| {
        // Larger rings take longer to make than all the rest.
        let ring_len = MIN_RING_LEN << roll(u, 16)?.saturating_sub(12);
        let at = point(u, ring_len)?;
        let log = area(log::len(ring_len));
        if roll(u, 2)? == 0 { garbage(u, &log, ring_len, &at) } else { changed(u, &log, ring_len, &at) }
    });
}

/// Any place, also around the ends of laps, where the lap word wraps, and where positions end.
fn point(u: &mut Unstructured<'_>, ring_len: u64) -> Result<LogPoint> {
    let place = match roll(u, 4)? {
        0 => 0,
        1 => ring_len - SLOT_ALIGN * (1 + roll(u, 4)?),
        _ => word(u)? % ring_len / SLOT_ALIGN * SLOT_ALIGN,
    };
    let lap = match roll(u, 4)? {
        0 => roll(u, 3)?,
        1 => (SLOT_ALIGN << 32) / ring_len - 1 + roll(u, 3)?,
        2 => u64::MAX / ring_len - roll(u, 3)?,
        _ => word(u)? / ring_len,
    };
    Ok(LogPoint {
        index: Index(word(u)?),
        term: Term(word(u)?),
        position: Position(lap * ring_len + place),
        chain: Chain(u.arbitrary()?),
    })
}

fn garbage(u: &mut Unstructured<'_>, log: &Area<Words>, ring_len: u64, at: &LogPoint) -> Result<()> {
    let start = offset(ring_len, at.position);
    let room = log.len() - start;
    for word_of_slot in 0..roll(u, 24)?.min(room / 8) {
        log.store(start + word_of_slot * 8, word(u)?);
    }
    // Otherwise hardly anything gets past the first comparisons.
    let keep = roll(u, 8)?;
    if keep > 0 {
        log.store(start, at.index.next().0);
        log.store(start + 8, about(u, at.term.0, 1)?);
        log.store(start + 16, about(u, at.position.0, 64)?);
    }
    if keep > 1 {
        let small = roll(u, 256)?;
        let len = about(u, small, ring_len / 8)? as u32;
        log.store(start + 24, u64::from(len) | u64::from(u.arbitrary::<u8>()?) << 32);
        let tail = start + slot_len(len as usize) - TAIL_LEN;
        if tail < log.len() {
            let lap = (at.position.0 / SLOT_ALIGN) << 32;
            let sealed = HEADER_LEN + u64::from(len);
            if keep > 2 {
                (start + sealed.next_multiple_of(8)..tail).step_by(8).for_each(|at| log.store(at, 0));
            }
            let bytes = bytes_of(log, start, sealed.next_multiple_of(8).min(room));
            let chain = bytes.get(..sealed as usize).map_or(0, |bytes| crc::append(at.chain.0, bytes));
            log.store(tail, about(u, lap | u64::from(chain), 1)?);
        }
    }
    check(u, log, ring_len, at).map(drop)
}

fn changed(u: &mut Unstructured<'_>, log: &Area<Words>, ring_len: u64, at: &LogPoint) -> Result<()> {
    let place = at.position.0 % ring_len;
    let largest = (ring_len / 8).min(ring_len - place);
    let most = largest - HEADER_LEN - TAIL_LEN;
    let len = match roll(u, 4)? {
        0 => most - roll(u, 2)?,
        1 => word(u)?.min(most),
        _ => roll(u, 200)?.min(most),
    };
    let payload: Vec<u8> = (0..len).map(|i| (i * 7) as u8).chain(u.arbitrary::<[u8; 8]>()?).collect();
    let payload = &payload[8..];
    let at = LogPoint { term: Term(at.term.0.min(Term::MAX.0)), ..*at };
    if at.position.0 > u64::MAX - ring_len {
        return garbage(u, log, ring_len, &at);
    }
    let term = about(u, at.term.0, 1)?.clamp(at.term.0.max(1), Term::MAX.0);
    let commit = about(u, at.position.0, 64)?.min(at.position.0);
    let kind = Kind(u.arbitrary()?);
    let next = entry::write(log, ring_len, &at, Term(term), Position(commit), kind, payload);
    let written = check(u, log, ring_len, &at)?.expect("written");
    assert_eq!((written.next, written.len as u64, written.kind), (next, len, kind));

    let start = offset(ring_len, at.position);
    let before = bytes_of(log, start, written.slot);
    for _ in 0..roll(u, 5)? {
        // Mostly header, tail, and the last bytes of the payload.
        let byte = match roll(u, 4)? {
            0 => roll(u, 32)?,
            1 => written.slot - 1 - roll(u, 16)?,
            2 => HEADER_LEN + len.saturating_sub(roll(u, 16)?),
            _ => word(u)?,
        };
        xor(log, start + byte % written.slot, u.arbitrary()?);
    }
    let is_whole = before == bytes_of(log, start, written.slot);
    let judged = check(u, log, ring_len, &at)?;
    assert_eq!(judged, (before == after).then_some(written), "{at:?} of {len} bytes");
    Ok(())
}

/// Judges, compares with the plain reading, and shows that nothing but the slot counts.
fn check(u: &mut Unstructured<'_>, log: &Area<Words>, ring_len: u64, at: &LogPoint) -> Result<Option<Valid>> {
    let judged = entry::judge(log, ring_len, at);
    assert_eq!(judged.ok().map(|valid| valid.next), read(log, ring_len, at), "{judged:?} at {at:?}");
    let peeked = entry::peek(log, ring_len, at);
    if let Ok(valid) = judged {
        assert_eq!(peeked, judged, "what is valid is the same at a glance");
        assert!(offset(ring_len, at.position) + valid.slot <= log.len(), "inside the ring");
        assert!(valid.next.position > at.position, "onwards");
    }
    // What judging may look at: the slot; as long as nothing says how long that is, the largest there can be.
    let start = offset(ring_len, at.position);
    let end = (start + judged.map_or(ring_len / 8, |valid| valid.slot)).min(log.len());
    for _ in 0..2 {
        let near = if roll(u, 2)? == 0 { end } else { start.wrapping_sub(8) };
        let elsewhere = about(u, near, 8)? % log.len() / 8 * 8;
        if (start..end).contains(&elsewhere) {
            continue;
        }
        let before = log.load(elsewhere);
        log.store(elsewhere, word(u)?);
        assert_eq!(entry::judge(log, ring_len, at), judged, "the word at {elsewhere} is outside");
        log.store(elsewhere, before);
    }
    Ok(judged.ok())
}

/// The format as docs/protocol.md has it, read from copied bytes.
fn read(log: &Area<Words>, ring_len: u64, at: &LogPoint) -> Option<LogPoint> {
    let start = offset(ring_len, at.position);
    let header = bytes_of(log, start, HEADER_LEN);
    let word_at = |at: usize| u64::from_le_bytes(header[at..at + 8].try_into().expect("eight bytes"));
    let (index, term, commit, len) = (word_at(0), word_at(8), word_at(16), word_at(24) as u32);
    let slot = (u64::from(len) + HEADER_LEN + TAIL_LEN).div_ceil(SLOT_ALIGN) * SLOT_ALIGN;
    let end = u128::from(at.position.0) + u128::from(slot);
    let lap_end = (u128::from(at.position.0) / u128::from(ring_len) + 1) * u128::from(ring_len);
    let stands = index == at.index.0.wrapping_add(1)
        && slot <= ring_len / 8
        && end <= lap_end
        && lap_end < 1 << 64
        && (at.term.0.max(1)..1 << 56).contains(&term)
        && commit <= at.position.0;
    if !stands {
        return None;
    }
    let slot_bytes = bytes_of(log, start, slot);
    let (body, tail) = slot_bytes.split_at(slot as usize - 8);
    let (sealed, padding) = body.split_at(HEADER_LEN as usize + len as usize);
    let chain = crc::append(at.chain.0, sealed);
    let lap = (at.position.0 / SLOT_ALIGN) as u32;
    if tail != [chain.to_le_bytes(), lap.to_le_bytes()].concat() || padding.iter().any(|byte| *byte != 0) {
        return None;
    }
    if body[HEADER_LEN as usize + len as usize..].iter().any(|byte| *byte != 0) {
        return None;
    }
    let position = if header[28] == Kind::PAD.0 { lap_end } else { end };
    Some(LogPoint {
        index: Index(index),
        term: Term(term),
        position: Position(position as u64),
        chain: Chain(chain),
    })
}
