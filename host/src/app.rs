//! What an application gives to a node: something that is handed every committed entry, once, in order.

use ringleader_core::types::{Index, Position, Term};

/// One committed entry.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// Its number in the log; no-ops have numbers too, so those of payloads have gaps.
    pub index: Index,
    /// The term in which it was made.
    pub term: Term,
    /// Where its slot begins in the log stream.
    pub position: Position,
    /// What was proposed.
    pub payload: &'a [u8],
}

/// The application's state: a function of the entries applied, in their order, and of nothing else.
pub trait StateMachine: Send + 'static {
    /// Takes one committed entry. Runs in the agent's thread: while it runs, this node neither beats nor votes.
    fn apply(&mut self, entry: Entry<'_>);
}

impl<F: FnMut(Entry<'_>) + Send + 'static> StateMachine for F {
    fn apply(&mut self, entry: Entry<'_>) {
        self(entry);
    }
}
