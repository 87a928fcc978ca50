//! A snapshot of a node that any thread may take at any time, and the board it is taken from.

use std::fmt;

use ringleader_core::proposer::FollowerState as CoreState;
use ringleader_core::snapshot;
use ringleader_core::types::{MAX_NODES, NodeId};
use serde::{Deserialize, Serialize};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::metrics::Metrics;
use crate::seqlock::SeqLock;

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
    /// Asked for write access, or being prepared for.
    Asking,
    /// Being written to.
    Window,
    /// A write failed; being asked anew.
    Broken,
    /// Too far behind to be served from the ring.
    Behind,
}

/// What a leader does for a follower that is too far behind for the ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum CatchUp {
    /// Nothing now: the follower is not connected, or the last attempt failed and the next one is due in a moment.
    Waiting,
    /// A node saves its state.
    Saving {
        /// Which.
        source: u8,
    },
    /// The follower takes that.
    Taking {
        /// From this node.
        source: u8,
        /// Bytes that it has.
        fetched: u64,
        /// Of so many; 0 before it has said so.
        len: u64,
    },
    /// No node can save its state.
    NoSource,
    /// The follower cannot take one: it has no room for it, or its application does not load it.
    Unable,
}

/// The state of another node, which this one takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Taking {
    /// From this node.
    pub source: u8,
    /// Bytes that are here.
    pub fetched: u64,
    /// Of so many; 0 before it is known.
    pub len: u64,
    /// All are here, and the application loads them.
    pub loading: bool,
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
    /// Whether it counts for a commit now: it is in window, and its process was seen to run lately.
    pub counts: bool,
    /// What is done about it, when it is too far behind.
    pub catch_up: Option<CatchUp>,
}

/// A snapshot of a node. Its fields belong together: they were all true at one moment ([`Status::closed`] aside).
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
    /// Index of the last entry that was applied, or passed over because it is not the application's.
    pub applied_index: u64,
    /// Its end.
    pub applied_position: u64,
    /// End of the log as far as it was walked here.
    pub end_position: u64,
    /// Whether its agent has ended, because it was told to or because the application panicked: nothing here changes any
    /// more, and nothing is proposed or applied.
    pub closed: bool,
    /// Whether this node was a member of its group, and is none any more.
    pub removed: bool,
    /// How many members vote.
    pub voters: usize,
    /// How many of them came back without their memory. When the others are no majority the group has stopped for good.
    pub lost: usize,
    /// It is in no group, and a node that it reaches is in one: it waits to be let in.
    pub met_group: bool,
    /// The nodes to which it is connected, and whose memory fits.
    pub reached: Vec<u8>,
    /// How often another node refused to form a group with this one.
    pub form_refusals: u64,
    /// How often the lead was to be handed over, and was not.
    pub transfer_failures: u64,
    /// Events that nobody took in time and that were dropped.
    pub events_dropped: u64,
    /// Processes of former writers that were stopped in the middle of a copy and had to be killed.
    pub shots: u64,
    /// The state of another node that this one takes, because it has fallen too far behind.
    pub taking: Option<Taking>,
    /// The host of this node, when this is its acceptor alone; `None` before it came.
    pub host: Option<HostState>,
    /// This is a host alone, and its acceptor was not seen to run for as long as a leader may be silent.
    pub acceptor_silent: bool,
    /// The followers, when this node leads.
    pub followers: Vec<Follower>,
}

/// How the host of an acceptor is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct HostState {
    /// It was heard of late.
    pub alive: bool,
    /// It leads, and is alive.
    pub leads: bool,
    /// Names its start: another one has another number.
    pub boot: u64,
}

impl fmt::Display for HostState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            HostState { alive: false, .. } => "its host is down",
            HostState { leads: true, .. } => "its host leads",
            _ => "its host is up",
        })
    }
}

/// A status as words. The followers are rows by node.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Clone, Copy)]
#[repr(C)]
pub(crate) struct Words {
    pub(crate) incarnation: u64,
    pub(crate) formed: u64,
    pub(crate) group_low: u64,
    pub(crate) group_high: u64,
    pub(crate) role: u64,
    pub(crate) term: u64,
    pub(crate) leader: u64,
    pub(crate) commit_index: u64,
    pub(crate) commit_position: u64,
    pub(crate) applied_index: u64,
    pub(crate) applied_position: u64,
    pub(crate) end_position: u64,
    pub(crate) removed: u64,
    pub(crate) voters: u64,
    pub(crate) lost: u64,
    pub(crate) met_group: u64,
    /// Bit n for node n.
    pub(crate) reached: u64,
    pub(crate) form_refusals: u64,
    pub(crate) transfer_failures: u64,
    pub(crate) events_dropped: u64,
    pub(crate) shots: u64,
    /// 0 for none.
    pub(crate) acceptor_silent: u64,
    pub(crate) host_boot: u64,
    pub(crate) host_alive: u64,
    pub(crate) host_leads: u64,
    pub(crate) taking: TakingWords,
    pub(crate) metrics: Metrics,
    pub(crate) followers: [FollowerWords; MAX_NODES + 1],
}

/// A follower as words.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Clone, Copy)]
#[repr(C)]
pub(crate) struct FollowerWords {
    /// 1 when the row is of a follower.
    pub(crate) known: u64,
    pub(crate) state: u64,
    pub(crate) matched_position: u64,
    pub(crate) applied_position: u64,
    pub(crate) counts: u64,
    /// 0 for none, else a place in [`CatchUp`], from 1.
    pub(crate) catch_up: u64,
    pub(crate) taking: TakingWords,
}

/// A snapshot on its way, as words.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct TakingWords {
    /// 0: there is none.
    pub(crate) source: u64,
    pub(crate) fetched: u64,
    pub(crate) len: u64,
    pub(crate) loading: u64,
}

impl TakingWords {
    pub(crate) fn of(taking: Option<snapshot::Taking>) -> TakingWords {
        taking.map_or_else(TakingWords::default, |taking| TakingWords {
            source: u64::from(taking.source.0),
            fetched: taking.fetched,
            len: taking.len,
            loading: u64::from(taking.loading),
        })
    }

    fn taking(&self) -> Option<Taking> {
        let TakingWords { source, fetched, len, loading } = *self;
        (source != 0).then_some(Taking { source: source as u8, fetched, len, loading: loading != 0 })
    }
}

impl FollowerWords {
    pub(crate) fn set_catch_up(&mut self, catch_up: Option<snapshot::CatchUp>) {
        use snapshot::CatchUp as Core;
        let (word, source, fetched, len) = match catch_up {
            None => (0, NodeId::NOBODY, 0, 0),
            Some(Core::Waiting) => (1, NodeId::NOBODY, 0, 0),
            Some(Core::Saving { source }) => (2, source, 0, 0),
            Some(Core::Taking { source, fetched, len }) => (3, source, fetched, len),
            Some(Core::NoSource) => (4, NodeId::NOBODY, 0, 0),
            Some(Core::Unable) => (5, NodeId::NOBODY, 0, 0),
        };
        self.catch_up = word;
        self.taking = TakingWords { source: u64::from(source.0), fetched, len, loading: 0 };
    }

    fn catch_up(&self) -> Option<CatchUp> {
        let TakingWords { source, fetched, len, .. } = self.taking;
        let source = source as u8;
        match self.catch_up {
            1 => Some(CatchUp::Waiting),
            2 => Some(CatchUp::Saving { source }),
            3 => Some(CatchUp::Taking { source, fetched, len }),
            4 => Some(CatchUp::NoSource),
            5 => Some(CatchUp::Unable),
            _ => None,
        }
    }
}

const WORDS: usize = size_of::<Words>() / 8;

impl Words {
    pub(crate) fn status(&self, node: u8) -> Status {
        let followers = self.followers.iter().enumerate().filter(|(_, row)| row.known != 0);
        Status {
            node,
            formed: self.formed != 0,
            group: u128::from(self.group_low) | u128::from(self.group_high) << 64,
            role: Role::from_word(self.role),
            term: self.term,
            leader: u8::try_from(self.leader).ok().filter(|leader| *leader != 0),
            commit_index: self.commit_index,
            commit_position: self.commit_position,
            applied_index: self.applied_index,
            applied_position: self.applied_position,
            end_position: self.end_position,
            closed: false,
            removed: self.removed != 0,
            voters: self.voters as usize,
            lost: self.lost as usize,
            met_group: self.met_group != 0,
            reached: (0..=MAX_NODES as u8).filter(|node| self.reached >> node & 1 == 1).collect(),
            form_refusals: self.form_refusals,
            transfer_failures: self.transfer_failures,
            events_dropped: self.events_dropped,
            shots: self.shots,
            taking: self.taking.taking(),
            host: (self.host_boot != 0).then_some(HostState {
                alive: self.host_alive != 0,
                leads: self.host_leads != 0,
                boot: self.host_boot,
            }),
            acceptor_silent: self.acceptor_silent != 0,
            followers: followers
                .map(|(node, row)| Follower {
                    node: node as u8,
                    state: FollowerState::from_word(row.state),
                    matched_position: row.matched_position,
                    applied_position: row.applied_position,
                    counts: row.counts != 0,
                    catch_up: row.catch_up(),
                })
                .collect(),
        }
    }
}

impl Role {
    fn from_word(word: u64) -> Role {
        [Role::Candidate, Role::Leader].into_iter().find(|role| *role as u64 == word).unwrap_or_default()
    }
}

impl From<CoreState> for FollowerState {
    fn from(state: CoreState) -> FollowerState {
        match state {
            CoreState::Down => FollowerState::Down,
            CoreState::Asking | CoreState::Preparing => FollowerState::Asking,
            CoreState::Window => FollowerState::Window,
            CoreState::Broken => FollowerState::Broken,
            CoreState::LetGo | CoreState::Behind => FollowerState::Behind,
        }
    }
}

impl FollowerState {
    fn from_word(word: u64) -> FollowerState {
        use FollowerState::{Asking, Behind, Broken, Down, Window};
        [Asking, Window, Broken, Behind].into_iter().find(|state| *state as u64 == word).unwrap_or(Down)
    }
}

/// Where the agent posts its latest status.
#[derive(Debug)]
pub(crate) struct Board(SeqLock<WORDS>);

impl Board {
    pub(crate) fn new() -> Board {
        Board(SeqLock::new())
    }

    /// For the agent's thread only.
    pub(crate) fn post(&self, status: &Words) {
        self.0.post(zerocopy::transmute_ref!(status));
    }

    /// The latest status. Waits for the agent when it is just being posted.
    pub(crate) fn read(&self) -> Words {
        zerocopy::transmute!(self.0.read())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::FromZeros;

    #[test]
    fn words_become_a_status() {
        let mut words = Words::new_zeroed();
        words.role = Role::Leader as u64;
        words.group_high = 1;
        words.leader = 3;
        words.followers[2].known = 1;
        words.followers[2].state = FollowerState::Window as u64;
        let status = words.status(3);
        assert_eq!((status.role, status.group, status.leader), (Role::Leader, 1 << 64, Some(3)));
        let catch_up = status.followers[0].catch_up;
        assert_eq!((catch_up, status.taking), (None, None));
        let core = snapshot::CatchUp::Taking { source: NodeId(4), fetched: 5, len: 6 };
        words.followers[2].set_catch_up(Some(core));
        let catch_up = words.status(3).followers[0].catch_up;
        assert_eq!(catch_up, Some(CatchUp::Taking { source: 4, fetched: 5, len: 6 }));
        assert_eq!(status.followers.len(), 1);
        assert_eq!((status.followers[0].node, status.followers[0].state), (2, FollowerState::Window));
    }
}
