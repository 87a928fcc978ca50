//! Failure domains: what of a node can be lost while the rest of it goes on.
//!
//! Today a node is one process with acceptor, proposer and applier in it, and the registered memory that its NIC serves. The
//! process can end and leave the memory behind, for a while or for good, as shared memory does; the memory never ends
//! before its process, since it is the process's own. So nothing in this folder takes one for the other: who posts, arms
//! and fences is a [`Domain::Process`], whose memory is read, written and guarded by a gate is a [`Domain::Memory`].
//!
//! A run with DPUs will split the process in two: the host's (proposer, applier, staging ring, its own posting ends) and the
//! DPU's (acceptor, gates), each with a life of its own, over memory that lives as long as the DPU. Then `Home` gets two
//! owners, gates are stepped by the DPU's life and pipes by the host's, and [`super::Fabric::fail_domain`] two domains more.

/// A part of a node that fails as a whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Domain {
    /// What posts and answers: the process, with all that it had outstanding.
    Process,
    /// What is read and written by others: registered memory, and the ends of queue pairs at it.
    Memory,
}
