//! What the agent's thread and all threads of the application look at together; atomics only.

use crate::status::{Board, Status};
use crate::sync::{AtomicBool, Ordering};

/// Made once a node.
#[derive(Debug)]
pub(crate) struct Shared {
    /// Set when the agent's thread ends, however it ends.
    pub(crate) closed: AtomicBool,
    /// The latest status.
    pub(crate) board: Board,
    /// The largest payload that fits into an entry.
    pub(crate) max_payload: usize,
}

impl Shared {
    /// Of the node with this id, which it is of.
    pub(crate) fn status(&self, node: u8) -> Status {
        // Relaxed: nothing else is read on the strength of this flag.
        let closed = self.closed.load(Ordering::Relaxed);
        Status { closed, ..self.board.read().status(node) }
    }
}
