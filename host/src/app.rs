//! What an application gives to a node, and how it keeps its proposals single.
//!
//! Every node of a group is opened with a [`StateMachine`] of its own. Each is handed the same committed entries in the
//! same order, so all have the same state. Proposals go to the node that leads; the others name it.
//!
//! ```
//! use std::sync::atomic::{AtomicU64, Ordering};
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use ringleader::{Entry, Node, Options, Outcome, Role};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir_in("/dev/shm")?;
//! # let dir = dir.path();
//! // Usually one node a process; all of them name the same directory.
//! let sum = Arc::new(AtomicU64::new(0));
//! let open = |node, sum: Arc<AtomicU64>| {
//!     let mut options = Options::new(dir, node, [1, 2, 3]);
//!     options.ring_len = 1 << 20;
//!     Node::open(options, move |entry: Entry<'_>| {
//!         sum.fetch_add(entry.payload.len() as u64, Ordering::Relaxed);
//!     })
//! };
//! let nodes = [open(1, sum.clone())?, open(2, Arc::default())?, open(3, Arc::default())?];
//! nodes[0].form(Duration::from_secs(10))?;
//!
//! let leader = loop {
//!     if let Some(node) = nodes.iter().find(|node| node.status().role == Role::Leader) {
//!         break node;
//!     }
//!     std::thread::sleep(Duration::from_millis(1));
//! };
//! let mut handle = leader.handle();
//! handle.propose(b"five!")?;
//! let (_, outcome) = handle.wait(Duration::from_secs(10)).expect("nothing disturbs these nodes");
//! assert!(matches!(outcome, Outcome::Committed { .. }));
//! while sum.load(Ordering::Relaxed) < 5 {
//!     std::thread::yield_now();
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # A proposal whose outcome is unknown
//!
//! When a leader falls or gives up, its handles report [`Outcome::Unknown`] for what was on its way: the next leader may
//! have it and commit it, or nobody ever will. To drop it may lose it, to propose it again may double it. No log can tell
//! the two apart for the application; the application makes doubles harmless:
//!
//! 1. Every client has an id, random or given out, that no other client has, also not after a restart that forgot how
//!    far it was. It numbers its proposals 1, 2, 3, … and puts id and number into the payload.
//! 2. The state machine keeps, as part of its state, the highest number it applied of each client. An entry whose number
//!    is not above it is a double and is passed over. (As all nodes apply the same entries, all pass over the same ones.)
//! 3. A client that gets [`Outcome::Unknown`] or [`Outcome::NotLeader`] looks for the leader and proposes again all that it
//!    knows no commit of, *in the order of their numbers*, under the same numbers, before anything new.
//!
//! The third rule needs the pipeline to have no gaps: were 5 lost and 6 committed, then 5, proposed again, would look like
//! a double. That is why a handle refuses everything behind the first proposal that was not committed until the
//! application has polled that outcome ([`crate::Handle`]). A client with one proposal at a time never meets this.
//!
//! [`Session`] is the second rule in a few lines.
//!
//! [`Outcome::Unknown`]: crate::Outcome::Unknown
//! [`Outcome::NotLeader`]: crate::Outcome::NotLeader

use std::collections::HashMap;

pub use ringleader_core::replica::Entry;

/// The application's state: a function of the entries applied, in their order, and of nothing else.
///
/// Also any `FnMut(Entry<'_>)`.
pub trait StateMachine: Send + 'static {
    /// Takes one committed entry, which is lent for this call. Runs in the agent's thread: while it runs this node neither
    /// beats nor votes, so whatever takes longer than a fraction of a beat belongs into another thread.
    ///
    /// A panic ends the node; what it had promised to others stays promised.
    fn apply(&mut self, entry: Entry<'_>);
}

impl<F: FnMut(Entry<'_>) + Send + 'static> StateMachine for F {
    fn apply(&mut self, entry: Entry<'_>) {
        self(entry);
    }
}

/// Which proposals of which client a state machine has applied: the part of its state that keeps them single.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Session {
    applied: HashMap<u64, u64>,
}

impl Session {
    /// Whether proposal `number` of `client` is to be applied: true the first time, if they come in the order of their
    /// numbers.
    pub fn admit(&mut self, client: u64, number: u64) -> bool {
        let last = self.applied.entry(client).or_default();
        let is_new = number > *last;
        *last = number.max(*last);
        is_new
    }

    /// The highest number that was applied of `client`; 0 when there is none.
    pub fn last(&self, client: u64) -> u64 {
        self.applied.get(&client).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proposal_is_admitted_once_however_often_it_is_committed() {
        let mut session = Session::default();
        let admitted: Vec<u64> =
            [1, 2, 3, 2, 3, 4, 4, 1, 5].into_iter().filter(|number| session.admit(7, *number)).collect();
        assert_eq!(admitted, [1, 2, 3, 4, 5]);
        assert!(session.admit(8, 1));
        assert_eq!((session.last(7), session.last(8), session.last(9)), (5, 1, 0));
    }
}
