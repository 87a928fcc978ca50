//! Who is in the group, and changing it: the library's side of docs/protocol.md, section 10.
//!
//! A change is asked of the leader, one at a time; here is the waiting for it. What may be changed is for the core.

use std::error::Error;
use std::fmt;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use ringleader_core::mem::Memory;
use ringleader_core::membership::{self, Address, ChangeError, Role as CoreRole};
use ringleader_core::replica::{RecoverError, Replica};
use ringleader_core::types::NodeId;
use serde::{Deserialize, Serialize};

use crate::command::Command;
use crate::node::{Node, random_word};

pub use ringleader_core::membership::Readmit;

/// How often a change that cannot be made yet is asked for again.
const AGAIN: Duration = Duration::from_millis(5);

/// A change of the members.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Change {
    /// A fresh node becomes a learner: it gets the log, and does not vote.
    Add {
        /// The node.
        node: u8,
        /// Where the nodes find it, `host:port`; empty on shared memory.
        address: String,
    },
    /// A learner that has caught up becomes a voter.
    Promote {
        /// The learner.
        node: u8,
    },
    /// A member is none any more, in this life.
    Remove {
        /// The member.
        node: u8,
    },
    /// A member that lost its memory becomes a learner, and a voter by itself once it has caught up, if it was one.
    Readmit {
        /// The member.
        node: u8,
    },
}

/// Who is in the group.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug, Default)]
pub struct Members {
    /// Index of the entry that said so; 0 when the group was formed like this.
    pub index: u64,
    /// Its term.
    pub term: u64,
    /// Index of the newest such entry that is known committed here.
    pub committed_index: u64,
    /// Its term.
    pub committed_term: u64,
    /// The members, by id.
    pub members: Vec<Member>,
}

/// One of them.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug, Default)]
pub struct Member {
    /// The node.
    pub node: u8,
    /// `voter`, `learner`, or `returning`: a learner that becomes a voter by itself.
    pub role: String,
    /// The life that is meant, 16 hexadecimal digits.
    pub incarnation: String,
    /// It came back as another life, without its memory.
    pub lost_memory: bool,
    /// Where it is found.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub address: String,
}

/// Why the members were not changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ChangeMembersError {
    /// An address of more than 48 bytes.
    Address,
    /// It cannot be, or could not be within the time given.
    Refused(ChangeError),
    /// It was begun, and its leader lost the lead: it may become committed, or never. [`Node::members`] tells.
    Unknown,
    /// It was begun and is not committed yet.
    Timeout,
    /// The node is closed.
    Closed,
}

impl fmt::Display for ChangeMembersError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let refused = match self {
            ChangeMembersError::Address => return f.write_str("an address has at most 48 bytes"),
            ChangeMembersError::Refused(error) => error,
            ChangeMembersError::Unknown => {
                return f.write_str("the lead was lost: it may be done, or never: look with member list");
            }
            ChangeMembersError::Timeout => return f.write_str("begun, and not committed in time"),
            ChangeMembersError::Closed => return f.write_str("the node is closed"),
        };
        match refused {
            ChangeError::NotLeader { leader } if leader.is_valid() => {
                write!(f, "node {leader} leads: ask that one")
            }
            ChangeError::NotLeader { .. } => f.write_str("nobody leads"),
            ChangeError::TooEarly => f.write_str("the leader was just elected"),
            ChangeError::Busy => f.write_str("another change is under way"),
            ChangeError::Full => f.write_str("there is no room in the log"),
            ChangeError::Node => f.write_str("there is no such node id: they are 1 to 15"),
            ChangeError::Member => f.write_str("it is a member already"),
            ChangeError::NotMember => f.write_str("it is no member"),
            ChangeError::Voter => f.write_str("it is a voter already"),
            ChangeError::NotConnected => {
                f.write_str("the leader cannot reach it: it does not run, or belongs to another group")
            }
            ChangeError::LostMemory => {
                f.write_str("it came back without its memory: ringleader member readmit")
            }
            ChangeError::RemovedLife => {
                f.write_str("it was removed before: end it, and start it anew, without its memory")
            }
            ChangeError::SameLife => f.write_str("it has not lost its memory"),
            ChangeError::NotCaughtUp { behind: u64::MAX } => f.write_str("it does not follow yet"),
            ChangeError::NotCaughtUp { behind } => write!(f, "it has not caught up: {behind} bytes behind"),
            ChangeError::LastVoter => f.write_str("nobody would be left to vote"),
            ChangeError::WouldStop { alive, voters } => write!(
                f,
                "the group would stop: {alive} of the {voters} voters that there would be run and have caught up"
            ),
            other => write!(f, "{other:?}"),
        }
    }
}

impl Error for ChangeMembersError {}

/// Whether time alone may help.
fn is_transient(error: &ChangeError) -> bool {
    matches!(
        error,
        ChangeError::TooEarly
            | ChangeError::Busy
            | ChangeError::Full
            | ChangeError::NotConnected
            | ChangeError::NotCaughtUp { .. }
            | ChangeError::WouldStop { .. }
            | ChangeError::NotLeader { leader: NodeId::NOBODY }
    )
}

/// Why no new group was made of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum NewGroupError {
    /// The node is in no group.
    NotFormed,
    /// A leader is heard: this node, if it is named.
    LeaderAlive(u8),
    /// So many of all voters run: the group goes on by itself.
    MajorityAlive(usize, usize),
    /// Its acceptor is apart.
    Apart,
    /// The node is closed, or there are no random numbers.
    Closed,
}

impl fmt::Display for NewGroupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NewGroupError::NotFormed => f.write_str("the node is in no group"),
            NewGroupError::LeaderAlive(node) => write!(f, "node {node} leads, or did a moment ago"),
            NewGroupError::MajorityAlive(alive, voters) => {
                write!(f, "{alive} of {voters} voters run: the group can go on by itself")
            }
            NewGroupError::Apart => {
                f.write_str("its host and its acceptor are apart ([dpu]), of which none is made yet")
            }
            NewGroupError::Closed => f.write_str("the node is closed"),
        }
    }
}

impl Error for NewGroupError {}

impl Change {
    /// The change in the core's words; `None` when its address is too long.
    fn core(&self) -> Option<membership::Change> {
        Some(match *self {
            Change::Add { node, ref address } => {
                membership::Change::Add { node: NodeId(node), address: Address::new(address.as_bytes())? }
            }
            Change::Promote { node } => membership::Change::Promote { node: NodeId(node) },
            Change::Remove { node } => membership::Change::Remove { node: NodeId(node) },
            Change::Readmit { node } => membership::Change::Readmit { node: NodeId(node) },
        })
    }
}

impl Members {
    /// As that replica sees it.
    pub(crate) fn of<M: Memory>(replica: &Replica<M>) -> Members {
        let (now, committed) = (replica.configuration(), replica.committed_configuration());
        let member = |member: &membership::Member| {
            let found = replica.found(member.node);
            Member {
                node: member.node.0,
                role: match member.role {
                    CoreRole::Voter => "voter",
                    CoreRole::Learner => "learner",
                    CoreRole::Returning => "returning",
                }
                .to_owned(),
                incarnation: format!("{:016x}", member.incarnation.0),
                lost_memory: found.0 != 0 && found != member.incarnation,
                address: String::from_utf8_lossy(member.address.as_bytes()).into_owned(),
            }
        };
        Members {
            index: now.index.0,
            term: now.term.0,
            committed_index: committed.index.0,
            committed_term: committed.term.0,
            members: now.members().map(member).collect(),
        }
    }
}

impl fmt::Display for Members {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.members.is_empty() {
            return f.write_str("no members are known here yet");
        }
        let known = if self.index == self.committed_index { "" } else { ", not known committed here" };
        write!(f, "{} members by entry {}{known}", self.members.len(), self.index)?;
        for member in &self.members {
            write!(f, "\n  node {}: {}", member.node, member.role)?;
            if !member.address.is_empty() {
                write!(f, ", {}", member.address)?;
            }
            if member.lost_memory {
                f.write_str(", came back without its memory")?;
            }
        }
        Ok(())
    }
}

impl Node {
    /// Who is in the group, as this node knows it.
    pub fn members(&self) -> Result<Members, ChangeMembersError> {
        let (reply, answer) = mpsc::channel();
        self.send(Command::Members { reply }).map_err(|()| ChangeMembersError::Closed)?;
        self.agent().wait_for(&answer).map_err(|_| ChangeMembersError::Closed)
    }

    /// Changes the members, by the node that leads, and waits until that is committed. What cannot be yet is tried again
    /// until the time is over: a node that is not there, or has not caught up, or another change under way.
    ///
    /// A leader that removes itself leads until that is committed, and then gives up.
    pub fn change_members(&self, change: &Change, timeout: Duration) -> Result<(), ChangeMembersError> {
        self.change_members_unless(change, timeout, || false)
    }

    /// The same, until `stop` says that nobody waits any more.
    pub(crate) fn change_members_unless(
        &self,
        change: &Change,
        timeout: Duration,
        stop: impl Fn() -> bool,
    ) -> Result<(), ChangeMembersError> {
        let deadline = Instant::now() + timeout;
        let is_over = || Instant::now() >= deadline || stop();
        let core = change.core().ok_or(ChangeMembersError::Address)?;
        let ticket = loop {
            let (reply, answer) = mpsc::channel();
            self.send(Command::Change { change: core, reply }).map_err(|()| ChangeMembersError::Closed)?;
            match self.agent().wait_for(&answer).map_err(|_| ChangeMembersError::Closed)? {
                Ok(ticket) => break ticket,
                Err(error) if is_transient(&error) && !is_over() => self.agent().pause(AGAIN),
                Err(error) => return Err(ChangeMembersError::Refused(error)),
            }
        };
        loop {
            let members = self.members()?;
            if members.committed_index >= ticket.index.0 {
                // All entries from there on to one of the same term were made by the same leader.
                let same = members.committed_term == ticket.term.0;
                return if same { Ok(()) } else { Err(ChangeMembersError::Unknown) };
            }
            if is_over() {
                let leads = self.status().term == ticket.term.0;
                return Err(if leads { ChangeMembersError::Timeout } else { ChangeMembersError::Unknown });
            }
            self.agent().pause(AGAIN);
        }
    }

    /// What this node does, as leader, about members that lost their memory; what its options said before.
    pub fn set_readmit(&self, readmit: Readmit) {
        // A node that is closed does nothing any more.
        let _ = self.send(Command::Readmit(readmit));
    }

    /// Whether the group of this node has stopped, as far as can be seen from here.
    pub fn may_force_new_group(&self) -> Result<(), NewGroupError> {
        self.new_group(None)
    }

    /// Makes a new group, with a new id, of this node alone and the log as it stands here.
    ///
    /// For when a majority of the voters is gone for good: entries that only they held are lost, though they may have been
    /// acknowledged, and entries that stand here and were never acknowledged become committed. Other members of the
    /// former group, should they still run, stay in that and are no members of the new one.
    pub fn force_new_group(&self) -> Result<(), NewGroupError> {
        let word = || random_word().map(u128::from).map_err(|_| NewGroupError::Closed);
        self.new_group(Some(word()? << 64 | word()?))
    }

    fn new_group(&self, group: Option<u128>) -> Result<(), NewGroupError> {
        let (reply, answer) = mpsc::channel();
        self.send(Command::NewGroup { group, reply }).map_err(|()| NewGroupError::Closed)?;
        let made = self.agent().wait_for(&answer).map_err(|_| NewGroupError::Closed)?;
        made.map_err(|error| match error {
            RecoverError::NotFormed => NewGroupError::NotFormed,
            RecoverError::LeaderAlive { leader } => NewGroupError::LeaderAlive(leader.0),
            RecoverError::MajorityAlive { alive, voters } => NewGroupError::MajorityAlive(alive, voters),
            RecoverError::Apart => NewGroupError::Apart,
            _ => NewGroupError::Closed,
        })
    }
}
