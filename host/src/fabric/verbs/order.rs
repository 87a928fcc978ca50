//! In which order a device places the bytes of one WRITE: what it says itself, where libibverbs can ask. Nothing here builds on
//! the answer, since entries and lines say by themselves whether they are whole (protocol.md 2, A1 and A4); it is shown.

#![expect(unsafe_code, reason = "calls libibverbs")]

use std::ffi::c_int;
use std::{fmt, mem};

use rdma_sys as sys;

use super::cq::CompletionQueue;
use super::domain::Domain;
use super::error::VerbsError;
use super::library::symbol;
use super::port::{self, Choice};
use super::qp::QueuePair;

/// What a device says of a WRITE's bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DataOrder {
    /// They are placed from the first to the last.
    InOrder,
    /// It does not promise that.
    Any,
    /// libibverbs cannot ask.
    Unknown,
}

impl fmt::Display for DataOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DataOrder::InOrder => "the bytes of a WRITE land in order",
            DataOrder::Any => "the bytes of a WRITE may land in any order",
            DataOrder::Unknown => "libibverbs is too old to ask",
        })
    }
}

/// Asks a device for the order of a WRITE's bytes.
pub fn data_order(choice: &Choice) -> Result<DataOrder, VerbsError> {
    let (context, _) = port::open(choice)?;
    let domain = Domain::new(&context)?;
    let cq = CompletionQueue::new(&context, 16)?;
    Ok(of(&QueuePair::new(&domain, &cq, 4, None)?))
}

pub(super) fn of(qp: &QueuePair) -> DataOrder {
    type Query = unsafe extern "C" fn(*mut sys::ibv_qp, sys::ibv_wr_opcode::Type, u32) -> c_int;
    let Some(query) = symbol(c"ibv_query_qp_data_in_order") else { return DataOrder::Unknown };
    // SAFETY: the signature is that of verbs.h, unchanged since the function came with libibverbs 1.14.
    let query: Query = unsafe { mem::transmute(query.as_ptr()) };
    // SAFETY: the queue pair lives. Without flags the answer is 0 or 1 (ibv_query_qp_data_in_order(3)).
    match unsafe { query(qp.raw(), sys::ibv_wr_opcode::IBV_WR_RDMA_WRITE, 0) } {
        1 => DataOrder::InOrder,
        _ => DataOrder::Any,
    }
}
