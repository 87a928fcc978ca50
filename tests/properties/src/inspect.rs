//! Looking at the log of a replica that is gone, through memory that was damaged.

use arbitrary::{Result, Unstructured};
use ringleader::inspect::{Identity, held, read_lines, verify};
use ringleader_core::entry::{self, Kind, max_payload, offset, slot_len};
use ringleader_core::layout::{
    BeatLine, ConfigBlock, Header, LAYOUT_VERSION, Line, MAGIC, MIN_RING_LEN, MemberRecord, ProgressLine,
    control, log,
};
use ringleader_core::mem::{Area, Memory};
use ringleader_core::types::{LogPoint, Position, Term};

use crate::choice::{about, roll, with, word};
use crate::memory::{area, xor};

const RING: u64 = MIN_RING_LEN;
const GROUP: u128 = 0x5678 << 64 | 0x1234;

pub(crate) const IDENTITY: Identity = Identity { node: 2, boot: 5, incarnation: 7, ring_len: RING };

/// Whole memory is found whole, a changed byte of an entry that is held is found, and nothing panics or goes on for ever.
pub fn inspect(bytes: &[u8]) {
    with(bytes, |u| {
        let (control, log) = (area(control::LEN), area(log::len(RING)));
        let points = fill(u, &log)?;
        let end = points[points.len() - 1 - roll(u, points.len().min(3) as u64)? as usize].position;
        seal(&control, &log, end);
        let lines = read_lines(&control, &log, &IDENTITY).expect("as a replica leaves them");
        assert_eq!((lines.group, lines.progress.applied), (GROUP, end.0));

        let whole = held(&log, RING, GROUP, end).expect("nothing was changed");
        let mut slots = Vec::new();
        let reached = verify(&log, RING, &whole, end, |position, valid| slots.push((position, valid.slot)))
            .expect("nothing was changed");
        assert_eq!(reached.position, end);
        assert!(points.contains(&reached) || slots.is_empty());
        assert!(whole.is_wrapped || slots.len() == reached.index.0 as usize);

        if !slots.is_empty() {
            let (start, slot) = slots[roll(u, slots.len() as u64)? as usize];
            let byte = roll(u, slot)?;
            let byte = offset(RING, start) + about(u, byte, 1)? % slot;
            let bits = u.arbitrary::<u8>()?.max(1);
            xor(&log, byte, bits);
            let found = held(&log, RING, GROUP, end)
                .and_then(|held| verify(&log, RING, &held, end, |_, _| {}))
                .is_err();
            assert!(
                found,
                "byte {byte} of the entry at {start}, {slot} bytes long, held from {}",
                whole.start.position
            );
        }
        // Anything at all, and any idea of where the log ends.
        for _ in 0..roll(u, 12)? {
            let target = if roll(u, 3)? == 0 { &control } else { &log };
            let at = about(u, end.0 % RING + log::RING, 8)? % target.len();
            target.store(at & !7, word(u)?);
        }
        let end = about(u, end.0, 64)?;
        let end = Position(if roll(u, 2)? == 0 { end } else { end & !63 });
        look(&control, &log, end);
        Ok(())
    });
}

/// Everything that is done with the region of a dead replica, as far as it goes.
pub(crate) fn look<M: Memory>(control: &Area<M>, log: &Area<M>, end: Position) {
    let ring_len = log.len() - log::RING;
    if let Err(error) = read_lines(control, log, &Identity { ring_len, ..IDENTITY }) {
        assert!(!error.to_string().is_empty());
    }
    match held(log, ring_len, GROUP, end) {
        Ok(held) => {
            assert!(held.start.position <= end);
            match verify(log, ring_len, &held, end, |_, _| {}) {
                Ok(reached) => assert_eq!(reached.position, end),
                Err(damage) => assert!(!damage.to_string().is_empty()),
            }
        }
        Err(damage) => assert!(!damage.to_string().is_empty()),
    }
}

/// The lines of a node that follows.
pub(crate) fn seal<M: Memory>(control: &Area<M>, log: &Area<M>, applied: Position) {
    let header = Header {
        magic: MAGIC,
        layout: LAYOUT_VERSION,
        group_low: GROUP as u64,
        group_high: (GROUP >> 64) as u64,
        node: IDENTITY.node,
        incarnation: IDENTITY.incarnation,
        boot: IDENTITY.boot,
        ring_len: RING,
        max_entry: RING / 8,
        proposer: IDENTITY.boot,
        ..Header::default()
    };
    header.write(control, control::HEADER, 1);
    let progress = ProgressLine {
        boot: IDENTITY.boot,
        promise: 9 << 8 | 1,
        applied: applied.0,
        ..ProgressLine::default()
    };
    progress.write(control, control::PROGRESS, 1);
    let mut config =
        ConfigBlock { group_low: GROUP as u64, group_high: (GROUP >> 64) as u64, ..ConfigBlock::default() };
    for (record, node) in config.members.iter_mut().zip(1..=3) {
        *record = MemberRecord { incarnation: u64::from(node) + 5, node, role: 1, ..MemberRecord::default() };
    }
    config.write(control, control::CONFIG, 1);
    BeatLine { leader: 9 << 8 | 1, ..BeatLine::default() }.write(log, log::BEAT, 1);
}

/// Some entries, over up to three laps; the places between them.
pub(crate) fn fill<M: Memory>(u: &mut Unstructured<'_>, log: &Area<M>) -> Result<Vec<LogPoint>> {
    let mut points = vec![LogPoint::start(GROUP)];
    for _ in 0..roll(u, 32)? {
        let len = match roll(u, 4)? {
            0 => max_payload(RING / 8) - roll(u, 2)? as usize,
            1 => roll(u, 30_000)? as usize,
            _ => roll(u, 200)? as usize,
        };
        let at = *points.last().expect("the start is there");
        let term = Term(at.term.0.max(1) + roll(u, 2)?);
        let mut push = |kind, len: usize| {
            let at = points.last().expect("the start is there");
            let payload = vec![len as u8 | 1; len];
            let next = entry::write(log, RING, at, term, Position(0), kind, &payload);
            points.push(next);
        };
        if RING - at.position.0 % RING < slot_len(len) {
            push(Kind::PAD, 0);
        }
        push(if roll(u, 8)? == 0 { Kind::NO_OP } else { Kind::PAYLOAD }, len);
    }
    Ok(points)
}
