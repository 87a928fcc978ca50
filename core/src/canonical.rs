//! A replica's state in a form in which states that behave alike are equal: for a model that tells states apart by it.
//!
//! Plain values go into a [`Hasher`]. Moments and counters are named instead: what decides is their order, not how large
//! they have become, so the model numbers them anew. A counter belongs to a [`Space`]: one number that only grows, and
//! all copies of its values wherever they are. Values of two spaces are never compared by the core. Every function
//! takes its struct apart completely, so that a new field is not forgotten here. Only with the feature `model`.

use core::hash::{Hash, Hasher};

use crate::layout::{AnswerLine, BeatLine, ProgressLine, RequestLine};
use crate::types::{Instant, NodeId, Promise};

/// What counts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Counter {
    /// Requests of the proposer of `of`.
    Sequence,
    /// Publications of the progress line of `of`.
    Liveness,
    /// Arms of the queue pair that `of` keeps for `to`.
    Epoch,
    /// Opaque numbers that arming gave at `of` for `to`.
    Armed,
    /// Opaque numbers of the end at `of` of the queue pair to `to`.
    End,
    /// Versions of the request line that `of` writes to `to`.
    Request,
    /// Versions of the answer line that `of` writes to `to`.
    Answer,
    /// Versions of the beat that `of` writes to `to`.
    BeatLine,
    /// Beats of `of`.
    Beat,
    /// WRITEs of `of` to the log of `to`.
    Write,
    /// READs of `of` of the progress line of `to`.
    Reading,
    /// READs of `of` of leaders' lines.
    Line,
}

/// One counter.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Space {
    /// What is counted.
    pub counter: Counter,
    /// Whose it is.
    pub of: NodeId,
    /// Towards whom; nobody when it is one for all.
    pub to: NodeId,
}

impl Space {
    /// The counter of a pair of nodes.
    pub fn new(counter: Counter, of: NodeId, to: NodeId) -> Space {
        Space { counter, of, to }
    }

    /// A counter that a node has only one of.
    pub fn own(counter: Counter, of: NodeId) -> Space {
        Space { counter, of, to: NodeId::NOBODY }
    }
}

/// Takes the canonical form of a state in.
pub trait Canonical: Hasher {
    /// Whether that node plays a part; the rows of others are left out.
    fn knows(&self, node: NodeId) -> bool;
    /// The clock of the replica that follows: all moments are relative to it.
    fn now(&mut self, now: Instant);
    /// A moment by that clock. It is compared with the clock, and with marks.
    fn moment(&mut self, at: Instant);
    /// A moment that others are compared with.
    fn mark(&mut self, at: Instant);
    /// A value of a counter. 0 is before the first.
    fn count(&mut self, space: Space, value: u64);

    /// Anything in which nothing counts.
    fn plain(&mut self, value: impl Hash)
    where
        Self: Sized,
    {
        value.hash(self);
    }

    /// A moment that may not have been.
    fn moment_if_any(&mut self, at: Option<Instant>)
    where
        Self: Sized,
    {
        self.plain(at.is_some());
        if let Some(at) = at {
            self.moment(at);
        }
    }
}

/// The request line that `of` writes to `to`.
pub fn request_line(line: &RequestLine, of: NodeId, to: NodeId, out: &mut impl Canonical) {
    let RequestLine {
        from_boot,
        to_boot,
        to_incarnation,
        sequence,
        term,
        last_term,
        last_index,
        hash,
        qp_numbers,
        qp_epoch,
        kind,
        qp_state,
        source,
        padding,
        position,
        counts,
        source_boot,
        number,
        chain,
        reserved,
        version,
        crc: _,
    } = *line;
    out.plain((from_boot, to_boot, to_incarnation, term, last_term, last_index, hash));
    out.plain((source, position, counts, source_boot, number, chain));
    out.plain((kind, qp_state, padding, reserved));
    out.count(Space::own(Counter::Sequence, of), sequence);
    out.count(Space::new(Counter::End, of, to), qp_numbers);
    out.count(Space::new(Counter::Epoch, to, of), u64::from(qp_epoch));
    out.count(Space::new(Counter::Request, of, to), u64::from(version));
}

/// The answer line that `of` writes to `to`.
pub fn answer_line(line: &AnswerLine, of: NodeId, to: NodeId, out: &mut impl Canonical) {
    let AnswerLine {
        from_boot,
        to_boot,
        sequence,
        promise,
        last_term,
        last_index,
        last_position,
        anchor_term,
        anchor_index,
        anchor_position,
        applied,
        durable,
        qp_numbers,
        qp_epoch,
        anchor_chain,
        verdict,
        qp_state,
        padding,
        snapshot_number,
        snapshot_len,
        fetched,
        reserved,
        version,
        crc: _,
    } = *line;
    out.plain((from_boot, to_boot, promise, last_term, last_index, last_position));
    out.plain((anchor_term, anchor_index, anchor_position, anchor_chain, applied, durable));
    out.plain((verdict, qp_state, padding, snapshot_number, snapshot_len, fetched, reserved));
    out.count(Space::own(Counter::Sequence, to), sequence);
    out.count(Space::new(Counter::Armed, of, to), qp_numbers);
    out.count(Space::new(Counter::Epoch, of, to), u64::from(qp_epoch));
    out.count(Space::new(Counter::Answer, of, to), u64::from(version));
}

/// A beat in the log area of `to`, or on its way there.
pub fn beat_line(line: &BeatLine, to: NodeId, out: &mut impl Canonical) {
    let BeatLine { leader, counter, commit, commit_index, matched, flags, reserved, version, crc: _ } = *line;
    let of = Promise(leader).node();
    out.plain((leader, commit, commit_index, matched, flags, reserved));
    out.count(Space::own(Counter::Beat, of), counter);
    out.count(Space::new(Counter::BeatLine, of, to), u64::from(version));
}

/// The progress line of `of`. Its version moves with its liveness, and nobody looks at it.
pub fn progress_line(line: &ProgressLine, of: NodeId, out: &mut impl Canonical) {
    let ProgressLine {
        boot,
        liveness,
        promise,
        grant,
        applied,
        durable,
        hint_term,
        hint_index,
        flags,
        config_index,
        anchor,
        start,
        save,
        save_by,
        reserved,
        version: _,
        crc: _,
    } = *line;
    out.plain((boot, promise, grant, applied, durable, hint_term, hint_index, flags, config_index, reserved));
    out.plain((anchor, start, save, save_by));
    out.count(Space::own(Counter::Liveness, of), liveness);
}
