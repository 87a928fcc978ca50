//! One small error a call. Each says in one line what is wrong with what.

use std::error::Error;
use std::{fmt, io};

use crate::exchange::ExchangeError;
use crate::fabric::shm::RegionError;
#[cfg(feature = "verbs")]
use crate::fabric::verbs::VerbsError;

/// Why a node could not be opened.
#[derive(Debug)]
#[non_exhaustive]
pub enum OpenError {
    /// An option has a value that cannot be. The text names both.
    Option(String),
    /// The machine has too little memory for the rings; nothing was made.
    Memory {
        /// Bytes needed.
        needed: u64,
        /// Bytes that can be had without swapping.
        available: u64,
    },
    /// The region file could not be made.
    Region(RegionError),
    /// The RDMA device cannot be used.
    #[cfg(feature = "verbs")]
    Device(VerbsError),
    /// The nodes cannot find each other.
    Exchange(ExchangeError),
    /// The agent's thread could not be started or pinned.
    Thread(io::Error),
    /// The agent's thread hosts as many groups as it has room for.
    Room {
        /// So many.
        groups: usize,
    },
    /// The system gives no random numbers.
    Random(io::Error),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::Option(what) => f.write_str(what),
            OpenError::Memory { needed, available } => write!(
                f,
                "the node needs {} MiB of memory for its rings, and {} MiB are free",
                needed.div_ceil(1 << 20),
                available >> 20
            ),
            OpenError::Region(error) => error.fmt(f),
            #[cfg(feature = "verbs")]
            OpenError::Device(error) => error.fmt(f),
            OpenError::Exchange(error) => error.fmt(f),
            OpenError::Thread(error) => write!(f, "agent thread: {error}"),
            OpenError::Room { groups } => {
                write!(f, "the agent thread hosts {groups} groups, and has room for no more")
            }
            OpenError::Random(error) => write!(f, "random numbers: {error}"),
        }
    }
}

impl Error for OpenError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            OpenError::Option(_) | OpenError::Memory { .. } | OpenError::Room { .. } => None,
            // It is shown as this error: its source is the next to be told.
            OpenError::Region(error) => error.source(),
            #[cfg(feature = "verbs")]
            OpenError::Device(error) => error.source(),
            OpenError::Exchange(error) => error.source(),
            OpenError::Thread(error) | OpenError::Random(error) => Some(error),
        }
    }
}

#[cfg(feature = "verbs")]
impl From<VerbsError> for OpenError {
    fn from(error: VerbsError) -> OpenError {
        OpenError::Device(error)
    }
}

impl From<ExchangeError> for OpenError {
    fn from(error: ExchangeError) -> OpenError {
        OpenError::Exchange(error)
    }
}

impl From<RegionError> for OpenError {
    fn from(error: RegionError) -> OpenError {
        OpenError::Region(error)
    }
}

/// Why a group did not form.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum FormError {
    /// This node is in a group already, or was asked to form one before.
    NotFresh,
    /// A member refused: it is in another group, or is part of another forming.
    Refused,
    /// A member is in a group already. This node can be let into that one by its leader ([`crate::Node::change_members`]): readmitted, if it was
    /// in it before, or added.
    InGroup,
    /// Not all members answered in time. Forming goes on: wait for [`crate::Status::formed`], or call again.
    Timeout,
    /// The node is closed.
    Closed,
}

impl fmt::Display for FormError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FormError::NotFresh => "the node is in a group already, or was asked to form one before",
            FormError::Refused => "a member refused: it is in another group, or part of another forming",
            FormError::InGroup => {
                "members are in a group already, whose leader can let this node in: ringleader member readmit, or add"
            }
            FormError::Timeout => "not all members answered in time",
            FormError::Closed => "the node is closed",
        })
    }
}

impl Error for FormError {}

/// Why the lead was not handed over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum TransferError {
    /// This node does not lead.
    NotLeader {
        /// Who leads, as far as the node knows.
        leader: Option<u8>,
    },
    /// The node has not committed anything as leader yet, or hands over already.
    Busy,
    /// That node is this one, or no voter of the group.
    NotVoter,
    /// That node is not reached, lags, or was not seen to run lately.
    NotReady,
    /// That node was not elected in time: this one leads on.
    NotElected,
    /// Not known in time: it may still come about.
    Timeout,
    /// The node is closed.
    Closed,
}

impl fmt::Display for TransferError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TransferError::NotLeader { leader: Some(leader) } => {
                return write!(f, "this node does not lead, node {leader} does");
            }
            TransferError::NotLeader { leader: None } => "this node does not lead",
            TransferError::Busy => "the node has only begun to lead, or hands over already",
            TransferError::NotVoter => "it is the leader itself, or no voter of the group",
            TransferError::NotReady => "it is not reached, lags, or was not seen to run lately",
            TransferError::NotElected => "it was not elected in time: the leader leads on",
            TransferError::Timeout => "not known in time: it may still come about",
            TransferError::Closed => "the node is closed",
        })
    }
}

impl Error for TransferError {}

impl From<ringleader_core::proposer::TransferError> for TransferError {
    fn from(error: ringleader_core::proposer::TransferError) -> TransferError {
        use ringleader_core::proposer::TransferError as Core;
        match error {
            Core::NotLeader { leader } => {
                TransferError::NotLeader { leader: Some(leader.0).filter(|leader| *leader != 0) }
            }
            Core::NotVoter => TransferError::NotVoter,
            Core::NotReady => TransferError::NotReady,
            _ => TransferError::Busy,
        }
    }
}

/// Why a proposal was not even taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum SubmitError {
    /// The lane to the agent is full: poll for outcomes and try again.
    Full,
    /// The payload does not fit into an entry.
    TooLarge {
        /// The largest that does, in bytes.
        max: usize,
    },
    /// The node is closed.
    Closed,
}

impl fmt::Display for SubmitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SubmitError::Full => f.write_str("the lane to the agent is full"),
            SubmitError::TooLarge { max } => write!(f, "a payload of more than {max} bytes fits no entry"),
            SubmitError::Closed => f.write_str("the node is closed"),
        }
    }
}

impl Error for SubmitError {}

/// Why a measurement ended early.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum MeasureError {
    /// The node does not lead, or lost the lead meanwhile.
    NotLeader,
    /// Another measurement runs.
    Busy,
    /// The payload does not fit into an entry.
    TooLarge {
        /// The largest that does, in bytes.
        max: usize,
    },
    /// Nothing was committed or written for too long.
    Timeout,
    /// The node is closed.
    Closed,
}

impl fmt::Display for MeasureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MeasureError::NotLeader => f.write_str("the node does not lead"),
            MeasureError::Busy => f.write_str("another measurement runs"),
            MeasureError::TooLarge { max } => write!(f, "a payload of more than {max} bytes fits no entry"),
            MeasureError::Timeout => f.write_str("nothing was committed for too long"),
            MeasureError::Closed => f.write_str("the node is closed"),
        }
    }
}

impl Error for MeasureError {}

/// Why a node did not end cleanly.
#[derive(Debug)]
#[non_exhaustive]
pub enum CloseError {
    /// The agent's thread panicked, or the application in it. The region file stays.
    Panicked,
    /// The region file could not be removed.
    Region(RegionError),
    /// The RDMA device broke or was removed: the node had ended before.
    DeviceLost,
    /// The acceptor of this host, which is apart, came back without its memory: the node had ended before, and is to be opened anew.
    Orphaned,
}

impl fmt::Display for CloseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CloseError::Panicked => f.write_str("the agent thread panicked"),
            CloseError::Region(error) => error.fmt(f),
            CloseError::DeviceLost => f.write_str("the RDMA device broke or was removed"),
            CloseError::Orphaned => {
                f.write_str("the acceptor came back without its memory: start the host anew")
            }
        }
    }
}

impl Error for CloseError {}

impl From<RegionError> for CloseError {
    fn from(error: RegionError) -> CloseError {
        CloseError::Region(error)
    }
}
