//! The end of a run: all faults stop, and the group must get well within its bound.

use ringleader_core::layout::{Line, ProgressLine, control, progress_flags};
use ringleader_core::membership::Configuration;
use ringleader_core::read::Read;
use ringleader_core::types::{Incarnation, NodeId};

use crate::cluster::Cluster;
use crate::invariants::Violation;
use crate::invariants::configurations::voters;
use crate::invariants::liveness::Liveness;
use crate::rng::Rng;
use crate::run::Outcome;
use crate::view::Member;

/// New proposals that must be acknowledged after faults have stopped.
const NEW_PROPOSALS: u64 = 3;

/// Heals a group and sees it get well.
pub(crate) fn recover(cluster: &mut Cluster, rng: &mut Rng, outcome: &mut Outcome) -> Result<(), Violation> {
    let calm = cluster.plan.calm.clone();
    cluster.heal(calm);
    let Some(can_stop) = spare(cluster) else { return Ok(()) };
    if cluster.plan.leave_stopped && can_stop > 0 {
        let stopped: Vec<NodeId> = cluster
            .ids()
            .filter(|id| cluster.member(*id).belongs() && !lags(cluster, *id))
            .take(can_stop)
            .collect();
        // Those that stay must be able to go on by themselves: none may hang on a log that only a stopped one has.
        let others_fit = cluster
            .ids()
            .all(|id| stopped.contains(&id) || !cluster.member(id).belongs() || !lags(cluster, id));
        if others_fit && rng.chance(700_000) {
            for id in stopped {
                cluster.fabric.faults.zombies += 1;
                cluster.pause(cluster.proposer(id), u64::MAX);
            }
        }
    }
    let full = cluster.fabric.faults.full;
    let acknowledged = cluster.client.acknowledged();
    let mut liveness =
        Liveness::new(cluster.now_ns(), cluster.plan.bound_ns, acknowledged, NEW_PROPOSALS, full);
    cluster.proposing = true;
    let reads = wanted_reads(cluster);
    if !reads.is_empty() {
        cluster.reading = true;
        cluster.plan.read_ppm = cluster.plan.read_ppm.max(50_000);
    }
    let look_every = cluster.plan.timing.beat_ns / 2;
    loop {
        cluster.run_for(look_every)?;
        if spare(cluster).is_none() {
            return Ok(());
        }
        if liveness.is_over(cluster.now_ns()) && nobody_can_lead(cluster) {
            return Ok(());
        }
        cluster.plan.propose_ppm = cluster.plan.propose_ppm.max(100_000);
        let done = liveness.judge(
            cluster.now_ns(),
            &cluster.watch,
            &cluster.members,
            |id| !cluster.is_paused(cluster.proposer(id)) && !cluster.is_behind(id),
            cluster.client.acknowledged(),
            cluster.fabric.faults.full,
        )?;
        let unread = reads.iter().find(|(how, before)| cluster.client.answered(*how) == *before);
        if let (Some((how, _)), true) = (unread, liveness.is_over(cluster.now_ns())) {
            return Err(Violation::new(14, format!("no {how:?} read was answered after all faults stopped")));
        }
        let untold = untold(cluster);
        if let (Some(node), true) = (untold, liveness.is_over(cluster.now_ns())) {
            let what = format!("node {node} is a member, and was not told so after all faults stopped");
            return Err(Violation::new(14, what));
        }
        if done && unread.is_none() && untold.is_none() {
            outcome.recovery_ns = Some(liveness.waited_ns(cluster.now_ns()));
            return Ok(());
        }
    }
}

/// A node that runs, is a member in this very life, and does not know of any group.
fn untold(cluster: &Cluster) -> Option<NodeId> {
    let committed = cluster.watch.configurations.committed();
    let is_untold = |id: &NodeId| {
        let member = cluster.member(*id);
        let is_member = committed.names(*id, member.incarnation);
        is_member && member.alive && !member.seen.formed && !cluster.is_paused(*id)
    };
    cluster.ids().find(is_untold)
}

/// The kinds of reads that must be answered again, and how many of each were up to now.
fn wanted_reads(cluster: &Cluster) -> Vec<(Read, u64)> {
    let allowed = |how: &Read| *how != Read::Lease || cluster.plan.lease_reads;
    let kinds = Read::ALL.into_iter().filter(|how| cluster.plan.read_ppm > 0 && allowed(how));
    kinds.map(|how| (how, cluster.client.answered(how))).collect()
}

/// How many voters more than a majority are neither gone nor stopped for good, nor in need of a snapshot, by every
/// configuration that may be in force. When a majority is not, nothing is promised.
/// (A process may end itself even now: it waits for a fence that began before all faults stopped.)
fn spare(cluster: &Cluster) -> Option<usize> {
    let well = |(id, life): &(NodeId, Incarnation)| {
        let member = cluster.member(*id);
        member.alive
            && member.seen.formed
            && member.incarnation == *life
            && !cluster.is_behind(*id)
            && !cluster.is_paused(cluster.proposer(*id))
    };
    let spare = |one: &Configuration| {
        let voters = voters(one);
        voters.iter().filter(|voter| well(voter)).count().checked_sub(voters.len() / 2 + 1)
    };
    cluster.watch.configurations.relevant().map(|one| spare(one)).min().flatten()
}

/// Where host and acceptor are apart, the newest log may be that of a node whose host lacks what that log has not any more, and of nobody
/// else that runs: protocol.md 13, *Snapshots*, says that nobody leads then. Nobody leads, and no host that has its state is behind an
/// acceptor whose log is as new as those of a majority.
fn nobody_can_lead(cluster: &Cluster) -> bool {
    let members = || cluster.members.iter().filter(|member| member.belongs());
    if members().any(|member| member.seen.leads) {
        return false;
    }
    let can_lead = |one: &Configuration, candidate: &Member| {
        let voters = voters(one);
        let has_state = ProgressLine::read(&candidate.home.control, control::PROGRESS)
            .is_none_or(|line| line.flags & progress_flags::WANTS == 0);
        let votes = |member: &&Member| {
            voters.contains(&(member.id, member.incarnation)) && member.seen.last <= candidate.seen.last
        };
        let is_host_there = !cluster.is_paused(cluster.proposer(candidate.id));
        votes(&candidate) && has_state && is_host_there && members().filter(votes).count() > voters.len() / 2
    };
    cluster.watch.configurations.relevant().all(|one| !members().any(|member| can_lead(one, member)))
}

/// Whether a node is so far behind that leaders may have let it go, or will: a leader may stage half a ring more before
/// it notices that it has lost its majority, and serves the last three quarters of a ring. With snapshots that matters to nobody.
pub(crate) fn lags(cluster: &Cluster, id: NodeId) -> bool {
    if cluster.plan.snapshot_len > 0 {
        return false;
    }
    let staged = cluster.members.iter().map(|member| member.seen.end.0).max().unwrap_or(0);
    cluster.is_behind(id)
        || staged.saturating_sub(cluster.member(id).seen.applied.0) > cluster.plan.ring_len / 4
}
