//! What an application gives to a node: something that is handed every committed entry, once, in order.

pub use ringleader_core::replica::Entry;

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
