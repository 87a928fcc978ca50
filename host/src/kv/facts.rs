//! What a server goes by as long as it runs.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use super::password::Password;
use super::request::Limits;

/// See the head of this file.
#[derive(Debug)]
pub(super) struct Facts {
    /// The group's name.
    pub(super) group: String,
    /// Where this node listens.
    pub(super) listen: SocketAddr,
    /// Where clients find the nodes, by id.
    pub(super) addresses: BTreeMap<u8, String>,
    pub(super) password: Option<Password>,
    pub(super) reads_by_lease: bool,
    pub(super) max_clients: usize,
    /// What a client may send.
    pub(super) limits: Limits,
    /// Bytes of the largest answer.
    pub(super) max_reply: usize,
    /// What the state may come to.
    pub(super) max_size: u64,
}
