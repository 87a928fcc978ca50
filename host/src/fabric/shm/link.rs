//! A peer as this node sees it: its mapped region, its process, and the copies into and out of it.
//!
//! Not: in which state its queue pairs are. The owner of the region takes no part in anything here; a stopped one
//! answers as well as any.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ringleader_core::layout::{control, log, snapshot};
use ringleader_core::mem::{self, Memory};
use ringleader_core::types::NodeId;
use ringleader_core::verb::Plane;

use super::error::RegionError;
use super::fence;
use super::header::{self, CLOSED};
use super::os;
use super::process::Process;
use super::region::Found;
use super::wake::Bell;
use crate::fabric::map::{Mapped, Mapping};

/// Pages are made present in pieces of this size, one a turn of the watch, so that no turn takes long.
const POPULATE_STEP: u64 = 256 << 10;

/// How a WRITE to the log area ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Wrote {
    /// Every byte is placed.
    All,
    /// Nothing is: no grant.
    Refused,
    /// Nothing is: the range is not inside the areas, or not of whole words.
    OutOfRange,
}

/// A mapped region of a peer.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) process: Arc<Process>,
    control: Mapped,
    log: Mapped,
    snapshot: Mapped,
    /// The peer says in it who may write its log area.
    grant: Mapped,
    /// This node says in it that it is writing there.
    busy: Mapped,
    closed: Mapped,
    bell: Bell,
    mapping: Arc<Mapping>,
    /// Up to where pages were made present.
    populated: u64,
}

impl Link {
    /// Maps what was found, as node `own`.
    pub(super) fn new(found: &Found<'_>, process: Process, own: NodeId) -> Result<Link, RegionError> {
        let mapping = found.map()?;
        let mut link = Link {
            process: Arc::new(process),
            control: mapping.slice(header::CONTROL, control::LEN),
            log: mapping.slice(header::LOG, log::len(found.ring_len())),
            snapshot: mapping
                .slice(header::snapshot_at(found.ring_len()), snapshot::len(found.snapshot_len())),
            grant: mapping.slice(header::grant_of(own), 8),
            busy: mapping.slice(header::busy_of(own), 8),
            closed: mapping.slice(CLOSED, 8),
            bell: Bell::new(mapping.slice(header::SLEEPER, 8), mapping.slice(header::ARRIVALS, 8)),
            mapping,
            populated: 0,
        };
        link.populate_step();
        Ok(link)
    }

    /// Whether the owner has closed its fabric, or its process is over.
    pub(super) fn is_gone(&self) -> bool {
        self.is_closed() || self.process.is_dead()
    }

    /// Whether the owner has closed its fabric.
    pub(super) fn is_closed(&self) -> bool {
        self.closed.words()[0].load(Ordering::Acquire) != 0
    }

    /// Makes the next pages present, so that a copy does not fault.
    pub(super) fn populate_step(&mut self) {
        if self.populated < header::LOG + self.log.words().len() as u64 * 8 {
            // A failure only means that the pages come one by one.
            let _ = self.mapping.populate(self.populated, POPULATE_STEP);
            self.populated += POPULATE_STEP;
        }
    }

    /// Copies into the peer's log area, if `me` is granted.
    #[inline(always)]
    pub(super) fn write_log(&self, me: u64, source: &Mapped, from: u64, to: u64, len: u32) -> Wrote {
        let (Some(source), Some(target)) = (range(source, from, len), range(&self.log, to, len)) else {
            return Wrote::OutOfRange;
        };
        let (grant, busy) = (&self.grant.words()[0], &self.busy.words()[0]);
        let granted = fence::enter(grant, busy, me);
        if granted {
            copy(target, source);
        }
        fence::leave(busy);
        self.bell.ring();
        if granted { Wrote::All } else { Wrote::Refused }
    }

    /// [`Link::write_log`] that stops the whole process when half of the words are copied. For tests.
    pub(super) fn write_log_and_stop(&self, me: u64, source: &Mapped, from: u64, to: u64, len: u32) -> Wrote {
        let (Some(source), Some(target)) = (range(source, from, len), range(&self.log, to, len)) else {
            return Wrote::OutOfRange;
        };
        let (grant, busy) = (&self.grant.words()[0], &self.busy.words()[0]);
        let granted = fence::enter(grant, busy, me);
        if granted {
            let half = source.len() / 2;
            copy(&target[..half], &source[..half]);
            os::stop_self();
            copy(&target[half..], &source[half..]);
        }
        fence::leave(busy);
        if granted { Wrote::All } else { Wrote::Refused }
    }

    /// Copies one word out of the peer's log area, if `me` is granted.
    pub(super) fn read_log(&self, me: u64, from: u64, target: &Mapped, to: u64) -> Wrote {
        let (Some(source), Some(target)) = (range(&self.log, from, 8), range(target, to, 8)) else {
            return Wrote::OutOfRange;
        };
        // Nothing changes here, so no fence has to wait for it: the grant alone is looked at.
        if self.grant.words()[0].load(Ordering::Acquire) != me {
            return Wrote::Refused;
        }
        copy(target, source);
        mem::acquire();
        Wrote::All
    }

    /// Copies into the peer's control area. False: nothing was copied, the range is wrong.
    #[inline]
    pub(super) fn write_control(&self, source: &Mapped, from: u64, to: u64, len: u32) -> bool {
        let (Some(source), Some(target)) = (range(source, from, len), range(&self.control, to, len)) else {
            return false;
        };
        // Who sees this line sees what was written before it, on whichever queue pair (protocol.md 2, A1).
        std::sync::atomic::fence(Ordering::Release);
        copy(target, source);
        self.bell.ring();
        true
    }

    /// Copies out of the peer's control area. False: nothing was copied, the range is wrong.
    #[inline]
    pub(super) fn read_control(&self, from: u64, target: &Mapped, to: u64, len: u32) -> bool {
        let (Some(source), Some(target)) = (range(&self.control, from, len), range(target, to, len)) else {
            return false;
        };
        copy(target, source);
        mem::acquire();
        true
    }

    /// Copies out of the peer's snapshot area. False: nothing was copied, the range is wrong.
    pub(super) fn read_snapshot(&self, from: u64, target: &Mapped, to: u64, len: u32) -> bool {
        let (Some(source), Some(target)) = (range(&self.snapshot, from, len), range(target, to, len)) else {
            return false;
        };
        copy(target, source);
        mem::acquire();
        true
    }

    /// Copies out of one of the peer's areas into the same place of `own`. False: nothing was copied, the range is wrong.
    pub(super) fn pull(&self, plane: Plane, at: u64, own: &Mapped, len: u32) -> bool {
        let area = match plane {
            Plane::Control => &self.control,
            Plane::Log => &self.log,
        };
        let (Some(source), Some(target)) = (range(area, at, len), range(own, at, len)) else {
            return false;
        };
        copy(target, source);
        mem::acquire();
        true
    }

    /// Copies out of `own` into the same place of the peer's snapshot area. False: nothing was copied, the range is wrong.
    pub(super) fn push(&self, at: u64, own: &Mapped, len: u32) -> bool {
        let (Some(target), Some(source)) = (range(&self.snapshot, at, len), range(own, at, len)) else {
            return false;
        };
        copy(target, source);
        true
    }

    /// Compares and swaps a word of the peer's control area; the word that was found. `None`: wrong offset.
    pub(super) fn cas(&self, offset: u64, expected: u64, desired: u64) -> Option<u64> {
        let word = &range(&self.control, offset, 8)?[0];
        // SeqCst: what a NIC's atomics are to one another.
        Some(match word.compare_exchange(expected, desired, Ordering::SeqCst, Ordering::SeqCst) {
            Ok(found) | Err(found) => found,
        })
    }
}

/// The words of a range of an area, if it is inside and of whole words.
#[inline(always)]
fn range(area: &Mapped, offset: u64, len: u32) -> Option<&[AtomicU64]> {
    if !(offset | u64::from(len)).is_multiple_of(8) {
        return None;
    }
    let start = offset / 8;
    area.words().get(usize::try_from(start).ok()?..usize::try_from(start + u64::from(len / 8)).ok()?)
}

/// Copies word by word. Relaxed: the words of a WRITE land in any order; what follows it is ordered by its own store.
#[inline(always)]
fn copy(to: &[AtomicU64], from: &[AtomicU64]) {
    let (to_lines, to_rest) = to.as_chunks::<8>();
    let (from_lines, from_rest) = from.as_chunks::<8>();
    for (to, from) in to_lines.iter().zip(from_lines) {
        // All loads of a line before its stores: atomics are not reordered by the compiler, and this way they overlap.
        let line: [u64; 8] = std::array::from_fn(|i| from[i].load(Ordering::Relaxed));
        for (to, word) in to.iter().zip(line) {
            to.store(word, Ordering::Relaxed);
        }
    }
    for (to, from) in to_rest.iter().zip(from_rest) {
        to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}
