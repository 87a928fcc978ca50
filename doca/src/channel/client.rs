//! The host's end of the channel: it offers its memory, and hears what the DPU says to it.

use std::fmt;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::endpoint::Endpoint;
use super::error::ChannelError;
use super::message::{Answer, Note, Offer};
use crate::device::Device;
use crate::sys;

const CONNECTION: &str = "connection";
const ANSWER: &str = "answer";
/// Between two attempts to reach a DPU whose agent does not listen yet.
const AGAIN: Duration = Duration::from_millis(50);

/// See the module.
pub struct Client(Endpoint);

impl Client {
    /// Reaches the server of that name on the DPU that the device is a function of. While nobody listens, it tries again.
    pub fn connect(device: &Arc<Device>, name: &str, deadline: Instant) -> Result<Client, ChannelError> {
        loop {
            let endpoint = Endpoint::client(device, name)?;
            let is_running = endpoint.wait(CONNECTION, deadline, |endpoint| match endpoint.state()? {
                sys::DOCA_CTX_STATE_RUNNING => Ok(Some(true)),
                sys::DOCA_CTX_STATE_STARTING => Ok(None),
                _ => Ok(Some(false)),
            })?;
            if is_running {
                endpoint.connect()?;
                return Ok(Client(endpoint));
            }
            drop(endpoint);
            if Instant::now() + AGAIN >= deadline {
                return Err(ChannelError::Deadline { what: CONNECTION });
            }
            thread::sleep(AGAIN);
        }
    }

    /// Offers, and waits for the note of an answer that accepts. Hangs up.
    pub fn exchange(mut self, offer: &Offer, deadline: Instant) -> Result<Note, ChannelError> {
        self.0.send("offer taken", offer.encode()?, deadline)?;
        let bytes = self.0.wait(ANSWER, deadline, |endpoint| match endpoint.heard()? {
            Some(bytes) => Ok(Some(bytes)),
            None if endpoint.is_lost() => Err(ChannelError::Gone { what: ANSWER }),
            None => Ok(None),
        })?;
        match Answer::judge(&bytes).map_err(ChannelError::Malformed)? {
            Answer::Accepted { note } => Ok(note),
            Answer::Refused { why } => Err(ChannelError::Refused { why }),
        }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Client")
    }
}
