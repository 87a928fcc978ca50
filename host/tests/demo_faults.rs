//! Real groups lose real processes in mid-stream, a few dozen times; `scripts/acceptance.sh` is the long form.

mod demo_common;

use std::fs;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use demo_common::{Ended, Turn, check_all_well, eventually, lines, run, turn};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Runs the demo on a file of so many lines, and checks that it ended well.
fn well(turn: &Turn, options: &str, nodes: u8, count: usize) -> Ended {
    let input = lines(count);
    let (file, dir) = (turn.path("input"), turn.path("out"));
    fs::write(&file, &input).expect("written");
    let ended = run(turn.demo(options).arg("--json").arg("--input").arg(&file).arg("--dir").arg(&dir));
    check_all_well(&ended, &dir, &input, nodes);
    assert_eq!(turn.left_behind(), 0);
    fs::remove_dir_all(&dir).expect("removed");
    ended
}

fn survivors(ended: &Ended) -> usize {
    ended.json["survivors"].as_array().map_or(0, Vec::len)
}

#[test]
fn the_leader_dies() {
    let turn = turn();
    for _ in 0..6 {
        let ended = well(&turn, "--nodes 3 --ring 4M --samples 0 --kill leader", 3, 4000);
        assert_eq!(survivors(&ended), 2);
        assert!(ended.json["leader_changes"].as_u64() >= Some(1), "{}", ended.json);
        let parts = &ended.json["failover_ns"];
        let part = |key: &str| parts[key].as_u64().unwrap_or_else(|| panic!("no {key} in {parts}"));
        assert_eq!(part("detect") + part("fence") + part("takeover") + part("first_commit"), part("total"));
        assert!(
            part("detect") > 0 && part("total") <= ended.json["longest_gap_ns"].as_u64().unwrap_or(0) * 2
        );
    }
    for _ in 0..2 {
        assert_eq!(survivors(&well(&turn, "--nodes 5 --ring 4M --samples 0 --kill leader", 5, 4000)), 4);
    }
}

#[test]
fn a_follower_dies() {
    let turn = turn();
    for _ in 0..4 {
        let ended = well(&turn, "--nodes 3 --ring 4M --samples 0 --kill follower", 3, 4000);
        assert_eq!(survivors(&ended), 2);
        assert_eq!(ended.json["failover_ns"], Value::Null);
    }
    for _ in 0..2 {
        assert_eq!(survivors(&well(&turn, "--nodes 5 --ring 4M --samples 0 --kill follower", 5, 4000)), 4);
    }
}

#[test]
fn the_leader_sleeps() {
    let turn = turn();
    for _ in 0..6 {
        let ended = well(&turn, "--nodes 3 --ring 4M --samples 0 --pause leader", 3, 4000);
        // Who sleeps in the middle of a copy is shot: everybody else comes back.
        let shot = ended.json["shot"].as_u64().expect("a number") as usize;
        assert_eq!(survivors(&ended) + shot, 3, "{}", ended.json);
        assert!(ended.json["failover_ns"]["total"].is_u64(), "{}", ended.json);
    }
    for _ in 0..2 {
        well(&turn, "--nodes 5 --ring 4M --samples 0 --pause leader", 5, 4000);
    }
}

#[test]
fn a_follower_sleeps() {
    let turn = turn();
    for _ in 0..4 {
        let ended = well(&turn, "--nodes 3 --ring 4M --samples 0 --pause follower", 3, 4000);
        assert_eq!(survivors(&ended), 3);
    }
    for _ in 0..2 {
        well(&turn, "--nodes 5 --ring 4M --samples 0 --pause follower", 5, 4000);
    }
}

#[test]
fn a_follower_that_falls_below_the_ring_takes_anothers_state() {
    let turn = turn();
    for _ in 0..2 {
        let options = "--nodes 3 --ring 512K --samples 0 --pause follower";
        let ended = well(&turn, options, 3, 40000);
        assert_eq!(survivors(&ended), 3);
    }
}

/// All entries are more than what a state may have: there is no snapshot.
#[test]
fn nobody_waits_for_a_follower_that_falls_below_the_ring() {
    let turn = turn();
    let dir = turn.path("out");
    for _ in 0..2 {
        let ended = run(turn
            .demo("--ring 1M --pause follower --entries 20000 --size 1000 --samples 0 --json --dir")
            .arg(&dir));
        let json = &ended.json;
        assert_eq!(ended.status, 3, "{json}\n{}", ended.said);
        assert_eq!(json["behind"], 1, "{json}");
        assert_eq!(json["acknowledged"], 20000, "{json}");
        assert_eq!((&json["identical"], &json["lost"]), (&Value::from(true), &Value::from(0)), "{json}");
        let behind = json["behind_nodes"][0].as_u64().expect("a node");
        assert!(dir.join(format!("node-{behind}.behind")).exists());
        assert!(!dir.join(format!("node-{behind}.applied")).exists());
        fs::remove_dir_all(&dir).expect("removed");
    }
}

/// Two of three die: the group has stopped. What the last one was not told is no loss, and nobody waits for it.
#[test]
fn survivors_that_are_no_majority_are_no_proof_of_a_loss() {
    let turn = turn();
    let dir = turn.path("out");
    let mut demo = turn.demo("--kill leader --entries 6000000 --samples 0 --json --dir");
    let demo = demo.arg(&dir).spawn().expect("the program runs");
    let running = || {
        let of = format!("/proc/{0}/task/{0}/children", demo.id());
        let children = fs::read_to_string(of).unwrap_or_default();
        let runs = |id: &&str| {
            let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
            stat.rsplit(") ").next().is_some_and(|rest| !rest.starts_with(['Z', 'X']) && !rest.is_empty())
        };
        children
            .split_whitespace()
            .filter(runs)
            .map(|id| id.parse().expect("a process id"))
            .collect::<Vec<i32>>()
    };
    eventually("three nodes", || running().len() == 3);
    let deadline = Instant::now() + Duration::from_secs(60);
    while running().len() == 3 && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(Duration::from_millis(200));
    let victim = Pid::from_raw(running()[0]).expect("a process id");
    kill_process(victim, Signal::ABORT).expect("killed");
    let killed = Instant::now();
    let output = demo.wait_with_output().expect("ends");
    assert!(killed.elapsed() < Duration::from_secs(25), "{:?}", killed.elapsed());
    let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(output.status.code(), Some(1), "{json}");
    assert_eq!((&json["lost"], &json["duplicated"]), (&Value::from(0), &Value::from(0)), "{json}");
    assert!(json["failure"].as_str().is_some_and(|why| why.contains("SIGABRT")), "{json}");
}

#[test]
fn reads_beside_the_stream_miss_nothing() {
    let turn = turn();
    for fault in ["--kill leader", "--pause leader", "--kill none"] {
        read_beside_the_stream(&turn, fault);
    }
}

/// A busy machine may end a short stream before its leader's readers had a turn: then a longer one is run.
fn read_beside_the_stream(turn: &Turn, fault: &str) {
    for count in [4000, 40_000, 400_000] {
        let ended = well(turn, &format!("--nodes 3 --ring 4M --samples 0 --reads 2 {fault}"), 3, count);
        let reads = &ended.json["reads"];
        assert_eq!(reads["stale"], 0, "{reads}");
        let answered = |kind: &str| reads[kind].as_u64() > Some(0);
        if answered("quorum") && answered("follower") {
            for kind in ["quorum_ns", "follower_ns"] {
                assert!(reads[kind]["p50"].as_u64() > Some(0), "{kind} in {reads}");
            }
            return;
        }
    }
    panic!("{fault}: no stream was long enough for reads of both kinds");
}

/// The check of the reads can fail: here somebody else says that more is acknowledged than was ever proposed.
#[test]
fn a_read_that_misses_something_is_told() {
    let turn = turn();
    let demo = turn.demo("--kill none --entries 200000 --samples 0 --reads 1 --json").spawn().expect("runs");
    let prefix = format!("ringleader-demo-{}-", demo.id());
    let board = || {
        let dirs = fs::read_dir("/dev/shm").expect("there").flatten();
        let dir = dirs.map(|dir| dir.path()).find(|dir| dir.to_string_lossy().contains(&prefix))?;
        fs::OpenOptions::new().write(true).open(dir.join("acknowledged")).ok()
    };
    eventually("a board", || board().is_some());
    // Nobody has id 0.
    board().expect("there").write_all_at(&u64::MAX.to_le_bytes(), 0).expect("written");
    let output = demo.wait_with_output().expect("ends");
    let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(output.status.code(), Some(1), "{json}");
    assert!(json["reads"]["stale"].as_u64() > Some(0), "{json}");
}

#[test]
fn what_a_program_reads() {
    let turn = turn();
    let ended = well(&turn, "--kill none --samples 2000", 3, 2000);
    let json = &ended.json;
    for key in ["nodes", "entries", "acknowledged", "retried", "lost", "duplicated", "shot", "behind"] {
        assert!(json[key].is_u64(), "{key} in {json}");
    }
    for key in ["leader_changes", "longest_gap_ns", "samples", "entries_per_s"] {
        assert!(json[key].is_u64(), "{key} in {json}");
    }
    for key in ["p50", "p99", "max"] {
        assert!(json["commit_ns"][key].as_u64() > Some(0), "{key} in {json}");
    }
    for key in ["p50", "p99"] {
        assert!(json["floor_ns"][key].as_u64() > Some(0), "{key} in {json}");
    }
    assert_eq!(json["samples"], 2000);
    assert_eq!(json["failover_ns"], Value::Null);
    assert!(json["dir"].as_str().is_some_and(|dir| dir.ends_with("/out")), "{json}");
}

#[test]
fn without_options_it_tells_a_story_and_keeps_the_files() {
    let turn = turn();
    let output = turn.demo("").output().expect("the program runs");
    let text = String::from_utf8(output.stdout).expect("text");
    assert_eq!(output.status.code(), Some(0), "{text}");
    for part in [
        "3 nodes, 20000 entries of 64 bytes",
        "LLL",
        "x",
        "fail-over",
        "floor",
        "identical",
        "node-<id>.applied",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let kept =
        fs::read_dir(turn.path("temporary")).expect("there").next().expect("a directory").expect("readable");
    assert_eq!(fs::read_dir(kept.path()).expect("a directory").count(), 2);
}

#[test]
fn regions_are_kept_when_asked_for() {
    let turn = turn();
    let dir = turn.path("out");
    let options = "--entries 100 --samples 0 --kill leader --ring 512K --keep-regions --json --dir";
    let ended = run(turn.demo(options).arg(&dir));
    assert_eq!(ended.status, 0, "{}", ended.said);
    for node in 1..=3 {
        assert!(dir.join(format!("node-{node}.region")).exists());
    }
}

#[test]
fn a_leader_that_stops_in_the_middle_of_a_copy_is_shot() {
    let turn = turn();
    let (input, dir) = (lines(20_000), turn.path("out"));
    fs::write(turn.path("input"), &input).expect("written");
    let mut shot = 0;
    for round in 0..6 {
        // Node 1 stops itself when it has written this often, if it leads then.
        let mut demo = turn.demo("--nodes 3 --ring 4M --samples 0 --kill none --json --input");
        demo.arg(turn.path("input")).arg("--dir").arg(&dir);
        let ended = run(demo.env("RINGLEADER_TEST_STOP_IN_COPY", (100 + 37 * round).to_string()));
        check_all_well(&ended, &dir, &input, 3);
        assert_eq!(survivors(&ended) as u64 + ended.json["shot"].as_u64().expect("a number"), 3);
        shot += ended.json["shot"].as_u64().expect("a number");
        fs::remove_dir_all(&dir).expect("removed");
    }
    assert!(shot > 0, "nobody was shot");
}
