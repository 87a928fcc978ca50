//! From a silent leader to a majority of votes (protocol.md 7): look, rank, wait, ask the own acceptor, ask all others.
//!
//! Looking and ranking are READs only: a pre-vote wakes nobody and changes nothing anywhere. Until there is a majority nothing
//! is written into any log area.

#[cfg(feature = "model")]
use crate::canonical::Canonical;
use crate::event::Event;
use crate::layout::{progress_flags, verdict};
use crate::mark::{self, mark};
use crate::mem::Memory;
use crate::planted::{self, Bug};
use crate::proposer::{Proposer, Role, Work};
use crate::quorum::majority;
use crate::request::{Answer, Ask, Request};
use crate::types::{Instant, LogPoint, NodeId, Promise, Term};

/// How far an election is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Election {
    Idle,
    /// Reading the others' progress lines since `since`.
    Looking {
        since: Instant,
    },
    /// A majority is quiet: better logs first.
    Waiting {
        until: Instant,
    },
    /// The own acceptor was asked.
    OwnVote {
        term: Term,
        deadline: Instant,
    },
    /// All others were asked. `last` is the own log's last entry.
    Votes {
        term: Term,
        deadline: Instant,
        last: LogPoint,
    },
}

impl Proposer {
    /// Moves an election on.
    pub(crate) fn campaign_tick<M: Memory>(&mut self, on: &mut Work<M>) {
        let waits = matches!(self.election, Election::Looking { .. } | Election::Waiting { .. });
        if on.is_loading && waits {
            self.turn(Election::Idle, mark::Candidate::Loads);
        }
        match self.election {
            Election::Idle => {
                if self.role == Role::Follower
                    && !on.is_loading
                    && self.may_stand(on)
                    && on.acceptor.is_quiet()
                    && on.now >= self.rest_until
                {
                    self.turn(Election::Looking { since: on.now }, mark::Candidate::Looks);
                    self.look(on);
                }
            }
            Election::Looking { since } => {
                if !on.acceptor.is_quiet() {
                    return self.turn(Election::Idle, mark::Candidate::HeardWhileLooking);
                }
                self.look(on);
                if let Some(rank) = self.rank_among_quiet(on, since)
                    && self.respects_higher_promise(on)
                {
                    let wait = rank * self.timing.stagger_ns + self.rng.below(self.timing.jitter_ns + 1);
                    self.turn(Election::Waiting { until: on.now.after(wait) }, mark::Candidate::Ranked);
                }
            }
            Election::Waiting { until } => {
                if !on.acceptor.is_quiet() {
                    self.turn(Election::Idle, mark::Candidate::HeardWhileWaiting);
                } else if on.now >= until {
                    if self.respects_higher_promise(on) {
                        self.start_campaign(on, mark::Candidate::Stands);
                    } else {
                        self.turn(Election::Looking { since: on.now }, mark::Candidate::RespectsAgain);
                    }
                }
            }
            Election::OwnVote { term, deadline } => self.own_vote(on, term, deadline),
            Election::Votes { term, deadline, last } => self.count_votes(on, term, deadline, last),
        }
    }

    /// All changes of an election but its beginning and its end go through here.
    fn turn(&mut self, to: Election, why: mark::Candidate) {
        mark(why);
        self.election = to;
    }

    /// Asks for fresh readings of all other voters.
    fn look<M: Memory>(&mut self, on: &mut Work<M>) {
        for member in on.configuration.members() {
            if member.node != self.here {
                on.watches[member.node].want_every(on.now, self.timing.probe_deadline_ns / 4);
            }
        }
    }

    /// This node's rank, when a majority, itself included, is quiet. Only nodes that were seen to run since `since` count:
    /// neither dead nor stopped ones, nor the suspected leader.
    fn rank_among_quiet<M: Memory>(&mut self, on: &Work<M>, since: Instant) -> Option<u64> {
        let suspect = on.acceptor.promise().node();
        let mine = (on.acceptor.progress().hint_term, on.acceptor.progress().hint_index);
        let mut quiet = usize::from(self.votes(on));
        let mut better = 0;
        let mut unseen = 0;
        for member in on.configuration.members() {
            let node = member.node;
            if node == self.me.node || !self.is_voter(on, node) {
                continue;
            }
            if !on.links[node].is_up() {
                continue;
            }
            let watch = &on.watches[node];
            let Some(line) = watch.line() else {
                unseen += 1;
                continue;
            };
            // The suspect, as long as it takes itself for the leader: one that gave up is a node like the others.
            if node == suspect && line.flags & progress_flags::LEADER != 0 {
                continue;
            }
            if watch.read_at() < since || watch.moved_at().is_none_or(|moved| moved < since) {
                unseen += 1;
                continue;
            }
            if line.flags & progress_flags::QUIET != 0 {
                quiet += 1;
                let theirs = (line.hint_term, line.hint_index);
                better += u64::from(theirs > mine || theirs == mine && node < self.me.node);
            }
        }
        // Somebody who is connected may have the better log: one more look for its sake.
        let patient = unseen > 0 && on.now.since(since) < self.timing.probe_deadline_ns / 2;
        if quiet < majority(on.configuration.voters()) || patient {
            return None;
        }
        Some(if self.was_older { on.configuration.voters() as u64 - 1 } else { better })
    }

    /// A promise above one's own may have a leader who has not been heard of yet: one `suspect_after` for it, since it was
    /// first seen.
    fn respects_higher_promise<M: Memory>(&mut self, on: &Work<M>) -> bool {
        let highest = self.max_promise;
        if highest.term() <= on.acceptor.promise().term() || highest.node() == self.me.node {
            return true;
        }
        let waited = on.now >= self.respected_until;
        if !waited {
            mark(mark::Candidate::Respects);
        }
        waited
    }

    /// Asks the own acceptor for its vote in a term never used before.
    pub(crate) fn start_campaign<M: Memory>(&mut self, on: &mut Work<M>, why: mark::Candidate) {
        self.see_promise(on.acceptor.promise());
        if self.max_promise.term() >= Term::MAX {
            // 2^56 terms: only a damaged line can have brought us here.
            return self.turn(Election::Idle, mark::Candidate::Exhausted);
        }
        let term = self.max_promise.term().next();
        self.see_promise(Promise::new(term, self.me.node));
        self.role = Role::Candidate;
        self.was_older = false;
        // What a former candidacy was judged by says nothing of this one.
        on.acceptor.forget_own_vote();
        on.events.push(Event::Campaign { term });
        let deadline = on.now.after(self.timing.campaign_timeout_ns);
        self.turn(Election::OwnVote { term, deadline }, why);
        let sequence = self.next_sequence();
        self.peers[self.me.node].ask_vote(on.now, sequence, term, (0, 0));
        if self.here == self.me.node {
            self.ask_own(on, sequence, term, Ask::Vote { last: None });
        }
    }

    /// A request to the own acceptor goes the same way as all others, without a line.
    pub(crate) fn ask_own<M: Memory>(&mut self, on: &mut Work<M>, sequence: u64, term: Term, ask: Ask) {
        let request = Request { from: self.me.node, boot: self.me.boot, sequence, term, ask };
        let (acceptor, mut surroundings) = on.acceptor();
        acceptor.handle_request(&mut surroundings, request);
    }

    fn own_vote<M: Memory>(&mut self, on: &mut Work<M>, term: Term, deadline: Instant) {
        let asked = self.peers[self.me.node].asked;
        let Some(answer) = self.own_answer(on, asked) else {
            if on.now >= deadline {
                self.end_campaign(on, mark::Candidate::OwnLate);
            }
            return;
        };
        if !answer.is_granted() {
            return self.end_campaign(on, mark::Candidate::OwnRefused);
        }
        let last = match self.own_log(on, &answer) {
            Some(last) => last,
            None if on.now < deadline => return,
            None => return self.end_campaign(on, mark::Candidate::OwnLate),
        };
        // Now the whole log was walked: this is the configuration that the candidacy is judged by. Where the acceptor is apart it is in
        // force from the next step on, and nothing is judged by the one before.
        if self.here != self.me.node && on.configuration.entry() != on.acceptor.candidacy().entry() {
            return;
        }
        if !self.may_stand(on) {
            return self.end_campaign(on, mark::Candidate::NoVoter);
        }
        if !self.votes(on) {
            mark(mark::Member::StandsRemoved);
        }
        self.turn(Election::Votes { term, deadline, last }, mark::Candidate::AsksAll);
        for member in on.configuration.members() {
            if member.node != self.me.node && self.is_voter(on, member.node) && self.peers[member.node].formed
            {
                let sequence = self.next_sequence();
                self.peers[member.node].ask_vote(on.now, sequence, term, (last.term.0, last.index.0));
            }
        }
        self.count_votes(on, term, deadline, last);
    }

    /// What the own acceptor answered to the request of that number.
    fn own_answer<M: Memory>(&self, on: &Work<M>, asked: u64) -> Option<Answer> {
        if self.here == self.me.node {
            return on.acceptor.local_answer(asked).copied();
        }
        let (answer, line) = self.peers[self.me.node].answer()?;
        // Voted, and gone on to another promise since.
        let holds = !answer.is_granted() || Promise(line.promise).node() == self.me.node;
        holds.then_some(answer)
    }

    /// The end of the own log, as the own vote found it; where the acceptor is apart, once all of it was READ.
    fn own_log<M: Memory>(&self, on: &mut Work<M>, answer: &Answer) -> Option<LogPoint> {
        if self.here == self.me.node {
            return Some(answer.last);
        }
        let (_, line) = self.peers[self.me.node].answer()?;
        on.acceptor.follow_own_vote(&on.areas.log, answer, line)
    }

    fn count_votes<M: Memory>(&mut self, on: &mut Work<M>, term: Term, deadline: Instant, last: LogPoint) {
        // The own acceptor may have gone on to another candidate in this very step.
        if on.acceptor.promise() != Promise::new(term, self.me.node) {
            return self.end_campaign(on, mark::Candidate::Superseded);
        }
        let mut votes = usize::from(self.votes(on) || planted::is(Bug::LearnerCampaigns));
        let mut older = 0;
        for member in on.configuration.members() {
            let node = member.node;
            if node == self.me.node || !self.is_voter(on, node) {
                continue;
            }
            let Some((answer, line)) = self.peers[node].answer() else {
                // A voter that was not connected when the others were asked.
                if self.peers[node].asked == 0 && on.links[node].is_up() && self.peers[node].formed {
                    mark(mark::Candidate::AsksLate);
                    let sequence = self.next_sequence();
                    self.peers[node].ask_vote(on.now, sequence, term, (last.term.0, last.index.0));
                }
                continue;
            };
            match answer.verdict {
                verdict::GRANTED if line.promise == Promise::new(term, self.me.node).0 => votes += 1,
                verdict::BEHIND => {
                    let promise = Promise(line.promise);
                    self.respect_promise(on.now, promise);
                    return self.end_campaign(on, mark::Candidate::Behind);
                }
                verdict::OLDER => {
                    older += 1;
                    self.was_older = true;
                    on.acceptor.end_grace();
                }
                verdict::LEASE if on.now.since(self.peers[node].asked_at) >= self.timing.repeat_ns => {
                    mark(mark::Candidate::AsksAgain);
                    let sequence = self.next_sequence();
                    self.peers[node].ask_vote(on.now, sequence, term, (last.term.0, last.index.0));
                }
                _ => {}
            }
        }
        let needed = majority(on.configuration.voters()) - usize::from(planted::is(Bug::MinorityElected));
        if votes >= needed {
            self.turn(Election::Idle, mark::Candidate::Elected);
            self.was_older = false;
            self.become_leader(on, term, last);
        } else if on.configuration.voters() - older < majority(on.configuration.voters()) {
            self.end_campaign(on, mark::Candidate::TooOld);
        } else if on.now >= deadline {
            self.end_campaign(on, mark::Candidate::TimedOut);
        }
    }

    /// Not elected. The own acceptor's promise stays, and its detector starts the next round.
    pub(crate) fn end_campaign<M: Memory>(&mut self, on: &mut Work<M>, why: mark::Candidate) {
        self.turn(Election::Idle, why);
        on.acceptor.forget_own_vote();
        self.role = Role::Follower;
        self.rest_until = on.now.after(self.timing.repeat_ns + self.rng.below(self.timing.repeat_ns + 1));
        for peer in self.peers.iter_mut() {
            peer.ask_nothing();
        }
    }

    /// Whether the own vote counts.
    fn votes<M: Memory>(&self, on: &Work<M>) -> bool {
        on.configuration.is_voter(self.me.node) && on.configuration.names(self.me.node, self.me.incarnation)
    }

    /// Whether this node may ask for votes: as a voter, or as one that was a voter before an entry, not known committed, took it
    /// out. The log of such a node may be the only one that has that entry, and nobody else could be elected; its own
    /// vote does not count.
    fn may_stand<M: Memory>(&self, on: &Work<M>) -> bool {
        if on.removed || !self.stands {
            return false;
        }
        match on.configuration.member(self.me.node) {
            Some(_) if self.votes(on) => true,
            Some(member) => member.incarnation == self.me.incarnation && planted::is(Bug::LearnerCampaigns),
            None => {
                let anchored = on.acceptor.roster().anchored();
                anchored.is_voter(self.me.node)
                    && anchored.names(self.me.node, self.me.incarnation)
                    && on.configuration.voters() > 0
            }
        }
    }

    /// Whether that node's vote counts, in the life that is connected now (one that is not connected counts for nothing).
    pub(crate) fn is_voter<M: Memory>(&self, on: &Work<M>, node: NodeId) -> bool {
        on.configuration.is_voter(node) && on.configuration.names(node, on.links[node].peer().incarnation)
    }
}

#[cfg(feature = "model")]
impl Election {
    pub(crate) fn canonical(&self, out: &mut impl Canonical) {
        match *self {
            Election::Idle => out.plain(0u8),
            Election::Looking { since } => {
                out.plain(1u8);
                out.mark(since);
            }
            Election::Waiting { until } => {
                out.plain(2u8);
                out.moment(until);
            }
            Election::OwnVote { term, deadline } => {
                out.plain((3u8, term));
                out.moment(deadline);
            }
            Election::Votes { term, deadline, last } => {
                out.plain((4u8, term, last));
                out.moment(deadline);
            }
        }
    }
}
