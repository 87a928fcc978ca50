//! Commit latency beside its floor, and that of quorum reads: in the leader's own agent, with one outstanding.
//!
//! A sample of a commit has nothing between its two looks at the clock but what a commit needs; ticks, beats and applying go
//! on between samples. Every other proposal is a sample of the floor instead: its WRITEs, the same bytes to the same
//! followers, are posted bare, to all of them, and the clock stops when the first completions make a majority. (A commit
//! may be told before the last WRITE is posted, and then be shorter than its floor.) The two take turns, because a shared
//! machine changes under one's feet, and a follower that looks at its memory makes it slower to write. Of a read the floor
//! is the same READs of promises, bare.

use std::sync::mpsc::Sender;

use hdrhistogram::Histogram;
use ringleader_core::mem::Memory;
use ringleader_core::read::{Read, ReadError};
use ringleader_core::replica::ProposeError;
use ringleader_core::types::{Index, Instant, MAX_NODES, Term};
use ringleader_core::verb::{Class, Status, Verb};

use crate::agent::Agent;
use crate::app::StateMachine;
use crate::clock;
use crate::errors::MeasureError;
use crate::fabric::Fabric;

/// Latencies of one closed loop with one proposal outstanding, and of the bare writes under it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Measurement {
    /// From `propose` to committed, in the leader's agent, in nanoseconds; with the wait for room, where there was none.
    pub commit_ns: Histogram<u64>,
    /// The same bytes written to the same followers by bare fabric writes, until a majority has them with the leader's own
    /// copy, in nanoseconds: a sample after every commit.
    pub floor_ns: Histogram<u64>,
}

/// Latencies of one closed loop with one quorum read outstanding, and of the bare READs under it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ReadMeasurement {
    /// From `read` to ready, in the leader's agent, in nanoseconds.
    pub read_ns: Histogram<u64>,
    /// The same promises of the same nodes by bare fabric READs, until a majority is there with the leader's own, in
    /// nanoseconds: a sample after every read.
    pub floor_ns: Histogram<u64>,
}

/// Who waits for the result, and what is measured.
enum Reply {
    Commits(Sender<Result<Measurement, MeasureError>>),
    Reads(Sender<Result<ReadMeasurement, MeasureError>>),
}

impl Reply {
    fn send(&self, result: Result<Measurement, MeasureError>) {
        // Who asked may have stopped waiting.
        match self {
            Reply::Commits(reply) => drop(reply.send(result)),
            Reply::Reads(reply) => drop(reply.send(result.map(|measured| ReadMeasurement {
                read_ns: measured.commit_ns,
                floor_ns: measured.floor_ns,
            }))),
        }
    }
}

/// Latencies up to this are told apart; a sample above it counts as this.
const HIGHEST_NS: u64 = 60_000_000_000;
/// Looks at the fabric in one sample before the agent's other duties get their turn.
const PATIENCE: u32 = 2_000;
/// Samples taken before the agent's other duties get their turn.
const SAMPLES_A_ROUND: usize = 16;
/// Rounds that what is on its way between two samples gets to end.
const SETTLE: usize = 8;
/// A measurement without a new sample for this long has failed.
const STALLED_NS: u64 = 5_000_000_000;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Commit,
    Floor,
}

/// The proposal on its way.
#[derive(Clone, Copy)]
struct Outstanding {
    term: Term,
    index: Index,
    since: Instant,
    /// Of what it is a sample.
    phase: Phase,
}

/// A measurement under way.
pub(crate) struct Measuring {
    phase: Phase,
    /// Samples still to take, of both kinds.
    left: usize,
    payload: Box<[u8]>,
    /// The proposal on its way, and when it was made.
    outstanding: Option<Outstanding>,
    /// When the next proposal was first refused, for there was no room.
    refused_at: Option<Instant>,
    /// How long proposals have waited for room since the last sample of a commit.
    waited_ns: u64,
    sampled_at: Instant,
    result: Measurement,
    reply: Reply,
}

impl Measuring {
    /// A commit was reported: the proposal on its way may be among it.
    #[inline]
    pub(crate) fn handle_commit(&mut self, term: Term, index: Index) {
        if let Some(outstanding) = self.outstanding
            && outstanding.term == term
            && outstanding.index <= index
        {
            let now = clock::now();
            self.outstanding = None;
            if outstanding.phase == Phase::Commit {
                let waited_ns = std::mem::take(&mut self.waited_ns);
                self.result.commit_ns.saturating_record(waited_ns + now.since(outstanding.since));
                self.sampled(now);
            }
        }
    }

    /// Reads are ready: the one on its way may be among them.
    #[inline]
    pub(crate) fn handle_read(&mut self, how: Read, number: u64) {
        if how == Read::Quorum && self.measures_reads() {
            self.handle_commit(Term(0), Index(number));
        }
    }

    fn measures_reads(&self) -> bool {
        matches!(self.reply, Reply::Reads(_))
    }

    /// The lead is lost.
    pub(crate) fn handle_gave_up(&mut self) {
        self.outstanding = None;
    }

    fn sampled(&mut self, now: Instant) {
        self.sampled_at = now;
        self.left -= 1;
        self.phase = match self.phase {
            Phase::Commit => Phase::Floor,
            Phase::Floor => Phase::Commit,
        };
    }
}

impl<M: Memory + Clone + Send + 'static, F: Fabric, S: StateMachine> Agent<M, F, S> {
    pub(crate) fn start_measuring(
        &mut self,
        samples: usize,
        size: usize,
        reply: Sender<Result<Measurement, MeasureError>>,
    ) {
        self.begin_measuring(samples, size, Reply::Commits(reply));
    }

    pub(crate) fn start_measuring_reads(
        &mut self,
        samples: usize,
        reply: Sender<Result<ReadMeasurement, MeasureError>>,
    ) {
        self.begin_measuring(samples, 0, Reply::Reads(reply));
    }

    fn begin_measuring(&mut self, samples: usize, size: usize, reply: Reply) {
        let histogram = || Histogram::new_with_bounds(1, HIGHEST_NS, 3).expect("these bounds are valid");
        let refused = if self.measuring.is_some() {
            Some(MeasureError::Busy)
        } else if size > self.max_payload {
            Some(MeasureError::TooLarge { max: self.max_payload })
        } else {
            None
        };
        if let Some(error) = refused {
            reply.send(Err(error));
            return;
        }
        let samples = samples.max(1);
        self.measuring = Some(Box::new(Measuring {
            phase: Phase::Commit,
            left: 2 * samples,
            payload: vec![0; size].into_boxed_slice(),
            outstanding: None,
            refused_at: None,
            waited_ns: 0,
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
            _ if measuring.outstanding.is_some() => Ok(()),
            Phase::Commit => self.propose_sample(&mut measuring),
            Phase::Floor => self.sample_floor(&mut measuring),
        };
        let outstanding = measuring.outstanding;
        self.measuring = Some(measuring);
        if let Some(outstanding) = outstanding {
            if outstanding.phase == Phase::Floor {
                self.tell(outstanding.since);
            }
            self.await_commit(outstanding.since);
        }
        let Some(measuring) = &self.measuring else { return };
        let stalled = clock::now().since(measuring.sampled_at) > STALLED_NS;
        let end = match end {
            Err(error) => Err(error),
            Ok(()) if stalled => Err(MeasureError::Timeout),
            Ok(()) if measuring.left == 0 => Ok(measuring.result.clone()),
            Ok(()) => return,
        };
        measuring.reply.send(end);
        self.measuring = None;
    }

    /// Makes the next proposal, or asks for the next read.
    fn propose_sample(&mut self, measuring: &mut Measuring) -> Result<(), MeasureError> {
        let since = clock::now();
        if measuring.measures_reads() {
            return match self.replica.read(since, Read::Quorum) {
                Ok(ticket) => {
                    let (term, index, phase) = (Term(0), Index(ticket.number), measuring.phase);
                    measuring.outstanding = Some(Outstanding { term, index, since, phase });
                    Ok(())
                }
                Err(ReadError::NotLeader { .. }) => Err(MeasureError::NotLeader),
                Err(_) => Ok(()),
            };
        }
        match self.replica.propose(since, &measuring.payload) {
            Ok(ticket) => {
                if let Some(refused_at) = measuring.refused_at.take() {
                    measuring.waited_ns += since.since(refused_at);
                }
                measuring.outstanding = Some(Outstanding {
                    term: ticket.term,
                    index: ticket.index,
                    since,
                    phase: measuring.phase,
                });
                Ok(())
            }
            Err(ProposeError::NotLeader { .. }) => Err(MeasureError::NotLeader),
            // No room until followers were seen to have applied: the next round may find some.
            Err(_) => {
                measuring.refused_at.get_or_insert(since);
                Ok(())
            }
        }
    }

    /// The inner loop: post, reap, tell, and nothing else, until the commit or until patience ends.
    fn await_commit(&mut self, since: Instant) {
        // The time of the proposal is still good enough for what completes at once.
        let mut now = since;
        for _ in 0..PATIENCE {
            let verb = self.replica.poll_verb();
            match &verb {
                Some(verb) => self.fabric.post(verb),
                None => self.fabric.ring(),
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

    /// Makes the next proposal, or read, and carries its WRITEs, or READs, out bare; the core hears of them afterwards, and commits it.
    fn sample_floor(&mut self, measuring: &mut Measuring) -> Result<(), MeasureError> {
        self.propose_sample(measuring)?;
        if measuring.outstanding.is_none() {
            return Ok(());
        }
        let mut verbs = [None::<Verb>; 2 * MAX_NODES];
        let mut polled = 0;
        while polled < verbs.len()
            && let Some(verb) = self.replica.poll_verb()
        {
            verbs[polled] = Some(verb);
            polled += 1;
        }
        let class = if measuring.measures_reads() { Class::Progress } else { Class::Entries };
        let is_entry = |verb: &&Verb| verb.id().class == class;
        let written = verbs.iter().flatten().filter(is_entry).count();
        let enough = self.replica.configuration().voters() / 2;
        let mut held = self.done;
        let (mut count, mut good) = (0, 0);
        let since = clock::now();
        for verb in verbs.iter().flatten().filter(is_entry) {
            self.fabric.post(verb);
        }
        self.fabric.ring();
        for _ in 0..PATIENCE {
            let reaped = self.fabric.reap(&mut held[count..]);
            let new = &held[count..count + reaped];
            good +=
                new.iter().filter(|done| done.id.class == class && done.status == Status::Success).count();
            count += reaped;
            if good >= enough.min(written) || count == held.len() {
                break;
            }
        }
        let now = clock::now();
        for verb in verbs.iter().flatten().filter(|verb| !is_entry(verb)) {
            self.fabric.post(verb);
        }
        for done in &held[..count] {
            self.replica.handle_completion(now, *done);
        }
        // With a follower on its way back into the window it is a proposal like any other.
        if written >= enough && good >= enough {
            measuring.result.floor_ns.saturating_record(now.since(since));
            measuring.sampled(now);
        }
        Ok(())
    }
}
