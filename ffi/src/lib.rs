//! `libringleader`: the library for C and C++. What C sees of it is `include/ringleader.h`, which is made of this crate and of
//! `ringleader-acceptor`; the conventions stand there (`ffi/cbindgen.toml`).
//!
//! Each function checks what it is given (`convert`, `table`), and lets no panic out (`guard`). A handle is a number that looks like a
//! pointer and is never followed (`table`): closed, foreign and reused ones are told apart, whatever they are.

#![allow(non_camel_case_types, reason = "types bear the names that C knows them by")]
#![allow(
    clippy::missing_safety_doc,
    reason = "the conventions on the first page of the header are those of all functions"
)]
#![expect(
    unsafe_code,
    reason = "the functions of this crate are called with C's pointers: each is checked in convert.rs, and the rest is the caller's word"
)]

// Its functions are a part of this library.
pub use ringleader_acceptor::{event, object, status, timing, verb};

pub mod agent;
pub mod application;
pub mod group;
pub mod guard;
pub mod lane;
pub mod log;
pub mod node;
pub mod options;
pub mod reader;
mod table;
pub mod version;
