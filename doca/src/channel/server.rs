//! The DPU's end of the channel: it hears one offer, and answers it.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use super::endpoint::Endpoint;
use super::error::ChannelError;
use super::message::{Answer, Offer};
use crate::representor::Representor;

const OFFER: &str = "offer";

/// See the module. For the first host that connects: another exchange takes another server, also after an error.
pub struct Server(Endpoint);

impl Server {
    /// Listens to the host behind that function, under a name that the host knows.
    pub fn listen(representor: &Arc<Representor>, name: &str) -> Result<Server, ChannelError> {
        Endpoint::server(representor, name).map(Server)
    }

    /// The host's offer. After [`ChannelError::Deadline`] it may be asked for again.
    pub fn offer(&mut self, deadline: Instant) -> Result<Offer, ChannelError> {
        let bytes = self.0.wait(OFFER, deadline, |endpoint| match endpoint.heard()? {
            Some(bytes) => Ok(Some(bytes)),
            None if endpoint.seen().is_gone.get() => Err(ChannelError::Gone { what: OFFER }),
            None => Ok(None),
        })?;
        Offer::judge(&bytes).map_err(ChannelError::Malformed)
    }

    /// Answers it. When this succeeds, the host has hung up: because it has the answer, or because it died.
    pub fn answer(mut self, answer: &Answer, deadline: Instant) -> Result<(), ChannelError> {
        self.0.send("answer taken", answer.encode()?, deadline)?;
        self.0.wait("answer read", deadline, |endpoint| {
            // Another message is too many.
            endpoint.heard()?;
            Ok(endpoint.is_lost().then_some(()))
        })
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Server")
    }
}
