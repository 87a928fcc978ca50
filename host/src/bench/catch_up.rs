//! Commits while a follower that stood still for longer than its ring holds comes back.

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::{BenchError, CommitPlan, Group, PATIENCE};
use crate::{Entry, FollowerState, Measurement, Node, OpenError, StateMachine};

/// Samples taken between two looks at how far the follower is.
const SAMPLES_A_LOOK: usize = 100;

/// What is measured, and with how large a state.
#[derive(Clone, Debug)]
pub struct CatchUpPlan {
    /// The group; `samples` are those of each of the phases that have no end of their own.
    pub group: CommitPlan,
    /// Bytes that an application saves, and another becomes.
    pub state_len: u64,
}

/// Commits, and the same WRITEs bare, in each phase.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CatchUpMeasurement {
    /// All followers are there.
    pub before: Measurement,
    /// One stands still, until its ring has gone on without it.
    pub stopped: Measurement,
    /// It runs again, and becomes what another saved, until it is in window.
    pub catching: Measurement,
    /// All are there again.
    pub after: Measurement,
    /// How long the third phase took.
    pub took: Duration,
    /// How often the follower became what another had saved.
    pub loads: u64,
}

/// An application whose state is so many bytes, and that can be made to stand still: its agent with it, so that it neither
/// beats nor votes nor looks at its log, like a process that was stopped.
struct Machine {
    state: Vec<u8>,
    outside: Arc<Outside>,
}

#[derive(Default)]
struct Outside {
    stands_still: AtomicBool,
    loads: AtomicU64,
}

impl StateMachine for Machine {
    fn apply(&mut self, entry: Entry<'_>) {
        while self.outside.stands_still.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(1));
        }
        if let (Some(byte), Some(first)) = (self.state.first_mut(), entry.payload.first()) {
            *byte = byte.wrapping_add(*first);
        }
    }

    fn save(&mut self, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(&self.state)
    }

    fn load(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        self.state.clear();
        bytes.read_to_end(&mut self.state)?;
        self.outside.loads.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

/// Stops a follower for longer than its ring holds, lets it go on, and measures commits all the while.
pub fn catch_up(plan: &CatchUpPlan) -> Result<CatchUpMeasurement, BenchError> {
    let outsides: Vec<Arc<Outside>> = (0..plan.group.nodes).map(|_| Arc::default()).collect();
    let group = Group::form(&plan.group, |id, options| open(id, options, plan.state_len, &outsides))?;
    let (samples, size) = (plan.group.samples, plan.group.size);
    let before = group.lead(|leader| leader.measure(samples, size))?;
    let leader = group.lead(|leader| Ok(leader.status().node))?;
    let late = (1..=plan.group.nodes).find(|id| *id != leader).expect("a group has followers");
    let leader = &group.nodes[usize::from(leader) - 1];
    let outside = &outsides[usize::from(late) - 1];
    // However this ends, its node can be closed.
    let _goes_on = GoesOn(outside);
    outside.stands_still.store(true, Ordering::Relaxed);
    let from = leader.status().commit_position;
    let gone = |leader: &Node| {
        let past = leader.status().commit_position > from + 2 * plan.group.ring_len;
        past && state(leader, late) != Some(FollowerState::Window)
    };
    let stopped = measure_until(leader, size, gone)?;
    outside.stands_still.store(false, Ordering::Relaxed);
    let begun = Instant::now();
    let back = |leader: &Node| state(leader, late) == Some(FollowerState::Window);
    let catching = measure_until(leader, size, back)?;
    let took = begun.elapsed();
    let after = leader.measure(samples, size).map_err(BenchError::Measure)?;
    let loads = outside.loads.load(Ordering::Relaxed);
    Ok(CatchUpMeasurement { before, stopped, catching, after, took, loads })
}

fn open(
    id: u8,
    mut options: crate::Options,
    state_len: u64,
    outsides: &[Arc<Outside>],
) -> Result<Node, OpenError> {
    options.snapshot_len = Some(state_len.next_multiple_of(ringleader_core::layout::AREA_ALIGN));
    let outside = Arc::clone(&outsides[usize::from(id) - 1]);
    // Bytes that no layer can make short work of.
    let state = (0..state_len).map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect();
    Node::open(options, Machine { state, outside })
}

struct GoesOn<'a>(&'a Outside);

impl Drop for GoesOn<'_> {
    fn drop(&mut self) {
        self.0.stands_still.store(false, Ordering::Relaxed);
    }
}

/// What the leader says of a follower.
fn state(leader: &Node, node: u8) -> Option<FollowerState> {
    let status = leader.status();
    status.followers.iter().find(|follower| follower.node == node).map(|follower| follower.state)
}

/// Measures on, some samples at a time.
fn measure_until(
    leader: &Node,
    size: usize,
    is_over: impl Fn(&Node) -> bool,
) -> Result<Measurement, BenchError> {
    let deadline = Instant::now() + PATIENCE;
    let mut all = leader.measure(SAMPLES_A_LOOK, size).map_err(BenchError::Measure)?;
    while !is_over(leader) {
        if Instant::now() >= deadline {
            return Err(BenchError::TooLong);
        }
        let more = leader.measure(SAMPLES_A_LOOK, size).map_err(BenchError::Measure)?;
        let add = |to: &mut Histogram<u64>, more| to.add(more).expect("of the same bounds");
        add(&mut all.commit_ns, &more.commit_ns);
        add(&mut all.floor_ns, &more.floor_ns);
    }
    Ok(all)
}
