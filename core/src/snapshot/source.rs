//! The snapshot that a node saves of its own application, for whoever needs one (protocol.md 11).
//!
//! It is what stands in its snapshot area: nothing, one that is being written, or one that may be READ. The header is zeroed
//! before the first byte changes, and written when the last one is there.
//!
//! An acceptor whose host is apart has it written by that, and keeps what it has taken of another node's (protocol.md 13).

use crate::event::Event;
use crate::layout::{ConfigBlock, HostLine, Line, SnapshotLine, host_flags, snapshot, verdict};
use crate::mark::{Snapshot as Mark, mark};
use crate::mem::{Area, Memory, full};
use crate::membership::Configuration;
use crate::options::Identity;
use crate::request::Answer;
use crate::roster::Roster;
use crate::snapshot::{Saved, reaches};
use crate::types::{Boot, Chain, Index, LogPoint, NodeId, Position, Promise, Term};

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum State {
    Nothing,
    /// The application was told to write.
    Saving {
        point: LogPoint,
        config_crc: u32,
        group: u128,
    },
    /// The host that is apart was told to.
    Ordered {
        by: Boot,
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

/// Whose application it is that can save.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Saver {
    /// This node's, which has that.
    Here(LogPoint),
    /// That host's, which has so much at least.
    Host { boot: Boot, applied: Position },
    /// Nobody's: the host is dead.
    Nobody,
}

/// What a source goes by.
pub(crate) struct Ground<'a, M> {
    pub(crate) me: Identity,
    pub(crate) area: &'a Area<M>,
    pub(crate) saver: Saver,
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
        matches!(self.state, State::Saving { .. } | State::Ordered { .. })
    }

    /// The snapshot that may be READ.
    pub(crate) fn saved(&self) -> Option<LogPoint> {
        match self.state {
            State::Saved { point, .. } => Some(point),
            _ => None,
        }
    }

    /// What the host is to save: a number, and which host.
    pub(crate) fn order(&self) -> Option<(u32, Boot)> {
        match self.state {
            State::Ordered { by, .. } => Some((self.number, by)),
            _ => None,
        }
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
            State::Ordered { .. } if on.saver == Saver::Nobody => return say(verdict::UNABLE),
            State::Saving { .. } | State::Ordered { .. } => return say(verdict::WORKING),
            _ => {}
        }
        if self.failed || on.is_taking || on.me.snapshot_len == 0 {
            return say(verdict::UNABLE);
        }
        let configuration = on.roster.anchored();
        let event = match on.saver {
            // The configuration at the snapshot's point is known when the anchor's is not above it.
            Saver::Here(applied)
                if applied.position >= wish.floor
                    && configuration.index <= applied.index
                    && configuration.voters() > 0 =>
            {
                Some(self.begin(on, applied, configuration))
            }
            Saver::Host { boot, applied } if applied >= wish.floor => {
                mark(Mark::Orders);
                self.renew(on.area);
                self.state = State::Ordered { by: boot, group: configuration.group };
                None
            }
            Saver::Here(_) | Saver::Host { .. } => None,
            Saver::Nobody => return say(verdict::UNABLE),
        };
        Some((Answer { verdict: verdict::WORKING, ..Answer::default() }, event))
    }

    fn begin<M: Memory>(&mut self, on: &Ground<M>, point: LogPoint, configuration: &Configuration) -> Event {
        mark(Mark::Saves);
        self.renew(on.area);
        let config_crc = self.write_configuration(on.area, configuration);
        self.state = State::Saving { point, config_crc, group: configuration.group };
        Event::SaveSnapshot { number: self.number }
    }

    /// Returns its CRC.
    fn write_configuration<M: Memory>(&self, area: &Area<M>, configuration: &Configuration) -> u32 {
        configuration.block().write(area, snapshot::CONFIG, self.version);
        ConfigBlock::read(area, snapshot::CONFIG).map_or(0, |block| block.crc)
    }

    /// What was there is gone, and what comes has another number.
    fn renew<M: Memory>(&mut self, area: &Area<M>) {
        self.discard(area);
        // No number means none.
        self.number = self.number.wrapping_add(1).max(1);
        self.version = self.version.wrapping_add(1);
    }

    /// The host has said something. One that was told to save, and is not there any more, stores nothing by now.
    pub(crate) fn handle_host<M: Memory>(
        &mut self,
        me: Identity,
        area: &Area<M>,
        anchor: Position,
        line: &HostLine,
    ) {
        let State::Ordered { by, group } = self.state else { return };
        if by.0 == line.boot && line.saved != u64::from(self.number) {
            return;
        }
        let able = by.0 == line.boot
            && line.flags & host_flags::UNABLE == 0
            && line.len <= me.snapshot_len
            && line.position <= anchor.0;
        if !able {
            mark(Mark::SaveFailed);
            self.state = State::Nothing;
            self.failed = true;
            return;
        }
        mark(Mark::Saved);
        let HostLine { index, term, position, chain, .. } = *line;
        let point = LogPoint {
            index: Index(index),
            term: Term(term),
            position: Position(position),
            chain: Chain(chain),
        };
        let (bytes_crc, config_crc) = (line.bytes_crc, line.config_crc);
        self.publish(me, area, point, group, (line.len, bytes_crc), config_crc);
    }

    /// What is in the area was taken of another node: whoever needs it may have it of this one now.
    pub(crate) fn keep<M: Memory>(
        &mut self,
        me: Identity,
        area: &Area<M>,
        taken: &SnapshotLine,
        configuration: &Configuration,
    ) {
        mark(Mark::Keeps);
        self.renew(area);
        let config_crc = self.write_configuration(area, configuration);
        let point = taken.point();
        self.publish(me, area, point, configuration.group, (taken.len, taken.bytes_crc), config_crc);
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
        let State::Saving { point, config_crc, group } = self.state else { return };
        if number != self.number {
            return;
        }
        match saved.filter(|saved| saved.len <= me.snapshot_len) {
            Some(Saved { len, crc }) => {
                mark(Mark::Saved);
                self.publish(me, area, point, group, (len, crc), config_crc);
            }
            None => {
                mark(Mark::SaveFailed);
                self.state = State::Nothing;
                self.failed = true;
            }
        }
    }

    fn publish<M: Memory>(
        &mut self,
        me: Identity,
        area: &Area<M>,
        point: LogPoint,
        group: u128,
        (len, bytes_crc): (u64, u32),
        config_crc: u32,
    ) {
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
            len,
            chain: point.chain.0,
            bytes_crc,
            config_crc,
            ..SnapshotLine::default()
        }
        .write(area, snapshot::HEADER, self.version);
        full();
        self.state = State::Saved { point, len };
    }
}

#[cfg(feature = "model")]
impl Source {
    pub(crate) fn canonical(&self, out: &mut impl crate::canonical::Canonical) {
        let Source { state, number, version, wish, failed } = self;
        out.plain((state, number, version, wish, failed));
    }
}
