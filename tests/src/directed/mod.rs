//! Directed schedules: what random ones rarely hit, told on purpose, each with a seed that varies its moments finely.
//!
//! One file each. They share the words of `story`; after the story all faults stop, and the group must get well.

mod fence_beat_vote;
mod let_go_returns;
mod older_candidate;
mod stands_again;
mod takeover_election;
mod takeover_wrap;

use crate::run::Outcome;

/// A directed schedule.
#[derive(Clone, Copy, Debug)]
pub struct Directed {
    /// What it is called.
    pub name: &'static str,
    /// Tells it as that seed varies it, and keeps the last lines of the story.
    pub run: fn(seed: u64, keep_trace: usize) -> Outcome,
}

/// All of them.
pub const ALL: &[Directed] = &[
    Directed { name: "fence_beat_vote", run: fence_beat_vote::run },
    Directed { name: "takeover_election", run: takeover_election::run },
    Directed { name: "takeover_wrap", run: takeover_wrap::run },
    Directed { name: "let_go_returns", run: let_go_returns::run },
    Directed { name: "older_candidate", run: older_candidate::run },
    Directed { name: "stands_again", run: stands_again::run },
];

/// The one of that name.
pub fn named(name: &str) -> Option<&'static Directed> {
    ALL.iter().find(|directed| directed.name == name)
}
