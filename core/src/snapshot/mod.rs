//! Snapshots: a state of the application in memory, saved by one node and taken by another (protocol.md 11).
//!
//! What a host needs: [`Writer`] for the bytes, [`Saved`] for what they are, and how far things are.

use crate::crc;
use crate::layout::snapshot::BYTES;
use crate::mem::{Area, Memory};
use crate::planted::{self, Bug};
use crate::types::{LogPoint, NodeId, Position};

mod delivery;
mod source;
mod target;

pub(crate) use delivery::Delivery;
pub(crate) use source::{Ground as SourceGround, Saver, Source, Wish};
pub(crate) use target::{Ground as TargetGround, Order, Taken, Target};

/// Whether a snapshot of that point is as new as it has to be.
pub(crate) fn reaches(point: &LogPoint, floor: Position) -> bool {
    point.position >= floor || planted::is(Bug::SnapshotTakesBack)
}

/// What was written into the snapshot area.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Saved {
    /// Bytes.
    pub len: u64,
    /// CRC-32C of them.
    pub crc: u32,
}

/// The state does not fit into the snapshot area.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooLong;

/// Writes a state into a snapshot area, from its beginning on: whole words, as peers may READ them at any time. For
/// `Event::SaveSnapshot`, until that is answered.
#[derive(Debug)]
pub struct Writer<'a, M> {
    area: &'a Area<M>,
    len: u64,
    crc: u32,
    /// The bytes of the word that is not whole yet.
    rest: [u8; 8],
}

impl<'a, M: Memory> Writer<'a, M> {
    /// Nothing is written yet.
    pub fn new(area: &'a Area<M>) -> Writer<'a, M> {
        Writer { area, len: 0, crc: 0, rest: [0; 8] }
    }

    /// Appends bytes. After an error all that was written is of no use.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), TooLong> {
        let room = self.area.len().saturating_sub(BYTES);
        if (bytes.len() as u64) > room - self.len.min(room) {
            return Err(TooLong);
        }
        self.crc = crc::append(self.crc, bytes);
        let filled = (self.len % 8) as usize;
        let mut at = BYTES + self.len - filled as u64;
        self.len += bytes.len() as u64;
        let (begun, bytes) = bytes.split_at(if filled == 0 { 0 } else { bytes.len().min(8 - filled) });
        self.rest[filled..filled + begun.len()].copy_from_slice(begun);
        if filled + begun.len() == 8 {
            self.area.store(at, u64::from_le_bytes(self.rest));
            self.rest = [0; 8];
            at += 8;
        }
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.area.store(at, u64::from_le_bytes(*word));
            at += 8;
        }
        if !rest.is_empty() {
            self.rest[..rest.len()].copy_from_slice(rest);
        }
        Ok(())
    }

    /// All is written.
    pub fn finish(self) -> Saved {
        let filled = self.len % 8;
        if filled != 0 {
            self.area.store(BYTES + self.len - filled, u64::from_le_bytes(self.rest));
        }
        Saved { len: self.len, crc: self.crc }
    }
}

/// What a leader does about a follower that needs a snapshot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CatchUp {
    /// Nothing now: this leader has not committed anything, the follower is not connected, or an attempt has failed and the next
    /// one is not due.
    Waiting,
    /// A node was asked to save one.
    Saving {
        /// Which.
        source: NodeId,
    },
    /// The follower takes it.
    Taking {
        /// From that node.
        source: NodeId,
        /// Bytes that it has.
        fetched: u64,
        /// Of so many; 0 before it says.
        len: u64,
    },
    /// No node can make a snapshot: all were asked, and some will be again.
    NoSource,
    /// The follower cannot take one: it has no room for it, or its application does not.
    Unable,
}

/// The snapshot that a node takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Taking {
    /// From that node.
    pub source: NodeId,
    /// Bytes that are here.
    pub fetched: u64,
    /// Of so many; 0 before it is known.
    pub len: u64,
    /// All are here, and the application becomes what they say.
    pub loading: bool,
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::AtomicU64;
    use std::vec::Vec;

    use super::*;
    use crate::layout::snapshot;

    fn area() -> Area<Vec<AtomicU64>> {
        Area::new((0..(snapshot::BYTES + 64) / 8).map(|_| AtomicU64::new(0)).collect())
    }

    #[test]
    fn bytes_come_out_as_they_went_in_however_they_were_cut() {
        let bytes: Vec<u8> = (1..=61).collect();
        for first in 0..bytes.len() {
            for second in first..bytes.len() {
                let area = area();
                let mut writer = Writer::new(&area);
                for part in [&bytes[..first], &bytes[first..second], &bytes[second..]] {
                    writer.write(part).expect("they fit");
                }
                let saved = writer.finish();
                assert_eq!((saved.len, saved.crc), (61, crc::append(0, &bytes)));
                assert_eq!(area.lend_loading(saved.len), Some(&bytes[..]), "cut at {first} and {second}");
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_told() {
        let area = area();
        let mut writer = Writer::new(&area);
        assert_eq!(writer.write(&[1; 60]), Ok(()));
        assert_eq!(writer.write(&[1; 5]), Err(TooLong));
        assert_eq!(writer.write(&[1; 4]), Ok(()));
        assert_eq!(writer.finish().len, 64);
        assert_eq!(area.lend_loading(65), None);
        assert_eq!(area.lend_loading(u64::MAX), None);
        let none: Area<Vec<AtomicU64>> = Area::new(Vec::new());
        assert_eq!(Writer::new(&none).write(&[1]), Err(TooLong));
    }
}
