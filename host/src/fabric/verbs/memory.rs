//! Registered memory: which bytes a device may touch, with which key. Not: where the bytes come from (`fabric::map`).
//!
//! What a peer's device does to the bytes is what other processes do to shared memory: aligned words change whole, at any
//! moment; all access here is through the atomics of [`Mapped`]. Access flags are always spelled out, and relaxed ordering
//! is never asked for (protocol.md 2, A1).

#![expect(unsafe_code, reason = "calls libibverbs")]

use std::ffi::{c_int, c_void};
use std::io;
use std::mem::{self, ManuallyDrop};
use std::ptr::{self, NonNull};
use std::sync::Arc;

use rdma_sys as sys;
use ringleader_core::mem::Memory;
use rustix::process::{Resource, getrlimit};
use rustix::thread::{CapabilitySet, capabilities};

use super::context::check;
use super::domain::Domain;
use super::error::VerbsError;
use super::library::symbol;
use crate::fabric::Mapped;
use crate::fabric::environment::{Harmful, find_harm};

/// What a peer may do with a region, and this node's own device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Access {
    /// The own device reads and writes it: sources of WRITEs, targets of READs.
    Target,
    /// Peers READ it.
    Read,
    /// Peers READ it, and the own device READs into it.
    ReadTarget,
    /// Peers READ and WRITE it, where their queue pair may.
    Write,
    /// Peers do so through windows that are bound to it.
    Bind,
}

impl Access {
    fn flags(self) -> i32 {
        use sys::ibv_access_flags as Flags;
        let flags = match self {
            Access::Target => Flags::IBV_ACCESS_LOCAL_WRITE.0,
            Access::Read => Flags::IBV_ACCESS_REMOTE_READ.0,
            Access::ReadTarget => Flags::IBV_ACCESS_LOCAL_WRITE.0 | Flags::IBV_ACCESS_REMOTE_READ.0,
            Access::Write => {
                Flags::IBV_ACCESS_LOCAL_WRITE.0
                    | Flags::IBV_ACCESS_REMOTE_READ.0
                    | Flags::IBV_ACCESS_REMOTE_WRITE.0
            }
            Access::Bind => Flags::IBV_ACCESS_LOCAL_WRITE.0 | Flags::IBV_ACCESS_MW_BIND.0,
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
    domain: Arc<Domain>,
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
    /// One that several share.
    pub(super) fn register(
        domain: &Arc<Domain>,
        memory: &Mapped,
        access: Access,
    ) -> Result<Arc<Region>, VerbsError> {
        Region::new(domain, memory, access).map(Arc::new)
    }

    pub(super) fn new(domain: &Arc<Domain>, memory: &Mapped, access: Access) -> Result<Region, VerbsError> {
        let words = memory.words();
        let (start, len) = (words.as_ptr().cast_mut().cast(), size_of_val(words));
        // SAFETY: the range is mapped, and stays mapped for as long as this value holds `memory`; whatever a device does
        // to it is seen through atomics.
        let raw = NonNull::new(unsafe { sys::ibv_reg_mr(domain.raw(), start, len, access.flags()) })
            .ok_or_else(io::Error::last_os_error)
            .map_err(VerbsError::call("ibv_reg_mr", domain.context().name()))?;
        Ok(Region { raw, memory: memory.clone(), domain: Arc::clone(domain) })
    }

    pub(super) fn raw(&self) -> *mut sys::ibv_mr {
        self.raw.as_ptr()
    }

    /// Its bytes.
    pub(super) fn memory(&self) -> &Mapped {
        &self.memory
    }

    /// Frees it, and says whether that worked: then its key opens nothing any more.
    pub(super) fn deregister(self) -> Result<(), (Region, VerbsError)> {
        // SAFETY: registered once; only when this fails is it there to be freed again.
        let code = unsafe { sys::ibv_dereg_mr(self.raw.as_ptr()) };
        match check(code) {
            Ok(()) => {
                let parts = ManuallyDrop::new(self);
                // SAFETY: both are moved out once, of a value that is not dropped.
                unsafe { drop((ptr::read(&parts.memory), ptr::read(&parts.domain))) };
                Ok(())
            }
            Err(error) => {
                let error = VerbsError::call("ibv_dereg_mr", self.domain.context().name())(error);
                Err((self, error))
            }
        }
    }

    /// Changes what peers may do with it, and with it, on some devices, its keys.
    pub(super) fn change(&mut self, access: Access) -> Result<(), VerbsError> {
        type Rereg = unsafe extern "C" fn(
            *mut sys::ibv_mr,
            c_int,
            *mut sys::ibv_pd,
            *mut c_void,
            usize,
            c_int,
        ) -> c_int;
        let device = self.domain.context().name();
        let unable = || VerbsError::Unable { device: device.to_owned(), what: "re-registration of memory" };
        let call = symbol(c"ibv_rereg_mr").ok_or_else(unable)?;
        // SAFETY: the signature is that of verbs.h, unchanged since libibverbs 1.1.
        let call: Rereg = unsafe { mem::transmute(call.as_ptr()) };
        let flags = sys::ibv_rereg_mr_flags::IBV_REREG_MR_CHANGE_ACCESS.0 as c_int;
        // SAFETY: the region is registered, and nobody reads its keys meanwhile (`&mut self`); without the other two flags
        // domain and range are not looked at.
        let code = unsafe { call(self.raw(), flags, ptr::null_mut(), ptr::null_mut(), 0, access.flags()) };
        match code {
            0 => Ok(()),
            // The codes of verbs.h; what the system said is in errno.
            _ => match io::Error::last_os_error() {
                error if error.raw_os_error() == Some(libc::EOPNOTSUPP) => Err(unable()),
                error => Err(VerbsError::call("ibv_rereg_mr", device)(error)),
            },
        }
    }

    /// Where it starts, as peers address it.
    pub(super) fn address(&self) -> u64 {
        self.memory.words().as_ptr() as u64
    }

    pub(super) fn len(&self) -> u64 {
        size_of_val(self.memory.words()) as u64
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
        if !whole || end > self.len() {
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
    // Who has it in a container of its own users only hears it from the kernel.
    let is_free = capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::IPC_LOCK));
    judge_memlock(needed, getrlimit(Resource::Memlock).current, is_free)
}

/// No limit when `None`, nor with CAP_IPC_LOCK.
fn judge_memlock(needed: u64, limit: Option<u64>, is_free: bool) -> Result<(), VerbsError> {
    match limit {
        Some(limit) if limit < needed && !is_free => Err(VerbsError::Memlock { needed, limit }),
        _ => Ok(()),
    }
}

/// Refuses what would let a device place bytes out of order, or its library work without locks.
pub(super) fn check_environment() -> Result<(), VerbsError> {
    let value_of =
        |variable: &str| std::env::var_os(variable).map(|value| value.to_string_lossy().into_owned());
    match find_harm(value_of) {
        Some(Harmful { variable, harm }) => Err(VerbsError::Environment { variable, harm }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relaxed_ordering_is_never_asked_for() {
        for access in [Access::Target, Access::Read, Access::ReadTarget, Access::Write, Access::Bind] {
            let relaxed = sys::ibv_access_flags::IBV_ACCESS_RELAXED_ORDERING.0 as i32;
            assert_eq!(access.flags() & relaxed, 0, "{access:?}");
        }
    }

    #[test]
    fn what_may_not_be_locked_is_refused_with_what_helps() {
        assert!(judge_memlock(100 << 20, None, false).is_ok());
        assert!(judge_memlock(100 << 20, Some(100 << 20), false).is_ok());
        assert!(judge_memlock(100 << 20, Some(8 << 20), true).is_ok());
        let error = judge_memlock(100 << 20, Some(8 << 20), false).expect_err("too little").to_string();
        assert!(error.contains("100 MiB must be locked") && error.contains("8 MiB are allowed"), "{error}");
        assert!(error.contains("ulimit -l"), "{error}");
    }
}
