//! `ringleader run`, `form` and `status` as people use them: processes over shared memory, one configuration for all.

mod demo_common;
mod run_common;

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use demo_common::turn;
use run_common::{Place, said, until};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::{Pid, Signal, kill_process};

#[test]
fn three_processes_form_a_group_apply_lines_and_leave_nothing_behind() {
    let place = Place::new();
    // Nobody is there yet.
    let early = place.command("form", 1).output().expect("runs");
    assert_eq!(early.status.code(), Some(2));
    assert!(said(&early).contains("no node runs there"), "{}", said(&early));

    let mut nodes = vec![place.run(1), place.run(2)];
    place.wait_for(&nodes);
    // One is missing.
    let alone = place.command("form", 1).args(["--timeout", "1"]).output().expect("runs");
    assert_eq!(alone.status.code(), Some(1));
    assert!(said(&alone).contains("not formed within 1 s: node 3 is not reached"), "{}", said(&alone));
    assert_eq!(place.status(1).expect("runs")["formed"], false);
    // Forming goes on.
    nodes.push(place.run(3));
    place.wait_for(&nodes);
    until(|| place.status(1).is_some_and(|status| status["formed"] == true), || nodes[0].said());
    let again = place.command("form", 1).output().expect("runs");
    assert_eq!(again.status.code(), Some(0));
    let group = place.status(1).expect("runs")["group"].as_str().expect("text").to_owned();
    assert_eq!(String::from_utf8_lossy(&again.stdout), format!("the node is in group {group} already\n"));

    // A second process for the same node is turned away, and harms nobody.
    let second = place.command("run", 1).output().expect("runs");
    assert_eq!(second.status.code(), Some(2));
    assert!(said(&second).contains("another process runs this node already"), "{}", said(&second));

    // Lines go to whoever leads; others say who that is.
    let leader = place.leader(&nodes);
    let id = nodes[leader].node;
    let follower = (leader + 1) % 3;
    until(|| nodes[follower].said().contains(&format!("follows node {id}")), || nodes[follower].said());
    nodes[follower].write("to the wrong one\n");
    until(
        || nodes[follower].said().contains(&format!("line 1: not proposed: node {id} leads")),
        || nodes[follower].said(),
    );
    let lines: String = (0..2000).map(|number| format!("line {number}\n")).collect();
    nodes[leader].write(&lines);
    for node in &nodes {
        until(|| node.applied() == lines, || format!("{} {}", node.said(), node.applied().len()));
    }
    // The leader goes, another takes over, and a line without its end counts when the input ends.
    assert_eq!(nodes[leader].end(Signal::TERM), Some(0), "{}", nodes[leader].said());
    let gone = nodes.remove(leader);
    assert!(gone.said().contains("leads in term"), "{}", gone.said());
    let leader = place.leader(&nodes);
    nodes[leader].write("last");
    drop(nodes[leader].stdin.take());
    for node in &nodes {
        until(|| node.applied() == format!("{lines}last\n"), || node.said());
    }
    until(|| nodes[leader].said().contains("end of input: 1 lines committed"), || nodes[leader].said());
    let status = place.command("status", nodes[leader].node).output().expect("runs");
    assert!(said(&status).contains("leads in term"), "{}", said(&status));
    for node in &mut nodes {
        assert_eq!(node.end(Signal::INT), Some(0), "{}", node.said());
    }
    let left: Vec<_> =
        fs::read_dir(place.regions()).map_or_else(|_| Vec::new(), |dir| dir.flatten().collect());
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_killed_node_leaves_a_socket_that_the_next_replaces() {
    let place = Place::new();
    let mut node = place.run(1);
    until(|| place.status(1).is_some(), || node.said());
    node.child.kill().expect("killed");
    node.child.wait().expect("ended");
    assert!(place.regions().join("node-1.control").exists());
    let mut node = place.run(1);
    until(|| place.status(1).is_some(), || node.said());
    assert_eq!(node.end(Signal::TERM), Some(0));
    assert!(fs::read_dir(place.regions()).expect("stays: it was there before").next().is_none());
}

#[test]
fn a_forming_that_waits_does_not_keep_a_node_from_ending() {
    let place = Place::new();
    let mut node = place.run(1);
    until(|| place.status(1).is_some(), || node.said());
    let mut form = place.command("form", 1).args(["--timeout", "600"]).spawn().expect("runs");
    thread::sleep(Duration::from_millis(200));
    let begun = Instant::now();
    assert_eq!(node.end(Signal::TERM), Some(0));
    assert!(begun.elapsed() < Duration::from_secs(10));
    assert_eq!(form.wait().expect("ends").code(), Some(1));
}

/// Whoever gave up waiting takes no turn from those who ask next.
#[test]
fn formings_that_nobody_waits_for_are_over() {
    let place = Place::new();
    let mut node = place.run(1);
    until(|| place.status(1).is_some(), || node.said());
    let socket = place.regions().join("node-1.control");
    for _ in 0..8 {
        let mut stream = UnixStream::connect(&socket).expect("connects");
        stream.write_all(b"{\"form\":{\"timeout_ms\":600000}}\n").expect("written");
        thread::sleep(Duration::from_millis(100));
    }
    let begun = Instant::now();
    until(|| place.status(1).is_some(), || node.said());
    assert!(begun.elapsed() < Duration::from_secs(10));
    assert_eq!(node.end(Signal::TERM), Some(0));
}

/// A job in the background that reads its terminal is stopped by the kernel: such a node would be a zombie.
#[test]
fn a_node_in_the_background_of_a_terminal_does_not_read_it() {
    let place = Place::new();
    let run = place.command("run", 1);
    let args: Vec<_> = run.get_args().map(|arg| arg.to_str().expect("text")).collect();
    let job = format!(
        "set -m; {} {} & cat; kill -CONT %1; kill %1; wait",
        env!("CARGO_BIN_EXE_ringleader"),
        args.join(" ")
    );
    let mut shell = Command::new("script")
        .args(["--quiet", "--command", &format!("bash -c '{job}'"), "/dev/null"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("script (util-linux) runs");
    until(|| place.status(1).is_some(), || "does not start".to_owned());
    let mut terminal = shell.stdin.take().expect("open");
    for _ in 0..20 {
        terminal.write_all(b"for somebody else\n").expect("written");
        thread::sleep(Duration::from_millis(25));
    }
    assert!(place.status(1).is_some(), "it was stopped");
    terminal.write_all(b"\x04").expect("written");
    assert!(shell.wait().expect("ends").success());
}

#[test]
fn what_asks_nonsense_or_nothing_is_not_answered() {
    let place = Place::new();
    let mut node = place.run(1);
    until(|| place.status(1).is_some(), || node.said());
    let socket = place.regions().join("node-1.control");
    let mut silent = Vec::new();
    for _ in 0..50 {
        silent.push(UnixStream::connect(&socket).expect("connects"));
    }
    for nonsense in ["\n", "nonsense\n", "{\"form\":{}}\n", &format!("\"{}\"\n", "x".repeat(200_000))] {
        let mut stream = UnixStream::connect(&socket).expect("connects");
        let _ = stream.write_all(nonsense.as_bytes());
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        assert_eq!(answer, "");
    }
    // Those that say nothing are sent away after a while.
    until(|| place.status(1).is_some(), || node.said());
    drop(silent);
    assert_eq!(node.end(Signal::TERM), Some(0));
}

/// What a node logs may find no reader any more, and no room.
#[test]
fn a_node_runs_on_when_nobody_hears_what_it_logs() {
    let place = Place::new();
    for deaf in ["pipe", "full"] {
        let mut command = place.command("run", 1);
        command.env("RINGLEADER_LOG", "trace").stdout(Stdio::null());
        if deaf == "full" {
            command.stderr(File::options().write(true).open("/dev/full").expect("opens"));
        }
        let mut child = command.spawn().expect("starts");
        drop(child.stderr.take());
        until(|| place.status(1).is_some(), || deaf.to_owned());
        let form = place.command("form", 1).args(["--timeout", "1"]).output().expect("runs");
        assert!(said(&form).contains("nodes 2, 3 are not reached"), "{deaf}: {}", said(&form));
        kill_process(Pid::from_child(&child), Signal::TERM).expect("sent");
        assert_eq!(child.wait().expect("ends").code(), Some(0), "{deaf}");
    }
}

/// A terminal that is held, or a log that nobody takes away: lines are dropped, and nothing waits for their reader.
#[test]
fn a_node_runs_on_when_nobody_reads_what_it_says() {
    let place = Place::new();
    let (_reader, mut writer) = std::io::pipe().expect("a pipe");
    let flags = fcntl_getfl(&writer).expect("its flags");
    fcntl_setfl(&writer, flags | OFlags::NONBLOCK).expect("set");
    while writer.write(&[b'x'; 4096]).is_ok() {}
    fcntl_setfl(&writer, flags).expect("set");
    let mut command = place.command("run", 1);
    command.env("RINGLEADER_LOG", "trace").stdout(Stdio::null()).stderr(writer);
    let mut child = command.spawn().expect("starts");
    until(|| place.status(1).is_some(), || "waits for a reader".to_owned());
    let form = place.command("form", 1).args(["--timeout", "1"]).output().expect("runs");
    assert!(said(&form).contains("nodes 2, 3 are not reached"), "{}", said(&form));
    kill_process(Pid::from_child(&child), Signal::TERM).expect("sent");
    until(|| child.try_wait().expect("its status").is_some(), || "does not end".to_owned());
    assert_eq!(child.wait().expect("ended").code(), Some(0));
}

#[test]
fn mistakes_are_told_in_one_line_and_leave_nothing() {
    let place = Place::new();
    let config = fs::read_to_string(place.config()).expect("reads");
    let with = |line: &str| config.replace("ring =", &format!("{line}\nring ="));
    let told = |text: &str, more: &[&str]| {
        fs::write(place.config(), text).expect("written");
        let output = place.command("run", 1).args(more).output().expect("runs");
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        let said = said(&output);
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(!place.regions().exists(), "{said}");
        said
    };
    assert!(
        told(&config.replace("ring =", "rnig ="), &[])
            .contains("group.toml:4: unknown key \"rnig\": did you mean \"ring\"?")
    );
    assert!(told(&with("pin = 60000"), &[]).contains("processor 60000"));
    let full = place.turn.path("full");
    fs::write(&full, "something\n").expect("written");
    assert!(told(&config, &["--applied", full.to_str().expect("text")]).contains("is not empty"));
    assert_eq!(fs::read_to_string(&full).expect("reads"), "something\n");
    assert!(told(&config, &["--applied", "/nowhere/at/all"]).contains("--applied /nowhere/at/all"));
    assert!(told(&with("control = \"/proc/x/y\""), &[]).contains("control socket"));
    // A pipe that nobody reads is not waited for: no signal would end that.
    let pipe = place.turn.path("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("runs").success());
    assert!(told(&config, &["--applied", pipe.to_str().expect("text")]).contains("nobody reads this pipe"));
    // A file that is made for nothing goes again.
    let fresh = place.turn.path("fresh");
    told(&with("pin = 60000"), &["--applied", fresh.to_str().expect("text")]);
    assert!(!fresh.exists());
    let taken = place.turn.path("taken");
    let listener = UnixListener::bind(&taken).expect("bound");
    assert!(told(&with(&format!("control = {taken:?}")), &[]).contains("another process runs"));
    drop(listener);
}

#[test]
fn a_key_is_made_once() {
    let turn = turn();
    let path = turn.path("group.key");
    let make =
        || Command::new(env!("CARGO_BIN_EXE_ringleader")).arg("key").arg(&path).output().expect("runs");
    assert_eq!(make().status.code(), Some(0));
    let key = fs::read(&path).expect("reads");
    assert_eq!(key.len(), 65);
    let again = make();
    assert_eq!(again.status.code(), Some(2));
    assert!(said(&again).contains("exists"), "{}", said(&again));
    assert_eq!(fs::read(&path).expect("reads"), key);
    // Where there is no room for it nothing stays.
    let none = turn.path("none.key");
    let full = Command::new("sh")
        .args(["-c", "trap '' XFSZ; ulimit -f 0; exec \"$0\" key \"$1\"", env!("CARGO_BIN_EXE_ringleader")])
        .arg(&none)
        .output()
        .expect("runs");
    assert_eq!(full.status.code(), Some(2), "{}", said(&full));
    assert!(said(&full).contains("too large") && !none.exists(), "{}", said(&full));

    // The key of a configuration is looked at before anything else of it.
    let config = turn.path("verbs.toml");
    let text = "group = \"test\"\nnode = 1\nfabric = \"verbs\"\ncontrol = \"run/control\"\n\
                [members]\n1 = \"127.0.0.1:7400\"\n[verbs]\nkey_file = \"open.key\"\n";
    fs::write(&config, text).expect("written");
    fs::write(turn.path("open.key"), [1; 32]).expect("written");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    fs::set_permissions(turn.path("open.key"), mode).expect("changed");
    let run = Command::new(env!("CARGO_BIN_EXE_ringleader"))
        .args([Path::new("run"), Path::new("--config"), &config])
        .output()
        .expect("runs");
    assert_eq!(run.status.code(), Some(2));
    assert!(said(&run).contains("chmod 600"), "{}", said(&run));
    assert!(!turn.path("run").exists());
}

#[test]
fn a_lead_is_handed_over_and_nodes_say_whether_they_may_be_read() {
    let place = Place::new();
    let mut nodes = vec![place.run(1), place.run(2), place.run(3)];
    place.wait_for(&nodes);
    let ask = |what: &str, node: u8, more: &[&str]| {
        let output = place.command(what, node).args(more).output().expect("runs");
        (output.status.code(), said(&output))
    };
    let early = ask("read", 1, &["--how", "follower"]);
    assert_eq!(early.0, Some(1), "{}", early.1);
    assert!(early.1.contains("its group is not formed"), "{}", early.1);
    assert_eq!(ask("form", 1, &[]).0, Some(0));
    let mut handed = false;
    for _ in 0..10 {
        let old = place.leader(&nodes);
        let new = nodes[(old + 1) % 3].node;
        let (code, said) = ask("transfer", nodes[old].node, &["--to", &new.to_string()]);
        if code == Some(0) {
            assert_eq!(said, format!("node {new} leads\n"));
            until(|| place.status(new).is_some_and(|status| status["role"] == "leader"), || said.clone());
            handed = true;
            break;
        }
        // A node may seem not to run, where there are few processors.
        assert_eq!(code, Some(1), "{said}");
        assert!(said.starts_with("ringleader: not handed over: "), "{said}");
    }
    assert!(handed);
    let leader = place.leader(&nodes);
    let (leads, follows) = (nodes[leader].node, nodes[(leader + 1) % 3].node);
    let (code, text) = ask("transfer", leads, &["--to", "9"]);
    assert_eq!(code, Some(1));
    assert!(text.contains("node 9: it is the leader itself, or no voter of the group"), "{text}");
    nodes[leader].write("a line\n");
    until(|| nodes[leader].applied() == "a line\n", || nodes[leader].said());
    for (node, how) in [(leads, "quorum"), (leads, "follower"), (follows, "follower")] {
        let (code, text) = ask("read", node, &["--how", how]);
        assert_eq!(code, Some(0), "{text}");
        assert!(text.starts_with("may be read: applied up to entry "), "{text}");
    }
    let (code, text) = ask("read", follows, &[]);
    assert_eq!((code, text.contains("this node does not lead")), (Some(1), true), "{text}");
    let (code, text) = ask("read", leads, &["--how", "lease"]);
    assert_eq!((code, text.contains("lease_reads_if_clocks_drift_below_ppm")), (Some(1), true), "{text}");
}
