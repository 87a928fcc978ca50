//! A fabric carries out the core's verbs (protocol.md 2 says what one must promise). One agent owns it and calls it
//! from its one thread.

use ringleader_core::verb::{Completion, Verb};

pub mod shm;

/// One-sided memory between the nodes of a group.
pub trait Fabric {
    /// Starts a verb. Never waits for a peer; an error is a completion.
    fn post(&mut self, verb: &Verb);

    /// Takes up to `out.len()` completions; returns how many. Also moves whatever goes on beside the posts: fences,
    /// watching peers die.
    fn reap(&mut self, out: &mut [Completion]) -> usize;
}
