//! The demo: real processes form a group, replicate entries, lose a node in mid-stream, and end with identical files.
//!
//! `plan` is checked first, `source` has the entries, `place` the directories. `run` is the story, told to the nodes of
//! `cluster` over `wire`; each of them is a `child` with a `keeper` as its state machine. The `client` keeps every entry
//! single (its head says why; `proposal` is what it writes before each). `reads` are read beside the stream, and checked.
//! `history` collects what happened, `verify` compares the files, `summary` and `picture` tell. With many groups the story is
//! that of `groups`, and `tally` tells.

pub mod child;
pub mod client;
pub mod cluster;
pub mod groups;
pub mod history;
pub mod keeper;
pub mod picture;
pub mod place;
pub mod plan;
pub mod proposal;
pub mod reads;
pub mod run;
pub mod source;
pub mod summary;
pub mod tally;
pub mod verify;
pub mod wire;

pub use plan::{BadInput, Carrier, Fault, Feed, Plan, Profile, Whom};
pub use run::{Error, Stage, run};
pub use summary::Summary;

/// Now, by the clock of the agents' events.
fn now_ns() -> u64 {
    crate::clock::now().0
}
