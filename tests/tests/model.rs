//! The model in its short form: a small space is exhausted, and what breaks a promise is found in it.

use ringleader_tests::model::state::Bounds;
use ringleader_tests::model::{Found, Limits, Round, rounds};

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
