//! A protection domain: keys of one do not open memory of another, whoever holds them.

#![expect(unsafe_code, reason = "calls libibverbs")]

use std::io;
use std::ptr::NonNull;
use std::sync::Arc;

use rdma_sys as sys;

use super::context::Context;
use super::error::VerbsError;
use super::place::HostLog;

/// A protection domain of an opened device.
#[derive(Debug)]
pub(super) struct Domain {
    raw: NonNull<sys::ibv_pd>,
    context: Arc<Context>,
    /// Of one that is lent, which is not freed here: its context holds who lent both.
    is_lent: bool,
}

// SAFETY: as of `Context`: the pointer may be used from any thread.
unsafe impl Send for Domain {}
// SAFETY: as above.
unsafe impl Sync for Domain {}

impl Domain {
    pub(super) fn new(context: &Arc<Context>) -> Result<Arc<Domain>, VerbsError> {
        // SAFETY: the context is open.
        let raw = NonNull::new(unsafe { sys::ibv_alloc_pd(context.raw()) })
            .ok_or_else(io::Error::last_os_error)
            .map_err(VerbsError::call("ibv_alloc_pd", context.name()))?;
        Ok(Arc::new(Domain { raw, context: Arc::clone(context), is_lent: false }))
    }

    /// The one in which a host's memory can be reached, of a context that was lent with it.
    pub(super) fn lent(context: &Arc<Context>, log: &HostLog) -> Arc<Domain> {
        Arc::new(Domain { raw: log.domain(), context: Arc::clone(context), is_lent: true })
    }

    pub(super) fn raw(&self) -> *mut sys::ibv_pd {
        self.raw.as_ptr()
    }

    /// For who lends it to another fabric.
    #[cfg(test)]
    pub(super) fn as_lent(&self) -> NonNull<std::ffi::c_void> {
        self.raw.cast()
    }

    pub(super) fn context(&self) -> &Arc<Context> {
        &self.context
    }
}

impl Drop for Domain {
    fn drop(&mut self) {
        if !self.is_lent {
            // SAFETY: made once, freed once; regions and queue pairs in it hold an `Arc` of this value.
            unsafe { sys::ibv_dealloc_pd(self.raw()) };
        }
    }
}
