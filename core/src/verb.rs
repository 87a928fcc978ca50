//! What the core asks of a fabric: plain data. The host posts it to a device, the simulator executes it, tests compare it.
//!
//! Between two nodes there are one control queue pair, used by both, and two log queue pairs, one a direction. The end at
//! the writer is the *initiator's*, the end at the log area the *acceptor's*. Per queue pair WRITEs and READs complete in
//! the order in which they were posted; after the first error everything behind it completes as [`Status::Flushed`],
//! until it is opened (log) or connected (control) again. Every verb that carries an id ends in exactly one
//! [`Completion`], however late; a fabric that stays silent is a fault the core lives with, not a licence.

use crate::types::{Epoch, NodeId};

/// Whose verb it is, which queue pair's which life it belongs to, and its number: what a work request's id carries.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RequestId {
    /// The peer at the other end.
    pub peer: NodeId,
    /// What is done.
    pub class: Class,
    /// Epoch of the log queue pair, or, for the control queue pair, the number of its connection.
    pub epoch: Epoch,
    /// Number within peer, class and epoch; 23 bits, wrapping.
    pub number: u32,
}

/// What a verb does, as far as its completion is concerned.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Class {
    /// [`Verb::Connect`].
    Connect = 0,
    /// READ of the peer's header.
    Header = 1,
    /// READ of the peer's progress line.
    Progress = 2,
    /// READ of the peer's configuration block.
    Config = 3,
    /// WRITE of this node's request line.
    Request = 4,
    /// WRITE of this node's answer line.
    Answer = 5,
    /// WRITE of entries.
    Entries = 6,
    /// WRITE of a beat.
    Beat = 7,
    /// [`Verb::Open`].
    Open = 8,
    /// [`Verb::Close`].
    Close = 9,
    /// [`Verb::Arm`].
    Arm = 10,
    /// [`Verb::Grant`].
    Grant = 11,
    /// [`Verb::Fence`].
    Fence = 12,
    /// READ of the peer's leader line.
    Leader = 13,
    /// [`Verb::Fetch`].
    Fetch = 14,
    /// [`Verb::Confirm`].
    Confirm = 15,
    /// WRITE of a host line to the own acceptor.
    Host = 16,
    /// WRITE of the leader line to the own acceptor.
    Line = 17,
    /// [`Verb::Pull`] of the own acceptor's lines.
    Lines = 18,
    /// [`Verb::Pull`] of the own acceptor's log.
    Pull = 19,
    /// [`Verb::Push`].
    Push = 20,
}

impl Class {
    const ALL: [Class; 21] = [
        Class::Connect,
        Class::Header,
        Class::Progress,
        Class::Config,
        Class::Request,
        Class::Answer,
        Class::Entries,
        Class::Beat,
        Class::Open,
        Class::Close,
        Class::Arm,
        Class::Grant,
        Class::Fence,
        Class::Leader,
        Class::Fetch,
        Class::Confirm,
        Class::Host,
        Class::Line,
        Class::Lines,
        Class::Pull,
        Class::Push,
    ];
}

/// Numbers wrap at 23 bits.
pub const NUMBER_MASK: u32 = 0x007f_ffff;

impl RequestId {
    /// The id as one word, for a work request: epoch in the high half, then number, class, peer.
    pub fn pack(self) -> u64 {
        u64::from(self.epoch.0) << 32
            | u64::from(self.number & NUMBER_MASK) << 9
            | (self.class as u64) << 4
            | u64::from(self.peer.0 & 15)
    }

    /// The id that [`RequestId::pack`] made this word of. Every word is one; a class that there is not is taken for a connection's.
    pub fn unpack(word: u64) -> RequestId {
        RequestId {
            peer: NodeId((word & 15) as u8),
            class: Class::ALL.get((word >> 4 & 31) as usize).copied().unwrap_or(Class::Connect),
            epoch: Epoch((word >> 32) as u32),
            number: (word >> 9) as u32 & NUMBER_MASK,
        }
    }
}

/// The two kinds of queue pairs, each with keys of its own.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Plane {
    /// READ and WRITE of the peer's control area.
    Control,
    /// WRITE of the peer's log area.
    Log,
}

/// Local memory that verbs read from.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Source {
    /// The staging area: lines being sent, and the staging ring.
    Staging,
    /// The node's own log area.
    Log,
}

/// What the core asks for. Offsets and lengths are in bytes and multiples of 8 (of 64 in the ring).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Verb {
    /// Find the peer and bring the control queue pair up; what was outstanding on a former one is drained first. The
    /// completion's value is the opaque number of the initiator's end of the log queue pair, which is closed.
    Connect {
        /// Its completion's id.
        id: RequestId,
    },
    /// WRITE `len` bytes from `source` at `from` to the peer's area of that plane at `to`. The bytes are read when they are
    /// sent, at any time until completion.
    Write {
        /// Its completion's id.
        id: RequestId,
        /// Which queue pair; also which remote area.
        plane: Plane,
        /// Local area.
        source: Source,
        /// Offset in the local area.
        from: u64,
        /// Offset in the remote area.
        to: u64,
        /// Bytes.
        len: u32,
    },
    /// READ `len` bytes of the peer's control area at `from` into the staging area at `to`, over the control queue pair.
    Read {
        /// Its completion's id.
        id: RequestId,
        /// Offset in the remote control area.
        from: u64,
        /// Offset in the local staging area.
        to: u64,
        /// Bytes.
        len: u32,
    },
    /// READ `len` bytes of the peer's snapshot area at `from` into the own snapshot area at `to`, over the control queue pair.
    Fetch {
        /// Its completion's id.
        id: RequestId,
        /// Offset in the remote snapshot area.
        from: u64,
        /// Offset in the local snapshot area.
        to: u64,
        /// Bytes.
        len: u32,
    },
    /// READ the word at `from` of the peer's log area into the staging area at `to`, over the log queue pair: when it is back, all
    /// bytes of the WRITEs posted before it there are placed.
    Confirm {
        /// Its completion's id.
        id: RequestId,
        /// Offset in the remote log area.
        from: u64,
        /// Offset in the local staging area.
        to: u64,
    },
    /// READ `len` bytes at `at` of the own acceptor's area of that plane into the same place of this proposer's area, over the control
    /// queue pair. Only where the two are apart (protocol.md 13).
    Pull {
        /// Its completion's id.
        id: RequestId,
        /// Which area.
        plane: Plane,
        /// Offset in both.
        at: u64,
        /// Bytes.
        len: u32,
    },
    /// WRITE `len` bytes at `at` of this proposer's snapshot area to the same place of the own acceptor's, over the control queue pair.
    /// Only where the two are apart.
    Push {
        /// Its completion's id.
        id: RequestId,
        /// Offset in both.
        at: u64,
        /// Bytes.
        len: u32,
    },
    /// Initiator: bring the own end of the log queue pair up, with the acceptor's numbers.
    Open {
        /// Its completion's id.
        id: RequestId,
        /// What the acceptor's [`Verb::Arm`] gave.
        numbers: u64,
    },
    /// Initiator: ERR, drain, RESET. When it completes, everything posted before on this log queue pair has completed and no
    /// byte of it is read or sent any more. The value is the opaque number of the end, as of [`Verb::Connect`].
    Close {
        /// Its completion's id.
        id: RequestId,
    },
    /// Acceptor: bring the own end of the peer's log queue pair to life, without write permission. The value is the opaque
    /// number the peer opens its end with.
    Arm {
        /// Its completion's id.
        id: RequestId,
        /// What the initiator's [`Verb::Connect`] or [`Verb::Close`] gave.
        numbers: u64,
    },
    /// Acceptor: add write permission. Verbs of one acceptor's end are carried out in the order posted.
    Grant {
        /// Its completion's id.
        id: RequestId,
    },
    /// Acceptor: when it completes, no write that came or comes over this queue pair lands any more.
    Fence {
        /// Its completion's id.
        id: RequestId,
    },
}

impl Verb {
    /// The id its completion carries.
    pub fn id(&self) -> RequestId {
        match *self {
            Verb::Connect { id }
            | Verb::Write { id, .. }
            | Verb::Read { id, .. }
            | Verb::Confirm { id, .. }
            | Verb::Fetch { id, .. }
            | Verb::Pull { id, .. }
            | Verb::Push { id, .. }
            | Verb::Open { id, .. }
            | Verb::Close { id }
            | Verb::Arm { id, .. }
            | Verb::Grant { id }
            | Verb::Fence { id } => id,
        }
    }
}

/// How a verb ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Status {
    /// Done; for a WRITE: every byte is placed.
    Success,
    /// Not executed: something before it on the same queue pair failed, or the queue pair is down.
    Flushed,
    /// The other end refused it (no permission).
    Refused,
    /// The other end does not answer, or is gone. A WRITE may have landed, whole or in part.
    Unreachable,
    /// Anything else; nothing may be assumed.
    Failed,
}

/// The end of a verb.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Completion {
    /// The verb's.
    pub id: RequestId,
    /// How it ended.
    pub status: Status,
    /// What [`Verb::Connect`], [`Verb::Close`] and [`Verb::Arm`] give; 0 otherwise.
    pub value: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_survives_its_word() {
        for class in Class::ALL {
            let id = RequestId { peer: NodeId(15), class, epoch: Epoch(0xdead_beef), number: 0x002b_cdef };
            assert_eq!(RequestId::unpack(id.pack()), id);
        }
    }
}
