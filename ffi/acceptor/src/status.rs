//! What every function says: a status, its name and its text.

use core::ffi::{CStr, c_char};

/// What became of a call. 0 is success. The numbers stay what they are in all versions; new ones may come.
#[repr(i32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ringleader_status {
    /// Done.
    RINGLEADER_OK = 0,
    /// There is nothing now: no outcome, event, verb or entry. No error.
    RINGLEADER_NOTHING = 1,
    /// It did not come about in time, and may still.
    RINGLEADER_TIMEOUT = 2,
    /// No room now: poll for outcomes, and try again.
    RINGLEADER_FULL = 3,
    /// Another thread uses it at this moment, or another such thing is under way.
    RINGLEADER_BUSY = 4,
    /// A pointer is NULL that may not be.
    RINGLEADER_NULL = 10,
    /// A pointer is not aligned to its type.
    RINGLEADER_MISALIGNED = 11,
    /// The member `size` of a struct is none that this library knows: set it to `sizeof`.
    RINGLEADER_SIZE = 12,
    /// The pointer is no handle of this library, or one of another kind.
    RINGLEADER_FOREIGN = 13,
    /// The handle was closed before, also where another one has its place by now.
    RINGLEADER_CLOSED_HANDLE = 14,
    /// It is to be called by the thread that made the agent.
    RINGLEADER_WRONG_THREAD = 15,
    /// A callback may not wait, or close what calls it: it would wait for itself.
    RINGLEADER_IN_CALLBACK = 16,
    /// Something depends on it: close that first.
    RINGLEADER_IN_USE = 17,
    /// An option, argument or configuration file has a value that cannot be; `ringleader_error_text` names it.
    RINGLEADER_OPTION = 18,
    /// A payload of so many bytes fits no entry.
    RINGLEADER_TOO_LARGE = 19,
    /// A draft of this lane is open: commit or drop it first.
    RINGLEADER_DRAFT_OPEN = 20,
    /// No draft of this lane is open.
    RINGLEADER_NO_DRAFT = 21,
    /// The agent has a thread of its own, and is not polled.
    RINGLEADER_NOT_POLLED = 22,
    /// There are as many open handles of a kind as there can be.
    RINGLEADER_HANDLES = 23,
    /// This build has no such thing.
    RINGLEADER_UNSUPPORTED = 24,
    /// The node does not lead. What was to be proposed was not, and never will be.
    RINGLEADER_NOT_LEADER = 40,
    /// The lead was lost on the way: it may come about by the next leader, or never.
    RINGLEADER_UNKNOWN = 41,
    /// The node is closed, or has ended.
    RINGLEADER_CLOSED = 42,
    /// The node is in no group yet.
    RINGLEADER_NOT_FORMED = 43,
    /// The node is in a group already, or was asked to form one before.
    RINGLEADER_NOT_FRESH = 44,
    /// A member refused to form a group: it is in another one, or part of another forming.
    RINGLEADER_REFUSED = 45,
    /// The node is the leader itself, or no voter of the group.
    RINGLEADER_NOT_VOTER = 46,
    /// The node is not reached, lags, or was not seen to run lately.
    RINGLEADER_NOT_READY = 47,
    /// The node was not elected in time: the leader leads on.
    RINGLEADER_NOT_ELECTED = 48,
    /// The leader was just elected.
    RINGLEADER_TOO_EARLY = 49,
    /// There is no such node id: they are 1 to 15.
    RINGLEADER_NO_SUCH_NODE = 50,
    /// The node is a member already.
    RINGLEADER_MEMBER = 51,
    /// The node is no member.
    RINGLEADER_NOT_MEMBER = 52,
    /// The node is a voter already.
    RINGLEADER_VOTER = 53,
    /// The leader cannot reach the node: it does not run, or belongs to another group.
    RINGLEADER_NOT_CONNECTED = 54,
    /// The node came back without its memory: readmit it.
    RINGLEADER_LOST_MEMORY = 55,
    /// The node was removed before: end it, and start it anew, without its memory.
    RINGLEADER_REMOVED_LIFE = 56,
    /// The node has not lost its memory.
    RINGLEADER_SAME_LIFE = 57,
    /// The node has not caught up.
    RINGLEADER_NOT_CAUGHT_UP = 58,
    /// Nobody would be left to vote.
    RINGLEADER_LAST_VOTER = 59,
    /// The group would stop: too few of the voters that there would be run and have caught up.
    RINGLEADER_WOULD_STOP = 60,
    /// An address has at most 48 bytes.
    RINGLEADER_ADDRESS = 61,
    /// A leader is heard, or was a moment ago.
    RINGLEADER_LEADER_ALIVE = 62,
    /// A majority of the voters runs: the group can go on by itself.
    RINGLEADER_MAJORITY_ALIVE = 63,
    /// Lease reads were not allowed when the node was opened.
    RINGLEADER_NO_LEASE_READS = 70,
    /// A read was not answered: the lead was lost.
    RINGLEADER_LOST_LEAD = 71,
    /// A read was not answered: no leader was found in time.
    RINGLEADER_NO_LEADER = 72,
    /// A read was not answered: no majority was found in time.
    RINGLEADER_NO_MAJORITY = 73,
    /// A read was not answered: what it must see was not applied in time.
    RINGLEADER_NOT_APPLIED = 74,
    /// The machine has too little memory for the rings.
    RINGLEADER_MEMORY = 80,
    /// The region file cannot be made or removed.
    RINGLEADER_REGION = 81,
    /// The RDMA device cannot be used, or broke.
    RINGLEADER_DEVICE = 82,
    /// The exchange, by which nodes find each other, cannot be started.
    RINGLEADER_EXCHANGE = 83,
    /// A thread cannot be started or pinned.
    RINGLEADER_THREAD = 84,
    /// The system gives no random numbers.
    RINGLEADER_RANDOM = 85,
    /// The agent hosts as many groups as it has room for.
    RINGLEADER_ROOM = 86,
    /// The process logs by a `tracing` subscriber of its own.
    RINGLEADER_LOG_TAKEN = 87,
    /// A callback of the application failed: the node has ended, its region stays.
    RINGLEADER_APPLICATION = 88,
    /// A bug of this library: it panicked and caught itself. What was called may have been done or not.
    RINGLEADER_PANICKED = 89,
}

use ringleader_status as S;

impl ringleader_status {
    /// All of them.
    pub const ALL: &[ringleader_status] = &[
        S::RINGLEADER_OK,
        S::RINGLEADER_NOTHING,
        S::RINGLEADER_TIMEOUT,
        S::RINGLEADER_FULL,
        S::RINGLEADER_BUSY,
        S::RINGLEADER_NULL,
        S::RINGLEADER_MISALIGNED,
        S::RINGLEADER_SIZE,
        S::RINGLEADER_FOREIGN,
        S::RINGLEADER_CLOSED_HANDLE,
        S::RINGLEADER_WRONG_THREAD,
        S::RINGLEADER_IN_CALLBACK,
        S::RINGLEADER_IN_USE,
        S::RINGLEADER_OPTION,
        S::RINGLEADER_TOO_LARGE,
        S::RINGLEADER_DRAFT_OPEN,
        S::RINGLEADER_NO_DRAFT,
        S::RINGLEADER_NOT_POLLED,
        S::RINGLEADER_HANDLES,
        S::RINGLEADER_UNSUPPORTED,
        S::RINGLEADER_NOT_LEADER,
        S::RINGLEADER_UNKNOWN,
        S::RINGLEADER_CLOSED,
        S::RINGLEADER_NOT_FORMED,
        S::RINGLEADER_NOT_FRESH,
        S::RINGLEADER_REFUSED,
        S::RINGLEADER_NOT_VOTER,
        S::RINGLEADER_NOT_READY,
        S::RINGLEADER_NOT_ELECTED,
        S::RINGLEADER_TOO_EARLY,
        S::RINGLEADER_NO_SUCH_NODE,
        S::RINGLEADER_MEMBER,
        S::RINGLEADER_NOT_MEMBER,
        S::RINGLEADER_VOTER,
        S::RINGLEADER_NOT_CONNECTED,
        S::RINGLEADER_LOST_MEMORY,
        S::RINGLEADER_REMOVED_LIFE,
        S::RINGLEADER_SAME_LIFE,
        S::RINGLEADER_NOT_CAUGHT_UP,
        S::RINGLEADER_LAST_VOTER,
        S::RINGLEADER_WOULD_STOP,
        S::RINGLEADER_ADDRESS,
        S::RINGLEADER_LEADER_ALIVE,
        S::RINGLEADER_MAJORITY_ALIVE,
        S::RINGLEADER_NO_LEASE_READS,
        S::RINGLEADER_LOST_LEAD,
        S::RINGLEADER_NO_LEADER,
        S::RINGLEADER_NO_MAJORITY,
        S::RINGLEADER_NOT_APPLIED,
        S::RINGLEADER_MEMORY,
        S::RINGLEADER_REGION,
        S::RINGLEADER_DEVICE,
        S::RINGLEADER_EXCHANGE,
        S::RINGLEADER_THREAD,
        S::RINGLEADER_RANDOM,
        S::RINGLEADER_ROOM,
        S::RINGLEADER_LOG_TAKEN,
        S::RINGLEADER_APPLICATION,
        S::RINGLEADER_PANICKED,
    ];

    /// The name in the header.
    pub fn name(self) -> &'static CStr {
        match self {
            S::RINGLEADER_OK => c"RINGLEADER_OK",
            S::RINGLEADER_NOTHING => c"RINGLEADER_NOTHING",
            S::RINGLEADER_TIMEOUT => c"RINGLEADER_TIMEOUT",
            S::RINGLEADER_FULL => c"RINGLEADER_FULL",
            S::RINGLEADER_BUSY => c"RINGLEADER_BUSY",
            S::RINGLEADER_NULL => c"RINGLEADER_NULL",
            S::RINGLEADER_MISALIGNED => c"RINGLEADER_MISALIGNED",
            S::RINGLEADER_SIZE => c"RINGLEADER_SIZE",
            S::RINGLEADER_FOREIGN => c"RINGLEADER_FOREIGN",
            S::RINGLEADER_CLOSED_HANDLE => c"RINGLEADER_CLOSED_HANDLE",
            S::RINGLEADER_WRONG_THREAD => c"RINGLEADER_WRONG_THREAD",
            S::RINGLEADER_IN_CALLBACK => c"RINGLEADER_IN_CALLBACK",
            S::RINGLEADER_IN_USE => c"RINGLEADER_IN_USE",
            S::RINGLEADER_OPTION => c"RINGLEADER_OPTION",
            S::RINGLEADER_TOO_LARGE => c"RINGLEADER_TOO_LARGE",
            S::RINGLEADER_DRAFT_OPEN => c"RINGLEADER_DRAFT_OPEN",
            S::RINGLEADER_NO_DRAFT => c"RINGLEADER_NO_DRAFT",
            S::RINGLEADER_NOT_POLLED => c"RINGLEADER_NOT_POLLED",
            S::RINGLEADER_HANDLES => c"RINGLEADER_HANDLES",
            S::RINGLEADER_UNSUPPORTED => c"RINGLEADER_UNSUPPORTED",
            S::RINGLEADER_NOT_LEADER => c"RINGLEADER_NOT_LEADER",
            S::RINGLEADER_UNKNOWN => c"RINGLEADER_UNKNOWN",
            S::RINGLEADER_CLOSED => c"RINGLEADER_CLOSED",
            S::RINGLEADER_NOT_FORMED => c"RINGLEADER_NOT_FORMED",
            S::RINGLEADER_NOT_FRESH => c"RINGLEADER_NOT_FRESH",
            S::RINGLEADER_REFUSED => c"RINGLEADER_REFUSED",
            S::RINGLEADER_NOT_VOTER => c"RINGLEADER_NOT_VOTER",
            S::RINGLEADER_NOT_READY => c"RINGLEADER_NOT_READY",
            S::RINGLEADER_NOT_ELECTED => c"RINGLEADER_NOT_ELECTED",
            S::RINGLEADER_TOO_EARLY => c"RINGLEADER_TOO_EARLY",
            S::RINGLEADER_NO_SUCH_NODE => c"RINGLEADER_NO_SUCH_NODE",
            S::RINGLEADER_MEMBER => c"RINGLEADER_MEMBER",
            S::RINGLEADER_NOT_MEMBER => c"RINGLEADER_NOT_MEMBER",
            S::RINGLEADER_VOTER => c"RINGLEADER_VOTER",
            S::RINGLEADER_NOT_CONNECTED => c"RINGLEADER_NOT_CONNECTED",
            S::RINGLEADER_LOST_MEMORY => c"RINGLEADER_LOST_MEMORY",
            S::RINGLEADER_REMOVED_LIFE => c"RINGLEADER_REMOVED_LIFE",
            S::RINGLEADER_SAME_LIFE => c"RINGLEADER_SAME_LIFE",
            S::RINGLEADER_NOT_CAUGHT_UP => c"RINGLEADER_NOT_CAUGHT_UP",
            S::RINGLEADER_LAST_VOTER => c"RINGLEADER_LAST_VOTER",
            S::RINGLEADER_WOULD_STOP => c"RINGLEADER_WOULD_STOP",
            S::RINGLEADER_ADDRESS => c"RINGLEADER_ADDRESS",
            S::RINGLEADER_LEADER_ALIVE => c"RINGLEADER_LEADER_ALIVE",
            S::RINGLEADER_MAJORITY_ALIVE => c"RINGLEADER_MAJORITY_ALIVE",
            S::RINGLEADER_NO_LEASE_READS => c"RINGLEADER_NO_LEASE_READS",
            S::RINGLEADER_LOST_LEAD => c"RINGLEADER_LOST_LEAD",
            S::RINGLEADER_NO_LEADER => c"RINGLEADER_NO_LEADER",
            S::RINGLEADER_NO_MAJORITY => c"RINGLEADER_NO_MAJORITY",
            S::RINGLEADER_NOT_APPLIED => c"RINGLEADER_NOT_APPLIED",
            S::RINGLEADER_MEMORY => c"RINGLEADER_MEMORY",
            S::RINGLEADER_REGION => c"RINGLEADER_REGION",
            S::RINGLEADER_DEVICE => c"RINGLEADER_DEVICE",
            S::RINGLEADER_EXCHANGE => c"RINGLEADER_EXCHANGE",
            S::RINGLEADER_THREAD => c"RINGLEADER_THREAD",
            S::RINGLEADER_RANDOM => c"RINGLEADER_RANDOM",
            S::RINGLEADER_ROOM => c"RINGLEADER_ROOM",
            S::RINGLEADER_LOG_TAKEN => c"RINGLEADER_LOG_TAKEN",
            S::RINGLEADER_APPLICATION => c"RINGLEADER_APPLICATION",
            S::RINGLEADER_PANICKED => c"RINGLEADER_PANICKED",
        }
    }

    /// What it means, in one line.
    pub fn text(self) -> &'static CStr {
        match self {
            S::RINGLEADER_OK => c"done",
            S::RINGLEADER_NOTHING => c"there is nothing now",
            S::RINGLEADER_TIMEOUT => c"not in time",
            S::RINGLEADER_FULL => c"no room now: poll for outcomes, and try again",
            S::RINGLEADER_BUSY => c"another thread uses it, or another such thing is under way",
            S::RINGLEADER_NULL => c"a pointer is NULL that may not be",
            S::RINGLEADER_MISALIGNED => c"a pointer is not aligned to its type",
            S::RINGLEADER_SIZE => {
                c"the size of a struct is none that this library knows: set its member size to sizeof"
            }
            S::RINGLEADER_FOREIGN => c"this is no handle of this library, or one of another kind",
            S::RINGLEADER_CLOSED_HANDLE => c"this handle was closed",
            S::RINGLEADER_WRONG_THREAD => c"this is to be called by the thread that polls",
            S::RINGLEADER_IN_CALLBACK => c"a callback may not wait: it would wait for itself",
            S::RINGLEADER_IN_USE => c"it is still in use: close what depends on it first",
            S::RINGLEADER_OPTION => c"an option has a value that cannot be",
            S::RINGLEADER_TOO_LARGE => c"a payload of so many bytes fits no entry",
            S::RINGLEADER_DRAFT_OPEN => c"a draft of this lane is open: commit or drop it first",
            S::RINGLEADER_NO_DRAFT => c"no draft of this lane is open",
            S::RINGLEADER_NOT_POLLED => c"this agent has a thread, and is not polled",
            S::RINGLEADER_HANDLES => c"there are as many handles as there can be",
            S::RINGLEADER_UNSUPPORTED => c"this build has no such thing",
            S::RINGLEADER_NOT_LEADER => c"this node does not lead",
            S::RINGLEADER_UNKNOWN => c"the lead was lost: it may come about, or never",
            S::RINGLEADER_CLOSED => c"the node is closed",
            S::RINGLEADER_NOT_FORMED => c"the node is in no group",
            S::RINGLEADER_NOT_FRESH => c"the node is in a group already, or was asked to form one before",
            S::RINGLEADER_REFUSED => c"a member refused: it is in another group, or part of another forming",
            S::RINGLEADER_NOT_VOTER => c"it is the leader itself, or no voter of the group",
            S::RINGLEADER_NOT_READY => c"it is not reached, lags, or was not seen to run lately",
            S::RINGLEADER_NOT_ELECTED => c"it was not elected in time: the leader leads on",
            S::RINGLEADER_TOO_EARLY => c"the leader was just elected",
            S::RINGLEADER_NO_SUCH_NODE => c"there is no such node id: they are 1 to 15",
            S::RINGLEADER_MEMBER => c"it is a member already",
            S::RINGLEADER_NOT_MEMBER => c"it is no member",
            S::RINGLEADER_VOTER => c"it is a voter already",
            S::RINGLEADER_NOT_CONNECTED => {
                c"the leader cannot reach it: it does not run, or belongs to another group"
            }
            S::RINGLEADER_LOST_MEMORY => c"it came back without its memory: readmit it",
            S::RINGLEADER_REMOVED_LIFE => {
                c"it was removed before: end it, and start it anew, without its memory"
            }
            S::RINGLEADER_SAME_LIFE => c"it has not lost its memory",
            S::RINGLEADER_NOT_CAUGHT_UP => c"it has not caught up",
            S::RINGLEADER_LAST_VOTER => c"nobody would be left to vote",
            S::RINGLEADER_WOULD_STOP => c"the group would stop: too few of its voters run and have caught up",
            S::RINGLEADER_ADDRESS => c"an address has at most 48 bytes",
            S::RINGLEADER_LEADER_ALIVE => c"a leader is heard, or was a moment ago",
            S::RINGLEADER_MAJORITY_ALIVE => c"a majority of the voters runs: the group can go on by itself",
            S::RINGLEADER_NO_LEASE_READS => c"lease reads were not allowed when the node was opened",
            S::RINGLEADER_LOST_LEAD => c"the read was not answered: the lead was lost",
            S::RINGLEADER_NO_LEADER => c"the read was not answered: no leader was found in time",
            S::RINGLEADER_NO_MAJORITY => c"the read was not answered: no majority was found in time",
            S::RINGLEADER_NOT_APPLIED => {
                c"the read was not answered: what it must see was not applied in time"
            }
            S::RINGLEADER_MEMORY => c"the machine has too little memory for the rings",
            S::RINGLEADER_REGION => c"the region file cannot be made or removed",
            S::RINGLEADER_DEVICE => c"the RDMA device cannot be used",
            S::RINGLEADER_EXCHANGE => c"the nodes cannot find each other: their exchange cannot be started",
            S::RINGLEADER_THREAD => c"a thread cannot be started or pinned",
            S::RINGLEADER_RANDOM => c"the system gives no random numbers",
            S::RINGLEADER_ROOM => c"the agent hosts as many groups as it has room for",
            S::RINGLEADER_LOG_TAKEN => c"the process logs by something else already",
            S::RINGLEADER_APPLICATION => c"a callback of the application failed: the node has ended",
            S::RINGLEADER_PANICKED => c"a bug of this library: it panicked, and caught itself",
        }
    }

    fn find(status: i32) -> Option<ringleader_status> {
        ringleader_status::ALL.iter().copied().find(|one| *one as i32 == status)
    }
}

/// The name of a status, as in `RINGLEADER_OK`. Never NULL, and never to be freed.
#[unsafe(no_mangle)]
pub extern "C" fn ringleader_status_name(status: i32) -> *const c_char {
    S::find(status).map_or(c"(no status of this version)", S::name).as_ptr()
}

/// What a status means, in one line of English. Never NULL, and never to be freed.
#[unsafe(no_mangle)]
pub extern "C" fn ringleader_status_text(status: i32) -> *const c_char {
    S::find(status).map_or(c"a status that this version of the library does not know", S::text).as_ptr()
}
