//! `ringleader run` with several configurations: a process hosts a node of each group, and each group lives by itself.

mod demo_common;
mod run_common;

use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use demo_common::{Turn, turn};
use run_common::{PATIENCE, said, until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

const GROUPS: [&str; 2] = ["orders", "stock"];

struct Place {
    turn: Turn,
    shared: tempfile::TempDir,
}

struct Process {
    child: Child,
    log: PathBuf,
    applied: PathBuf,
}

impl Place {
    fn new() -> Place {
        let turn = turn();
        let shared =
            tempfile::Builder::new().prefix("ringleader-test-").tempdir_in("/dev/shm").expect("made");
        let place = Place { turn, shared };
        for group in GROUPS {
            let text = format!(
                "group = {group:?}\nmembers = [1, 2, 3]\nfabric = \"shm\"\nring = \"1M\"\n[shm]\ndirectory = {:?}\n",
                place.shared.path().join(group)
            );
            fs::write(place.config(group), text).expect("written");
        }
        place
    }

    fn config(&self, group: &str) -> PathBuf {
        self.turn.path(&format!("{group}.toml"))
    }

    fn run_command(&self, node: u8, groups: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ringleader"));
        command.arg("run").arg("--node").arg(node.to_string());
        for group in groups {
            command.arg("--config").arg(self.config(group));
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        command
    }

    fn run(&self, node: u8) -> Process {
        let (log, applied) =
            (self.turn.path(&format!("log-{node}")), self.turn.path(&format!("applied-{node}")));
        fs::create_dir(&applied).expect("made");
        let mut command = self.run_command(node, &GROUPS);
        command.arg("--applied").arg(&applied);
        command.stdin(Stdio::piped()).stderr(File::create(&log).expect("made"));
        Process { child: command.spawn().expect("starts"), log, applied }
    }

    fn status(&self, group: &str, node: u8) -> Option<Value> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ringleader"));
        command.args(["status", "--json", "--config"]).arg(self.config(group));
        let out = command.arg("--node").arg(node.to_string()).output().expect("runs");
        out.status.success().then(|| serde_json::from_slice(&out.stdout).expect("JSON"))
    }
}

impl Process {
    fn said(&self) -> String {
        fs::read_to_string(&self.log).expect("read")
    }

    fn applied(&self, group: &str) -> String {
        fs::read_to_string(self.applied.join(format!("{group}.applied"))).unwrap_or_default()
    }

    fn write(&mut self, text: &str) {
        self.child.stdin.as_mut().expect("a pipe").write_all(text.as_bytes()).expect("written");
    }

    fn end(&mut self, signal: Signal) -> Option<i32> {
        kill_process(Pid::from_child(&self.child), signal).expect("signalled");
        self.child.wait().expect("ends").code()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_process_hosts_several_groups_and_lines_go_where_they_are_told() {
    let place = Place::new();
    let mut nodes: Vec<Process> = (1..=3).map(|node| place.run(node)).collect();
    for group in GROUPS {
        for (at, node) in nodes.iter().enumerate() {
            until(|| place.status(group, at as u8 + 1).is_some(), || node.said());
        }
        let mut form = Command::new(env!("CARGO_BIN_EXE_ringleader"));
        let formed = form.args(["form", "--node", "2", "--config"]).arg(place.config(group)).output();
        let formed = formed.expect("runs");
        assert!(formed.status.success(), "{}", said(&formed));
    }
    // Lines for both groups to every node: whoever leads proposes, the others say who does.
    for group in GROUPS {
        until(
            || nodes.iter().any(|node| node.said().contains(&format!("of {group}: leads in term"))),
            || nodes[0].said(),
        );
    }
    for group in GROUPS {
        let deadline = Instant::now() + PATIENCE;
        while !nodes.iter().all(|node| node.applied(group).contains(&format!("to {group}\n"))) {
            assert!(Instant::now() < deadline, "{}", nodes[0].said());
            nodes.iter_mut().for_each(|node| node.write(&format!("{group} to {group}\n")));
            thread::sleep(Duration::from_millis(50));
        }
    }
    nodes[0].write("nobody hello\nnothing\n");
    until(
        || nodes[0].said().matches("does not begin with the name of a group here").count() == 2,
        || nodes[0].said(),
    );
    for node in &nodes {
        assert!(node.applied("orders").lines().all(|line| line == "to orders"));
        assert!(node.applied("stock").lines().all(|line| line == "to stock"));
    }
    // A process of one of the groups alone is turned away, and one that ends leaves nothing.
    let again = place.run_command(1, &["stock"]).output().expect("runs");
    assert_eq!(again.status.code(), Some(2));
    assert!(said(&again).contains("another process runs this node already"), "{}", said(&again));
    for node in &mut nodes {
        assert_eq!(node.end(Signal::INT), Some(0), "{}", node.said());
    }
    for group in GROUPS {
        let left = fs::read_dir(place.shared.path().join(group)).map_or(0, |dir| dir.count());
        assert_eq!(left, 0, "{group}");
    }
}

#[test]
fn what_cannot_be_hosted_together_is_refused_by_name() {
    let place = Place::new();
    let dir = place.turn.path("dir");
    fs::create_dir(&dir).expect("made");
    let refused = |groups: &[&str], applied: Option<&PathBuf>| {
        let mut command = place.run_command(1, groups);
        if let Some(applied) = applied {
            command.arg("--applied").arg(applied);
        }
        let out = command.output().expect("runs");
        assert_eq!(out.status.code(), Some(2), "{}", said(&out));
        let said = said(&out);
        assert_eq!(said.lines().count(), 1, "{said}");
        said
    };
    assert!(refused(&GROUPS, None).contains("the directory of their files must be given"));
    let file = place.turn.path("file");
    assert!(refused(&GROUPS, Some(&file)).contains("this is a directory"));
    assert!(refused(&["stock", "stock"], Some(&dir)).contains("group stock is that of"));
    let text = fs::read_to_string(place.config("stock")).expect("read");
    fs::write(place.config("stock"), format!("pin = 0\n{text}")).expect("written");
    assert!(refused(&GROUPS, Some(&dir)).contains("`pin` and `idle` are those of the one thread"));
    fs::write(place.config("stock"), text).expect("written");
    // One that cannot be opened takes the others along, and what was made goes again.
    fs::write(dir.join("stock.applied"), "something\n").expect("written");
    assert!(refused(&GROUPS, Some(&dir)).contains("is not empty"));
    assert!(!dir.join("orders.applied").exists());
    assert!(fs::read_dir(place.shared.path().join("orders")).map_or(0, |dir| dir.count()) == 0);
}
