//! Some rounds of chaos end well; mistakes planted into the nodes are found; and nothing is left behind.
//!
//! `make chaos ROUNDS=200` is the long form.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, kill_process};

const ROUNDS: &str = "6";

/// A directory of a test's own, and its turn: groups that compete for two processors would test the scheduler. The host's
/// process tests take turns by the same file.
struct Turn {
    dir: tempfile::TempDir,
    _lock: File,
}

fn turn() -> Turn {
    let lock = File::create(std::env::temp_dir().join("ringleader-demo-tests.lock")).expect("a lock file");
    flock(&lock, FlockOperation::LockExclusive).expect("a lock");
    Turn { dir: tempfile::tempdir().expect("a temporary directory"), _lock: lock }
}

impl Turn {
    fn start(&self, options: &str) -> Child {
        let mut command = Command::new(env!("CARGO_BIN_EXE_chaos"));
        command.args(options.split_whitespace()).arg("--keep").arg(self.dir.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("the program runs")
    }

    /// Its exit status and what it said.
    fn chaos(&self, options: &str) -> (Option<i32>, String) {
        let child = self.start(options);
        let id = child.id();
        let Output { status, stdout, stderr } = child.wait_with_output().expect("ends");
        assert_eq!(left_behind(id), Vec::<PathBuf>::new());
        let said = [stdout, stderr].concat();
        (status.code(), String::from_utf8_lossy(&said).into_owned())
    }
}

/// Directories and processes that a run has left.
fn left_behind(id: u32) -> Vec<PathBuf> {
    let of_run = |path: &Path| path.to_string_lossy().contains(&format!("ringleader-chaos-{id}-"));
    let shared = fs::read_dir("/dev/shm").into_iter().flatten().flatten().map(|entry| entry.path());
    let mut left: Vec<PathBuf> = shared.filter(|path| of_run(path)).collect();
    for process in fs::read_dir("/proc").expect("is there").flatten() {
        let line = fs::read(process.path().join("cmdline")).unwrap_or_default();
        if of_run(Path::new(&*String::from_utf8_lossy(&line))) {
            left.push(process.path());
        }
    }
    left
}

#[test]
fn rounds_end_well() {
    let turn = turn();
    let (status, said) = turn.chaos(&format!("--rounds {ROUNDS}"));
    assert_eq!(status, Some(0), "{said}");
    assert_eq!(said.matches("round ").count().to_string(), ROUNDS, "{said}");
}

#[test]
fn rounds_of_hosts_and_acceptors_end_well() {
    let turn = turn();
    let (status, said) = turn.chaos(&format!("--apart --rounds {ROUNDS}"));
    assert_eq!(status, Some(0), "{said}");
    assert_eq!(said.matches("round ").count().to_string(), ROUNDS, "{said}");
}

/// What a seed plants is found in one of a few rounds, and what is found is kept.
fn is_found(plant: &str, as_what: &str) {
    let turn = turn();
    // A ring that is not recycled: the state of a node that is wrong is not passed on to others, and seen as what it is.
    let (status, said) = turn.chaos(&format!("--plant {plant} --rounds 8 --seed 7 --ring 16M"));
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("WRONG: ") && said.contains(as_what), "{said}");
    let kept: Vec<PathBuf> =
        fs::read_dir(turn.dir.path()).expect("there").flatten().map(|entry| entry.path()).collect();
    assert_eq!(kept.len(), 1, "{said}");
    for file in ["events", "node-1.life-1.log", "node-1.life-1.applied"] {
        assert!(kept[0].join(file).exists(), "{file} in {}", kept[0].display());
    }
}

#[test]
fn a_stale_read_is_found() {
    is_found("stale", "did not see entry");
}

#[test]
fn an_acknowledged_entry_that_is_lost_is_found() {
    is_found("lost", "attempts: ");
}

#[test]
fn an_entry_that_is_applied_twice_is_found() {
    is_found("doubled", "stands behind entry");
}

#[test]
fn a_node_that_passes_over_an_entry_is_found() {
    is_found("skipped", "applied Applied");
}

#[test]
fn ctrl_c_leaves_nothing_behind() {
    let turn = turn();
    let child = turn.start("--rounds 100");
    let id = child.id();
    let begun = Instant::now();
    while left_behind(id).len() < 4 {
        assert!(begun.elapsed() < Duration::from_secs(20), "no nodes");
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(Duration::from_millis(700));
    kill_process(Pid::from_child(&child), Signal::INT).expect("sent");
    let output = child.wait_with_output().expect("ends");
    assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(left_behind(id), Vec::<PathBuf>::new());
}

#[test]
fn what_cannot_be_is_refused() {
    let turn = turn();
    for wrong in ["--ring 1X", "--device rxe0", "--rounds 0", "--nodes 2", "--fabric tcp"] {
        assert_eq!(turn.chaos(wrong).0, Some(64), "{wrong}");
    }
}
