//! `placement = "host"`: the log of a node lies in its host's memory. The host exports it and offers it to the acceptor on its DPU
//! (`lend`); that imports it (`borrow`), hands out the keys to it, and is the one who can shut a writer out. They tell each other of it
//! over DOCA's channel, which is there before any network is, each that it means the same node (`about`).
//!
//! A loan is for one life of both. A host that comes again has other memory: its acceptor has lost its log, and ends. An acceptor that
//! comes again has no log: its former one's host ends. Not here: what is done with the memory (`fabric::verbs`).

#[cfg(feature = "doca")]
mod about;
#[cfg(feature = "doca")]
mod borrow;
#[cfg(feature = "doca")]
mod doca;
#[cfg(feature = "doca")]
mod lend;
#[cfg(all(test, stand_in))]
mod tests;
#[cfg(not(feature = "doca"))]
mod without;

#[cfg(not(feature = "doca"))]
pub(crate) use without::{Borrowed, Watch, borrow, lend};
#[cfg(feature = "doca")]
pub(crate) use {borrow::Borrowed, borrow::Watch, borrow::borrow, lend::lend};

use crate::config::{Config, Placement};

/// Whether the log of this node is to be in its host's memory.
fn is_asked(config: &Config) -> bool {
    config.dpu.as_ref().is_some_and(|dpu| dpu.placement == Placement::Host)
}
