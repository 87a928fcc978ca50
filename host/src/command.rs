//! What the application's threads ask of the agent off the hot path. Sent through a channel; nothing waits in it.

use std::sync::mpsc::Sender;

use crate::errors::{FormError, MeasureError};
use crate::lane::AgentEnd;
use crate::measure::Measurement;

/// One request.
#[derive(Debug)]
pub(crate) enum Command {
    /// Serve this lane, too.
    Lane(AgentEnd),
    /// Form the group. The answer says that it was begun.
    Form { group: u128, reply: Sender<Result<(), FormError>> },
    /// Measure.
    Measure { samples: usize, size: usize, reply: Sender<Result<Measurement, MeasureError>> },
    /// End.
    Close,
}
