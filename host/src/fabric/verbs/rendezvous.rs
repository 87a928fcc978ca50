//! How two fabrics find each other: what they need of an exchange. Not: the exchange.
//!
//! A session is the life of the one control queue pair of a pair of nodes. It comes about only when both ask for it; when
//! one asks anew, or goes away, the other one hears that it is lost.

use std::fmt;

use ringleader_core::options::Half;
use ringleader_core::types::{Boot, NodeId};

use super::card::Card;

/// What an exchange tells.
#[derive(Clone)]
#[expect(clippy::large_enum_variant, reason = "handed over without memory of its own")]
pub enum Meeting {
    /// Both wanted it: here is the other one's card.
    Met {
        /// The peer.
        peer: NodeId,
        /// As given to [`Rendezvous::meet`].
        attempt: u64,
        /// Number of the session.
        session: u64,
        /// The process at the other end.
        boot: Boot,
        /// What of its node that is.
        half: Half,
        /// Its card.
        card: Card,
    },
    /// A host whose acceptor is apart wants a session; it is not asked for one otherwise.
    Knocks {
        /// Its seat ([`crate::exchange::host_of`]).
        peer: NodeId,
    },
    /// This attempt is over. Who wants another one asks again.
    Failed {
        /// The peer.
        peer: NodeId,
        /// As given to [`Rendezvous::meet`].
        attempt: u64,
    },
    /// The session ended, or the peer wants a new one.
    Lost {
        /// The peer.
        peer: NodeId,
        /// Number of the session.
        session: u64,
    },
}

impl fmt::Debug for Meeting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A card has keys to memory in it.
        match self {
            Meeting::Met { peer, session, .. } => write!(f, "Met(node {peer}, session {session})"),
            Meeting::Knocks { peer } => write!(f, "Knocks(node {peer})"),
            Meeting::Failed { peer, attempt } => write!(f, "Failed(node {peer}, attempt {attempt})"),
            Meeting::Lost { peer, session } => write!(f, "Lost(node {peer}, session {session})"),
        }
    }
}

/// Where cards are exchanged. Called from one thread; nothing here waits.
pub trait Rendezvous: Send + 'static {
    /// Asks for a session. A former one with that peer, or an attempt, ends without a word here.
    fn meet(&mut self, peer: NodeId, attempt: u64, card: &Card);

    /// The next thing to tell.
    fn poll(&mut self) -> Option<Meeting>;

    /// The group was formed.
    fn set_group(&mut self, _group: u128) {}
}
