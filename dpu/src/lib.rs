//! The DPU's side of Ringleader: the acceptor of a node whose host is another machine, though it sits in the same box.
//!
//! It votes, fences and holds the log, whether its host lives or not. That is done by the core and the fabrics of the `ringleader`
//! crate, as in a node that is one process; here is what only a DPU has: the [`mode`] that its firmware is in, and the [`fence`]
//! that cuts a host off.

pub mod cli;
pub mod fence;
pub mod mode;
