//! What a node has done since it was opened, as numbers that only grow. Posted with the status (`status.rs`), and as old.
//!
//! They are counted by the agent's thread for itself, so that counting costs no atomic.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// See the head of this file. Taken by [`crate::Node::metrics`].
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Clone, Copy, PartialEq, Eq, Default, Debug)]
#[repr(C)]
#[non_exhaustive]
pub struct Metrics {
    /// Turns of the agent.
    pub turns: u64,
    /// Proposals that became entries of this node's log, as leader.
    pub proposed: u64,
    /// Those of them that were reported committed.
    pub committed: u64,
    /// Those of them whose outcome was reported unknown, because the lead was lost.
    pub unknown: u64,
    /// Entries that the state machine was handed.
    pub applied: u64,
    /// Bytes of their payloads.
    pub applied_bytes: u64,
    /// Reads that ended with the word to look now.
    pub reads: u64,
    /// Reads that were begun and ended without.
    pub reads_failed: u64,
    /// Elections that this node stood in.
    pub campaigns: u64,
    /// Those that it won.
    pub elected: u64,
    /// How often it gave up the lead, or was deposed.
    pub gave_up: u64,
    /// States that were saved for others.
    pub saved: u64,
    /// States of others that were loaded.
    pub loaded: u64,
    /// Verbs posted to the fabric.
    pub verbs: u64,
    /// Those that ended otherwise than well.
    pub verbs_failed: u64,
}
