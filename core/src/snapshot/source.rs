//! The snapshot that a node saves of its own application, for whoever needs one (protocol.md 11).
//!
//! It is what stands in its snapshot area: nothing, one that is being written, or one that may be READ. The header is zeroed
//! before the first byte changes, and written when the last one is there.

use crate::event::Event;
use crate::layout::{ConfigBlock, Line, SnapshotLine, snapshot, verdict};
use crate::mark::{Snapshot as Mark, mark};
use crate::mem::{Area, Memory, full};
use crate::membership::Configuration;
use crate::options::Identity;
use crate::request::Answer;
use crate::roster::Roster;
use crate::snapshot::{Saved, reaches};
use crate::types::{Boot, LogPoint, NodeId, Position, Promise};

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum State {
    Nothing,
    /// The application was told to write.
    Saving {
        point: LogPoint,
        config_crc: u32,
        group: u128,
    },
    Saved {
        point: LogPoint,
        len: u64,
    },
}

/// What a leader asks for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Wish {
    /// The own node, if it leads.
    pub(crate) from: NodeId,
    pub(crate) boot: Boot,
    pub(crate) sequence: u64,
    /// Which leads by this.
    pub(crate) promise: Promise,
    /// Below this none will do.
    pub(crate) floor: Position,
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    state: State,
    /// Of the last snapshot that was begun.
    number: u32,
    version: u32,
    wish: Option<Wish>,
    /// The application could not, for this wish.
    failed: bool,
}

/// What a source goes by.
pub(crate) struct Ground<'a, M> {
    pub(crate) me: Identity,
    pub(crate) area: &'a Area<M>,
    pub(crate) applied: &'a LogPoint,
    pub(crate) roster: &'a Roster,
    /// The area is in use for a snapshot of another node.
    pub(crate) is_taking: bool,
}

impl Source {
    pub(crate) fn new() -> Source {
        Source { state: State::Nothing, number: 0, version: 0, wish: None, failed: false }
    }

    /// Whether the application is writing.
    pub(crate) fn is_saving(&self) -> bool {
        matches!(self.state, State::Saving { .. })
    }

    pub(crate) fn wish(&self) -> Option<&Wish> {
        self.wish.as_ref()
    }

    /// A leader asks, or, for `None`, has stopped asking.
    pub(crate) fn handle_wish(&mut self, wish: Option<Wish>) {
        if self.wish != wish {
            self.wish = wish;
            self.failed = false;
        }
    }

    /// What can be said to the wish now. Begins to save when there is no snapshot that will do, and one can be made.
    pub(crate) fn answer<M: Memory>(&mut self, on: &Ground<M>) -> Option<(Answer, Option<Event>)> {
        let wish = self.wish?;
        let say = |verdict| Some((Answer { verdict, ..Answer::default() }, None));
        match self.state {
            State::Saved { point, len } if reaches(&point, wish.floor) => {
                let number = u64::from(self.number);
                let granted = verdict::GRANTED;
                return Some((
                    Answer { verdict: granted, anchor: point, number, len, ..Answer::default() },
                    None,
                ));
            }
            State::Saving { .. } => return say(verdict::WORKING),
            _ => {}
        }
        if self.failed || on.is_taking || on.me.snapshot_len == 0 {
            return say(verdict::UNABLE);
        }
        // The configuration at the snapshot's point is known when the anchor's is not above it.
        let configuration = on.roster.anchored();
        let known = configuration.index <= on.applied.index && configuration.voters() > 0;
        if on.applied.position < wish.floor || !known {
            return say(verdict::WORKING);
        }
        let event = self.begin(on, configuration);
        Some((Answer { verdict: verdict::WORKING, ..Answer::default() }, Some(event)))
    }

    fn begin<M: Memory>(&mut self, on: &Ground<M>, configuration: &Configuration) -> Event {
        mark(Mark::Saves);
        self.discard(on.area);
        self.number = self.number.wrapping_add(1);
        self.version = self.version.wrapping_add(1);
        configuration.block().write(on.area, snapshot::CONFIG, self.version);
        let config_crc = ConfigBlock::read(on.area, snapshot::CONFIG).map_or(0, |block| block.crc);
        self.state = State::Saving { point: *on.applied, config_crc, group: configuration.group };
        Event::SaveSnapshot { number: self.number }
    }

    /// The snapshot is none any more: before any of its bytes changes.
    pub(crate) fn discard<M: Memory>(&mut self, area: &Area<M>) {
        if self.state == State::Nothing {
            return;
        }
        for word in 0..SnapshotLine::WORDS as u64 {
            area.store(snapshot::HEADER + word * 8, 0);
        }
        full();
        self.state = State::Nothing;
    }

    /// The application has written, or cannot.
    pub(crate) fn handle_saved<M: Memory>(
        &mut self,
        me: Identity,
        area: &Area<M>,
        number: u32,
        saved: Option<Saved>,
    ) {
        let State::Saving { point, .. } = self.state else { return };
        if number != self.number {
            return;
        }
        match saved.filter(|saved| saved.len <= me.snapshot_len) {
            Some(saved) => {
                mark(Mark::Saved);
                self.publish(me, area, saved);
                self.state = State::Saved { point, len: saved.len };
            }
            None => {
                mark(Mark::SaveFailed);
                self.state = State::Nothing;
                self.failed = true;
            }
        }
    }

    fn publish<M: Memory>(&mut self, me: Identity, area: &Area<M>, saved: Saved) {
        let State::Saving { point, config_crc, group } = self.state else { return };
        // Whoever sees the header sees the bytes.
        full();
        SnapshotLine {
            group_low: group as u64,
            group_high: (group >> 64) as u64,
            boot: me.boot.0,
            number: u64::from(self.number),
            index: point.index.0,
            term: point.term.0,
            position: point.position.0,
            len: saved.len,
            chain: point.chain.0,
            bytes_crc: saved.crc,
            config_crc,
            ..SnapshotLine::default()
        }
        .write(area, snapshot::HEADER, self.version);
        full();
    }
}

#[cfg(feature = "model")]
impl Source {
    pub(crate) fn canonical(&self, out: &mut impl crate::canonical::Canonical) {
        let Source { state, number, version, wish, failed } = self;
        out.plain((state, number, version, wish, failed));
    }
}
