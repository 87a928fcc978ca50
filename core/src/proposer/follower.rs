//! What a leader does with each follower: ask, prepare, stream, and let go (the table of protocol.md 8).

use crate::entry::{self, judge, peek};
use crate::event::Event;
use crate::layout::verdict;
use crate::mem::Memory;
use crate::planted::{self, Bug};
use crate::proposer::confirm::Confirms;
use crate::proposer::peer::Peer;
use crate::proposer::{FollowerState, Proposer, Work};
use crate::quorum::majority;
use crate::request::{Answer, Ask};
use crate::types::{LogPoint, NodeId, Position, Promise};
use crate::walker::STEP_BYTES;

/// Entries looked through for a follower's last one; its anchor serves as well, and is never farther than a walk.
const MAX_PEEKS: usize = 4096;

impl Proposer {
    /// Moves every follower's state on.
    pub(crate) fn follow_followers<M: Memory>(&mut self, on: &mut Work<M>) {
        for node in self.lead.audience.nodes() {
            if node == self.here {
                self.follow_own(on);
                continue;
            }
            if !on.links[node].is_up() || !on.configuration.names(node, on.links[node].peer().incarnation) {
                continue;
            }
            match self.peers[node].state {
                FollowerState::Down if self.peers[node].formed => {
                    // Whatever was asked before belongs to an older life of the way there.
                    self.peers[node].ask_nothing();
                    self.peers[node].turn(FollowerState::Asking);
                }
                FollowerState::Asking => self.ask(on, node),
                FollowerState::Preparing => self.prepare(on, node),
                FollowerState::Broken => self.mend(on, node),
                FollowerState::LetGo => self.let_go_tick(node),
                FollowerState::Down | FollowerState::Window | FollowerState::Behind => {}
            }
            if self.peers[node].is_in_window() {
                self.note_applied(on, node);
            }
        }
    }

    fn ask<M: Memory>(&mut self, on: &mut Work<M>, node: NodeId) {
        let mine = Promise::new(self.lead.term, self.me.node);
        let peer = &self.peers[node];
        let Some((answer, line)) = peer.answer() else {
            if peer.asked == 0 {
                let sequence = self.next_sequence();
                self.peers[node].ask_access(on.now, sequence, self.lead.term);
            }
            return;
        };
        let granted = answer.verdict == verdict::GRANTED && line.promise == mine.0;
        if granted
            && line.qp_state == crate::layout::qp::GRANTED
            && peer.outbound.is_ready()
            && peer.outbound.epoch().0 == line.qp_epoch
        {
            self.start(on, node, &answer);
        } else if !granted && on.now.since(peer.asked_at) >= self.timing.repeat_ns
            || on.now.since(peer.asked_at.max(peer.heard_at)) >= self.timing.campaign_timeout_ns
        {
            // Not granted, or granted and fenced again for somebody who was then refused.
            let sequence = self.next_sequence();
            self.peers[node].ask_access(on.now, sequence, self.lead.term);
        }
    }

    /// Where to start: at the follower's last entry when this log has the same one there, else at its anchor (identical
    /// bytes over identical bytes do no harm).
    fn start<M: Memory>(&mut self, on: &mut Work<M>, node: NodeId, answer: &Answer) {
        let at = self.same_entry(on, &answer.last).unwrap_or(answer.anchor);
        let at = if planted::is(Bug::StartUnchecked) { answer.last } else { at };
        let peer = &mut self.peers[node];
        peer.applied = answer.applied.min(at.position);
        peer.walk = at;
        peer.start = at.position;
        peer.turn(FollowerState::Preparing);
        self.prepare(on, node);
    }

    /// The own point that ends with the same index and term at the same position, at or above the own anchor.
    ///
    /// Up to the own log's end at the election that log was walked, and judged, and stays. Above it only what was staged is
    /// this node's: its log area may still hold a torn entry of another leader there.
    fn same_entry<M: Memory>(&self, on: &Work<M>, last: &LogPoint) -> Option<LogPoint> {
        let (area, mut at) = if last.position <= self.lead.own_start.position {
            (&on.areas.log, *on.acceptor.walker().anchor())
        } else {
            (&on.areas.staging, self.lead.committed)
        };
        for _ in 0..MAX_PEEKS {
            if at.position >= last.position {
                break;
            }
            at = peek(area, self.me.ring_len, &at).ok()?.next;
        }
        (at.position == last.position && at.rank() == last.rank() && at.position <= self.lead.end.position)
            .then_some(at)
    }

    /// Walks the own log from the follower's start to what is staged, and copies it into the staging ring on the way: all that
    /// is sent comes from memory that nobody else writes.
    fn prepare<M: Memory>(&mut self, on: &mut Work<M>, node: NodeId) {
        if !self.lead.drained {
            // Requests of an earlier leadership may still read the staging ring.
            return;
        }
        let ring_len = self.me.ring_len;
        let low = self.lead.low;
        let mut at = self.peers[node].walk;
        let start = self.peers[node].start;
        let below = start < on.base && !planted::is(Bug::ServedBelowBase);
        if below || start > self.lead.end.position || !start.0.is_multiple_of(entry::SLOT_ALIGN) {
            return self.leave_behind(on, node);
        }
        let mut budget = STEP_BYTES;
        while at.position < low {
            if budget == 0 {
                self.peers[node].walk = at;
                return;
            }
            let Ok(valid) = judge(&on.areas.log, ring_len, &at) else {
                return self.leave_behind(on, node);
            };
            on.areas.staging.copy_from(&on.areas.log, entry::offset(ring_len, at.position), valid.slot);
            self.note_gap(at.position, valid.slot, valid.next.position);
            at = valid.next;
            budget = budget.saturating_sub(valid.slot);
        }
        self.lead.low = low.min(start);
        self.lead.limit = Position(0);
        let peer = &mut self.peers[node];
        peer.sent = start;
        let earlier = if planted::is(Bug::EarlierEpochCounted) { peer.matched } else { start };
        peer.matched = start.max(earlier.min(self.lead.end.position));
        peer.beaten = start;
        peer.confirms = Confirms::default();
        peer.holds_since = None;
        peer.beat_due = true;
        peer.turn(FollowerState::Window);
    }

    /// Remembers where the stream jumps to the next lap.
    pub(crate) fn note_gap(&mut self, position: Position, slot: u64, next: Position) {
        let end = Position(position.0 + slot);
        if next != end && self.lead.gap.is_none_or(|(_, resume)| resume < next) {
            self.lead.gap = Some((end, next));
        }
    }

    fn leave_behind<M: Memory>(&mut self, on: &mut Work<M>, node: NodeId) {
        self.peers[node].turn(FollowerState::Behind);
        on.events.push(Event::Behind { node });
    }

    /// Broken: its end is being closed by the way; its promise decides, and it is asked without waiting to be armed again.
    fn mend<M: Memory>(&mut self, on: &mut Work<M>, node: NodeId) {
        let watch = &mut on.watches[node];
        let peer = &mut self.peers[node];
        let armed = !planted::is(Bug::BrokenWaitsForArming) || peer.outbound.is_ready();
        if watch.line().is_some_and(|_| watch.read_at() >= peer.broken_at) && armed {
            // A higher promise would have ended this leadership when it was read.
            peer.turn(FollowerState::Asking);
            let sequence = self.next_sequence();
            self.peers[node].ask_access(on.now, sequence, self.lead.term);
        } else {
            watch.want_every(on.now, 0);
        }
    }

    /// Closed and drained, it holds up nobody. What it misses may still be in the ring when it answers; else it stays behind.
    fn let_go_tick(&mut self, node: NodeId) {
        let peer = &mut self.peers[node];
        // It may be up again by now, with nothing on its way.
        if !peer.outbound.is_closing() {
            peer.ask_nothing();
            peer.turn(FollowerState::Asking);
        }
    }

    /// The own node's copy goes through the own acceptor's grant like every other.
    fn follow_own<M: Memory>(&mut self, on: &mut Work<M>) {
        let own = self.me.node;
        if self.peers[own].state == FollowerState::Window {
            if on.acceptor.writer() != own && planted::is(Bug::OwnCopyWithoutGrant) {
                self.peers[own].matched = self.lead.end.position;
            } else if on.acceptor.writer() != own {
                self.peers[own].turn(FollowerState::Asking);
                self.peers[own].ask_nothing();
            }
            return;
        }
        // A request that was pushed aside by a higher one is not answered: the same is asked again, like by any proposer.
        let asked = self.peers[own].asked;
        if asked == 0 || on.now.since(self.peers[own].asked_at) >= self.timing.repeat_ns {
            let sequence = if asked == 0 { self.next_sequence() } else { asked };
            self.peers[own].ask_access(on.now, sequence, self.lead.term);
            self.ask_own(on, sequence, self.lead.term, Ask::Access);
        }
        let Some(answer) = on.acceptor.local_answer(self.peers[own].asked).copied() else { return };
        if answer.is_granted() && on.acceptor.writer() == own {
            let peer = &mut self.peers[own];
            peer.sent = answer.last.position.min(self.lead.end.position);
            peer.matched = peer.sent;
            peer.turn(FollowerState::Window);
            self.lead.limit = Position(0);
        } else {
            self.peers[own].ask_nothing();
        }
    }

    /// Room in a follower's ring: what its application has may be overwritten.
    fn note_applied<M: Memory>(&mut self, on: &mut Work<M>, node: NodeId) {
        let end = self.lead.end.position.0;
        let peer = &mut self.peers[node];
        if end - peer.matched.0 < self.me.ring_len / 4 {
            peer.holds_since = None;
        }
        if let Some(line) = on.watches[node].line() {
            peer.applied = peer.applied.max(Position(line.applied).min(peer.matched));
        }
    }

    /// Lets a follower go that others would have to wait for, if enough are left without it.
    pub(crate) fn let_go<M: Memory>(&mut self, on: &Work<M>, node: NodeId) -> bool {
        let left = self.counting(on).filter(|other| *other != node).count();
        if on.configuration.is_voter(node) && left < majority(on.configuration.voters()) {
            return false;
        }
        let peer: &mut Peer = &mut self.peers[node];
        peer.outbound.close();
        peer.turn(FollowerState::LetGo);
        true
    }
}
