//! The random part of a run: faults of the kinds that a plan draws, one after the other, until its time is over.

use ringleader_core::membership::{Address, Change, Configuration};
use ringleader_core::types::{Incarnation, NodeId};
use ringleader_core::verb::Plane;

use crate::cluster::Cluster;
use crate::fabric::{PipeId, node_of};
use crate::invariants::Violation;
use crate::invariants::configurations::voters;
use crate::recover::lags;
use crate::rng::Rng;
use crate::schedule::{Fault, Losses};

/// The time in which things go wrong.
#[derive(Debug)]
pub(crate) struct Storm {
    rng: Rng,
    until_ns: u64,
    next_ns: u64,
    /// Cuts to be mended, and when; nodes to be started again.
    mend: Vec<(u64, NodeId, NodeId)>,
    restart: Vec<(u64, NodeId)>,
    /// Memory of the dead that will be gone, and when.
    forget: Vec<(u64, NodeId)>,
    /// Hosts to be started again, and to be reached again.
    hosts: Vec<(u64, NodeId)>,
    reach: Vec<(u64, NodeId)>,
}

impl Storm {
    pub(crate) fn new(rng: &mut Rng, cluster: &Cluster) -> Storm {
        let now = cluster.now_ns();
        let mut rng = rng.fork();
        let first = rng.below(2 * cluster.plan.fault_every_ns);
        Storm {
            until_ns: now + cluster.plan.safety_ns,
            next_ns: now + first,
            rng,
            mend: Vec::new(),
            restart: Vec::new(),
            forget: Vec::new(),
            hosts: Vec::new(),
            reach: Vec::new(),
        }
    }

    pub(crate) fn rage(mut self, cluster: &mut Cluster) -> Result<(), Violation> {
        while cluster.now_ns() < self.until_ns {
            let due = self
                .mend
                .iter()
                .map(|(at, ..)| *at)
                .chain(
                    self.restart
                        .iter()
                        .chain(&self.forget)
                        .chain(&self.hosts)
                        .chain(&self.reach)
                        .map(|(at, _)| *at),
                )
                .chain([self.next_ns, self.until_ns])
                .min()
                .unwrap_or(self.until_ns);
            let now = cluster.now_ns();
            cluster.run_for(due.saturating_sub(now))?;
            let now = cluster.now_ns();
            for (_, from, to) in self.mend.extract_if(.., |(at, ..)| *at <= now) {
                cluster.fabric.cut(from, to, false);
            }
            for (_, id) in self.reach.extract_if(.., |(at, _)| *at <= now) {
                cluster.fabric.cut_host(id, false);
            }
            for (_, id) in self.hosts.extract_if(.., |(at, _)| *at <= now) {
                cluster.start_host(id);
            }
            for (_, id) in self.forget.extract_if(.., |(at, _)| *at <= now) {
                // Unless it has been started again: that memory is another.
                if !cluster.member(id).alive {
                    cluster.fabric.faults.memories_lost_later += 1;
                    cluster.lose_memory(id);
                }
            }
            let due: Vec<NodeId> =
                self.restart.extract_if(.., |(at, _)| *at <= now).map(|(_, id)| id).collect();
            for id in due {
                cluster.fabric.faults.restarts += 1;
                cluster.start(id);
            }
            if now >= self.next_ns {
                let every = cluster.plan.fault_every_ns;
                self.next_ns = now + 1 + self.rng.below(2 * every);
                if !cluster.plan.faults.is_empty() {
                    let fault = self.rng.pick(&cluster.plan.faults);
                    self.strike(cluster, fault)?;
                }
            }
        }
        for (_, id) in self.restart {
            cluster.fabric.faults.restarts += 1;
            cluster.start(id);
        }
        for (_, id) in self.hosts {
            cluster.start_host(id);
        }
        Ok(())
    }

    fn strike(&mut self, cluster: &mut Cluster, fault: Fault) -> Result<(), Violation> {
        let nodes = u64::from(cluster.plan.nodes + cluster.plan.spares);
        let victim = NodeId(1 + self.rng.below(nodes) as u8);
        let other = NodeId(1 + (u64::from(victim.0) + self.rng.below(nodes - 1)) as u8 % nodes as u8);
        let lasts = self.rng.within(cluster.plan.fault_ns);
        let until = cluster.now_ns() + lasts;
        let leader = cluster.leader().unwrap_or(victim);
        let plane = if self.rng.chance(500_000) { Plane::Control } else { Plane::Log };
        match fault {
            Fault::Pause => {
                let seat = self.seat(cluster, victim);
                self.pause(cluster, seat, lasts);
            }
            Fault::PauseLeader => {
                let seat = self.seat(cluster, leader);
                self.pause(cluster, seat, lasts);
            }
            Fault::PauseLeaderInCopy => {
                cluster.fabric.slow_landings(leader, lasts);
                cluster.run_for(lasts / 10)?;
                self.pause(cluster, cluster.proposer(leader), lasts);
            }
            Fault::Crash => self.crash(cluster, victim, until),
            Fault::CrashLeader => self.crash(cluster, leader, until),
            Fault::CrashKeepingMemory => self.crash_keeping_memory(cluster, victim, until),
            Fault::CrashLeaderKeepingMemory => self.crash_keeping_memory(cluster, leader, until),
            Fault::Zombie => {
                let stopped =
                    |id: &NodeId| cluster.is_paused(*id) || cluster.is_paused(cluster.proposer(*id));
                let stopped = cluster.ids().filter(stopped).count();
                if stopped < minority(cluster) && cluster.member(victim).alive {
                    cluster.fabric.faults.zombies += 1;
                    let seat = self.seat(cluster, victim);
                    cluster.pause(seat, u64::MAX);
                }
            }
            Fault::StallApplication => {
                cluster.fabric.faults.stalled_applications += 1;
                cluster.stall(victim, lasts);
            }
            Fault::CutOneWay => {
                cluster.fabric.faults.cuts_one_way += 1;
                self.cut(cluster, victim, other, until);
            }
            Fault::CutBothWays => {
                cluster.fabric.faults.cuts_both_ways += 1;
                self.cut(cluster, victim, other, until);
                self.cut(cluster, other, victim, until);
            }
            Fault::Isolate => {
                cluster.fabric.faults.cuts_both_ways += 1;
                for peer in cluster.ids().filter(|peer| *peer != victim) {
                    self.cut(cluster, victim, peer, until);
                    self.cut(cluster, peer, victim, until);
                }
            }
            Fault::BreakPipe => {
                let from = self.seat(cluster, victim);
                cluster.fabric.break_pipe(PipeId { from, to: other, plane });
            }
            Fault::BreakGate => cluster.fabric.break_gate(victim, other),
            Fault::Mute => {
                let from = self.seat(cluster, victim);
                cluster.fabric.mute(PipeId { from, to: other, plane }, lasts);
            }
            Fault::Transfer => {
                cluster.transfer(leader, if victim == leader { other } else { victim });
            }
            Fault::Slow => {
                cluster.fabric.faults.slow_nodes += 1;
                let times = self.rng.within((4, 60));
                let seat = self.seat(cluster, victim);
                cluster.slow(seat, times, lasts);
            }
            Fault::CrashHost => self.crash_host(cluster, victim, until),
            Fault::CrashLeadersHost => self.crash_host(cluster, leader, until),
            Fault::CutHost => {
                cluster.fabric.faults.cuts_both_ways += 1;
                cluster.fabric.cut_host(victim, true);
                self.reach.push((until, victim));
            }
            Fault::AddMember
            | Fault::PromoteMember
            | Fault::RemoveMember
            | Fault::RemoveLeader
            | Fault::ReadmitMember => self.wish(cluster, fault, leader),
        }
        Ok(())
    }

    /// An operator wants other members.
    fn wish(&mut self, cluster: &mut Cluster, fault: Fault, leader: NodeId) {
        let now = cluster.watch.configurations.relevant().last().cloned().unwrap_or_default();
        let (rng, ids) = (&mut self.rng, cluster.ids().collect::<Vec<_>>());
        let mut one = |fits: &dyn Fn(NodeId) -> bool| {
            let fit: Vec<NodeId> = ids.iter().copied().filter(|id| fits(*id)).collect();
            (!fit.is_empty()).then(|| rng.pick(&fit))
        };
        let changes: Vec<Change> = match fault {
            Fault::AddMember => one(&|id| now.member(id).is_none() && cluster.member(id).alive)
                .map(|node| Change::Add { node, address: Address::NONE })
                .into_iter()
                .collect(),
            Fault::PromoteMember => one(&|id| now.member(id).is_some() && !now.is_voter(id))
                .map(|node| Change::Promote { node })
                .into_iter()
                .collect(),
            Fault::RemoveLeader => vec![Change::Remove { node: leader }],
            Fault::RemoveMember => {
                let spared = if now.voters() > 2 { 0 } else { now.voters() };
                one(&|id| now.member(id).is_some() && (spared == 0 || !now.is_voter(id)))
                    .map(|node| Change::Remove { node })
                    .into_iter()
                    .collect()
            }
            _ => {
                let lost = one(&|id| {
                    let member = cluster.member(id);
                    member.alive && now.member(id).is_some_and(|one| one.incarnation != member.incarnation)
                });
                let steps = |node| match self.rng.chance(500_000) {
                    true => vec![Change::Readmit { node }],
                    false => vec![
                        Change::Remove { node },
                        Change::Add { node, address: Address::NONE },
                        Change::Promote { node },
                    ],
                };
                lost.map(steps).unwrap_or_default()
            }
        };
        if let [Change::Add { node, .. }] = changes[..]
            && cluster.member(node).seen.removed
        {
            // Who was taken out stays out, in that life.
            cluster.crash(node);
            cluster.start(node);
        }
        cluster.wishes.extend(changes.into_iter().map(|change| (change, 0)));
    }

    /// A process of a node.
    fn seat(&mut self, cluster: &Cluster, node: NodeId) -> NodeId {
        let host = cluster.proposer(node);
        if host != node && self.rng.chance(500_000) { host } else { node }
    }

    fn crash_host(&mut self, cluster: &mut Cluster, id: NodeId, until: u64) {
        // Who is to be started again is down already.
        if self.hosts.iter().any(|(_, host)| *host == id) {
            return;
        }
        cluster.fabric.faults.crashes += 1;
        let forgets = self.rng.chance(cluster.plan.forgets_ppm) && may_forget(cluster, id);
        cluster.crash_host(id, forgets);
        self.hosts.push((until, id));
    }

    fn pause(&mut self, cluster: &mut Cluster, id: NodeId, lasts: u64) {
        if cluster.member(node_of(id)).alive {
            cluster.fabric.faults.pauses += 1;
            cluster.pause(id, lasts);
        }
    }

    fn crash(&mut self, cluster: &mut Cluster, id: NodeId, until: u64) {
        if !can_lose(cluster, id) {
            return;
        }
        cluster.fabric.faults.crashes += 1;
        cluster.crash(id);
        if self.rng.chance(cluster.plan.restart_ppm) {
            self.restart.push((until, id));
        }
    }

    fn crash_keeping_memory(&mut self, cluster: &mut Cluster, id: NodeId, until: u64) {
        if !can_lose(cluster, id) {
            return;
        }
        cluster.fabric.faults.crashes_keeping_memory += 1;
        cluster.crash_keeping_memory(id);
        if self.rng.chance(500_000) {
            self.forget.push((until, id));
        } else if self.rng.chance(cluster.plan.restart_ppm) {
            self.restart.push((until, id));
        }
    }

    fn cut(&mut self, cluster: &mut Cluster, from: NodeId, to: NodeId, until: u64) {
        let (now, lasts) = (cluster.now_ns(), until - cluster.now_ns());
        cluster
            .fabric
            .trace
            .note(now, || format!("nothing passes from {from} to {to} for {} us", lasts / 1000));
        cluster.fabric.cut(from, to, true);
        self.mend.push((until, from, to));
    }
}

/// What a host has may be lost as long as a majority has it without that one: by every configuration that may be in force.
fn may_forget(cluster: &Cluster, id: NodeId) -> bool {
    let end = cluster.members.iter().map(|member| member.seen.anchor.position.0).max().unwrap_or(0);
    let has_state = |(node, life): &(NodeId, Incarnation)| {
        let member = cluster.member(*node);
        let host = member.parts.1.filter(|host| host.formed);
        let near = host.is_some_and(|host| host.applied.0 + cluster.plan.ring_len / 4 >= end);
        *node != id && member.belongs() && member.incarnation == *life && near
    };
    cluster.watch.configurations.relevant().all(|one| {
        let voters = voters(one);
        voters.iter().filter(|voter| has_state(voter)).count() > voters.len() / 2
    })
}

fn minority(cluster: &Cluster) -> usize {
    let voters = cluster.watch.configurations.relevant().map(|one| one.voters());
    (voters.min().unwrap_or(1).max(1) - 1) / 2
}

/// Never more than a minority for good, and by the plan's rule none on whose log others depend that have fallen far behind: by
/// every configuration that may be in force.
pub(crate) fn can_lose(cluster: &Cluster, id: NodeId) -> bool {
    let can = |configuration: &Configuration| {
        let voters: Vec<(NodeId, Incarnation)> = voters(configuration).into_iter().collect();
        let here = |(id, life): &(NodeId, Incarnation)| {
            let member = cluster.member(*id);
            member.alive && member.seen.formed && member.incarnation == *life
        };
        if !voters.iter().any(|voter| voter.0 == id && here(voter)) {
            return true;
        }
        let gone = voters.iter().filter(|voter| !here(voter)).count();
        let left = || voters.iter().filter(|voter| voter.0 != id && here(voter)).map(|(id, _)| *id);
        let fits = match cluster.plan.losses {
            Losses::NoneLags => left().all(|other| !lags(cluster, other)),
            Losses::MajorityFits => left().filter(|other| !lags(cluster, *other)).count() > voters.len() / 2,
            Losses::Any => true,
        };
        gone < (voters.len() - 1) / 2 && fits
    };
    cluster.member(id).alive && cluster.watch.configurations.relevant().all(|one| can(one))
}
