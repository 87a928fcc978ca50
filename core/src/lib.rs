//! The protocol core of Ringleader: bytes and completions go in, verbs and events come out.
//!
//! No thread, clock, socket, allocator or callback. docs/protocol.md is the normative description; section numbers in
//! comments are its.

#![no_std]

#[cfg(any(test, feature = "std"))]
extern crate std;

mod acceptor;
mod beat;
#[cfg(feature = "model")]
pub mod canonical;
pub mod crc;
mod detector;
pub mod entry;
pub mod event;
mod forming;
mod inbound;
mod inquiry;
pub mod layout;
mod link;
pub mod mailbox;
pub mod mark;
pub mod mem;
pub mod membership;
pub mod options;
pub mod planted;
pub mod proposer;
pub mod quorum;
pub mod read;
pub mod replica;
mod request;
mod rng;
mod roster;
pub mod snapshot;
mod table;
pub mod timing;
pub mod types;
pub mod verb;
pub mod walker;
mod watch;
