//! Leading: taking over, committing, beating, giving up (protocol.md 8).

#[cfg(feature = "model")]
use crate::canonical::{Canonical, Counter, Space};
use crate::entry::{Kind, peek};
use crate::event::{Event, GiveUp};
use crate::layout::{BeatLine, LeaderLine, Line, beat_flags, control};
use crate::mark::{self, mark};
use crate::mem::{Memory, full};
use crate::membership::{self, Member};
use crate::planted::{self, Bug};
use crate::proposer::catchup::Catchup;
use crate::proposer::change::Audience;
use crate::proposer::confirm::Confirm;
use crate::proposer::flights::{Flight, What};
use crate::proposer::transfer::Transfer;
use crate::proposer::{FollowerState, Proposer, Role, Work};
use crate::quorum::{majority, reached};
use crate::table::Table;
use crate::types::{Instant, LogPoint, MAX_NODES, NodeId, Position, Promise, Term};
use crate::watch::Watch;

/// Which voters count for a commit.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Quorum {
    /// Those whose processor was seen to run within `alive_within`, however well their NIC acknowledges.
    #[default]
    Live,
    /// All whose memory has it: for logs that outlive their hosts.
    Stored,
}

/// When a leader copies new entries to its own log area.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum OwnCopy {
    /// While the WRITEs to the others are on the wire.
    #[default]
    Last,
    /// Before the first WRITE leaves: where posting a WRITE carries it out, one follower then makes a majority of three.
    First,
}

/// The state of one leadership.
#[derive(Clone, Default, Debug)]
pub(crate) struct Leadership {
    pub(crate) term: Term,
    pub(crate) elected_at: Instant,
    /// No request of an earlier leadership reads the staging ring any more.
    pub(crate) drained: bool,
    /// The first entry is staged.
    pub(crate) started: bool,
    /// The own log's end at the election: from here on entries are of the own term.
    pub(crate) own_start: LogPoint,
    /// Where the next entry is staged.
    pub(crate) end: LogPoint,
    /// Lowest position whose bytes are in the staging ring.
    pub(crate) low: Position,
    /// The last pad: its end, and where the stream goes on. At most one lies within what is served.
    pub(crate) gap: Option<(Position, Position)>,
    /// End of the first entry: up to here a follower's whole ring may be filled, behind it some is left for the next leader's.
    pub(crate) first_end: Position,
    /// The committed entry of the own term that was counted last (`own_start` before the first).
    pub(crate) committed: LogPoint,
    pub(crate) reported: Position,
    /// Payload may be staged up to here without looking at anything.
    pub(crate) limit: Position,
    pub(crate) beat_counter: u64,
    pub(crate) beat_at: Instant,
    pub(crate) line_version: u32,
    /// Whom this leader writes to: the members, itself, and who is being told that it is none any more.
    pub(crate) audience: Audience,
    /// End of the last configuration entry, and of the first entry: a change is under way until it is committed.
    pub(crate) change_end: Position,
    /// Removed, and not told yet; since when.
    pub(crate) departing: Option<(NodeId, Instant)>,
    /// This leader's own removal is committed, and being told since.
    pub(crate) told_since: Option<Instant>,
    /// And it was tried to hand over.
    pub(crate) handed_over: bool,
    /// What is done for followers that need a snapshot.
    pub(crate) catchup: Catchup,
    /// The lead is being handed over.
    pub(crate) transfer: Option<Transfer>,
    /// Beats posted up to then bind nobody any more: some behind them were *yielding*.
    pub(crate) binding_after: Instant,
    /// Yielding: until when, and whether a campaign follows.
    pub(crate) until: Instant,
    pub(crate) campaign: bool,
}

impl Leadership {
    /// The no-op of this leadership is committed.
    pub(crate) fn has_committed(&self) -> bool {
        self.committed.position > self.own_start.position
    }
}

impl Proposer {
    pub(crate) fn leadership(&self) -> Option<&Leadership> {
        (self.role == Role::Leader).then_some(&self.lead)
    }

    pub(crate) fn become_leader<M: Memory>(&mut self, on: &mut Work<M>, term: Term, last: LogPoint) {
        self.role = Role::Leader;
        self.lead = Leadership {
            term,
            elected_at: on.now,
            drained: planted::is(Bug::StageBeforeDrained),
            own_start: last,
            end: last,
            low: last.position,
            committed: last,
            reported: Position(0),
            beat_at: on.now,
            line_version: self.lead.line_version,
            beat_counter: self.lead.beat_counter,
            ..Leadership::default()
        };
        self.lead.audience = Audience::of(on.configuration, self.me.node, None);
        self.report(on.events, Event::Elected { term });
        for (node, peer) in self.peers.entries_mut() {
            let member = on.configuration.names(node, on.links[node].peer().incarnation);
            peer.beat_done = None;
            peer.binds = None;
            peer.beat_due = true;
            peer.holds_since = None;
            let state = if node == self.here {
                peer.sent = last.position;
                peer.matched = last.position;
                FollowerState::Window
            } else if member && on.links[node].is_up() && peer.formed {
                FollowerState::Asking
            } else {
                FollowerState::Down
            };
            peer.turn(state);
            // Requests of an earlier leadership still read the staging ring: it is reused when they are drained.
            if node != self.here && peer.flights.oldest_source().is_some() {
                peer.outbound.close();
                peer.turn(FollowerState::Broken);
                peer.broken_at = on.now;
            }
        }
        self.lead_tick(on);
    }

    pub(crate) fn lead_tick<M: Memory>(&mut self, on: &mut Work<M>) {
        self.lead.drained =
            self.lead.drained || self.peers.iter().all(|peer| peer.flights.oldest_source().is_none());
        self.follow_followers(on);
        // Not before a majority is in the window: a leadership that gets none must leave nothing in its log, or one after the
        // other would fill the ring with first entries that nobody can ever commit.
        let begins = self.lead.drained && !self.lead.started;
        if begins
            && self.counting(on).count() >= majority(on.configuration.voters())
            && let Ok(end) = self.stage(on, Kind::NO_OP, b"")
        {
            mark(mark::Leader::Started);
            self.lead.first_end = end.position;
            self.lead.change_end = end.position;
            self.lead.started = true;
        }
        self.change_tick(on);
        if self.role != Role::Leader {
            return;
        }
        if on.now >= self.lead.beat_at {
            self.lead.beat_at = on.now.after(self.timing.beat_ns);
            for (node, peer) in self.peers.entries_mut() {
                peer.beat_due = peer.is_in_window();
                if peer.state != FollowerState::Down && node != self.here {
                    on.watches[node].want();
                }
            }
            self.check_quorum(on);
        }
        if self.role != Role::Leader {
            return;
        }
        if planted::is(Bug::LineAfterAnswer) && self.lead.reported == self.lead.committed.position {
            self.write_leader_line(on, self.lead.term);
        }
        self.transfer_tick(on);
        self.catch_up_tick(on);
        self.commit(on);
    }

    /// Whether a voter's copy counts, now.
    #[inline]
    pub(crate) fn counts(&self, now: Instant, watches: &Table<Watch>, member: &Member) -> bool {
        let node = member.node;
        self.peers[node].is_in_window()
            && (member.role == membership::Role::Voter || planted::is(Bug::LearnerCounted))
            && (node == self.here
                || self.quorum == Quorum::Stored
                || planted::is(Bug::ZombieCounted)
                || watches[node]
                    .moved_at()
                    .is_some_and(|moved| now.since(moved) < self.timing.alive_within_ns))
    }

    /// The voters that count now.
    #[inline]
    pub(crate) fn counting<M>(&self, on: &Work<M>) -> impl Iterator<Item = NodeId> {
        on.configuration
            .members()
            .filter(|member| self.counts(on.now, on.watches, member))
            .map(|member| member.node)
    }

    /// On shared memory beats to the dead complete: only those that count for a commit count here.
    fn check_quorum<M: Memory>(&mut self, on: &mut Work<M>) {
        let mut beats: heapless::Vec<Instant, MAX_NODES> =
            self.counting(on).filter_map(|node| self.peers[node].beat_done).collect();
        if planted::is(Bug::QuorumOfTheDead) {
            beats = self
                .peers
                .iter()
                .filter(|peer| peer.is_in_window())
                .filter_map(|peer| peer.beat_done)
                .collect();
        }
        let newest = reached(on.configuration.voters(), &mut beats);
        if newest.is_none() {
            // No majority counts: no more payload, though there was room for it a moment ago.
            self.lead.limit = Position(0);
        }
        let newest = newest.unwrap_or(Instant(0));
        // Until its first commit a leader's ways to its followers may still be coming up.
        let grace = if self.lead.has_committed() { 0 } else { self.timing.campaign_timeout_ns };
        let since = newest.max(self.lead.elected_at.after(grace));
        let lost = on.now.since(since) >= self.timing.quorum_lost_ns;
        // Beats alone do not make a leader: one whose first entry does not get through stands in the way of others.
        let stuck = !self.lead.has_committed()
            && on.now.since(self.lead.elected_at) >= self.timing.quorum_lost_ns.saturating_mul(2);
        if lost || stuck {
            mark(if lost { mark::Leader::GaveUpQuorumLost } else { mark::Leader::GaveUpStuck });
            self.give_up(on, GiveUp::QuorumLost);
        }
    }

    /// The largest end of an entry of the own term that a majority of voters has.
    pub(crate) fn commit<M: Memory>(&mut self, on: &mut Work<M>) {
        // Who is not ahead of the commit cannot move it.
        let mut ahead = [Position(0); MAX_NODES];
        let mut count = 0;
        for member in on.configuration.members() {
            let matched = if planted::is(Bug::CommitBeyondMatched) {
                self.peers[member.node].sent
            } else {
                self.peers[member.node].matched
            };
            let ahead_of_commit = matched > self.lead.committed.position
                || planted::is(Bug::CommitOlderTerms) && matched == self.lead.own_start.position;
            if ahead_of_commit && self.counts(on.now, on.watches, member) {
                ahead[count] = matched;
                count += 1;
            }
        }
        if let Some((node, _)) = self.lead.departing
            && planted::is(Bug::RemovedCounted)
        {
            ahead[count] = self.peers[node].matched;
            count += 1;
        }
        let Some(reached) = reached(on.configuration.voters(), &mut ahead[..count]) else { return };
        if planted::is(Bug::CommitOlderTerms) && !self.lead.has_committed() {
            self.lead.reported = self.lead.own_start.position;
        }
        let before = self.lead.committed.position;
        if reached >= self.lead.end.position {
            // All that there is: no need to look for where entries end.
            self.lead.committed = self.lead.end;
        }
        // The staging ring is this node's own memory, and its entries from here on are of the own term.
        while self.lead.committed.position < reached {
            match peek(&on.areas.staging, self.me.ring_len, &self.lead.committed) {
                Ok(valid) if valid.next.position <= reached => self.lead.committed = valid.next,
                _ => break,
            }
        }
        if self.lead.committed.position > before {
            if before == self.lead.own_start.position {
                mark(mark::Leader::Committed);
            }
            // The leader line first, then the application, then the followers: their beats are made when asked for.
            if !planted::is(Bug::LineAfterAnswer) {
                self.write_leader_line(on, self.lead.term);
            }
        }
    }

    fn write_leader_line<M: Memory>(&mut self, on: &Work<M>, term: Term) {
        let line = LeaderLine {
            term: term.0,
            commit: self.lead.committed.position.0,
            commit_index: self.lead.committed.index.0,
            ..LeaderLine::default()
        };
        if self.here != self.me.node {
            self.apart.says = (term, self.lead.committed);
            return self.apart.line.set(line);
        }
        self.lead.line_version = self.lead.line_version.wrapping_add(1);
        line.write(&on.areas.control, control::LEADER, self.lead.line_version);
        full();
    }

    /// The commit that was not reported yet.
    pub(crate) fn poll_commit(&mut self) -> Option<Event> {
        if self.role != Role::Leader || !self.lead.has_committed() {
            return None;
        }
        let shown = self.shown_commit();
        if self.lead.reported >= shown.position || shown.position <= self.lead.own_start.position {
            return None;
        }
        self.lead.reported = shown.position;
        Some(Event::Committed { term: self.lead.term, index: shown.index, position: shown.position })
    }

    /// A WRITE of this leadership to a follower in its window completed.
    #[inline]
    pub(crate) fn handle_landed<M: Memory>(
        &mut self,
        on: &mut Work<M>,
        node: NodeId,
        flight: Flight,
    ) -> bool {
        if self.confirm == Confirm::Readback && !planted::is(Bug::CompletionCounted) {
            return true;
        }
        match flight.what {
            What::Entries { end, .. } => self.handle_matched(on, node, end),
            What::Beat => self.handle_beat_placed(on.now, node, flight.posted_at),
            What::Confirm => {}
        }
        true
    }

    /// A follower has everything before `end`.
    #[inline]
    pub(crate) fn handle_matched<M: Memory>(&mut self, on: &mut Work<M>, node: NodeId, end: Position) {
        self.peers[node].matched = end;
        if self.role == Role::Leader && end > self.lead.committed.position {
            self.commit(on);
        }
    }

    /// A beat that was posted then is in a follower's memory.
    pub(crate) fn handle_beat_placed(&mut self, now: Instant, node: NodeId, posted_at: Instant) {
        let peer = &mut self.peers[node];
        peer.beat_done = peer.beat_done.max(Some(posted_at));
        let late = planted::is(Bug::LeaseFromCompletion);
        peer.binds = peer.binds.max(Some(if late { now } else { posted_at }));
    }

    /// The beat for one follower: never a commit above what it has.
    pub(crate) fn beat_for(&self, node: NodeId, anchor: Position) -> BeatLine {
        let matched = self.peers[node].matched;
        // The application has heard of it before. And before the own first entry is committed, what the own acceptor knows is:
        // a follower that never heard of it could otherwise be too full for that entry. But what a successor has committed
        // here says nothing of what the followers of a leader that gave up hold.
        let yields = self.role == Role::Yielding && !planted::is(Bug::YieldingBeatTellsAnchor);
        let commit = if yields { self.lead.reported } else { self.lead.reported.max(anchor) };
        // Handing over, a leader leads on for the time being, but binds nobody.
        let gives_up = self.role == Role::Yielding || self.lead.transfer.is_some();
        BeatLine {
            leader: Promise::new(self.lead.term, self.me.node).0,
            counter: self.lead.beat_counter,
            commit: if planted::is(Bug::BeatCommitAboveMatched) { commit.0 } else { commit.min(matched).0 },
            commit_index: if self.lead.has_committed() { self.lead.committed.index.0 } else { 0 },
            matched: matched.0,
            flags: if gives_up { beat_flags::YIELDING } else { 0 },
            ..BeatLine::default()
        }
    }

    // Giving up.

    /// Unfinished proposals end as unknown; followers are told with yielding beats, and then there are no more.
    pub(crate) fn give_up<M: Memory>(&mut self, on: &mut Work<M>, reason: GiveUp) {
        // What is committed was committed: the application hears of it before it hears of the end.
        if let Some(event) = self.poll_commit() {
            on.events.push(event);
        }
        match reason {
            GiveUp::HigherPromise => mark(mark::Leader::GaveUpHigherPromise),
            GiveUp::OwnAcceptor => mark(mark::Leader::GaveUpOwnAcceptor),
            GiveUp::Removed => mark(mark::Leader::GaveUpRemoved),
            GiveUp::QuorumLost | GiveUp::Asked => {}
        }
        self.write_leader_line(on, Term(0));
        let term = self.lead.term;
        self.report(on.events, Event::GaveUp { term, reason });
        self.role = Role::Yielding;
        self.lead.transfer = None;
        self.fail_leaders_reads();
        self.lead.campaign = reason == GiveUp::HigherPromise;
        self.lead.until = on.now.after(self.timing.beat_ns);
        for peer in self.peers.iter_mut() {
            peer.beat_due = peer.is_in_window();
            peer.ask_nothing();
        }
    }

    pub(crate) fn yield_tick<M: Memory>(&mut self, on: &mut Work<M>) {
        let told = self.peers.iter().all(|peer| !peer.is_in_window() || !peer.beat_due && !peer.beat_flying);
        if !told && on.now < self.lead.until {
            return;
        }
        // Judged now, by a clock that was read after the higher promise: a leader that was paused has a majority in window
        // only by its memory of it, and leaves its successor alone.
        let heard = |node: &NodeId| {
            self.peers[*node].beat_done.is_some_and(|at| on.now.since(at) < self.timing.suspect_after_ns)
        };
        let followed = self.counting(on).filter(heard).count() >= majority(on.configuration.voters());
        let own = on.acceptor.promise() == Promise::new(self.lead.term, self.me.node);
        mark(mark::Leader::Follows);
        self.role = Role::Follower;
        for peer in self.peers.iter_mut() {
            peer.turn(FollowerState::Down);
            peer.beat_due = false;
        }
        if self.lead.campaign && followed && own {
            self.start_campaign(on, mark::Candidate::StandsAgain);
        }
    }
}

#[cfg(feature = "model")]
impl Leadership {
    pub(crate) fn canonical(&self, me: NodeId, out: &mut impl Canonical) {
        let Leadership {
            term,
            elected_at,
            drained,
            started,
            own_start,
            end,
            low,
            gap,
            first_end,
            committed,
            reported,
            limit,
            beat_counter,
            beat_at,
            line_version: _,
            audience,
            change_end,
            departing,
            told_since,
            handed_over,
            catchup,
            transfer,
            binding_after,
            until,
            campaign,
        } = self;
        out.plain((handed_over, audience, change_end, departing.map(|(node, _)| node)));
        out.moment_if_any(departing.map(|(_, since)| since));
        out.moment_if_any(*told_since);
        out.plain((term, drained, started, own_start, end, low, gap, first_end));
        out.plain((committed, reported, limit, campaign, transfer.is_some()));
        if let Some(transfer) = transfer {
            transfer.canonical(out);
        }
        catchup.canonical(out);
        out.mark(*binding_after);
        out.moment(*elected_at);
        out.count(Space::own(Counter::Beat, me), *beat_counter);
        out.moment(*beat_at);
        out.moment(*until);
    }
}
