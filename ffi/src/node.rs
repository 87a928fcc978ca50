//! Nodes: opening, forming, looking, closing.

use std::ffi::c_char;
use std::time::Duration;

use ringleader::{CatchUp, CloseError, FollowerState, FormError, Node, Options, Role, Status, TransferError};
use ringleader_acceptor::convert::{self, Sized32};
use ringleader_acceptor::event::ringleader_event;
use ringleader_acceptor::object::{
    RINGLEADER_ROLE_CANDIDATE, RINGLEADER_ROLE_FOLLOWER, RINGLEADER_ROLE_LEADER,
};

use crate::agent::{AGENTS, Loop, ringleader_agent};
use crate::application::{Application, ringleader_application};
use crate::guard::{Failure, guard, may_wait};
use crate::options::{failed_open, of_file, of_struct, readmit, ringleader_options};
use crate::status::{ringleader_status, ringleader_status as S};
use crate::table::{Shared, Table, handle, pointer};

/// One replica: its memory, and what gives it its turns.
pub struct ringleader_node {
    _opaque: [u8; 0],
}

/// A node as this library keeps it.
pub(crate) struct Kept {
    pub(crate) node: Node,
    /// Of a node that somebody polls.
    pub(crate) polled: Option<Loop>,
}

pub(crate) static NODES: Table<Kept> = Table::new(3);

/// Nobody, or not known.
pub const RINGLEADER_NOBODY: u32 = 0;

/// The most nodes that there can be in a group.
pub const RINGLEADER_MAX_NODES: u32 = 15;

/// A snapshot of a node. It was all true at one moment, some tens of microseconds ago at the most.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct ringleader_node_status {
    /// `sizeof(ringleader_node_status)`.
    pub size: u32,
    /// This node.
    pub node: u32,
    /// 1: it is in a group.
    pub formed: u32,
    /// `RINGLEADER_ROLE_…`.
    pub role: u32,
    /// The leader it follows, itself when it leads; 0: it knows none.
    pub leader: u32,
    /// 1: its agent has ended, because it was told to or because the application failed.
    pub closed: u32,
    /// 1: it was a member of its group, and is none any more.
    pub removed: u32,
    /// How many members vote.
    pub voters: u32,
    /// How many of them came back without their memory.
    pub lost: u32,
    /// Whose state this node takes, because it has fallen too far behind; 0: none.
    pub taking_from: u32,
    /// 1: that is being loaded.
    pub loading: u32,
    /// Followers below, when this node leads.
    pub follower_count: u32,
    /// Low half of the group's id.
    pub group_low: u64,
    /// High half.
    pub group_high: u64,
    /// The term of its promise.
    pub term: u64,
    /// Index of the last entry known committed here.
    pub commit_index: u64,
    /// Its end.
    pub commit_position: u64,
    /// Index of the last entry that was applied, or passed over because it is not the application's.
    pub applied_index: u64,
    /// Its end.
    pub applied_position: u64,
    /// End of the log as far as it was walked here.
    pub end_position: u64,
    /// How often another node refused to form a group with this one.
    pub form_refusals: u64,
    /// How often the lead was to be handed over, and was not.
    pub transfer_failures: u64,
    /// Events that nobody took in time.
    pub events_dropped: u64,
    /// Former writers that were stopped in the middle of a copy and had to be killed.
    pub shots: u64,
    /// Bytes of the state it takes that are here.
    pub taking_fetched: u64,
    /// Of so many; 0 before it is known.
    pub taking_len: u64,
    /// The followers, by node.
    pub followers: [ringleader_follower; 15],
}

/// One follower, as its leader sees it.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct ringleader_follower {
    /// The follower.
    pub node: u32,
    /// `RINGLEADER_FOLLOWER_…`.
    pub state: u32,
    /// 1: it counts for a commit now.
    pub counts: u32,
    /// `RINGLEADER_CATCH_UP_…`.
    pub catch_up: u32,
    /// Whose state it takes, or is to take; 0: nobody's.
    pub catch_up_source: u32,
    /// 0.
    pub reserved: u32,
    /// Up to here its bytes are known to equal the leader's.
    pub matched_position: u64,
    /// Up to here it has applied, as last read.
    pub applied_position: u64,
    /// Bytes of that state that it has.
    pub fetched: u64,
    /// Of so many.
    pub fetch_len: u64,
}

/// Not connected.
pub const RINGLEADER_FOLLOWER_DOWN: u32 = 0;
/// Asked for write access, or being prepared for.
pub const RINGLEADER_FOLLOWER_ASKING: u32 = 1;
/// Being written to.
pub const RINGLEADER_FOLLOWER_WINDOW: u32 = 2;
/// A write failed; being asked anew.
pub const RINGLEADER_FOLLOWER_BROKEN: u32 = 3;
/// Too far behind to be served from the ring.
pub const RINGLEADER_FOLLOWER_BEHIND: u32 = 4;

/// Nothing is done about it, and nothing has to be.
pub const RINGLEADER_CATCH_UP_NONE: u32 = 0;
/// Nothing now: it is not connected, or the next attempt is due in a moment.
pub const RINGLEADER_CATCH_UP_WAITING: u32 = 1;
/// A node saves its state for it.
pub const RINGLEADER_CATCH_UP_SAVING: u32 = 2;
/// It takes that.
pub const RINGLEADER_CATCH_UP_TAKING: u32 = 3;
/// No node can save its state.
pub const RINGLEADER_CATCH_UP_NO_SOURCE: u32 = 4;
/// It cannot take one.
pub const RINGLEADER_CATCH_UP_UNABLE: u32 = 5;

/// What a node has done since it was opened: numbers that only grow.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct ringleader_metrics {
    /// `sizeof(ringleader_metrics)`.
    pub size: u32,
    /// 0.
    pub reserved: u32,
    /// Turns of the agent.
    pub turns: u64,
    /// Proposals that became entries of this node's log, as leader.
    pub proposed: u64,
    /// Those of them that were reported committed.
    pub committed: u64,
    /// Those of them whose outcome was reported unknown, because the lead was lost.
    pub unknown: u64,
    /// Entries that the application was handed.
    pub applied: u64,
    /// Bytes of their payloads.
    pub applied_bytes: u64,
    /// Reads that ended with the word to look now.
    pub reads: u64,
    /// Reads that were begun and ended without.
    pub reads_failed: u64,
    /// Elections that this node stood in.
    pub campaigns: u64,
    /// Those that it won.
    pub elected: u64,
    /// How often it gave up the lead, or was deposed.
    pub gave_up: u64,
    /// States that were saved for others.
    pub saved: u64,
    /// States of others that were loaded.
    pub loaded: u64,
    /// Verbs posted to the fabric.
    pub verbs: u64,
    /// Those that ended otherwise than well.
    pub verbs_failed: u64,
}

// SAFETY: `repr(C)`, integers alone, the size first, a multiple of 8 bytes.
unsafe impl Sized32 for ringleader_node_status {
    const FIRST: usize = size_of::<ringleader_node_status>();
}

// SAFETY: as above.
unsafe impl Sized32 for ringleader_metrics {
    const FIRST: usize = size_of::<ringleader_metrics>();
}

/// Opens a node: makes its memory, and gives it turns by `agent`, or by a thread of its own when that is NULL. It waits for
/// `ringleader_form`, on this node or another one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringleader_open(
    agent: *mut ringleader_agent,
    options: *const ringleader_options,
    application: *const ringleader_application,
    out: *mut *mut ringleader_node,
) -> ringleader_status {
    // SAFETY: by the conventions.
    guard(|| unsafe { open(agent, application, out, || of_struct(options)) })
}

/// The same by a configuration file (docs/operating.md), as node `node`; 0: as the node that the file names.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringleader_open_file(
    agent: *mut ringleader_agent,
    file: *const c_char,
    node: u32,
    application: *const ringleader_application,
    out: *mut *mut ringleader_node,
) -> ringleader_status {
    // SAFETY: by the conventions.
    guard(|| unsafe { open(agent, application, out, || of_file(file, node)) })
}

unsafe fn open(
    agent: *mut ringleader_agent,
    application: *const ringleader_application,
    out: *mut *mut ringleader_node,
    options: impl FnOnce() -> Result<Options, Failure>,
) -> Result<(), Failure> {
    // SAFETY: by the conventions.
    let (out, (machine, opened)) = unsafe { (convert::output(out)?, Application::new(application)?) };
    let on = if agent.is_null() { None } else { Some(AGENTS.share(handle(agent))?) };
    // Opening may wait: for a node that could not be kept, and ends again.
    may_wait()?;
    let polled = on.as_ref().and_then(|agent| agent.polled.clone());
    if let Some(polled) = &polled {
        polled.check()?;
    }
    let options = options()?;
    let node = match &on {
        Some(agent) => Node::open_on(&agent.thread, options, machine),
        None => Node::open(options, machine),
    };
    let node = node.map_err(|error| failed_open(&error))?;
    let kept = NODES.put(Kept { node, polled })?;
    opened.tell();
    out.set(pointer(kept));
    Ok(())
}

/// A node, for a call that does not wait.
pub(crate) fn find(node: *mut ringleader_node) -> Result<Shared<'static, Kept>, S> {
    NODES.share(handle(node))
}

/// A node, for a call that waits.
pub(crate) fn find_to_wait(node: *mut ringleader_node) -> Result<Shared<'static, Kept>, S> {
    let kept = find(node)?;
    may_wait()?;
    if let Some(polled) = &kept.polled {
        polled.check()?;
    }
    Ok(kept)
}

/// Forms the group of all founders: on one node, once. Waits until this node is in it; the others follow. After `RINGLEADER_TIMEOUT` it
/// goes on all the same: 0 begins it, and `formed` in the status tells.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringleader_form(node: *mut ringleader_node, timeout_ns: u64) -> ringleader_status {
    guard(|| {
        let kept = find_to_wait(node)?;
        kept.node.form(Duration::from_nanos(timeout_ns)).map_err(|error| {
            S::into(match error {
                FormError::NotFresh => S::RINGLEADER_NOT_FRESH,
                FormError::Refused | FormError::InGroup => S::RINGLEADER_REFUSED,
                FormError::Timeout => S::RINGLEADER_TIMEOUT,
                _ => S::RINGLEADER_CLOSED,
            })
        })
    })
}

/// Hands the lead over to node `to`, and waits until this node follows it. When that is not elected this node leads on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringleader_transfer(
    node: *mut ringleader_node,
    to: u32,
    timeout_ns: u64,
) -> ringleader_status {
    guard(|| {
        let kept = find_to_wait(node)?;
        let to = u8::try_from(to).map_err(|_| S::RINGLEADER_NO_SUCH_NODE)?;
        kept.node.transfer(to, Duration::from_nanos(timeout_ns)).map_err(|error| {
            let status = match error {
                TransferError::NotLeader { .. } => S::RINGLEADER_NOT_LEADER,
                TransferError::Busy => S::RINGLEADER_BUSY,
                TransferError::NotVoter => S::RINGLEADER_NOT_VOTER,
                TransferError::NotReady => S::RINGLEADER_NOT_READY,
                TransferError::NotElected => S::RINGLEADER_NOT_ELECTED,
                TransferError::Timeout => S::RINGLEADER_TIMEOUT,
                _ => S::RINGLEADER_CLOSED,
            };
            Failure::new(status, error)
        })
    })
}

/// How it is. Waits for nobody, and nobody waits for this.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringleader_look(
    node: *mut ringleader_node,
    out: *mut ringleader_node_status,
) -> ringleader_status {
    guard(|| {
        // SAFETY: by the conventions.
        let (kept, out) = unsafe { (find(node)?, convert::growing(out)?) };
        out.set(node_status(&kept.node.status()));
        Ok(())
    })
}

fn node_status(status: &Status) -> ringleader_node_status {
    let mut followers = [ringleader_follower::default(); 15];
    for (out, follower) in followers.iter_mut().zip(&status.followers) {
        let (catch_up, source, fetched, len) = match follower.catch_up {
            None => (RINGLEADER_CATCH_UP_NONE, 0, 0, 0),
            Some(CatchUp::Saving { source }) => (RINGLEADER_CATCH_UP_SAVING, source, 0, 0),
            Some(CatchUp::Taking { source, fetched, len }) => {
                (RINGLEADER_CATCH_UP_TAKING, source, fetched, len)
            }
            Some(CatchUp::NoSource) => (RINGLEADER_CATCH_UP_NO_SOURCE, 0, 0, 0),
            Some(CatchUp::Unable) => (RINGLEADER_CATCH_UP_UNABLE, 0, 0, 0),
            Some(_) => (RINGLEADER_CATCH_UP_WAITING, 0, 0, 0),
        };
        *out = ringleader_follower {
            node: u32::from(follower.node),
            state: match follower.state {
                FollowerState::Asking => RINGLEADER_FOLLOWER_ASKING,
                FollowerState::Window => RINGLEADER_FOLLOWER_WINDOW,
                FollowerState::Broken => RINGLEADER_FOLLOWER_BROKEN,
                FollowerState::Behind => RINGLEADER_FOLLOWER_BEHIND,
                _ => RINGLEADER_FOLLOWER_DOWN,
            },
            counts: u32::from(follower.counts),
            catch_up,
            catch_up_source: u32::from(source),
            reserved: 0,
            matched_position: follower.matched_position,
            applied_position: follower.applied_position,
            fetched,
            fetch_len: len,
        };
    }
    let taking = status.taking;
    ringleader_node_status {
        size: 0,
        node: u32::from(status.node),
        formed: u32::from(status.formed),
        role: match status.role {
            Role::Leader => RINGLEADER_ROLE_LEADER,
            Role::Candidate => RINGLEADER_ROLE_CANDIDATE,
            _ => RINGLEADER_ROLE_FOLLOWER,
        },
        leader: u32::from(status.leader.unwrap_or(0)),
        closed: u32::from(status.closed),
        removed: u32::from(status.removed),
        voters: status.voters as u32,
        lost: status.lost as u32,
        taking_from: taking.map_or(0, |taking| u32::from(taking.source)),
        loading: taking.map_or(0, |taking| u32::from(taking.loading)),
        follower_count: status.followers.len() as u32,
        group_low: status.group as u64,
        group_high: (status.group >> 64) as u64,
        term: status.term,
        commit_index: status.commit_index,
        commit_position: status.commit_position,
        applied_index: status.applied_index,
        applied_position: status.applied_position,
        end_position: status.end_position,
        form_refusals: status.form_refusals,
        transfer_failures: status.transfer_failures,
        events_dropped: status.events_dropped,
        shots: status.shots,
        taking_fetched: taking.map_or(0, |taking| taking.fetched),
        taking_len: taking.map_or(0, |taking| taking.len),
        followers,
    }
}

/// What it has done so far.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringleader_count(
    node: *mut ringleader_node,
    out: *mut ringleader_metrics,
) -> ringleader_status {
    guard(|| {
        // SAFETY: by the conventions.
        let (kept, out) = unsafe { (find(node)?, convert::growing(out)?) };
        let now = kept.node.metrics();
        out.set(ringleader_metrics {
            size: 0,
            reserved: 0,
            turns: now.turns,
            proposed: now.proposed,
            committed: now.committed,
            unknown: now.unknown,
            applied: now.applied,
            applied_bytes: now.applied_bytes,
            reads: now.reads,
            reads_failed: now.reads_failed,
            campaigns: now.campaigns,
            elected: now.elected,
            gave_up: now.gave_up,
            saved: now.saved,
            loaded: now.loaded,
            verbs: now.verbs,
            verbs_failed: now.verbs_failed,
        });
        Ok(())
    })
}

/// The next event that nobody took yet; `RINGLEADER_NOTHING` when there is none. Who takes them too slowly loses some, commits first
/// (`events_dropped` in the status).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringleader_next_event(
    node: *mut ringleader_node,
    out: *mut ringleader_event,
) -> ringleader_status {
    guard(|| {
        // SAFETY: by the conventions.
        let (kept, out) = unsafe { (find(node)?, convert::growing(out)?) };
        let event = kept.node.next_event().ok_or(S::RINGLEADER_NOTHING)?;
        out.set(ringleader_event::of(event.at_ns, &event.event));
        Ok(())
    })
}

/// The life of its memory, as members name it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringleader_incarnation(
    node: *mut ringleader_node,
    out: *mut u64,
) -> ringleader_status {
    guard(|| {
        // SAFETY: by the conventions.
        let (kept, out) = unsafe { (find(node)?, convert::output(out)?) };
        out.set(kept.node.incarnation());
        Ok(())
    })
}

/// What it does, as leader, about members that lost their memory: `RINGLEADER_READMIT_…`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringleader_set_readmit(node: *mut ringleader_node, how: u32) -> ringleader_status {
    guard(|| {
        let kept = find(node)?;
        kept.node.set_readmit(readmit(how)?);
        Ok(())
    })
}

/// Closes a node: ends its agent, waits for that, removes its memory. Its lanes and readers stay, until they are closed, and tell how
/// what was on its way has ended. The handle is closed whatever this says, but for `RINGLEADER_BUSY` (another thread uses it),
/// `RINGLEADER_WRONG_THREAD`, `RINGLEADER_IN_CALLBACK`, and what is no handle. `RINGLEADER_APPLICATION`: a callback had ended it before;
/// `RINGLEADER_REGION`: the region file could not be removed; `RINGLEADER_DEVICE`: the device broke.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringleader_close(node: *mut ringleader_node) -> ringleader_status {
    guard(|| {
        may_wait()?;
        let check = |kept: &Kept| kept.polled.as_ref().map_or(Ok(()), Loop::check);
        // Before it is taken from everybody: who is refused disturbs nobody.
        check(&*find(node)?)?;
        let kept = NODES.take(handle(node), check)?;
        kept.node.close().map_err(|error| {
            let status = match error {
                CloseError::Region(_) => S::RINGLEADER_REGION,
                CloseError::DeviceLost => S::RINGLEADER_DEVICE,
                _ => S::RINGLEADER_APPLICATION,
            };
            Failure::new(status, error)
        })
    })
}
