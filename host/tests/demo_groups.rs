//! The demo with many groups: each node has a member of each on one agent thread.

mod demo_common;

use std::fs;
use std::thread;
use std::time::Duration;

use demo_common::{Ended, Turn, eventually, lines, processes_with, run, turn};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Runs it on a file of so many lines, and checks that it ended well in every group.
fn well(turn: &Turn, options: &str, groups: u64, count: usize) -> Ended {
    let input = lines(count);
    let (file, dir) = (turn.path("input"), turn.path("out"));
    fs::write(&file, &input).expect("written");
    let mut command = turn.demo(options);
    command.arg("--groups").arg(groups.to_string()).arg("--json");
    let ended = run(command.arg("--input").arg(&file).arg("--dir").arg(&dir));
    let json = &ended.json;
    let context = format!("{json}\n{}", ended.said);
    assert_eq!(ended.status, 0, "{context}");
    let number = |key: &str| json[key].as_u64().unwrap_or_else(|| panic!("no {key}: {context}"));
    assert_eq!((number("groups"), number("entries")), (groups, groups * count as u64), "{context}");
    assert_eq!(number("acknowledged"), number("entries"), "{context}");
    assert_eq!((number("lost"), number("duplicated"), number("behind")), (0, 0, 0), "{context}");
    assert_eq!(json["identical"], true, "{context}");
    let survivors = json["survivors"].as_array().expect("a list");
    for group in 0..groups {
        for node in survivors {
            let file = dir.join(format!("group-{group}.node-{node}.applied"));
            assert!(fs::read(&file).expect("a survivor's file") == input, "{file:?}: {context}");
        }
    }
    let files = fs::read_dir(&dir).expect("is there").count();
    assert_eq!(files as u64, groups * survivors.len() as u64, "the others have none");
    assert_eq!(turn.left_behind(), 0);
    fs::remove_dir_all(&dir).expect("removed");
    ended
}

#[test]
fn all_groups_of_a_dead_leader_fall_over() {
    let turn = turn();
    for _ in 0..3 {
        let ended = well(&turn, "--ring 4M --samples 0 --kill leader", 5, 2000);
        let json = &ended.json;
        assert_eq!(json["survivors"].as_array().map(Vec::len), Some(2), "{json}");
        assert!(json["fallen"].as_u64() >= Some(1), "{json}");
        assert!(json["failover_ns"]["max"].is_u64() && json["failure"].is_null(), "{json}");
        assert_eq!(json["load"].as_array().map(Vec::len), Some(0));
    }
}

#[test]
fn more_and_more_groups_are_loaded() {
    let turn = turn();
    let ended = well(&turn, "--ring 1M --kill none", 5, 500);
    let load = ended.json["load"].as_array().expect("a list");
    let groups: Vec<u64> = load.iter().filter_map(|step| step["groups"].as_u64()).collect();
    assert_eq!(groups[..4], [1, 2, 4, 5]);
    // And then more and more on their way in each.
    assert!(groups.len() > 4 && groups[4..].iter().all(|groups| *groups == 5), "{load:?}");
    let depths: Vec<u64> = load[3..].iter().filter_map(|step| step["depth"].as_u64()).collect();
    assert!(depths.iter().enumerate().all(|(at, depth)| *depth == 1 << at), "{load:?}");
    assert!(load.iter().all(|step| step["commits"].as_u64() > Some(0)), "{load:?}");
    assert_eq!((&ended.json["struck"], &ended.json["failover_ns"]), (&Value::Null, &Value::Null));
}

#[test]
fn sixty_four_groups_live_on_a_thread() {
    let turn = turn();
    well(&turn, "--ring 512K --samples 0 --kill none", 64, 100);
}

#[test]
fn what_cannot_be_is_refused_and_an_interrupted_demo_leaves_nothing() {
    let turn = turn();
    for (options, part) in [
        ("--groups 0", "--groups"),
        ("--groups 65", "1 to 64 groups"),
        ("--groups 1000", "1 to 64 groups"),
        ("--groups 2 --pause leader", "--pause"),
        ("--groups 2 --keep-regions", "--keep-regions"),
    ] {
        let ended = run(&mut turn.demo(options));
        assert_eq!(ended.status, 2, "{options}: {}", ended.said);
        assert!(ended.said.contains(part) && ended.said.lines().count() == 1, "{}", ended.said);
        assert_eq!(turn.left_behind(), 0);
    }
    let dir = turn.path("interrupted");
    let mut command = turn.demo("--groups 3 --ring 4M --entries 3000000 --size 16");
    let child = command.arg("--dir").arg(&dir).spawn().expect("starts");
    let parent = child.id().to_string();
    eventually("nodes run", || processes_with(&parent).len() == 3);
    thread::sleep(Duration::from_millis(500));
    kill_process(Pid::from_child(&child), Signal::INT).expect("signalled");
    let ended = child.wait_with_output().expect("ends");
    assert_eq!(ended.status.code(), Some(130));
    eventually("no node runs", || processes_with(&parent).is_empty());
    assert!(!dir.exists());
}
