//! A protection domain: keys of one do not open memory of another, whoever holds them.

#![expect(unsafe_code, reason = "calls libibverbs")]

use std::io;
use std::ptr::NonNull;
use std::sync::Arc;

use rdma_sys as sys;

use super::context::Context;
use super::error::VerbsError;

/// A protection domain of an opened device.
#[derive(Debug)]
pub(super) struct Domain {
    raw: NonNull<sys::ibv_pd>,
    context: Arc<Context>,
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
        Ok(Arc::new(Domain { raw, context: Arc::clone(context) }))
    }

    pub(super) fn raw(&self) -> *mut sys::ibv_pd {
        self.raw.as_ptr()
    }

    pub(super) fn context(&self) -> &Arc<Context> {
        &self.context
    }
}

impl Drop for Domain {
    fn drop(&mut self) {
        // SAFETY: made once, freed once; regions and queue pairs in it hold an `Arc` of this value.
        unsafe { sys::ibv_dealloc_pd(self.raw()) };
    }
}
