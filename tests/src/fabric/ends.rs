//! The two kinds of ends of simulated queue pairs: the one that posts, and the one at a log area that permits.
//!
//! State only; what happens to it is in the fabric's other files.

use std::collections::VecDeque;

use ringleader_core::types::{Epoch, NodeId};
use ringleader_core::verb::{Completion, Plane, RequestId, Source, Status, Verb};

use super::{Home, SimArea};

/// Names one posting end: whose it is, to whom, on which plane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PipeId {
    /// The node that posts.
    pub from: NodeId,
    /// The node whose memory is meant.
    pub to: NodeId,
    /// Control or log.
    pub plane: Plane,
}

/// A state of a posting end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PipeState {
    Closed,
    Open,
    /// After an error: everything is flushed.
    Error,
}

/// The end that posts WRITEs and READs.
#[derive(Debug)]
pub(crate) struct Pipe {
    pub(crate) state: PipeState,
    /// Counts connections, opens, closes and deaths: a piece of another life is not sent any more.
    pub(crate) life: u32,
    /// The number of this end, as the acceptor must know it.
    pub(crate) ours: u64,
    /// The acceptor's number that this end was opened with.
    pub(crate) theirs: u64,
    /// Life of the peer that this end was connected to.
    pub(crate) target_life: u32,
    pub(crate) ops: VecDeque<Op>,
    pub(crate) next_serial: u64,
    /// When the last verb was sent.
    pub(crate) sent_ns: u64,
    /// Nothing completes before.
    pub(crate) mute_until_ns: u64,
    /// Broken without anybody knowing yet: the next verb fails.
    pub(crate) cracked: bool,
    /// The acceptor armed while this end was not closed: duplicates may be acknowledged.
    pub(crate) armed_early: bool,
    /// Connect, Open and Close, in the order posted.
    pub(crate) steps: VecDeque<Verb>,
}

impl Pipe {
    pub(crate) fn new(ours: u64) -> Pipe {
        Pipe {
            state: PipeState::Closed,
            life: 0,
            ours,
            theirs: 0,
            target_life: 0,
            ops: VecDeque::new(),
            next_serial: 0,
            sent_ns: 0,
            mute_until_ns: 0,
            cracked: false,
            armed_early: false,
            steps: VecDeque::new(),
        }
    }

    /// The outstanding verb with that serial number.
    pub(crate) fn op(&mut self, serial: u64) -> Option<&mut Op> {
        let first = self.ops.front()?.serial;
        self.ops.get_mut(usize::try_from(serial.checked_sub(first)?).ok()?)
    }
}

/// A WRITE or READ that has not completed.
#[derive(Debug)]
pub(crate) struct Op {
    pub(crate) serial: u64,
    /// Counts all verbs posted on the fabric.
    pub(crate) posted: u64,
    pub(crate) id: RequestId,
    pub(crate) shape: Shape,
    pub(crate) end: Option<Status>,
    /// Pieces that have not landed.
    pub(crate) pieces: u32,
    pub(crate) deadline_ns: u64,
    /// Of the source bytes when the WRITE was posted.
    pub(crate) fingerprint: u64,
    /// Lands in part and fails.
    pub(crate) doomed: bool,
}

/// What a WRITE or READ moves.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shape {
    Write {
        source: Written,
        from: u64,
        to: u64,
        len: u64,
    },
    Read {
        area: Readable,
        from: u64,
        to: u64,
        len: u64,
    },
    /// A word of the log area.
    Confirm {
        from: u64,
        to: u64,
    },
}

/// What a WRITE is made of, and where it goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Written {
    /// From there to the area of the queue pair's plane.
    Plane(Source),
    /// From a host's snapshot area to its acceptor's.
    Snapshot,
}

impl Written {
    pub(crate) fn area(self, home: &Home) -> &SimArea {
        match self {
            Written::Plane(Source::Staging) => &home.staging,
            Written::Plane(Source::Log) => &home.log,
            Written::Snapshot => &home.snapshot,
        }
    }
}

/// What a READ reads, and where it goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Readable {
    /// From the control area to the staging area.
    Control,
    /// From one snapshot area to the other.
    Snapshot,
    /// From an acceptor's control area to its host's.
    OwnLines,
    /// From an acceptor's log area to its host's.
    OwnLog,
}

impl Shape {
    /// The memory that the verb changes: whether it is remote, and where.
    pub(crate) fn overlaps(&self, other: &Shape) -> bool {
        match (*self, *other) {
            (
                Shape::Write { source: one, to: a, len: a_len, .. },
                Shape::Write { source: other, to: b, len: b_len, .. },
            ) => {
                let together = (one == Written::Snapshot) == (other == Written::Snapshot);
                together && a < b + b_len && b < a + a_len
            }
            (
                Shape::Read { area: one, to: a, len: a_len, .. },
                Shape::Read { area: other, to: b, len: b_len, .. },
            ) => one == other && a < b + b_len && b < a + a_len,
            _ => false,
        }
    }
}

/// A state of the end at a log area.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GateState {
    /// Down.
    Closed,
    /// Up, without write permission.
    Armed,
    /// With write permission.
    Granted,
    /// Permission is taken away, and pieces that had it may still land.
    Fencing,
    /// Up or not, an error has happened here: nothing passes.
    Error,
}

/// The acceptor's end of the log queue pair of one peer.
#[derive(Debug)]
pub(crate) struct Gate {
    pub(crate) state: GateState,
    pub(crate) epoch: Epoch,
    /// The number of this end, as the initiator must know it.
    pub(crate) ours: u64,
    /// The initiator's number that it was armed with.
    pub(crate) theirs: u64,
    /// Pieces that passed and have not landed.
    pub(crate) passed: u32,
    /// Arm, Grant and Fence, in the order posted; the first is being carried out.
    pub(crate) steps: VecDeque<Verb>,
    /// A fence has taken permission away and waits for what passed before.
    pub(crate) fence: Option<RequestId>,
}

impl Gate {
    pub(crate) fn new() -> Gate {
        Gate {
            state: GateState::Closed,
            epoch: Epoch(0),
            ours: 0,
            theirs: 0,
            passed: 0,
            steps: VecDeque::new(),
            fence: None,
        }
    }
}

/// A completion with nothing to say but its status.
pub(crate) fn done(id: RequestId, status: Status) -> Completion {
    Completion { id, status, value: 0 }
}
