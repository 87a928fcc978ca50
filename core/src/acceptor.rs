//! The part of a node that holds the log area and the promise, fences, grants and answers votes (protocol.md 4 to 6).
//!
//! The same acceptor serves its own node's proposer and all others, by the same two requests: it does not know which of
//! them is local except that a local fence takes effect at once. It runs in the host agent or on the DPU.

use crate::beat::{self, BeatWatch, RawBeat};
use crate::detector::{Detector, leader_to_probe};
use crate::event::{Event, Events};
use crate::inbound::{Change, Inbound};
use crate::layout::{
    AnswerLine, BeatLine, Line, ProgressLine, RequestLine, control, log, progress_flags, staging, verdict,
};
use crate::link::Link;
use crate::mailbox::{Outbox, Route};
use crate::mark::{self, mark};
use crate::mem::{Areas, Memory, full};
use crate::membership::Configuration;
use crate::options::{Half, Identity};
use crate::planted::{self, Bug};
use crate::request::{Answer, Ask, Request};
use crate::roster::Roster;
use crate::table::Table;
use crate::timing::Timing;
use crate::types::{Boot, Instant, LogPoint, NodeId, Position, Promise};
use crate::verb::{Class, Completion, Verb};
use crate::walker::Walker;
use crate::watch::Watch;
use crate::{entry, layout};

#[cfg(feature = "model")]
mod canonical;
mod install;
mod mirror;
pub(crate) use mirror::Mirror;

/// The request being worked on: only one at a time, and only this may change the promise.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Operation {
    Idle,
    /// Waiting until no former writer can write. The beat line as it was judged.
    Fencing {
        request: Request,
        judged: RawBeat,
        since: Instant,
    },
    /// Walking a log that nobody can write.
    Walking {
        request: Request,
    },
}

/// What was answered to one proposer last.
#[derive(Clone, Copy, Default, Debug)]
struct Answered {
    boot: Boot,
    sequence: u64,
    answer: Answer,
    /// The grant behind it was taken back: the same request, repeated, is judged anew.
    void: bool,
}

/// What an acceptor publishes of its node's application and proposer.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Application {
    pub(crate) applied: Position,
    /// It writes its state, or becomes another.
    pub(crate) is_away: bool,
    /// It was seen to run lately: always, where it is here.
    pub(crate) is_alive: bool,
    /// Its proposer leads the term of the promise.
    pub(crate) leads: bool,
    /// The life of the host, where that is apart and was met.
    pub(crate) host: Option<Boot>,
    /// It wants a snapshot.
    pub(crate) wants: bool,
    /// The snapshot that the host is to save.
    pub(crate) order: Option<(u32, Boot)>,
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Acceptor {
    me: Identity,
    /// The proposer that is here, by its node: nobody, where host and acceptor are apart.
    here: NodeId,
    timing: Timing,
    promise: Promise,
    /// The life of its holder that asked for it: no other is let write.
    promised_to: Boot,
    /// Who may write the log area now.
    writer: NodeId,
    /// The promise was given and its holder has not got its grant yet.
    grant_due: bool,
    /// Nobody gets a grant: the log is about to begin anew behind a snapshot.
    closed: bool,
    operation: Operation,
    pending: Option<Request>,
    walker: Walker,
    roster: Roster,
    /// What the whole log said when it was promised to the own proposer: the configuration that a candidacy is judged by.
    candidacy: Configuration,
    beat: BeatWatch,
    granted_at: Option<Instant>,
    /// No vote before this: a lease from an earlier life may still run.
    silent_until: Instant,
    detector: Detector,
    inbound: Table<Inbound>,
    answered: Table<Answered>,
    answers: Table<Outbox<AnswerLine>>,
    /// Lines to peers are made anew when this was counted on.
    revision: u64,
    written: Table<u64>,
    progress: ProgressLine,
    progress_version: u32,
    progress_at: Instant,
    /// Answers to the own host that is apart were written so often.
    host_version: u32,
    /// All this is what another process's acceptor has published.
    mirror: Option<Mirror>,
}

/// What an acceptor works with; everything is lent for one call.
pub(crate) struct Surroundings<'a, M> {
    pub(crate) now: Instant,
    pub(crate) areas: &'a Areas<M>,
    pub(crate) links: &'a Table<Link>,
    pub(crate) events: &'a mut Events,
}

impl Acceptor {
    pub(crate) fn new(me: Identity, half: Half, timing: Timing, now: Instant) -> Acceptor {
        Acceptor {
            me,
            here: if half == Half::Whole { me.node } else { NodeId::NOBODY },
            timing,
            promise: Promise::NONE,
            promised_to: Boot(0),
            writer: NodeId::NOBODY,
            grant_due: false,
            closed: false,
            operation: Operation::Idle,
            pending: None,
            walker: Walker::new(LogPoint::start(0)),
            roster: Roster::new(),
            candidacy: Configuration::default(),
            beat: BeatWatch::default(),
            granted_at: None,
            silent_until: now.after(timing.start_silence_ns()),
            detector: Detector::new(now),
            inbound: Table::from_fn(Inbound::new),
            answered: Table::from_fn(|_| Answered::default()),
            answers: Table::from_fn(|_| Outbox::new()),
            revision: 1,
            written: Table::from_fn(|_| 0),
            progress: ProgressLine { boot: me.boot.0, ..ProgressLine::default() },
            progress_version: 0,
            progress_at: Instant(0),
            host_version: 0,
            mirror: (half == Half::Proposer).then(Mirror::new),
        }
    }

    /// The group was formed, or this node came to it: its log begins here, and so does the silence of a newcomer.
    pub(crate) fn handle_formed(&mut self, now: Instant, configuration: Configuration) {
        self.walker = Walker::new(LogPoint::start(configuration.group));
        self.progress.config_index = configuration.index.0;
        self.roster.begin(configuration);
        self.silent_until = now.after(self.timing.start_silence_ns());
        self.detector.handle_heard(now);
        self.progress.flags |= progress_flags::FORMED;
        self.revision += 1;
    }

    /// Another group is made of what is here: its configuration follows the last entry that was ever walked.
    pub(crate) fn handle_new_group(&mut self, configuration: Configuration) {
        self.progress.config_index = configuration.index.0;
        self.roster.begin(configuration);
        self.candidacy = self.roster.anchored().clone();
    }

    pub(crate) fn roster(&self) -> &Roster {
        &self.roster
    }

    /// See the field.
    pub(crate) fn candidacy(&self) -> &Configuration {
        &self.candidacy
    }

    pub(crate) fn promise(&self) -> Promise {
        self.promise
    }

    pub(crate) fn walker(&self) -> &Walker {
        &self.walker
    }

    pub(crate) fn writer(&self) -> NodeId {
        self.writer
    }

    pub(crate) fn is_fencing(&self) -> bool {
        matches!(self.operation, Operation::Fencing { .. })
    }

    pub(crate) fn is_quiet(&self) -> bool {
        self.detector.is_quiet()
    }

    pub(crate) fn beat(&self) -> Option<&BeatLine> {
        self.beat.line()
    }

    /// Where its log begins, behind the last snapshot that it has taken: said only where its host is apart.
    pub(crate) fn start(&self) -> Position {
        Position(self.progress.start)
    }

    pub(crate) fn progress(&self) -> &ProgressLine {
        &self.progress
    }

    /// What was answered to `request` of the own proposer, once it is.
    pub(crate) fn local_answer(&self, sequence: u64) -> Option<&Answer> {
        let answered = &self.answered[self.me.node];
        (answered.sequence == sequence && answered.boot == self.me.boot && !answered.void)
            .then_some(&answered.answer)
    }

    /// A candidate was refused for its log: others shall not wait for the grace of the grant it gave itself.
    pub(crate) fn end_grace(&mut self) {
        self.granted_at = None;
    }

    // Requests.

    /// A request line of a connected peer.
    pub(crate) fn handle_line<M: Memory>(
        &mut self,
        on: &mut Surroundings<M>,
        from: NodeId,
        line: &RequestLine,
    ) {
        self.inbound[from].handle_line(line);
        if let Some(request) = Request::from_line(self.me.node, from, line) {
            self.handle_request(on, request);
        }
    }

    /// What a peer says of its end of the log queue pair, whoever it is.
    pub(crate) fn handle_end(&mut self, from: NodeId, line: &RequestLine) {
        self.inbound[from].handle_line(line);
    }

    /// Answers something that is not about votes (forming) in the peer's answer line.
    pub(crate) fn answer_other(&mut self, from: NodeId, boot: Boot, sequence: u64, verdict: u8) {
        let answer = Answer { verdict, ..Answer::default() };
        self.answered[from] = Answered { boot, sequence, answer, void: false };
        self.answers[from].say_again();
        self.revision += 1;
    }

    /// A vote or an access, of a peer or of the own proposer.
    pub(crate) fn handle_request<M: Memory>(&mut self, on: &mut Surroundings<M>, request: Request) {
        let answered = &self.answered[request.from];
        if answered.boot == request.boot {
            if request.sequence < answered.sequence {
                mark(mark::Acceptor::Dropped);
                return;
            }
            if request.sequence == answered.sequence && !answered.void {
                mark(mark::Acceptor::Repeated);
                self.answers[request.from].say_again();
                return;
            }
        }
        let busy = match self.operation {
            Operation::Idle => None,
            Operation::Fencing { request, .. } | Operation::Walking { request } => Some(request),
        };
        match busy {
            Some(current) if current == request => {}
            Some(_) => {
                mark(match self.pending {
                    None => mark::Acceptor::PendingKept,
                    Some(pending) if pending.from == request.from || request.weight() > pending.weight() => {
                        mark::Acceptor::PendingReplaced
                    }
                    Some(_) => return mark(mark::Acceptor::PendingDropped),
                });
                self.pending = Some(request);
            }
            None => self.judge(on, request),
        }
    }

    /// Steps 1 to 4 of a vote, 1 and 4 of an access.
    fn judge<M: Memory>(&mut self, on: &mut Surroundings<M>, request: Request) {
        // Now, not at the last poll: a poll that is behind has not seen the last beat. The same words are compared again
        // after the fence, torn or not.
        let judged = beat::raw(&on.areas.log);
        if self.beat.take(on.now, &judged) {
            self.detector.handle_heard(on.now);
        }
        match request.ask {
            Ask::Vote { last } => {
                let behind = request.term < self.promise.term()
                    || request.term == self.promise.term()
                        && self.promise.node() != request.from
                        && !planted::is(Bug::DoubleVote);
                if behind {
                    return self.refuse(&request, verdict::BEHIND, mark::Acceptor::RefusedBehind);
                }
                let skips = request.from == self.here && planted::is(Bug::SelfVoteSkipsLease);
                if self.lease_holds(on.now) && !skips {
                    return self.refuse(&request, verdict::LEASE, mark::Acceptor::RefusedLease);
                }
                if last.is_some_and(|last| last < self.walker.lower_bound().rank()) {
                    return self.refuse(&request, verdict::OLDER, mark::Acceptor::RefusedOlder);
                }
                if planted::is(Bug::VoteWaitsForArming)
                    && request.from != self.here
                    && !self.inbound[request.from].can_grant(request.boot)
                    && !self.inbound[request.from].is_granted()
                {
                    return;
                }
            }
            Ask::Access => {
                if request.term < self.promise.term() {
                    return self.refuse(&request, verdict::BEHIND, mark::Acceptor::RefusedBehind);
                }
            }
        }
        self.fence_writer(on);
        mark(match request.ask {
            Ask::Vote { .. } => mark::Acceptor::FencingForVote,
            Ask::Access => mark::Acceptor::FencingForAccess,
        });
        self.operation = Operation::Fencing { request, judged, since: on.now };
        self.proceed(on);
    }

    fn lease_holds(&self, now: Instant) -> bool {
        if now < self.silent_until {
            return true;
        }
        let yielding = self.beat.line().is_some_and(|beat| {
            beat.leader == self.promise.0 && beat.flags & layout::beat_flags::YIELDING != 0
        });
        (!yielding || self.beat.is_torn())
            && (self.beat.moved_within(now, self.timing.lease_ns)
                || self.granted_at.is_some_and(|at| now.since(at) < self.timing.grant_grace_ns))
    }

    /// Takes write permission from whoever has it, also the local writer, also the one who asks.
    fn fence_writer<M: Memory>(&mut self, on: &mut Surroundings<M>) {
        if self.grant_due {
            // Promised, not granted yet, and now it will not be: the same request, repeated, is judged anew.
            mark(mark::Acceptor::PromiseVoided);
            self.answered[self.promise.node()].void = true;
            self.grant_due = false;
        }
        for inbound in self.inbound.iter_mut() {
            if inbound.may_write() {
                mark(mark::Inbound::GrantedFenced);
                inbound.fence();
            }
        }
        if self.writer != NodeId::NOBODY {
            mark(mark::Acceptor::WriterFenced);
        }
        self.release_writer();
        self.publish(on);
    }

    fn release_writer(&mut self) {
        if self.writer != NodeId::NOBODY {
            self.answered[self.writer].void = true;
            self.writer = NodeId::NOBODY;
        }
        self.revision += 1;
    }

    /// Carries the operation on as far as it goes now.
    fn proceed<M: Memory>(&mut self, on: &mut Surroundings<M>) {
        if let Operation::Fencing { request, judged, since } = self.operation {
            if let Some(writer) = self.inbound.iter().find(|inbound| inbound.may_write())
                && !planted::is(Bug::PromiseBeforeFence)
            {
                if on.now.since(since) > self.timing.fence_limit_ns {
                    mark(mark::Acceptor::Abort);
                    on.events.push(Event::Abort { writer: writer.peer() });
                }
                return;
            }
            on.events.push(Event::Fenced { by: request.from });
            // Nothing lands any more: look at the beat a second time. A leader that beat meanwhile may hold a lease; it
            // will ask for access again by itself.
            let now = beat::raw(&on.areas.log);
            if let Ask::Vote { .. } = request.ask
                && now != judged
                && !beat::is_yielding(&now, self.promise)
                && !planted::is(Bug::NoSecondLook)
            {
                self.operation = Operation::Idle;
                self.walker.handle_fence();
                return self.refuse(&request, verdict::LEASE, mark::Acceptor::RefusedBySecondLook);
            }
            if !planted::is(Bug::WalkBeforeFence) {
                self.walker.handle_fence();
            }
            mark(mark::Acceptor::Walking);
            self.operation = Operation::Walking { request };
        }
        if let Operation::Walking { request } = self.operation {
            if !planted::is(Bug::WalkBeforeFence) {
                self.look_at_beat(on);
                self.walk(on);
                if !self.walker.is_done() {
                    return;
                }
            }
            self.operation = Operation::Idle;
            let older = matches!(request.ask, Ask::Vote { last: Some(last) } if last < self.walker.cursor().rank())
                && !planted::is(Bug::NoOlderCheck);
            if older && planted::is(Bug::RefusalThatPromises) {
                self.promise = request.promise();
            }
            if older {
                self.refuse(&request, verdict::OLDER, mark::Acceptor::RefusedAfterWalk);
            } else {
                self.promise_to(on, &request);
            }
        }
    }

    /// Step 7: the only place where the promise changes.
    fn promise_to<M: Memory>(&mut self, on: &mut Surroundings<M>, request: &Request) {
        if self.promise != request.promise() {
            self.promise = request.promise();
            on.events.push(Event::Promised { promise: self.promise });
        }
        self.promised_to = request.boot;
        self.granted_at = Some(on.now);
        self.detector.handle_heard(on.now);
        self.grant_due = true;
        mark(match request.from == self.here {
            true => mark::Acceptor::GrantedOwn,
            false if self.inbound[request.from].can_grant(request.boot) => mark::Acceptor::PromisedArmed,
            false => mark::Acceptor::PromisedUnarmed,
        });
        self.publish(on);
        full();
        self.answer(request, verdict::GRANTED);
        if request.from == self.here {
            self.candidacy = self.roster.in_force().clone();
            if !self.closed {
                self.give_grant(on, request.from);
            }
        }
    }

    /// The walker goes on, and the roster follows it. Who has become a voter is silent like a newcomer: what it has seen of
    /// leaders so far bound nobody.
    fn walk<M: Memory>(&mut self, on: &Surroundings<M>) {
        let voted = self.votes();
        self.walker.step(&on.areas.log, self.me.ring_len, self.promise, self.beat.line());
        if self.roster.follow(&self.walker, &on.areas.log, self.me.ring_len) {
            self.progress.config_index = self.roster.anchored().index.0;
            self.be_silent_if_new(on.now, voted);
        }
    }

    /// Who votes by now, and did not before, is silent like a newcomer.
    fn be_silent_if_new(&mut self, now: Instant, voted: bool) {
        if !voted && self.votes() {
            self.silent_until = self.silent_until.max(now.after(self.timing.start_silence_ns()));
        }
    }

    fn votes(&self) -> bool {
        let anchored = self.roster.anchored();
        anchored.is_voter(self.me.node) && anchored.names(self.me.node, self.me.incarnation)
    }

    fn give_grant<M: Memory>(&mut self, on: &mut Surroundings<M>, writer: NodeId) {
        self.grant_due = false;
        self.writer = writer;
        self.granted_at = Some(on.now);
        self.detector.handle_heard(on.now);
        self.walker.handle_grant();
        self.revision += 1;
        self.publish(on);
    }

    /// A refusal changes nothing.
    fn refuse(&mut self, request: &Request, verdict: u8, why: mark::Acceptor) {
        mark(why);
        self.answer(request, verdict);
    }

    fn answer(&mut self, request: &Request, verdict: u8) {
        let answer = Answer {
            verdict,
            last: *self.walker.cursor(),
            anchor: *self.walker.anchor(),
            applied: Position(self.progress.applied),
            durable: Position(self.progress.durable),
            ..Answer::default()
        };
        self.answered[request.from] =
            Answered { boot: request.boot, sequence: request.sequence, answer, void: false };
        self.answers[request.from].say_again();
        self.revision += 1;
    }

    // The local writer's path into the log area: the fence of a host-only build is the check in here.

    /// Makes the own bytes `[from, to)` of the ring those of the staging ring, if this node's own proposer may write.
    pub(crate) fn write_local<M: Memory>(&mut self, areas: &Areas<M>, from: Position, to: Position) -> bool {
        if self.writer != self.here {
            return false;
        }
        let ring_len = self.me.ring_len;
        let mut at = from;
        while at < to {
            let until_end = ring_len - (at.0 & (ring_len - 1));
            let len = until_end.min(to.0 - at.0);
            areas.log.copy_from(&areas.staging, entry::offset(ring_len, at), len);
            at = Position(at.0 + len);
        }
        true
    }

    /// Writes the own beat line, if this node's own proposer may write.
    pub(crate) fn beat_local<M: Memory>(&mut self, areas: &Areas<M>, beat: &BeatLine, version: u32) -> bool {
        if self.writer != self.here && !planted::is(Bug::BeatsOutsideFence) {
            return false;
        }
        beat.write(&areas.log, log::BEAT, version);
        true
    }

    // Ticks and completions.

    fn look_at_beat<M: Memory>(&mut self, on: &mut Surroundings<M>) {
        if self.beat.look(on.now, &on.areas.log) {
            self.detector.handle_heard(on.now);
        }
    }

    /// Everything that moves by itself. `leading`: the own proposer leads the term of the promise.
    pub(crate) fn handle_tick<M: Memory>(
        &mut self,
        on: &mut Surroundings<M>,
        watches: &mut Table<Watch>,
        application: Application,
    ) {
        self.look_at_beat(on);
        for (node, inbound) in self.inbound.entries_mut() {
            let link = &on.links[node];
            let proposer = if node == self.me.node {
                application.host
            } else {
                link.is_up().then(|| link.peer().proposer).filter(|boot| *boot != Boot(0))
            };
            if inbound.tick(proposer) {
                self.revision += 1;
            }
        }
        self.drop_lost_writer(on);
        if self.operation != Operation::Idle {
            self.proceed(on);
        }
        if self.operation == Operation::Idle {
            if let Some(request) = self.pending.take() {
                mark(mark::Acceptor::PendingJudged);
                self.handle_request(on, request);
            } else {
                self.grant_when_armed();
                self.walk(on);
            }
        }
        if self.progress.flags & progress_flags::FORMED != 0 && !application.leads {
            let leader = leader_to_probe(self.me.node, self.promise);
            let leader = leader.map(|leader| (&mut watches[leader], &on.links[leader]));
            if self.detector.tick(on.now, &self.timing, leader) {
                on.events.push(Event::Quiet { promise: self.promise });
            }
        } else {
            self.detector.handle_heard(on.now);
        }
        self.progress.applied =
            self.progress.applied.max(application.applied.0.min(self.walker.anchor().position.0));
        let role = if application.leads { progress_flags::LEADER } else { 0 };
        let quiet = if self.detector.is_quiet() { progress_flags::QUIET } else { 0 };
        let formed = self.progress.flags & progress_flags::FORMED;
        let away = if application.is_away { progress_flags::AWAY } else { 0 };
        let alive = if application.is_alive { progress_flags::HOST_ALIVE } else { 0 };
        let wants = if application.wants { progress_flags::WANTS } else { 0 };
        let flags = formed | role | quiet | away | alive | wants;
        let (save, save_by) = application.order.unwrap_or((0, Boot(0)));
        self.progress.save = u64::from(save);
        self.progress.save_by = save_by.0;
        if flags != self.progress.flags || on.now.since(self.progress_at) >= self.timing.beat_ns / 4 {
            self.progress.flags = flags;
            self.publish(on);
        }
        if let Some(host) = application.host {
            self.answer_host(on, host);
        }
    }

    /// The writer's queue pair was closed or fenced outside of an operation: nobody writes until somebody asks again.
    fn drop_lost_writer<M: Memory>(&mut self, on: &mut Surroundings<M>) {
        let writer = self.writer;
        if writer != NodeId::NOBODY && writer != self.here && !self.inbound[writer].is_granted() {
            mark(mark::Acceptor::WriterLost);
            self.release_writer();
            self.publish(on);
        }
    }

    /// Arming is apart from granting: a vote counts at once, and write permission follows when both ends are up.
    fn grant_when_armed(&mut self) {
        let holder = self.promise.node();
        if self.grant_due
            && !self.closed
            && holder != self.here
            && self.inbound[holder].can_grant(self.promised_to)
        {
            // The former writer was fenced before the promise was given.
            assert!(self.inbound.iter().all(|inbound| !inbound.may_write()), "one writer at the most");
            self.inbound[holder].grant();
            self.walker.handle_grant();
            self.revision += 1;
        }
    }

    pub(crate) fn handle_completion<M: Memory>(&mut self, on: &mut Surroundings<M>, done: &Completion) {
        let peer = done.id.peer;
        let change = self.inbound[peer].handle_completion(on.now, done, self.timing.repeat_ns);
        if change != Change::None {
            self.revision += 1;
        }
        match change {
            Change::Granted => {
                mark(mark::Acceptor::Granted);
                self.give_grant(on, peer);
            }
            Change::Fenced => match self.operation {
                Operation::Idle => {
                    self.drop_lost_writer(on);
                    // It may have been a queue pair that was only armed, while another one writes.
                    let written =
                        self.writer != NodeId::NOBODY || self.inbound.iter().any(Inbound::may_write);
                    if !written {
                        self.walker.handle_fence();
                    }
                }
                _ => self.proceed(on),
            },
            Change::Shown => self.drop_lost_writer(on),
            Change::None => {}
        }
    }

    pub(crate) fn handle_answer_written(&mut self, peer: NodeId, number: u32) {
        self.answers[peer].handle_success(number);
    }

    pub(crate) fn handle_link_up(&mut self, peer: NodeId) {
        self.answers[peer].say_again();
        self.written[peer] = 0;
    }

    pub(crate) fn handle_link_down(&mut self, peer: NodeId) {
        self.answers[peer].handle_down();
        self.inbound[peer].handle_down();
    }

    pub(crate) fn is_stalled(&self, peer: NodeId, now: Instant, limit: u64) -> bool {
        self.answers[peer].is_stalled(now, limit)
    }

    /// Writes the own progress line. What changes a promise or a grant is published before anybody is told of it.
    fn publish<M: Memory>(&mut self, on: &Surroundings<M>) {
        let line = &mut self.progress;
        line.liveness = line.liveness.wrapping_add(1);
        line.promise = self.promise.0;
        line.grant = if self.writer == NodeId::NOBODY { 0 } else { self.promise.0 };
        line.hint_term = self.walker.cursor().term.0;
        line.hint_index = self.walker.cursor().index.0;
        if self.here != self.me.node {
            line.anchor = self.walker.anchor().position.0;
        }
        self.progress_version = self.progress_version.wrapping_add(1);
        line.write(&on.areas.control, control::PROGRESS, self.progress_version);
        self.progress_at = on.now;
    }

    // Verbs.

    pub(crate) fn poll_verb<M: Memory>(&mut self, on: &Surroundings<M>) -> Option<Verb> {
        for inbound in self.inbound.iter_mut() {
            if let Some(verb) = inbound.poll(on.now) {
                return Some(verb);
            }
        }
        for (node, link) in on.links.entries() {
            if !link.is_up() {
                continue;
            }
            if self.written[node] != self.revision {
                self.written[node] = self.revision;
                let line = self.answer_line(node, link.peer().proposer);
                self.answers[node].set(line);
            }
            let expecting = !self.inbound[node].is_granted();
            let every = if expecting { self.timing.repeat_ns } else { self.timing.repeat_ns * 10 };
            self.answers[node].repeat_every(on.now, every);
            let route = Route {
                class: Class::Answer,
                from: staging::answer(node.slot()),
                to: layout::answer_of(self.me.node),
            };
            if let Some(verb) =
                self.answers[node].poll(on.now, link.connection(), &on.areas.staging, node, route)
            {
                return Some(verb);
            }
        }
        None
    }

    /// A host that is apart reads what this node's control area says: its answers as well as all others'.
    fn answer_host<M: Memory>(&mut self, on: &Surroundings<M>, host: Boot) {
        let node = self.me.node;
        if self.written[node] != self.revision {
            self.written[node] = self.revision;
            let line = self.answer_line(node, host);
            self.host_version = self.host_version.wrapping_add(1);
            line.write(&on.areas.control, layout::answer_of(node), self.host_version);
        }
    }

    fn answer_line(&self, node: NodeId, proposer: Boot) -> AnswerLine {
        let inbound = &self.inbound[node];
        let answered = &self.answered[node];
        let mut line = AnswerLine {
            from_boot: self.me.boot.0,
            to_boot: proposer.0,
            promise: self.promise.0,
            qp_numbers: inbound.numbers(),
            qp_epoch: inbound.shown_epoch().0,
            qp_state: inbound.shown_state(),
            ..AnswerLine::default()
        };
        if answered.boot == proposer {
            line.sequence = answered.sequence;
            answered.answer.fill(&mut line);
        }
        line
    }
}
