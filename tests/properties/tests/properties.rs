//! Every property on what once broke it, and on bytes drawn at random: other ones in every run.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use proptest::collection::vec;
use proptest::prelude::any;
use proptest::test_runner::{Config, TestRunner};

/// `cases` strings of up to `max_len` bytes. What breaks the property is made as short as possible and shown; kept as
/// a file in `found/<name>/` it is tried first for ever.
fn check(name: &str, property: fn(&[u8]), cases: u32, max_len: usize) {
    let found = Path::new(env!("CARGO_MANIFEST_DIR")).join("found").join(name);
    for file in fs::read_dir(found).into_iter().flatten() {
        let path = file.expect("a readable directory").path();
        eprintln!("{}", path.display());
        property(&fs::read(&path).expect("a readable file"));
    }
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let drawn = TestRunner::new(config).run(&vec(any::<u8>(), 0..max_len), |bytes| {
        property(&bytes);
        Ok(())
    });
    if let Err(error) = drawn {
        panic!("{name}: {error}");
    }
}

fn names_in(dir: &str) -> BTreeSet<String> {
    let dir = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(dir)).expect("a readable directory");
    dir.map(|file| file.expect("a readable directory").file_name().to_string_lossy().into_owned()).collect()
}

macro_rules! properties {
    ($($name:ident: $cases:literal of $max_len:literal;)*) => {
        $(#[test]
        fn $name() {
            check(stringify!($name), ringleader_properties::$name, $cases, $max_len);
        })*

        #[test]
        fn each_has_a_fuzz_target_and_only_these_have_findings() {
            let names = [$(stringify!($name)),*];
            let targets = names_in("../../fuzz/fuzz_targets");
            assert_eq!(targets, BTreeSet::from(names.map(|name| format!("{name}.rs"))));
            assert!(names_in("found").iter().all(|found| names.contains(&found.as_str())));
        }
    };
}

properties! {
    judge: 4000 of 300;
    lines: 4000 of 600;
    mailbox: 4000 of 500;
    walker: 1500 of 600;
    replica: 150 of 6000;
    region_header: 4000 of 100;
    region: 100 of 400;
    inspect: 500 of 400;
    wire: 1000 of 300;
}
