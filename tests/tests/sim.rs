//! Production replicas on simulated memory: fresh seeds, seeds that once failed, and the proof that this finds anything.

use std::ops::RangeInclusive;
use std::time::{SystemTime, UNIX_EPOCH};

use ringleader_tests::directed;
use ringleader_tests::fabric::Faults;
use ringleader_tests::run::{quiet_panics, run, run_plan};
use ringleader_tests::schedule::{Fault, Plan};
use ringleader_tests::seed::Scheme;
use ringleader_tests::transitions;

/// Runs seeds, and tells the story of the first that shows anything.
fn must_hold(seeds: impl Iterator<Item = (u64, Scheme)>) {
    let (mut entries, mut judged) = (0, 0);
    for (seed, scheme) in seeds {
        let outcome = scheme.run(seed, 0);
        if let Some(violation) = outcome.violation {
            let story = scheme.run(seed, 40).trace.join("\n");
            panic!(
                "{story}\n{}, {} nodes, seed {seed}: {violation}\nreplay: {}",
                scheme.name(),
                outcome.nodes,
                scheme.replay(seed)
            );
        }
        entries += outcome.entries;
        judged += usize::from(outcome.recovery_ns.is_some());
    }
    assert!(entries > 0 && judged > 0, "{entries} entries, {judged} runs judged: the simulator does nothing");
}

fn storms(nodes: u8, seeds: RangeInclusive<u64>) -> impl Iterator<Item = (u64, Scheme)> {
    seeds.map(move |seed| (seed, Scheme::Swarm { nodes }))
}

#[test]
fn three_nodes() {
    must_hold(storms(3, 1..=120));
}

#[test]
fn five_nodes() {
    must_hold(storms(5, 1..=60));
}

/// Other seeds in every run of the tests: what they find is printed with the command that replays it.
/// The same storms, but that hosts and acceptors fail apart.
#[test]
fn hosts_and_acceptors_apart() {
    for name in ["split", "split-snapshots"] {
        must_hold((1..=150).map(|seed| (seed, Scheme::named(name, seed, None).expect("a schedule"))));
    }
}

#[test]
fn fresh_seeds() {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock that is set");
    let first = since.as_millis() as u64;
    must_hold((first..first + 300).map(|seed| (seed, Scheme::draw(seed, None))));
}

#[test]
fn seeds_that_once_failed() {
    let lines = include_str!("../seeds.txt").lines().filter(|line| !line.starts_with('#'));
    must_hold(lines.map(|line| {
        let mut words = line.split_whitespace();
        let mut number = || words.next().and_then(|word| word.parse::<u64>().ok()).expect("nodes and seed");
        let (nodes, seed) = (number() as u8, number());
        let name = words.next().unwrap_or("base");
        (seed, Scheme::named(name, seed, Some(nodes)).expect("a schedule"))
    }));
}

/// A fault that no seed draws, or a transition that none exercises, is one that nothing here tests.
#[test]
fn every_fault_happens_and_every_transition_is_exercised() {
    let mut faults = Faults::default();
    let mut missing = Vec::new();
    for seed in 1..=4000 {
        faults.add(&Scheme::draw(seed, None).run(seed, 0).faults);
        if seed % 10 == 0 {
            // More of these than a seed draws: the rarest transitions are theirs.
            directed::ALL.iter().for_each(|story| faults.add(&(story.run)(seed, 0).faults));
        }
        if seed % 100 != 0 {
            continue;
        }
        // Nobody arms too early: `fabric.rs` does it by hand.
        let absent = faults.list().filter(|(name, count)| *count == 0 && *name != "false_successes");
        missing = absent.map(|(name, _)| name.to_owned()).collect::<Vec<_>>();
        missing.extend(transitions::never_reached(&transitions::all()));
        if missing.is_empty() {
            break;
        }
    }
    assert_eq!(missing, Vec::<String>::new());
    assert_eq!(faults.false_successes, 0);
    let unknown: Vec<String> =
        transitions::all().into_iter().map(|one| one.text).filter(|text| text.contains("UNKNOWN")).collect();
    assert_eq!(unknown, Vec::<String>::new());
}

#[test]
fn a_seed_is_the_same_run_every_time() {
    for seed in 1..20 {
        let (one, other) = (run(seed, 3, 10_000), run(seed, 3, 10_000));
        assert_eq!(one.trace, other.trace, "seed {seed}");
        assert_eq!(one.simulated_ns, other.simulated_ns);
    }
}

/// How many seeds it takes until a fabric that breaks a promise is noticed.
fn noticed_after(break_promise: impl Fn(&mut Plan)) -> Option<(u64, u8)> {
    quiet_panics();
    (1..=400).find_map(|seed| {
        let mut plan = Plan::draw(seed, 3);
        plan.faults = vec![Fault::PauseLeaderInCopy, Fault::PauseLeader, Fault::Isolate];
        plan.weather.landing_ppm = 600_000;
        plan.fault_every_ns = plan.safety_ns / 12;
        break_promise(&mut plan);
        run_plan(plan, 0).violation.map(|violation| (seed, violation.invariant))
    })
}

#[test]
fn a_fence_that_does_not_drain_is_noticed() {
    let noticed = noticed_after(|plan| {
        plan.weather.fence_drains = false;
        plan.weather.fence_ns = (1, 2);
    });
    assert!(noticed.is_some(), "nobody notices that writes land after a fence");
}

#[test]
fn a_log_that_anybody_can_write_is_noticed() {
    let noticed = noticed_after(|plan| plan.weather.checks_permission = false);
    assert!(noticed.is_some(), "nobody notices that former leaders still write");
}

#[test]
fn the_same_plans_on_an_honest_fabric_show_nothing() {
    let noticed = noticed_after(|_| {});
    assert_eq!(noticed, None);
}
