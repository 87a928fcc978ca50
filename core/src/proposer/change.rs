//! Changing the configuration as its leader (protocol.md 10): one change at a time, in force when it is in the log.
//!
//! Who is taken out is written to until it has been told, and counts for nothing from the moment of the change. A leader that
//! takes itself out leads until that is committed and told to all, and then gives up.

use crate::event::GiveUp;
use crate::mark::{self, mark};
use crate::mem::Memory;
use crate::membership::{Change, ChangeError, Configuration, Member};
use crate::planted::{self, Bug};
use crate::proposer::{FollowerState, Proposer, Work};
use crate::table::Table;
use crate::types::{Instant, LogPoint, MAX_NODES, NodeId, Position};
use crate::watch::Watch;

/// Whom a leader writes to: a set of nodes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub(crate) struct Audience(u16);

impl Audience {
    /// One more.
    pub(crate) fn add(&mut self, node: NodeId) {
        self.0 |= 1 << node.0;
    }

    pub(crate) fn has(self, node: NodeId) -> bool {
        self.0 >> node.0 & 1 != 0
    }

    /// All members, the leader itself, and one more.
    pub(crate) fn of(configuration: &Configuration, me: NodeId, more: Option<NodeId>) -> Audience {
        let nodes = configuration.members().map(|member| member.node).chain([me]).chain(more);
        Audience(nodes.fold(0, |all, node| all | 1 << node.0))
    }

    /// Its nodes, by id.
    #[inline]
    pub(crate) fn nodes(self) -> impl Iterator<Item = NodeId> {
        (1..=MAX_NODES as u8).filter(move |node| self.0 >> node & 1 != 0).map(NodeId)
    }
}

impl Proposer {
    /// Whether a change may be begun now.
    pub(crate) fn may_change(&self) -> Result<(), ChangeError> {
        // Before its first entry is committed a leader does not know which configurations before it are.
        if !self.lead.has_committed() && !planted::is(Bug::ChangeBeforeNoOp) {
            return Err(ChangeError::TooEarly);
        }
        if self.lead.committed.position < self.lead.change_end && !planted::is(Bug::TwoChangesAtATime) {
            let early = planted::is(Bug::ChangeBeforeNoOp) && self.lead.change_end == self.lead.first_end;
            return if early { Ok(()) } else { Err(ChangeError::Busy) };
        }
        Ok(())
    }

    /// Whether a learner has all but what may be on its way to it.
    pub(crate) fn has_caught_up<M: Memory>(&self, on: &Work<M>, node: NodeId) -> Result<(), ChangeError> {
        let peer = &self.peers[node];
        let behind = match peer.is_in_window() {
            true => self.lead.end.position.0.saturating_sub(peer.matched.0),
            false => u64::MAX,
        };
        let runs = on.watches[node]
            .moved_at()
            .is_some_and(|moved| on.now.since(moved) < self.timing.alive_within_ns);
        match behind <= u64::from(self.timing.inflight) && runs {
            true => Ok(()),
            false => Err(ChangeError::NotCaughtUp { behind }),
        }
    }

    /// Whether a member of a configuration that is not in force yet would count for a commit now.
    pub(crate) fn would_count(&self, now: Instant, watches: &Table<Watch>, member: &Member) -> bool {
        let same = member.node == self.me.node || self.peers[member.node].life == member.incarnation;
        same && self.counts(now, watches, member)
    }

    /// Whether it would, and has what the application has.
    pub(crate) fn would_count_with_state(
        &self,
        now: Instant,
        watches: &Table<Watch>,
        member: &Member,
    ) -> bool {
        let has_state = member.node == self.me.node || watches[member.node].has_state();
        has_state && self.would_count(now, watches, member)
    }

    /// The entry of a change is staged, and `on` has the configuration that it made.
    pub(crate) fn handle_change<M: Memory>(&mut self, on: &mut Work<M>, change: &Change, end: LogPoint) {
        let node = change.node();
        self.lead.change_end = end.position;
        // Room was reckoned with other followers.
        self.lead.limit = Position(0);
        match change {
            Change::Add { .. } => mark(mark::Member::Added),
            Change::Promote { .. } => mark(mark::Member::Promoted),
            Change::Remove { .. } if node == self.me.node => mark(mark::Member::RemovedItself),
            Change::Remove { .. } => {
                mark(mark::Member::Removed);
                if self.peers[node].is_in_window() {
                    self.lead.departing = Some((node, on.now));
                } else {
                    self.leave(node);
                }
            }
            Change::Readmit { .. } => {
                mark(mark::Member::Readmitted);
                self.leave(node);
            }
        }
        let departing = self.lead.departing.map(|(node, _)| node);
        self.lead.audience = Audience::of(on.configuration, self.me.node, departing);
    }

    /// Nothing more goes to that node, as what it was.
    fn leave(&mut self, node: NodeId) {
        let peer = &mut self.peers[node];
        peer.outbound.close();
        peer.ask_nothing();
        peer.turn(FollowerState::Down);
    }

    /// Follows a change that is under way to its end.
    pub(crate) fn change_tick<M: Memory>(&mut self, on: &mut Work<M>) {
        if let Some((node, since)) = self.lead.departing {
            let told = self.is_told(node);
            let named = on.configuration.member(node).is_some();
            if told || named || !self.peers[node].is_in_window() || self.is_late(on, since) {
                mark(if told { mark::Member::ToldRemoved } else { mark::Member::LeftUntold });
                self.lead.departing = None;
                if !named {
                    self.leave(node);
                }
                self.lead.audience = Audience::of(on.configuration, self.me.node, None);
            }
        }
        if !on.configuration.names(self.me.node, self.me.incarnation) {
            self.leave_office(on);
        }
    }

    /// A leader that is none of its own configuration: until that is committed and told it leads on, and counts for nothing.
    fn leave_office<M: Memory>(&mut self, on: &mut Work<M>) {
        if !self.lead.started || self.lead.committed.position < self.lead.change_end {
            return;
        }
        let since = *self.lead.told_since.get_or_insert(on.now);
        let all =
            self.lead.audience.nodes().all(|node| !self.peers[node].is_in_window() || self.is_told(node));
        if !all && !self.is_late(on, since) || self.lead.transfer.is_some() {
            return;
        }
        // Once to the best follower, which ends this leadership by its election. If that fails the followers find yielding
        // beats, which bind nobody, and elect one of them.
        if !self.lead.handed_over {
            self.lead.handed_over = true;
            let best = on
                .configuration
                .members()
                .filter(|member| self.counts(on.now, on.watches, member))
                .max_by_key(|member| self.peers[member.node].matched)
                .map(|member| member.node);
            if best.is_some_and(|best| self.transfer(on, best).is_ok()) {
                mark(mark::Member::HandsOver);
                return;
            }
        }
        mark(mark::Member::GivesUpRemoved);
        self.give_up(on, GiveUp::Removed);
    }

    /// Whether that follower has the last change, and a beat that calls it committed.
    fn is_told(&self, node: NodeId) -> bool {
        let peer = &self.peers[node];
        let end = self.lead.change_end;
        let committed = self.lead.committed.position >= end && self.lead.reported >= end;
        committed && peer.matched >= end && peer.beaten >= end && !peer.beat_flying && !peer.beat_due
    }

    fn is_late<M: Memory>(&self, on: &Work<M>, since: Instant) -> bool {
        on.now.since(since) >= self.timing.quorum_lost_ns
    }
}
