//! How a node is, for people and for programs.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{CatchUp, FollowerState, HostState, Role, Status, Taking};

/// How a node is.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug, Default)]
pub struct NodeStatus {
    /// The group's name.
    pub name: String,
    /// The node.
    pub node: u8,
    /// Whether it is in a group.
    pub formed: bool,
    /// The group's id, 32 hexadecimal digits.
    pub group: String,
    /// `leader`, `candidate` or `follower`.
    pub role: String,
    /// The term of its promise.
    pub term: u64,
    /// Who leads, as far as it knows.
    pub leader: Option<u8>,
    /// It was a member, and is none any more.
    pub removed: bool,
    /// How many members vote.
    pub voters: usize,
    /// How many of them came back without their memory.
    pub lost: usize,
    /// The last entry that it knows committed.
    pub commit_index: u64,
    /// The last entry that it has applied.
    pub applied_index: u64,
    /// The state of another node that it takes, because it has fallen too far behind.
    pub taking: Option<Taking>,
    /// How its host is, when this is its acceptor alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<HostState>,
    /// This is a host whose acceptor is apart, and not reached.
    #[serde(default)]
    pub acceptor_silent: bool,
    /// It is in no group, and a node that it reaches is in one.
    #[serde(default)]
    pub met_group: bool,
    /// Its followers, when it leads.
    pub followers: Vec<FollowerStatus>,
}

/// How a follower is, as its leader sees it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug, Default)]
pub struct FollowerStatus {
    /// The follower.
    pub node: u8,
    /// `down`, `asking`, `window`, `broken` or `behind`.
    pub state: String,
    /// Whether it counts for a commit.
    pub counts: bool,
    /// Bytes of the log by which it is behind.
    pub behind_len: u64,
    /// What is done about it, when it is too far behind for the ring.
    pub catch_up: Option<CatchUp>,
}

impl NodeStatus {
    /// Of a node of the group with this name.
    pub fn new(name: &str, status: &Status) -> NodeStatus {
        let role = match status.role {
            Role::Follower => "follower",
            Role::Candidate => "candidate",
            Role::Leader => "leader",
        };
        let state = |state| match state {
            FollowerState::Down => "down",
            FollowerState::Asking => "asking",
            FollowerState::Window => "window",
            FollowerState::Broken => "broken",
            FollowerState::Behind => "behind",
        };
        NodeStatus {
            name: name.to_owned(),
            node: status.node,
            formed: status.formed,
            group: format!("{:032x}", status.group),
            role: role.to_owned(),
            term: status.term,
            leader: status.leader,
            removed: status.removed,
            voters: status.voters,
            lost: status.lost,
            commit_index: status.commit_index,
            applied_index: status.applied_index,
            taking: status.taking,
            host: status.host,
            acceptor_silent: status.acceptor_silent,
            met_group: status.met_group,
            followers: status
                .followers
                .iter()
                .map(|follower| FollowerStatus {
                    node: follower.node,
                    state: state(follower.state).to_owned(),
                    counts: follower.counts,
                    behind_len: status.commit_position.saturating_sub(follower.applied_position),
                    catch_up: follower.catch_up,
                })
                .collect(),
        }
    }
}

impl fmt::Display for NodeStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {} of {}: ", self.node, self.name)?;
        if self.acceptor_silent {
            return f.write_str("its acceptor is not reached: does ringleader-dpu run? If it does, what this node logs says why");
        }
        if !self.formed {
            f.write_str(match self.met_group {
                true => "waits to be let into its group",
                false => "its group is not formed",
            })?;
            return self.host.map_or(Ok(()), |host| write!(f, ", {host}"));
        }
        if self.removed {
            return write!(f, "was removed from group {}", self.group);
        }
        match (self.role.as_str(), self.leader) {
            ("leader", _) => write!(f, "leads in term {}", self.term)?,
            // An acceptor whose own host leads follows that.
            (_, Some(leader)) => write!(f, "follows node {leader} in term {}", self.term)?,
            (_, None) => write!(f, "hears of no leader (term {})", self.term)?,
        }
        match self.host {
            // An acceptor alone applies nothing.
            Some(_) => write!(f, ", entry {} known committed", self.commit_index)?,
            None => write!(f, ", applied up to entry {} of {}", self.applied_index, self.commit_index)?,
        }
        write!(f, ", group {}", self.group)?;
        if self.lost > 0 {
            write!(f, ", {} of {} voters came back without their memory", self.lost, self.voters)?;
        }
        if let Some(taking) = &self.taking {
            let Taking { source, fetched, len, loading } = *taking;
            if loading {
                write!(f, ", loads the state of node {source}")?;
            } else {
                write!(f, ", takes the state of node {source}: {}", Part(fetched, len))?;
            }
        }
        if let Some(host) = self.host {
            write!(f, ", {host}")?;
        }
        for follower in &self.followers {
            let counts = if follower.counts { "" } else { ", does not count" };
            write!(
                f,
                "\n  node {}: {}, {} bytes behind{counts}",
                follower.node, follower.state, follower.behind_len
            )?;
            if let Some(catch_up) = follower.catch_up {
                write!(f, ", {}", in_words(catch_up))?;
            }
        }
        Ok(())
    }
}

/// What is done for a follower that is too far behind.
fn in_words(catch_up: CatchUp) -> String {
    match catch_up {
        CatchUp::Waiting => "waits for a snapshot".to_owned(),
        CatchUp::Saving { source } => format!("node {source} saves its state for it"),
        CatchUp::Taking { source, fetched, len } => {
            format!("takes the state of node {source}: {}", Part(fetched, len))
        }
        CatchUp::NoSource => "no node can save its state for it".to_owned(),
        CatchUp::Unable => "it cannot take the state of another node".to_owned(),
    }
}

/// Bytes, of so many, in the unit that fits.
struct Part(u64, u64);

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (shift, unit) = if self.1 >> 20 >= 10 { (20, "MiB") } else { (10, "KiB") };
        write!(f, "{} of {} {unit}", self.0 >> shift, self.1 >> shift)
    }
}
