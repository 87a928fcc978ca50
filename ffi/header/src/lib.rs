//! Nothing: what makes and checks `include/ringleader.h` is a test (`tests/header.rs`).
