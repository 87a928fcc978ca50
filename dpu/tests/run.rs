//! `ringleader-dpu run` beside `ringleader run` as people use them: two processes a node, over shared memory.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use ringleader::service::status::NodeStatus;
use rustix::process::{Pid, Signal, kill_process};

const PATIENCE: Duration = Duration::from_secs(60);

/// The two programs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Program {
    Host,
    Dpu,
}

impl Program {
    fn path(self) -> PathBuf {
        let dpu = Path::new(env!("CARGO_BIN_EXE_ringleader-dpu"));
        match self {
            Program::Dpu => dpu.to_owned(),
            Program::Host => {
                let host = dpu.with_file_name("ringleader");
                assert!(host.exists(), "{} is missing: cargo build --package ringleader", host.display());
                host
            }
        }
    }
}

/// Three nodes with a configuration of their own directory.
struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new(dpu: &str) -> Place {
        let dir = tempfile::Builder::new().prefix("ringleader-test-").tempdir_in("/dev/shm").expect("made");
        let place = Place { dir };
        let regions = place.path("group");
        let text = format!(
            "group = \"test\"\nmembers = [1, 2, 3]\nfabric = \"shm\"\nring = \"1M\"\n[shm]\ndirectory = {regions:?}\n{dpu}"
        );
        fs::write(place.path("group.toml"), text).expect("written");
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn command(&self, program: Program, what: &str, node: u8) -> Command {
        let mut command = Command::new(program.path());
        command.arg(what).arg("--config").arg(self.path("group.toml")).args(["--node", &node.to_string()]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn run(&self, program: Program, node: u8, life: u32) -> Running {
        let log = self.path(&format!("log-{program:?}-{node}-{life}"));
        let applied = self.path(&format!("applied-{node}-{life}"));
        let mut command = self.command(program, "run", node);
        command.stderr(File::create(&log).expect("made"));
        if program == Program::Host {
            command.stdin(Stdio::piped()).stdout(File::create(&applied).expect("made"));
        }
        let mut child = command.spawn().expect("starts");
        let stdin = child.stdin.take();
        Running { child, stdin, log, applied }
    }

    fn status(&self, program: Program, node: u8) -> Option<NodeStatus> {
        let Output { status, stdout, .. } =
            self.command(program, "status", node).arg("--json").output().expect("runs");
        status.success().then(|| serde_json::from_slice(&stdout).expect("JSON"))
    }

    fn leader(&self, nodes: &[u8]) -> Option<u8> {
        let leads =
            |node: &u8| self.status(Program::Host, *node).is_some_and(|status| status.role == "leader");
        nodes.iter().copied().find(|node| leads(node))
    }
}

struct Running {
    child: Child,
    stdin: Option<ChildStdin>,
    log: PathBuf,
    applied: PathBuf,
}

impl Running {
    fn said(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    fn applied(&self) -> String {
        fs::read_to_string(&self.applied).unwrap_or_default()
    }

    fn write(&mut self, text: &str) {
        self.stdin.as_mut().expect("open").write_all(text.as_bytes()).expect("written");
    }

    /// Sends it a signal and waits for its end.
    fn end(&mut self, signal: Signal) -> Option<i32> {
        kill_process(Pid::from_child(&self.child), signal).expect("sent");
        self.child.wait().expect("ends").code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn until(what: &str, mut look: impl FnMut() -> bool, said: impl Fn() -> String) {
    let deadline = Instant::now() + PATIENCE;
    while !look() {
        assert!(Instant::now() < deadline, "{what}: {}", said());
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn hosts_die_and_come_back_while_their_dpus_vote_on() {
    let place = Place::new("[dpu]\n");
    let mut dpus: Vec<Running> = (1..=3).map(|node| place.run(Program::Dpu, node, 1)).collect();
    let mut hosts: Vec<Running> = (1..=3).map(|node| place.run(Program::Host, node, 1)).collect();
    for node in 1..=3 {
        let said = || format!("{}{}", dpus[node - 1].said(), hosts[node - 1].said());
        for program in [Program::Dpu, Program::Host] {
            until("both run", || place.status(program, node as u8).is_some(), said);
        }
    }
    let formed = place.command(Program::Host, "form", 2).output().expect("runs");
    assert!(formed.status.success(), "{}", String::from_utf8_lossy(&formed.stderr));

    let all = || dpus.iter().chain(&hosts).map(Running::said).collect::<String>();
    let mut leader = None;
    until(
        "a host leads",
        || {
            leader = place.leader(&[1, 2, 3]);
            leader.is_some()
        },
        all,
    );
    let former = leader.expect("just seen");
    let at = usize::from(former) - 1;
    let lines: String = (0..500).map(|number| format!("line {number}\n")).collect();
    hosts[at].write(&lines);
    until(
        "all apply",
        || hosts.iter().all(|host| host.applied() == lines),
        || {
            hosts
                .iter()
                .map(|host| format!("{} lines; {}", host.applied().lines().count(), host.said()))
                .collect()
        },
    );
    until(
        "its own acceptor follows it, too",
        || place.status(Program::Dpu, former).is_some_and(|status| status.leader == Some(former)),
        || dpus[at].said(),
    );

    // The leader's host dies. Its DPU says so, and votes; the log is there.
    hosts[at].end(Signal::KILL);
    let others: Vec<u8> = (1..=3).filter(|node| *node != former).collect();
    let host_is = |node: u8, alive: bool| {
        let status = place.status(Program::Dpu, node);
        status.and_then(|status| status.host).is_some_and(|host| host.alive == alive)
    };
    until("it is marked down", || host_is(former, false), || dpus[at].said());
    let mut leader = None;
    until(
        "another host leads",
        || {
            leader = place.leader(&others);
            leader.is_some()
        },
        String::new,
    );
    let second = leader.expect("just seen");

    // One of the two others dies whole: what goes on needs the vote of the DPU whose host is dead.
    let third = others.into_iter().find(|node| *node != second).expect("two others");
    hosts[usize::from(third) - 1].end(Signal::KILL);
    dpus[usize::from(third) - 1].end(Signal::KILL);
    let more: String = (500..900).map(|number| format!("line {number}\n")).collect();
    let mut leader = None;
    until(
        "one leads with that vote",
        || {
            leader = place.leader(&[second]);
            leader.is_some()
        },
        String::new,
    );
    hosts[usize::from(second) - 1].write(&more);
    let whole = format!("{lines}{more}");
    until(
        "the leader applies",
        || hosts[usize::from(second) - 1].applied() == whole,
        || hosts[usize::from(second) - 1].said(),
    );

    // The host comes back, with nothing, and finds all of it on its DPU.
    hosts[at] = place.run(Program::Host, former, 2);
    until("it catches up", || hosts[at].applied() == whole, || hosts[at].said());
    until("it is marked up", || host_is(former, true), || dpus[at].said());

    for node in [former, second] {
        assert_eq!(hosts[usize::from(node) - 1].end(Signal::TERM), Some(0));
        assert_eq!(dpus[usize::from(node) - 1].end(Signal::TERM), Some(0));
    }
    let left = fs::read_dir(place.path("group")).expect("there").flatten().map(|entry| entry.file_name());
    let left: Vec<String> = left.filter_map(|name| name.into_string().ok()).collect();
    assert!(
        left.iter().all(|name| name.contains(&third.to_string())),
        "only what the killed ones left: {left:?}"
    );
}

#[test]
fn a_host_ends_with_the_life_of_its_dpu() {
    let place = Place::new("[dpu]\n");
    let mut host = place.run(Program::Host, 1, 1);
    until("it says what it waits for", || host.said().contains("waits for its acceptor"), || host.said());
    let mut dpu = place.run(Program::Dpu, 1, 1);
    until(
        "it is up",
        || place.status(Program::Dpu, 1).and_then(|status| status.host).is_some(),
        || host.said(),
    );
    let silent = || place.status(Program::Host, 1).map(|status| status.acceptor_silent);
    until("it has met it", || silent() == Some(false), || host.said());
    dpu.end(Signal::KILL);
    until("it misses it", || silent() == Some(true), || host.said());
    let _again = place.run(Program::Dpu, 1, 2);
    assert_eq!(host.child.wait().expect("ends").code(), Some(1), "{}", host.said());
    assert!(host.said().contains("start the host anew"), "{}", host.said());
}

#[test]
fn what_cannot_be_is_named() {
    let refused = |dpu: &str, program, what: &str| {
        let place = Place::new(dpu);
        let output = place.command(program, what, 1).output().expect("runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(!place.path("group").exists(), "nothing is left behind");
        said
    };
    assert!(refused("", Program::Dpu, "run").contains("no table [dpu]"));
    assert!(
        refused("[dpu]\nfence_host = \"cable\"\n", Program::Dpu, "run")
            .contains("group.toml:8: fence_host \"cable\"")
    );
    assert!(
        refused("[dpu]\nfence_host = \"representor\"\n", Program::Dpu, "run")
            .contains("representor = \"pf0hpf\"")
    );
    assert!(refused("[dpu]\nrepresentor = \"pf0hpf\"\n", Program::Host, "run").contains("fence_host"));
    let odd = "[dpu]\nfence_host = \"representor\"\nrepresentor = \"-x\"\n";
    assert!(refused(odd, Program::Dpu, "run").contains("no name of a network device"));
    let gone = "[dpu]\nfence_host = \"representor\"\nrepresentor = \"nosuchport\"\n";
    assert!(refused(gone, Program::Dpu, "run").contains("no such network device"));
    assert!(refused("[dpu]\nplacement = \"host\"\n", Program::Dpu, "run").contains("one memory"));
    assert!(refused("[dpu]\n", Program::Dpu, "status").contains("no node runs there"));
}

/// What takes DOCA is refused by a build without it, by either program, before anything is made.
#[cfg(not(feature = "doca"))]
#[test]
fn a_log_in_the_hosts_memory_needs_doca() {
    let place = Place::new("");
    let text = "group = \"test\"\nfabric = \"verbs\"\nsnapshot = 0\ncontrol = \"control\"\n[members]\n1 = \"127.0.0.1:7999\"\n\
                [verbs]\nkey_file = \"key\"\n[dpu]\ncontrol = \"dpu\"\nplacement = \"host\"\nhost = \"0000:3b:00.0\"\n";
    fs::write(place.path("group.toml"), text).expect("written");
    let made = Command::new(Program::Host.path()).arg("key").arg(place.path("key")).status();
    assert!(made.expect("runs").success());
    for program in [Program::Dpu, Program::Host] {
        let output = place.command(program, "run", 1).output().expect("runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("placement = \"host\" needs DOCA, which is not part of this build"), "{said}");
        assert!(!place.path("control").exists() && !place.path("dpu").exists(), "nothing is left behind");
    }
}
