//! What a group that has nothing to do costs the thread that it shares.

use std::thread;
use std::time::{Duration, Instant};

use ringleader_core::layout::MIN_RING_LEN;
use rustix::time::{ClockId, clock_gettime};

use super::{BenchError, PATIENCE, scratch};
use crate::{AgentOptions, AgentThread, Entry, Idle, Node, OpenError, Options, Profile, Role};

/// What turns of groups that have nothing to do take on an agent thread, in nanoseconds of processor time: the mean over leaders
/// and followers, of three nodes in this process on shared memory, with so many groups each.
pub fn turn(groups: usize, length: Duration) -> Result<f64, BenchError> {
    let dir = scratch()?;
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
