//! What a machine must have to run a node, looked at one by one: good, or what is wrong and the command that mends it.
//!
//! Read from /sys, /proc and /dev below a root that tests replace; the one device that a node would take is opened and asked
//! one question. Nothing is changed. `facts` is how things are read, `machine` the checks of any machine, `rdma` those of its devices, `port` those of one port.

mod facts;
mod machine;
mod port;
mod rdma;

use std::fmt;

use ringleader_core::layout::{control, log, snapshot};
use serde::Serialize;

use crate::Options;
use crate::config::{Config, Fabric, Verbs};
use crate::fabric::{HUGE_PAGE, locked_len};

pub use facts::{Facts, Space};

/// How something was found.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// As it should be.
    Good,
    /// A node runs, and would run better otherwise.
    Better,
    /// A node does not run, or not safely.
    Wrong,
    /// Not there, or not to be read here, which is no fault.
    Absent,
}

/// One thing looked at.
#[derive(Clone, PartialEq, Eq, Serialize, Debug)]
pub struct Check {
    /// The machine, or a device and its port.
    pub subject: String,
    /// What of it.
    pub name: &'static str,
    /// How it was found.
    pub state: State,
    /// What was found, in one line.
    pub found: String,
    /// A command that mends it, or the next thing to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mend: Option<String>,
}

/// Everything that was looked at.
#[derive(Clone, PartialEq, Eq, Serialize, Debug)]
pub struct Report {
    /// Nothing must be mended.
    pub good: bool,
    /// In the order in which they were made.
    pub checks: Vec<Check>,
}

/// What the machine is to run.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Wants {
    /// What carries the verbs; when not given, whatever the machine can.
    pub carrier: Option<Carrier>,
    /// Bytes of the ring; the default when not given.
    pub ring_len: Option<u64>,
    /// Bytes of a snapshot; as many as the ring has when not given.
    pub snapshot_len: Option<u64>,
    /// The processor of the agent's thread.
    pub pin: Option<usize>,
}

/// See [`Wants`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Carrier {
    /// Shared memory.
    Shm,
    /// RDMA, over this device and port and entry of the GID table where they are given.
    Verbs {
        /// The device.
        device: Option<String>,
        /// Its port.
        port: Option<u8>,
        /// The entry.
        gid_index: Option<u8>,
    },
}

impl Wants {
    /// What a configuration asks for.
    pub fn of(config: &Config) -> Wants {
        let carrier = match &config.fabric {
            Fabric::Shm { .. } => Carrier::Shm,
            Fabric::Verbs(verbs) => {
                let Verbs { device, port, gid_index, .. } = &**verbs;
                Carrier::Verbs { device: device.clone(), port: *port, gid_index: *gid_index }
            }
        };
        Wants {
            carrier: Some(carrier),
            ring_len: Some(config.ring_len),
            snapshot_len: config.snapshot_len,
            pin: config.pin,
        }
    }

    fn lens(&self) -> (u64, u64) {
        let ring_len = self.ring_len.unwrap_or(Options::RING_LEN);
        (ring_len, self.snapshot_len.unwrap_or(ring_len))
    }

    /// Bytes of a node's memory: its staging ring and its region.
    fn memory_len(&self) -> u64 {
        log::len(self.lens().0) + self.region_len()
    }

    /// Bytes that a node on a device locks.
    fn locked_len(&self) -> u64 {
        let (ring_len, snapshot_len) = self.lens();
        locked_len(ring_len, snapshot_len)
    }

    /// Huge pages for a node's four areas, each in pages of its own.
    fn huge_pages(&self) -> u64 {
        let (ring_len, snapshot_len) = self.lens();
        let area = log::len(ring_len);
        [control::LEN, area, area, snapshot::len(snapshot_len)]
            .iter()
            .map(|len| len.div_ceil(HUGE_PAGE))
            .sum()
    }

    fn region_len(&self) -> u64 {
        let (ring_len, snapshot_len) = self.lens();
        control::LEN + log::len(ring_len) + snapshot::len(snapshot_len)
    }
}

/// Looks at everything.
pub fn examine(facts: &Facts, wants: &Wants) -> Report {
    let mut checks = Checks { subject: "machine".to_owned(), made: Vec::new() };
    let has_rdma = !matches!(wants.carrier, Some(Carrier::Shm)) && rdma::has_devices(facts);
    let must_have_rdma = matches!(wants.carrier, Some(Carrier::Verbs { .. }));
    machine::check(facts, wants, has_rdma || must_have_rdma, &mut checks);
    if has_rdma || must_have_rdma {
        rdma::environment(facts, &mut checks);
    }
    if has_rdma {
        rdma::check(facts, wants, &mut checks);
    } else if must_have_rdma {
        checks.wrong("rdma", "no RDMA device", rdma::NO_DEVICE);
    } else if wants.carrier.is_none() {
        checks.absent(
            "rdma",
            "no RDMA device: fabric = \"shm\", `ringleader demo` and all tests work all the same",
        );
    }
    let good = checks.made.iter().all(|check| check.state != State::Wrong);
    Report { good, checks: checks.made }
}

/// Checks as they are made.
struct Checks {
    subject: String,
    made: Vec<Check>,
}

impl Checks {
    fn add(&mut self, name: &'static str, state: State, found: impl Into<String>, mend: Option<String>) {
        self.made.push(Check { subject: self.subject.clone(), name, state, found: found.into(), mend });
    }

    fn good(&mut self, name: &'static str, found: impl Into<String>) {
        self.add(name, State::Good, found, None);
    }

    fn better(&mut self, name: &'static str, found: impl Into<String>, mend: impl Into<String>) {
        self.add(name, State::Better, found, Some(mend.into()));
    }

    fn wrong(&mut self, name: &'static str, found: impl Into<String>, mend: impl Into<String>) {
        self.add(name, State::Wrong, found, Some(mend.into()));
    }

    fn absent(&mut self, name: &'static str, found: impl Into<String>) {
        self.add(name, State::Absent, found, None);
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.checks.iter().map(|check| check.name.len()).max().unwrap_or(0);
        let mut subject = "";
        for check in &self.checks {
            if check.subject != subject {
                subject = &check.subject;
                writeln!(f, "{subject}")?;
            }
            let state = match check.state {
                State::Good => "good",
                State::Better => "better",
                State::Wrong => "WRONG",
                State::Absent => "-",
            };
            writeln!(f, "  {state:<6}  {:<width$}  {}", check.name, check.found)?;
            if let Some(mend) = &check.mend {
                writeln!(f, "  {:<6}  {:<width$}    -> {mend}", "", "")?;
            }
        }
        let count = |state| self.checks.iter().filter(|check| check.state == state).count();
        let (wrong, better) = (count(State::Wrong), count(State::Better));
        match wrong {
            0 => write!(f, "nothing must be mended")?,
            1 => write!(f, "1 thing must be mended")?,
            _ => write!(f, "{wrong} things must be mended")?,
        }
        if better > 0 { writeln!(f, "; {better} could be better") } else { writeln!(f) }
    }
}

/// Bytes, as people read them: rounded down.
fn mib(len: u64) -> String {
    if len < 1 << 20 { format!("{} KiB", len >> 10) } else { format!("{} MiB", len >> 20) }
}

#[cfg(test)]
mod tests;
