//! The protection domain of a device, lent by DOCA to libibverbs: queue pairs in it reach what is imported on that device.
//!
//! There is one a device and process, and it is DOCA's: it is not freed here, and all keys that were imported on the device are good
//! in it. Who needs two domains takes two devices (sub-functions).

#![expect(unsafe_code, reason = "calls DOCA")]

use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use crate::call::call;
use crate::device::Device;
use crate::error::Error;
use crate::sys;

/// See the module. Whatever is made in it holds this value, so that the device is closed last.
#[derive(Clone, Debug)]
pub struct Domain {
    raw: NonNull<sys::ibv_pd>,
    device: Arc<Device>,
}

// SAFETY: as of `Device`; libibverbs may be called from any thread.
unsafe impl Send for Domain {}
// SAFETY: as above.
unsafe impl Sync for Domain {}

impl Domain {
    /// That of a device.
    pub fn new(device: &Arc<Device>) -> Result<Domain, Error> {
        const GET: &str = "doca_rdma_bridge_get_dev_pd";
        let mut raw = ptr::null_mut();
        // SAFETY: the device is open, and the pointer may be written.
        call(GET, device.label(), || unsafe { sys::doca_rdma_bridge_get_dev_pd(device.raw(), &mut raw) })?;
        let raw = NonNull::new(raw)
            .ok_or_else(|| Error::Nothing { call: GET, device: device.label().to_owned() })?;
        Ok(Domain { raw, device: Arc::clone(device) })
    }

    /// A `struct ibv_pd` of the libibverbs that this process has loaded. It is good as long as this value, and must not be freed.
    pub fn raw(&self) -> NonNull<c_void> {
        self.raw.cast()
    }

    /// Whose it is.
    pub fn device(&self) -> &Arc<Device> {
        &self.device
    }
}
