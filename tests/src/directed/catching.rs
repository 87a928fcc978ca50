//! A node is stopped until the ring has gone on without it, and comes back while entries go on: it needs a snapshot. In the middle
//! of that its source dies, begins anew, is cut off or writes another; the leader falls, or hands over, or is cut off;
//! the node itself is stopped, or begins anew without its memory; nobody can save, or load.
//!
//! What is at stake: no node begins with a state that is not the history's, or goes back behind what it was counted for; and the
//! group gets well, with all its nodes.

use ringleader_core::layout::snapshot;
use ringleader_core::membership::Readmit;
use ringleader_core::snapshot::CatchUp;
use ringleader_core::types::NodeId;

use crate::cluster::Cluster;
use crate::invariants::Violation;
use crate::run::Outcome;
use crate::schedule::{Losses, Sizes};
use crate::story::{Ended, Story, Told, plan, tell};

/// Where the number stands in the line of a saved snapshot.
const NUMBER: u64 = snapshot::HEADER + 24;

/// What happens in the middle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Turn {
    Nothing,
    SourceDies,
    SourceIsStopped,
    SourceIsCutOff,
    SourceWritesAnother,
    LeaderIsStopped,
    LeaderHandsOver,
    LeaderIsCutOff,
    TargetIsStopped,
    TargetBeginsAnew,
    NobodyCan,
}

const TURNS: [Turn; 11] = [
    Turn::Nothing,
    Turn::SourceDies,
    Turn::SourceIsStopped,
    Turn::SourceIsCutOff,
    Turn::SourceWritesAnother,
    Turn::LeaderIsStopped,
    Turn::LeaderHandsOver,
    Turn::LeaderIsCutOff,
    Turn::TargetIsStopped,
    Turn::TargetBeginsAnew,
    Turn::NobodyCan,
];

/// See the module.
pub(super) fn run(seed: u64, keep_trace: usize) -> Outcome {
    let mut plan = plan(seed, 21);
    let turn = TURNS[(seed % TURNS.len() as u64) as usize];
    let suspect = plan.timing.suspect_after_ns;
    let vary = |values: &[u64], by: u64| values[(seed / 11 / by % values.len() as u64) as usize];
    plan.nodes = if turn == Turn::SourceWritesAnother { 5 } else { vary(&[3, 3, 4, 5], 1) as u8 };
    // In pieces, so that there is a middle; and what cannot be READ within the limit can never be had while entries go on.
    let (state_len, max_write) = match (turn, vary(&[0, 1, 2], 4)) {
        (Turn::Nothing, 0) => (100, 65_536),
        (_, 0 | 1) => (60_000, 4_096),
        _ => (300_000, 16_384),
    };
    plan.with_snapshots(state_len, vary(&[15, 20, 30], 12));
    plan.timing.max_write = max_write;
    plan.job_ns = (0, vary(&[suspect / 20, suspect / 4, 2 * suspect], 2));
    plan.losses = Losses::Any;
    plan.restart_ppm = 1_000_000;
    plan.readmit = Readmit::Auto;
    plan.sizes = if seed.is_multiple_of(2) { Sizes::Large } else { Sizes::Mixed };
    plan.propose_ppm = 300_000;
    plan.burst = 4;
    tell(plan, keep_trace, |story| {
        story.group()?;
        let rounds = story.rng.within((1, 2));
        story.rounds(rounds, |story| round(story, turn))
    })
}

fn round(story: &mut Story, turn: Turn) -> Told<()> {
    let leader = story.leader()?;
    let away = story.any_but(leader);
    let also = other(story, &[leader, away]).filter(|_| story.cluster.plan.nodes == 5);
    story.pause(away, u64::MAX);
    if let Some(also) = also {
        story.pause(also, u64::MAX);
    }
    let ring_len = story.cluster.plan.ring_len;
    let gone = move |cluster: &Cluster| {
        cluster.member(leader).seen.base.0 > cluster.member(away).seen.applied.0 + ring_len / 8
    };
    story.until_within(3 * story.soon_ns(), gone)?;
    let from_the_start = turn == Turn::NobodyCan && story.rng.chance(500_000);
    if from_the_start {
        story.cluster.plan.job_fails_ppm = 1_000_000;
    }
    story.cluster.resume(away);
    if let Some(also) = also.filter(|_| turn != Turn::SourceWritesAnother) {
        let later = story.moment(story.cluster.plan.timing.suspect_after_ns);
        story.pass(later)?;
        story.cluster.resume(also);
    }
    if turn == Turn::Nothing {
        return caught_up(story, away);
    }
    let begun = move |cluster: &Cluster| match doing(cluster, leader, away) {
        Some(CatchUp::Taking { fetched, .. }) => turn != Turn::SourceWritesAnother || fetched > 0,
        Some(CatchUp::NoSource) => true,
        _ => false,
    };
    story.until(begun)?;
    let source = match doing(story.cluster, leader, away) {
        Some(CatchUp::Taking { source, .. }) => source,
        _ => leader,
    };
    let on_its_way = story.moment(story.cluster.plan.timing.beat_ns / 2);
    story.pass(on_its_way)?;
    happen(story, turn, (leader, away, source), also)?;
    caught_up(story, away)
}

fn happen(
    story: &mut Story,
    turn: Turn,
    (leader, away, source): (NodeId, NodeId, NodeId),
    also: Option<NodeId>,
) -> Told<()> {
    let suspect = story.cluster.plan.timing.suspect_after_ns;
    let for_ns = suspect / 4 + story.moment(16 * suspect);
    match turn {
        Turn::Nothing => {}
        Turn::SourceDies => {
            if story.crash(source) && story.rng.chance(700_000) {
                let after = story.moment(2 * suspect);
                story.pass(after)?;
                story.cluster.fabric.faults.restarts += 1;
                story.cluster.start(source);
            }
        }
        Turn::SourceIsStopped => story.pause(source, for_ns),
        Turn::SourceIsCutOff => cut_for(story, away, source, for_ns)?,
        Turn::SourceWritesAnother => {
            // Its leader does not hear of the node any more, and has another one take a newer snapshot; the node hears of its source
            // just often enough to go on.
            let Some(also) = also else { return Err(Ended::Untold) };
            let number = |cluster: &Cluster| cluster.member(source).home.snapshot.load(NUMBER);
            let (before, had) = (number(story.cluster), fetched(story.cluster, away));
            story.cut(leader, away, true);
            story.cut(away, source, true);
            story.pass(5 * suspect)?;
            story.cut(away, source, false);
            story.until(|cluster| fetched(cluster, away) > had)?;
            story.cut(away, source, true);
            story.pass(5 * suspect)?;
            story.cluster.resume(also);
            story.until(|cluster| number(cluster) != before)?;
            story.cut(away, source, false);
            story.pass(for_ns)?;
            story.cut(leader, away, false);
        }
        Turn::LeaderIsStopped => story.pause(leader, 2 * suspect + for_ns),
        Turn::LeaderHandsOver => {
            for other in story.cluster.ids().filter(|id| *id != leader) {
                if story.cluster.transfer(leader, other) {
                    break;
                }
            }
        }
        Turn::LeaderIsCutOff => cut_for(story, away, leader, for_ns)?,
        Turn::TargetIsStopped => story.pause(away, for_ns),
        Turn::TargetBeginsAnew => {
            if story.crash(away) {
                let after = story.moment(2 * suspect);
                story.pass(after)?;
                story.cluster.fabric.faults.restarts += 1;
                story.cluster.start(away);
            }
        }
        Turn::NobodyCan => {
            story.cluster.plan.job_fails_ppm = 1_000_000;
            story.pass(for_ns)?;
            story.cluster.plan.job_fails_ppm = 0;
        }
    }
    Ok(())
}

fn cut_for(story: &mut Story, one: NodeId, other: NodeId, for_ns: u64) -> Told<()> {
    story.cut(one, other, true);
    story.pass(for_ns)?;
    story.cut(one, other, false);
    Ok(())
}

/// Whatever happened: while entries go on, the node gets in somebody's window, in time.
fn caught_up(story: &mut Story, away: NodeId) -> Told<()> {
    let limit = story.cluster.plan.timing.catchup_limit_ns;
    let within_ns = 4 * limit + 8 * story.soon_ns();
    story.mend();
    let well = |cluster: &Cluster| {
        let member = cluster.member(away);
        let in_window = |leader: NodeId| cluster.member(leader).seen.followers[away.slot()].in_window;
        !member.belongs() || cluster.leader().is_some_and(|leader| leader == away || in_window(leader))
    };
    if story.cluster.run_until(within_ns, well)? {
        return Ok(());
    }
    let doing = story.cluster.leader().and_then(|leader| doing(story.cluster, leader, away));
    let what = format!("node {away} has not caught up within {} us: {doing:?}", within_ns / 1000);
    Err(Ended::Violation(Violation::new(14, what)))
}

/// Bytes that a node has of the snapshot that it takes.
fn fetched(cluster: &Cluster, node: NodeId) -> u64 {
    cluster.status(node).and_then(|status| status.taking).map_or(0, |taking| taking.fetched)
}

fn doing(cluster: &Cluster, leader: NodeId, node: NodeId) -> Option<CatchUp> {
    cluster.status(leader)?.followers[node.slot()]?.catch_up
}

fn other(story: &mut Story, than: &[NodeId]) -> Option<NodeId> {
    let rest: Vec<NodeId> = story.cluster.ids().filter(|id| !than.contains(id)).collect();
    (!rest.is_empty()).then(|| story.rng.pick(&rest))
}
