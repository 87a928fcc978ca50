//! Commit latency beside its floor: in the leader's own agent, with one proposal outstanding.
//!
//! A sample has nothing between its two looks at the clock but what a commit needs; ticks, beats and applying go on
//! between samples. The floor is the same bytes written to the same places of the same followers by bare writes of the
//! same fabric, awaited until a majority has them: every entry is written once more, a little later, when followers have
//! read it (an entry written again and again would stay in the nearest cache). Commits and floor take turns, because a
//! shared machine changes under one's feet, and a follower that looks at its memory makes it slower to write.

use std::collections::VecDeque;
use std::sync::mpsc::Sender;

use hdrhistogram::Histogram;
use ringleader_core::entry::slot_len;
use ringleader_core::mem::Memory;
use ringleader_core::replica::ProposeError;
use ringleader_core::types::{Index, Instant, MAX_NODES, NodeId, Position, Term};
use ringleader_core::verb::{Status, Verb};

use crate::agent::Agent;
use crate::app::StateMachine;
use crate::clock;
use crate::errors::MeasureError;
use crate::fabric::Fabric;

/// Latencies of one closed loop with one proposal outstanding, and of the bare writes under it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Measurement {
    /// From `propose` to committed, in the leader's agent, in nanoseconds.
    pub commit_ns: Histogram<u64>,
    /// The same bytes written to the same followers by bare fabric writes, until a majority has them, in nanoseconds: a
    /// sample after every commit.
    pub floor_ns: Histogram<u64>,
}

/// Latencies up to this are told apart; a sample above it counts as this.
const HIGHEST_NS: u64 = 60_000_000_000;
/// Looks at the fabric in one sample before the agent's other duties get their turn.
const PATIENCE: u32 = 2_000;
/// The floor writes the entry of so many commits ago: a millisecond or more, in which followers have read it, and enough
/// bytes to leave the nearest cache, as the lines of a new entry are not in it either.
const AGO: usize = 4096;
/// Samples taken before the agent's other duties get their turn.
const SAMPLES_A_ROUND: usize = 16;
/// Rounds that what is on its way between two samples gets to end.
const SETTLE: usize = 8;
/// A measurement without a new sample for this long has failed.
const STALLED_NS: u64 = 5_000_000_000;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// Commits that are not counted: something for the floor to write again.
    Warm,
    Commit,
    Floor,
}

/// A measurement under way.
pub(crate) struct Measuring {
    phase: Phase,
    /// Still to take in this phase.
    left: usize,
    samples: usize,
    payload: Box<[u8]>,
    /// The proposal on its way, and when it was made.
    outstanding: Option<(Term, Index, Instant)>,
    /// Where the newest entries stand, oldest first; the floor writes the oldest.
    places: VecDeque<Position>,
    ago: usize,
    sampled_at: Instant,
    result: Measurement,
    reply: Sender<Result<Measurement, MeasureError>>,
}

impl Measuring {
    /// A commit was reported: the proposal on its way may be among it.
    #[inline]
    pub(crate) fn handle_commit(&mut self, term: Term, index: Index, position: Position) {
        if let Some((of, wanted, since)) = self.outstanding
            && of == term
            && wanted <= index
        {
            let now = clock::now();
            self.outstanding = None;
            if self.phase == Phase::Commit {
                self.result.commit_ns.saturating_record(now.since(since));
            }
            if wanted == index {
                if self.places.len() >= self.ago {
                    self.places.pop_front();
                }
                self.places.push_back(Position(position.0 - slot_len(self.payload.len())));
            }
            self.sampled(now);
        }
    }

    /// The lead is lost.
    pub(crate) fn handle_gave_up(&mut self) {
        self.outstanding = None;
    }

    fn sampled(&mut self, now: Instant) {
        self.sampled_at = now;
        self.left -= 1;
        self.phase = match self.phase {
            Phase::Warm if self.left > 0 => Phase::Warm,
            Phase::Warm => {
                self.left = 2 * self.samples;
                Phase::Commit
            }
            Phase::Commit => Phase::Floor,
            Phase::Floor => Phase::Commit,
        };
    }
}

impl<M: Memory, F: Fabric, S: StateMachine> Agent<M, F, S> {
    pub(crate) fn start_measuring(
        &mut self,
        samples: usize,
        size: usize,
        reply: Sender<Result<Measurement, MeasureError>>,
    ) {
        let histogram = || Histogram::new_with_bounds(1, HIGHEST_NS, 3).expect("these bounds are valid");
        let refused = if self.measuring.is_some() {
            Some(MeasureError::Busy)
        } else if size > self.max_payload {
            Some(MeasureError::TooLarge { max: self.max_payload })
        } else {
            None
        };
        if let Some(error) = refused {
            // Who asked may have stopped waiting.
            let _ = reply.send(Err(error));
            return;
        }
        let samples = samples.max(1);
        // As many as are certain to be in the ring.
        let ago = AGO.min(self.max_payload / slot_len(size) as usize).max(1);
        self.measuring = Some(Box::new(Measuring {
            phase: Phase::Warm,
            left: ago,
            samples,
            payload: vec![0; size].into_boxed_slice(),
            outstanding: None,
            places: VecDeque::with_capacity(ago),
            ago,
            sampled_at: clock::now(),
            result: Measurement { commit_ns: histogram(), floor_ns: histogram() },
            reply,
        }));
    }

    /// Takes some samples; what falls due meanwhile waits for a few microseconds.
    pub(crate) fn measure(&mut self) {
        for _ in 0..SAMPLES_A_ROUND {
            self.measure_once();
            if self.measuring.as_ref().is_none_or(|measuring| measuring.outstanding.is_some()) {
                return;
            }
        }
    }

    /// Takes one sample, or goes on waiting for it.
    fn measure_once(&mut self) {
        self.settle();
        let Some(mut measuring) = self.measuring.take() else { return };
        let end = match measuring.phase {
            Phase::Warm | Phase::Commit => self.propose_sample(&mut measuring),
            Phase::Floor => self.sample_floor(&mut measuring),
        };
        let outstanding = measuring.outstanding;
        self.measuring = Some(measuring);
        if let Some((.., since)) = outstanding {
            self.await_commit(since);
        }
        let Some(measuring) = &self.measuring else { return };
        let stalled = clock::now().since(measuring.sampled_at) > STALLED_NS;
        let end = match end {
            Err(error) => Err(error),
            Ok(()) if stalled => Err(MeasureError::Timeout),
            Ok(()) if measuring.left == 0 && measuring.phase != Phase::Warm => Ok(measuring.result.clone()),
            Ok(()) => return,
        };
        // Who asked may have stopped waiting.
        let _ = measuring.reply.send(end);
        self.measuring = None;
    }

    /// Makes the next proposal unless one is on its way.
    fn propose_sample(&mut self, measuring: &mut Measuring) -> Result<(), MeasureError> {
        if measuring.outstanding.is_some() {
            return Ok(());
        }
        let since = clock::now();
        match self.replica.propose(since, &measuring.payload) {
            Ok(ticket) => {
                measuring.outstanding = Some((ticket.term, ticket.index, since));
                Ok(())
            }
            Err(ProposeError::NotLeader { .. }) => Err(MeasureError::NotLeader),
            // No room until followers were seen to have applied: the next round may find some.
            Err(_) => Ok(()),
        }
    }

    /// The inner loop: post, reap, tell, and nothing else, until the commit or until patience ends.
    fn await_commit(&mut self, since: Instant) {
        // The time of the proposal is still good enough for what completes at once.
        let mut now = since;
        for _ in 0..PATIENCE {
            let verb = self.replica.poll_verb();
            if let Some(verb) = &verb {
                self.fabric.post(verb);
            }
            if self.reap(now) {
                self.tell(now);
                if self.measuring.as_ref().is_none_or(|measuring| measuring.outstanding.is_none()) {
                    return;
                }
            }
            if verb.is_none() {
                now = clock::now();
            }
        }
    }

    /// Lets everything that is on its way end, so that none of it falls into the next sample.
    fn settle(&mut self) {
        for _ in 0..SETTLE {
            let now = clock::now();
            let posted = self.post_verbs(now);
            if !self.reap(now) && !posted {
                return;
            }
            self.tell(now);
        }
    }

    /// Writes the next of the newest entries once more to every follower in window, and waits until enough have it for a
    /// majority with the leader's own copy; then, untimed, for the others.
    fn sample_floor(&mut self, measuring: &mut Measuring) -> Result<(), MeasureError> {
        let len = slot_len(measuring.payload.len()) as u32;
        let place = measuring.places.front().copied();
        // Nothing was committed in the warm-up but together with others: there is no entry to write.
        let Some(place) = place else { return Err(MeasureError::Timeout) };
        let mut verbs = [None::<Verb>; MAX_NODES + 1];
        let mut written = 0;
        for peer in 1..=MAX_NODES as u8 {
            verbs[usize::from(peer)] = self.replica.probe_write(NodeId(peer), place, len);
            written += usize::from(verbs[usize::from(peer)].is_some());
        }
        let enough = self.members / 2;
        let (mut ended, mut good, mut elapsed) = (0, 0, None);
        let since = clock::now();
        for verb in verbs.iter().flatten() {
            self.fabric.post(verb);
        }
        for _ in 0..PATIENCE {
            let count = self.fabric.reap(&mut self.done);
            for done in &self.done[..count] {
                // A straggler of a sample that ran out of patience is none of this one.
                if verbs[done.id.peer.slot() & MAX_NODES].is_some_and(|verb| verb.id() == done.id) {
                    ended += 1;
                    good += usize::from(done.status == Status::Success);
                }
            }
            if elapsed.is_none() && good >= enough {
                elapsed = Some(clock::now().since(since));
            }
            if count > 0 {
                let now = clock::now();
                for done in &self.done[..count] {
                    self.replica.handle_completion(now, *done);
                }
            }
            if ended >= written {
                break;
            }
        }
        match elapsed {
            Some(ns) if written >= enough && enough > 0 => {
                measuring.result.floor_ns.saturating_record(ns);
                measuring.sampled(clock::now());
                Ok(())
            }
            _ if !self.leads() => Err(MeasureError::NotLeader),
            // A follower is on its way back into the window: a later round finds it there.
            _ => Ok(()),
        }
    }
}
