//! What goes in comes out, whatever it is; what cannot go in is refused in one line, and nothing stays behind.

mod demo_common;

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::thread;
use std::time::Duration;

use demo_common::{check_all_well, eventually, processes_with, run, turn};
use rustix::process::{Pid, Signal, kill_process};

#[test]
fn bytes_come_out_as_they_went_in() {
    let turn = turn();
    let inputs: [(&str, Vec<u8>); 6] = [
        ("empty", b"".to_vec()),
        ("no newline at the end", b"one\ntwo".to_vec()),
        ("empty lines", b"\n\n\n".to_vec()),
        ("carriage returns, NUL and no UTF-8", b"a\r\n\0\n\xff\xfe\n\r\n\x80".repeat(50)),
        ("lines like each other", b"same\n".repeat(500)),
        ("a line of the greatest length", [vec![b'x'; 65478], b"\ny".to_vec()].concat()),
    ];
    for (name, input) in inputs {
        let (file, dir) = (turn.path("input"), turn.path(name));
        fs::write(&file, &input).expect("written");
        let options = "--ring 512K --samples 0 --json --kill leader --input";
        let ended = run(turn.demo(options).arg(&file).arg("--dir").arg(&dir));
        check_all_well(&ended, &dir, &input, 3);
    }
}

#[test]
fn bad_input_is_named_in_one_line() {
    let turn = turn();
    let long = turn.path("long");
    fs::write(&long, [b"a\nb\n".to_vec(), vec![b'x'; 65480]].concat()).expect("written");
    let long = long.to_str().expect("text");
    let used = turn.path("used");
    fs::create_dir(&used).expect("made");
    fs::write(used.join("file"), b"").expect("written");
    let used = used.to_str().expect("text");
    let cases: [(String, &[&str]); 15] = [
        ("--nodes 2".into(), &["--nodes"]),
        ("--nodes 16".into(), &["--nodes"]),
        ("--nodes 300".into(), &["--nodes"]),
        ("--ring 3M".into(), &["--ring", "power of two"]),
        ("--ring 256K".into(), &["--ring", "524288"]),
        ("--ring much".into(), &["--ring", "much"]),
        ("--ring 16G --nodes 15".into(), &["--ring", "memory"]),
        ("--size 0".into(), &["--size"]),
        ("--size 9000000".into(), &["--size 9000000", "8388551"]),
        ("--input /nowhere/at/all".into(), &["/nowhere/at/all"]),
        ("--input /dev/null".into(), &["/dev/null", "regular"]),
        (format!("--input {long} --ring 512K"), &["long", "line 3", "65480", "65479"]),
        (format!("--dir {used}"), &["used", "in use"]),
        ("--dir /proc/nowhere".into(), &["/proc/nowhere"]),
        ("--dir /dev/null/x".into(), &["/dev/null/x"]),
    ];
    for (options, words) in cases {
        let output = turn.demo(&options).output().expect("the program runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{options}: {said}");
        assert_eq!(said.lines().count(), 1, "{options}: {said}");
        assert!(words.iter().all(|word| said.contains(word)), "{options}: {said}");
        assert!(output.stdout.is_empty(), "{options}");
        assert_eq!(turn.left_behind(), 0, "{options}");
    }
    assert_eq!(fs::read_dir(used).expect("there").count(), 1);
}

#[test]
fn a_directory_that_was_not_there_goes_again_when_nothing_starts() {
    let turn = turn();
    let dir = turn.path("a/b");
    let ended = run(turn.demo("--ring 8G --nodes 15 --dir").arg(&dir));
    assert_eq!(ended.status, 2, "{}", ended.said);
    assert!(!turn.path("a").exists());
}

/// A demo with far too much to do for the test to see its end.
const ENDLESS: &str = "--kill none --samples 0 --entries 1000000000 --size 2 --dir";

#[test]
fn nodes_die_with_a_demo_that_is_killed() {
    let turn = turn();
    let mut demo = turn.demo(ENDLESS).arg(turn.path("out")).spawn().expect("starts");
    let id = demo.id().to_string();
    eventually("three nodes", || processes_with(&id).len() == 3);
    thread::sleep(Duration::from_millis(300));
    demo.kill().expect("killed");
    demo.wait().expect("waited for");
    eventually("nobody", || processes_with(&id).is_empty());
    // Its regions go with the next demo.
    let mark = format!("ringleader-demo-{id}-");
    let left = || {
        let entries = fs::read_dir("/dev/shm").into_iter().flatten().flatten();
        entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(&mark)).count()
    };
    let ended = run(turn
        .demo("--ring 512K --entries 10 --samples 0 --kill none --json --dir")
        .arg(turn.path("next")));
    assert_eq!(ended.status, 0, "{}", ended.said);
    assert_eq!(left(), 0);
}

#[test]
fn a_demo_that_is_interrupted_at_once_leaves_nothing() {
    let turn = turn();
    let dir = turn.path("out");
    for delay in 0..40 {
        let mut demo = turn.demo(ENDLESS).arg(&dir).spawn().expect("starts");
        let id = demo.id().to_string();
        thread::sleep(Duration::from_micros(250 * delay));
        kill_process(Pid::from_child(&demo), Signal::INT).expect("sent");
        let status = demo.wait().expect("waited for");
        // Before the first line of the program the signal ends it by itself.
        assert!(status.code() == Some(130) || status.signal() == Some(Signal::INT.as_raw()), "{status}");
        assert!(!dir.exists(), "after {} us", 250 * delay);
        let mark = format!("ringleader-demo-{id}-");
        let entries = fs::read_dir("/dev/shm").into_iter().flatten().flatten();
        assert!(entries.into_iter().all(|entry| !entry.file_name().to_string_lossy().starts_with(&mark)));
        eventually("nobody", || processes_with(&id).is_empty());
    }
}

#[test]
fn an_interrupted_demo_leaves_nothing() {
    let turn = turn();
    for (signal, patience) in [(Signal::INT, 50), (Signal::INT, 500), (Signal::TERM, 300)] {
        let dir = turn.path("out");
        let mut demo = turn.demo(ENDLESS).arg(&dir).spawn().expect("starts");
        let id = demo.id().to_string();
        eventually("three nodes", || processes_with(&id).len() == 3);
        thread::sleep(Duration::from_millis(patience));
        kill_process(Pid::from_child(&demo), signal).expect("sent");
        assert_eq!(demo.wait().expect("waited for").code(), Some(130));
        eventually("nobody", || processes_with(&id).is_empty());
        assert!(!dir.exists());
        let mark = format!("ringleader-demo-{id}-");
        let entries = fs::read_dir("/dev/shm").into_iter().flatten().flatten();
        assert!(entries.into_iter().all(|entry| !entry.file_name().to_string_lossy().starts_with(&mark)));
    }
}
