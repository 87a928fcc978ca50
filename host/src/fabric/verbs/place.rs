//! Whose memory the log area is in: this process's, or a host's that its DPU writes to and reads as if it were a peer's.
//!
//! The keys to a host's memory, and the protection domain that they are good in, are another library's (DOCA's); here they are only
//! used. What is made in the domain holds who lent it.

#![expect(unsafe_code, reason = "is lent a protection domain")]

use std::any::Any;
use std::ffi::c_void;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use rdma_sys as sys;

use super::memory::Region;
use crate::fabric::Mapped;

/// Who lent something, and takes it back when this is dropped.
pub type Lender = Arc<dyn Any + Send + Sync>;

/// See the module.
#[derive(Clone, Debug, Default)]
pub enum LogPlace {
    /// This process's.
    #[default]
    Own,
    /// That of the host whose acceptor this is.
    OfHost(HostLog),
    /// This host's: its acceptor has it as [`LogPlace::OfHost`], and what is to be READ of it is here.
    Lent(LentLog),
}

/// A log area in the memory of a host, as its DPU has it.
#[derive(Clone)]
pub struct HostLog {
    domain: NonNull<sys::ibv_pd>,
    address: u64,
    len: u64,
    key: u32,
    lender: Lender,
}

/// The log area that a host has lent to its DPU, as the host has it.
#[derive(Clone, Debug)]
pub struct LentLog {
    /// Its bytes.
    pub memory: Mapped,
    /// Who ends the loan.
    pub lender: Lender,
}

// SAFETY: the pointer is of libibverbs, which may be called from any thread; who lent it says so of itself.
unsafe impl Send for HostLog {}
// SAFETY: as above.
unsafe impl Sync for HostLog {}

impl HostLog {
    /// `len` bytes that peers find at `address` with `key`, on queue pairs in `domain`.
    ///
    /// # Safety
    ///
    /// `domain` is a `struct ibv_pd` of the libibverbs that this process has loaded, valid until `lender` is dropped, and so is its
    /// context; both are used by nobody else in a way that libibverbs does not allow of several threads.
    pub unsafe fn new(
        domain: NonNull<c_void>,
        (address, len): (u64, u64),
        key: u32,
        lender: Lender,
    ) -> HostLog {
        HostLog { domain: domain.cast(), address, len, key, lender }
    }

    pub(super) fn domain(&self) -> NonNull<sys::ibv_pd> {
        self.domain
    }

    pub(super) fn lender(&self) -> &Lender {
        &self.lender
    }

    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    pub(crate) fn address(&self) -> u64 {
        self.address
    }

    pub(crate) fn key(&self) -> u32 {
        self.key
    }
}

impl fmt::Debug for HostLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Its key opens memory.
        f.debug_struct("HostLog")
            .field("address", &self.address)
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}

/// The log area as peers reach it.
#[derive(Debug)]
pub(super) enum LogArea {
    Own(Arc<Region>),
    OfHost(HostLog),
}

impl LogArea {
    /// Where it starts, as peers address it.
    pub(super) fn address(&self) -> u64 {
        match self {
            LogArea::Own(region) => region.address(),
            LogArea::OfHost(log) => log.address(),
        }
    }

    /// The key for peers.
    pub(super) fn remote_key(&self) -> u32 {
        match self {
            LogArea::Own(region) => region.remote_key(),
            LogArea::OfHost(log) => log.key(),
        }
    }

    /// It, where it is registered here.
    pub(super) fn region(&self) -> Option<&Arc<Region>> {
        match self {
            LogArea::Own(region) => Some(region),
            LogArea::OfHost(_) => None,
        }
    }
}
