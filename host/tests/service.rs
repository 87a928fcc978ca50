//! `ringleader run`, `form` and `status` as people use them: processes over shared memory, one configuration for all.

mod demo_common;
mod run_common;

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use demo_common::turn;
use run_common::{Place, said, until};
use rustix::process::Signal;

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
    assert!(said(&alone).contains("not all members answered within 1 s"), "{}", said(&alone));
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
