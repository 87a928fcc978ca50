//! A function of the host as its DPU sees it: the channel's server listens to the host behind one.

#![expect(unsafe_code, reason = "calls DOCA")]

use std::ptr::{self, NonNull};
use std::slice;
use std::sync::Arc;

use crate::call::{alone, call};
use crate::device::{Device, is_address, text};
use crate::error::Error;
use crate::sys;

/// See the module.
#[derive(Debug)]
pub struct Representor {
    raw: NonNull<sys::doca_dev_rep>,
    /// Closed behind this.
    device: Arc<Device>,
}

// SAFETY: as of `Device`.
unsafe impl Send for Representor {}
// SAFETY: as above.
unsafe impl Sync for Representor {}

impl Representor {
    /// Of the function with that PCI address, as the host has it, among those that the device shows.
    pub fn open(device: &Arc<Device>, pci: &str) -> Result<Arc<Representor>, Error> {
        let list = List::new(device)?;
        let mut there = Vec::new();
        for info in list.infos() {
            let mut address = [0; sys::DOCA_DEVINFO_REP_PCI_ADDR_SIZE as usize];
            // SAFETY: the entry is of a list that is not freed, and the room is as large as an address.
            call("doca_devinfo_rep_get_pci_addr_str", device.label(), || unsafe {
                sys::doca_devinfo_rep_get_pci_addr_str(*info, address.as_mut_ptr())
            })?;
            let address = text(&address);
            if !is_address(&address, pci) {
                there.push(address);
                continue;
            }
            let mut raw = ptr::null_mut();
            // SAFETY: as above; the pointer may be written.
            call("doca_dev_rep_open", device.label(), || unsafe { sys::doca_dev_rep_open(*info, &mut raw) })?;
            let raw = NonNull::new(raw).ok_or_else(|| Error::Nothing {
                call: "doca_dev_rep_open",
                device: device.label().to_owned(),
            })?;
            return Ok(Arc::new(Representor { raw, device: Arc::clone(device) }));
        }
        Err(Error::NoRepresentor { device: device.label().to_owned(), wanted: pci.to_owned(), there })
    }

    /// The device that shows it.
    pub fn device(&self) -> &Arc<Device> {
        &self.device
    }

    pub(crate) fn raw(&self) -> *mut sys::doca_dev_rep {
        self.raw.as_ptr()
    }
}

impl Drop for Representor {
    fn drop(&mut self) {
        // SAFETY: opened once, closed once; a server on it holds this value.
        let _ = alone(|| unsafe { sys::doca_dev_rep_close(self.raw()) });
    }
}

/// What a device shows, freed with this value.
struct List {
    raw: *mut *mut sys::doca_devinfo_rep,
    count: u32,
}

impl List {
    fn new(device: &Device) -> Result<List, Error> {
        let mut list = List { raw: ptr::null_mut(), count: 0 };
        let filter = sys::DOCA_DEVINFO_REP_FILTER_NET;
        // SAFETY: the device is open, and both may be written.
        call("doca_devinfo_rep_create_list", device.label(), || unsafe {
            sys::doca_devinfo_rep_create_list(device.raw(), filter as i32, &mut list.raw, &mut list.count)
        })?;
        Ok(list)
    }

    fn infos(&self) -> &[*mut sys::doca_devinfo_rep] {
        if self.raw.is_null() {
            return &[];
        }
        // SAFETY: so many entries are at the list, which is freed with this value.
        unsafe { slice::from_raw_parts(self.raw, self.count as usize) }
    }
}

impl Drop for List {
    fn drop(&mut self) {
        if !self.raw.is_null() {
            // SAFETY: made once, freed once.
            let _ = alone(|| unsafe { sys::doca_devinfo_rep_destroy_list(self.raw) });
        }
    }
}
