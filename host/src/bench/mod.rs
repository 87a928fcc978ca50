//! What `ringleader bench` measures, each figure beside its floor. Not: how it is shown (`cli::bench`).

mod catch_up;
mod turn;

pub use catch_up::{CatchUpMeasurement, CatchUpPlan, catch_up};
pub use turn::turn;

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};
use std::{fmt, thread};

use tempfile::TempDir;

use crate::demo::Carrier;
use crate::neighbours::Neighbours;
use crate::{
    Entry, FormError, Idle, MeasureError, Measurement, Node, OpenError, Options, Profile, ReadMeasurement,
    Role,
};

/// How long nodes may take to find each other, and to elect a leader.
const PATIENCE: Duration = Duration::from_secs(60);

/// A group of nodes in this process, for a measurement.
#[derive(Clone, Debug)]
pub struct CommitPlan {
    /// What carries the verbs.
    pub carrier: Carrier,
    /// Nodes, 3 to 15.
    pub nodes: u8,
    /// Proposals, one at a time; as many samples of the floor.
    pub samples: usize,
    /// Bytes of each.
    pub size: usize,
    /// Bytes of each ring.
    pub ring_len: u64,
    /// Durations.
    pub profile: Profile,
    /// How an agent waits.
    pub idle: Idle,
}

/// Why there is no figure.
#[derive(Debug)]
#[non_exhaustive]
pub enum BenchError {
    /// Something of the system.
    Io(io::Error),
    /// A node could not be opened.
    Open(OpenError),
    /// The group did not form.
    Form(FormError),
    /// No node came to lead.
    NoLeader,
    /// A follower did not fall behind, or did not come back, within a minute.
    TooLong,
    /// The measurement ended early.
    Measure(MeasureError),
    /// This cannot be measured here; why.
    Impossible(String),
}

impl fmt::Display for BenchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BenchError::Io(error) => error.fmt(f),
            BenchError::Open(error) => error.fmt(f),
            BenchError::Form(error) => error.fmt(f),
            BenchError::NoLeader => f.write_str("no node came to lead"),
            BenchError::TooLong => f.write_str("the follower did not come that far within a minute"),
            BenchError::Measure(error) => error.fmt(f),
            BenchError::Impossible(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for BenchError {}

/// Measures commits, and the same WRITEs bare, in a group of nodes in this process.
pub fn commit(plan: &CommitPlan) -> Result<Measurement, BenchError> {
    in_a_group(plan, |leader| leader.measure(plan.samples, plan.size))
}

/// Measures commits, then quorum reads, each beside its floor, in the same group.
pub fn read(plan: &CommitPlan) -> Result<(Measurement, ReadMeasurement), BenchError> {
    in_a_group(plan, |leader| {
        Ok((leader.measure(plan.samples, plan.size)?, leader.measure_reads(plan.samples)?))
    })
}

/// Measures on the leader of a group of nodes in this process.
fn in_a_group<T>(
    plan: &CommitPlan,
    measure: impl Fn(&Node) -> Result<T, MeasureError>,
) -> Result<T, BenchError> {
    let group = Group::form(plan, |_, options| Node::open(options, |_: Entry<'_>| {}))?;
    group.lead(measure)
}

/// Nodes of this process, and where they keep their regions.
struct Group {
    nodes: Vec<Node>,
    _neighbours: Option<Neighbours>,
    _dir: TempDir,
}

impl Group {
    /// Opens every node, by its id, and forms the group.
    fn form(
        plan: &CommitPlan,
        open: impl Fn(u8, Options) -> Result<Node, OpenError>,
    ) -> Result<Group, BenchError> {
        let dir = scratch()?;
        let neighbours = match plan.carrier {
            Carrier::SharedMemory => None,
            _ => Some(Neighbours::arrange(plan.nodes.into(), dir.path()).map_err(BenchError::Impossible)?),
        };
        let mut nodes = Vec::new();
        for id in 1..=plan.nodes {
            let mut options = Options::new(dir.path(), id, (1..=plan.nodes).collect::<Vec<u8>>());
            options.ring_len = plan.ring_len;
            options.timing = plan.profile.timing();
            options.idle = plan.idle;
            if let Some(neighbours) = &neighbours {
                let neighbours = neighbours.on(plan.carrier.device(id));
                options.transport = neighbours.transport(id, "bench").map_err(BenchError::Impossible)?;
            }
            nodes.push(open(id, options).map_err(BenchError::Open)?);
        }
        nodes[0].form(PATIENCE).map_err(BenchError::Form)?;
        Ok(Group { nodes, _neighbours: neighbours, _dir: dir })
    }

    /// What the leader measures, whoever that is.
    fn lead<T>(&self, measure: impl Fn(&Node) -> Result<T, MeasureError>) -> Result<T, BenchError> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let leader = self.nodes.iter().find(|node| node.status().role == Role::Leader);
            // A leader may be replaced once while all of them come up.
            match leader.map(&measure) {
                Some(Ok(measured)) => return Ok(measured),
                Some(Err(error)) if Instant::now() >= deadline => return Err(BenchError::Measure(error)),
                None if Instant::now() >= deadline => return Err(BenchError::NoLeader),
                _ => thread::sleep(Duration::from_millis(20)),
            }
        }
    }
}

/// A directory for regions, in memory where there is any.
fn scratch() -> Result<TempDir, BenchError> {
    let shared = Path::new("/dev/shm");
    let base = if shared.is_dir() { shared.to_owned() } else { std::env::temp_dir() };
    tempfile::Builder::new().prefix("ringleader-bench-").tempdir_in(base).map_err(BenchError::Io)
}
