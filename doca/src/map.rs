//! A `doca_mmap`, of memory that is exported here or was imported. Destroying it is what makes its keys void, and may fail: then
//! they open the memory still, and who destroys it is told.

#![expect(unsafe_code, reason = "calls DOCA")]

use std::mem::{self, ManuallyDrop};
use std::ptr::{self, NonNull};
use std::sync::Arc;

use crate::call::call;
use crate::device::Device;
use crate::error::Error;
use crate::sys;

/// See the module.
#[derive(Debug)]
pub(crate) struct Map {
    raw: NonNull<sys::doca_mmap>,
    device: Arc<Device>,
}

// SAFETY: as of `Device`.
unsafe impl Send for Map {}
// SAFETY: as above.
unsafe impl Sync for Map {}

impl Map {
    /// An empty one, to be filled.
    pub(crate) fn new(device: &Arc<Device>) -> Result<Map, Error> {
        let mut raw = ptr::null_mut();
        // SAFETY: the pointer may be written.
        call("doca_mmap_create", device.label(), || unsafe { sys::doca_mmap_create(&mut raw) })?;
        Map::of("doca_mmap_create", raw, device)
    }

    /// One that was made by that function.
    pub(crate) fn of(
        call: &'static str,
        raw: *mut sys::doca_mmap,
        device: &Arc<Device>,
    ) -> Result<Map, Error> {
        let raw =
            NonNull::new(raw).ok_or_else(|| Error::Nothing { call, device: device.label().to_owned() })?;
        Ok(Map { raw, device: Arc::clone(device) })
    }

    pub(crate) fn raw(&self) -> *mut sys::doca_mmap {
        self.raw.as_ptr()
    }

    pub(crate) fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// Destroys it, and says whether that worked: then its keys open nothing any more.
    pub(crate) fn destroy(self) -> Result<(), (Map, Error)> {
        match self.end() {
            Ok(()) => {
                let map = ManuallyDrop::new(self);
                // SAFETY: moved out once, of a value that is not dropped.
                drop(unsafe { ptr::read(&map.device) });
                Ok(())
            }
            Err(error) => Err((self, error)),
        }
    }

    fn end(&self) -> Result<(), Error> {
        // SAFETY: made once; only when this fails is it there to be destroyed again.
        call("doca_mmap_destroy", self.device.label(), || unsafe { sys::doca_mmap_destroy(self.raw()) })
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        if self.end().is_err() {
            // It is still registered with the device, which therefore stays open until the process ends.
            mem::forget(Arc::clone(&self.device));
        }
    }
}
