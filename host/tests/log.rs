//! `ringleader log` on the regions of replicas that were closed: dumps what was proposed, and finds what was changed.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

use ringleader::fabric::shm::Observed;
use ringleader::{Entry, Handle, Node, Options, Outcome, Role};
use ringleader_core::layout::{Line, ProgressLine, control};
use ringleader_core::mem::Area;

const PATIENCE: Duration = Duration::from_secs(20);
/// NIC page and control area; then the log area's own lines.
const LOG: u64 = 128 << 10;
const RING: u64 = LOG + (64 << 10);
const RING_LEN: u64 = 512 << 10;

fn ringleader(args: &[&str], region: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ringleader")).arg("log").args(args).arg(region).output().unwrap()
}

/// Three nodes that applied `count` proposals; their regions, kept.
fn regions(dir: &Path, count: u32) -> Vec<PathBuf> {
    let nodes: Vec<Node> = (1..=3)
        .map(|node| {
            let mut options = Options::new(dir, node, [1, 2, 3]);
            options.ring_len = RING_LEN;
            options.keep_region = true;
            Node::open(options, |_: Entry<'_>| {}).unwrap()
        })
        .collect();
    nodes[0].form(PATIENCE).unwrap();
    let deadline = Instant::now() + PATIENCE;
    let wait = || {
        assert!(Instant::now() < deadline, "in time");
        thread::sleep(Duration::from_millis(1));
    };
    let mut handles: Vec<Handle> = nodes.iter().map(Node::handle).collect();
    let mut last = 0;
    for i in 0..count {
        let payload = format!("entry {i} {}", "x".repeat(i as usize % 300));
        // On a busy machine the lead may change at any moment: whoever leads now is asked again.
        last = loop {
            let Some(leader) = nodes.iter().position(|node| node.status().role == Role::Leader) else {
                wait();
                continue;
            };
            handles[leader].propose(payload.as_bytes()).unwrap();
            match handles[leader].wait(PATIENCE).expect("an outcome") {
                (_, Outcome::Committed { index }) => break index,
                _ => wait(),
            }
        };
    }
    let region = |node: &Node| dir.join(format!("node-{}.region", node.status().node));
    for node in &nodes {
        // What is applied is published with a later line.
        while node.status().applied_index < last || published(&region(node)) < node.status().applied_position
        {
            wait();
        }
    }
    nodes.into_iter().for_each(|node| node.close().unwrap());
    (1..=3).map(|node| dir.join(format!("node-{node}.region"))).collect()
}

/// Up to where the region of a running node says that everything is applied.
fn published(region: &Path) -> u64 {
    let observed = Observed::open(region).unwrap();
    // Torn when it is just being written.
    ProgressLine::read(&Area::new(observed.control()), control::PROGRESS).map_or(0, |line| line.applied)
}

fn flip(path: &Path, at: u64) {
    let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 0x10], at).unwrap();
}

fn directory() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("ringleader-test-").tempdir_in("/dev/shm").unwrap()
}

#[test]
fn a_dump_gives_back_what_was_proposed_and_verify_is_content() {
    let dir = directory();
    for region in regions(dir.path(), 50) {
        let dump = ringleader(&["dump", "--raw"], &region);
        assert!(dump.status.success(), "{dump:?}");
        let expected: Vec<String> =
            (0..50).map(|i| format!("entry {i} {}", "x".repeat(i as usize % 300))).collect();
        let text = String::from_utf8(dump.stdout).unwrap();
        let mut found: Vec<&str> = text.lines().collect();
        // One that was proposed again may be there twice, and next to itself: there was one at a time.
        found.dedup();
        assert_eq!(found, expected);
        let verify = ringleader(&["verify"], &region);
        assert!(verify.status.success(), "{verify:?}");
        let json = ringleader(&["dump", "--json", "--from", "50"], &region);
        let lines = String::from_utf8(json.stdout).unwrap();
        for line in lines.lines() {
            let row: serde_json::Value = serde_json::from_str(line).unwrap();
            assert!(row["index"].as_u64().unwrap() >= 50);
        }
        assert!(!lines.is_empty());
        assert!(ringleader(&["dump"], &region).status.success());
    }
}

#[test]
fn every_kind_of_damage_is_named_with_exit_status_2() {
    let dir = directory();
    // More than a lap of the ring.
    let regions = regions(dir.path(), 3500);
    let region = &regions[1];
    let bad = |what: &str, name: &str| {
        let output = ringleader(&["verify"], region);
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{what}: {text}");
        assert_eq!(text.lines().count(), 1, "{what}: {text}");
        assert!(text.contains(name), "{what}: {text}");
    };
    let healthy = ringleader(&["verify"], region);
    assert!(healthy.status.success(), "{healthy:?}");
    let (control, page) = (64 << 10, 3000);
    for (at, name) in [
        (16, "header"),
        (page, "zero"),
        (control + 20, "header line"),
        (control + 128 + 32, "progress line"),
        (control + 7168 + 8, "configuration block"),
        (control + 900, "zero"),
        (control + 1024 + 3 * 192 + 17, "line of node 3"),
        (LOG + 9, "beat line"),
        (LOG + 4096, "zero"),
    ] {
        flip(region, at);
        bad(&format!("byte {at}"), name);
        flip(region, at);
    }
    // Anywhere in the ring, up to what was applied: only the first entry, which the end of the log touches, is not held.
    let unnoticed = (0..64).filter(|step| {
        let at = RING + step * (RING_LEN / 64) + step * 8 % 64;
        flip(region, at);
        let output = ringleader(&["verify"], region);
        flip(region, at);
        output.status.code() != Some(2)
    });
    assert!(unnoticed.count() <= 1);
    assert!(ringleader(&["verify"], region).status.success());

    let len = fs::metadata(region).unwrap().len();
    OpenOptions::new().write(true).open(region).unwrap().set_len(len - 4096).unwrap();
    bad("cut short", "cut short");
    OpenOptions::new().write(true).open(region).unwrap().set_len(10).unwrap();
    bad("cut very short", "cut short");
    fs::remove_file(region).unwrap();
    bad("missing", "No such file");
}

#[test]
fn the_region_of_a_running_replica_is_refused() {
    let dir = directory();
    let node = Node::open(Options::new(dir.path(), 1, [1, 2, 3]), |_: Entry<'_>| {}).unwrap();
    let output = ringleader(&["verify"], &dir.path().join("node-1.region"));
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("runs"));
    node.close().unwrap();
}
