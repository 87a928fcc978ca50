//! The core through C: one node of a group in memory that the caller lends, fed with completions and the time. No thread, no
//! operating system, no allocator. A part of `libringleader`, and by itself a freestanding static library (`make freestanding`).
//!
//! What is exported here is named in `include/ringleader.h`, which also says by which rules it is called.

#![no_std]
#![allow(non_camel_case_types, reason = "types bear the names that C knows them by")]
#![expect(
    unsafe_code,
    reason = "the functions of this crate are called with C's pointers: each is checked in convert.rs, and the rest is the caller's word"
)]
#![allow(
    clippy::missing_safety_doc,
    reason = "the conventions on the first page of the header are those of all functions"
)]

#[cfg(test)]
extern crate std;

pub mod convert;
pub mod event;
#[cfg(feature = "freestanding")]
mod freestanding;
pub mod object;
pub mod status;
pub mod timing;
pub mod verb;
