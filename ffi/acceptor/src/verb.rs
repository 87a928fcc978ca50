//! What the core asks of a fabric, and how that ends, as C has it.

use ringleader_core::verb::{Completion, Plane, RequestId, Source, Status, Verb};

use crate::convert::Sized32;
use crate::status::ringleader_status as S;

/// What a core asks for. Offsets and lengths are in bytes and multiples of 8. Each ends in exactly one completion with its `id`,
/// however late. Between two nodes there are one control queue pair, used by both, and two log queue pairs, one a direction; on a queue
/// pair WRITEs and READs complete in the order in which they were posted, and after an error all end with `RINGLEADER_DONE_FLUSHED`
/// until it is opened (log) or connected (control) again.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct ringleader_verb {
    /// `sizeof(ringleader_verb)`.
    pub size: u32,
    /// `RINGLEADER_VERB_…`.
    pub kind: u32,
    /// To which node.
    pub peer: u32,
    /// Of a WRITE: `RINGLEADER_PLANE_…`, which queue pair and which area of the peer.
    pub plane: u32,
    /// Of a WRITE: `RINGLEADER_FROM_…`, which own area.
    pub source: u32,
    /// Bytes of a WRITE, READ or FETCH.
    pub len: u32,
    /// What its completion bears.
    pub id: u64,
    /// Offset that is read from.
    pub from: u64,
    /// Offset that is written to.
    pub to: u64,
    /// Of an OPEN or ARM: what the other end's verb gave in its completion's `value`.
    pub numbers: u64,
}

/// Find the peer, and bring the control queue pair up; what was outstanding on a former one is drained first. The completion's value is
/// a number for the initiator's end of the log queue pair, which is closed.
pub const RINGLEADER_VERB_CONNECT: u32 = 1;
/// WRITE `len` bytes of the own area `source` at `from` to the peer's area of `plane` at `to`. The bytes are read when they are sent.
pub const RINGLEADER_VERB_WRITE: u32 = 2;
/// READ `len` bytes of the peer's control area at `from` into the staging area at `to`, over the control queue pair.
pub const RINGLEADER_VERB_READ: u32 = 3;
/// READ `len` bytes of the peer's snapshot area at `from` into the own one at `to`, over the control queue pair.
pub const RINGLEADER_VERB_FETCH: u32 = 4;
/// READ the word of the peer's log area at `from` into the staging area at `to`, over the log queue pair: when it is back, all bytes of
/// the WRITEs posted there before it are placed.
pub const RINGLEADER_VERB_CONFIRM: u32 = 5;
/// Initiator: bring the own end of the log queue pair up, with the acceptor's `numbers`.
pub const RINGLEADER_VERB_OPEN: u32 = 6;
/// Initiator: take the own end down. When it completes, all that was posted before has completed, and no byte of it is read or sent any
/// more. The completion's value is a new number, as of a CONNECT.
pub const RINGLEADER_VERB_CLOSE: u32 = 7;
/// Acceptor: bring the own end of the peer's log queue pair to life, without permission to write, with the initiator's `numbers`. The
/// completion's value is the number that the initiator opens its end with.
pub const RINGLEADER_VERB_ARM: u32 = 8;
/// Acceptor: add permission to write.
pub const RINGLEADER_VERB_GRANT: u32 = 9;
/// Acceptor: when it completes, no write that came or comes over this queue pair lands any more.
pub const RINGLEADER_VERB_FENCE: u32 = 10;

/// The control queue pair, and the peer's control area.
pub const RINGLEADER_PLANE_CONTROL: u32 = 0;
/// The own log queue pair, and the peer's log area.
pub const RINGLEADER_PLANE_LOG: u32 = 1;

/// The own staging area.
pub const RINGLEADER_FROM_STAGING: u32 = 0;
/// The own log area.
pub const RINGLEADER_FROM_LOG: u32 = 1;

/// Done; of a WRITE: every byte is placed.
pub const RINGLEADER_DONE: u32 = 0;
/// Not carried out: something before it on the same queue pair failed, or the queue pair is down.
pub const RINGLEADER_DONE_FLUSHED: u32 = 1;
/// The other end refused it.
pub const RINGLEADER_DONE_REFUSED: u32 = 2;
/// The other end does not answer, or is gone. A WRITE may have landed, whole or in part.
pub const RINGLEADER_DONE_UNREACHABLE: u32 = 3;
/// Anything else; nothing may be assumed.
pub const RINGLEADER_DONE_FAILED: u32 = 4;

/// The end of a verb.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ringleader_completion {
    /// `sizeof(ringleader_completion)`.
    pub size: u32,
    /// `RINGLEADER_DONE`, or `RINGLEADER_DONE_…`.
    pub status: u32,
    /// The verb's.
    pub id: u64,
    /// What CONNECT, CLOSE and ARM give; 0 of the others.
    pub value: u64,
}

// SAFETY: `repr(C)`, integers alone, the size first, a multiple of 8 bytes.
unsafe impl Sized32 for ringleader_verb {
    const FIRST: usize = size_of::<ringleader_verb>();
}

// SAFETY: as above.
unsafe impl Sized32 for ringleader_completion {
    const FIRST: usize = size_of::<ringleader_completion>();
}

impl ringleader_verb {
    /// As C has it.
    pub fn of(verb: &Verb) -> ringleader_verb {
        let id = verb.id();
        let size = size_of::<ringleader_verb>() as u32;
        let none = ringleader_verb { size, id: id.pack(), peer: u32::from(id.peer.0), ..Default::default() };
        let kind = |kind| ringleader_verb { kind, ..none };
        match *verb {
            Verb::Connect { .. } => kind(RINGLEADER_VERB_CONNECT),
            Verb::Write { id: _, plane, source, from, to, len } => ringleader_verb {
                plane: match plane {
                    Plane::Control => RINGLEADER_PLANE_CONTROL,
                    Plane::Log => RINGLEADER_PLANE_LOG,
                },
                source: match source {
                    Source::Staging => RINGLEADER_FROM_STAGING,
                    Source::Log => RINGLEADER_FROM_LOG,
                },
                from,
                to,
                len,
                ..kind(RINGLEADER_VERB_WRITE)
            },
            Verb::Read { id: _, from, to, len } => {
                ringleader_verb { from, to, len, ..kind(RINGLEADER_VERB_READ) }
            }
            Verb::Fetch { id: _, from, to, len } => {
                ringleader_verb { from, to, len, ..kind(RINGLEADER_VERB_FETCH) }
            }
            Verb::Confirm { id: _, from, to } => {
                ringleader_verb { from, to, len: 8, ..kind(RINGLEADER_VERB_CONFIRM) }
            }
            // Cores through C are whole, and have no acceptor elsewhere.
            Verb::Pull { .. } | Verb::Push { .. } => none,
            Verb::Open { id: _, numbers } => ringleader_verb { numbers, ..kind(RINGLEADER_VERB_OPEN) },
            Verb::Close { .. } => kind(RINGLEADER_VERB_CLOSE),
            Verb::Arm { id: _, numbers } => ringleader_verb { numbers, ..kind(RINGLEADER_VERB_ARM) },
            Verb::Grant { .. } => kind(RINGLEADER_VERB_GRANT),
            Verb::Fence { .. } => kind(RINGLEADER_VERB_FENCE),
        }
    }
}

impl ringleader_completion {
    /// As the core has it; a number that is none is refused.
    pub fn core(&self) -> Result<Completion, S> {
        let id = RequestId::unpack(self.id);
        if !id.peer.is_valid() {
            return Err(S::RINGLEADER_OPTION);
        }
        let all = [Status::Success, Status::Flushed, Status::Refused, Status::Unreachable, Status::Failed];
        Ok(Completion { id, status: crate::convert::one_of(self.status, &all)?, value: self.value })
    }
}
