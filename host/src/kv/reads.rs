//! Reads on their way: gathered, asked for together, and made when this node is known to have applied all that was acknowledged.

use std::collections::VecDeque;
use std::mem;
use std::time::{Duration, Instant};

use super::batch::Batch;
use crate::{Read, ReadFailure, ReadOutcome, Reader, Ticket};

/// How long reads are asked for again when nobody answers.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// A read's place in the queue of a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
    pub(super) client: u64,
    pub(super) slot: u64,
}

/// Reads that were asked for together.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) commands: Batch,
    pub(super) places: Vec<Place>,
    /// An entry of this number is to be through before: it makes keys end that are over.
    pub(super) behind: Option<u64>,
    /// What is in doubt up to this number, and not applied, is not in the log when this is ready.
    pub(super) settles: Option<u64>,
    since: Instant,
    stage: Stage,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// To be asked for.
    New,
    Waits {
        ticket: Ticket,
        how: Read,
    },
    Ready,
    Failed(Failure),
}

/// Why reads are not made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Failure {
    NotFormed,
    /// Nobody answered in time.
    Patience(Option<ReadFailure>),
}

/// See the head of this file.
#[derive(Debug)]
pub(super) struct Reads {
    reader: Reader,
    gathered: Batch,
    places: Vec<Place>,
    asked: VecDeque<Asked>,
}

impl Reads {
    pub(super) fn new(reader: Reader) -> Reads {
        Reads { reader, gathered: Batch::new(), places: Vec::new(), asked: VecDeque::new() }
    }

    /// Takes a read in.
    pub(super) fn push(&mut self, args: &[&[u8]], place: Place) {
        self.gathered.push(args);
        self.places.push(place);
    }

    /// Bytes of reads that were not asked for yet.
    pub(super) fn gathered_len(&self) -> usize {
        self.gathered.len()
    }

    /// Whether something is to be asked for again: after a moment, and nothing will ring for that.
    pub(super) fn any_again(&self) -> bool {
        self.asked.iter().any(|asked| asked.stage == Stage::New)
    }

    /// Asks for what was gathered, and again for what failed.
    pub(super) fn ask(&mut self, how: Read, behind: Option<u64>) {
        if !self.gathered.is_empty() {
            let commands = mem::replace(&mut self.gathered, Batch::new());
            let places = mem::take(&mut self.places);
            self.asked.push_back(Asked::new(commands, places, behind, None));
        }
        for asked in self.asked.iter_mut().filter(|asked| asked.stage == Stage::New) {
            // Only a follower's read is sure to be answered by a leader who came after.
            let how = if asked.settles.is_some() { Read::Follower } else { how };
            let Ok(ticket) = self.reader.ask(how) else { break };
            asked.stage = Stage::Waits { ticket, how };
        }
    }

    /// Begins to find out about what is in doubt up to this number, unless that is being found out.
    pub(super) fn settle(&mut self, number: u64) {
        if !self.asked.iter().any(|asked| asked.settles >= Some(number)) {
            self.asked.push_back(Asked::new(Batch::new(), Vec::new(), None, Some(number)));
        }
    }

    /// Looks which have ended. What is ready may be made when all that has been handed over by now is applied.
    pub(super) fn poll(&mut self, now: Instant) {
        while let Some((ticket, outcome)) = self.reader.poll() {
            let is_it = |asked: &&mut Asked| matches!(asked.stage, Stage::Waits { ticket: theirs, .. } if theirs == ticket);
            let Some(asked) = self.asked.iter_mut().find(is_it) else { continue };
            let failure = match outcome {
                ReadOutcome::Ready { .. } => {
                    asked.stage = Stage::Ready;
                    continue;
                }
                ReadOutcome::NotFormed if asked.settles.is_none() => {
                    asked.stage = Stage::Failed(Failure::NotFormed);
                    continue;
                }
                ReadOutcome::Failed(failure) => Some(failure),
                // The lead was lost meanwhile: it is asked for in another way.
                _ => None,
            };
            asked.stage = if now.saturating_duration_since(asked.since) < PATIENCE {
                Stage::New
            } else {
                Stage::Failed(Failure::Patience(failure))
            };
        }
    }

    /// The next reads that have ended well or badly, in the order in which they came; `is_through` tells of an entry whether it is
    /// through.
    pub(super) fn take_ended(
        &mut self,
        is_through: impl Fn(u64) -> bool,
    ) -> Option<(Asked, Result<(), Failure>)> {
        let front = self.asked.front()?;
        let result = match front.stage {
            Stage::Ready if front.behind.is_none_or(is_through) => Ok(()),
            Stage::Failed(failure) => Err(failure),
            Stage::Ready | Stage::New | Stage::Waits { .. } => return None,
        };
        self.asked.pop_front().map(|asked| (asked, result))
    }
}

impl Asked {
    fn new(commands: Batch, places: Vec<Place>, behind: Option<u64>, settles: Option<u64>) -> Asked {
        Asked { commands, places, behind, settles, since: Instant::now(), stage: Stage::New }
    }
}
