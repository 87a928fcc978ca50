//! Why nothing came of an exchange.

use std::fmt;

use super::message::{MESSAGE_LEN, Malformed};
use crate::error::Error;

/// See the module.
#[derive(Debug)]
#[non_exhaustive]
pub enum ChannelError {
    /// Something of DOCA failed.
    Doca(Error),
    /// The name of the service is empty, has a zero in it, or is too long for the device.
    Name {
        /// The name.
        name: String,
        /// Bytes that it may have.
        most: usize,
    },
    /// What is to be said is too long.
    TooLong {
        /// Its bytes.
        len: usize,
    },
    /// It did not come in time.
    Deadline {
        /// What was waited for.
        what: &'static str,
    },
    /// The other side is gone.
    Gone {
        /// What was waited for.
        what: &'static str,
    },
    /// The other side has sent a message that is longer than any.
    TooMuch {
        /// Its bytes.
        len: u32,
    },
    /// The other side has sent more than the one message.
    TooMany,
    /// The other side has sent something else than the message that was waited for.
    Malformed(Malformed),
    /// The other side has refused what was offered.
    Refused {
        /// What it says.
        why: String,
    },
}

impl From<Error> for ChannelError {
    fn from(error: Error) -> ChannelError {
        ChannelError::Doca(error)
    }
}

impl fmt::Display for ChannelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChannelError::Doca(error) => error.fmt(f),
            ChannelError::Name { name, most } => {
                write!(
                    f,
                    "{name:?} is no name for a service on this device: 1 to {most} bytes, none of them zero"
                )
            }
            ChannelError::TooLong { len } => {
                write!(f, "a message of {len} bytes is to be sent, and {MESSAGE_LEN} is the most")
            }
            ChannelError::Deadline { what } => write!(f, "no {what} in time"),
            ChannelError::Gone { what } => write!(f, "the other side is gone before there was any {what}"),
            ChannelError::TooMuch { len } => {
                write!(f, "the other side has sent a message of {len} bytes, and {MESSAGE_LEN} is the most")
            }
            ChannelError::TooMany => f.write_str("the other side has sent more than its one message"),
            ChannelError::Malformed(what) => {
                write!(f, "the other side has sent no message of this program: {what}")
            }
            ChannelError::Refused { why } => write!(f, "the DPU has refused: {why}"),
        }
    }
}

impl std::error::Error for ChannelError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ChannelError::Doca(error) => Some(error),
            _ => None,
        }
    }
}
