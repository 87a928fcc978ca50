//! What the application's threads ask of the agent off the hot path. Sent through a channel; nothing waits in it.

use std::sync::mpsc::Sender;

use ringleader_core::proposer::TransferError;

use crate::errors::{FormError, MeasureError};
use crate::lane::AgentEnd;
use crate::measure::{Measurement, ReadMeasurement};
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
    /// Measure.
    Measure { samples: usize, size: usize, reply: Sender<Result<Measurement, MeasureError>> },
    /// Measure reads.
    MeasureReads { samples: usize, reply: Sender<Result<ReadMeasurement, MeasureError>> },
    /// End.
    Close,
}
