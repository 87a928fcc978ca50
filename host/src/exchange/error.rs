//! What can be wrong between two nodes, and with starting an exchange. Every text is one line and names both values.

use std::error::Error;
use std::net::SocketAddr;
use std::{fmt, io};

use ringleader_core::options::Half;
use ringleader_core::types::NodeId;

use super::identity::GroupName;

/// Why two nodes did not meet, or do not any more. Small and without memory of its own, so that handing it over costs
/// nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum MeetError {
    /// The peer did not want to meet, or could not, in time.
    Timeout,
    /// The peer's address could not be called.
    Unreachable(io::ErrorKind),
    /// The name in the peer's address has no address.
    Unresolved,
    /// The other end closed the connection.
    Closed,
    /// Nothing came from the other end for too long.
    Silent,
    /// The connection broke.
    Broken(io::ErrorKind),
    /// The other end has another key.
    Key,
    /// The other end speaks, but no Ringleader.
    NotANode,
    /// The other end speaks another version of the exchange.
    Version {
        /// This end's.
        ours: u8,
        /// The other's.
        theirs: u8,
    },
    /// A message with the right key that makes no sense.
    Malformed,
    /// The node that answered is not the one that was called.
    Node {
        /// Who was called.
        expected: NodeId,
        /// Who answered.
        found: NodeId,
    },
    /// The node that called is no member by this node's configuration, or should have waited to be called.
    NotAMember {
        /// Who called.
        node: NodeId,
    },
    /// The other end says that it is this very node, or has this node's boot or incarnation.
    Same {
        /// Who it says it is.
        node: NodeId,
    },
    /// The two are no parts that belong together: two hosts, two acceptors of one node, or a part of a node that is whole there.
    Halves {
        /// Which node it says it is.
        node: NodeId,
        /// What this is.
        ours: Half,
        /// What that is.
        theirs: Half,
    },
    /// The group has another name there.
    GroupName {
        /// Here.
        ours: GroupName,
        /// There.
        theirs: GroupName,
    },
    /// Another layout of memory.
    Layout {
        /// Here.
        ours: u32,
        /// There.
        theirs: u32,
    },
    /// Another length of rings.
    RingLen {
        /// Here.
        ours: u64,
        /// There.
        theirs: u64,
    },
    /// Another largest entry.
    MaxEntry {
        /// Here.
        ours: u64,
        /// There.
        theirs: u64,
    },
    /// The other half of this node has room for other snapshots.
    SnapshotLen {
        /// Here.
        ours: u64,
        /// There.
        theirs: u64,
    },
    /// Both are formed, and not into the same group.
    Group {
        /// Here.
        ours: u128,
        /// There.
        theirs: u128,
    },
    /// The same start of a process came with two incarnations.
    Inconsistent,
}

impl MeetError {
    /// Whether trying again cannot help until somebody mends a configuration.
    pub fn is_lasting(&self) -> bool {
        !matches!(
            self,
            MeetError::Timeout
                | MeetError::Unreachable(_)
                | MeetError::Unresolved
                | MeetError::Closed
                | MeetError::Silent
                | MeetError::Broken(_)
        )
    }
}

impl fmt::Display for MeetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MeetError::Timeout => f.write_str("it did not want to meet in time"),
            MeetError::Unreachable(kind) => write!(f, "its address cannot be reached: {kind}"),
            MeetError::Unresolved => f.write_str("the name in its address has no address"),
            MeetError::Closed => f.write_str("it closed the connection"),
            MeetError::Silent => f.write_str("it has been silent for too long"),
            MeetError::Broken(kind) => write!(f, "the connection broke: {kind}"),
            MeetError::Key => f.write_str("it has another key: compare the key files of both nodes"),
            MeetError::NotANode => f.write_str("what answers there is no Ringleader node"),
            MeetError::Version { ours, theirs } => {
                write!(f, "it speaks version {theirs} of the exchange, and this node version {ours}")
            }
            MeetError::Malformed => f.write_str("it sent a message that makes no sense"),
            MeetError::Node { expected, found } => {
                write!(f, "node {expected} was called, and node {found} answered: compare the addresses")
            }
            MeetError::NotAMember { node } => {
                write!(
                    f,
                    "it says that it is node {node}, which does not call this node by its configuration"
                )
            }
            MeetError::Same { node } => {
                write!(f, "it says that it is node {node}, and is, or copies, this very node")
            }
            MeetError::Halves { node, ours, theirs } => {
                let name = |half: &Half| match half {
                    Half::Whole => "a whole node",
                    Half::Acceptor => "an acceptor",
                    Half::Proposer => "a host",
                };
                write!(
                    f,
                    "it says that it is node {node}, as {}, and this is {}: one of the two has or lacks a table [dpu]",
                    name(theirs),
                    name(ours)
                )
            }
            MeetError::GroupName { ours, theirs } => {
                write!(f, "its group is \"{theirs}\", and this node's is \"{ours}\"")
            }
            MeetError::Layout { ours, theirs } => {
                write!(f, "its memory has layout version {theirs}, and this node's has version {ours}")
            }
            MeetError::RingLen { ours, theirs } => {
                write!(f, "its ring has {theirs} bytes, and this node's has {ours}")
            }
            MeetError::MaxEntry { ours, theirs } => {
                write!(f, "its largest entry has {theirs} bytes, and this node's has {ours}")
            }
            MeetError::SnapshotLen { ours, theirs } => write!(
                f,
                "its snapshots may have {theirs} bytes, and those here {ours}: they must be the same for a host and its acceptor"
            ),
            MeetError::Group { ours, theirs } => {
                write!(f, "it belongs to group {theirs:032x}, and this node to {ours:032x}")
            }
            MeetError::Inconsistent => {
                f.write_str("the same start of its process has come with another incarnation")
            }
        }
    }
}

impl Error for MeetError {}

/// Why an exchange could not be started.
#[derive(Debug)]
#[non_exhaustive]
pub enum ExchangeError {
    /// It cannot listen at this address.
    Listen {
        /// Where.
        at: SocketAddr,
        /// What the system says.
        error: io::Error,
    },
    /// An option cannot be.
    Option(String),
    /// A thread or a descriptor cannot be had.
    System(io::Error),
}

impl fmt::Display for ExchangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExchangeError::Listen { at, error } => write!(f, "cannot listen at {at}: {error}"),
            ExchangeError::Option(what) => f.write_str(what),
            ExchangeError::System(error) => write!(f, "exchange: {error}"),
        }
    }
}

impl Error for ExchangeError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            ExchangeError::Option(_) => None,
            ExchangeError::Listen { error, .. } | ExchangeError::System(error) => Some(error),
        }
    }
}
