//! A leader that is stopped over the change to another one, and continued, answers nothing stale: real processes on shared
//! memory, that propose and read as fast as they can, in all three ways.
//!
//! Every process writes what it was told into a slot of its own of one file: the last index that was acknowledged to it, and
//! counts. Before each read a process looks at what has been acknowledged to anybody.

mod demo_common;

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use demo_common::turn;
use ringleader::{Entry, LeaseReads, Node, Options, Outcome, Read, ReadOutcome, Role};
use rustix::process::{Pid, Signal, kill_process};

const PATIENCE: Duration = Duration::from_secs(30);
const NODES: u8 = 3;
const ROUNDS: u32 = 8;

/// Words of a process's slot.
const ACKNOWLEDGED: u64 = 0;
const LEADS: u64 = 1;
const ANSWERED: u64 = 2;
const FAILED: u64 = 5;
const STALE: u64 = 6;
const WORDS: u64 = 8;

/// The file.
struct Board(File);

impl Board {
    fn open(dir: &Path) -> Board {
        let path = dir.join("board");
        let options = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
        let file = options.expect("opened");
        file.set_len(u64::from(NODES + 1) * WORDS * 8).expect("made");
        Board(file)
    }

    fn load(&self, node: u8, word: u64) -> u64 {
        let mut bytes = [0; 8];
        self.0.read_exact_at(&mut bytes, (u64::from(node) * WORDS + word) * 8).expect("read");
        u64::from_le_bytes(bytes)
    }

    fn store(&self, node: u8, word: u64, value: u64) {
        self.0.write_all_at(&value.to_le_bytes(), (u64::from(node) * WORDS + word) * 8).expect("written");
    }

    fn known(&self) -> u64 {
        (1..=NODES).map(|node| self.load(node, ACKNOWLEDGED)).max().unwrap_or(0)
    }
}

/// One node as a process; the test below starts this test again for each.
#[test]
fn child() {
    let Some(dir) = std::env::var_os("RINGLEADER_TEST_DIR").map(PathBuf::from) else { return };
    let node: u8 = std::env::var("RINGLEADER_TEST_NODE").expect("a node").parse().expect("a number");
    let board = Board::open(&dir);
    let mut options = Options::new(dir.join("group"), node, [1, 2, 3]);
    options.ring_len = 4 << 20;
    options.lease_reads = Some(LeaseReads { clocks_drift_below_ppm: 1000 });
    let me = Node::open(options, |_: Entry<'_>| {}).expect("opens");
    if node == 1 {
        me.form(PATIENCE).expect("formed");
    }
    let (failed, stale) = (AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        for (at, how) in Read::ALL.into_iter().enumerate() {
            let (board, mut reader, failed, stale) = (&board, me.reader(), &failed, &stale);
            scope.spawn(move || {
                let mut answered = 0;
                loop {
                    let known = board.known();
                    match reader.read(how, PATIENCE).expect("every read ends") {
                        ReadOutcome::Ready { applied_index } => {
                            if applied_index < known {
                                eprintln!(
                                    "node {node}: {how:?} read of {applied_index}, {known} was acknowledged"
                                );
                                board.store(node, STALE, stale.fetch_add(1, Ordering::Relaxed) + 1);
                            }
                            answered += 1;
                            board.store(node, ANSWERED + at as u64, answered);
                        }
                        ReadOutcome::Failed(_) => {
                            board.store(node, FAILED, failed.fetch_add(1, Ordering::Relaxed) + 1);
                        }
                        _ => thread::sleep(Duration::from_micros(500)),
                    }
                }
            });
        }
        let mut handle = me.handle();
        loop {
            let leads = me.status().role == Role::Leader;
            board.store(node, LEADS, u64::from(leads));
            if leads && handle.propose(&[node; 32]).is_ok() {
                if let Some((_, Outcome::Committed { index })) = handle.wait(PATIENCE) {
                    board.store(node, ACKNOWLEDGED, index);
                }
            } else {
                thread::sleep(Duration::from_micros(500));
            }
        }
    });
}

struct Group {
    board: Board,
    children: Vec<Child>,
    _dir: tempfile::TempDir,
}

impl Group {
    fn start() -> Group {
        let dir = tempfile::Builder::new().prefix("ringleader-test-").tempdir_in("/dev/shm").expect("made");
        let board = Board::open(dir.path());
        let start = |node: u8| {
            let mut command = Command::new(std::env::current_exe().expect("this program"));
            command.args(["--exact", "child", "--nocapture"]).stdin(Stdio::null()).stdout(Stdio::null());
            command.env("RINGLEADER_TEST_DIR", dir.path()).env("RINGLEADER_TEST_NODE", node.to_string());
            command.spawn().expect("starts")
        };
        Group { board, children: (1..=NODES).map(start).collect(), _dir: dir }
    }

    fn signal(&self, node: u8, signal: Signal) {
        kill_process(Pid::from_child(&self.children[usize::from(node) - 1]), signal).expect("sent");
    }

    /// Somebody who leads and has just had something acknowledged, other than that one.
    fn leader_but(&self, than: u8) -> u8 {
        let begun = Instant::now();
        let before: Vec<u64> = (0..=NODES).map(|node| self.board.load(node, ACKNOWLEDGED)).collect();
        loop {
            let leads = |node: &u8| {
                *node != than
                    && self.board.load(*node, LEADS) == 1
                    && self.board.load(*node, ACKNOWLEDGED) > before[usize::from(*node)]
            };
            if let Some(leader) = (1..=NODES).find(leads) {
                return leader;
            }
            assert!(begun.elapsed() < PATIENCE, "nobody leads");
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// One change over a leader that is stopped; false when that was shot meanwhile, because it was stopped in mid-copy.
    fn round(&mut self, round: u32) -> bool {
        let old = self.leader_but(0);
        thread::sleep(Duration::from_millis(u64::from(round * 7 % 20)));
        self.signal(old, Signal::STOP);
        self.leader_but(old);
        let ended = |board: &Board| {
            board.load(old, FAILED) + (0..3).map(|how| board.load(old, ANSWERED + how)).sum::<u64>()
        };
        let before = ended(&self.board);
        self.signal(old, Signal::CONT);
        let begun = Instant::now();
        // It ends reads again, those that were under way and others.
        while ended(&self.board) < before + 20 {
            if self.children[usize::from(old) - 1].try_wait().expect("its status").is_some() {
                return false;
            }
            assert!(begun.elapsed() < PATIENCE, "node {old} ends no reads");
            thread::sleep(Duration::from_millis(1));
        }
        true
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[test]
fn a_leader_stopped_over_a_change_answers_nothing_stale() {
    let _turn = turn();
    let mut answered = [0; 3];
    let mut told = 0;
    while told < ROUNDS {
        let mut group = Group::start();
        while told < ROUNDS && group.round(told) {
            told += 1;
        }
        for node in 1..=NODES {
            assert_eq!(group.board.load(node, STALE), 0, "node {node} answered from the past");
            for (how, count) in answered.iter_mut().enumerate() {
                *count += group.board.load(node, ANSWERED + how as u64);
            }
        }
    }
    assert!(answered.iter().all(|count| *count > 0), "{answered:?}");
    println!("{told} changes, reads answered by quorum, follower, lease: {answered:?}");
}
