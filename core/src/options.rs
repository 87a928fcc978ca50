//! What a replica is started with, and what of it is possible.

use crate::entry;
use crate::layout::{AREA_ALIGN, MAX_RING_LEN, MAX_SNAPSHOT_LEN, MIN_RING_LEN};
use crate::proposer::{Confirm, OwnCopy, Quorum};
use crate::read::LeaseReads;
use crate::timing::Timing;
use crate::types::{Boot, Incarnation, MAX_NODES, NodeId};

/// Who a replica is and what its ring is like; given at start, never changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Identity {
    pub(crate) node: NodeId,
    pub(crate) incarnation: Incarnation,
    pub(crate) boot: Boot,
    pub(crate) ring_len: u64,
    pub(crate) max_entry: u64,
    pub(crate) snapshot_len: u64,
}

/// Which part of a node a replica is (protocol.md 13).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub enum Half {
    /// All of it.
    #[default]
    Whole,
    /// What holds the log and votes: on a DPU. Its host is apart, and need not run.
    Acceptor,
    /// What proposes, leads and applies: on a host whose acceptor is apart. Its control and log areas are copies of the acceptor's.
    Proposer,
}

/// What a replica is started with.
#[derive(Clone, Debug)]
pub struct Options {
    /// This node, 1..=15.
    pub node: NodeId,
    /// Which part of it this is.
    pub half: Half,
    /// The other nodes to connect to, and to form a group with, by id.
    pub peers: [bool; MAX_NODES + 1],
    /// Length of the ring in bytes: a power of two, [`MIN_RING_LEN`] at least.
    pub ring_len: u64,
    /// Largest slot in bytes, header and tail included: a multiple of 64, an eighth of the ring at most.
    pub max_entry: u64,
    /// Bytes of the largest snapshot: a multiple of 64 KiB, or 0: this node neither gives nor takes snapshots, and arranges none as
    /// leader. The same on all nodes.
    pub snapshot_len: u64,
    /// Durations and sizes; the same on all nodes.
    pub timing: Timing,
    /// Which voters count for a commit.
    pub quorum: Quorum,
    /// When a leader copies to its own log.
    pub own_copy: OwnCopy,
    /// What says that the bytes of a WRITE are placed.
    pub confirm: Confirm,
    /// Whether a leader answers reads by its lease alone; `None`: never. The same on all nodes.
    pub lease_reads: Option<LeaseReads>,
    /// Random, new whenever promise or log were lost; not 0. A proposer has that of its acceptor, whatever stands here.
    pub incarnation: Incarnation,
    /// Random, new for each start of the process; not 0.
    pub boot: Boot,
    /// Of the jitter.
    pub seed: u64,
}

/// What is wrong with [`Options`] or areas.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum OptionsError {
    /// A node id is not in 1..=15, or the node is its own peer.
    Node,
    /// The ring is no power of two, too short or too long.
    RingLen,
    /// The largest slot is no multiple of 64, or above an eighth of the ring.
    MaxEntry,
    /// The largest snapshot is no multiple of 64 KiB, or longer than 16 TiB.
    SnapshotLen,
    /// Durations that contradict each other, are 0 or longer than an hour, or sizes that are no multiples of 64.
    Timing,
    /// Clocks cannot differ by that much, or by nothing.
    Drift,
    /// Incarnation or boot is 0.
    Identity,
    /// An area has another length than its layout.
    AreaLen,
}

impl Options {
    /// Whether there can be a replica with these options.
    pub fn validate(&self) -> Result<(), OptionsError> {
        self.check().map(|_| ())
    }

    /// Who a replica with these options is, if there can be one.
    pub(crate) fn check(&self) -> Result<Identity, OptionsError> {
        self.check_above(MIN_RING_LEN)
    }

    /// The same for rings that are `min_ring_len` long at least.
    pub(crate) fn check_above(&self, min_ring_len: u64) -> Result<Identity, OptionsError> {
        let Options { node, ring_len, max_entry, snapshot_len, incarnation, boot, .. } = *self;
        if !node.is_valid() || self.peers[node.slot()] || self.peers[0] {
            return Err(OptionsError::Node);
        }
        if !ring_len.is_power_of_two() || !(min_ring_len..=MAX_RING_LEN).contains(&ring_len) {
            return Err(OptionsError::RingLen);
        }
        if !max_entry.is_multiple_of(entry::SLOT_ALIGN)
            || max_entry < entry::SLOT_ALIGN
            || max_entry > entry::longest_slot(ring_len)
        {
            return Err(OptionsError::MaxEntry);
        }
        if !snapshot_len.is_multiple_of(AREA_ALIGN) || snapshot_len > MAX_SNAPSHOT_LEN {
            return Err(OptionsError::SnapshotLen);
        }
        if !self.timing.is_sound() {
            return Err(OptionsError::Timing);
        }
        if self.lease_reads.is_some_and(|reads| !(1..500_000).contains(&reads.clocks_drift_below_ppm)) {
            return Err(OptionsError::Drift);
        }
        if incarnation.0 == 0 || boot.0 == 0 {
            return Err(OptionsError::Identity);
        }
        Ok(Identity { node, incarnation, boot, ring_len, max_entry, snapshot_len })
    }
}
