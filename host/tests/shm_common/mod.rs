//! A writer in a process of its own, and the acceptor it writes to in the test's. Not: any protocol above the fabric.
//!
//! They agree by words in the acceptor's control area, which the writer READs and WRITEs one-sidedly. The writer's process
//! is this test binary again, told by its environment what it is; it dies with the test.

#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ringleader::fabric::Fabric;
use ringleader::fabric::shm::{Areas, Mapped, Options, RegionError, STOP_IN_COPY, ShmFabric};
use ringleader_core::mem::Area;
use ringleader_core::options::Half;
use ringleader_core::types::{Boot, Epoch, Incarnation, NodeId};
use ringleader_core::verb::{Class, Completion, Plane, RequestId, Source, Status, Verb};

pub(crate) const RING: u64 = 512 * 1024;
pub(crate) const ACCEPTOR: NodeId = NodeId(1);
pub(crate) const WRITER: NodeId = NodeId(2);
pub(crate) const FENCE_LIMIT: Duration = Duration::from_millis(200);
/// Generous: the machine may be busy with other things.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
/// Bytes of one WRITE, and of the range they go to.
pub(crate) const WRITE_LEN: u32 = 8192;
pub(crate) const TARGET_LEN: u64 = 8 * WRITE_LEN as u64;

/// The acceptor's words, behind everything that the layout uses.
const EPOCH: u64 = 16384;
const ACCEPTOR_NUMBERS: u64 = EPOCH + 8;
const WRITES_WANTED: u64 = EPOCH + 16;
const GRANTED: u64 = EPOCH + 24;
/// The writer's words.
const REPORT: u64 = 20480;
const WRITER_NUMBERS: u64 = REPORT;
const READY: u64 = REPORT + 8;
const CLOSED: u64 = REPORT + 16;
const WRITES: u64 = REPORT + 24;
const REFUSALS: u64 = REPORT + 32;

const ROLE: &str = "RINGLEADER_TEST_WRITER_IN";

pub(crate) fn create(dir: &Path, node: NodeId) -> Result<(ShmFabric, Areas), RegionError> {
    let boot = u64::from(std::process::id()) << 32 | u64::from(rand_word());
    ShmFabric::create(&Options {
        dir,
        node,
        boot: Boot(boot),
        incarnation: Incarnation(boot),
        ring_len: RING,
        snapshot_len: 0,
        half: Half::Whole,
        group_name: None,
        fence_limit_ns: FENCE_LIMIT.as_nanos() as u64,
    })
}

fn rand_word() -> u32 {
    use std::hash::{BuildHasher, Hasher};
    std::collections::hash_map::RandomState::new().build_hasher().finish() as u32
}

pub(crate) fn id(peer: NodeId, class: Class, epoch: u32) -> RequestId {
    RequestId { peer, class, epoch: Epoch(epoch), number: 0 }
}

pub(crate) fn reap_one(fabric: &mut ShmFabric) -> Option<Completion> {
    let none = Completion { id: id(WRITER, Class::Progress, 0), status: Status::Failed, value: 0 };
    let mut out = [none];
    (fabric.reap(&mut out) == 1).then(|| out[0])
}

pub(crate) fn run(fabric: &mut ShmFabric, verb: Verb) -> (Status, u64) {
    fabric.post(&verb);
    let done = wait_for("a completion", || reap_one(fabric));
    assert_eq!(done.id, verb.id());
    (done.status, done.value)
}

pub(crate) fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < PATIENCE, "waited in vain for {what}");
        std::thread::sleep(Duration::from_micros(50));
    }
}

/// The test's side.
pub(crate) struct Acceptor {
    pub(crate) fabric: ShmFabric,
    pub(crate) control: Area<Mapped>,
    pub(crate) log: Area<Mapped>,
    pub(crate) epoch: u32,
}

impl Acceptor {
    pub(crate) fn new(dir: &Path) -> Acceptor {
        let (fabric, areas) = create(dir, ACCEPTOR).unwrap();
        Acceptor { fabric, control: Area::new(areas.control), log: Area::new(areas.log), epoch: 0 }
    }

    /// Connects to a writer that has said who it is.
    pub(crate) fn meet(&mut self, writer: &Writer) {
        wait_for("the writer's numbers", || {
            let numbers = self.control.load(WRITER_NUMBERS);
            (numbers >> 32 == u64::from(writer.child.id())).then_some(())
        });
        let connect = Verb::Connect { id: id(WRITER, Class::Connect, 1) };
        assert_eq!(run(&mut self.fabric, connect).0, Status::Success);
    }

    /// Arms the next epoch, waits for the writer to be ready, grants, and lets it write without end.
    pub(crate) fn let_write(&mut self) {
        self.epoch += 1;
        let numbers = self.control.load(WRITER_NUMBERS) & 0xffff_ffff;
        let arm = Verb::Arm { id: id(WRITER, Class::Arm, self.epoch), numbers };
        let (status, own_numbers) = run(&mut self.fabric, arm);
        assert_eq!(status, Status::Success);
        self.control.store(ACCEPTOR_NUMBERS, own_numbers);
        self.control.store(EPOCH, u64::from(self.epoch));
        wait_for("the writer to be ready", || {
            (self.control.load(READY) == u64::from(self.epoch)).then_some(())
        });
        let grant = Verb::Grant { id: id(WRITER, Class::Grant, self.epoch) };
        assert_eq!(run(&mut self.fabric, grant).0, Status::Success);
        self.control.store(GRANTED, u64::from(self.epoch));
    }

    pub(crate) fn want_writes(&mut self, count: u64) {
        self.control.store(WRITES_WANTED, count);
    }

    pub(crate) fn writes(&self) -> u64 {
        self.control.load(WRITES)
    }

    pub(crate) fn refusals(&self) -> u64 {
        self.control.load(REFUSALS)
    }

    pub(crate) fn wait_closed(&self) {
        wait_for("the writer to close its end", || {
            (self.control.load(CLOSED) == u64::from(self.epoch)).then_some(())
        });
    }

    pub(crate) fn start_fence(&mut self) {
        self.fabric.post(&Verb::Fence { id: id(WRITER, Class::Fence, self.epoch) });
    }

    pub(crate) fn is_fenced(&mut self) -> bool {
        let Some(done) = reap_one(&mut self.fabric) else { return false };
        assert_eq!((done.id.class, done.status), (Class::Fence, Status::Success));
        true
    }

    /// How long the fence took.
    pub(crate) fn fence(&mut self) -> Duration {
        let start = Instant::now();
        self.start_fence();
        wait_for("the fence", || self.is_fenced().then_some(()));
        start.elapsed()
    }

    pub(crate) fn snapshot(&self) -> Vec<u64> {
        let mut words = vec![0; self.log.len() as usize / 8];
        self.log.read(0, &mut words);
        words
    }
}

/// The other process, seen from the test. Killed when it is dropped.
pub(crate) struct Writer {
    pub(crate) child: Child,
}

impl Writer {
    /// Starts this test binary again as a writer. `stop_in`: stop in the middle of that granted WRITE.
    pub(crate) fn start(dir: &Path, stop_in: Option<u32>) -> Writer {
        let mut command = child_command("writer_process");
        command.env(ROLE, dir).stdout(Stdio::null());
        if let Some(count) = stop_in {
            command.env(STOP_IN_COPY, count.to_string());
        }
        Writer { child: command.spawn().unwrap() }
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Waits until every thread of it is stopped.
    pub(crate) fn wait_stopped(&self) {
        wait_for("the writer to stop", || {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
            stat.rsplit_once(") ").unwrap().1.starts_with('T').then_some(())
        });
    }

    /// The signal it ended by.
    pub(crate) fn wait_end(&mut self) -> Option<i32> {
        self.child.wait().unwrap().signal()
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// This test binary again, running only the test with that name.
pub(crate) fn child_command(test: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]).stdin(Stdio::null());
    command
}

/// The directory that the environment names, in a child process that is to be something.
pub(crate) fn role(variable: &str) -> Option<PathBuf> {
    let dir = PathBuf::from(std::env::var_os(variable)?);
    // Whatever ends the test, its children end too.
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL)).unwrap();
    Some(dir)
}

/// The writer's whole life; returns at once in a process that is none.
pub(crate) fn writer_process() {
    let Some(dir) = role(ROLE) else { return };
    let (mut fabric, areas) = create(&dir, WRITER).unwrap();
    let staging = Area::new(areas.staging);
    let own = u64::from(std::process::id()) << 32;
    let connect = Verb::Connect { id: id(ACCEPTOR, Class::Connect, 1) };
    let numbers = wait_for("the acceptor", || {
        let (status, value) = run(&mut fabric, connect);
        (status == Status::Success).then_some(value)
    });
    // Words of the report are made at 0, those of the acceptor read to 4096, the bytes of WRITEs are made at 65536.
    let report = |fabric: &mut ShmFabric, offset: u64, word: u64| -> io::Result<()> {
        staging.store(0, word);
        let id = id(ACCEPTOR, Class::Request, 1);
        let verb =
            Verb::Write { id, plane: Plane::Control, source: Source::Staging, from: 0, to: offset, len: 8 };
        (run(fabric, verb).0 == Status::Success).then_some(()).ok_or(io::ErrorKind::NotConnected.into())
    };
    let mut open_epoch = 0;
    let (mut writes, mut refusals) = (0, 0);
    report(&mut fabric, WRITES, 0).unwrap();
    report(&mut fabric, REFUSALS, 0).unwrap();
    report(&mut fabric, WRITER_NUMBERS, own | numbers).unwrap();
    loop {
        let read = Verb::Read { id: id(ACCEPTOR, Class::Progress, 1), from: EPOCH, to: 4096, len: 32 };
        if run(&mut fabric, read).0 != Status::Success {
            return;
        }
        let (wanted_epoch, numbers, wanted) =
            (staging.load(4096) as u32, staging.load(4104), staging.load(4112));
        if wanted_epoch > open_epoch {
            let closed = Verb::Close { id: id(ACCEPTOR, Class::Close, open_epoch) };
            assert_eq!(run(&mut fabric, closed).0, Status::Success);
            let open = Verb::Open { id: id(ACCEPTOR, Class::Open, wanted_epoch), numbers };
            if run(&mut fabric, open).0 != Status::Success {
                // An epoch and numbers of different moments, or one meant for the process before this one.
                continue;
            }
            open_epoch = wanted_epoch;
            report(&mut fabric, READY, u64::from(open_epoch)).unwrap();
        }
        for _ in 0..16 {
            if writes >= wanted || staging.load(4120) != u64::from(open_epoch) {
                std::thread::yield_now();
                break;
            }
            let bytes: Vec<u64> = vec![writes + 1; WRITE_LEN as usize / 8];
            staging.write(65536, &bytes);
            let to = writes * u64::from(WRITE_LEN) % TARGET_LEN;
            let id = id(ACCEPTOR, Class::Entries, open_epoch);
            let (plane, source, len) = (Plane::Log, Source::Staging, WRITE_LEN);
            match run(&mut fabric, Verb::Write { id, plane, source, from: 65536, to, len }).0 {
                Status::Success => {
                    writes += 1;
                    report(&mut fabric, WRITES, writes).unwrap();
                }
                Status::Refused => {
                    refusals += 1;
                    let close = Verb::Close { id: self::id(ACCEPTOR, Class::Close, open_epoch) };
                    assert_eq!(run(&mut fabric, close).0, Status::Success);
                    report(&mut fabric, REFUSALS, refusals).unwrap();
                    report(&mut fabric, CLOSED, u64::from(open_epoch)).unwrap();
                }
                Status::Flushed => break,
                other => panic!("a WRITE ended as {other:?}"),
            }
        }
    }
}
