//! What `ringleader bench` measures, each figure beside its floor. Not: how it is shown (`cli::bench`).

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::time::{Duration, Instant};
use std::{fmt, thread};

use ringleader_core::layout::MIN_RING_LEN;
use rustix::time::{ClockId, clock_gettime};

use crate::demo::Carrier;
use crate::{
    AgentOptions, AgentThread, Entry, FormError, Idle, MeasureError, Measurement, Node, OpenError, Options,
    Profile, ReadMeasurement, Role,
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
    let shared = Path::new("/dev/shm");
    let base = if shared.is_dir() { shared.to_owned() } else { std::env::temp_dir() };
    let dir =
        tempfile::Builder::new().prefix("ringleader-bench-").tempdir_in(base).map_err(BenchError::Io)?;
    let ports = ports(plan.nodes).map_err(BenchError::Io)?;
    let mut nodes = Vec::new();
    for id in 1..=plan.nodes {
        let mut options = Options::new(dir.path(), id, (1..=plan.nodes).collect::<Vec<u8>>());
        options.ring_len = plan.ring_len;
        options.timing = plan.profile.timing();
        options.idle = plan.idle;
        if plan.carrier != Carrier::SharedMemory {
            options.transport = transport(plan, id, &ports, dir.path())?;
        }
        nodes.push(Node::open(options, |_: Entry<'_>| {}).map_err(BenchError::Open)?);
    }
    nodes[0].form(PATIENCE).map_err(BenchError::Form)?;
    let deadline = Instant::now() + PATIENCE;
    loop {
        let leader = nodes.iter().find(|node| node.status().role == Role::Leader);
        // A leader may be replaced once while all of them come up.
        match leader.map(&measure) {
            Some(Ok(measured)) => return Ok(measured),
            Some(Err(error)) if Instant::now() >= deadline => return Err(BenchError::Measure(error)),
            None if Instant::now() >= deadline => return Err(BenchError::NoLeader),
            _ => thread::sleep(Duration::from_millis(20)),
        }
    }
}

/// What turns of groups that have nothing to do take on an agent thread, in nanoseconds of processor time: the mean over leaders
/// and followers, of three nodes in this process on shared memory, with so many groups each.
pub fn turn(groups: usize, length: Duration) -> Result<f64, BenchError> {
    let shared = Path::new("/dev/shm");
    let base = if shared.is_dir() { shared.to_owned() } else { std::env::temp_dir() };
    let dir =
        tempfile::Builder::new().prefix("ringleader-bench-").tempdir_in(base).map_err(BenchError::Io)?;
    let agents: Result<Vec<AgentThread>, OpenError> = (0..3)
        .map(|_| AgentThread::start(&AgentOptions { idle: Idle::Busy, groups, ..AgentOptions::default() }))
        .collect();
    let agents = agents.map_err(BenchError::Open)?;
    let mut nodes = Vec::new();
    for group in 0..groups {
        let before = nodes.len();
        for (id, agent) in (1..).zip(&agents) {
            let mut options = Options::new(dir.path().join(format!("group-{group}")), id, [1, 2, 3]);
            options.ring_len = MIN_RING_LEN;
            // Three threads that never sleep may have fewer processors: none of them is to be suspected for that.
            options.timing = Profile::SoftRoce.timing();
            nodes.push(Node::open_on(agent, options, |_: Entry<'_>| {}).map_err(BenchError::Open)?);
        }
        nodes[before].form(PATIENCE).map_err(BenchError::Form)?;
    }
    let deadline = Instant::now() + PATIENCE;
    while nodes.chunks(3).any(|group| group.iter().all(|node| node.status().role != Role::Leader)) {
        if Instant::now() >= deadline {
            return Err(BenchError::NoLeader);
        }
        thread::sleep(Duration::from_millis(20));
    }
    let spent = || {
        let time = clock_gettime(ClockId::ProcessCPUTime);
        let rounds: u64 = agents.iter().map(AgentThread::rounds).sum();
        (time.tv_sec as f64 * 1e9 + time.tv_nsec as f64, rounds)
    };
    let (before_ns, before) = spent();
    thread::sleep(length);
    let (after_ns, after) = spent();
    Ok((after_ns - before_ns) / ((after - before).max(1) as f64 * groups as f64))
}

/// Free ports of this machine.
fn ports(nodes: u8) -> io::Result<Vec<u16>> {
    let listen = |_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let listeners = (0..nodes).map(listen).collect::<io::Result<Vec<TcpListener>>>()?;
    listeners.iter().map(|listener| Ok(listener.local_addr()?.port())).collect()
}

#[cfg(feature = "verbs")]
fn transport(plan: &CommitPlan, id: u8, ports: &[u16], dir: &Path) -> Result<crate::Transport, BenchError> {
    use std::net::SocketAddr;

    use crate::exchange::{GroupName, Key};

    let key_file = dir.join("group.key");
    let impossible = |error: &dyn fmt::Display| BenchError::Impossible(error.to_string());
    if !key_file.exists() {
        Key::make(&key_file).map_err(|error| impossible(&error))?;
    }
    let address = |port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let others = |node: usize| node.checked_sub(1).and_then(|place| ports.get(place)).copied();
    Ok(crate::Transport::Verbs(Box::new(crate::VerbsOptions {
        choice: crate::fabric::verbs::Choice {
            device: plan.carrier.device(id).map(str::to_owned),
            ..Default::default()
        },
        listen: address(ports[usize::from(id) - 1]),
        addresses: std::array::from_fn(|node| {
            others(node).filter(|_| node != usize::from(id)).map(|port| address(port).to_string())
        }),
        key: Key::read(&key_file).map_err(|error| impossible(&error))?,
        group: GroupName::new("bench").expect("a name"),
    })))
}

#[cfg(not(feature = "verbs"))]
fn transport(_: &CommitPlan, _: u8, _: &[u16], _: &Path) -> Result<crate::Transport, BenchError> {
    Err(BenchError::Impossible("this program was built without RDMA".to_owned()))
}
