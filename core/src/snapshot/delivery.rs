//! What a host that is apart saves for its acceptor: into its own snapshot area, and from there, piece by piece, into the
//! acceptor's, from where others READ it (protocol.md 13).
//!
//! The acceptor says by number what is to be saved, and has nothing else in its area until the host says that it is through with
//! that, or another host is there.

use crate::layout::{ConfigBlock, HostLine, Line, SnapshotLine, host_flags, snapshot, verdict};
use crate::mem::{Area, Memory};
use crate::timing::Timing;
use crate::types::{Epoch, Instant, NodeId};
use crate::verb::{Class, NUMBER_MASK, RequestId, Verb};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// Nothing is to be saved.
    Idle,
    /// The application is to write, or does.
    Saving,
    /// The configuration goes over.
    Config,
    /// The bytes do; those before `at` are there.
    Bytes { at: u64 },
    /// All are there, or there is no snapshot.
    Through,
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Delivery {
    /// The number that the acceptor said last; 0: none.
    order: u64,
    stage: Stage,
    /// What is brought.
    header: Option<SnapshotLine>,
    /// The WRITE under way: its number, its bytes, since when.
    flight: Option<(u32, u64, Instant)>,
    number: u32,
}

impl Delivery {
    pub(crate) fn new() -> Delivery {
        Delivery { order: 0, stage: Stage::Idle, header: None, flight: None, number: 0 }
    }

    /// The acceptor wants the snapshot of that number; 0: none. Returns whether that is news.
    pub(crate) fn handle_order(&mut self, order: u64) -> bool {
        if order == self.order {
            return false;
        }
        self.order = order;
        self.header = None;
        self.stage = if order == 0 { Stage::Idle } else { Stage::Saving };
        true
    }

    /// The number of what the application is to write.
    pub(crate) fn waits(&self) -> Option<u64> {
        (self.stage == Stage::Saving).then_some(self.order)
    }

    /// Whether the own snapshot area is in use.
    pub(crate) fn uses_area(&self) -> bool {
        self.flight.is_some() || matches!(self.stage, Stage::Saving | Stage::Config | Stage::Bytes { .. })
    }

    /// How the application fares with it: the verdict of an acceptor that saves for itself.
    pub(crate) fn handle_saved<M: Memory>(&mut self, area: &Area<M>, said: u8) {
        if said == verdict::GRANTED {
            self.header = SnapshotLine::read(area, snapshot::HEADER);
        }
        self.stage = match said {
            verdict::GRANTED if self.header.is_some() => Stage::Config,
            verdict::GRANTED | verdict::UNABLE => Stage::Through,
            _ => return,
        };
    }

    /// What the host line says of it.
    pub(crate) fn report(&self, line: &mut HostLine) {
        if self.stage != Stage::Through {
            return;
        }
        line.saved = self.order;
        let Some(header) = &self.header else {
            line.flags |= host_flags::UNABLE;
            return;
        };
        let SnapshotLine { index, term, position, len, chain, bytes_crc, config_crc, .. } = *header;
        *line = HostLine { index, term, position, len, chain, bytes_crc, config_crc, ..*line };
    }

    /// The next WRITE: one at a time.
    pub(crate) fn poll(&mut self, now: Instant, timing: &Timing, me: NodeId, epoch: Epoch) -> Option<Verb> {
        let len = self.header.map_or(0, |header| header.len).next_multiple_of(64);
        let (at, len) = match self.stage {
            Stage::Config => (snapshot::CONFIG, size_of::<ConfigBlock>() as u64),
            Stage::Bytes { at } => (snapshot::BYTES + at, (len - at).min(u64::from(timing.max_write))),
            Stage::Idle | Stage::Saving | Stage::Through => return None,
        };
        if self.flight.is_some() {
            return None;
        }
        self.number = (self.number + 1) & NUMBER_MASK;
        self.flight = Some((self.number, len, now));
        let id = RequestId { peer: me, class: Class::Push, epoch, number: self.number };
        Some(Verb::Push { id, at, len: len as u32 })
    }

    /// A WRITE of the current connection ended well.
    pub(crate) fn handle_pushed(&mut self, number: u32) {
        let Some((_, len, _)) = self.flight.take_if(|(flying, ..)| *flying == number) else { return };
        let Some(header) = &self.header else { return };
        let at = match self.stage {
            Stage::Config => 0,
            Stage::Bytes { at } => at + len,
            Stage::Idle | Stage::Saving | Stage::Through => return,
        };
        self.stage = if at >= header.len { Stage::Through } else { Stage::Bytes { at } };
    }

    /// The connection is gone: what was under way goes once more.
    pub(crate) fn handle_down(&mut self) {
        self.flight = None;
    }

    pub(crate) fn is_stalled(&self, now: Instant, limit: u64) -> bool {
        self.flight.is_some_and(|(.., since)| now.since(since) > limit)
    }
}
