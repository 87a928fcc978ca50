//! Reads: what makes sure that one misses nothing that was acknowledged before it arrived (protocol.md 9).
//!
//! A batch of reads goes through the stages of its kind, and one check serves all of it: who arrives later is in the next. What
//! a READ was posted before says nothing to a batch: readings are told apart by their numbers, never by times.

#[cfg(feature = "model")]
use crate::canonical::{Canonical, Counter, Space};
use crate::event::Event;
use crate::layout::{LeaderLine, Line, control, staging};
use crate::mark::{self, mark};
use crate::mem::Memory;
use crate::planted::{self, Bug};
use crate::proposer::{Proposer, Role, Work};
use crate::quorum::majority;
use crate::read::{Queue, Read, ReadError, ReadFailure, ReadTicket, Stage};
use crate::types::{Instant, NodeId, Position, Promise, Term};
use crate::verb::{Class, Completion, NUMBER_MASK, RequestId, Status, Verb};

/// All reads of a node that wait.
#[derive(Clone, Debug)]
pub(crate) struct Reads {
    quorum: Queue,
    follower: Queue,
    lease: Queue,
    /// The READ of a leader's line that is under way.
    line: Option<LineFlight>,
    number: u32,
    /// The leader's line is not READ again before.
    look_at: Instant,
}

#[derive(Clone, Copy, Debug)]
struct LineFlight {
    node: NodeId,
    number: u32,
    posted_at: Instant,
    /// Posted before the batch arrived: it says nothing to it.
    stale: bool,
}

impl Reads {
    pub(crate) fn new() -> Reads {
        Reads {
            quorum: Queue::new(),
            follower: Queue::new(),
            lease: Queue::new(),
            line: None,
            number: 0,
            look_at: Instant(0),
        }
    }

    fn queue_mut(&mut self, how: Read) -> &mut Queue {
        match how {
            Read::Quorum => &mut self.quorum,
            Read::Follower => &mut self.follower,
            Read::Lease => &mut self.lease,
        }
    }

    /// What has ended and was not reported; `applied` is what the own application has, if it can be asked.
    pub(crate) fn poll(&mut self, applied: Option<Position>) -> Option<Event> {
        Read::ALL.into_iter().find_map(|how| {
            let (number, why) = self.queue_mut(how).poll(applied)?;
            mark(match why {
                None => mark::Reader::answered(how),
                Some(_) => mark::Reader::Failed,
            });
            Some(match why {
                None => Event::ReadReady { how, number },
                Some(why) => Event::ReadFailed { how, number, why },
            })
        })
    }

    /// What is under way was posted before.
    fn forget_line(&mut self) {
        if let Some(line) = &mut self.line {
            line.stale = true;
        }
    }

    /// The way to a peer is down: what was READ over it is not coming any more.
    pub(crate) fn handle_link_down(&mut self, node: NodeId) {
        self.line = self.line.filter(|line| line.node != node);
    }

    /// The READ of that peer's line has been under way for longer than `limit`.
    pub(crate) fn is_stalled(&self, node: NodeId, now: Instant, limit: u64) -> bool {
        self.line.is_some_and(|line| line.node == node && now.since(line.posted_at) > limit)
    }
}

impl Proposer {
    /// A read arrived.
    pub(crate) fn read<M: Memory>(&mut self, on: &Work<M>, how: Read) -> Result<ReadTicket, ReadError> {
        if !on.configuration.is_formed() {
            return Err(ReadError::NotFormed);
        }
        if how == Read::Lease && self.lease_reads.is_none() {
            return Err(ReadError::NoLeaseReads);
        }
        if how != Read::Follower && self.role != Role::Leader {
            return Err(ReadError::NotLeader { leader: on.acceptor.promise().node() });
        }
        let number = self.reads.queue_mut(how).push(on.now).ok_or(ReadError::Full)?;
        if how == Read::Lease && planted::is(Bug::LeaseByOlderClock) {
            self.answer_by_lease(on);
        }
        Ok(ReadTicket { how, number })
    }

    /// Everything that time moves.
    pub(crate) fn read_tick<M: Memory>(&mut self, on: &mut Work<M>) {
        self.reads.lease.settle(on.now);
        self.answer_by_lease(on);
        let limit = self.timing.read_limit_ns();
        for how in Read::ALL {
            let behind = if how == Read::Follower { ReadFailure::NoLeader } else { ReadFailure::NoMajority };
            if self.reads.queue_mut(how).expire(on.now, limit, behind) {
                mark(mark::Reader::Expired);
            }
        }
        for how in [Read::Quorum, Read::Follower] {
            // Torn, or not there: once more.
            if let Stage::Checking { .. } = self.reads.queue_mut(how).stage {
                self.ask_promises(on, how, |watch, now| watch.want_every(now, 0));
            }
        }
    }

    /// A lease is as good as a check: it is held by a clock that was read after the batch had arrived.
    fn answer_by_lease<M: Memory>(&mut self, on: &Work<M>) {
        let stage = Stage::Applying { commit: self.lead.committed.position };
        if planted::is(Bug::LeaseByOlderClock) && self.reads.lease.wants_batch() && self.holds_lease(on) {
            self.reads.lease.take(stage);
        } else if self.reads.lease.wants_settled_batch() && self.holds_lease(on) {
            self.reads.lease.take_settled(stage);
        }
    }

    /// Moves batches on as far as they go without a completion. To be called before verbs are asked for: what arrived up to
    /// now is served by what is READ from now on.
    pub(crate) fn proceed_reads<M: Memory>(&mut self, on: &mut Work<M>) {
        if self.reads.quorum.wants_batch() && self.role == Role::Leader {
            let own = Promise::new(self.lead.term, self.me.node);
            if self.lead.has_committed() {
                self.begin_check(on, Read::Quorum, own, self.lead.committed.position);
            } else if planted::is(Bug::ReadBeforeOwnEntry) {
                self.begin_check(on, Read::Quorum, own, on.acceptor.walker().anchor().position);
            }
        }
        if self.reads.follower.wants_batch() {
            self.reads.follower.take(Stage::Looking);
            self.reads.forget_line();
            if planted::is(Bug::LeadersLineSkipped) {
                let commit = on.acceptor.walker().anchor().position;
                self.reads.follower.stage = Stage::Following { promise: on.acceptor.promise(), commit };
            }
        }
        if self.reads.follower.stage == Stage::Looking {
            self.look_at_own_line(on);
        }
        self.follow(on);
    }

    /// A follower read goes on when what the leader had committed is applied here.
    fn follow<M: Memory>(&mut self, on: &mut Work<M>) {
        if let Stage::Following { promise, commit } = self.reads.follower.stage
            && on.applied >= commit
        {
            self.begin_check(on, Read::Follower, promise, commit);
        }
    }

    /// Asks for the promises of all voters; only READs posted from now on count.
    fn begin_check<M: Memory>(&mut self, on: &mut Work<M>, how: Read, promise: Promise, commit: Position) {
        mark(mark::Reader::Checks);
        let queue = self.reads.queue_mut(how);
        if how == Read::Quorum && queue.wants_batch() {
            queue.take(Stage::Idle);
        }
        queue.stage = Stage::Checking { promise, commit };
        queue.asks = on.configuration.entry();
        for member in on.configuration.members() {
            queue.before[member.node] = on.watches[member.node].last_asked();
        }
        self.ask_promises(on, how, |watch, _| watch.want());
        // Where this node alone is the majority.
        self.judge_promises(on);
    }

    fn ask_promises<M: Memory>(
        &mut self,
        on: &mut Work<M>,
        how: Read,
        ask: impl Fn(&mut crate::watch::Watch, Instant),
    ) {
        let before = &self.reads.queue_mut(how).before;
        for member in on.configuration.members() {
            let watch = &mut on.watches[member.node];
            if member.node != self.here && !watch.is_read_after(before[member.node]) {
                ask(watch, on.now);
            }
        }
    }

    /// Somebody's promise was read: a majority of them may be enough now, or show that it is not.
    pub(crate) fn judge_promises<M: Memory>(&mut self, on: &mut Work<M>) {
        if let Stage::Checking { promise, commit } = self.reads.quorum.stage
            && self.role == Role::Leader
        {
            let (agree, _) =
                self.count_promises(on, &self.reads.quorum, |theirs| theirs.term() <= promise.term());
            if self.reads.quorum.asks != on.configuration.entry() {
                self.begin_check(on, Read::Quorum, promise, commit);
            } else if agree >= majority(on.configuration.voters()) {
                mark(mark::Reader::Passed);
                if planted::is(Bug::ReadJoinsCheck) {
                    self.reads.quorum.join();
                }
                self.reads.quorum.stage = Stage::Applying { commit };
            }
        }
        if let Stage::Checking { promise, commit } = self.reads.follower.stage {
            let (agree, differ) = self.count_promises(on, &self.reads.follower, |theirs| {
                theirs == promise || planted::is(Bug::AnyPromiseCounted)
            });
            let needed = majority(on.configuration.voters());
            if self.reads.follower.asks != on.configuration.entry() {
                self.begin_check(on, Read::Follower, promise, commit);
            } else if agree >= needed {
                mark(mark::Reader::Passed);
                if planted::is(Bug::ReadJoinsCheck) {
                    self.reads.follower.join();
                }
                self.reads.follower.stage = Stage::Applying { commit };
            } else if differ > on.configuration.voters() - needed {
                // Another leader, or one that has committed nothing yet: from the start.
                mark(mark::Reader::LooksAgain);
                self.look_again(on.now);
            }
        }
    }

    /// Of the voters whose promise was read since the batch asked: how many promises are right, and how many are not. The own
    /// acceptor's is the published one.
    fn count_promises<M: Memory>(
        &self,
        on: &Work<M>,
        queue: &Queue,
        is_right: impl Fn(Promise) -> bool,
    ) -> (usize, usize) {
        let (mut agree, mut differ) = (0, 0);
        for member in on.configuration.members() {
            let (node, watch) = (member.node, &on.watches[member.node]);
            if !on.configuration.is_voter(node) {
                continue;
            }
            // Of a former life of this node nothing is known here.
            if node == self.me.node && member.incarnation != self.me.incarnation {
                continue;
            }
            let promise = if node == self.here {
                on.acceptor.promise()
            } else {
                let fresh =
                    watch.is_read_after(queue.before[node]) || planted::is(Bug::EarlierReadingsCounted);
                match watch.line() {
                    Some(line) if fresh && self.is_voter(on, node) => Promise(line.promise),
                    _ => continue,
                }
            };
            if is_right(promise) {
                agree += 1;
            } else {
                differ += 1;
            }
        }
        (agree, differ)
    }

    // The leader's line.

    fn look_again(&mut self, now: Instant) {
        self.reads.follower.stage = Stage::Looking;
        self.reads.forget_line();
        self.reads.look_at = now.after(self.timing.beat_ns / 4);
    }

    /// A leader, too, may be asked for a follower read.
    fn look_at_own_line<M: Memory>(&mut self, on: &mut Work<M>) {
        let own = Promise::new(self.lead.term, self.me.node);
        if self.role == Role::Leader && self.lead.has_committed() && on.acceptor.promise() == own {
            let commit = self.lead.committed.position;
            self.reads.follower.stage = Stage::Following { promise: own, commit };
        }
    }

    /// The READ of the line of whom the own promise names.
    pub(crate) fn poll_line<M: Memory>(&mut self, on: &Work<M>) -> Option<Verb> {
        let leader = on.acceptor.promise().node();
        let looks = self.reads.follower.stage == Stage::Looking && self.reads.line.is_none();
        if !looks || on.now < self.reads.look_at || leader == self.me.node || !self.is_member_up(on, leader) {
            return None;
        }
        self.reads.number = (self.reads.number + 1) & NUMBER_MASK;
        let number = self.reads.number;
        self.reads.line = Some(LineFlight { node: leader, number, posted_at: on.now, stale: false });
        Some(Verb::Read {
            id: RequestId {
                peer: leader,
                class: Class::Leader,
                epoch: on.links[leader].connection(),
                number,
            },
            from: control::LEADER,
            to: staging::leader(leader.slot()),
            len: size_of::<LeaderLine>() as u32,
        })
    }

    fn is_member_up<M: Memory>(&self, on: &Work<M>, node: NodeId) -> bool {
        let is_known = node != NodeId::NOBODY && on.configuration.member(node).is_some();
        is_known && on.links[node].is_up() && on.configuration.names(node, on.links[node].peer().incarnation)
    }

    /// A READ of a leader's line ended well.
    pub(crate) fn handle_leader_line<M: Memory>(&mut self, on: &mut Work<M>, done: &Completion) {
        let Some(flight) = self.reads.line.filter(|line| line.number == done.id.number) else { return };
        if flight.node != done.id.peer || done.status != Status::Success {
            return;
        }
        self.reads.line = None;
        if self.reads.follower.stage != Stage::Looking || flight.stale {
            return;
        }
        let line = LeaderLine::read(&on.areas.staging, staging::leader(flight.node.slot()));
        let Some(line) = line.filter(|line| line.term != 0 && line.term <= Term::MAX.0) else {
            mark(mark::Reader::NoLine);
            return self.look_again(on.now);
        };
        mark(mark::Reader::Line);
        let promise = Promise::new(Term(line.term), flight.node);
        self.reads.follower.stage = Stage::Following { promise, commit: Position(line.commit) };
        self.follow(on);
    }

    /// The lead is lost.
    pub(crate) fn fail_leaders_reads(&mut self) {
        self.reads.quorum.fail_all(ReadFailure::LostLead);
        self.reads.lease.fail_all(ReadFailure::LostLead);
    }

    pub(crate) fn reads(&self) -> &Reads {
        &self.reads
    }

    pub(crate) fn reads_mut(&mut self) -> &mut Reads {
        &mut self.reads
    }
}

#[cfg(feature = "model")]
impl Reads {
    pub(crate) fn canonical(&self, me: NodeId, out: &mut impl Canonical) {
        let Reads { quorum, follower, lease, line, number, look_at } = self;
        quorum.canonical(me, out);
        follower.canonical(me, out);
        lease.canonical(me, out);
        let lines = Space::own(Counter::Line, me);
        out.plain(line.map(|line| (line.node, line.stale)));
        if let Some(LineFlight { node: _, number, posted_at, stale: _ }) = *line {
            out.count(lines, u64::from(number));
            out.moment(posted_at);
        }
        out.count(lines, u64::from(*number));
        out.moment(*look_at);
    }
}
