//! What an application gives to a node: its [`StateMachine`], and the [`Session`] that keeps its proposals single. The
//! guide to both is the front page of this crate ([`crate`]).

use std::collections::HashMap;
use std::io;

pub use ringleader_core::replica::Entry;

/// The application's state: a function of the entries applied, in their order, and of nothing else.
///
/// Also any `FnMut(Entry<'_>)`.
pub trait StateMachine: Send + 'static {
    /// Takes one committed entry, which is lent for this call. Runs in the agent's thread: while it runs this node neither
    /// beats nor votes, so whatever takes longer than a fraction of a beat belongs into another thread.
    ///
    /// A panic ends the node ([`crate::Status::closed`], [`crate::CloseError::Panicked`]); what it had promised to others
    /// stays promised, and its region stays where it is.
    fn apply(&mut self, entry: Entry<'_>);

    /// Writes the state as it is now, for a node that has fallen behind so far that the entries it lacks are in no ring any more.
    ///
    /// Called on one of the nodes that have kept up, rarely. Runs in a thread of its own, however long it takes: the node beats and
    /// votes meanwhile, but applies nothing and answers no reads. What is written goes into memory that is as long as
    /// [`snapshot_len`](field@crate::Options::snapshot_len) says; more than that is an error. As long as no node of a group can save, who has
    /// fallen behind stays behind.
    fn save(&mut self, out: &mut dyn io::Write) -> io::Result<()> {
        let _ = out;
        Err(io::Error::new(io::ErrorKind::Unsupported, "this application does not save its state"))
    }

    /// Becomes what another node's [`StateMachine::save`] has written, in the same way. Every entry up to there counts as applied
    /// then; the next one is the first that is not in `state`, whose checksum is right.
    ///
    /// After an error the state must be what it was before.
    fn load(&mut self, state: &[u8]) -> io::Result<()> {
        let _ = state;
        Err(io::Error::new(io::ErrorKind::Unsupported, "this application does not load a state"))
    }
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
