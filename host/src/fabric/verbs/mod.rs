//! RDMA devices by way of libibverbs, which is loaded at run time: without it there is an error in one line, and nothing else.
//!
//! One file a C object (`context`, `domain`, `memory`, `window`, `cq`, `qp`), each a handle that keeps what it depends on alive. `device`
//! is what groups share, `parts` what a node has from start to end. `fabric` is the beating thread's side with its `ends` and what is `posted` to them;
//! `worker` the thread beside it with `inbound` ends, their `key`s and the `flush` behind a fence; `card` and `rendezvous` how two meet. `place` is whose memory the log is
//! in; `shadow` and `far` are for one in a host's, and `loopback` for what a device reads of its own.

mod card;
mod context;
mod cq;
mod device;
mod domain;
mod ends;
mod error;
mod exchange;
mod fabric;
mod far;
mod flush;
mod inbound;
mod key;
mod library;
mod loopback;
mod memory;
mod order;
mod parts;
mod place;
mod port;
mod posted;
mod qp;
mod receives;
mod rendezvous;
mod shadow;
#[cfg(test)]
mod tests;
pub mod trial;
mod window;
mod worker;

pub use card::{CARD_LEN, Card};
pub use device::Device;
pub use error::VerbsError;
pub use fabric::{Options, VerbsFabric};
pub use inbound::FenceBy;
pub use order::{DataOrder, data_order};
pub use parts::Areas;
pub use place::{HostLog, Lender, LentLog, LogPlace};
pub use port::Choice;
pub use rendezvous::{Meeting, Rendezvous};
pub use worker::DEVICE_FATAL_AFTER;

/// Whether no piece of hardware is behind the device of that choice.
pub fn is_software(choice: &Choice) -> Result<bool, VerbsError> {
    port::open(choice).map(|(context, _)| context.is_software())
}
