//! A group of production replicas on the simulated fabric: their loops, their clocks, their lives and their client.
//!
//! Each node runs the agent's loop at intervals of its own: completions, proposals, tick, events, apply, verbs. It may be
//! stopped between any two of these. The invariants are asked after each. What goes wrong, and when, is not decided
//! here: `run` does that for seeds, a test for itself.

mod apart;
mod applying;
mod reading;
mod told;

pub use reading::Trap;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::sync::Arc;

use ringleader_core::entry;
use ringleader_core::membership::{Change, ChangeError, Configuration};
use ringleader_core::options::{Half, Options};
use ringleader_core::proposer::{Confirm, OwnCopy, Quorum};
use ringleader_core::read::{LeaseReads, Read};
use ringleader_core::replica::{FormError, ProposeError, Replica, Status};
use ringleader_core::types::{Boot, Incarnation, Instant, LogPoint, NodeId, Promise};

use self::applying::Job;
use crate::application::Application;
use crate::client::Client;
use crate::fabric::{Domain, Fabric, Home, SimArea, SimMemory, Weather, is_host, node_of};
use crate::invariants::{Violation, Watch};
use crate::rng::Rng;
use crate::schedule::{Plan, Sizes};
use crate::trace::Trace;
use crate::view::{Member, Seen, look};

/// The client gives up on a payload that has been unknown so often.
const MAX_TRIES: u32 = 3;
/// An operator asks so often for one change.
const MAX_WISHES: u32 = 400;
/// Completions a loop takes at most.
const REAP_BATCH: usize = 32;

/// Where in its loop a node is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// Completions, proposals, tick.
    Inputs,
    /// Events and applying.
    Events,
    /// Verbs.
    Verbs,
}

#[derive(Debug)]
struct Node {
    replica: Option<Replica<SimMemory>>,
    stage: Stage,
    /// Number of the round that is to come.
    next_round: u64,
    /// What its loop has read from its clock last.
    clock_read: Instant,
    /// Reads that wait for its loop to come to them.
    asked: Vec<Read>,
    /// Its clock: what it shows at time 0, and how its rate differs from the true one.
    clock_offset_ns: u64,
    clock_ppm: i64,
    paused_until_ns: u64,
    /// The loop of a slow node takes so many times longer.
    slowness: u64,
    slow_until_ns: u64,
    /// Its application takes nothing until then.
    stalled_until_ns: u64,
    /// Of a host that died: where its application stood.
    kept: Option<(LogPoint, Configuration)>,
    /// What it has been handed, and what it is told to do about snapshots.
    application: Application,
    job: Option<Job>,
    /// Of a host: where it does that.
    snapshot: SimArea,
    /// Told by a leader to be below what its ring can serve.
    behind: bool,
    /// Must end: it could not fence a writer.
    aborted: bool,
}

/// When a node's loop comes round: time, number of the round, node. Only the round scheduled last counts.
type Round = Reverse<(u64, u64, u8)>;

/// A group and all that belongs to a run.
#[derive(Debug)]
pub struct Cluster {
    /// What the run is like.
    pub plan: Plan,
    /// The fabric.
    pub fabric: Fabric,
    /// All invariants.
    pub watch: Watch,
    /// The client.
    pub client: Client,
    /// All nodes, by id.
    pub members: Vec<Member>,
    nodes: Vec<Node>,
    rounds: BinaryHeap<Round>,
    scheduled: u64,
    rng: Rng,
    /// What nodes told their hosts, by kind, and how often.
    pub events: BTreeMap<String, u64>,
    /// Changes of the members that an operator wants, and how often a leader has refused each.
    pub wishes: VecDeque<(Change, u32)>,
    /// The client proposes.
    pub proposing: bool,
    /// The client reads, as often as the plan says.
    pub reading: bool,
    /// Whom to stop, and where.
    trap: Option<(NodeId, Trap)>,
    /// Seen at a proposal, and told at the next step.
    violation: Option<Violation>,
    group: u128,
}

impl Cluster {
    /// All nodes started, none in a group.
    pub fn new(plan: Plan, keep_trace: usize) -> Cluster {
        let mut rng = Rng::new(plan.seed ^ 0xc105_7e12_0000_0000);
        let ids: Vec<NodeId> = (1..=plan.nodes + plan.spares).map(NodeId).collect();
        let fabric = Fabric::new(rng.word(), plan.split, plan.weather.clone(), Trace::new(keep_trace));
        let mut cluster = Cluster {
            watch: Watch::new(ids.clone(), &plan),
            fabric,
            client: Client::default(),
            members: Vec::new(),
            nodes: Vec::new(),
            rounds: BinaryHeap::new(),
            scheduled: 0,
            events: BTreeMap::new(),
            wishes: VecDeque::new(),
            proposing: true,
            reading: true,
            trap: None,
            violation: None,
            group: u128::from(rng.word()) << 64 | u128::from(rng.word()),
            rng,
            plan,
        };
        for id in ids {
            cluster.members.push(Member::new(id, cluster.plan.ring_len, cluster.plan.snapshot_len));
            let drift = cluster.plan.drift_ppm;
            let node = cluster.seat(drift);
            cluster.nodes.push(node);
            cluster.start(id);
        }
        cluster.seat_hosts();
        cluster.count_clocks();
        cluster
    }

    /// A place for a process, with a clock of its own.
    fn seat(&mut self, drift: u64) -> Node {
        Node {
            replica: None,
            stage: Stage::Inputs,
            next_round: 0,
            clock_read: Instant(0),
            asked: Vec::new(),
            clock_offset_ns: 1_000_000_000 + self.rng.below(1 << 40),
            clock_ppm: match self.rng.within((0, 2 * drift)) {
                at if self.plan.clocks_apart => {
                    if at < drift {
                        -(drift as i64)
                    } else {
                        drift as i64
                    }
                }
                at => at as i64 - drift as i64,
            },
            paused_until_ns: 0,
            slowness: 1,
            slow_until_ns: 0,
            stalled_until_ns: 0,
            kept: None,
            application: Application::default(),
            job: None,
            snapshot: Home::new(self.plan.ring_len, 0).snapshot,
            behind: false,
            aborted: false,
        }
    }

    /// How many clocks keep to the bound: of any two of those, rates differ by at most as much as the core is told.
    fn count_clocks(&mut self) {
        let bound = self.plan.timing.drift_ppm / 2;
        for node in self.nodes.iter().filter(|node| node.clock_ppm != 0) {
            match node.clock_ppm.unsigned_abs() <= bound {
                true => self.fabric.faults.clocks_within_bound += 1,
                false => self.fabric.faults.clocks_beyond_bound += 1,
            }
        }
    }

    /// All ids.
    pub fn ids(&self) -> impl Iterator<Item = NodeId> + use<> {
        (1..=self.plan.nodes + self.plan.spares).map(NodeId)
    }

    /// Those that form the group.
    pub fn founders(&self) -> impl Iterator<Item = NodeId> + use<> {
        (1..=self.plan.nodes).map(NodeId)
    }

    /// The time now.
    pub fn now_ns(&self) -> u64 {
        self.fabric.now_ns()
    }

    /// A node.
    pub fn member(&self, id: NodeId) -> &Member {
        &self.members[of(id)]
    }

    /// Asks a node to form the group.
    pub fn form(&mut self, id: NodeId) {
        let id = self.proposer(id);
        let (now, group) = (self.clock(id), self.group);
        if let Some(replica) = &mut self.nodes[at(id)].replica {
            // Its peers may be in the group that it was told to form in a former life.
            let formed = replica.form(now, group);
            assert!(
                matches!(formed, Ok(()) | Err(FormError::InGroup)),
                "a fresh node with peers can be asked to form"
            );
        }
    }

    /// Whether all nodes are in the group.
    pub fn is_formed(&self) -> bool {
        self.founders().all(|id| self.member(id).seen.formed)
    }

    /// The leader of the highest term that runs.
    pub fn leader(&self) -> Option<NodeId> {
        let leads = |member: &&Member| {
            member.belongs() && member.seen.leads && !self.is_paused(self.proposer(member.id))
        };
        self.members.iter().filter(leads).max_by_key(|member| member.seen.leading).map(|member| member.id)
    }

    /// Whether a node's process is stopped.
    pub fn is_paused(&self, id: NodeId) -> bool {
        self.nodes[at(id)].paused_until_ns > self.now_ns()
    }

    /// Whether a leader has found a node to be below what a ring can serve, and nobody can help it.
    pub fn is_behind(&self, id: NodeId) -> bool {
        self.nodes[at(id)].behind && self.plan.snapshot_len == 0
    }

    /// Whether a leader has ever found a node, in this life, to be below what a ring can serve.
    pub fn was_behind(&self, id: NodeId) -> bool {
        self.nodes[at(id)].behind
    }

    /// How a node's replica is, by its own account.
    pub fn status(&self, id: NodeId) -> Option<Status> {
        self.nodes[at(id)].replica.as_ref().map(Replica::status)
    }

    /// Stops a node's process for so long. Its memory answers, and what its NIC was told goes out.
    pub fn pause(&mut self, id: NodeId, for_ns: u64) {
        self.note(|| format!("node {id} is stopped for {} us", for_ns / 1000));
        // Who is stopped until somebody continues it has no next round that could come by itself.
        let until_ns = self.now_ns().saturating_add(for_ns);
        let node = &mut self.nodes[at(id)];
        if node.paused_until_ns != u64::MAX {
            node.paused_until_ns = until_ns;
        }
    }

    /// Continues it.
    pub fn resume(&mut self, id: NodeId) {
        if self.is_paused(id) {
            self.note(|| format!("node {id} goes on"));
            self.nodes[at(id)].paused_until_ns = 0;
            self.schedule(id, 0);
        }
    }

    /// Makes a node's loop slow for a while.
    pub fn slow(&mut self, id: NodeId, times: u64, for_ns: u64) {
        self.note(|| format!("node {id} is {times} times slower for {} us", for_ns / 1000));
        let now = self.now_ns();
        let node = &mut self.nodes[at(id)];
        node.slowness = times;
        node.slow_until_ns = now + for_ns;
    }

    /// Makes a node's application take nothing for a while.
    pub fn stall(&mut self, id: NodeId, for_ns: u64) {
        let id = self.proposer(id);
        self.note(|| format!("the application of node {id} takes nothing for {} us", for_ns / 1000));
        self.nodes[at(id)].stalled_until_ns = self.now_ns() + for_ns;
    }

    /// Kills a node's process, and its memory with it.
    pub fn crash(&mut self, id: NodeId) {
        self.crash_keeping_memory(id);
        self.lose_memory(id);
    }

    /// The memory of a dead node is gone, too.
    pub fn lose_memory(&mut self, id: NodeId) {
        self.note(|| format!("the memory of node {id} is gone"));
        self.fabric.fail_domain(id, Domain::Memory);
    }

    /// Kills a node's process. Its memory still answers READs, and takes WRITEs of whoever could write.
    pub fn crash_keeping_memory(&mut self, id: NodeId) {
        self.note(|| format!("node {id} dies"));
        self.nodes[at(id)].replica = None;
        self.members[of(id)].alive = false;
        self.members[of(id)].seen.leads = false;
        self.fabric.fail_domain(id, Domain::Process);
        if !self.plan.split {
            self.watch.died(id);
            self.forget(id, None);
            self.client.forget_reads(id);
        }
        self.nodes[at(id)].asked.clear();
    }

    /// Starts a node's process with empty memory.
    pub fn start(&mut self, id: NodeId) {
        let home = Home::new(self.plan.ring_len, self.plan.snapshot_len);
        let (incarnation, boot, seed) = (self.rng.word() | 1, self.rng.word() | 1, self.rng.word());
        let half = if self.plan.split { Half::Acceptor } else { Half::Whole };
        let options = self.options(id, half, incarnation, boot, seed);
        let areas = home.areas();
        self.fabric.start(id, home.clone());
        let now = self.clock(id);
        let mut replica = Replica::new(options, areas, now).expect("options of the simulator are sound");
        replica.set_readmit(self.plan.readmit);
        self.watch.started(id, self.plan.split);
        let member = &mut self.members[of(id)];
        member.life += 1;
        member.alive = true;
        member.incarnation = Incarnation(incarnation);
        if !self.plan.split {
            member.configuration = Arc::default();
        }
        member.acceptors = Arc::default();
        member.former = Arc::default();
        member.homes.push((member.incarnation, home.clone()));
        member.answers = home.staging.clone();
        member.home = home;
        if self.plan.split {
            let Seen { applied, base, kept, .. } = member.seen;
            member.seen = Seen { applied, base, kept, ..Seen::default() };
            // The host's staging ring stays.
            member.home.staging = member.host_staging.clone();
            if let Some((_, last)) = member.homes.last_mut() {
                last.staging = member.host_staging.clone();
            }
        } else {
            member.seen = look(&replica);
        }
        let life = member.life;
        let node = &mut self.nodes[at(id)];
        node.behind = false;
        node.application = Application::default();
        node.job = None;
        node.replica = Some(replica);
        node.stage = Stage::Inputs;
        node.clock_read = now;
        node.paused_until_ns = 0;
        node.aborted = false;
        self.see(id);
        self.note(|| format!("node {id} starts (life {life})"));
        let after = self.rng.within(self.plan.loop_ns);
        self.schedule(id, after);
    }

    /// What a process of a node is started with.
    fn options(&self, id: NodeId, half: Half, incarnation: u64, boot: u64, seed: u64) -> Options {
        let mut peers = [false; 16];
        // What its configuration file says: who founded the group, and who is in it now.
        let now: Vec<NodeId> = self
            .watch
            .configurations
            .relevant()
            .flat_map(|one| one.members().map(|member| member.node).collect::<Vec<_>>())
            .collect();
        for peer in self.founders().chain(now).filter(|peer| *peer != id) {
            peers[peer.slot()] = true;
        }
        Options {
            node: id,
            half,
            peers,
            ring_len: self.plan.ring_len,
            max_entry: self.plan.ring_len / 8,
            snapshot_len: self.plan.snapshot_len,
            timing: self.plan.timing,
            quorum: if self.plan.stored_quorum { Quorum::Stored } else { Quorum::Live },
            confirm: if self.plan.readback { Confirm::Readback } else { Confirm::Completion },
            own_copy: if seed & 2 == 0 { OwnCopy::First } else { OwnCopy::Last },
            lease_reads: self
                .plan
                .lease_reads
                .then_some(LeaseReads { clocks_drift_below_ppm: self.plan.timing.drift_ppm }),
            incarnation: Incarnation(incarnation),
            boot: Boot(boot),
            seed,
        }
    }

    /// Everything that can get well gets well: `weather` from now on, no cut, no silence, nobody stopped or slow.
    pub fn heal(&mut self, weather: Weather) {
        self.note(|| "all faults stop".into());
        self.clear_trap();
        self.fabric.heal(weather);
        self.plan.stutter_ppm = 0;
        self.plan.job_fails_ppm = 0;
        let seats: Vec<NodeId> = self.seats().collect();
        for id in seats {
            self.resume(id);
            self.nodes[at(id)].slow_until_ns = 0;
            self.nodes[at(id)].stalled_until_ns = 0;
        }
    }

    /// When the next thing happens.
    pub fn next_ns(&self) -> u64 {
        let round = self.rounds.peek().map_or(u64::MAX, |Reverse(next)| next.0);
        self.fabric.next_ns().map_or(round, |next| next.min(round))
    }

    /// Lets the next thing happen.
    pub fn step(&mut self) -> Result<(), Violation> {
        let round = self.rounds.peek().map_or(u64::MAX, |Reverse(next)| next.0);
        if self.fabric.next_ns().is_some_and(|next| next <= round) {
            self.fabric.step();
            if let Some(id) = self.fabric.take_beat_landed() {
                let now_ns = self.now_ns();
                self.watch.beat_landed(&self.members[of(id)], now_ns);
            }
        } else if let Some(Reverse((at_ns, number, id))) = self.rounds.pop() {
            self.fabric.advance(at_ns);
            self.round(NodeId(id), number)?;
        }
        if let Some(violation) = self.violation.take() {
            return Err(violation);
        }
        match self.fabric.take_breach() {
            Some(breach) => Err(Violation::new(breach.invariant, breach.what)),
            None => Ok(()),
        }
    }

    /// Lets time pass.
    pub fn run_for(&mut self, for_ns: u64) -> Result<(), Violation> {
        let until = self.now_ns() + for_ns;
        while self.next_ns() <= until {
            self.step()?;
        }
        self.fabric.advance(until);
        Ok(())
    }

    /// Lets time pass until something is so, or the bound is reached; says whether it is so.
    pub fn run_until(
        &mut self,
        bound_ns: u64,
        mut so: impl FnMut(&Cluster) -> bool,
    ) -> Result<bool, Violation> {
        let until = self.now_ns() + bound_ns;
        while !so(self) {
            if self.next_ns() > until {
                return Ok(false);
            }
            self.step()?;
        }
        Ok(true)
    }

    /// Proposes a payload of so many bytes to a node; false when it does not take it.
    pub fn propose(&mut self, id: NodeId, len: usize) -> bool {
        let id = self.proposer(id);
        let number = self.client.make(len);
        let taken = self.offer(id, number);
        if taken {
            self.see(id);
        }
        taken
    }

    fn round(&mut self, id: NodeId, number: u64) -> Result<(), Violation> {
        let now = self.now_ns();
        let node = &self.nodes[at(id)];
        if node.next_round != number || node.replica.is_none() {
            return Ok(());
        }
        if node.paused_until_ns > now {
            // Whoever continues it schedules its next round, unless time does.
            if node.paused_until_ns != u64::MAX {
                let wait = node.paused_until_ns - now;
                self.schedule(id, wait);
            }
            return Ok(());
        }
        loop {
            let stage = self.nodes[at(id)].stage;
            let begins = stage == Stage::Inputs;
            self.watch.before_step(&self.members[of(id)], self.runs(id), begins, now);
            let finished = match stage {
                Stage::Inputs => self.inputs(id)?,
                Stage::Events => {
                    self.arrivals(id);
                    self.events(id)?
                }
                Stage::Verbs => {
                    self.arrivals(id);
                    self.verbs(id)?
                }
            };
            if finished {
                self.nodes[at(id)].stage = match stage {
                    Stage::Inputs => Stage::Events,
                    Stage::Events => Stage::Verbs,
                    Stage::Verbs => Stage::Inputs,
                };
            }
            self.see(id);
            self.watch.stepped(&self.members[of(id)], now)?;
            if stage == Stage::Inputs && !is_host(id) {
                self.watch.looked(&self.members[of(id)])?;
            }
            // Between inputs and events the host has not been told yet what the status says.
            if finished && stage != Stage::Inputs {
                self.watch.after_step(node_of(id), &self.members, &self.fabric, &mut self.client)?;
            }
            self.judge_names();
            // The host hears of commits after the inputs that made them.
            if finished && stage != Stage::Inputs && self.proposes(id) {
                let member = &mut self.members[of(id)];
                member.former = Arc::clone(&member.configuration);
            }
            if self.nodes[at(id)].aborted {
                self.crash(id);
                return Ok(());
            }
            if self.is_orphan(id) {
                self.crash_host(node_of(id), true);
                self.start_host(node_of(id));
                return Ok(());
            }
            if self.is_paused(id) || finished && self.springs_after(id, stage) {
                return Ok(());
            }
            if self.rng.chance(self.plan.stutter_ppm) {
                self.fabric.faults.stutters += 1;
                let wait = self.rng.below(self.plan.stutter_ns);
                self.note(|| format!("node {id} stops after its {stage:?} for {} us", wait / 1000));
                self.schedule(id, wait);
                return Ok(());
            }
            if finished && stage == Stage::Verbs {
                break;
            }
        }
        let node = &self.nodes[at(id)];
        let slowness = if node.slow_until_ns > now { node.slowness } else { 1 };
        let wait = self.rng.within(self.plan.loop_ns) * slowness;
        self.schedule(id, wait);
        Ok(())
    }

    fn inputs(&mut self, id: NodeId) -> Result<bool, Violation> {
        let now = self.clock(id);
        self.nodes[at(id)].clock_read = now;
        for _ in 0..REAP_BATCH {
            let Some(done) = self.fabric.reap(id) else { break };
            if let Some(replica) = &mut self.nodes[at(id)].replica {
                replica.handle_completion(now, done);
            }
        }
        self.end_job(id)?;
        let leads = self.members[of(id)].seen.leads && self.proposes(id);
        if self.proposing && leads && self.rng.chance(self.plan.propose_ppm) {
            for _ in 0..1 + self.rng.below(self.plan.burst) {
                let number = match self.client.take_again() {
                    Some(number) => number,
                    None => {
                        let len = self.draw_len();
                        self.client.make(len)
                    }
                };
                if !self.offer(id, number) {
                    break;
                }
            }
        }
        if let Some(replica) = &mut self.nodes[at(id)].replica {
            replica.handle_tick(now);
        }
        if self.members[of(id)].seen.leads && self.proposes(id) {
            self.grant_wish(id, now);
        }
        Ok(true)
    }

    /// An operator asks a leader for a change of the members, until it is made or has been refused too often.
    fn grant_wish(&mut self, id: NodeId, now: Instant) {
        let (Some((wish, tries)), Some(replica)) = (self.wishes.pop_front(), &mut self.nodes[at(id)].replica)
        else {
            return;
        };
        if let Change::Add { node, .. } = wish {
            replica.connect_to(node);
        }
        match replica.change(now, &wish) {
            Ok(ticket) => {
                self.fabric.faults.member_changes += 1;
                self.note(|| format!("node {id}: {wish:?} by entry {}", ticket.index));
            }
            Err(ChangeError::NotCaughtUp { .. }) if tries < MAX_WISHES * 4 => {
                self.wishes.push_back((wish, tries + 1));
            }
            Err(
                ChangeError::NotLeader { .. }
                | ChangeError::TooEarly
                | ChangeError::Busy
                | ChangeError::Full
                | ChangeError::NotConnected
                | ChangeError::NotMember
                | ChangeError::WouldStop { .. },
            ) if tries < MAX_WISHES => self.wishes.push_back((wish, tries + 1)),
            Err(error) => {
                self.fabric.faults.member_changes_refused += 1;
                self.note(|| format!("node {id} refuses {wish:?}: {error:?}"));
            }
        }
    }

    /// Takes a node's own account of itself down.
    fn see(&mut self, id: NodeId) {
        if self.plan.split {
            return self.see_apart(id);
        }
        let Some(replica) = &self.nodes[at(id)].replica else { return };
        let member = &mut self.members[of(id)];
        member.seen = look(replica);
        let (old, new) = (&member.configuration, replica.configuration());
        if (old.group, old.index, old.term) != (new.group, new.index, new.term) {
            member.configuration = Arc::new(new.clone());
            member.acceptors = Arc::clone(&member.configuration);
        }
    }

    /// Who belongs to the group now, by the newest committed configuration.
    fn judge_names(&mut self) {
        let committed = self.watch.configurations.committed();
        for member in &mut self.members {
            member.named = committed.names(member.id, member.incarnation);
        }
    }

    fn offer(&mut self, id: NodeId, number: u64) -> bool {
        let now = self.clock(id);
        let payload = self.client.payload(number);
        let Some(replica) = &mut self.nodes[at(id)].replica else { return false };
        match replica.propose(now, &payload) {
            Ok(ticket) => {
                self.client.taken(node_of(id), ticket.term, ticket.index, number);
                let judged = self.watch.proposed(node_of(id), &look(replica), replica.configuration());
                self.violation = judged.err().or(self.violation.take());
                true
            }
            Err(ProposeError::Full) => {
                self.fabric.faults.full += 1;
                self.client.put_back(number);
                false
            }
            Err(_) => {
                self.client.put_back(number);
                false
            }
        }
    }

    fn forget(&mut self, id: NodeId, term: Option<ringleader_core::types::Term>) {
        let (rng, again_ppm, faults) = (&mut self.rng, self.plan.again_ppm, &mut self.fabric.faults);
        self.client.unknown(id, term, |tries| {
            let again = tries < MAX_TRIES && rng.chance(again_ppm);
            faults.reproposals += u64::from(again);
            again
        });
    }

    fn draw_len(&mut self) -> usize {
        let largest = entry::max_payload(self.plan.ring_len / 8) as u64;
        let kind = self.rng.below(100);
        let high = match (self.plan.sizes, kind) {
            (Sizes::Small, _) | (Sizes::Mixed, 0..70) | (Sizes::Large, 0..30) => 200,
            (Sizes::Mixed, 70..95) | (Sizes::Large, 30..60) => 6_000,
            _ => largest,
        };
        let exact = self.rng.below(8) == 0;
        if exact { high as usize } else { self.rng.within((8, high)) as usize }
    }

    fn schedule(&mut self, id: NodeId, after_ns: u64) {
        self.scheduled += 1;
        self.nodes[at(id)].next_round = self.scheduled;
        self.rounds.push(Reverse((self.now_ns().saturating_add(after_ns), self.scheduled, id.0)));
    }

    /// What a node's clock shows.
    fn clock(&self, id: NodeId) -> Instant {
        let node = &self.nodes[at(id)];
        let now = self.now_ns();
        let gained = i128::from(now) * i128::from(node.clock_ppm) / 1_000_000;
        Instant((i128::from(node.clock_offset_ns + now) + gained) as u64)
    }

    fn note(&mut self, line: impl FnOnce() -> String) {
        let now = self.now_ns();
        self.fabric.trace.note(now, line);
    }

    /// The promise of a node's acceptor.
    pub fn promise(&self, id: NodeId) -> Promise {
        self.member(id).seen.promise
    }
}

/// The place of a seat.
fn at(id: NodeId) -> usize {
    id.slot() - 1
}

/// The place of the node that it is of.
fn of(id: NodeId) -> usize {
    at(node_of(id))
}
