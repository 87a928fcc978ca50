//! The protocol core of Ringleader: bytes and completions go in, verbs and events come out.
//!
//! No thread, clock, socket, allocator or callback. docs/protocol.md is the normative description; section numbers in
//! comments are its.

#![no_std]

#[cfg(test)]
extern crate std;

pub mod crc;
pub mod event;
pub mod layout;
pub mod mem;
pub mod timing;
pub mod types;
pub mod verb;
