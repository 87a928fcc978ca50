//! Production replicas on simulated memory: fresh seeds, seeds that once failed, and the proof that this finds anything.

use ringleader_tests::run::{quiet_panics, run, run_plan};
use ringleader_tests::schedule::{Fault, Plan};
use ringleader_tests::seed::Scheme;

fn must_hold(nodes: u8, seeds: impl Iterator<Item = u64>) {
    let (mut entries, mut judged) = (0, 0);
    for seed in seeds {
        let outcome = run(seed, nodes, 0);
        if let Some(violation) = outcome.violation {
            let story = run(seed, nodes, 40).trace.join("\n");
            panic!(
                "{story}\n{nodes} nodes, seed {seed}: {violation}\n\
                 replay: cargo run --release -p ringleader-tests --bin sim -- --nodes {nodes} --seed {seed}"
            );
        }
        entries += outcome.entries;
        judged += usize::from(outcome.recovery_ns.is_some());
    }
    assert!(entries > 0 && judged > 0, "{entries} entries, {judged} runs judged: the simulator does nothing");
}

#[test]
fn three_nodes_first_half() {
    must_hold(3, 1..=100);
}

#[test]
fn three_nodes_second_half() {
    must_hold(3, 101..=200);
}

#[test]
fn five_nodes() {
    must_hold(5, 1..=100);
}

#[test]
fn seeds_that_once_failed() {
    for line in include_str!("../seeds.txt").lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split_whitespace().map(|word| word.parse::<u64>().expect("nodes and seed"));
        let (nodes, seed) = (words.next().expect("nodes"), words.next().expect("seed"));
        must_hold_once(nodes as u8, seed);
    }
}

fn must_hold_once(nodes: u8, seed: u64) {
    if let Some(violation) = (Scheme::Base { nodes }).run(seed, 0).violation {
        panic!("{nodes} nodes, seed {seed}: {violation}");
    }
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
