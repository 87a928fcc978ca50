//! `ringleader member` and `recover` as people use them: processes over shared memory, while entries flow.

mod demo_common;
mod run_common;

use std::fs;
use std::process::Output;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use run_common::{PATIENCE, Place, Running, said, until};
use rustix::process::Signal;
use serde_json::Value;

/// One `member` command, asked of a node; its exit status and what it said.
fn member(place: &Place, node: u8, words: &[&str]) -> (Option<i32>, String) {
    let mut command = place.command("member", node);
    // The words of the command come before the options that name the node.
    let mut args: Vec<String> = command.get_args().map(|arg| arg.to_string_lossy().into_owned()).collect();
    args.splice(1..1, words.iter().map(|word| (*word).to_owned()));
    command = std::process::Command::new(env!("CARGO_BIN_EXE_ringleader"));
    let output = command.args(args).output().expect("runs");
    (output.status.code(), said(&output))
}

/// The same, asked of whoever leads, until it is done.
fn member_of_leader(place: &Place, nodes: &[Running], words: &[&str]) {
    let begun = Instant::now();
    loop {
        let leader = nodes[place.leader(nodes)].node;
        let (status, said) = member(place, leader, words);
        if status == Some(0) {
            return;
        }
        let lost = said.contains("leads: ask that one") || said.contains("nobody leads");
        assert!(lost && begun.elapsed() < PATIENCE, "{words:?} asked of node {leader}: {said}");
    }
}

fn roles(place: &Place, node: u8) -> Vec<(u64, String)> {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_ringleader"));
    command
        .args(["member", "list", "--json", "--config"])
        .arg(place.config())
        .args(["--node", &node.to_string()]);
    let Output { status, stdout, .. } = command.output().expect("runs");
    if !status.success() {
        return Vec::new();
    }
    let list: Value = serde_json::from_slice(&stdout).expect("JSON");
    let members = list["members"].as_array().expect("a list").clone();
    members
        .iter()
        .map(|one| (one["node"].as_u64().expect("an id"), one["role"].as_str().expect("a word").to_owned()))
        .collect()
}

fn voters(place: &Place, node: u8) -> Vec<u64> {
    roles(place, node).into_iter().filter(|(_, role)| role == "voter").map(|(node, _)| node).collect()
}

/// So many lines to whoever leads, each until it is applied there; returns them. A leader that falls meanwhile says of its line
/// that it is not proposed, or may be applied or never: another line takes its place.
fn flow(place: &Place, nodes: &mut [Running], count: usize) -> Vec<String> {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let mut applied = Vec::new();
    let begun = Instant::now();
    while applied.len() < count {
        assert!(begun.elapsed() < PATIENCE, "{} of {count} lines", applied.len());
        let line = format!("line {}", NUMBER.fetch_add(1, Ordering::Relaxed));
        let leader = place.leader(nodes);
        nodes[leader].write(&format!("{line}\n"));
        let written = Instant::now();
        let is_there = |nodes: &[Running]| nodes[leader].applied().lines().any(|other| other == line);
        while !is_there(nodes) && written.elapsed() < Duration::from_secs(2) {
            thread::sleep(Duration::from_millis(1));
        }
        if is_there(nodes) {
            applied.push(line);
        }
    }
    applied
}

fn formed(place: &Place, nodes: &[Running]) {
    place.wait_for(nodes);
    let output = place.command("form", 1).output().expect("runs");
    assert!(output.status.success(), "{}", said(&output));
    place.leader(nodes);
}

fn all_equal(nodes: &[Running]) {
    until(
        || {
            let first = nodes[0].applied();
            !first.is_empty() && nodes.iter().all(|node| node.applied() == first)
        },
        || {
            nodes
                .iter()
                .map(|node| format!("{}: {} bytes\n{}\n", node.node, node.applied().len(), node.said()))
                .collect()
        },
    );
}

#[test]
fn a_group_grows_loses_its_leader_and_takes_back_who_lost_its_memory() {
    let place = Place::new();
    let mut nodes = vec![place.run(1), place.run(2), place.run(3)];
    formed(&place, &nodes);
    flow(&place, &mut nodes, 50);

    // A fourth one, whose file names itself too.
    let text = fs::read_to_string(place.config()).expect("read").replace("[1, 2, 3]", "[1, 2, 3, 4]");
    fs::write(place.config(), text).expect("written");
    nodes.push(place.run(4));
    until(|| nodes[3].said().contains("or to be added to one"), || nodes[3].said());
    let leader = nodes[place.leader(&nodes)].node;
    let (status, said) = member(&place, leader, &["promote", "4", "--timeout", "1"]);
    assert_eq!((status, said.trim()), (Some(1), "ringleader: it is no member"));
    let follower =
        nodes.iter().map(|node| node.node).find(|node| *node != leader && *node != 4).expect("one");
    let (status, said) = member(&place, follower, &["add", "4"]);
    assert_eq!(
        (status, said.trim()),
        (Some(1), format!("ringleader: node {leader} leads: ask that one").as_str())
    );
    member_of_leader(&place, &nodes, &["add", "4"]);
    assert_eq!(roles(&place, leader).last(), Some(&(4, "learner".to_owned())));
    flow(&place, &mut nodes, 50);
    member_of_leader(&place, &nodes, &["promote", "4"]);
    until(|| voters(&place, 4) == [1, 2, 3, 4], || nodes[3].said());

    // The leader takes itself out while lines come.
    let leaving = place.leader(&nodes);
    nodes[leaving].write("the last of an old leader\n");
    let id = nodes[leaving].node.to_string();
    member_of_leader(&place, &nodes, &["remove", &id]);
    until(|| nodes[leaving].said().contains("was removed from group"), || nodes[leaving].said());
    let mut gone = nodes.remove(leaving);
    assert_eq!(gone.end(Signal::TERM), Some(0));
    flow(&place, &mut nodes, 50);
    let left: Vec<u64> = nodes.iter().map(|node| u64::from(node.node)).collect();
    until(|| voters(&place, nodes[0].node) == left, || nodes[0].said());

    // One of the others dies, and comes back empty: kept out, until it is readmitted.
    let leader = place.leader(&nodes);
    let victim = (leader + 1) % nodes.len();
    let id = nodes[victim].node;
    nodes[victim].end(Signal::KILL);
    fs::remove_file(&nodes[victim].applied).expect("removed");
    nodes[victim] = place.run(id);
    let asked = nodes[place.leader(&nodes)].node;
    until(|| place.status(asked).is_some_and(|status| status["lost"] == 1), || nodes[leader].said());
    // It says what can be done, and does not wait for a group that will never be formed.
    let what = format!("ringleader member readmit {id}");
    until(|| nodes[victim].said().contains(&what), || nodes[victim].said());
    let form = place.command("form", id).args(["--timeout", "30"]).output().expect("runs");
    assert_eq!(form.status.code(), Some(1));
    let why = run_common::said(&form);
    assert!(why.contains("in a group already"), "{why}");
    member_of_leader(&place, &nodes, &["readmit", &id.to_string()]);
    flow(&place, &mut nodes, 50);
    until(|| voters(&place, nodes[0].node) == left, || format!("{:?}", roles(&place, nodes[0].node)));
    all_equal(&nodes);
    for node in &mut nodes {
        assert_eq!(node.end(Signal::TERM), Some(0), "{}", node.said());
    }
}

#[test]
fn a_group_that_may_readmits_by_itself() {
    let place = Place::new();
    let text = fs::read_to_string(place.config()).expect("read");
    fs::write(place.config(), format!("readmit = \"auto\"\n{text}")).expect("written");
    let mut nodes = vec![place.run(1), place.run(2), place.run(3)];
    formed(&place, &nodes);
    // Each of them once: in the end nobody has the memory that the group began with.
    let mut lines = Vec::new();
    for id in [2, 3, 1] {
        lines.extend(flow(&place, &mut nodes, 20));
        let at = nodes.iter().position(|node| node.node == id).expect("there");
        nodes[at].end(Signal::KILL);
        fs::remove_file(&nodes[at].applied).expect("removed");
        nodes[at] = place.run(id);
        until(
            || voters(&place, id) == [1, 2, 3] && place.status(id).is_some_and(|status| status["lost"] == 0),
            || nodes.iter().map(Running::said).collect(),
        );
    }
    lines.extend(flow(&place, &mut nodes, 20));
    all_equal(&nodes);
    let applied = nodes[0].applied();
    for line in lines {
        assert_eq!(applied.lines().filter(|other| *other == line).count(), 1, "{line} of {applied}");
    }
}

#[test]
fn two_of_three_lost_stop_the_group_and_a_survivor_makes_a_new_one() {
    let place = Place::new();
    let mut nodes = vec![place.run(1), place.run(2), place.run(3)];
    formed(&place, &nodes);
    flow(&place, &mut nodes, 30);
    all_equal(&nodes);
    let recover = |words: &[&str]| place.command("recover", 1).args(words).output().expect("runs");
    let refused = recover(&["--force-new-group"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(said(&refused).contains("no new group is made"), "{}", said(&refused));
    for at in [1, 2] {
        nodes[at].end(Signal::KILL);
        fs::remove_file(&nodes[at].applied).expect("removed");
    }
    nodes[1] = place.run(2);
    nodes[2] = place.run(3);
    until(|| nodes[0].said().contains("has stopped: 2 of 3 voters"), || nodes[0].said());
    let before = place.status(1).expect("runs");
    // A leader that is left alone gives up first.
    until(|| said(&recover(&[])).contains("Nothing was done"), || nodes[0].said());
    let forced = recover(&["--force-new-group"]);
    assert_eq!(forced.status.code(), Some(0), "{}", said(&forced));
    let after = place.status(1).expect("runs");
    assert_ne!(before["group"], after["group"]);
    for id in ["2", "3"] {
        member_of_leader(&place, &nodes[..1], &["add", id]);
        member_of_leader(&place, &nodes[..1], &["promote", id]);
    }
    flow(&place, &mut nodes, 30);
    all_equal(&nodes);
    assert_eq!(voters(&place, 1), [1, 2, 3]);
}
