//! Properties of all that reads bytes which others may have written: one function a property, fed with bytes.
//!
//! The bytes are choices: what stands in memory, what is asked, in which order. `tests/properties.rs` draws them at
//! random in every test run, `fuzz/` searches for them by coverage, and `found/<property>/` keeps those that once broke
//! one. Not here: faults of fabric and time, which are the simulator's.

mod choice;
mod entry;
#[path = "../../../core/tests/group/mod.rs"]
mod group;
mod inspect;
mod lines;
mod mailbox;
mod memory;
mod region;
mod replica;
mod walker;
mod wire;

pub use entry::judge;
pub use inspect::inspect;
pub use lines::lines;
pub use mailbox::mailbox;
pub use region::{region, region_header};
pub use replica::replica;
pub use walker::walker;
pub use wire::wire;
