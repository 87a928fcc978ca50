//! A machine of its own for each test, one test at a time: what the stand-in counts, it counts for the process.

#![allow(dead_code, reason = "each test takes what it needs")]

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ringleader_doca::{Device, Library, Representor, stand_in};
use tempfile::TempDir;

pub(crate) const HOST: &str = "standin_host";
pub(crate) const DPU: &str = "standin_dpu";
pub(crate) const HOST_PCI: &str = "0000:3b:00.0";

static ONE: Mutex<()> = Mutex::new(());

/// See the module. Its end fails when there is an object more or less than at its beginning.
pub(crate) struct Machine {
    pub(crate) library: Library,
    pub(crate) dir: TempDir,
    live: i64,
    _one: MutexGuard<'static, ()>,
}

impl Machine {
    pub(crate) fn new() -> Machine {
        let one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        let dir = tempfile::tempdir().expect("a directory");
        stand_in::set_directory(dir.path());
        stand_in::mend();
        stand_in::freed();
        Machine { library: Library::load().expect("the stand-in"), dir, live: stand_in::live(), _one: one }
    }

    pub(crate) fn host(&self) -> Arc<Device> {
        Device::open(&self.library, HOST).expect("the host's device")
    }

    pub(crate) fn dpu(&self) -> Arc<Device> {
        Device::open(&self.library, DPU).expect("the DPU's device")
    }

    pub(crate) fn representor(&self) -> Arc<Representor> {
        Representor::open(&self.dpu(), HOST_PCI).expect("the host as the DPU sees it")
    }

    /// Objects beyond those that were there before.
    pub(crate) fn live(&self) -> i64 {
        stand_in::live() - self.live
    }

    /// Takes what is left behind on purpose for granted.
    pub(crate) fn leave(&mut self) {
        self.live = stand_in::live();
    }

    /// Starts an ignored test of this program as another process.
    pub(crate) fn other(&self, part: &str) -> Other {
        Other::start(self.dir.path(), part)
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        stand_in::mend();
        if !std::thread::panicking() {
            assert_eq!(self.live(), 0, "objects are left, or were freed twice");
        }
    }
}

/// Another process, which says lines that begin with a mark, and is told lines.
pub(crate) struct Other {
    child: Child,
    said: BufReader<ChildStdout>,
    told: ChildStdin,
}

const MARK: &str = "says: ";

/// Called by such a process.
pub(crate) fn say(line: &str) {
    // Not by the macro, whose output the test harness may keep.
    writeln!(std::io::stdout().lock(), "\n{MARK}{line}").expect("said");
}

impl Other {
    fn start(dir: &Path, part: &str) -> Other {
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", part, "--ignored", "--nocapture", "--test-threads=1"])
            .env(stand_in::DIRECTORY, dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("started");
        let said = BufReader::new(child.stdout.take().expect("a pipe"));
        let told = child.stdin.take().expect("a pipe");
        Other { child, said, told }
    }

    /// The next line that it says.
    pub(crate) fn hear(&mut self) -> String {
        loop {
            let mut line = String::new();
            let len = self.said.read_line(&mut line).expect("a line");
            assert!(len != 0, "the other process is gone");
            if let Some(said) = line.strip_prefix(MARK) {
                return said.trim_end().to_owned();
            }
        }
    }

    pub(crate) fn tell(&mut self, line: &str) {
        writeln!(self.told, "{line}").expect("told");
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("waited for");
    }

    /// Waits until it has ended well.
    pub(crate) fn end(mut self) {
        // What it still says must not stop it.
        while self.said.read_line(&mut String::new()).expect("a line") != 0 {}
        assert!(self.child.wait().expect("waited for").success(), "the other process has failed");
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// For what is to come.
pub(crate) fn soon() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

/// For what is not.
pub(crate) fn shortly() -> Instant {
    Instant::now() + Duration::from_millis(200)
}
