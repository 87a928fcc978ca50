//! What host and DPU tell each other before there is a network between them: one message each way, over DOCA's communication
//! channel, which runs over PCIe between a function of the host and its DPU.
//!
//! The host [asks](Client), the DPU [serves](Server). Everything has a deadline and a bound, and nothing that comes is trusted: a
//! message is judged as a whole before any of it is used. Who can reach the channel is whoever may open the device, root as a rule;
//! the descriptors in it are secrets, and are wiped here when they are read.

mod client;
mod endpoint;
mod error;
mod message;
mod seen;
mod server;

pub use client::Client;
pub use error::ChannelError;
pub use message::{
    Answer, Exported, MAX_EXPORTS, MAX_NOTE_LEN, MAX_WHY_LEN, MESSAGE_LEN, Malformed, Note, Offer,
};
pub use server::Server;
