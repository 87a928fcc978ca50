//! Nodes whose host and acceptor are apart: two processes a node, with loops, clocks and lives of their own.
//!
//! The invariants see one node: what its acceptor holds, and what its host makes of it.

use std::sync::Arc;

use ringleader_core::membership::Configuration;
use ringleader_core::options::Half;
use ringleader_core::replica::Replica;
use ringleader_core::types::{NodeId, Position};

use super::{Cluster, Stage, at, of};
use crate::application::Application;
use crate::fabric::{Domain, Home, host_of, is_host, node_of};
use crate::view::{Seen, look};

impl Cluster {
    /// Where a node's proposer runs.
    pub fn proposer(&self, node: NodeId) -> NodeId {
        if self.plan.split && !is_host(node) { host_of(node) } else { node }
    }

    /// Whether that is where a proposer runs.
    pub(super) fn proposes(&self, seat: NodeId) -> bool {
        self.plan.split == is_host(seat)
    }

    /// What of its node runs when a seat does: its acceptor, its proposer.
    pub(super) fn runs(&self, seat: NodeId) -> (bool, bool) {
        (!is_host(seat), self.proposes(seat))
    }

    /// All processes.
    pub fn seats(&self) -> impl Iterator<Item = NodeId> + use<> {
        let hosts = if self.plan.split { self.plan.nodes + self.plan.spares } else { 0 };
        self.ids().chain((1..=hosts).map(|id| host_of(NodeId(id))))
    }

    /// Places for hosts, and hosts in them.
    pub(super) fn seat_hosts(&mut self) {
        if !self.plan.split {
            return;
        }
        for seat in self.nodes.len() + 1..2 * 16 {
            let seated = is_host(NodeId(seat as u8));
            let node = self.seat(if seated { self.plan.drift_ppm } else { 0 });
            self.nodes.push(node);
        }
        let ids: Vec<NodeId> = self.ids().collect();
        ids.into_iter().for_each(|id| self.start_host(id));
    }

    /// Kills a host. What its application has stays, unless that is lost, too.
    pub fn crash_host(&mut self, node: NodeId, and_state: bool) {
        let seat = host_of(node);
        self.note(|| format!("the host of node {node} dies"));
        let host = &mut self.nodes[at(seat)];
        if let Some(replica) = host.replica.take() {
            // One that has not heard of its group yet is where it was.
            if replica.configuration().is_formed() {
                host.kept = Some((replica.applied(), replica.committed_configuration().clone()));
            }
        }
        // And one that never got anywhere begins anew.
        host.kept = host.kept.take().filter(|(point, _)| point.position.0 > 0 && !and_state);
        if host.kept.is_none() {
            host.application = Application::default();
        }
        host.asked.clear();
        host.job = None;
        self.fabric.fail_domain(seat, Domain::Process);
        self.watch.died(node);
        self.forget(node, None);
        self.client.forget_reads(node);
        self.see(seat);
    }

    /// Starts a node's host.
    pub fn start_host(&mut self, node: NodeId) {
        let seat = host_of(node);
        let home = Home::new(self.plan.ring_len, self.plan.snapshot_len);
        let (boot, seed) = (self.rng.word() | 1, self.rng.word());
        // Its life is its acceptor's, which it learns.
        let options = self.options(node, Half::Proposer, 1, boot, seed);
        let areas = home.areas();
        self.fabric.start(seat, home.clone());
        let now = self.clock(seat);
        let mut replica = Replica::new(options, areas, now).expect("options of the simulator are sound");
        replica.set_readmit(self.plan.readmit);
        let host = &mut self.nodes[at(seat)];
        let resumes = host.kept.is_some();
        let kept = host.kept.as_ref().map_or(Position(0), |(point, _)| point.position);
        if let Some((point, configuration)) = host.kept.clone() {
            replica.resume(point, configuration);
        } else {
            host.application = Application::default();
        }
        host.replica = Some(replica);
        host.snapshot = home.snapshot.clone();
        host.stage = Stage::Inputs;
        host.clock_read = now;
        host.paused_until_ns = 0;
        host.job = None;
        self.watch.host_started(node, resumes);
        let member = &mut self.members[of(node)];
        if !resumes {
            member.seen.applied = Position(0);
        }
        member.seen.base = Position(0);
        member.seen.kept = kept;
        member.host_staging = home.staging.clone();
        member.home.staging = home.staging.clone();
        if let Some((_, last)) = member.homes.last_mut() {
            last.staging = home.staging;
        }
        self.see(seat);
        self.note(|| format!("the host of node {node} starts"));
        let after = self.rng.within(self.plan.loop_ns);
        self.schedule(seat, after);
    }

    /// Whether a host has found another life of its acceptor.
    pub(super) fn is_orphan(&self, seat: NodeId) -> bool {
        is_host(seat) && self.nodes[at(seat)].replica.as_ref().is_some_and(Replica::is_orphaned)
    }

    /// The node, of both its processes: the one at that seat is looked at now, the other as it was when it told its host.
    pub(super) fn see_apart(&mut self, seat: NodeId) {
        let node = node_of(seat);
        let acceptor = self.nodes[at(node)].replica.as_ref();
        let host = self.nodes.get(at(host_of(node))).and_then(|host| host.replica.as_ref());
        let member = &mut self.members[of(node)];
        if !is_host(seat) {
            // What is gone is as it was last.
            if let Some(acceptor) = acceptor {
                member.parts.0 = look(acceptor);
                renew(&mut member.acceptors, acceptor.configuration());
            }
        } else if let Some(host) = host {
            member.parts.1 = Some(look(host));
            renew(&mut member.configuration, host.configuration());
        } else {
            member.parts.1 = None;
        }
        let (own, mut former) = (member.parts.0, member.seen);
        // What a host that is not there has left may be of a life of its acceptor that is over.
        if member.parts.1.is_none() {
            former.kept = former.kept.max(former.applied);
        }
        let mut seen = Seen {
            is_apart: true,
            commit: own.anchor.position,
            leads: false,
            stands: false,
            followers: Default::default(),
            leading: former.leading,
            leader: former.leader,
            applied: former.applied,
            base: former.base,
            kept: former.kept,
            ..own
        };
        if let Some(host) = member.parts.1 {
            let life = self.nodes[at(host_of(node))].replica.as_ref().map(Replica::incarnation);
            seen.is_stale = life != self.nodes[at(node)].replica.as_ref().map(Replica::incarnation);
            seen.is_untold = !is_host(seat) && self.nodes[at(host_of(node))].stage == Stage::Events;
            seen.leads = host.leads;
            seen.stands = host.stands;
            seen.leading = host.promise;
            seen.leader = host.leader;
            seen.followers = host.followers;
            // One that has not noticed that its acceptor is another by now keeps what it has, too.
            if seen.is_stale {
                seen.kept = seen.kept.max(host.applied);
            }
            if host.formed {
                seen.applied = host.applied;
                seen.base = host.base;
            }
            seen.removed |= host.removed;
            if host.leads {
                seen.end = host.end;
                seen.commit = seen.commit.max(host.commit);
            }
        }
        member.seen = seen;
    }
}

fn renew(known: &mut Arc<Configuration>, now: &Configuration) {
    if (known.group, known.index, known.term) != (now.group, now.index, now.term) {
        *known = Arc::new(now.clone());
    }
}
