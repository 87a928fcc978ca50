//! Who is in the group, and changing that.

use std::ffi::{c_char, c_void};
use std::time::Duration;

use ringleader::members::{Member, NewGroupError};
use ringleader::{Change, ChangeMembersError, Members};
use ringleader_acceptor::convert::{self, Sized32};
use ringleader_core::membership::ChangeError;

use crate::guard::{Failure, guard};
use crate::node::{find_to_wait, ringleader_node};
use crate::options::text;
use crate::status::{ringleader_status, ringleader_status as S};

/// Who is in a group, as a node knows it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ringleader_members {
    /// `sizeof(ringleader_members)`.
    pub size: u32,
    /// Members below.
    pub count: u32,
    /// Index of the entry that said so; 0 when the group was formed like this.
    pub index: u64,
    /// Its term.
    pub term: u64,
    /// Index of the newest such entry that is known committed here.
    pub committed_index: u64,
    /// Its term.
    pub committed_term: u64,
    /// The members, by id.
    pub members: [ringleader_member; 15],
}

/// One of them.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ringleader_member {
    /// The node.
    pub node: u32,
    /// `RINGLEADER_MEMBER_…`.
    pub role: u32,
    /// The life that is meant.
    pub incarnation: u64,
    /// 1: it came back as another life, without its memory.
    pub lost_memory: u32,
    /// 0.
    pub reserved: u32,
    /// Where it is found, a text; empty on shared memory.
    pub address: [c_char; 56],
}

/// It votes.
pub const RINGLEADER_MEMBER_VOTER: u32 = 0;
/// It gets the log, and does not vote.
pub const RINGLEADER_MEMBER_LEARNER: u32 = 1;
/// A learner that becomes a voter by itself.
pub const RINGLEADER_MEMBER_RETURNING: u32 = 2;

/// A fresh node becomes a learner.
pub const RINGLEADER_CHANGE_ADD: u32 = 0;
/// A learner that has caught up becomes a voter.
pub const RINGLEADER_CHANGE_PROMOTE: u32 = 1;
/// A member is none any more, in this life.
pub const RINGLEADER_CHANGE_REMOVE: u32 = 2;
/// A member that lost its memory becomes a learner, and a voter by itself once it has caught up, if it was one.
pub const RINGLEADER_CHANGE_READMIT: u32 = 3;

// SAFETY: `repr(C)`, integers alone, the size first, a multiple of 8 bytes.
unsafe impl Sized32 for ringleader_members {
    const FIRST: usize = size_of::<ringleader_members>();
}

const NONE: ringleader_member =
    ringleader_member { node: 0, role: 0, incarnation: 0, lost_memory: 0, reserved: 0, address: [0; 56] };

fn member(member: &Member) -> ringleader_member {
    let mut address = [0; 56];
    // The last one stays zero: an address has at most 48 bytes.
    for (to, byte) in address[..55].iter_mut().zip(member.address.bytes()) {
        *to = byte as c_char;
    }
    ringleader_member {
        node: u32::from(member.node),
        role: match member.role.as_str() {
            "voter" => RINGLEADER_MEMBER_VOTER,
            "returning" => RINGLEADER_MEMBER_RETURNING,
            _ => RINGLEADER_MEMBER_LEARNER,
        },
        incarnation: u64::from_str_radix(&member.incarnation, 16).unwrap_or(0),
        lost_memory: u32::from(member.lost_memory),
        address,
        ..NONE
    }
}

fn members(of: &Members) -> ringleader_members {
    let mut all = [NONE; 15];
    all.iter_mut().zip(&of.members).for_each(|(to, from)| *to = member(from));
    ringleader_members {
        size: 0,
        count: of.members.len().min(15) as u32,
        index: of.index,
        term: of.term,
        committed_index: of.committed_index,
        committed_term: of.committed_term,
        members: all,
    }
}

fn failed(error: ChangeMembersError) -> Failure {
    let status = match error {
        ChangeMembersError::Address => S::RINGLEADER_ADDRESS,
        ChangeMembersError::Unknown => S::RINGLEADER_UNKNOWN,
        ChangeMembersError::Timeout => S::RINGLEADER_TIMEOUT,
        ChangeMembersError::Refused(why) => match why {
            ChangeError::NotLeader { .. } => S::RINGLEADER_NOT_LEADER,
            ChangeError::TooEarly => S::RINGLEADER_TOO_EARLY,
            ChangeError::Full => S::RINGLEADER_FULL,
            ChangeError::Node => S::RINGLEADER_NO_SUCH_NODE,
            ChangeError::Member => S::RINGLEADER_MEMBER,
            ChangeError::NotMember => S::RINGLEADER_NOT_MEMBER,
            ChangeError::Voter => S::RINGLEADER_VOTER,
            ChangeError::NotConnected => S::RINGLEADER_NOT_CONNECTED,
            ChangeError::LostMemory => S::RINGLEADER_LOST_MEMORY,
            ChangeError::RemovedLife => S::RINGLEADER_REMOVED_LIFE,
            ChangeError::SameLife => S::RINGLEADER_SAME_LIFE,
            ChangeError::NotCaughtUp { .. } => S::RINGLEADER_NOT_CAUGHT_UP,
            ChangeError::LastVoter => S::RINGLEADER_LAST_VOTER,
            ChangeError::WouldStop { .. } => S::RINGLEADER_WOULD_STOP,
            _ => S::RINGLEADER_BUSY,
        },
        _ => S::RINGLEADER_CLOSED,
    };
    Failure::new(status, error)
}

/// Who is in the group. Waits for the next turn of the node.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringleader_list_members(
    node: *mut ringleader_node,
    out: *mut ringleader_members,
) -> ringleader_status {
    guard(|| {
        // SAFETY: by the conventions.
        let (kept, out) = unsafe { (find_to_wait(node)?, convert::growing(out)?) };
        out.set(members(&kept.node.members().map_err(failed)?));
        Ok(())
    })
}

/// Changes the members, by the node that leads, and waits until that is committed: `change` is one of `RINGLEADER_CHANGE_…`, `id` the node it
/// is about. What cannot be yet is tried again until the time is over. `address` is where an added node is found, `host:port`; NULL on
/// shared memory, and for all else.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringleader_change_members(
    node: *mut ringleader_node,
    change: u32,
    id: u32,
    address: *const c_char,
    timeout_ns: u64,
) -> ringleader_status {
    guard(|| {
        let kept = find_to_wait(node)?;
        let node = u8::try_from(id).map_err(|_| S::RINGLEADER_NO_SUCH_NODE)?;
        // SAFETY: by the conventions.
        let address = unsafe { text(address) }.map(|address| address.to_string_lossy().into_owned());
        let change = match change {
            RINGLEADER_CHANGE_ADD => Change::Add { node, address: address.unwrap_or_default() },
            RINGLEADER_CHANGE_PROMOTE => Change::Promote { node },
            RINGLEADER_CHANGE_REMOVE => Change::Remove { node },
            RINGLEADER_CHANGE_READMIT => Change::Readmit { node },
            _ => return Err(S::RINGLEADER_OPTION.into()),
        };
        kept.node.change_members(&change, Duration::from_nanos(timeout_ns)).map_err(failed)
    })
}

/// Makes a new group of this node alone and the log as it stands here: for when a majority of the voters is gone for good. Entries that
/// only they held are lost, though they may have been acknowledged. `look_only` not 0: only says whether that could be. Waits for the next
/// turn of the node.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringleader_force_new_group(
    node: *mut ringleader_node,
    look_only: u32,
) -> ringleader_status {
    guard(|| {
        let kept = find_to_wait(node)?;
        let made = if look_only == 0 { kept.node.force_new_group() } else { kept.node.may_force_new_group() };
        made.map_err(|error| {
            let status = match error {
                NewGroupError::NotFormed => S::RINGLEADER_NOT_FORMED,
                NewGroupError::LeaderAlive(_) => S::RINGLEADER_LEADER_ALIVE,
                NewGroupError::MajorityAlive(..) => S::RINGLEADER_MAJORITY_ALIVE,
                _ => S::RINGLEADER_CLOSED,
            };
            Failure::new(status, error)
        })
    })
}

// A size that C may rely on, where `char` has a sign and where it has none.
const _: () = assert!(size_of::<c_char>() == 1 && size_of::<*const c_void>() == 8, "64-bit machines alone");
