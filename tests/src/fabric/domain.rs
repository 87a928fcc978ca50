//! Failure domains: what of a node can be lost while the rest of it goes on.
//!
//! Today a node is one process with acceptor, proposer and applier in it, and the registered memory that its NIC serves. The
//! process can end and leave the memory behind, for a while or for good, as shared memory does; the memory never ends
//! before its process, since it is the process's own. So nothing in this folder takes one for the other: who posts, arms
//! and fences is a [`Domain::Process`], whose memory is read, written and guarded by a gate is a [`Domain::Memory`].
//!
//! Where hosts and acceptors are apart, each has a seat of its own: the host's with proposer, applier and staging ring, from which
//! all is posted to logs, and the acceptor's, which answers, arms and fences. Each has a life of its own, and memory.

/// A part of a node that fails as a whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Domain {
    /// What posts and answers: the process, with all that it had outstanding.
    Process,
    /// What is read and written by others: registered memory, and the ends of queue pairs at it.
    Memory,
}
