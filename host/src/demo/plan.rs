//! What a demo is to do, checked before anything is started. Every complaint is one line that names the thing.

use std::fmt;
use std::path::PathBuf;

use ringleader_core::layout::{AREA_ALIGN, MAX_RING_LEN, MIN_RING_LEN, control, log, snapshot};
use ringleader_core::types::MAX_NODES;

use super::proposal;
use crate::MAX_GROUPS;
pub use crate::len::parse_len;
pub use crate::profile::Profile;

/// Bytes of a snapshot that every machine has room for; more than that when the ring is longer.
const SNAPSHOT_LEN: u64 = 16 << 20;
/// Bytes of a node's state beside the entries.
const STATE_LEN: u64 = 64;

/// Something the user gave, or the machine has too little of: exit status 2.
#[derive(Debug)]
pub struct BadInput(pub String);

impl fmt::Display for BadInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadInput {}

/// Where the entries come from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Feed {
    /// A file, an entry a line; the newline belongs to the entry.
    File(PathBuf),
    /// Made up: lines that begin with their number.
    Generated {
        /// So many.
        entries: u64,
        /// Bytes of each, its newline included.
        size: usize,
    },
}

/// Which node is struck.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Whom {
    /// The one that leads at that moment.
    Leader,
    /// Any other.
    Follower,
}

impl fmt::Display for Whom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Whom::Leader => "leader",
            Whom::Follower => "follower",
        })
    }
}

/// What happens in mid-stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// Nothing.
    None,
    /// SIGKILL.
    Kill(Whom),
    /// SIGSTOP, and SIGCONT when all entries are acknowledged.
    Pause(Whom),
}

impl Fault {
    /// Whether a leader falls by it.
    pub fn strikes_leader(self) -> bool {
        matches!(self, Fault::Kill(Whom::Leader) | Fault::Pause(Whom::Leader))
    }
}

/// What carries the verbs of the nodes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Carrier {
    /// Memory that they share.
    SharedMemory,
    /// RDMA devices: node n uses the one at place n - 1, counted around; the first that is active when there is none.
    Verbs {
        /// Names.
        devices: Vec<String>,
    },
}

impl Carrier {
    /// The device of a node, where one is named.
    pub fn device(&self, node: u8) -> Option<&str> {
        let Carrier::Verbs { devices } = self else { return None };
        devices.iter().cycle().nth(usize::from(node) - 1).map(String::as_str)
    }
}

/// Everything a demo is told.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What carries the verbs.
    pub carrier: Carrier,
    /// Nodes, 3..=15.
    pub nodes: u8,
    /// Groups, 1..=64: each node has a member of each.
    pub groups: u8,
    /// Bytes of each ring, a power of two.
    pub ring_len: u64,
    /// Durations.
    pub profile: Profile,
    /// Which acknowledgements count.
    pub quorum: crate::Quorum,
    /// What says that a write is placed.
    pub confirm: crate::Confirm,
    /// How an agent waits.
    pub idle: crate::Idle,
    /// The entries.
    pub feed: Feed,
    /// What happens in mid-stream.
    pub fault: Fault,
    /// Where the files go; a fresh temporary directory when not given.
    pub dir: Option<PathBuf>,
    /// Leaves the regions there, too.
    pub keep_regions: bool,
    /// Proposals with one outstanding, for the latency; 0 measures nothing.
    pub samples: usize,
    /// Bytes of each of them.
    pub sample_size: usize,
    /// Threads of each node that read beside the stream.
    pub reads: usize,
}

impl Plan {
    /// Largest entry, in bytes, that fits into the eighth of a ring, beside the header and tail that the log adds and
    /// the demo's own header.
    pub fn max_entry_len(&self) -> u64 {
        let slot = self.ring_len / 8;
        (slot - slot % 64).saturating_sub(32 + 8 + proposal::HEADER_LEN as u64)
    }

    /// Bytes of one node's region file.
    pub fn region_len(&self) -> u64 {
        control::LEN + log::len(self.ring_len) + snapshot::len(self.snapshot_len())
    }

    /// Bytes that a node's state may have when it is saved for one that has fallen behind: all entries, if they are not more than
    /// a ring holds. Nothing else: then such a node stays behind.
    pub fn snapshot_len(&self) -> u64 {
        let entries = match &self.feed {
            Feed::File(path) => std::fs::metadata(path).map_or(u64::MAX, |metadata| metadata.len()),
            Feed::Generated { entries, size } => entries.saturating_mul(*size as u64),
        };
        let len = entries.saturating_add(STATE_LEN).checked_next_multiple_of(AREA_ALIGN);
        len.filter(|len| *len <= self.ring_len.max(SNAPSHOT_LEN)).unwrap_or(0)
    }

    /// Checks the numbers. Files and directories are checked where they are opened.
    pub fn check(&self) -> Result<(), BadInput> {
        let bad = |text: String| Err(BadInput(text));
        if self.nodes < 3 || usize::from(self.nodes) > MAX_NODES {
            return bad(format!("--nodes: a group has 3 to {MAX_NODES} nodes"));
        }
        if self.groups == 0 || usize::from(self.groups) > MAX_GROUPS {
            return bad(format!("--groups: an agent thread hosts 1 to {MAX_GROUPS} groups"));
        }
        if self.groups > 1 {
            if self.keep_regions {
                return bad("--keep-regions: only with one group".to_owned());
            }
            if matches!(self.fault, Fault::Pause(_)) {
                return bad("--pause: only with one group".to_owned());
            }
        }
        if self.carrier != Carrier::SharedMemory {
            if !cfg!(feature = "verbs") {
                return bad("--fabric verbs: this program was built without it".to_owned());
            }
            if self.keep_regions {
                return bad("--keep-regions: there are none with --fabric verbs".to_owned());
            }
        }
        if !self.ring_len.is_power_of_two() {
            return bad(format!("--ring {}: the length of a ring is a power of two", self.ring_len));
        }
        if self.ring_len < MIN_RING_LEN || self.ring_len > MAX_RING_LEN {
            return bad(format!(
                "--ring {}: a ring has at least {MIN_RING_LEN} and at most {MAX_RING_LEN} bytes",
                self.ring_len
            ));
        }
        let max = self.max_entry_len();
        if let Feed::Generated { size, .. } = self.feed {
            if size == 0 {
                return bad("--size 0: an entry has at least the byte of its newline".to_owned());
            }
            if size as u64 > max {
                return bad(format!(
                    "--size {size}: an entry has at most {max} bytes in a ring of {} bytes",
                    self.ring_len
                ));
            }
        }
        if self.sample_size as u64 > max {
            return bad(format!(
                "--sample-size {}: an entry has at most {max} bytes in a ring of {} bytes",
                self.sample_size, self.ring_len
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Plan {
        Plan {
            carrier: Carrier::SharedMemory,
            nodes: 3,
            groups: 1,
            ring_len: 64 << 20,
            profile: Profile::Local,
            quorum: crate::Quorum::Live,
            confirm: crate::Confirm::Completion,
            idle: crate::Idle::Adaptive,
            feed: Feed::Generated { entries: 10, size: 64 },
            fault: Fault::None,
            dir: None,
            keep_regions: false,
            samples: 0,
            sample_size: 64,
            reads: 0,
        }
    }

    #[test]
    fn what_is_refused() {
        assert!(plan().check().is_ok());
        let wrong: [fn(&mut Plan); 12] = [
            |plan| plan.groups = 0,
            |plan| plan.groups = 65,
            |plan| (plan.groups, plan.keep_regions) = (2, true),
            |plan| (plan.groups, plan.fault) = (2, Fault::Pause(Whom::Leader)),
            |plan| plan.nodes = 2,
            |plan| plan.nodes = 16,
            |plan| plan.ring_len = 3 << 20,
            |plan| plan.ring_len = 256 << 10,
            |plan| plan.ring_len = 0,
            |plan| plan.ring_len = 1 << 40,
            |plan| plan.feed = Feed::Generated { entries: 1, size: 0 },
            |plan| plan.feed = Feed::Generated { entries: 1, size: 9 << 20 },
        ];
        for spoil in wrong {
            let mut plan = plan();
            spoil(&mut plan);
            let text = plan.check().expect_err("must be refused").to_string();
            assert!(text.starts_with("--") && !text.contains('\n'), "{text}");
        }
    }

    #[test]
    fn the_largest_entry_fills_an_eighth() {
        let plan = Plan { ring_len: 512 << 10, ..plan() };
        assert_eq!(plan.max_entry_len() + 17 + 32 + 8, 64 << 10);
    }
}
