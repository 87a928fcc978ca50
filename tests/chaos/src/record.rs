//! What clients asked and were told, and when: all that a client can hold against the group.

use std::sync::atomic::{AtomicU64, Ordering};

use ringleader_tests::invariants::linearizability::Moment;

use crate::list::Command;
use crate::wire::How;

/// Orders what all clients do. A moment taken after another is greater.
#[derive(Debug, Default)]
pub struct Moments(AtomicU64);

impl Moments {
    /// The next one.
    pub fn next(&self) -> Moment {
        self.0.fetch_add(1, Ordering::SeqCst) + 1
    }
}

/// One attempt to have a command done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Attempt {
    /// What was to be done.
    pub command: Command,
    /// When a node was asked.
    pub invoked: Moment,
    /// When it said that this is committed, and as which entry.
    pub acknowledged: Option<(Moment, u64)>,
    /// By which entry it said the command took effect.
    pub effect: Option<u64>,
}

/// A look at the state of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Look {
    /// Which node.
    pub node: u8,
    /// How it was asked.
    pub how: How,
    /// When it was.
    pub invoked: Moment,
    /// When it answered.
    pub answered: Moment,
    /// The last entry that it had applied.
    pub saw: u64,
    /// Of all entries up to there.
    pub digest: u64,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// All attempts.
    pub attempts: Vec<Attempt>,
    /// All reads that were answered.
    pub looks: Vec<Look>,
    /// Reads that were answered otherwise than with the state.
    pub not_read: u64,
    /// Answers that no node may give, in words.
    pub wrong: Vec<String>,
}

impl Record {
    /// Takes what another client recorded.
    pub fn add(&mut self, other: Record) {
        self.attempts.extend(other.attempts);
        self.looks.extend(other.looks);
        self.not_read += other.not_read;
        self.wrong.extend(other.wrong);
    }

    /// How many attempts were acknowledged.
    pub fn acknowledged(&self) -> usize {
        self.attempts.iter().filter(|attempt| attempt.acknowledged.is_some()).count()
    }

    /// How many reads were answered like that.
    pub fn answered(&self, how: How) -> usize {
        self.looks.iter().filter(|look| look.how == how).count()
    }
}
