//! The host side of Ringleader.

pub mod fabric;
