//! A model checker over the production core: every interleaving of three replicas on a tiny fabric, within bounds.
//!
//! The simulator draws schedules at random; here all of them are tried, of a group so small that this can be done. A
//! state is a value (`state`), all that can happen to it is in `actions`, `canonical` says which states are the same,
//! `invariants` what must hold in each, and `search` goes through all of them. `story` tells how one was reached.

pub mod actions;
pub mod canonical;
pub mod fabric;
pub mod invariants;
pub mod memory;
pub mod search;
mod start;
pub mod state;
mod step;
pub mod story;

use std::time::{Duration, Instant};

use self::actions::World;
use self::search::{Outcome, Progress, search};
use self::state::Bounds;
use crate::invariants::Violation;

/// How much a search may do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Distinct states of one round.
    pub max_states: u64,
    /// Threads.
    pub threads: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { max_states: 10_000_000, threads: 1 }
    }
}

/// One round of a search: all schedules with up to so many deviations.
#[derive(Debug)]
pub struct Round {
    /// Its bounds.
    pub bounds: Bounds,
    /// What it came to.
    pub outcome: Outcome,
    /// How long it took.
    pub took: Duration,
}

/// A violation, and how to get there.
#[derive(Clone, Debug)]
pub struct Found {
    /// What was broken.
    pub violation: Violation,
    /// The shortest way known, told.
    pub story: Vec<String>,
    /// Choices on it.
    pub choices: usize,
    /// States seen until then, in all rounds.
    pub states: u64,
    /// Deviations of the round that found it.
    pub deviations: Option<u8>,
}

/// Searches within `bounds`, in rounds of more and more deviations, until something is found or the limits are reached. `started` hears of
/// each round as it begins, `ended` as it ends; then it is one of `done`.
pub fn rounds(
    bounds: &Bounds,
    limits: &Limits,
    mut started: impl FnMut(&Bounds) -> std::sync::Arc<Progress>,
    mut ended: impl FnMut(&Round),
    done: &mut Vec<Round>,
) -> Option<Found> {
    let last = bounds.deviations;
    let mut states = 0;
    for deviations in 0..=last.unwrap_or(0) {
        let bounds = Bounds { deviations: last.map(|_| deviations), ..*bounds };
        let progress = started(&bounds);
        let world = World::new(bounds);
        let begun = Instant::now();
        let outcome = search(&world, limits.max_states, limits.threads, &progress);
        states += outcome.states;
        let round = Round { bounds, outcome, took: begun.elapsed() };
        ended(&round);
        let found = round.outcome.found.clone().map(|(violation, choices)| {
            let story = story::tell(&world, &choices, &violation);
            Found { violation, story, choices: choices.len(), states, deviations: bounds.deviations }
        });
        let exhausted = round.outcome.exhausted;
        done.push(round);
        if found.is_some() || !exhausted {
            return found;
        }
    }
    None
}

/// Small spaces for hunting bugs, the smallest first.
///
/// Of the planted bugs they show `walk-before-fence`, `promise-before-fence`, `commit-beyond-matched`, `crc-not-chained`,
/// `minority-elected` and `no-older-check`. What needs more deviations, an old suffix of two leaders, or many laps is
/// beyond them; what only delays a group, or needs clocks (leases, live quorums), is beyond any model like this.
pub fn hunts() -> Vec<Bounds> {
    let small = Bounds { proposals: 1, candidates: 1, waits: 3, deviations: Some(1), ..Bounds::default() };
    vec![
        // A take-over, with a crash or a stop.
        small,
        // Two candidates at a time.
        Bounds { proposals: 0, candidates: 2, faults: 0, waits: 4, deviations: Some(2), ..small },
        // A leader whose way to a follower breaks.
        Bounds { proposals: 2, candidates: 0, faults: 0, breaks: 1, waits: 1, deviations: Some(2), ..small },
        // The same, and then a take-over.
        Bounds { faults: 0, breaks: 1, waits: 3, ..small },
        // All of it.
        Bounds { proposals: 2, candidates: 2, waits: 3, ..small },
    ]
}

/// Plants a bug in the core of this process, and hunts it until it is found or the limits are reached in every space.
#[cfg(feature = "planted")]
pub fn find(bug: ringleader_core::planted::Bug, limits: &Limits) -> Option<Found> {
    ringleader_core::planted::plant(bug);
    let hunt = |bounds: &Bounds| rounds(bounds, limits, |_| Default::default(), |_| (), &mut Vec::new());
    hunts().iter().find_map(hunt)
}
