//! Walking a log that is written meanwhile, told by beats of which many are nonsense.

use std::collections::HashSet;

use arbitrary::{Result, Unstructured};
use ringleader_core::entry::{self, Kind, SLOT_ALIGN, max_payload, slot_len};
use ringleader_core::layout::{BeatLine, MIN_RING_LEN, log};
use ringleader_core::mem::Area;
use ringleader_core::types::{Chain, Index, LogPoint, NodeId, Position, Promise, Term};
use ringleader_core::walker::{STEP_BYTES, Walker};

use crate::choice::{about, roll, with, word};
use crate::memory::{Words, area};

/// Several steps of walking long.
const RING: u64 = 8 * MIN_RING_LEN;

struct Walk {
    log: Area<Words>,
    walker: Walker,
    promise: Promise,
    /// What the leader wrote: every place between two of its entries.
    points: Vec<LogPoint>,
    /// All places that ever were one of those.
    ever: HashSet<LogPoint>,
    /// The highest commit of a beat that named the promise.
    told: Position,
    /// Somebody may write.
    is_granted: bool,
    /// Nothing was damaged.
    is_whole: bool,
}

/// Every step is bounded; the anchor never falls, never passes what a beat of the promise's leader said, and stands
/// between two entries that somebody wrote.
pub fn walker(bytes: &[u8]) {
    with(bytes, |u| {
        let start = start(u)?;
        let mut walk = Walk {
            log: area(log::len(RING)),
            walker: Walker::new(start),
            promise: Promise::new(Term(start.term.0 + 1), NodeId(2)),
            points: vec![start],
            ever: HashSet::from([start]),
            told: start.position,
            is_granted: false,
            is_whole: true,
        };
        while !u.is_empty() {
            match roll(u, 10)? {
                0 | 1 => walk.append(u)?,
                2 => walk.lead(u)?,
                3 => {
                    walk.walker.handle_fence();
                    walk.is_granted = false;
                }
                4 => {
                    walk.walker.handle_grant();
                    walk.is_granted = true;
                }
                5 if roll(u, 16)? > 0 => walk.step(None),
                5 => {
                    walk.is_whole = false;
                    let near = walk.last().position.0.wrapping_sub(roll(u, 64)? * 8);
                    walk.log.store(log::RING + near % RING / 8 * 8, word(u)?);
                }
                6 => walk.step(None),
                _ => {
                    let beat = walk.beat(u)?;
                    walk.step(Some(&beat));
                }
            }
        }
        Ok(())
    });
}

fn start(u: &mut Unstructured<'_>) -> Result<LogPoint> {
    let lap = match roll(u, 4)? {
        0 => (SLOT_ALIGN << 32) / RING - 1,
        1 => u64::MAX / RING - 1 - roll(u, 3)?,
        _ => roll(u, 3)?,
    };
    let place = if roll(u, 2)? == 0 { 0 } else { roll(u, RING / SLOT_ALIGN)? * SLOT_ALIGN };
    let position = Position(lap * RING + place);
    Ok(LogPoint {
        index: Index(roll(u, 4)?),
        term: Term(roll(u, 4)?),
        position,
        chain: Chain(u.arbitrary()?),
    })
}

impl Walk {
    fn last(&self) -> LogPoint {
        *self.points.last().expect("the start stays")
    }

    /// The leader writes some entries.
    fn append(&mut self, u: &mut Unstructured<'_>) -> Result<()> {
        for _ in 0..=roll(u, 6)? {
            let len = match roll(u, 24)? {
                0 => max_payload(RING / 8),
                1 | 2 => roll(u, 3000)? as usize,
                _ => roll(u, 120)? as usize,
            };
            if RING - self.last().position.0 % RING < slot_len(len) {
                self.write(Kind::PAD, 0);
            }
            // Pads stand where they must, so that a gap is never larger than an entry.
            let kind = Kind(if roll(u, 8)? == 0 { u.arbitrary()? } else { 0 });
            let kind = if kind == Kind::PAD { Kind::NO_OP } else { kind };
            self.write(kind, len);
        }
        Ok(())
    }

    fn write(&mut self, kind: Kind, len: usize) {
        let at = self.last();
        if !self.is_granted || at.position.0 > u64::MAX - 2 * RING {
            return;
        }
        let payload = vec![len as u8; len];
        let term = self.promise.term();
        let next = entry::write(&self.log, RING, &at, term, Position(0), kind, &payload);
        self.points.push(next);
        self.ever.insert(next);
        // A leader leaves alone what is committed and not applied; this one may not.
        let anchor = self.walker.anchor().position;
        self.is_whole &= at.position >= anchor && next.position.0 - anchor.0 <= RING;
    }

    /// The writer is fenced, another one gets the grant, and goes on from an entry at or above the anchor.
    fn lead(&mut self, u: &mut Unstructured<'_>) -> Result<()> {
        self.walker.handle_fence();
        (0..roll(u, 3)?).for_each(|_| self.step(None));
        self.promise = Promise::new(self.promise.term().next(), NodeId(1 + roll(u, 3)? as u8));
        self.told = self.walker.anchor().position;
        self.walker.handle_grant();
        self.is_granted = true;
        let anchor = *self.walker.anchor();
        // Told nonsense, the anchor may stand among entries that an earlier leader replaced: it is where this one begins.
        let first = self.points.iter().position(|point| *point == anchor);
        match first {
            Some(first) => {
                let kept = first + roll(u, (self.points.len() - first) as u64)? as usize;
                self.points.truncate(kept + 1);
            }
            None => self.points = vec![anchor],
        }
        Ok(())
    }

    fn beat(&mut self, u: &mut Unstructured<'_>) -> Result<BeatLine> {
        let leader = if roll(u, 6)? == 0 { word(u)? } else { self.promise.0 };
        let point = self.points[roll(u, self.points.len() as u64)? as usize].position.0;
        let (matched, commit) = (about(u, self.last().position.0, 64)?, about(u, point, 64)?);
        let beat = BeatLine { leader, matched, commit, counter: word(u)?, ..BeatLine::default() };
        Ok(beat)
    }

    fn step(&mut self, beat: Option<&BeatLine>) {
        let (anchor, cursor, high) = (*self.walker.anchor(), *self.walker.cursor(), self.walker.high());
        if let Some(beat) = beat.filter(|beat| beat.leader == self.promise.0) {
            self.told = self.told.max(Position(beat.commit));
        }
        self.walker.step(&self.log, RING, self.promise, beat);
        let (now, reached) = (*self.walker.anchor(), *self.walker.cursor());
        assert!(now.position >= anchor.position && now.index >= anchor.index, "{now:?} after {anchor:?}");
        assert!(now.position <= self.told.max(anchor.position), "{now:?} above {}", self.told);
        assert!(reached.position >= now.position, "the cursor is at or above the anchor");
        // The last entry of a step may be as large as they come, and behind a pad as large a gap.
        let bound = cursor.position.0.saturating_add(STEP_BYTES + 2 * RING / 8);
        assert!(reached.position.0 <= bound, "a step is bounded: {cursor:?} {reached:?}");
        assert!(self.walker.high() >= high.max(reached.position));
        assert!(self.walker.lower_bound().position >= now.position);
        if self.is_whole {
            assert!(self.ever.contains(&now), "no entry ends at {now:?}");
            assert!(self.ever.contains(&reached), "no entry ends at {reached:?}");
            assert!(!self.walker.is_damaged());
            if self.walker.is_done() {
                assert_eq!(reached, self.end(), "a fenced log is walked to its end");
            }
        }
    }

    /// Where the log ends, walked in one go.
    fn end(&self) -> LogPoint {
        let mut at = *self.walker.anchor();
        while let Ok(valid) = entry::judge(&self.log, RING, &at) {
            at = valid.next;
        }
        at
    }
}
