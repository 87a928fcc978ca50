//! One run of one seed: form a group, let things go wrong, heal it, and see it get well.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use ringleader_core::types::NodeId;
use ringleader_core::verb::Plane;

use crate::cluster::Cluster;
use crate::fabric::{Faults, PipeId};
use crate::invariants::Violation;
use crate::invariants::liveness::Liveness;
use crate::rng::Rng;
use crate::schedule::{Fault, Plan};

/// New proposals that must be acknowledged after faults have stopped.
const NEW_PROPOSALS: u64 = 3;

/// What a run gave.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// What must not happen and did.
    pub violation: Option<Violation>,
    /// Committed entries.
    pub entries: u64,
    /// Acknowledged proposals.
    pub acknowledged: u64,
    /// Terms that had a leader.
    pub elections: u64,
    /// What nodes told their hosts, by kind, and how often.
    pub events: BTreeMap<String, u64>,
    /// Faults by kind.
    pub faults: Faults,
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

/// Runs a plan.
pub fn run_plan(plan: Plan, keep_trace: usize) -> Outcome {
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
    outcome.violation = result.err();
    outcome.entries = cluster.watch.history.len() as u64;
    outcome.acknowledged = cluster.client.acknowledged();
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
    recover(cluster, &mut rng, outcome)
}

fn recover(cluster: &mut Cluster, rng: &mut Rng, outcome: &mut Outcome) -> Result<(), Violation> {
    let calm = cluster.plan.calm.clone();
    cluster.heal(calm);
    let well = cluster.ids().filter(|id| cluster.member(*id).belongs() && !cluster.is_behind(*id)).count();
    let majority = usize::from(cluster.plan.nodes) / 2 + 1;
    if well < majority {
        // More is gone for good than a group can lose: nothing is promised then.
        return Ok(());
    }
    if cluster.plan.leave_stopped && well > majority {
        let spare = well - majority;
        let stopped: Vec<NodeId> = cluster
            .ids()
            .filter(|id| cluster.member(*id).belongs() && !lags(cluster, *id))
            .take(spare)
            .collect();
        // Those that stay must be able to go on by themselves: none may hang on a log that only a stopped one has.
        let others_fit = cluster
            .ids()
            .all(|id| stopped.contains(&id) || !cluster.member(id).belongs() || !lags(cluster, id));
        if others_fit && rng.chance(700_000) {
            for id in stopped {
                cluster.fabric.faults.pauses += 1;
                cluster.pause(id, u64::MAX);
            }
        }
    }
    let full = cluster.fabric.faults.full;
    let acknowledged = cluster.client.acknowledged();
    let mut liveness =
        Liveness::new(cluster.now_ns(), cluster.plan.bound_ns, acknowledged, NEW_PROPOSALS, full);
    cluster.proposing = true;
    let look_every = cluster.plan.timing.beat_ns / 2;
    loop {
        cluster.run_for(look_every)?;
        cluster.plan.propose_ppm = cluster.plan.propose_ppm.max(100_000);
        let done = liveness.judge(
            cluster.now_ns(),
            &cluster.watch,
            &cluster.members,
            |id| !cluster.is_paused(id) && !cluster.is_behind(id),
            cluster.client.acknowledged(),
            cluster.fabric.faults.full,
        )?;
        if done {
            outcome.recovery_ns = Some(liveness.waited_ns(cluster.now_ns()));
            return Ok(());
        }
    }
}

/// Whether a node is so far behind that leaders may have let it go, or will: a leader may stage half a ring more before
/// it notices that it has lost its majority, and serves the last three quarters of a ring.
fn lags(cluster: &Cluster, id: NodeId) -> bool {
    let staged = cluster.members.iter().map(|member| member.seen.end.0).max().unwrap_or(0);
    cluster.is_behind(id)
        || staged.saturating_sub(cluster.member(id).seen.applied.0) > cluster.plan.ring_len / 4
}

/// The time in which things go wrong.
#[derive(Debug)]
struct Storm {
    rng: Rng,
    until_ns: u64,
    next_ns: u64,
    /// Cuts to be mended, and when; nodes to be started again.
    mend: Vec<(u64, NodeId, NodeId)>,
    restart: Vec<(u64, NodeId)>,
}

impl Storm {
    fn new(rng: &mut Rng, cluster: &Cluster) -> Storm {
        let now = cluster.now_ns();
        let mut rng = rng.fork();
        let first = rng.below(2 * cluster.plan.fault_every_ns);
        Storm {
            until_ns: now + cluster.plan.safety_ns,
            next_ns: now + first,
            rng,
            mend: Vec::new(),
            restart: Vec::new(),
        }
    }

    fn rage(mut self, cluster: &mut Cluster) -> Result<(), Violation> {
        while cluster.now_ns() < self.until_ns {
            let due = self
                .mend
                .iter()
                .map(|(at, ..)| *at)
                .chain(self.restart.iter().map(|(at, _)| *at))
                .chain([self.next_ns, self.until_ns])
                .min()
                .unwrap_or(self.until_ns);
            let now = cluster.now_ns();
            cluster.run_for(due.saturating_sub(now))?;
            let now = cluster.now_ns();
            for (_, from, to) in self.mend.extract_if(.., |(at, ..)| *at <= now) {
                cluster.fabric.cut(from, to, false);
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
        Ok(())
    }

    fn strike(&mut self, cluster: &mut Cluster, fault: Fault) -> Result<(), Violation> {
        let nodes = u64::from(cluster.plan.nodes);
        let victim = NodeId(1 + self.rng.below(nodes) as u8);
        let other = NodeId(1 + (u64::from(victim.0) + self.rng.below(nodes - 1)) as u8 % nodes as u8);
        let lasts = self.rng.within(cluster.plan.fault_ns);
        let until = cluster.now_ns() + lasts;
        let leader = cluster.leader().unwrap_or(victim);
        let plane = if self.rng.chance(500_000) { Plane::Control } else { Plane::Log };
        match fault {
            Fault::Pause => self.pause(cluster, victim, lasts),
            Fault::PauseLeader => self.pause(cluster, leader, lasts),
            Fault::PauseLeaderInCopy => {
                cluster.fabric.slow_landings(leader, lasts);
                cluster.run_for(lasts / 10)?;
                self.pause(cluster, leader, lasts);
            }
            Fault::Crash => self.crash(cluster, victim, until),
            Fault::CrashLeader => self.crash(cluster, leader, until),
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
            Fault::BreakPipe => cluster.fabric.break_pipe(PipeId { from: victim, to: other, plane }),
            Fault::BreakGate => cluster.fabric.break_gate(victim, other),
            Fault::Mute => cluster.fabric.mute(PipeId { from: victim, to: other, plane }, lasts),
            Fault::Slow => {
                cluster.fabric.faults.slow_nodes += 1;
                let times = self.rng.within((4, 60));
                cluster.slow(victim, times, lasts);
            }
        }
        Ok(())
    }

    fn pause(&mut self, cluster: &mut Cluster, id: NodeId, lasts: u64) {
        if cluster.member(id).alive {
            cluster.fabric.faults.pauses += 1;
            cluster.pause(id, lasts);
        }
    }

    /// Never more than a minority for good, and none on whose log another depends that has fallen far behind.
    fn crash(&mut self, cluster: &mut Cluster, id: NodeId, until: u64) {
        let gone = cluster.ids().filter(|other| !cluster.member(*other).belongs()).count();
        let minority = (usize::from(cluster.plan.nodes) - 1) / 2;
        let behind =
            cluster.ids().any(|other| other != id && cluster.member(other).belongs() && lags(cluster, other));
        if gone >= minority || behind || !cluster.member(id).belongs() {
            return;
        }
        cluster.fabric.faults.crashes += 1;
        cluster.crash(id);
        if self.rng.chance(cluster.plan.restart_ppm) {
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
