//! Each directed schedule over some seeds: its story gets told, all invariants hold, and the group gets well.

use ringleader_tests::directed::ALL;
use ringleader_tests::run::quiet_panics;

const SEEDS: u64 = 40;
/// Some need several things to happen by chance; a story told less often than once in so many seeds is none.
const TOLD: u64 = 20;

#[test]
fn directed_schedules_are_told_and_hold() {
    for directed in ALL {
        let mut told = 0;
        for seed in 1..=SEEDS {
            let outcome = (directed.run)(seed, 0);
            if let Some(violation) = outcome.violation {
                let story = (directed.run)(seed, 40).trace.join("\n");
                panic!("{story}\n{}, seed {seed}: {violation}", directed.name);
            }
            told += u64::from(outcome.told);
        }
        assert!(told * TOLD >= SEEDS, "{} was told {told} times of {SEEDS}", directed.name);
    }
}

#[test]
fn a_directed_seed_is_the_same_run_every_time() {
    quiet_panics();
    for directed in ALL {
        for seed in 1..4 {
            let (one, other) = ((directed.run)(seed, 10_000), (directed.run)(seed, 10_000));
            assert_eq!(one.trace, other.trace, "{}, seed {seed}", directed.name);
        }
    }
}
