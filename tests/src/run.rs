//! One run of one seed: form a group, let things go wrong, heal it, and see it get well.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use ringleader_core::types::NodeId;

use crate::cluster::Cluster;
use crate::fabric::Faults;
use crate::invariants::Violation;
use crate::recover::recover;
use crate::rng::Rng;
use crate::schedule::Plan;
use crate::storm::Storm;

/// What a run gave.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// What must not happen and did.
    pub violation: Option<Violation>,
    /// Replicas in the group.
    pub nodes: u8,
    /// Committed entries.
    pub entries: u64,
    /// Acknowledged proposals.
    pub acknowledged: u64,
    /// Reads that were answered.
    pub reads: u64,
    /// Terms that had a leader.
    pub elections: u64,
    /// What nodes told their hosts, by kind, and how often.
    pub events: BTreeMap<String, u64>,
    /// Faults by kind.
    pub faults: Faults,
    /// All that a directed schedule wants to happen happened.
    pub told: bool,
    /// From the end of faults until all was well; none when it was not judged.
    pub recovery_ns: Option<u64>,
    /// Simulated nanoseconds.
    pub simulated_ns: u64,
    /// Lines of the story that were not kept.
    pub trace_left_out: u64,
    /// The story's last lines.
    pub trace: Vec<String>,
}

/// Runs a seed and keeps the last lines of its story.
pub fn run(seed: u64, nodes: u8, keep_trace: usize) -> Outcome {
    run_plan(Plan::draw(seed, nodes), keep_trace)
}

/// The same with members that change.
pub fn run_changing(seed: u64, nodes: u8, keep_trace: usize) -> Outcome {
    run_plan(Plan::changing(seed, nodes), keep_trace)
}

/// The same with snapshots.
pub fn run_catching(seed: u64, nodes: u8, keep_trace: usize) -> Outcome {
    run_plan(Plan::catching(seed, nodes), keep_trace)
}

/// The same with hosts and acceptors apart.
pub fn run_split(seed: u64, nodes: u8, keep_trace: usize) -> Outcome {
    run_plan(Plan::splitting(seed, nodes), keep_trace)
}

/// The same with snapshots, over nodes whose hosts and acceptors are apart.
pub fn run_split_catching(seed: u64, nodes: u8, keep_trace: usize) -> Outcome {
    run_plan(Plan::splitting_catching(seed, nodes), keep_trace)
}

/// Runs a plan: a storm of its faults, and the calm after.
pub fn run_plan(plan: Plan, keep_trace: usize) -> Outcome {
    run_with(plan, keep_trace, drive)
}

/// Runs a group of a plan through what `drive` does to it.
pub fn run_with(
    plan: Plan,
    keep_trace: usize,
    drive: impl FnOnce(&mut Cluster, &mut Outcome) -> Result<(), Violation>,
) -> Outcome {
    let mut cluster = Cluster::new(plan, keep_trace);
    let mut outcome = Outcome::default();
    let result = catch_unwind(AssertUnwindSafe(|| drive(&mut cluster, &mut outcome)));
    let result = result.unwrap_or_else(|payload| {
        let said = payload
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| payload.downcast_ref::<&str>().map(|text| (*text).to_owned()))
            .unwrap_or_default();
        let place = LAST_PANIC.with_borrow_mut(std::mem::take);
        Err(Violation::new(0, format!("{said} {place}")))
    });
    let result = result.and_then(|()| cluster.watch.end(&cluster.client, &cluster.members));
    outcome.nodes = cluster.plan.nodes;
    outcome.violation = result.err();
    outcome.entries = cluster.watch.history.len() as u64;
    outcome.acknowledged = cluster.client.acknowledged();
    outcome.reads = cluster.client.reads().len() as u64;
    outcome.elections = cluster.watch.leaders.count();
    outcome.events = std::mem::take(&mut cluster.events);
    outcome.faults = cluster.fabric.faults;
    outcome.simulated_ns = cluster.now_ns();
    (outcome.trace_left_out, outcome.trace) = cluster.fabric.trace.take();
    outcome
}

thread_local! {
    static LAST_PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Panics of the core are violations like others: their place is kept, and nothing is printed.
pub fn quiet_panics() {
    std::panic::set_hook(Box::new(|info| {
        let place =
            info.location().map(|place| format!("({}:{})", place.file(), place.line())).unwrap_or_default();
        LAST_PANIC.with_borrow_mut(|last| *last = place);
    }));
}

fn drive(cluster: &mut Cluster, outcome: &mut Outcome) -> Result<(), Violation> {
    let mut rng = Rng::new(cluster.plan.seed ^ 0xfa17_0000_0000_0000);
    let former = NodeId(1 + rng.below(u64::from(cluster.plan.nodes)) as u8);
    let lead_in = rng.below(cluster.plan.timing.beat_ns);
    cluster.run_for(lead_in)?;
    cluster.form(former);
    if !cluster.run_until(4 * cluster.plan.bound_ns, Cluster::is_formed)? {
        return Err(Violation::new(14, "the group was not formed in time".into()));
    }
    Storm::new(&mut rng, cluster).rage(cluster)?;
    outcome.told = true;
    recover(cluster, &mut rng, outcome)
}
