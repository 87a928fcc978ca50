//! The staging ring and the stream out of it: what may be staged, what is sent next (protocol.md 8, Room).
//!
//! A follower's next WRITE is worked out of the state when it is asked for: batches form by themselves, and there is no queue
//! that could overflow.

use crate::entry::{self, Kind, longest_slot, slot_len};
use crate::layout::{Line, log, staging};
use crate::mem::Memory;
use crate::planted::{self, Bug};
use crate::proposer::confirm::Confirm;
use crate::proposer::flights::{Flight, What};
use crate::proposer::leader::OwnCopy;
use crate::proposer::{Proposer, Role, Work};
use crate::quorum::reached;
use crate::types::{LogPoint, MAX_NODES, NodeId, Position};
use crate::verb::{Class, NUMBER_MASK, Plane, RequestId, Source, Verb};

/// No room in the ring, now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Full;

impl Proposer {
    /// Builds the next entry in the staging ring, behind a pad where it would cross the ring's end.
    #[inline]
    pub(crate) fn stage<M: Memory>(
        &mut self,
        on: &Work<M>,
        kind: Kind,
        payload: &[u8],
    ) -> Result<LogPoint, Full> {
        let ring_len = self.me.ring_len;
        let at = self.lead.end;
        let slot = slot_len(payload.len());
        let place = at.position.0 & (ring_len - 1);
        let padded =
            if place + slot > ring_len { at.position.0.next_multiple_of(ring_len) } else { at.position.0 };
        let end = Position(padded + slot);
        if end > self.lead.limit {
            let limit = self.find_limit(on, end, kind)?;
            if kind == Kind::PAYLOAD {
                self.lead.limit = limit;
            }
        }
        let commit = if self.lead.has_committed() { self.lead.committed.position } else { Position(0) };
        let mut at = at;
        if padded != at.position.0 {
            let next = entry::write(&on.areas.staging, ring_len, &at, self.lead.term, commit, Kind::PAD, b"");
            self.note_gap(at.position, entry::SLOT_ALIGN, next.position);
            at = next;
            if planted::is(Bug::PadIndexReused) {
                at.index.0 -= 1;
            }
        }
        self.lead.end = entry::write(&on.areas.staging, ring_len, &at, self.lead.term, commit, kind, payload);
        self.lead.low = self.lead.low.max(Position(self.lead.end.position.0.saturating_sub(ring_len)));
        Ok(self.lead.end)
    }

    /// How far entries may be staged, when `end` is within it. Lets followers go that are too far behind for it.
    fn find_limit<M: Memory>(&mut self, on: &Work<M>, end: Position, kind: Kind) -> Result<Position, Full> {
        let ring_len = self.me.ring_len;
        let half = ring_len / 2;
        // Only payload leaves the reserve alone.
        let reserved = kind == Kind::PAYLOAD && !planted::is(Bug::LeaderReserveTaken);
        let room = if reserved { half } else { ring_len };
        let mut applied: heapless::Vec<Position, MAX_NODES> = self
            .counting(on)
            .map(|node| if node == self.here { on.applied } else { self.peers[node].applied })
            .collect();
        let needed = match reached(on.configuration.voters(), &mut applied) {
            Some(needed) => needed.min(on.applied),
            // Whoever is not here now will be needed, and must find room then.
            None if kind == Kind::PAYLOAD => return Err(Full),
            None => on.applied,
        };
        let mut limit = Position(needed.0 + room);
        if let Some(reach) = self.lead.catchup.reach(kind, ring_len) {
            limit = limit.min(reach);
        }
        if end > limit {
            return Err(Full);
        }
        for slot in 1..=MAX_NODES {
            let node = NodeId(slot as u8);
            if node != self.here && self.peers[node].is_in_window() {
                let reach = Position(self.peers[node].sent.0.min(self.peers[node].matched.0) + half);
                if end <= reach {
                    limit = limit.min(reach);
                } else if kind == Kind::PAYLOAD
                    && (self.is_worth_waiting_for(on, node) || !self.let_go(on, node))
                {
                    return Err(Full);
                }
            }
            // A source byte is reused only when no request that reads it is outstanding.
            if let Some(oldest) = self.peers[node].flights.oldest_source()
                && !planted::is(Bug::SourceByteReused)
            {
                limit = limit.min(Position(oldest.0 + ring_len));
            }
        }
        if end > limit { Err(Full) } else { Ok(limit) }
    }

    /// A follower that runs and is only late may hold the others up for a moment: let go, it would be below the ring an instant
    /// later, and a group would lose its redundancy to a scheduler's whim. One that does not move, or has had its moment
    /// since it last caught up, is waited for by nobody.
    fn is_worth_waiting_for<M: Memory>(&mut self, on: &Work<M>, node: NodeId) -> bool {
        let silent_ns = 2 * self.timing.beat_ns;
        let moves = on.watches[node].moved_at().is_some_and(|at| on.now.since(at) < silent_ns);
        let since = *self.peers[node].holds_since.get_or_insert(on.now);
        moves && on.now.since(since) < self.timing.suspect_after_ns
    }

    /// The next WRITE to any follower; copies to the own log by the way, once the others are on theirs.
    #[inline]
    pub(crate) fn poll_write<M: Memory>(&mut self, on: &mut Work<M>) -> Option<Verb> {
        if self.here != self.me.node
            && let Some(verb) = self.poll_own_line(on)
        {
            return Some(verb);
        }
        if self.role == Role::Leader {
            if self.own_copy == OwnCopy::First {
                self.copy_own(on);
            }
            for node in self.lead.audience.nodes() {
                if self.peers[node].is_in_window()
                    && node != self.here
                    && let Some(verb) =
                        self.next_entries(on, node).or_else(|| self.next_confirm(on.now, node))
                {
                    return Some(verb);
                }
            }
            self.copy_own(on);
        }
        for node in self.lead.audience.nodes() {
            if !self.wants_beat(node) {
                continue;
            }
            if node == self.here {
                self.beat_own(on);
            } else if let Some(verb) = self.next_beat(on, node) {
                return Some(verb);
            }
        }
        None
    }

    #[inline]
    fn next_entries<M: Memory>(&mut self, on: &mut Work<M>, node: NodeId) -> Option<Verb> {
        let ring_len = self.me.ring_len;
        let gap = self.lead.gap;
        let peer = &mut self.peers[node];
        if let Some((end, resume)) = gap
            && peer.sent == end
        {
            peer.sent = resume;
            if peer.flights.is_empty() && peer.confirms.is_settled() {
                peer.matched = resume;
            }
        }
        let end = self.lead.end.position;
        if peer.sent >= end || !peer.flights.has_room_for_entries() || !peer.outbound.is_ready() {
            return None;
        }
        let start = peer.sent;
        let mut to = end.0.min(start.0 + u64::from(self.timing.max_write).min(longest_slot(ring_len)));
        // Up to the end of the lap, where the last pad of a lap ends it early.
        let lap_end = (start.0 | (ring_len - 1)) + 1;
        let stop = gap.map_or(
            lap_end,
            |(pad, resume)| if start < pad && resume.0 == lap_end { pad.0 } else { lap_end },
        );
        to = to.min(stop);
        // In the follower's ring what its application does not have yet stays; in the air are at most `inflight` bytes.
        // Behind the first entry some is left for the first entries of later leaders: a log filled to the brim whose last
        // beat was lost could never be left again.
        let brim = peer.applied.0.saturating_add(ring_len);
        let reserve = if planted::is(Bug::RingWithoutReserve) { 0 } else { self.me.max_entry };
        let room = (brim - reserve).max(self.lead.first_end.0.min(brim));
        let room = if planted::is(Bug::FollowerSlotReused) { u64::MAX } else { room };
        let window = peer.matched.0 + u64::from(self.timing.inflight).min(longest_slot(ring_len));
        to = to.min(room).min(window);
        if to <= start.0 {
            if room < end.0 {
                on.watches[node].want_every(on.now, self.timing.beat_ns / 16);
            }
            return None;
        }
        peer.number = (peer.number + 1) & NUMBER_MASK;
        let after = match gap {
            Some((pad, resume)) if pad.0 == to => resume,
            _ => Position(to),
        };
        let flight =
            Flight { number: peer.number, posted_at: on.now, what: What::Entries { start, end: after } };
        peer.flights.push(flight);
        peer.sent = after;
        if self.confirm == Confirm::Readback {
            peer.confirms.note_entries(Position(to));
        }
        let offset = entry::offset(ring_len, start);
        Some(Verb::Write {
            id: RequestId {
                peer: node,
                class: Class::Entries,
                epoch: peer.outbound.epoch(),
                number: peer.number,
            },
            plane: Plane::Log,
            source: Source::Staging,
            from: offset,
            to: offset,
            len: (to - start.0) as u32,
        })
    }

    /// A beat is due, or tells of a commit. With entries queued the next one comes early enough, unless the ring fills up
    /// meanwhile.
    fn wants_beat(&self, node: NodeId) -> bool {
        let peer = &self.peers[node];
        let reported = self.lead.reported;
        let news = reported > peer.beaten
            && (peer.sent == self.lead.end.position || reported.0 - peer.beaten.0 > self.me.ring_len / 32);
        peer.is_in_window() && (peer.beat_due || news && self.role == Role::Leader)
    }

    #[inline]
    fn copy_own<M: Memory>(&mut self, on: &mut Work<M>) {
        let end = self.lead.end.position;
        let own = &mut self.peers[self.here];
        if !own.is_in_window() || own.sent == end {
            return;
        }
        if on.acceptor.write_local(on.areas, own.sent, end) {
            own.sent = end;
            own.matched = end;
            self.commit(on);
        }
    }

    fn beat_own<M: Memory>(&mut self, on: &mut Work<M>) {
        self.lead.beat_counter += 1;
        let beat = self.beat_for(self.me.node, on.acceptor.walker().anchor().position);
        let own = &mut self.peers[self.me.node];
        own.beat_due = false;
        own.beat_version = own.beat_version.wrapping_add(1);
        own.beaten = self.lead.reported;
        if on.acceptor.beat_local(on.areas, &beat, own.beat_version) {
            own.beat_done = Some(on.now);
            own.binds = Some(on.now);
        }
    }

    fn next_beat<M: Memory>(&mut self, on: &mut Work<M>, node: NodeId) -> Option<Verb> {
        let peer = &self.peers[node];
        if peer.beat_flying || peer.flights.is_full() || !peer.outbound.is_ready() {
            return None;
        }
        self.lead.beat_counter += 1;
        let beat = self.beat_for(node, on.acceptor.walker().anchor().position);
        let reported = self.lead.reported;
        let peer = &mut self.peers[node];
        peer.beat_due = false;
        peer.beat_flying = true;
        peer.beaten = reported;
        peer.beat_version = peer.beat_version.wrapping_add(1);
        peer.number = (peer.number + 1) & NUMBER_MASK;
        peer.flights.push(Flight { number: peer.number, posted_at: on.now, what: What::Beat });
        if self.confirm == Confirm::Readback {
            peer.confirms.note_beat(on.now);
        }
        let from = staging::beat(node.slot());
        beat.write(&on.areas.staging, from, peer.beat_version);
        Some(Verb::Write {
            id: RequestId {
                peer: node,
                class: Class::Beat,
                epoch: peer.outbound.epoch(),
                number: peer.number,
            },
            plane: Plane::Log,
            source: Source::Staging,
            from,
            to: log::BEAT,
            len: size_of::<crate::layout::BeatLine>() as u32,
        })
    }
}
