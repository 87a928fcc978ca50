//! The snapshot that a node takes from another: READ in pieces into its own snapshot area, looked at again, checked, and
//! handed to the application (protocol.md 11).
//!
//! Until the application is told to load it nothing of the node has changed but the bytes in its snapshot area. A broken link
//! is mended and the READs go on where they were, as long as it is the same snapshot of the same life of the source.
//!
//! A host that is apart is told of none: it *seeks*, and takes whatever its own acceptor has that is of use (protocol.md 13).

#[cfg(feature = "model")]
use crate::canonical::Canonical;
use crate::crc;
use crate::entry::SLOT_ALIGN;
use crate::layout::{ConfigBlock, Line, SnapshotLine, snapshot, verdict};
use crate::link::Link;
use crate::mark::{Snapshot as Mark, mark};
use crate::mem::{Area, Memory, acquire};
use crate::membership::Configuration;
use crate::options::Identity;
use crate::planted::{self, Bug};
use crate::request::{About, Answer};
use crate::snapshot::Taking;
use crate::table::Table;
use crate::timing::Timing;
use crate::types::{Boot, Instant, LogPoint, NodeId, Position, Promise, Term};
use crate::verb::{Class, Completion, NUMBER_MASK, RequestId, Status, Verb};

/// A position above this is none that a log ever gets to.
const MAX_POSITION: u64 = 1 << 62;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Stage {
    /// Nothing is taken.
    Idle,
    /// READs the header.
    Header,
    /// READs the configuration block.
    Config,
    /// READs the bytes, from `at` on; `crc` is that of those before.
    Bytes { at: u64, crc: u32 },
    /// READs the header once more.
    Again { crc: u32 },
    /// All is here and right: waits until nobody can write the log, and it was walked to its end.
    Whole,
    /// The application was told.
    Loading,
    /// Over, for this order.
    Ended(u8),
}

/// What a leader tells this node to take.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Order {
    pub(crate) from: NodeId,
    pub(crate) boot: Boot,
    pub(crate) sequence: u64,
    /// The leader's.
    pub(crate) promise: Promise,
    pub(crate) about: About,
}

/// What an application becomes, and what goes with it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Taken {
    pub(crate) point: LogPoint,
    pub(crate) configuration: Configuration,
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    order: Option<Order>,
    /// It still stands. What was taken for one that does not any more is kept, for a leader who tells the same.
    stands: bool,
    /// Nobody ordered it: what there is is found out by looking.
    seeks: bool,
    stage: Stage,
    /// The header that was READ first.
    header: SnapshotLine,
    taken: Option<Taken>,
    /// The READ under way: until it has ended its bytes may still arrive, whatever has become of the link.
    flight: Option<Flight>,
    number: u32,
    /// When the source was last heard of.
    heard_at: Instant,
    /// Of the last load.
    load: u32,
}

/// A READ that has not ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Flight {
    id: RequestId,
    at: Instant,
    len: u32,
    /// It was for what is taken now.
    counts: bool,
}

/// What a target goes by.
pub(crate) struct Ground<'a, M> {
    pub(crate) now: Instant,
    pub(crate) me: Identity,
    pub(crate) timing: &'a Timing,
    pub(crate) area: &'a Area<M>,
    pub(crate) links: &'a Table<Link>,
    pub(crate) group: u128,
    pub(crate) applied: Position,
    /// The log cannot be applied any further, whatever comes.
    pub(crate) is_stuck: bool,
    /// Where a log is, as far as the acceptor that is apart has one: only a snapshot within will do.
    pub(crate) within: (Position, Position),
}

impl Target {
    pub(crate) fn new() -> Target {
        Target {
            order: None,
            stands: false,
            seeks: false,
            stage: Stage::Idle,
            header: SnapshotLine::default(),
            taken: None,
            flight: None,
            number: 0,
            heard_at: Instant(0),
            load: 0,
        }
    }

    /// What stands.
    pub(crate) fn order(&self) -> Option<&Order> {
        self.order.as_ref().filter(|_| self.stands)
    }

    /// Whether the application is loading.
    pub(crate) fn is_loading(&self) -> bool {
        self.stage == Stage::Loading
    }

    /// Whether all bytes are here, and wait for the log to be left alone.
    pub(crate) fn is_whole(&self) -> bool {
        self.stage == Stage::Whole && self.stands
    }

    /// Whether the snapshot area is in use, or something may still arrive there.
    pub(crate) fn uses_area(&self) -> bool {
        self.flight.is_some() || self.is_loading() || self.stands && self.is_under_way()
    }

    fn is_under_way(&self) -> bool {
        !matches!(self.stage, Stage::Idle | Stage::Ended(_))
    }

    pub(crate) fn taking(&self) -> Option<Taking> {
        let source = self.order.as_ref()?.about.source;
        let (fetched, len, loading) = (self.fetched(), self.header.len, self.is_loading());
        (loading || self.stands && self.is_under_way()).then_some(Taking { source, fetched, len, loading })
    }

    fn fetched(&self) -> u64 {
        match self.stage {
            Stage::Bytes { at, .. } => at,
            Stage::Again { .. } | Stage::Whole | Stage::Loading => self.header.len,
            Stage::Idle | Stage::Header | Stage::Config | Stage::Ended(_) => 0,
        }
    }

    /// A leader, who is promised to, tells this node to take a snapshot, or tells it something new of that.
    pub(crate) fn handle_order(&mut self, now: Instant, order: Order) {
        if self.stands && self.order == Some(order) {
            return;
        }
        let same = self.order.is_some_and(|former| former.about.is_same(&order.about));
        let under_way = self.is_under_way();
        self.order = Some(order);
        self.stands = true;
        self.heard_at = now;
        if self.is_loading() {
            return;
        }
        if same && under_way {
            mark(Mark::Resumes);
            return;
        }
        mark(if under_way { Mark::Switches } else { Mark::Begins });
        self.begin();
    }

    /// Looks what the own acceptor has, and takes it.
    pub(crate) fn seek(&mut self, now: Instant, me: NodeId, source_boot: Boot) {
        if self.is_loading() {
            return;
        }
        let about = About { source: me, source_boot, ..About::default() };
        let promise = Promise::NONE;
        self.order = Some(Order { from: me, boot: Boot(0), sequence: 0, promise, about });
        self.stands = true;
        self.seeks = true;
        self.heard_at = now;
        mark(Mark::Seeks);
        self.begin();
    }

    /// Whether it looks for something, or has found it.
    pub(crate) fn is_seeking(&self) -> bool {
        self.seeks && self.stands && self.is_under_way()
    }

    /// Whether what was looked for is there, and on its way.
    pub(crate) fn has_found(&self) -> bool {
        self.is_seeking() && self.stage != Stage::Header
    }

    fn begin(&mut self) {
        self.header = SnapshotLine::default();
        self.taken = None;
        self.stage = Stage::Header;
        if let Some(flight) = &mut self.flight {
            flight.counts = false;
        }
    }

    /// What is here is of no use any more: the area is used for something else, or the group is another.
    pub(crate) fn forget(&mut self) {
        self.begin();
        self.stage = Stage::Idle;
        self.order = None;
        self.stands = false;
    }

    /// Nobody tells this node to take anything any more. What is here of it is kept for when the same is told again by the same
    /// leader or another.
    pub(crate) fn abandon(&mut self) {
        if self.stands && !self.is_loading() {
            if self.is_under_way() {
                mark(Mark::Abandoned);
            }
            self.stands = false;
        }
    }

    /// What can be said to the leader.
    pub(crate) fn answer(&self) -> Answer {
        let verdict = match self.stage {
            Stage::Ended(verdict) => verdict,
            _ => verdict::WORKING,
        };
        // In steps, so that not every piece is told of.
        let (fetched, step) = (self.fetched(), (self.header.len / 32).max(1));
        Answer {
            verdict,
            number: self.order.map_or(0, |order| order.about.number),
            len: self.header.len,
            fetched: fetched - fetched % step,
            ..Answer::default()
        }
    }

    /// Looks whether it goes on. Returns a node to connect to.
    pub(crate) fn tick<M: Memory>(&mut self, on: &Ground<M>) -> Option<NodeId> {
        let about = self.order()?.about;
        if !self.is_under_way() || self.is_loading() {
            return None;
        }
        if on.applied >= about.point.position && !self.seeks && !planted::is(Bug::SnapshotTakesBack) {
            mark(Mark::ThereAlready);
            self.stage = Stage::Ended(verdict::GRANTED);
            return None;
        }
        if self.is_whole() {
            return None;
        }
        let source = about.source;
        let possible = on.me.snapshot_len > 0
            && source.is_valid()
            && (source != on.me.node || self.seeks)
            && !on.is_stuck
            && about.point.position.0 < MAX_POSITION
            && about.point.position.0.is_multiple_of(SLOT_ALIGN)
            && about.point.term <= Term::MAX;
        if !possible {
            self.end(Mark::CannotTake, verdict::UNABLE);
            return None;
        }
        let link = &on.links[source];
        if link.is_up() && link.peer().boot != about.source_boot {
            self.end(Mark::SourceAnew, verdict::LOST);
            return None;
        }
        if on.now.since(self.heard_at) >= on.timing.alive_within_ns {
            self.end(Mark::SourceSilent, verdict::LOST);
            return None;
        }
        (!link.is_up()).then_some(source)
    }

    fn end(&mut self, why: Mark, verdict: u8) {
        mark(why);
        self.stage = Stage::Ended(verdict);
    }

    /// Whether the READ under way has been so for too long.
    pub(crate) fn is_stalled(&self, node: NodeId, now: Instant, limit: u64) -> bool {
        self.flight.is_some_and(|flight| flight.id.peer == node && now.since(flight.at) > limit)
    }

    /// The next READ: one at a time.
    pub(crate) fn poll<M: Memory>(&mut self, on: &Ground<M>) -> Option<Verb> {
        let about = self.order()?.about;
        let (from, to, len) = match self.stage {
            Stage::Header | Stage::Again { .. } => {
                (snapshot::HEADER, snapshot::TAKEN_HEADER, size_of::<SnapshotLine>() as u32)
            }
            Stage::Config => (snapshot::CONFIG, snapshot::TAKEN_CONFIG, size_of::<ConfigBlock>() as u32),
            Stage::Bytes { at, .. } => {
                let rest = (self.header.len - at).next_multiple_of(64);
                let len = rest.min(u64::from(on.timing.max_write)) as u32;
                (snapshot::BYTES + at, snapshot::BYTES + at, len)
            }
            _ => return None,
        };
        if self.flight.is_some() || !about.source.is_valid() {
            return None;
        }
        let link = &on.links[about.source];
        if !link.is_up() || link.peer().boot != about.source_boot {
            return None;
        }
        self.number = (self.number + 1) & NUMBER_MASK;
        let id = RequestId {
            peer: about.source,
            class: Class::Fetch,
            epoch: link.connection(),
            number: self.number,
        };
        self.flight = Some(Flight { id, at: on.now, len, counts: true });
        Some(Verb::Fetch { id, from, to, len })
    }

    /// The READ under way has ended. Returns whether the link is of no use.
    pub(crate) fn handle_completion<M: Memory>(&mut self, on: &Ground<M>, done: &Completion) -> bool {
        let Some(flight) = self.flight.filter(|flight| flight.id == done.id) else { return false };
        self.flight = None;
        if done.status != Status::Success {
            return true;
        }
        let link = &on.links[flight.id.peer];
        let current = link.is_up() && link.connection() == flight.id.epoch;
        if !flight.counts || !current {
            return false;
        }
        self.heard_at = on.now;
        acquire();
        match self.stage {
            Stage::Header => self.look_at_header(on),
            Stage::Config => self.look_at_config(on),
            Stage::Bytes { at, crc } => self.take_bytes(on, at, crc, u64::from(flight.len)),
            Stage::Again { crc } => self.look_again(on, crc),
            _ => {}
        }
        false
    }

    fn look_at_header<M: Memory>(&mut self, on: &Ground<M>) {
        let Some(order) = &mut self.order else { return };
        let about = &mut order.about;
        let (from, to) = on.within;
        let seeks = self.seeks;
        let header = SnapshotLine::read(on.area, snapshot::TAKEN_HEADER).filter(|header| {
            let point = header.point();
            let told = header.number == about.number && point == about.point;
            let serves = point.position > on.applied && (from..=to).contains(&point.position);
            let group = u128::from(header.group_high) << 64 | u128::from(header.group_low);
            group == on.group && header.boot == about.source_boot.0 && if seeks { serves } else { told }
        });
        let Some(header) = header else { return self.end(Mark::HeaderGone, verdict::LOST) };
        if header.len > on.me.snapshot_len {
            return self.end(Mark::CannotTake, verdict::UNABLE);
        }
        about.number = header.number;
        about.point = header.point();
        if seeks {
            mark(Mark::Found);
        }
        self.header = header;
        self.stage = Stage::Config;
    }

    fn look_at_config<M: Memory>(&mut self, on: &Ground<M>) {
        let header = &self.header;
        let configuration = ConfigBlock::read(on.area, snapshot::TAKEN_CONFIG)
            .filter(|block| block.crc == header.config_crc && block.index <= header.index)
            .and_then(|block| Configuration::from_block(&block))
            .filter(|configuration| configuration.group == on.group && configuration.voters() > 0);
        let (Some(configuration), Some(order)) = (configuration, self.order) else {
            return self.end(Mark::HeaderGone, verdict::LOST);
        };
        self.taken = Some(Taken { point: order.about.point, configuration });
        self.stage = Stage::Bytes { at: 0, crc: 0 };
        self.turn_when_whole(0, 0);
    }

    fn take_bytes<M: Memory>(&mut self, on: &Ground<M>, at: u64, crc: u32, len: u64) {
        let end = self.header.len.min(at + len);
        let crc = crc_of(on.area, snapshot::BYTES + at, end - at, crc);
        self.stage = Stage::Bytes { at: end, crc };
        self.turn_when_whole(end, crc);
    }

    fn turn_when_whole(&mut self, at: u64, crc: u32) {
        if at >= self.header.len {
            self.stage = Stage::Again { crc };
        }
    }

    /// The source zeroes its header before it changes a byte: as long as it is the same, so are all bytes that were READ before.
    fn look_again<M: Memory>(&mut self, on: &Ground<M>, crc: u32) {
        let unchecked = planted::is(Bug::SnapshotUnchecked);
        if SnapshotLine::read(on.area, snapshot::TAKEN_HEADER) != Some(self.header) && !unchecked {
            self.end(Mark::HeaderChanged, verdict::LOST);
        } else if crc != self.header.bytes_crc && !unchecked {
            self.end(Mark::BytesWrong, verdict::LOST);
        } else {
            self.stage = Stage::Whole;
        }
    }

    /// What is here, or on its way.
    pub(crate) fn taken(&self) -> Option<(&SnapshotLine, &Taken)> {
        self.taken.as_ref().map(|taken| (&self.header, taken))
    }

    /// The same, once all bytes are here.
    pub(crate) fn whole(&self) -> Option<(&SnapshotLine, &Taken)> {
        self.taken().filter(|_| self.is_whole())
    }

    /// The log goes on without it, but it is here.
    pub(crate) fn handle_kept(&mut self) {
        self.end(Mark::Kept, verdict::GRANTED);
    }

    /// The log begins behind it.
    pub(crate) fn refuse_old(&mut self) {
        self.end(Mark::TooOld, verdict::TOO_OLD);
    }

    /// The application is to become it. Returns the number of the load, and how many bytes there are.
    pub(crate) fn load(&mut self) -> (u32, u64) {
        mark(Mark::Loads);
        self.stage = Stage::Loading;
        self.load = self.load.wrapping_add(1);
        (self.load, self.header.len)
    }

    /// The application has answered: what is to be installed, if it has become that.
    pub(crate) fn handle_loaded(&mut self, number: u32, loaded: bool) -> Option<Taken> {
        if !self.is_loading() || number != self.load {
            return None;
        }
        let taken = self.taken.take();
        if loaded {
            mark(Mark::Installed);
            // Whatever is told by now: what it is about is here already, or it begins anew.
            let here = |order: &Order| {
                taken.as_ref().is_some_and(|taken| taken.point.position >= order.about.point.position)
            };
            if self.order.as_ref().is_none_or(here) {
                self.stage = Stage::Ended(verdict::GRANTED);
            } else {
                self.begin();
            }
            taken
        } else {
            self.end(Mark::LoadFailed, verdict::UNABLE);
            None
        }
    }
}

/// CRC-32C of `len` bytes at `offset`, going on from `crc`.
fn crc_of<M: Memory>(area: &Area<M>, mut offset: u64, mut len: u64, mut crc: u32) -> u32 {
    let mut words = [0u64; 64];
    while len > 0 {
        let bytes = len.min(size_of_val(&words) as u64) as usize;
        area.read(offset, &mut words[..bytes.div_ceil(8)]);
        crc = crc::append(crc, &zerocopy::IntoBytes::as_bytes(&words)[..bytes]);
        offset += bytes as u64;
        len -= bytes as u64;
    }
    crc
}

#[cfg(feature = "model")]
impl Target {
    pub(crate) fn canonical(&self, out: &mut impl Canonical) {
        let Target { order, stands, seeks: _, stage, header, taken, flight, number, heard_at, load } = self;
        out.plain((order, stands, stage, taken, number, load));
        out.plain(zerocopy::IntoBytes::as_bytes(header));
        out.plain(flight.map(|flight| (flight.id, flight.len, flight.counts)));
        out.moment_if_any(flight.map(|flight| flight.at));
        out.moment(*heard_at);
    }
}
