//! Registered memory: which bytes a device may touch, with which key. Not: where the bytes come from (`fabric::map`).
//!
//! What a peer's device does to the bytes is what other processes do to shared memory: aligned words change whole, at any
//! moment; all access here is through the atomics of [`Mapped`]. Access flags are always spelled out, and relaxed ordering
//! is never asked for (protocol.md 2, A1).

#![expect(unsafe_code, reason = "calls libibverbs")]

use std::io;
use std::ptr::NonNull;
use std::sync::Arc;

use rdma_sys as sys;
use ringleader_core::mem::Memory;
use rustix::process::{Resource, geteuid, getrlimit};

use super::domain::Domain;
use super::error::VerbsError;
use crate::fabric::Mapped;

/// What a peer may do with a region, and this node's own device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Access {
    /// The own device reads it, as the source of WRITEs.
    Source,
    /// The own device reads and writes it, as the target of READs.
    Target,
    /// Peers READ it.
    Read,
    /// Peers READ and WRITE it, where their queue pair may.
    Write,
}

impl Access {
    fn flags(self) -> i32 {
        use sys::ibv_access_flags as Flags;
        let flags = match self {
            Access::Source => 0,
            Access::Target => Flags::IBV_ACCESS_LOCAL_WRITE.0,
            Access::Read => Flags::IBV_ACCESS_REMOTE_READ.0,
            Access::Write => {
                Flags::IBV_ACCESS_LOCAL_WRITE.0
                    | Flags::IBV_ACCESS_REMOTE_READ.0
                    | Flags::IBV_ACCESS_REMOTE_WRITE.0
            }
        };
        flags as i32
    }
}

/// A memory region.
#[derive(Debug)]
pub(super) struct Region {
    raw: NonNull<sys::ibv_mr>,
    /// Declared behind the region: it is unmapped after the key is void.
    memory: Mapped,
    _domain: Arc<Domain>,
}

// SAFETY: as of `Context`: the pointer may be used from any thread.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

/// Bytes of a region, as a device on this machine is told of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Local<'a> {
    pub(super) address: u64,
    pub(super) len: u32,
    pub(super) key: u32,
    _region: &'a Region,
}

impl Region {
    pub(super) fn register(
        domain: &Arc<Domain>,
        memory: &Mapped,
        access: Access,
    ) -> Result<Arc<Region>, VerbsError> {
        let words = memory.words();
        let (start, len) = (words.as_ptr().cast_mut().cast(), size_of_val(words));
        // SAFETY: the range is mapped, and stays mapped for as long as this value holds `memory`; whatever a device does
        // to it is seen through atomics.
        let raw = NonNull::new(unsafe { sys::ibv_reg_mr(domain.raw(), start, len, access.flags()) })
            .ok_or_else(io::Error::last_os_error)
            .map_err(VerbsError::call("ibv_reg_mr", domain.context().name()))?;
        Ok(Arc::new(Region { raw, memory: memory.clone(), _domain: Arc::clone(domain) }))
    }

    /// Where it starts, as peers address it.
    pub(super) fn address(&self) -> u64 {
        self.memory.words().as_ptr() as u64
    }

    /// The key for peers.
    pub(super) fn remote_key(&self) -> u32 {
        // SAFETY: the region is registered as long as this value lives.
        unsafe { self.raw.as_ref() }.rkey
    }

    /// A range of it, if it is inside and of whole words.
    #[inline]
    pub(super) fn range(&self, offset: u64, len: u32) -> Option<Local<'_>> {
        let whole = (offset | u64::from(len)).is_multiple_of(8);
        let end = offset.checked_add(u64::from(len))?;
        if !whole || end > size_of_val(self.memory.words()) as u64 {
            return None;
        }
        // SAFETY: as in `remote_key`.
        let key = unsafe { self.raw.as_ref() }.lkey;
        Some(Local { address: self.address() + offset, len, key, _region: self })
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: registered once, freed once. Requests that still name its key fail at the device from here on; the memory
        // is unmapped afterwards.
        unsafe { sys::ibv_dereg_mr(self.raw.as_ptr()) };
    }
}

/// Whether so many bytes may be locked, asked before any are.
pub(super) fn check_memlock(needed: u64) -> Result<(), VerbsError> {
    // Who is root may lock everything (CAP_IPC_LOCK); whoever lost that hears it from the kernel.
    match getrlimit(Resource::Memlock).current {
        Some(limit) if limit < needed && !geteuid().is_root() => Err(VerbsError::Memlock { needed, limit }),
        _ => Ok(()),
    }
}

/// Refuses what would let a device place bytes out of order, or its library work without locks.
pub(super) fn check_environment() -> Result<(), VerbsError> {
    let is_on = |variable: &str| {
        std::env::var_os(variable).is_some_and(|value| {
            !["", "0", "n", "no", "off", "false"].iter().any(|off| value.eq_ignore_ascii_case(off))
        })
    };
    for (variable, harm) in [
        ("MLX5_RELAXED_PACKET_ORDERING_ON", "lets a completed WRITE be seen before its bytes"),
        ("MLX5_SINGLE_THREADED", "makes it unsafe to fence beside the thread that beats"),
    ] {
        if is_on(variable) {
            return Err(VerbsError::Environment { variable, harm });
        }
    }
    Ok(())
}
