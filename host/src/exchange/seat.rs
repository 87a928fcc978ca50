//! Who may be at the other end: a node, or, where host and acceptor are apart, the host of one. A node's seat has its number: what is
//! there then is the node, or its acceptor. Its host's has a number behind all of these.

use std::fmt;

use ringleader_core::types::NodeId;

const NODES: u8 = 16;

/// Seats, the first of which is nobody's.
pub(super) const SEATS: usize = 2 * NODES as usize;

/// The seat of a node's host.
pub fn host_of(node: NodeId) -> NodeId {
    NodeId(node.0 % NODES + NODES)
}

/// The node that a seat is of.
pub fn node_of(seat: NodeId) -> NodeId {
    NodeId(seat.0 % NODES)
}

/// Whether that is the seat of a node's host.
pub fn is_host(seat: NodeId) -> bool {
    seat.0 >= NODES
}

/// A seat as people read it.
pub(super) struct Named(pub(super) NodeId);

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match is_host(self.0) {
            true => write!(f, "the host of {}", node_of(self.0)),
            false => self.0.fmt(f),
        }
    }
}
