//! What a leader does for followers that need a snapshot (protocol.md 11): it finds a source, holds its ring, and tells them.
//!
//! One attempt at a time, for all who need one. Whatever goes wrong in it, the next source is asked, the leader itself last; the
//! ring is held for `catchup_limit` at the most, and then let go for as long, or longer when that came to nothing before.

#[cfg(feature = "model")]
use crate::canonical::Canonical;
use crate::entry::Kind;
use crate::layout::{progress_flags, verdict};
use crate::mark::{Snapshot as Mark, mark};
use crate::mem::Memory;
use crate::planted::{self, Bug};
use crate::proposer::change::Audience;
use crate::proposer::peer::{Need, Refusal};
use crate::proposer::{FollowerState, Proposer, Work};
use crate::quorum::majority;
use crate::request::{About, Answer};
use crate::snapshot::{CatchUp, reaches};
use crate::types::{Boot, Instant, NodeId, Position};

/// A pause after a failed attempt doubles up to so many times the first.
const MAX_DOUBLINGS: u32 = 16;
/// So does the time for which the ring is let go: who can never catch up costs the others a ninth of their time at the most.
const MAX_RING_DOUBLINGS: u32 = 3;

/// How far an attempt is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// None is under way, and none is begun before `until`. `asked`: all who could save a snapshot were asked in vain.
    Resting { until: Instant, asked: bool },
    /// A node was asked to save one at or above `floor`.
    Saving { source: NodeId, boot: Boot, since: Instant, floor: Position },
    /// It is there, and those who need it are told.
    Taking { about: About },
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Catchup {
    stage: Stage,
    /// When the attempt began.
    since: Instant,
    /// Nothing at or above this is recycled.
    hold: Option<Position>,
    /// One was too old for somebody: the next has to be at or above this.
    above: Position,
    /// Sources that were asked in vain.
    tried: Audience,
    /// Attempts that failed in a row.
    failures: u32,
    /// How often in a row the ring was held in vain.
    overruns: u32,
    /// What the own node says to the same request.
    own: Option<Answer>,
}

impl Default for Catchup {
    fn default() -> Catchup {
        Catchup {
            stage: Stage::Resting { until: Instant(0), asked: false },
            since: Instant(0),
            hold: None,
            above: Position(0),
            tried: Audience::default(),
            failures: 0,
            overruns: 0,
            own: None,
        }
    }
}

impl Catchup {
    /// Up to where entries of that kind may be staged as long as the ring is held: payload takes half of it.
    pub(crate) fn reach(&self, kind: Kind, ring_len: u64) -> Option<Position> {
        let hold = self.hold.filter(|_| kind == Kind::PAYLOAD)?;
        Some(Position(hold.0.saturating_add(ring_len / 2)))
    }

    /// The position at or above which the own node is to save a snapshot.
    /// And which request in a row that is.
    pub(crate) fn asks_own(&self, me: NodeId) -> Option<(u64, Position)> {
        match self.stage {
            Stage::Saving { source, floor, since, .. } if source == me => Some((since.0, floor)),
            _ => None,
        }
    }
}

impl Proposer {
    /// What is done about a follower's need for a snapshot.
    pub(crate) fn catch_up_of(&self, node: NodeId) -> Option<CatchUp> {
        let peer = &self.peers[node];
        if peer.state != FollowerState::Behind {
            return None;
        }
        if self.me.snapshot_len == 0 {
            return Some(CatchUp::NoSource);
        }
        let Need::Some(refusal) = peer.need else { return Some(CatchUp::Waiting) };
        Some(match self.lead.catchup.stage {
            _ if refusal == Refusal::Unable => CatchUp::Unable,
            Stage::Resting { asked: true, .. } => CatchUp::NoSource,
            Stage::Resting { .. } => CatchUp::Waiting,
            Stage::Saving { source, .. } => CatchUp::Saving { source },
            Stage::Taking { .. } => match (peer.asking_take(), peer.answer()) {
                (Some(about), Some((answer, _))) => {
                    CatchUp::Taking { source: about.source, fetched: answer.fetched, len: answer.len }
                }
                (Some(about), None) => CatchUp::Taking { source: about.source, fetched: 0, len: 0 },
                (None, _) => CatchUp::Waiting,
            },
        })
    }

    /// What the own node says to the request for a snapshot.
    pub(crate) fn handle_own_snapshot(&mut self, answer: Answer) {
        self.lead.catchup.own = Some(answer);
    }

    /// Moves the catching up of all who need it on.
    pub(crate) fn catch_up_tick<M: Memory>(&mut self, on: &mut Work<M>) {
        if self.me.snapshot_len == 0 {
            return;
        }
        self.note_needs(on);
        let wanted = self.lead.audience.nodes().any(|node| self.is_target(on, node));
        let met =
            self.lead.audience.nodes().any(|node| self.peers[node].need == Need::Met && self.runs(on, node));
        let under_way = !matches!(self.lead.catchup.stage, Stage::Resting { .. });
        if !wanted && under_way {
            mark(Mark::Deserted);
            self.end_attempt();
            self.rest(on, self.timing.repeat_ns);
        }
        if !wanted && !met {
            // Nobody is waited for.
            self.lead.catchup.hold = None;
            self.forget_overruns(on);
            return;
        }
        if self.lead.catchup.hold.is_some()
            && on.now.since(self.lead.catchup.since) >= self.timing.catchup_limit_ns
        {
            return self.let_ring_go(on);
        }
        if !wanted || self.lead.transfer.is_some() {
            return;
        }
        match self.lead.catchup.stage {
            Stage::Resting { until, .. } if on.now >= until => {
                // A ring that is still held for who is on its way is not held for longer.
                if self.lead.catchup.hold.is_none() {
                    self.lead.catchup.since = on.now;
                }
                self.ask_next(on);
            }
            Stage::Resting { .. } => {}
            Stage::Saving { source, boot, since, floor } => {
                self.follow_source(on, source, boot, since, floor)
            }
            Stage::Taking { about } => self.follow_targets(on, about),
        }
    }

    fn note_needs<M: Memory>(&mut self, on: &Work<M>) {
        for node in self.lead.audience.nodes() {
            let wants = self.host_wants(on, node);
            let peer = &mut self.peers[node];
            let needs = match peer.state {
                FollowerState::Behind => true,
                FollowerState::Window => wants,
                _ => continue,
            };
            if !needs {
                peer.need = Need::None;
                continue;
            }
            // A dead host's acceptor holds what it has for the next one: nothing changes before that is there.
            let line = on.watches[node].line();
            let is_alive = line.is_none_or(|line| line.flags & progress_flags::HOST_ALIVE != 0);
            let refused_long_ago = is_alive && on.now.since(peer.refused_at) >= self.timing.catchup_limit_ns;
            peer.need = match peer.need {
                // By now it may be able to.
                Need::Some(Refusal::Unable) if refused_long_ago => Need::Some(Refusal::None),
                // It has taken one, and its host still wants one.
                Need::Met if wants && refused_long_ago => Need::Some(Refusal::None),
                Need::None => Need::Some(Refusal::None),
                need => need,
            };
        }
    }

    /// The host behind a follower's acceptor lacks what the log does not have any more (protocol.md 13).
    fn host_wants<M: Memory>(&self, on: &Work<M>, node: NodeId) -> bool {
        let line = on.watches[node].line();
        node != self.me.node
            && line.is_some_and(|line| line.flags & progress_flags::WANTS != 0)
            && on.configuration.names(node, on.links[node].peer().incarnation)
    }

    /// Seen to run lately, in the life that is named.
    fn runs<M: Memory>(&self, on: &Work<M>, node: NodeId) -> bool {
        let named = on.configuration.names(node, on.links[node].peer().incarnation);
        let moved_at = on.watches[node].moved_at();
        named && moved_at.is_some_and(|at| on.now.since(at) < self.timing.alive_within_ns)
    }

    /// Needs a snapshot, and may get one by this attempt or by one that is to come.
    fn is_target<M: Memory>(&self, on: &Work<M>, node: NodeId) -> bool {
        matches!(self.peers[node].need, Need::Some(Refusal::None | Refusal::TooOld)) && self.runs(on, node)
    }

    // The source.

    /// A follower that is fit, else this node itself, unless it was asked before.
    fn ask_next<M: Memory>(&mut self, on: &mut Work<M>) {
        let fit = |node: &NodeId| {
            *node != self.me.node
                && !self.lead.catchup.tried.has(*node)
                && self.is_fit_source(on, *node)
                && self.peers[*node].applied >= on.base
        };
        let follower = self.lead.audience.nodes().find(fit);
        // The own application, here or behind the own acceptor.
        let own = (!self.lead.catchup.tried.has(self.me.node)).then_some(self.me.node);
        let Some(source) = follower.or(own) else { return self.find_no_source(on) };
        // One that is about to fall out of the ring would hold it at once.
        let fresh = if self.lead.has_committed() { self.lead.committed.position.0 } else { 0 };
        let fresh = Position(fresh.saturating_sub(self.me.ring_len / 4));
        let floor = on.base.max(fresh).max(self.lead.catchup.above);
        self.hold(floor);
        let boot = if source == self.here { self.me.boot } else { on.links[source].peer().boot };
        self.lead.catchup.own = None;
        self.lead.catchup.stage = Stage::Saving { source, boot, since: on.now, floor };
        for node in self.lead.audience.nodes() {
            if self.peers[node].need == Need::Some(Refusal::TooOld) {
                self.peers[node].need = Need::Some(Refusal::None);
            }
        }
        if source == self.here {
            mark(Mark::AsksItself);
        } else {
            mark(Mark::AsksFollower);
            let sequence = self.next_sequence();
            self.peers[source].ask_save(on.now, sequence, self.lead.term, floor);
        }
    }

    /// In window and live. What this leader has of the follower's own log it can have of a snapshot, too.
    fn is_fit_source<M: Memory>(&self, on: &Work<M>, node: NodeId) -> bool {
        self.peers[node].is_in_window() && self.runs(on, node) && on.watches[node].has_state()
    }

    fn find_no_source<M: Memory>(&mut self, on: &Work<M>) {
        mark(Mark::NoSource);
        self.end_attempt();
        let catchup = &mut self.lead.catchup;
        catchup.hold = None;
        // Nobody has one that is newer: for others an older one may do.
        catchup.above = Position(0);
        catchup.tried = Audience::default();
        catchup.failures = (catchup.failures + 1).min(MAX_DOUBLINGS);
        let pause = (self.timing.repeat_ns << catchup.failures).min(self.timing.catchup_limit_ns);
        catchup.stage = Stage::Resting { until: on.now.after(pause), asked: true };
    }

    fn follow_source<M: Memory>(
        &mut self,
        on: &mut Work<M>,
        source: NodeId,
        boot: Boot,
        since: Instant,
        floor: Position,
    ) {
        let own = source == self.here;
        let same = own || on.links[source].is_up() && on.links[source].peer().boot == boot;
        if !same || !own && !self.runs(on, source) {
            mark(Mark::SourceLeft);
            return self.try_another(on, source);
        }
        let asked = self.peers[source].is_in_window() && self.peers[source].is_asking_save();
        if !own && !asked {
            return self.follow_source_that_left(on, source, since, floor);
        }
        let answer =
            if own { self.lead.catchup.own } else { self.peers[source].answer().map(|(answer, _)| answer) };
        match answer {
            Some(answer) if answer.is_granted() => {
                let committed = &self.lead.committed;
                let point = answer.anchor;
                // What a follower says it has must be what this leader has committed.
                let fits = reaches(&point, floor.max(on.base))
                    && point.position <= committed.position
                    && point.index <= committed.index
                    && point.term <= committed.term;
                if !fits {
                    mark(Mark::SourceUnable);
                    return self.try_another(on, source);
                }
                mark(Mark::Offered);
                if self.lead.catchup.hold.is_none() {
                    // It was let go meanwhile.
                    self.lead.catchup.since = on.now;
                }
                self.hold(point.position);
                let about = About { source, source_boot: boot, number: answer.number, point, counts: false };
                self.lead.catchup.stage = Stage::Taking { about };
                self.follow_targets(on, about);
            }
            Some(answer) if answer.verdict == verdict::UNABLE => {
                mark(Mark::SourceUnable);
                self.try_another(on, source);
            }
            _ if on.now.since(since) >= self.timing.catchup_limit_ns / 2
                && self.may_ask_another(on, source, since) =>
            {
                mark(Mark::SourceLate);
                self.try_another(on, source);
            }
            _ => {}
        }
    }

    /// Who saves applies nothing, and may be slow without being dead. As long as it does, nobody else is asked whose saving would
    /// leave no majority that applies; where there is none as it is, another source can only help.
    fn may_ask_another<M: Memory>(&self, on: &Work<M>, source: NodeId, since: Instant) -> bool {
        let watch = &on.watches[source];
        let ended = source != self.here
            && watch.read_at() > since
            && watch.line().is_some_and(|line| line.flags & progress_flags::AWAY == 0);
        let others = self.counting(on).filter(|node| *node != source).count();
        ended || others != majority(on.configuration.voters())
    }

    /// The source lives, and was let go, perhaps because it applies nothing. It is asked again when it is back.
    fn follow_source_that_left<M: Memory>(
        &mut self,
        on: &mut Work<M>,
        source: NodeId,
        since: Instant,
        floor: Position,
    ) {
        if self.peers[source].is_in_window() {
            let sequence = self.next_sequence();
            self.peers[source].ask_save(on.now, sequence, self.lead.term, floor);
        } else if self.may_ask_another(on, source, since) {
            mark(Mark::SourceLeft);
            self.try_another(on, source);
        }
    }

    fn try_another<M: Memory>(&mut self, on: &mut Work<M>, source: NodeId) {
        self.ask_nothing_of_snapshots();
        self.lead.catchup.tried.add(source);
        self.ask_next(on);
    }

    // Those who need it.

    fn follow_targets<M: Memory>(&mut self, on: &mut Work<M>, about: About) {
        if !reaches(&about.point, on.base) {
            mark(Mark::Passed);
            self.ask_nothing_of_snapshots();
            return self.ask_next(on);
        }
        let mut waits = false;
        for node in self.lead.audience.nodes() {
            let needs = self.peers[node].need == Need::Some(Refusal::None);
            if !needs || !self.runs(on, node) || !on.links[node].is_up() {
                continue;
            }
            waits = true;
            let about = About { counts: self.peers[node].is_in_window(), ..about };
            if self.peers[node].asking_take() != Some(&about) {
                mark(Mark::TellsTarget);
                let sequence = self.next_sequence();
                self.peers[node].ask_take(on.now, sequence, self.lead.term, about);
            }
            let Some(said) = self.peers[node].answer().map(|(answer, _)| answer.verdict) else { continue };
            match said {
                verdict::GRANTED => {
                    mark(Mark::Done);
                    let peer = &mut self.peers[node];
                    peer.need = Need::Met;
                    peer.refused_at = on.now;
                    peer.ask_nothing();
                    if peer.state == FollowerState::Behind {
                        peer.turn(FollowerState::Asking);
                    }
                    self.lead.catchup.failures = 0;
                    self.lead.catchup.overruns = 0;
                    self.lead.catchup.tried = Audience::default();
                }
                verdict::LOST => {
                    mark(Mark::Lost);
                    return self.try_another(on, about.source);
                }
                verdict::TOO_OLD => {
                    mark(Mark::TargetWantsNewer);
                    // Nothing else says so, and the same would be offered again.
                    self.lead.catchup.above = Position(about.point.position.0.saturating_add(1));
                    self.note_refusal(on.now, node, Refusal::TooOld);
                }
                verdict::UNABLE => {
                    mark(Mark::TargetUnable);
                    self.note_refusal(on.now, node, Refusal::Unable);
                }
                _ => {}
            }
        }
        if !waits {
            // Nobody is left who may take this one.
            mark(Mark::Exhausted);
            self.end_attempt();
            self.rest(on, self.timing.repeat_ns);
        }
    }

    fn note_refusal(&mut self, now: Instant, node: NodeId, refusal: Refusal) {
        let peer = &mut self.peers[node];
        peer.need = Need::Some(refusal);
        peer.refused_at = now;
        peer.ask_nothing();
    }

    // The ring.

    /// Nothing from there on is recycled.
    fn hold(&mut self, position: Position) {
        if planted::is(Bug::HoldsNothing) {
            return;
        }
        self.lead.catchup.hold = Some(position);
        // What was reckoned without it may be too much.
        self.lead.limit = Position(0);
    }

    /// It was held for long enough: others have waited for it.
    fn let_ring_go<M: Memory>(&mut self, on: &Work<M>) {
        mark(Mark::LetRingGo);
        self.lead.catchup.hold = None;
        if let Stage::Saving { source, since, .. } = self.lead.catchup.stage {
            if !self.may_ask_another(on, source, since) {
                // What it saves may still do.
                return;
            }
            self.lead.catchup.tried.add(source);
        }
        self.end_attempt();
        let overruns = self.lead.catchup.overruns;
        self.rest(on, self.timing.catchup_limit_ns << overruns);
        self.lead.catchup.overruns = (overruns + 1).min(MAX_RING_DOUBLINGS);
    }

    /// Whoever could not catch up is there by now, or a member no more: the next one is not to wait for it. (That it merely is not
    /// seen to run would be too little: it may come back, and begin again.)
    fn forget_overruns<M: Memory>(&mut self, on: &Work<M>) {
        let others = self.lead.audience.nodes().filter(|node| *node != self.me.node);
        if self.lead.catchup.overruns > 0 && others.into_iter().all(|node| self.peers[node].is_in_window()) {
            self.lead.catchup.overruns = 0;
            self.rest(on, 0);
        }
    }

    fn rest<M: Memory>(&mut self, on: &Work<M>, pause: u64) {
        self.lead.catchup.stage = Stage::Resting { until: on.now.after(pause), asked: false };
    }

    fn end_attempt(&mut self) {
        self.ask_nothing_of_snapshots();
        self.lead.catchup.stage = Stage::Resting { until: Instant(0), asked: false };
    }

    fn ask_nothing_of_snapshots(&mut self) {
        for peer in self.peers.iter_mut() {
            if peer.is_asking_save() || peer.asking_take().is_some() {
                peer.ask_nothing();
            }
        }
    }
}

#[cfg(feature = "model")]
impl Catchup {
    pub(crate) fn canonical(&self, out: &mut impl Canonical) {
        let Catchup { stage, since, hold, above, tried, failures, overruns, own } = self;
        out.plain((hold, above, tried, failures, overruns, own));
        out.moment(*since);
        match *stage {
            Stage::Resting { until, asked } => {
                out.plain((0u8, asked));
                out.moment(until);
            }
            Stage::Saving { source, boot, since, floor } => {
                out.plain((1u8, source, boot, floor));
                out.moment(since);
            }
            Stage::Taking { about } => out.plain((2u8, about)),
        }
    }
}
