//! The model in its short form: a small space is exhausted, and what breaks a promise is found in it.

use std::collections::HashMap;

use ringleader_core::types::NodeId;
use ringleader_tests::model::actions::{Action, World};
use ringleader_tests::model::state::{Bounds, State};
use ringleader_tests::model::{Found, Limits, Round, rounds};
use ringleader_tests::rng::Rng;

fn search(bounds: Bounds) -> (Option<Found>, Vec<Round>) {
    let mut done = Vec::new();
    let limits = Limits { threads: 2, ..Limits::default() };
    (rounds(&bounds, &limits, |_| Default::default(), |_| (), &mut done), done)
}

/// Two proposals, two candidacies and a crash or a stop, whenever all is calm.
#[test]
fn the_fixed_schedule_is_exhausted_and_breaks_nothing() {
    let (found, done) = search(Bounds { waits: 3, deviations: Some(0), ..Bounds::default() });
    assert!(found.is_none(), "{:#?}", found);
    let outcome = &done[0].outcome;
    assert!(outcome.exhausted);
    assert!(outcome.states > 10_000, "{outcome:?}");
    let [candidacies, elections, commits] = outcome.reached;
    assert!(candidacies[2] > 0 && elections[1] > 0 && commits[3] > 0, "{outcome:?}");
}

/// Every interleaving of one proposal: the WRITEs to both followers, the own copy, the beats that tell of the commit.
#[test]
fn every_order_of_a_proposal_is_exhausted() {
    let bounds =
        Bounds { proposals: 1, candidates: 0, faults: 0, waits: 0, deviations: None, ..Bounds::default() };
    let (found, done) = search(bounds);
    assert!(found.is_none(), "{:#?}", found);
    assert!(done[0].outcome.exhausted && done[0].outcome.states > 1000, "{:?}", done[0].outcome);
}

/// A proposal and a read, at the leader or at a follower, in every order.
#[test]
fn every_order_of_a_proposal_and_a_read_is_exhausted() {
    let bounds = Bounds {
        proposals: 1,
        reads: 1,
        candidates: 0,
        faults: 0,
        waits: 0,
        deviations: Some(2),
        ..Bounds::default()
    };
    let (found, done) = search(bounds);
    assert!(found.is_none(), "{:#?}", found);
    let outcome = &done.last().expect("a round").outcome;
    assert!(outcome.exhausted && outcome.states > 1000, "{outcome:?}");
}

/// Protocol.md 2, A2: where a fence does not wait for what passed before it, an old leader's WRITE lands in the log of a new
/// one.
#[test]
fn a_fabric_whose_fences_leak_is_found_out() {
    let bounds = Bounds {
        proposals: 1,
        candidates: 1,
        waits: 2,
        deviations: Some(1),
        fences_drain: false,
        ..Bounds::default()
    };
    let found = search(bounds).0.expect("a leaky fence breaks an invariant");
    assert!(found.story.iter().any(|line| line.contains("passed before a fence")), "{:#?}", found);
}

/// All that can come of a state next, and what it comes to.
fn futures(world: &World, state: &State) -> Vec<(Action, u128)> {
    let comes = |action: Action| {
        let next = world.apply(state, action).expect("no invariant breaks")?;
        Some((action, next.hash()))
    };
    world.choices(state).into_iter().filter_map(comes).collect()
}

/// States that are taken for one behave alike: whatever happens to both of them comes to one state again. Walks at random
/// meet the same states by many ways, with other counters, clocks and remains of what was.
#[test]
fn states_that_are_one_have_the_same_futures() {
    let world = World::new(Bounds { deviations: None, breaks: 1, ..Bounds::default() });
    let first = world.first_state().expect("the fixed schedule breaks nothing");
    let mut seen: HashMap<u128, State> = HashMap::new();
    let (mut rng, mut met) = (Rng::new(1), 0);
    for walk in 0..400 {
        // Few beginnings, so that ways meet; in which order all that follows happens is drawn.
        let inputs: &[Action] = match walk % 3 {
            0 => &[Action::Propose(NodeId(1)), Action::Propose(NodeId(1))],
            1 => &[Action::Wait(NodeId(1)), Action::Propose(NodeId(1))],
            _ => &[Action::Propose(NodeId(1)), Action::Wait(NodeId(2)), Action::Wait(NodeId(3))],
        };
        let mut state = first.clone();
        for input in inputs {
            let mut next = Some(*input);
            while let Some(action) = next {
                let after = world.apply(&state, action).expect("no invariant breaks");
                state = after.unwrap_or(state);
                if let Some(other) = seen.get(&state.hash())
                    && met < 1000
                    && !state.is_identical(other)
                {
                    met += 1;
                    assert_eq!(futures(&world, &state), futures(&world, other));
                }
                seen.insert(state.hash(), state.clone());
                let ticks = State::ids()
                    .map(Action::Tick)
                    .filter(|tick| world.apply(&state, *tick).expect("no invariant breaks").is_some());
                let under_way: Vec<_> = world.fabric_actions(&state).into_iter().chain(ticks).collect();
                next = (!under_way.is_empty()).then(|| under_way[rng.below(under_way.len() as u64) as usize]);
            }
        }
    }
    assert!(met > 100, "only {met} states were met by ways that left traces");
}
