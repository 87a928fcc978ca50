//! What a round is made of, drawn from its seed: how many nodes, what load, and which faults come when.
//!
//! Whom a fault strikes is drawn as a number, and found among those whom it may strike at that moment.

use std::fmt;

use ringleader::Profile;
use ringleader::demo::Carrier;
use ringleader_tests::rng::Rng;

use crate::wire::Plant;

/// What is the same for all rounds.
#[derive(Clone, Debug)]
pub struct Options {
    /// What carries the nodes' verbs.
    pub carrier: Carrier,
    /// Durations of the protocol.
    pub profile: Profile,
    /// Bytes of each ring; drawn when not given, and mostly short, so that nodes fall below it.
    pub ring_len: Option<u64>,
    /// How many found the group; 3 or 5 when not given.
    pub nodes: Option<u8>,
    /// So many times longer than on shared memory everything lasts.
    pub slower: u64,
    /// Whether leases may be read by; half of the rounds when not given.
    pub lease_reads: Option<bool>,
    /// Host and acceptor of each node are processes of their own.
    pub apart: bool,
    /// What is made wrong, to see that it is found.
    pub plant: Option<Plant>,
}

impl Options {
    /// On shared memory.
    pub fn shared_memory() -> Options {
        Options {
            carrier: Carrier::SharedMemory,
            profile: Profile::Local,
            ring_len: None,
            nodes: None,
            slower: 1,
            lease_reads: None,
            apart: false,
            plant: None,
        }
    }

    /// On RDMA devices that are software.
    pub fn verbs(devices: Vec<String>) -> Options {
        Options {
            carrier: Carrier::Verbs { devices },
            profile: Profile::SoftRoce,
            slower: 6,
            ..Options::shared_memory()
        }
    }

    /// A stop that is no longer than this leaves everybody alive: on shared memory whoever is stopped in the middle of a copy
    /// is shot, in the end.
    pub fn harmless_stop_ms(&self) -> u64 {
        match self.carrier {
            Carrier::SharedMemory => self.profile.timing().fence_limit_ns / 4 / 1_000_000 * 3 / 5,
            _ => u64::MAX,
        }
    }
}

/// Whom a fault is meant for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Whom {
    /// The one that leads.
    Leader,
    /// One of the others.
    Follower(u64),
    /// One of all.
    Any(u64),
}

/// What happens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// A process is killed, and another takes its place after a while.
    Kill(Whom, u64),
    /// A process is told to end, and another takes its place after a while.
    Close(Whom, u64),
    /// A process is stopped for a while.
    Stop(Whom, u64),
    /// So many processes are stopped for a while that the rest is no majority.
    StopMost(u64, u64),
    /// The leader hands over to one of the others.
    Transfer(u64),
    /// A node that is no member becomes a learner.
    Add(u64),
    /// A learner becomes a voter.
    Promote(u64),
    /// A member is removed.
    Remove(Whom),
}

impl fmt::Display for Whom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Whom::Leader => "the leader",
            Whom::Follower(_) => "a follower",
            Whom::Any(_) => "anybody",
        })
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Kill(whom, ms) => write!(f, "kill {whom}, back after {ms} ms"),
            Fault::Close(whom, ms) => write!(f, "end {whom}, back after {ms} ms"),
            Fault::Stop(whom, ms) => write!(f, "stop {whom} for {ms} ms"),
            Fault::StopMost(_, ms) => write!(f, "stop a majority for {ms} ms"),
            Fault::Transfer(_) => f.write_str("hand the lead over"),
            Fault::Add(_) => f.write_str("add a learner"),
            Fault::Promote(_) => f.write_str("promote a learner"),
            Fault::Remove(whom) => write!(f, "remove {whom}"),
        }
    }
}

/// A round.
#[derive(Clone, Debug)]
pub struct Round {
    /// What it is drawn from.
    pub seed: u64,
    /// The group is formed of 1 to this.
    pub founders: u8,
    /// All nodes that there may be are 1 to this.
    pub members: u8,
    /// Leaders take back by themselves who lost its memory.
    pub readmits: bool,
    /// Leases may be read by.
    pub lease_reads: bool,
    /// Acknowledgements of stopped followers count.
    pub stored: bool,
    /// The agents sleep until they are woken, and do not look all the time.
    pub wakes: bool,
    /// WRITEs are confirmed by READs.
    pub readback: bool,
    /// Bytes of each ring.
    pub ring_len: u64,
    /// Clients.
    pub clients: u32,
    /// Most bytes of a payload.
    pub max_len: u64,
    /// Most commands in one question.
    pub max_batch: u64,
    /// What a client does between two questions, at most.
    pub pause_us: u64,
    /// How long a client waits for an answer.
    pub patience_ms: u64,
    /// What happens, and how many milliseconds after the clients began.
    pub faults: Vec<(u64, Fault)>,
    /// When no more happens.
    pub lasts_ms: u64,
}

/// Nodes that may be added.
const SPARE: u8 = 2;

impl Round {
    /// The round of a seed.
    pub fn draw(seed: u64, options: &Options) -> Round {
        let mut rng = Rng::new(seed);
        let sizes = if rng.chance(650_000) { 3 } else { 5 };
        let founders = options.nodes.unwrap_or(sizes);
        let slower = options.slower;
        let lasts_ms = rng.within((1500, 4000)) * slower;
        let readmits = rng.chance(500_000);
        let lease_reads = rng.chance(500_000);
        let mut round = Round {
            seed,
            founders,
            members: founders + SPARE,
            readmits,
            lease_reads: options.lease_reads.unwrap_or(lease_reads),
            stored: rng.chance(200_000),
            wakes: rng.chance(300_000),
            readback: rng.chance(250_000),
            ring_len: options.ring_len.unwrap_or(rng.pick(&[512 << 10, 512 << 10, 1 << 20, 4 << 20])),
            clients: rng.within((2, 6)) as u32,
            max_len: rng.pick(&[32, 200, 1500]),
            max_batch: rng.pick(&[1, 1, 4, 16]),
            pause_us: rng.pick(&[50, 500, 2000]),
            patience_ms: rng.pick(&[150, 500, 2000]) * slower,
            faults: Vec::new(),
            lasts_ms,
        };
        let mut at_ms = 0;
        let busy = rng.pick(&[60, 150, 400]) * slower;
        loop {
            at_ms += rng.within((1, 2 * busy));
            if at_ms >= lasts_ms {
                return round;
            }
            let fault = draw_fault(&mut rng, slower);
            round.faults.push((at_ms, fault));
        }
    }
}

fn draw_whom(rng: &mut Rng) -> Whom {
    match rng.below(4) {
        0 | 1 => Whom::Leader,
        2 => Whom::Follower(rng.word()),
        _ => Whom::Any(rng.word()),
    }
}

fn draw_fault(rng: &mut Rng, slower: u64) -> Fault {
    let back_ms = rng.within((0, 600)) * slower;
    // Around the time after which a leader is suspected, or far beyond it.
    let for_ms = if rng.chance(600_000) { rng.within((5, 200)) } else { rng.within((200, 1200)) } * slower;
    match rng.below(100) {
        0..18 => Fault::Kill(draw_whom(rng), back_ms),
        18..22 => Fault::Close(draw_whom(rng), back_ms),
        22..46 => Fault::Stop(draw_whom(rng), for_ms),
        46..54 => Fault::StopMost(rng.word(), for_ms),
        54..70 => Fault::Transfer(rng.word()),
        70..80 => Fault::Add(rng.word()),
        80..91 => Fault::Promote(rng.word()),
        _ => Fault::Remove(draw_whom(rng)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_a_round_and_all_faults_are_drawn() {
        let options = Options::shared_memory();
        let mut kinds = std::collections::BTreeSet::new();
        for seed in 0..200 {
            let round = Round::draw(seed, &options);
            assert_eq!(format!("{round:?}"), format!("{:?}", Round::draw(seed, &options)));
            assert!(round.faults.iter().all(|(at_ms, _)| *at_ms < round.lasts_ms));
            let name =
                |fault: &Fault| format!("{fault:?}").split('(').next().map(str::to_owned).unwrap_or_default();
            kinds.extend(round.faults.iter().map(|(_, fault)| name(fault)));
        }
        assert_eq!(kinds.len(), 8, "{kinds:?}");
    }
}
