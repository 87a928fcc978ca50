//! Nodes as processes of the program over shared memory, each test with a directory of its own.

#![allow(dead_code, reason = "each test program uses its own part")]

use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::demo_common::{Turn, turn};

pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A configuration for three nodes with everything in the test's own directory, the regions in shared memory.
pub(crate) struct Place {
    pub(crate) turn: Turn,
    pub(crate) shared: tempfile::TempDir,
}

impl Place {
    pub(crate) fn new() -> Place {
        let turn = turn();
        let shared =
            tempfile::Builder::new().prefix("ringleader-test-").tempdir_in("/dev/shm").expect("made");
        let place = Place { turn, shared };
        let text = format!(
            "group = \"test\"\nmembers = [1, 2, 3]\nfabric = \"shm\"\nring = \"1M\"\n[shm]\ndirectory = {:?}\n",
            place.regions()
        );
        fs::write(place.config(), text).expect("written");
        place
    }

    pub(crate) fn regions(&self) -> PathBuf {
        self.shared.path().join("group")
    }

    pub(crate) fn config(&self) -> PathBuf {
        self.turn.path("group.toml")
    }

    pub(crate) fn command(&self, what: &str, node: u8) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ringleader"));
        command.arg(what).arg("--config").arg(self.config()).arg("--node").arg(node.to_string());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub(crate) fn run(&self, node: u8) -> Running {
        self.start(self.command("run", node), node)
    }

    /// A command that goes on.
    pub(crate) fn start(&self, mut command: Command, node: u8) -> Running {
        let log = self.turn.path(&format!("log-{node}"));
        let applied = self.turn.path(&format!("applied-{node}"));
        command.stdin(Stdio::piped());
        command.stdout(File::create(&applied).expect("made")).stderr(File::create(&log).expect("made"));
        let mut child = command.spawn().expect("starts");
        let stdin = child.stdin.take();
        Running { node, child, stdin, log, applied }
    }

    pub(crate) fn status(&self, node: u8) -> Option<Value> {
        let Output { status, stdout, .. } =
            self.command("status", node).arg("--json").output().expect("runs");
        status.success().then(|| serde_json::from_slice(&stdout).expect("JSON"))
    }

    /// Waits until all of these are there to be asked.
    pub(crate) fn wait_for(&self, nodes: &[Running]) {
        for node in nodes {
            until(|| self.status(node.node).is_some(), || node.said());
        }
    }

    pub(crate) fn leader(&self, nodes: &[Running]) -> usize {
        let mut leader = None;
        until(
            || {
                leader = nodes
                    .iter()
                    .position(|node| self.status(node.node).is_some_and(|status| status["role"] == "leader"));
                leader.is_some()
            },
            || nodes.iter().map(Running::said).collect(),
        );
        leader.expect("found")
    }
}

pub(crate) struct Running {
    pub(crate) node: u8,
    pub(crate) child: Child,
    pub(crate) stdin: Option<ChildStdin>,
    pub(crate) log: PathBuf,
    pub(crate) applied: PathBuf,
}

impl Running {
    pub(crate) fn said(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    pub(crate) fn applied(&self) -> String {
        fs::read_to_string(&self.applied).unwrap_or_default()
    }

    pub(crate) fn write(&mut self, text: &str) {
        self.stdin.as_mut().expect("open").write_all(text.as_bytes()).expect("written");
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("sent");
    }

    /// Its exit status.
    pub(crate) fn end(&mut self, signal: Signal) -> Option<i32> {
        self.signal(signal);
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            if let Some(status) = self.child.try_wait().expect("its status") {
                return status.code();
            }
            thread::sleep(Duration::from_millis(5));
        }
        panic!("does not end: {}", self.said());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[track_caller]
pub(crate) fn until(mut is_true: impl FnMut() -> bool, say: impl Fn() -> String) {
    let begun = Instant::now();
    while !is_true() {
        assert!(begun.elapsed() < PATIENCE, "never: {}", say());
        thread::sleep(Duration::from_millis(10));
    }
}

pub(crate) fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout)
}
