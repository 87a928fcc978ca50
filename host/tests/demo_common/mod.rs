//! What the demo's process tests share: the program, its result, and turns.

#![allow(dead_code, reason = "each test program uses a part of it")]

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use rustix::fs::{FlockOperation, flock};
use serde_json::Value;

/// A directory of a test's own, and its turn: groups that compete for two processors would test the scheduler.
pub(crate) struct Turn {
    pub(crate) dir: tempfile::TempDir,
    _lock: File,
}

pub(crate) fn turn() -> Turn {
    let lock = File::create(std::env::temp_dir().join("ringleader-demo-tests.lock")).expect("a lock file");
    flock(&lock, FlockOperation::LockExclusive).expect("a lock");
    Turn { dir: tempfile::tempdir().expect("a temporary directory"), _lock: lock }
}

impl Turn {
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The demo with these options; what it makes in temporary directories is made in this test's.
    pub(crate) fn demo(&self, options: &str) -> Command {
        let temporary = self.path("temporary");
        fs::create_dir_all(&temporary).expect("made");
        let mut command = Command::new(env!("CARGO_BIN_EXE_ringleader"));
        command.arg("demo").args(options.split_whitespace()).env("TMPDIR", temporary);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// What the demo left where it was not told to leave anything.
    pub(crate) fn left_behind(&self) -> usize {
        fs::read_dir(self.path("temporary")).map_or(0, Iterator::count)
    }
}

/// A demo's end.
pub(crate) struct Ended {
    pub(crate) status: i32,
    pub(crate) json: Value,
    pub(crate) said: String,
}

pub(crate) fn run(command: &mut Command) -> Ended {
    let Output { status, stdout, stderr } = command.output().expect("the program runs");
    let said = String::from_utf8_lossy(&stderr).into_owned();
    let json = serde_json::from_slice(&stdout).unwrap_or(Value::Null);
    Ended { status: status.code().expect("ended by itself"), json, said }
}

/// So many lines, none like the other.
pub(crate) fn lines(count: usize) -> Vec<u8> {
    (0..count).flat_map(|line| format!("{line} {}\n", "x".repeat(line * 7 % 90)).into_bytes()).collect()
}

/// Every survivor's file is the input, nobody else has one, and the numbers say so.
pub(crate) fn check_all_well(ended: &Ended, dir: &Path, input: &[u8], nodes: u8) {
    let json = &ended.json;
    let context = format!("{json}\n{}", ended.said);
    assert_eq!(ended.status, 0, "{context}");
    let count = |key: &str| json[key].as_u64().unwrap_or_else(|| panic!("no {key}: {context}"));
    assert_eq!(count("nodes"), u64::from(nodes), "{context}");
    assert_eq!(count("acknowledged"), count("entries"), "{context}");
    assert_eq!((count("lost"), count("duplicated"), count("behind")), (0, 0, 0), "{context}");
    assert_eq!(json["identical"], true, "{context}");
    let survivors: Vec<u64> =
        json["survivors"].as_array().expect("a list").iter().filter_map(Value::as_u64).collect();
    for node in 1..=u64::from(nodes) {
        let file = dir.join(format!("node-{node}.applied"));
        if survivors.contains(&node) {
            assert!(fs::read(&file).expect("a survivor's file") == input, "node {node}: {context}");
        } else {
            assert!(!file.exists(), "node {node}: {context}");
        }
    }
}

/// Processes whose command line has this in it.
pub(crate) fn processes_with(argument: &str) -> Vec<u32> {
    let processes = fs::read_dir("/proc").expect("is there").flatten();
    processes
        .filter(|process| {
            fs::read(process.path().join("cmdline"))
                .is_ok_and(|line| line.split(|byte| *byte == 0).any(|part| part == argument.as_bytes()))
        })
        .filter_map(|process| process.file_name().to_str()?.parse().ok())
        .collect()
}

/// Waits until it is so, for ten seconds.
pub(crate) fn eventually(what: &str, mut so: impl FnMut() -> bool) {
    for _ in 0..1000 {
        if so() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("never: {what}");
}
