//! What the application's threads ask of the agent off the hot path. Sent through a channel; nothing waits in it.

use std::sync::mpsc::Sender;

use ringleader_core::membership::{Change, ChangeError, Readmit};
use ringleader_core::proposer::TransferError;
use ringleader_core::replica::{RecoverError, Ticket};

use crate::errors::{FormError, MeasureError};
use crate::lane::AgentEnd;
use crate::measure::{Measurement, ReadMeasurement};
use crate::members::Members;
use crate::reader;

/// One request.
#[derive(Debug)]
pub(crate) enum Command {
    /// Serve this lane, too.
    Lane(AgentEnd),
    /// Serve this reader, too.
    Reader(reader::AgentEnd),
    /// Hand the lead over. The answer says that it was begun.
    Transfer { to: u8, reply: Sender<Result<(), TransferError>> },
    /// Form the group. The answer says that it was begun.
    Form { group: u128, reply: Sender<Result<(), FormError>> },
    /// Change the members. The answer says that it is in force, not that it is committed.
    Change { change: Change, reply: Sender<Result<Ticket, ChangeError>> },
    /// Who is in the group.
    Members { reply: Sender<Members> },
    /// What a leader does about members that lost their memory.
    Readmit(Readmit),
    /// Make a new group of this node, if its own has stopped; `None` only asks whether that can be.
    NewGroup { group: Option<u128>, reply: Sender<Result<(), RecoverError>> },
    /// Measure.
    Measure { samples: usize, size: usize, reply: Sender<Result<Measurement, MeasureError>> },
    /// Measure reads.
    MeasureReads { samples: usize, reply: Sender<Result<ReadMeasurement, MeasureError>> },
    /// The acceptor of this host, which is apart, has gone with its memory.
    #[cfg(feature = "doca")]
    Orphan,
    /// End.
    Close,
}
