//! What the core tells, as C has it.

use ringleader_core::event::{Event, GiveUp};
use ringleader_core::read::{Read, ReadFailure};

use crate::convert::Sized32;
use crate::status::ringleader_status as S;

/// Something that happened at a node. Which members say something stands with each kind, `RINGLEADER_EVENT_…`; the others are 0.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct ringleader_event {
    /// `sizeof(ringleader_event)`.
    pub size: u32,
    /// `RINGLEADER_EVENT_…`; kinds of later versions may come.
    pub kind: u32,
    /// When it was seen, in nanoseconds of `CLOCK_BOOTTIME`; of a core, when it was asked for.
    pub at_ns: u64,
    /// A node.
    pub node: u32,
    /// Why, or how: stands with the kind.
    pub detail: u32,
    /// A term.
    pub term: u64,
    /// An index.
    pub index: u64,
    /// A position in the log stream.
    pub position: u64,
    /// A number, or a count.
    pub number: u64,
    /// Low half of a group's id.
    pub group_low: u64,
    /// High half of it.
    pub group_high: u64,
}

/// Of a later version.
pub const RINGLEADER_EVENT_OTHER: u32 = 0;
/// This node is in a group: `group_low`, `group_high`.
pub const RINGLEADER_EVENT_FORMED: u32 = 1;
/// A node refused to be part of the group that this one was told to form.
pub const RINGLEADER_EVENT_FORM_REFUSED: u32 = 2;
/// Another promise is in force here: `term`, of `node`.
pub const RINGLEADER_EVENT_PROMISED: u32 = 3;
/// The leader of that promise is silent and could not be excused: `term`, `node`.
pub const RINGLEADER_EVENT_QUIET: u32 = 4;
/// This node asks for votes in `term`.
pub const RINGLEADER_EVENT_CAMPAIGN: u32 = 5;
/// A fence ended that a vote or an access of `node` waited for.
pub const RINGLEADER_EVENT_FENCED: u32 = 6;
/// This node leads in `term`.
pub const RINGLEADER_EVENT_ELECTED: u32 = 7;
/// Everything up to `index`, whose end is `position`, is committed by this node as leader of `term`.
pub const RINGLEADER_EVENT_COMMITTED: u32 = 8;
/// Reads of kind `detail` are to be answered, all up to `number`. Of a core; a node has readers.
pub const RINGLEADER_EVENT_READ_READY: u32 = 9;
/// Reads of kind `detail` end without an answer, all up to `number`. Of a core, too.
pub const RINGLEADER_EVENT_READ_FAILED: u32 = 10;
/// `node` was not elected in time, to which the lead was to be handed over: this one leads on.
pub const RINGLEADER_EVENT_TRANSFER_FAILED: u32 = 11;
/// This node does not lead any more in `term`: what it proposed and was not reported committed is unknown. `detail`: 1 its own acceptor
/// promised another, 2 another acceptor did, 3 no majority was reached in time, 4 it was told to, 5 it is no member any more.
pub const RINGLEADER_EVENT_GAVE_UP: u32 = 12;
/// Follower `node` is below what can be served from the ring: it needs a snapshot.
pub const RINGLEADER_EVENT_BEHIND: u32 = 13;
/// `node` came back without its memory, and is kept out.
pub const RINGLEADER_EVENT_FORGETFUL: u32 = 14;
/// Another configuration is in force here, of the entry at `index`.
pub const RINGLEADER_EVENT_MEMBERS: u32 = 15;
/// This node is no member of its group any more, since the configuration at `index`.
pub const RINGLEADER_EVENT_REMOVED: u32 = 16;
/// `number` of `position` voters came back without their memory, and the others are no majority: the group has stopped.
pub const RINGLEADER_EVENT_MAJORITY_LOST: u32 = 17;
/// A new group was made of this node: `group_low`, `group_high`.
pub const RINGLEADER_EVENT_NEW_GROUP: u32 = 18;
/// The application is to write its state, snapshot `number`.
pub const RINGLEADER_EVENT_SAVE_SNAPSHOT: u32 = 19;
/// The application is to become what the `position` bytes of snapshot `number` say.
pub const RINGLEADER_EVENT_LOAD_SNAPSHOT: u32 = 20;
/// The log cannot be applied any further, at `position`.
pub const RINGLEADER_EVENT_STUCK: u32 = 21;
/// `node` could not be fenced in time, and only the end of this process is a fence: a node of the library ends it by itself, who
/// embeds a core has to, or has to reset whatever that node writes by.
pub const RINGLEADER_EVENT_ABORT: u32 = 22;

// SAFETY: `repr(C)`, integers alone, the size first, a multiple of 8 bytes.
unsafe impl Sized32 for ringleader_event {
    const FIRST: usize = size_of::<ringleader_event>();
}

impl ringleader_event {
    /// As C has it.
    pub fn of(at_ns: u64, event: &Event) -> ringleader_event {
        let size = size_of::<ringleader_event>() as u32;
        let none = ringleader_event { size, at_ns, ..ringleader_event::default() };
        let kind = |kind| ringleader_event { kind, ..none };
        match *event {
            Event::Formed { group } => of_group(kind(RINGLEADER_EVENT_FORMED), group),
            Event::FormRefused => kind(RINGLEADER_EVENT_FORM_REFUSED),
            Event::Promised { promise } => ringleader_event {
                term: promise.term().0,
                node: u32::from(promise.node().0),
                ..kind(RINGLEADER_EVENT_PROMISED)
            },
            Event::Quiet { promise } => ringleader_event {
                term: promise.term().0,
                node: u32::from(promise.node().0),
                ..kind(RINGLEADER_EVENT_QUIET)
            },
            Event::Campaign { term } => ringleader_event { term: term.0, ..kind(RINGLEADER_EVENT_CAMPAIGN) },
            Event::Fenced { by } => {
                ringleader_event { node: u32::from(by.0), ..kind(RINGLEADER_EVENT_FENCED) }
            }
            Event::Elected { term } => ringleader_event { term: term.0, ..kind(RINGLEADER_EVENT_ELECTED) },
            Event::Committed { term, index, position } => ringleader_event {
                term: term.0,
                index: index.0,
                position: position.0,
                ..kind(RINGLEADER_EVENT_COMMITTED)
            },
            Event::ReadReady { how, number } => {
                ringleader_event { number, detail: how_number(how), ..kind(RINGLEADER_EVENT_READ_READY) }
            }
            Event::ReadFailed { how, number, why: _ } => {
                ringleader_event { number, detail: how_number(how), ..kind(RINGLEADER_EVENT_READ_FAILED) }
            }
            Event::TransferFailed { to } => {
                ringleader_event { node: u32::from(to.0), ..kind(RINGLEADER_EVENT_TRANSFER_FAILED) }
            }
            Event::GaveUp { term, reason } => ringleader_event {
                term: term.0,
                detail: match reason {
                    GiveUp::OwnAcceptor => 1,
                    GiveUp::HigherPromise => 2,
                    GiveUp::QuorumLost => 3,
                    GiveUp::Asked => 4,
                    GiveUp::Removed => 5,
                    _ => 0,
                },
                ..kind(RINGLEADER_EVENT_GAVE_UP)
            },
            Event::Behind { node } => {
                ringleader_event { node: u32::from(node.0), ..kind(RINGLEADER_EVENT_BEHIND) }
            }
            Event::Forgetful { node } => {
                ringleader_event { node: u32::from(node.0), ..kind(RINGLEADER_EVENT_FORGETFUL) }
            }
            Event::Members { index } => ringleader_event { index: index.0, ..kind(RINGLEADER_EVENT_MEMBERS) },
            Event::Removed { index } => ringleader_event { index: index.0, ..kind(RINGLEADER_EVENT_REMOVED) },
            Event::MajorityLost { lost, voters } => ringleader_event {
                number: lost as u64,
                position: voters as u64,
                ..kind(RINGLEADER_EVENT_MAJORITY_LOST)
            },
            Event::NewGroup { group } => of_group(kind(RINGLEADER_EVENT_NEW_GROUP), group),
            Event::SaveSnapshot { number } => {
                ringleader_event { number: u64::from(number), ..kind(RINGLEADER_EVENT_SAVE_SNAPSHOT) }
            }
            Event::LoadSnapshot { number, len } => ringleader_event {
                number: u64::from(number),
                position: len,
                ..kind(RINGLEADER_EVENT_LOAD_SNAPSHOT)
            },
            Event::Stuck { position } => {
                ringleader_event { position: position.0, ..kind(RINGLEADER_EVENT_STUCK) }
            }
            Event::Abort { writer } => {
                ringleader_event { node: u32::from(writer.0), ..kind(RINGLEADER_EVENT_ABORT) }
            }
            _ => kind(RINGLEADER_EVENT_OTHER),
        }
    }
}

fn of_group(event: ringleader_event, group: u128) -> ringleader_event {
    ringleader_event { group_low: group as u64, group_high: (group >> 64) as u64, ..event }
}

/// By the leader: it READs the promises of a majority. Needs no clock.
pub const RINGLEADER_READ_QUORUM: u32 = 0;
/// By any node, and without the leader's processor. Needs no clock.
pub const RINGLEADER_READ_FOLLOWER: u32 = 1;
/// By the leader, without a READ. Hangs on clocks, and must be allowed by an option.
pub const RINGLEADER_READ_LEASE: u32 = 2;

fn how_number(how: Read) -> u32 {
    match how {
        Read::Quorum => RINGLEADER_READ_QUORUM,
        Read::Follower => RINGLEADER_READ_FOLLOWER,
        Read::Lease => RINGLEADER_READ_LEASE,
    }
}

/// The read of a number of C.
pub fn how(number: u32) -> Result<Read, S> {
    match number {
        RINGLEADER_READ_QUORUM => Ok(Read::Quorum),
        RINGLEADER_READ_FOLLOWER => Ok(Read::Follower),
        RINGLEADER_READ_LEASE => Ok(Read::Lease),
        _ => Err(S::RINGLEADER_OPTION),
    }
}

/// The status of a read that ended without an answer.
pub fn failed_read(why: ReadFailure) -> S {
    match why {
        ReadFailure::NoLeader => S::RINGLEADER_NO_LEADER,
        ReadFailure::NoMajority => S::RINGLEADER_NO_MAJORITY,
        ReadFailure::NotApplied => S::RINGLEADER_NOT_APPLIED,
        _ => S::RINGLEADER_LOST_LEAD,
    }
}

/// A committed entry. Its payload lies in the log itself, and stays there until the callback returns.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ringleader_entry {
    /// Its number in the log; grows, not always by one.
    pub index: u64,
    /// The term of the leader that made it.
    pub term: u64,
    /// Where it stands in the log stream.
    pub position: u64,
    /// What was proposed.
    pub payload: *const u8,
    /// Bytes of it.
    pub len: usize,
}

/// Takes a committed entry; 0, or anything else when the application cannot go on.
pub type ringleader_apply_callback = Option<
    unsafe extern "C" fn(context: *mut core::ffi::c_void, entry: *const ringleader_entry) -> core::ffi::c_int,
>;

impl ringleader_entry {
    /// As C has it.
    pub fn of(entry: &ringleader_core::replica::Entry<'_>) -> ringleader_entry {
        ringleader_entry {
            index: entry.index.0,
            term: entry.term.0,
            position: entry.position.0,
            payload: entry.payload.as_ptr(),
            len: entry.payload.len(),
        }
    }
}
