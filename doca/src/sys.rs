//! What bindgen has made of the SDK's headers, in OUT_DIR.

#![allow(
    unsafe_code,
    missing_docs,
    unreachable_pub,
    dead_code,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    reason = "made by a tool, of names and shapes that are not ours"
)]

include!(concat!(env!("OUT_DIR"), "/bindings.rs"));
