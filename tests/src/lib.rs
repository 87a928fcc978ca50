//! A deterministic simulator of one-sided memory that runs the production core, and the invariants it runs under.
//!
//! `fabric` is the memory and the network, `schedule` what goes wrong and when, `cluster` the nodes and their client,
//! `invariants` what must hold. A run is a function of its seed: no clock, no thread, no order of a hash table is in it.

pub mod application;
pub mod call;
pub mod client;
pub mod cluster;
pub mod directed;
pub mod fabric;
pub mod history;
pub mod invariants;
pub mod model;
mod recover;
pub mod rng;
pub mod run;
pub mod schedule;
pub mod seed;
mod storm;
pub mod story;
pub mod summary;
pub mod trace;
#[cfg(feature = "marks")]
pub mod transitions;
pub mod view;
mod words;
