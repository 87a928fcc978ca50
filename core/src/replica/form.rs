//! A replica's part in forming a group: the command, its progress, and what a group begins with (protocol.md 10).

use super::{FormError, Replica};
use crate::event::Event;
use crate::layout::{request_kind, verdict};
use crate::mem::Memory;
use crate::membership::Configuration;
use crate::options::Half;
use crate::types::{Instant, LogPoint, MAX_NODES, NodeId};

impl<M: Memory> Replica<M> {
    /// Forms a group of this node and the peers that it was made with, with this id (random, not 0). Goes on with the ticks; ends in
    /// [`Event::Formed`] on every member.
    pub fn form(&mut self, now: Instant, group: u128) -> Result<(), FormError> {
        self.now = self.now.max(now);
        if group == 0 {
            return Err(FormError::Group);
        }
        if self.configuration.is_formed() {
            return Err(FormError::NotFresh);
        }
        // It would wait for ever: who is in a group never gets out of it.
        if self.has_met_group() {
            return Err(FormError::InGroup);
        }
        if self.half == Half::Proposer {
            self.wish_group(group);
            return Ok(());
        }
        if !self.forming.begin(group) {
            return Err(FormError::NotFresh);
        }
        // Answers to a former wish say nothing of this one.
        for slot in 1..=MAX_NODES {
            self.proposer.peer_mut(NodeId(slot as u8)).ask_nothing();
        }
        Ok(())
    }

    /// A node that is reached is in a group. A host's own acceptor is no other node.
    pub(super) fn has_met_group(&self) -> bool {
        self.links
            .entries()
            .any(|(node, link)| node != self.me.node && link.is_up() && link.peer().group != 0)
    }

    pub(super) fn form_tick(&mut self) {
        if self.half == Half::Proposer {
            return;
        }
        if self.forming.is_collecting() && self.has_met_group() {
            self.forming.give_up();
            return self.events.push(Event::FormRefused);
        }
        let Some(hash) = self.forming.coordinate(&self.founders, &self.links, &self.areas.control) else {
            return;
        };
        for slot in 1..=MAX_NODES {
            let node = NodeId(slot as u8);
            if self.founders[node] && self.proposer.peer(node).asked == 0 {
                let sequence = self.proposer.next_sequence();
                self.proposer.peer_mut(node).ask_form(self.now, sequence, request_kind::FORM, hash);
            }
        }
        let refused = self.founders.entries().any(|(node, asked)| {
            *asked
                && self
                    .proposer
                    .peer(node)
                    .answer()
                    .is_some_and(|(answer, _)| answer.verdict != verdict::GRANTED)
        });
        let proposer = &self.proposer;
        let formed = self
            .forming
            .all_locked(|node| proposer.peer(node).answer().is_some_and(|(answer, _)| answer.is_granted()));
        if let Some(configuration) = formed {
            self.put_in_force(configuration);
        } else if !refused {
            return;
        } else {
            self.forming.give_up();
            self.events.push(Event::FormRefused);
        }
        for slot in 1..=MAX_NODES {
            self.proposer.peer_mut(NodeId(slot as u8)).ask_nothing();
        }
    }

    pub(super) fn put_in_force(&mut self, configuration: Configuration) {
        let group = configuration.group;
        self.formed_hash = if configuration.voters() > 0 { configuration.hash() } else { 0 };
        self.applied = LogPoint::start(group);
        self.acceptor.handle_formed(self.now, configuration.clone());
        self.forming.handle_formed();
        self.configuration = configuration;
        // A host that comes back may find members that came later than what it was told of.
        for slot in 1..=MAX_NODES {
            let node = NodeId(slot as u8);
            if node != self.me.node && self.configuration.member(node).is_some() {
                self.peers[node] = true;
            }
        }
        self.show_block();
        self.write_header();
        self.events.push(Event::Formed { group });
    }
}
