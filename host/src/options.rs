//! What a node is opened with.

use std::path::PathBuf;

use ringleader_core::timing::Timing;

use crate::idle::Idle;

/// Which acknowledgements count for a commit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Quorum {
    /// Those of followers whose processes are seen to run.
    #[default]
    Live,
    /// Those of every follower whose memory took the entry.
    Stored,
}

/// What a node is opened with. `Options::new` fills in the defaults.
#[derive(Clone, Debug)]
pub struct Options {
    /// Directory with the region files of all nodes, `node-<id>.region`; made when it is missing.
    pub dir: PathBuf,
    /// This node, 1..=15.
    pub node: u8,
    /// All nodes of the group, this one included.
    pub members: Vec<u8>,
    /// Bytes of the ring, a power of two, at least 512 KiB. The same on all nodes.
    pub ring_len: u64,
    /// All durations.
    pub timing: Timing,
    /// Which acknowledgements count.
    pub quorum: Quorum,
    /// What the agent does when there is nothing to do.
    pub idle: Idle,
    /// Pins the agent's thread to this processor.
    pub pin: Option<usize>,
    /// Leaves the region file in place on a clean close, for `ringleader log`.
    pub keep_region: bool,
}

impl Options {
    /// Default length of the ring.
    pub const RING_LEN: u64 = 64 << 20;

    /// Options of `node` in a group of `members`, with region files in `dir`, and everything else at its default.
    pub fn new(dir: impl Into<PathBuf>, node: u8, members: impl Into<Vec<u8>>) -> Options {
        Options {
            dir: dir.into(),
            node,
            members: members.into(),
            ring_len: Options::RING_LEN,
            timing: Timing::LOCAL,
            quorum: Quorum::default(),
            idle: Idle::default(),
            pin: None,
            keep_region: false,
        }
    }
}
