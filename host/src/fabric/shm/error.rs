//! What can be wrong with a region file, or with making one: one line each, naming the file.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crate::exchange::GroupName;
use ringleader_core::layout::{AREA_ALIGN, MAX_RING_LEN, MAX_SNAPSHOT_LEN, MIN_RING_LEN};

/// A region file that cannot be made or used.
#[derive(Debug)]
#[non_exhaustive]
pub struct RegionError {
    /// The file or directory.
    pub path: PathBuf,
    /// What is wrong with it.
    pub fault: RegionFault,
}

/// What is wrong.
#[derive(Debug)]
#[non_exhaustive]
pub enum RegionFault {
    /// The system refused something.
    Io {
        /// What was tried, after "cannot".
        doing: &'static str,
        /// Its answer.
        error: io::Error,
    },
    /// The ring is no power of two, too small or too large.
    RingLen {
        /// Bytes asked for.
        ring_len: u64,
    },
    /// Snapshots cannot have that length.
    SnapshotLen {
        /// Bytes.
        snapshot_len: u64,
    },
    /// No number of a member.
    NodeId {
        /// The number.
        node: u8,
    },
    /// A live process owns it.
    InUse {
        /// The process; 0 when it could not be told.
        pid: u64,
    },
    /// Not a regular file.
    NotAFile,
    /// Its length is not what it must be.
    Length {
        /// Bytes that are there.
        len: u64,
        /// Bytes that must be.
        expected: u64,
    },
    /// It is no region file.
    Magic,
    /// It was made by another version.
    Format {
        /// The version found.
        found: u32,
    },
    /// Its header's CRC is wrong.
    Torn,
    /// A number in its header cannot be.
    Header {
        /// Name of the field.
        field: &'static str,
        /// What it holds.
        found: u64,
    },
    /// It is that of a host whose acceptor is apart: there is no memory behind it.
    Host,
    /// It is that of a node of another group.
    OtherGroup {
        /// The name of the group of the node that wants to connect to it.
        ours: GroupName,
        /// Of its own.
        theirs: GroupName,
    },
    /// Its ring is not as long as that of the node that wants to connect to it.
    OtherRing {
        /// Bytes of that node's.
        ours: u64,
        /// Bytes of this one.
        theirs: u64,
    },
    /// It is that of the acceptor of a host that saves longer or shorter snapshots.
    OtherSnapshots {
        /// Bytes that the host's may have.
        ours: u64,
        /// Bytes that there is room for.
        theirs: u64,
    },
    /// A byte that nobody writes is not zero.
    Stray {
        /// Its offset in the file.
        offset: u64,
    },
    /// Its owner counts processes in another namespace: it could not be watched, and a stranger would be shot.
    PidNamespace,
}

impl RegionError {
    pub(super) fn new(path: &Path, fault: RegionFault) -> RegionError {
        RegionError { path: path.to_owned(), fault }
    }

    /// Makes the error of a system call that was part of `doing`.
    pub(super) fn io<E: Into<io::Error>>(path: &Path, doing: &'static str) -> impl FnOnce(E) -> RegionError {
        move |error| RegionError::new(path, RegionFault::Io { doing, error: error.into() })
    }
}

impl RegionFault {
    /// Whether a file with this fault was a region once, of whatever version and however damaged.
    pub(super) fn is_of_a_region(&self) -> bool {
        match self {
            RegionFault::Length { expected, .. } => *expected > super::header::HEADER_LEN,
            RegionFault::Format { .. } | RegionFault::Torn | RegionFault::Header { .. } => true,
            _ => false,
        }
    }
}

impl fmt::Display for RegionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.fault)
    }
}

impl fmt::Display for RegionFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RegionFault::Io { doing, error } => write!(f, "cannot {doing}: {error}"),
            RegionFault::SnapshotLen { snapshot_len } => write!(
                f,
                "snapshots of {snapshot_len} bytes are not possible: it must be a multiple of {AREA_ALIGN} up to {MAX_SNAPSHOT_LEN}"
            ),
            RegionFault::RingLen { ring_len } => write!(
                f,
                "a ring of {ring_len} bytes is not possible: it must be a power of two from {MIN_RING_LEN} to {MAX_RING_LEN}"
            ),
            RegionFault::NodeId { node } => write!(f, "{node} is no node id: they are 1 to 15"),
            RegionFault::InUse { pid: 0 } => write!(f, "in use by another process"),
            RegionFault::InUse { pid } => write!(f, "in use by process {pid}"),
            RegionFault::NotAFile => write!(f, "not a regular file"),
            RegionFault::Length { len, expected } if len < expected => {
                write!(f, "cut short: {len} bytes of at least {expected}")
            }
            RegionFault::Length { len, expected } => {
                write!(f, "{len} bytes long, but its header says {expected}")
            }
            RegionFault::Magic => write!(f, "not a region file (wrong magic)"),
            RegionFault::Format { found } => {
                write!(f, "region format {found}; this program knows format {}", super::header::FORMAT)
            }
            RegionFault::Torn => write!(f, "damaged header (wrong CRC)"),
            RegionFault::Header { field, found } => {
                write!(f, "damaged header ({field} cannot be {found})")
            }
            RegionFault::Host => {
                write!(f, "of a host whose acceptor is apart: the log is in the acceptor's region")
            }
            RegionFault::OtherGroup { ours, theirs } => {
                write!(f, "its group is \"{theirs}\", and this node's is \"{ours}\"")
            }
            RegionFault::OtherRing { ours, theirs } => {
                write!(f, "its ring has {theirs} bytes, and this node's has {ours}")
            }
            RegionFault::OtherSnapshots { ours, theirs } => write!(
                f,
                "its snapshots may have {theirs} bytes, and those here {ours}: they must be the same for a host and its acceptor"
            ),
            RegionFault::Stray { offset } => write!(f, "damaged: byte {offset} should be zero"),
            RegionFault::PidNamespace => {
                write!(f, "its owner runs in another process namespace (share it, for example with --pid)")
            }
        }
    }
}

impl std::error::Error for RegionError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.fault {
            RegionFault::Io { error, .. } => Some(error),
            _ => None,
        }
    }
}
