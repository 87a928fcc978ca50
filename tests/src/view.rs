//! What the simulator sees of a node: its status in the words of the invariants, and its memory.
//!
//! The only place that knows the fields of the core's `Status`.

use std::sync::Arc;

use ringleader_core::membership::Configuration;
use ringleader_core::proposer::{FollowerState, Role};
use ringleader_core::replica::{Replica, Status};
use ringleader_core::types::{Incarnation, Index, LogPoint, NodeId, Position, Promise, Term};

use crate::fabric::{Home, SimArea, SimMemory};

/// A follower as its leader sees it.
#[derive(Clone, Copy, Default, Debug)]
pub struct Follower {
    /// It has write access and counts, if it is live.
    pub in_window: bool,
    /// A write to it failed, and its promise has not been read since.
    pub is_broken: bool,
    /// Its bytes up to here are known to be the leader's.
    pub matched: Position,
}

/// A node's own account of itself after its last step.
#[derive(Clone, Copy, Default, Debug)]
pub struct Seen {
    /// It belongs to a group.
    pub formed: bool,
    /// That group.
    pub group: u128,
    /// It knows that it is no member any more.
    pub removed: bool,
    /// It leads.
    pub leads: bool,
    /// It asks for votes.
    pub stands: bool,
    /// Its host is apart.
    pub is_apart: bool,
    /// A host that is apart began with an application that had everything up to there.
    pub kept: Position,
    /// Its host, which is apart, is in the middle of its loop: what is seen of it has not been told.
    pub is_untold: bool,
    /// What leads or stands there belongs to a life of its acceptor that is over, and has not noticed.
    pub is_stale: bool,
    /// Highest grant, and to whom.
    pub promise: Promise,
    /// The promise that it leads by, if it leads.
    pub leading: Promise,
    /// Whom it takes for the leader.
    pub leader: NodeId,
    /// Where its log ends.
    pub end: Position,
    /// The last entry there, by which logs are compared.
    pub last: (Term, Index),
    /// Known committed.
    pub commit: Position,
    /// Last entry known committed and walked.
    pub anchor: LogPoint,
    /// Handed to the application.
    pub applied: Position,
    /// Nothing below is served.
    pub base: Position,
    /// An acceptor whose host is apart has begun its log there, behind a snapshot that it holds for its host.
    pub start: Position,
    /// Who may write its log area.
    pub writer: NodeId,
    /// It waits for a fence, and does not look at its log.
    pub fencing: bool,
    /// By node.
    pub followers: [Follower; 16],
}

/// A node of a run.
#[derive(Clone, Debug)]
pub struct Member {
    /// Its id.
    pub id: NodeId,
    /// Counts its lives.
    pub life: u32,
    /// Of this life.
    pub incarnation: Incarnation,
    /// In force there.
    pub configuration: Arc<Configuration>,
    /// In force at its acceptor: the same, but where its host is apart.
    pub acceptors: Arc<Configuration>,
    /// In force there when its host last heard of commits: what it reports now it may have committed by this one.
    pub former: Arc<Configuration>,
    /// The newest committed configuration names this life.
    pub named: bool,
    /// Its process exists.
    pub alive: bool,
    /// Its own account.
    pub seen: Seen,
    /// Where host and acceptor are apart: their own accounts.
    pub parts: (Seen, Option<Seen>),
    /// Memory of this life. Where host and acceptor are apart: the acceptor's, and the staging ring of the host.
    pub home: Home,
    /// Where its answers are made.
    pub answers: SimArea,
    /// The staging area of a host that is apart.
    pub host_staging: SimArea,
    /// Memory of all its lives, also of this one: what each was counted for.
    pub homes: Vec<(Incarnation, Home)>,
}

impl Member {
    /// One that never started.
    pub fn new(id: NodeId, ring_len: u64, snapshot_len: u64) -> Member {
        Member {
            id,
            life: 0,
            incarnation: Incarnation(0),
            configuration: Arc::default(),
            acceptors: Arc::default(),
            former: Arc::default(),
            named: false,
            alive: false,
            seen: Seen::default(),
            parts: (Seen::default(), None),
            home: Home::new(ring_len, snapshot_len),
            answers: Home::new(ring_len, 0).staging,
            host_staging: Home::new(ring_len, 0).staging,
            homes: Vec::new(),
        }
    }

    /// Whether this is a process of the group: not one that came back without memory, and none that was removed.
    pub fn belongs(&self) -> bool {
        self.alive && self.named && self.seen.formed
    }

    /// The memory of one of its lives.
    pub fn home_of(&self, incarnation: Incarnation) -> Option<&Home> {
        self.homes.iter().find(|(life, _)| *life == incarnation).map(|(_, home)| home)
    }
}

/// The memory of a life of a node.
pub fn home_of(members: &[Member], node: NodeId, incarnation: Incarnation) -> Option<&Home> {
    members.iter().find(|member| member.id == node)?.home_of(incarnation)
}

/// The account of a replica.
pub fn look(replica: &Replica<SimMemory>) -> Seen {
    let status: Status = replica.status();
    let mut followers = [Follower::default(); 16];
    for (seen, of) in followers.iter_mut().zip(&status.followers) {
        if let Some(of) = of {
            *seen = Follower {
                in_window: of.state == FollowerState::Window,
                is_broken: of.state == FollowerState::Broken,
                matched: of.matched,
            };
        }
    }
    Seen {
        formed: status.group != 0,
        group: status.group,
        removed: status.removed,
        leads: status.role == Role::Leader,
        stands: status.role == Role::Candidate,
        is_apart: false,
        kept: Position(0),
        is_untold: false,
        is_stale: false,
        promise: status.promise,
        leading: status.promise,
        leader: status.leader,
        end: status.end.position,
        last: (status.end.term, status.end.index),
        commit: status.commit,
        anchor: status.anchor,
        applied: status.applied.position,
        base: status.base,
        start: status.start,
        writer: status.writer,
        fencing: status.fencing,
        followers,
    }
}
