//! Directed schedules: what random ones rarely hit, told on purpose, each with a seed that varies its moments finely.
//!
//! One file each. They share the words of `story`; after the story all faults stop, and the group must get well.

mod back_in_office;
mod catching;
mod change_before_no_op;
mod comes_again;
mod completed_early;
mod fence_beat_vote;
mod follower_reads;
mod grow_and_shrink;
mod handed_over;
mod lease_to_its_end;
mod let_go_draining;
mod let_go_returns;
mod lost_memory;
mod nobody_runs;
mod old_suffix;
mod older_candidate;
mod paused_reader;
mod refused_vote;
mod slow_arming;
mod stands_again;
mod takeover_election;
mod takeover_wrap;
mod torn_beat;
mod two_changes;
mod yielding_beat;

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
    Directed { name: "nobody_runs", run: nobody_runs::run },
    Directed { name: "slow_arming", run: slow_arming::run },
    Directed { name: "back_in_office", run: back_in_office::run },
    Directed { name: "let_go_draining", run: let_go_draining::run },
    Directed { name: "refused_vote", run: refused_vote::run },
    Directed { name: "old_suffix", run: old_suffix::run },
    Directed { name: "older_candidate", run: older_candidate::run },
    Directed { name: "stands_again", run: stands_again::run },
    Directed { name: "yielding_beat", run: yielding_beat::run },
    Directed { name: "change_before_no_op", run: change_before_no_op::run },
    Directed { name: "two_changes", run: two_changes::run },
    Directed { name: "grow_and_shrink", run: grow_and_shrink::run },
    Directed { name: "lost_memory", run: lost_memory::run },
    Directed { name: "comes_again", run: comes_again::run },
    Directed { name: "paused_reader", run: paused_reader::run },
    Directed { name: "follower_reads", run: follower_reads::run },
    Directed { name: "handed_over", run: handed_over::run },
    Directed { name: "lease_to_its_end", run: lease_to_its_end::run },
    Directed { name: "torn_beat", run: torn_beat::run },
    Directed { name: "completed_early", run: completed_early::run },
    Directed { name: "catching", run: catching::run },
];

/// The one of that name.
pub fn named(name: &str) -> Option<&'static Directed> {
    ALL.iter().find(|directed| directed.name == name)
}
