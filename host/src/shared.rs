//! What the agent's thread and all threads of the application look at together; atomics only.

use crate::status::Board;
use crate::sync::AtomicBool;

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
