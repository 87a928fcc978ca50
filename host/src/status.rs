//! A snapshot of a node that any thread may take at any time.

/// What a node is at the moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Role {
    /// Follows, or waits for a leader.
    #[default]
    Follower,
    /// Asks for votes.
    Candidate,
    /// Leads.
    Leader,
}

/// Where a leader is with one follower (docs/protocol.md, section 8).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum FollowerState {
    /// Not connected, or this node does not lead.
    #[default]
    Down,
    /// Asked for write access.
    Asking,
    /// Being written to.
    Window,
    /// A write failed; being asked anew.
    Broken,
    /// Too far behind to be served from the ring.
    Behind,
}

/// One follower, as its leader sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Follower {
    /// The follower.
    pub node: u8,
    /// Where the leader is with it.
    pub state: FollowerState,
    /// Position up to which its bytes are known to equal the leader's.
    pub matched_position: u64,
    /// Position up to which it has applied, as last read.
    pub applied_position: u64,
    /// Whether its process was seen to run lately.
    pub live: bool,
}

/// A snapshot of a node. Its fields belong together: they were all true at one moment.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Status {
    /// This node.
    pub node: u8,
    /// Whether it is in a group.
    pub formed: bool,
    /// The group's id; 0 in none.
    pub group: u128,
    /// What it is.
    pub role: Role,
    /// The term of its promise.
    pub term: u64,
    /// The leader it follows, as far as it knows one; itself when it leads.
    pub leader: Option<u8>,
    /// Index of the last entry known committed here.
    pub commit_index: u64,
    /// Its end.
    pub commit_position: u64,
    /// Index of the last entry handed to the application.
    pub applied_index: u64,
    /// Its end.
    pub applied_position: u64,
    /// End of the log as far as it was walked here.
    pub end_position: u64,
    /// Events that nobody took in time and that were dropped.
    pub events_dropped: u64,
    /// The followers, when this node leads.
    pub followers: Vec<Follower>,
}
