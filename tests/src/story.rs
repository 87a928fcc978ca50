//! The words in which directed schedules are told: a group with a leader, somebody stopped at some moment, another elected.
//!
//! All invariants are asked all the time. A story that does not get to its point is no failure: it is left, and the group
//! must get well as after any other faults.

use ringleader_core::timing::Timing;
use ringleader_core::types::NodeId;

use crate::cluster::Cluster;
use crate::invariants::Violation;
use crate::recover::recover;
use crate::rng::Rng;
use crate::run::{Outcome, run_with};
use crate::schedule::{Losses, Plan};
use crate::storm::can_lose;

/// Why a story ended before its end.
#[derive(Debug)]
pub enum Ended {
    /// By what must never happen.
    Violation(Violation),
    /// What it waits for did not happen, and need not have.
    Untold,
}

impl From<Violation> for Ended {
    fn from(violation: Violation) -> Ended {
        Ended::Violation(violation)
    }
}

/// What a step of a story gives.
pub type Told<T> = Result<T, Ended>;

/// A group, and the chance that varies the moments of its story.
#[derive(Debug)]
pub struct Story<'a> {
    /// The group.
    pub cluster: &'a mut Cluster,
    /// What the seed leaves to chance.
    pub rng: Rng,
}

/// Tells a story to a group of that plan, lets all faults stop, and sees the group get well.
pub fn tell(plan: Plan, keep_trace: usize, story: impl FnOnce(&mut Story) -> Told<()>) -> Outcome {
    run_with(plan, keep_trace, |cluster, outcome| {
        let mut rng = Rng::new(cluster.plan.seed ^ 0x5702_0000_0000_0000);
        let mut telling = Story { cluster, rng: rng.fork() };
        match story(&mut telling) {
            Ok(()) => outcome.told = true,
            Err(Ended::Untold) => {}
            Err(Ended::Violation(violation)) => return Err(violation),
        }
        recover(cluster, &mut rng, outcome)
    })
}

/// The plan of a directed seed: no faults but the story's own, and a fabric that does all it may in small measure.
pub fn plan(seed: u64, salt: u64) -> Plan {
    let mut rng = Rng::new(seed ^ salt << 40);
    let timing = if rng.chance(300_000) { Timing::LOCAL } else { Timing::HARDWARE };
    let nodes = rng.pick(&[3, 3, 3, 5]);
    let mut plan = Plan::quiet(seed, nodes, timing);
    let beat = timing.beat_ns;
    plan.loop_ns = rng.pick(&[(beat / 40, beat / 5), (beat / 100, beat / 20), (beat / 20, beat / 2)]);
    plan.stored_quorum = rng.chance(250_000);
    plan.losses = Losses::MajorityFits;
    plan.drift_ppm = timing.drift_ppm / 2;
    plan.leave_stopped = rng.chance(200_000);
    plan.propose_ppm = rng.pick(&[0, 20_000, 200_000]);
    plan.again_ppm = rng.pick(&[0, 1_000_000]);
    let often = |rng: &mut Rng| rng.pick(&[0, 100_000, 500_000]);
    let slowest = beat / rng.within((4, 40));
    let weather = &mut plan.weather;
    weather.latency_ns = (slowest / 4, slowest);
    weather.split_ppm = often(&mut rng);
    weather.word_split_ppm = often(&mut rng);
    weather.flight_ppm = often(&mut rng);
    weather.flight_ns = beat * rng.within((1, 8)) / 2;
    weather.landing_ppm = often(&mut rng);
    weather.landing_ns = beat * rng.within((1, 8)) / 2;
    weather.ack_late_ppm = often(&mut rng);
    weather.ack_ns = beat * rng.within((1, 8));
    weather.prompt_ppm = rng.pick(&[0, 500_000, 1_000_000]);
    weather.refusal_breaks_ppm = rng.pick(&[0, 500_000]);
    weather.timeout_ns = timing.suspect_after_ns * rng.within((2, 24)) / 4;
    weather.resend_ns = beat * rng.within((1, 10));
    weather.state_ns = (beat / 100, beat * rng.within((1, 20)) / 10);
    weather.fence_ns = (beat / 100, beat * rng.within((1, 40)) / 10);
    plan
}

impl Story<'_> {
    /// Within this, whatever must come in the ordinary way of things has come.
    pub fn soon_ns(&self) -> u64 {
        30 * self.cluster.plan.timing.suspect_after_ns
    }

    /// Up to that many nanoseconds, any of them.
    pub fn moment(&mut self, within_ns: u64) -> u64 {
        self.rng.below(within_ns + 1)
    }

    /// Lets time pass.
    pub fn pass(&mut self, for_ns: u64) -> Told<()> {
        Ok(self.cluster.run_for(for_ns)?)
    }

    /// Lets time pass until something is so, or leaves the story.
    pub fn until(&mut self, so: impl FnMut(&Cluster) -> bool) -> Told<()> {
        let soon = self.soon_ns();
        self.until_within(soon, so)
    }

    /// The same with a bound of its own.
    pub fn until_within(&mut self, bound_ns: u64, so: impl FnMut(&Cluster) -> bool) -> Told<()> {
        if self.cluster.run_until(bound_ns, so)? { Ok(()) } else { Err(Ended::Untold) }
    }

    /// So many rounds, each from whatever the one before has left; some of them must get to their point.
    pub fn rounds(&mut self, count: u64, mut round: impl FnMut(&mut Self) -> Told<()>) -> Told<()> {
        let mut told = 0;
        for _ in 0..count {
            match round(self) {
                Ok(()) => told += 1,
                Err(Ended::Untold) => self.mend(),
                Err(violation) => return Err(violation),
            }
        }
        if told > 0 { Ok(()) } else { Err(Ended::Untold) }
    }

    /// No link is cut, nobody is stopped, or about to be.
    pub fn mend(&mut self) {
        self.cluster.clear_trap();
        for one in self.cluster.ids() {
            self.cluster.resume(one);
            for other in self.cluster.ids() {
                self.cluster.fabric.cut(one, other, false);
            }
        }
    }

    /// Forms the group, and waits for a leader that has committed something.
    pub fn group(&mut self) -> Told<NodeId> {
        let former = self.any();
        self.cluster.form(former);
        self.until(Cluster::is_formed)?;
        self.until(|cluster| !cluster.watch.history.is_empty())?;
        self.leader()
    }

    /// Waits for somebody who leads.
    pub fn leader(&mut self) -> Told<NodeId> {
        self.until(|cluster| cluster.leader().is_some())?;
        self.cluster.leader().ok_or(Ended::Untold)
    }

    /// Waits for a leader other than that one.
    pub fn leader_but(&mut self, than: NodeId) -> Told<NodeId> {
        let other = |cluster: &Cluster| {
            let leads =
                |id: &NodeId| *id != than && cluster.member(*id).seen.leads && !cluster.is_paused(*id);
            cluster.ids().filter(leads).max_by_key(|id| cluster.promise(*id))
        };
        self.until(|cluster| other(cluster).is_some())?;
        other(self.cluster).ok_or(Ended::Untold)
    }

    /// Waits until somebody asks for votes.
    pub fn candidate(&mut self) -> Told<NodeId> {
        let stands = |cluster: &Cluster| cluster.ids().find(|id| cluster.member(*id).seen.stands);
        self.until(|cluster| stands(cluster).is_some())?;
        stands(self.cluster).ok_or(Ended::Untold)
    }

    /// Proposes up to so many payloads of up to `largest` bytes at once; how many were taken.
    pub fn propose(&mut self, leader: NodeId, count: u64, largest: usize) -> u64 {
        let mut taken = 0;
        for _ in 0..count {
            let len = self.rng.within((8, largest as u64)) as usize;
            if !self.cluster.propose(leader, len) {
                break;
            }
            taken += 1;
        }
        taken
    }

    /// One of the nodes.
    pub fn any(&mut self) -> NodeId {
        NodeId(1 + self.rng.below(u64::from(self.cluster.plan.nodes)) as u8)
    }

    /// One of the nodes, but not that one.
    pub fn any_but(&mut self, but: NodeId) -> NodeId {
        let nodes = u64::from(self.cluster.plan.nodes);
        NodeId(1 + (u64::from(but.0) + self.rng.below(nodes - 1)) as u8 % nodes as u8)
    }

    /// Stops a node's process.
    pub fn pause(&mut self, id: NodeId, for_ns: u64) {
        self.cluster.fabric.faults.pauses += 1;
        self.cluster.pause(id, for_ns);
    }

    /// Cuts a node off from another, both ways, or mends that.
    pub fn cut(&mut self, one: NodeId, other: NodeId, cut: bool) {
        self.cluster.fabric.faults.cuts_both_ways += u64::from(cut);
        self.cluster.fabric.cut(one, other, cut);
        self.cluster.fabric.cut(other, one, cut);
    }

    /// Kills a node's process, with or without its memory, if the group can lose it.
    pub fn crash(&mut self, id: NodeId) -> bool {
        let can = can_lose(self.cluster, id);
        if can && self.rng.chance(500_000) {
            self.cluster.fabric.faults.crashes_keeping_memory += 1;
            self.cluster.crash_keeping_memory(id);
        } else if can {
            self.cluster.fabric.faults.crashes += 1;
            self.cluster.crash(id);
        }
        can
    }
}
