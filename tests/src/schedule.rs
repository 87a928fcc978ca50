//! What goes wrong in a run, and how often: everything a seed draws before the run begins.
//!
//! Swarm testing (Groce et al., ISSTA 2012): each seed turns most kinds of faults off and some up, since runs with a
//! little of everything never get deep into any one of them.

use ringleader_core::layout::{AREA_ALIGN, MIN_RING_LEN};
use ringleader_core::membership::Readmit;
use ringleader_core::timing::Timing;

use crate::fabric::Weather;
use crate::rng::Rng;

/// Something that is done to a group while it runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// A process is stopped for a while; its memory still answers.
    Pause,
    /// The leader's process is.
    PauseLeader,
    /// The leader's process is, in the middle of its copies: their last pieces land much later.
    PauseLeaderInCopy,
    /// A process dies, and its memory with it.
    Crash,
    /// The leader's does.
    CrashLeader,
    /// A link is cut in one direction.
    CutOneWay,
    /// A link is cut in both.
    CutBothWays,
    /// A node is cut off from all others.
    Isolate,
    /// A posting end breaks.
    BreakPipe,
    /// An acceptor's end breaks.
    BreakGate,
    /// A posting end goes silent.
    Mute,
    /// A node's loop gets slow.
    Slow,
    /// A process dies, and its memory answers, for a while or for good.
    CrashKeepingMemory,
    /// The leader's process does.
    CrashLeaderKeepingMemory,
    /// A process is stopped until all faults stop.
    Zombie,
    /// An application takes nothing for a while.
    StallApplication,
    /// An operator adds a node that is no member.
    AddMember,
    /// An operator promotes a learner.
    PromoteMember,
    /// An operator takes a member out.
    RemoveMember,
    /// An operator takes the leader out.
    RemoveLeader,
    /// An operator readmits who lost its memory, in one of the two ways.
    ReadmitMember,
    /// The leader is told to hand over to somebody.
    Transfer,
    /// A host that is apart dies; what its application has may be lost, too.
    CrashHost,
    /// The leader's does.
    CrashLeadersHost,
    /// What is between a host and its acceptor is cut.
    CutHost,
}

/// Those that the first seeds know.
const FIRST: [Fault; 12] = [
    Fault::Pause,
    Fault::PauseLeader,
    Fault::PauseLeaderInCopy,
    Fault::Crash,
    Fault::CrashLeader,
    Fault::CutOneWay,
    Fault::CutBothWays,
    Fault::Isolate,
    Fault::BreakPipe,
    Fault::BreakGate,
    Fault::Mute,
    Fault::Slow,
];

/// Those that came later.
const LATER: [Fault; 4] =
    [Fault::CrashKeepingMemory, Fault::CrashLeaderKeepingMemory, Fault::Zombie, Fault::StallApplication];

/// Those that change who is a member.
const MEMBERS: [Fault; 5] =
    [Fault::AddMember, Fault::PromoteMember, Fault::RemoveMember, Fault::RemoveLeader, Fault::ReadmitMember];

/// Those of hosts that are apart.
const HOSTS: [Fault; 3] = [Fault::CrashHost, Fault::CrashLeadersHost, Fault::CutHost];

/// Which nodes may die while others are far behind: without snapshots a group that hangs on one log alone may never get well.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Losses {
    /// None, while any other is behind.
    NoneLags,
    /// Those without which the ones that are not behind are still a majority.
    MajorityFits,
    /// Any. What is left is judged only while a majority needs no snapshot.
    Any,
}

/// What the client proposes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sizes {
    /// At most 200 bytes.
    Small,
    /// Mostly small, some of some KiB, a few of the largest.
    Mixed,
    /// Many of the largest: the ring wraps soon.
    Large,
}

/// Everything a seed draws.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Where it all comes from.
    pub seed: u64,
    /// Nodes 1..=nodes form the group.
    pub nodes: u8,
    /// So many more run, and may become members.
    pub spares: u8,
    /// Hosts and acceptors are apart.
    pub split: bool,
    /// A host that dies loses what its application has.
    pub forgets_ppm: u32,
    /// What leaders do about members that lost their memory.
    pub readmit: Readmit,
    /// Timers of the core.
    pub timing: Timing,
    /// Bytes of ring.
    pub ring_len: u64,
    /// Bytes of the largest snapshot; 0: there are none.
    pub snapshot_len: u64,
    /// Bytes of an application's state.
    pub state_len: u64,
    /// An application takes so long to write its state, or to become another.
    pub job_ns: (u64, u64),
    /// And cannot.
    pub job_fails_ppm: u32,
    /// Whether followers that are stopped count for a commit.
    pub stored_quorum: bool,
    /// Whether WRITEs are confirmed by READs.
    pub readback: bool,
    /// How the fabric behaves until all is healed, and afterwards.
    pub weather: Weather,
    /// See `weather`.
    pub calm: Weather,
    /// How long faults go on.
    pub safety_ns: u64,
    /// Within this, after faults have stopped, all must be well.
    pub bound_ns: u64,
    /// A node's loop comes round this often.
    pub loop_ns: (u64, u64),
    /// What may be done to the group; what stands in it twice is done twice as often.
    pub faults: Vec<Fault>,
    /// One of them about this often.
    pub fault_every_ns: u64,
    /// How long one lasts.
    pub fault_ns: (u64, u64),
    /// A process stops between two steps of its loop.
    pub stutter_ppm: u32,
    /// For up to this long.
    pub stutter_ns: u64,
    /// A crashed node comes back, without its memory.
    pub restart_ppm: u32,
    /// Who may die.
    pub losses: Losses,
    /// A minority stays stopped when all else is healed.
    pub leave_stopped: bool,
    /// What is proposed.
    pub sizes: Sizes,
    /// A loop of a leader gets a proposal.
    pub propose_ppm: u32,
    /// And so many more at once, at most.
    pub burst: u64,
    /// An unknown proposal is proposed again.
    pub again_ppm: u32,
    /// Rates of clocks differ from the true one by up to this, in parts per million.
    pub drift_ppm: u64,
    /// Every clock drifts as far as that, one way or the other.
    pub clocks_apart: bool,
    /// At two places of each round of its loop a node is asked for reads.
    pub read_ppm: u32,
    /// Leases are allowed to answer reads.
    pub lease_reads: bool,
}

impl Plan {
    /// The plan of a seed.
    pub fn draw(seed: u64, nodes: u8) -> Plan {
        let mut plan = Plan::base(seed, nodes);
        let mut rng = Rng::new(seed ^ 0x1a7e_0000_0000_0000 ^ u64::from(nodes) << 32);
        let suspect = plan.timing.suspect_after_ns;
        for fault in LATER {
            for _ in 0..rng.pick(&[0, 0, 0, 1, 1, 3]) {
                plan.faults.push(fault);
            }
        }
        plan.losses = rng.pick(&[Losses::MajorityFits, Losses::MajorityFits, Losses::Any]);
        plan.weather.ack_lost_ppm = rng.pick(&[0, 0, 0, 500, 5_000]);
        plan.weather.step_fails_ppm = rng.pick(&[0, 0, 0, 20_000, 200_000]);
        plan.weather.state_tail_ppm = rng.pick(&[0, 0, 0, 20_000, 200_000]);
        plan.weather.state_tail_ns = suspect * rng.within((1, 10));
        if rng.chance(100_000) {
            // Fences that do not end in time: whoever waits for one must end itself.
            plan.timing.fence_limit_ns = 3 * suspect;
            plan.weather.fence_tail_ppm = 100_000;
            plan.weather.fence_tail_ns = 5 * suspect;
        }
        if rng.chance(300_000) {
            // Nothing hangs on clocks but lease reads, and these are not allowed then.
            plan.drift_ppm = rng.pick(&[5_000, 50_000, 150_000]);
            plan.bound_ns += plan.bound_ns * 3 * plan.drift_ppm / 1_000_000;
        }
        plan.draw_reads();
        plan.draw_readback();
        plan
    }

    /// The plan of a seed with snapshots, and rings that go on without whoever is stopped.
    pub fn catching(seed: u64, nodes: u8) -> Plan {
        let mut rng = Rng::new(seed ^ 0x5a9d_0000_0000_0000 ^ u64::from(nodes) << 32);
        let changes = rng.chance(400_000);
        let mut plan = if changes { Plan::changing(seed, nodes) } else { Plan::draw(seed, nodes) };
        let len = rng.pick(&[100, 5_000, 60_000, 300_000]);
        plan.with_snapshots(len, rng.within((8, 40)));
        let suspect = plan.timing.suspect_after_ns;
        plan.job_ns = (0, rng.pick(&[0, suspect / 10, suspect, 4 * suspect]));
        plan.job_fails_ppm = rng.pick(&[0, 0, 100_000, 500_000]);
        plan.timing.max_write = rng.pick(&[4_096, plan.timing.max_write, plan.timing.max_write]);
        plan.losses = rng.pick(&[plan.losses, Losses::Any]);
        plan.safety_ns += plan.safety_ns;
        plan.fault_ns.1 = plan.fault_ns.1.max(suspect * rng.within((6, 16)));
        plan.faults.extend([Fault::Pause, Fault::CutBothWays, Fault::StallApplication]);
        if rng.chance(700_000) {
            plan.sizes = rng.pick(&[Sizes::Mixed, Sizes::Large]);
            plan.propose_ppm = 400_000;
            plan.burst = 4;
        }
        plan
    }

    /// The plan of a seed, but that hosts and acceptors are apart, and fail apart.
    pub fn splitting(seed: u64, nodes: u8) -> Plan {
        let mut rng = Rng::new(seed ^ 0x5b11_7000_0000_0000 ^ u64::from(nodes) << 32);
        let mut plan =
            if rng.chance(300_000) { Plan::changing(seed, nodes) } else { Plan::draw(seed, nodes) };
        plan.split(&mut rng);
        plan
    }

    /// The plan of a seed with snapshots, but that hosts and acceptors are apart; what a host has may be lost with it.
    pub fn splitting_catching(seed: u64, nodes: u8) -> Plan {
        let mut rng = Rng::new(seed ^ 0x5b11_7ca7_0000_0000 ^ u64::from(nodes) << 32);
        let mut plan = Plan::catching(seed, nodes);
        plan.split(&mut rng);
        plan.forgets_ppm = rng.pick(&[0, 300_000, 1_000_000]);
        // A follower takes it, and its host takes it again; and one whose host has lost everything waits for a leader to notice.
        plan.bound_ns += 4 * plan.timing.catchup_limit_ns;
        plan
    }

    fn split(&mut self, rng: &mut Rng) {
        self.split = true;
        for fault in HOSTS {
            for _ in 0..rng.pick(&[0, 1, 1, 3]) {
                self.faults.push(fault);
            }
        }
        // An acceptor is asked over the wire, and answers are READ.
        self.bound_ns += self.bound_ns / 2;
    }

    /// A group with snapshots of states of that length, whose leaders hold their rings for so many times `suspect_after`.
    pub fn with_snapshots(&mut self, state_len: u64, limit: u64) {
        self.state_len = state_len;
        self.snapshot_len = state_len.next_multiple_of(AREA_ALIGN);
        self.timing.catchup_limit_ns = self.timing.suspect_after_ns * limit;
        self.job_ns = (0, self.timing.suspect_after_ns / 4);
        // One attempt fails, its pause goes by, and the next one works.
        self.bound_ns += 4 * self.timing.catchup_limit_ns;
    }

    /// The plan of a seed whose members change, too.
    pub fn changing(seed: u64, nodes: u8) -> Plan {
        let mut plan = Plan::draw(seed, nodes);
        let mut rng = Rng::new(seed ^ 0x3e3b_e25c_0000_0000 ^ u64::from(nodes) << 32);
        plan.spares = rng.pick(&[0, 1, 1, 2, 2, 3]);
        plan.readmit = rng.pick(&[Readmit::Ask, Readmit::Auto, Readmit::Auto]);
        plan.restart_ppm = rng.pick(&[500_000, 1_000_000, 1_000_000]);
        for fault in MEMBERS {
            for _ in 0..rng.pick(&[0, 1, 2, 4]) {
                plan.faults.push(fault);
            }
        }
        // A log that has been recycled cannot be had by a newcomer.
        plan.sizes = rng.pick(&[Sizes::Small, Sizes::Small, Sizes::Small, plan.sizes]);
        plan.safety_ns += plan.safety_ns / 2;
        plan
    }

    /// What came with reads, from draws of its own: the seeds of the list are as they were.
    fn draw_reads(&mut self) {
        let mut rng = Rng::new(self.seed ^ 0x4eb5_0000_0000_0000 ^ u64::from(self.nodes) << 32);
        self.read_ppm = rng.pick(&[0, 10_000, 50_000, 300_000]);
        for _ in 0..rng.pick(&[0, 0, 1, 3]) {
            self.faults.push(Fault::Transfer);
        }
        let within = self.drift_ppm <= self.timing.drift_ppm / 2;
        self.lease_reads = within && rng.chance(700_000);
        if self.lease_reads && rng.chance(400_000) {
            self.drift_by(rng.pick(&[20_000, 100_000, 300_000]));
        }
    }

    /// Whether a completion says nothing of the bytes, and READs have to.
    fn draw_readback(&mut self) {
        let mut rng = Rng::new(self.seed ^ 0x4ead_bac0_0000_0000 ^ u64::from(self.nodes) << 32);
        self.readback = rng.chance(200_000);
        if self.readback {
            self.weather.early_ppm = rng.pick(&[0, 50_000, 500_000]);
        }
    }

    /// Clocks drift by as much as this bound, which the core is told.
    pub fn drift_by(&mut self, bound_ppm: u64) {
        self.timing.drift_ppm = bound_ppm;
        self.drift_ppm = bound_ppm / 2;
        self.bound_ns += self.bound_ns * 3 * self.drift_ppm / 1_000_000;
    }

    /// Its part that is drawn first, and stays as it is: the list of seeds that once failed hangs on it.
    pub fn base(seed: u64, nodes: u8) -> Plan {
        let mut rng = Rng::new(seed ^ 0x5eed_0000_0000_0000 ^ u64::from(nodes) << 32);
        let timing = if rng.chance(500_000) { Timing::LOCAL } else { Timing::HARDWARE };
        let suspect = timing.suspect_after_ns;
        let mut faults = Vec::new();
        for fault in FIRST {
            for _ in 0..rng.pick(&[0, 0, 0, 1, 1, 3]) {
                faults.push(fault);
            }
        }
        let calm_latency = timing.beat_ns / rng.within((10, 50));
        let calm = Weather::calm(calm_latency, suspect);
        let sizes = rng.pick(&[Sizes::Small, Sizes::Mixed, Sizes::Mixed, Sizes::Large]);
        let safety_ns = suspect * rng.within((8, 28));
        Plan {
            seed,
            nodes,
            spares: 0,
            split: false,
            forgets_ppm: 0,
            readmit: Readmit::Ask,
            timing,
            ring_len: MIN_RING_LEN,
            snapshot_len: 0,
            state_len: 0,
            job_ns: (0, 0),
            job_fails_ppm: 0,
            stored_quorum: rng.chance(250_000),
            readback: false,
            weather: draw_weather(&mut rng, &timing, calm.clone()),
            calm,
            safety_ns,
            bound_ns: bound_ns(&timing),
            loop_ns: {
                let slowest = timing.beat_ns / rng.within((2, 8));
                (slowest / 8, slowest)
            },
            faults,
            fault_every_ns: safety_ns / rng.within((3, 40)),
            fault_ns: (suspect / 20, suspect * rng.within((1, 6))),
            stutter_ppm: rng.pick(&[0, 0, 1_000, 10_000]),
            stutter_ns: suspect * rng.within((1, 5)),
            restart_ppm: rng.pick(&[0, 500_000, 1_000_000]),
            losses: Losses::NoneLags,
            leave_stopped: rng.chance(300_000),
            sizes,
            propose_ppm: rng.pick(&[20_000, 100_000, 400_000]),
            burst: rng.pick(&[1, 1, 4, 12]),
            again_ppm: rng.pick(&[0, 300_000, 1_000_000]),
            drift_ppm: timing.drift_ppm / 2,
            clocks_apart: false,
            read_ppm: 0,
            lease_reads: false,
        }
    }

    /// A plan without any faults: for directed scenarios, which add their own.
    pub fn quiet(seed: u64, nodes: u8, timing: Timing) -> Plan {
        let calm = Weather::calm(timing.beat_ns / 20, timing.suspect_after_ns);
        Plan {
            seed,
            nodes,
            spares: 0,
            split: false,
            forgets_ppm: 0,
            readmit: Readmit::Ask,
            timing,
            ring_len: MIN_RING_LEN,
            snapshot_len: 0,
            state_len: 0,
            job_ns: (0, 0),
            job_fails_ppm: 0,
            stored_quorum: false,
            readback: false,
            weather: calm.clone(),
            calm,
            safety_ns: 0,
            bound_ns: bound_ns(&timing),
            loop_ns: (timing.beat_ns / 40, timing.beat_ns / 5),
            faults: Vec::new(),
            fault_every_ns: 0,
            fault_ns: (0, 0),
            stutter_ppm: 0,
            stutter_ns: 0,
            restart_ppm: 0,
            losses: Losses::NoneLags,
            leave_stopped: false,
            sizes: Sizes::Small,
            propose_ppm: 0,
            burst: 1,
            again_ppm: 0,
            drift_ppm: 0,
            clocks_apart: false,
            read_ppm: 0,
            lease_reads: false,
        }
    }
}

/// After faults have stopped: open fences and connections end, one campaign fails, one leader loses its quorum, and still.
fn bound_ns(timing: &Timing) -> u64 {
    4 * timing.campaign_timeout_ns + 2 * timing.quorum_lost_ns + timing.alive_within_ns
}

fn draw_weather(rng: &mut Rng, timing: &Timing, calm: Weather) -> Weather {
    let (beat, suspect) = (timing.beat_ns, timing.suspect_after_ns);
    let often = |rng: &mut Rng| rng.pick(&[0, 0, 20_000, 150_000, 600_000]);
    let rarely = |rng: &mut Rng| rng.pick(&[0, 0, 0, 500, 5_000]);
    let slowest = beat / rng.within((1, 40));
    Weather {
        latency_ns: (slowest / rng.within((2, 20)), slowest),
        byte_ps: rng.pick(&[0, 80, beat / 200]),
        tail_ppm: rng.pick(&[0, 5_000, 50_000]),
        tail_ns: suspect * rng.within((1, 4)) / 2,
        split_ppm: often(rng),
        word_split_ppm: rng.pick(&[0, 500_000]),
        flight_ppm: often(rng),
        flight_ns: beat * rng.within((1, 30)),
        landing_ppm: often(rng),
        landing_ns: beat * rng.within((1, 30)),
        ack_late_ppm: often(rng),
        ack_ns: beat * rng.within((1, 20)),
        mute_ppm: rarely(rng),
        mute_ns: suspect * rng.within((1, 12)),
        partial_ppm: rarely(rng),
        prompt_ppm: rng.pick(&[0, 500_000, 1_000_000]),
        refusal_breaks_ppm: rng.pick(&[0, 500_000, 1_000_000]),
        timeout_ns: suspect * rng.within((2, 24)) / 4,
        resend_ns: beat * rng.within((1, 10)),
        state_ns: (beat / 100, beat * rng.within((1, 20)) / 10),
        fence_ns: (beat / 100, beat * rng.within((1, 40)) / 10),
        fence_tail_ppm: rng.pick(&[0, 0, 100_000]),
        fence_tail_ns: suspect * rng.within((1, 10)),
        ..calm
    }
}
