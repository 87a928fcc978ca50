//! The exchange as the rendezvous of a fabric.

use ringleader_core::types::NodeId;

use super::card::{CARD_LEN, Card};
use super::rendezvous::{Meeting, Rendezvous};
use crate::exchange::{self, Event, Exchange};

const _: () = assert!(CARD_LEN == exchange::CARD_LEN);

impl Rendezvous for Exchange {
    fn meet(&mut self, peer: NodeId, attempt: u64, card: &Card) {
        Exchange::meet(self, peer, attempt, card);
    }

    fn poll(&mut self) -> Option<Meeting> {
        Some(match Exchange::poll(self)? {
            Event::Met { peer, attempt, session, identity, card } => {
                Meeting::Met { peer, attempt, session, boot: identity.boot, half: identity.half, card }
            }
            // The exchange has said why.
            Event::Failed { peer, attempt, .. } => Meeting::Failed { peer, attempt },
            Event::Knocks { peer } => Meeting::Knocks { peer },
            Event::Lost { peer, session } => Meeting::Lost { peer, session },
        })
    }

    fn set_group(&mut self, group: u128) {
        Exchange::set_group(self, group);
    }
}
