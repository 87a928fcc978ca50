//! The memory of a modelled node: only the words that a group of three uses, a few kilobytes instead of 256.
//!
//! While a replica runs, its words stand at their places in areas of full length that each thread has once; before and
//! after, they are one short slice. What stands in it is told by the same places for all nodes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ringleader_core::layout::{self, AnswerLine, BeatLine, Header, LeaderLine, ProgressLine, RequestLine};
use ringleader_core::layout::{ConfigBlock, control, log, staging};
use ringleader_core::mem::{Area, Areas, Memory};
use ringleader_core::types::NodeId;

/// Nodes of a modelled group.
pub const NODES: u8 = 3;

/// Ring of the longest model, in bytes.
const MAX_RING_LEN: u64 = 16 * 64;

/// The words of one node.
pub type Words = Arc<[u64]>;

/// An area of a node.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum AreaKind {
    /// READ and WRITE for all.
    Control,
    /// WRITE for the granted one.
    Log,
    /// Local.
    Staging,
    /// Empty: there are no snapshots in a model.
    Snapshot,
}

/// What stands somewhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Holds {
    /// Words that nobody counts in.
    Plain,
    /// The own leader line, whose version nobody looks at.
    Leader,
    /// The own progress line.
    Progress,
    /// A request line, by its writer.
    Request(NodeId),
    /// An answer line, by its writer.
    Answer(NodeId),
    /// The beat in the own log.
    Beat,
    /// What a WRITE carries or a READ brings.
    OnItsWay,
    /// Entries that a leader has made, or sends.
    StagingRing,
}

/// A part of an area that is kept.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// Its area.
    pub area: AreaKind,
    /// What it is.
    pub holds: Holds,
    /// Where it begins in the area, in words.
    pub offset: usize,
    /// How many words.
    pub len: usize,
    /// Where it begins in [`Words`].
    pub at: usize,
}

/// All that is kept of a node's areas.
#[derive(Clone, Debug)]
pub struct Map {
    parts: Vec<Part>,
    len: usize,
    ring_len: u64,
}

impl Map {
    /// For rings of that length.
    pub fn new(ring_len: u64) -> Map {
        assert!(ring_len <= MAX_RING_LEN, "the areas of a thread are made for rings of {MAX_RING_LEN} bytes");
        let mut map = Map { parts: Vec::new(), len: 0, ring_len };
        let ids = || (1..=NODES).map(NodeId);
        map.line::<Header>(AreaKind::Control, control::HEADER, Holds::Plain);
        map.line::<ProgressLine>(AreaKind::Control, control::PROGRESS, Holds::Progress);
        map.line::<LeaderLine>(AreaKind::Control, control::LEADER, Holds::Leader);
        map.line::<ConfigBlock>(AreaKind::Control, control::CONFIG, Holds::Plain);
        for node in ids() {
            map.line::<RequestLine>(AreaKind::Control, layout::request_of(node), Holds::Request(node));
            map.line::<AnswerLine>(AreaKind::Control, layout::answer_of(node), Holds::Answer(node));
        }
        map.line::<BeatLine>(AreaKind::Log, log::BEAT, Holds::Beat);
        map.add(AreaKind::Log, log::RING, ring_len, Holds::Plain);
        for node in ids() {
            let peer = node.slot();
            map.line::<RequestLine>(AreaKind::Staging, staging::request(peer), Holds::OnItsWay);
            map.line::<AnswerLine>(AreaKind::Staging, staging::answer(peer), Holds::OnItsWay);
            map.line::<BeatLine>(AreaKind::Staging, staging::beat(peer), Holds::OnItsWay);
            map.line::<Header>(AreaKind::Staging, staging::header(peer), Holds::OnItsWay);
            map.line::<ProgressLine>(AreaKind::Staging, staging::progress(peer), Holds::OnItsWay);
            map.line::<LeaderLine>(AreaKind::Staging, staging::leader(peer), Holds::OnItsWay);
            map.line::<ConfigBlock>(AreaKind::Staging, staging::config(peer), Holds::OnItsWay);
        }
        map.add(AreaKind::Staging, log::RING, ring_len, Holds::StagingRing);
        map
    }

    fn line<L>(&mut self, area: AreaKind, offset: u64, holds: Holds) {
        self.add(area, offset, size_of::<L>() as u64, holds);
    }

    fn add(&mut self, area: AreaKind, offset: u64, len: u64, holds: Holds) {
        let (offset, len) = ((offset / 8) as usize, (len / 8) as usize);
        self.parts.push(Part { area, holds, offset, len, at: self.len });
        self.len += len;
    }

    /// The parts, in the order of [`Words`].
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Length of the rings.
    pub fn ring_len(&self) -> u64 {
        self.ring_len
    }

    /// Memory of a node before it starts.
    pub fn zeroed(&self) -> Words {
        vec![0; self.len].into()
    }

    /// Where the words at `offset` of an area are kept.
    pub fn find(&self, area: AreaKind, offset: u64, len: u64) -> std::ops::Range<usize> {
        let (offset, len) = ((offset / 8) as usize, (len / 8) as usize);
        let part = self
            .parts
            .iter()
            .find(|part| part.area == area && part.offset <= offset && offset + len <= part.offset + part.len)
            .unwrap_or_else(|| panic!("{len} words at {offset} of {area:?} are not part of the model"));
        let start = part.at + offset - part.offset;
        start..start + len
    }

    /// Lets a replica run on its words. Returns the words after it, when any has changed.
    pub fn lend<R>(&self, words: &Words, run: impl FnOnce() -> R) -> (R, Option<Words>) {
        for part in &self.parts {
            let area = &area_words(part.area)[part.offset..part.offset + part.len];
            for (to, from) in area.iter().zip(&words[part.at..]) {
                to.store(*from, Ordering::Relaxed);
            }
        }
        let result = run();
        let mut after = Vec::with_capacity(self.len);
        for part in &self.parts {
            let area = &area_words(part.area)[part.offset..part.offset + part.len];
            after.extend(area.iter().map(|word| word.load(Ordering::Relaxed)));
        }
        let after = (after[..] != words[..]).then(|| after.into());
        (result, after)
    }
}

/// Memory that a replica finds where the running thread keeps it.
#[derive(Clone, Copy, Debug)]
pub struct Lent(AreaKind);

impl Lent {
    /// The areas of whatever replica runs.
    pub fn areas() -> Areas<Lent> {
        let area = |kind| Area::new(Lent(kind));
        Areas {
            control: area(AreaKind::Control),
            log: area(AreaKind::Log),
            staging: area(AreaKind::Staging),
            snapshot: area(AreaKind::Snapshot),
        }
    }
}

thread_local! {
    /// Control, log and staging area of whatever replica runs on this thread.
    static AREAS: [&'static [AtomicU64]; 3] = {
        let make = |len: u64| -> &'static [AtomicU64] {
            Box::leak((0..len / 8).map(|_| AtomicU64::new(0)).collect::<Box<[AtomicU64]>>())
        };
        let log_len = log::len(MAX_RING_LEN);
        [make(control::LEN), make(log_len), make(log_len)]
    };
    static RING_LEN: std::cell::Cell<u64> = const { std::cell::Cell::new(MAX_RING_LEN) };
}

/// Rings on this thread are so long from now on: a replica that starts judges the length of its areas.
pub fn use_rings_of(ring_len: u64) {
    RING_LEN.set(ring_len);
}

fn area_words(kind: AreaKind) -> &'static [AtomicU64] {
    let words = |kind: AreaKind| AREAS.with(|areas| areas[kind as usize]);
    match kind {
        AreaKind::Snapshot => &[],
        AreaKind::Control => words(kind),
        AreaKind::Log | AreaKind::Staging => &words(kind)[..(log::len(RING_LEN.get()) / 8) as usize],
    }
}

impl Memory for Lent {
    fn words(&self) -> &[AtomicU64] {
        area_words(self.0)
    }
}
