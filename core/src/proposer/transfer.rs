//! A leader hands over to a follower of its choice (protocol.md 9): it gives its lease up, says so to all in *yielding* beats,
//! and tells the follower to stand. If that one is not elected within a bound, it leads on.
//!
//! While it hands over it takes no payload: the follower must have everything, or others would refuse it for its log.

#[cfg(feature = "model")]
use crate::canonical::Canonical;
use crate::event::Event;
use crate::mark::{self, mark};
use crate::mem::Memory;
use crate::membership::Role as Vote;
use crate::proposer::candidate::Election;
use crate::proposer::{Proposer, Role, Work};
use crate::types::{Boot, Instant, NodeId, Position, Promise, Term};

/// Why the lead is not handed over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum TransferError {
    /// This node does not lead.
    NotLeader {
        /// Who this node follows; nobody when it does not know.
        leader: NodeId,
    },
    /// This node has not committed anything as leader yet, or hands over already.
    Busy,
    /// That node is this one, or no voter of the group.
    NotVoter,
    /// That node is not reached, lags, or was not seen to run lately: it would not be elected.
    NotReady,
}

/// A lead that is being handed over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Transfer {
    pub(crate) to: NodeId,
    since: Instant,
    /// It was told to stand.
    told: bool,
}

impl Proposer {
    /// Begins to hand the lead over.
    pub(crate) fn transfer<M: Memory>(&mut self, on: &mut Work<M>, to: NodeId) -> Result<(), TransferError> {
        if self.lead.transfer.is_some() || !self.lead.has_committed() {
            return Err(TransferError::Busy);
        }
        let member = on.configuration.member(to).filter(|member| member.role == Vote::Voter);
        let Some(member) = member.filter(|_| to != self.me.node) else { return Err(TransferError::NotVoter) };
        let lag = self.lead.end.position.0 - self.peers[to].matched.0.min(self.lead.end.position.0);
        if !self.is_live_in_window(on, member.node) || lag > u64::from(self.timing.inflight) {
            return Err(TransferError::NotReady);
        }
        mark(mark::Leader::HandsOver);
        self.lead.transfer = Some(Transfer { to, since: on.now, told: false });
        self.lead.limit = Position(0);
        for peer in self.peers.iter_mut() {
            peer.beat_due = peer.is_in_window();
        }
        Ok(())
    }

    /// It is reached, and was seen to run lately, whatever a commit asks of it.
    fn is_live_in_window<M: Memory>(&self, on: &Work<M>, node: NodeId) -> bool {
        let moved_at = on.watches[node].moved_at();
        self.peers[node].is_in_window()
            && moved_at.is_some_and(|at| on.now.since(at) < self.timing.alive_within_ns)
    }

    pub(crate) fn transfer_tick<M: Memory>(&mut self, on: &mut Work<M>) {
        let Some(transfer) = self.lead.transfer else { return };
        let late = on.now.since(transfer.since) >= self.timing.campaign_timeout_ns;
        // Once it stands, its own acceptor fences this leader first: it is out of the window then, and that is as it should be.
        if late || !transfer.told && !self.is_live_in_window(on, transfer.to) {
            return self.lead_on(on, transfer.to);
        }
        let peer = &self.peers[transfer.to];
        // It has everything, and its acceptor can see that no lease binds it any more.
        let ready = peer.matched == self.lead.end.position
            && peer.beat_done.is_some_and(|posted| posted > transfer.since);
        if ready && !transfer.told {
            mark(mark::Leader::TellsToStand);
            self.lead.transfer = Some(Transfer { told: true, ..transfer });
            let (sequence, term) = (self.next_sequence(), self.lead.term);
            self.peers[transfer.to].ask_campaign(on.now, sequence, term);
        }
    }

    /// Nobody was elected: no more *yielding* beats. Only beats posted from now on bind anybody.
    fn lead_on<M: Memory>(&mut self, on: &mut Work<M>, to: NodeId) {
        mark(mark::Leader::LeadsOn);
        self.lead.transfer = None;
        self.lead.binding_after = on.now;
        if self.peers[to].is_asking_campaign() {
            self.peers[to].ask_nothing();
        }
        for peer in self.peers.iter_mut() {
            peer.beat_due = peer.is_in_window();
        }
        on.events.push(Event::TransferFailed { to });
    }

    /// A promise above the own term is of whom the lead is handed over to.
    pub(crate) fn is_handed_to(&self, node: NodeId) -> bool {
        self.lead.transfer.is_some_and(|transfer| transfer.to == node)
    }

    /// The leader of `term` tells this node to stand, without detector and pre-vote.
    pub(crate) fn handle_campaign<M: Memory>(
        &mut self,
        on: &mut Work<M>,
        from: NodeId,
        boot: Boot,
        sequence: u64,
        term: Term,
    ) {
        let waits =
            matches!(self.election, Election::Idle | Election::Looking { .. } | Election::Waiting { .. });
        let follows = self.role == Role::Follower && on.acceptor.promise() == Promise::new(term, from);
        // The line stays until the leader writes another: it is obeyed once.
        if !follows
            || !waits
            || !self.stands
            || on.is_loading
            || !on.configuration.is_voter(self.me.node)
            || self.obeyed == (boot, sequence)
        {
            return;
        }
        self.obeyed = (boot, sequence);
        self.start_campaign(on, mark::Candidate::Told);
    }
}

#[cfg(feature = "model")]
impl Transfer {
    pub(crate) fn canonical(&self, out: &mut impl Canonical) {
        let Transfer { to, since, told } = self;
        out.plain((to, told));
        out.moment(*since);
    }
}
