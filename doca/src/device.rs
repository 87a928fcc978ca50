//! Devices as DOCA sees them: listed, found by PCI address or by what libibverbs calls them, and opened.
//!
//! All handles that are made on a device hold it, so that it is closed behind the last of them, and the protection domain with it.

#![expect(unsafe_code, reason = "calls DOCA")]

use std::ffi::{CStr, c_char};
use std::fmt;
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::Arc;

use crate::call::{alone, call};
use crate::error::Error;
use crate::library::Library;
use crate::sys;

/// What there is when no device is meant.
const ANY: &str = "DOCA";

/// A device that is there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listed {
    /// Its PCI address, with the domain. Sub-functions have that of their parent.
    pub pci: String,
    /// What libibverbs calls it, where it can be used with that.
    pub name: Option<String>,
}

/// An opened device.
#[derive(Debug)]
pub struct Device {
    raw: NonNull<sys::doca_dev>,
    listed: Listed,
}

// SAFETY: DOCA's objects belong to the process, and are used by one thread at a time (`call`).
unsafe impl Send for Device {}
// SAFETY: as above.
unsafe impl Sync for Device {}

/// All devices.
pub fn devices(_: &Library) -> Result<Vec<Listed>, Error> {
    List::new()?.infos().iter().map(|info| describe(*info)).collect()
}

impl Device {
    /// Opens the one with that PCI address (0000:03:00.0, or without the domain 0000) or that name (mlx5_0).
    pub fn open(_: &Library, wanted: &str) -> Result<Arc<Device>, Error> {
        let list = List::new()?;
        let mut there = Vec::new();
        for info in list.infos() {
            there.push((describe(*info)?, *info));
        }
        let mut found = there.iter().filter(|(listed, _)| listed.is(wanted));
        let (listed, info) = match (found.next(), found.count()) {
            (Some(one), 0) => one.clone(),
            (first, more) => {
                let matches = usize::from(first.is_some()) + more;
                let there = there.into_iter().map(|(listed, _)| listed).collect();
                return Err(Error::NoDevice { wanted: wanted.to_owned(), matches, there });
            }
        };
        let mut raw = ptr::null_mut();
        // SAFETY: the entry is of a list that is not freed yet, and the pointer may be written.
        call("doca_dev_open", wanted, || unsafe { sys::doca_dev_open(info, &mut raw) })?;
        let raw =
            NonNull::new(raw).ok_or(Error::Nothing { call: "doca_dev_open", device: wanted.to_owned() })?;
        Ok(Arc::new(Device { raw, listed }))
    }

    /// What it is.
    pub fn listed(&self) -> &Listed {
        &self.listed
    }

    /// For messages.
    pub(crate) fn label(&self) -> &str {
        self.listed.name.as_deref().unwrap_or(&self.listed.pci)
    }

    pub(crate) fn raw(&self) -> *mut sys::doca_dev {
        self.raw.as_ptr()
    }

    /// As whom to ask what it can.
    pub(crate) fn info(&self) -> Result<*const sys::doca_devinfo, Error> {
        // SAFETY: the device is open.
        let info = alone(|| unsafe { sys::doca_dev_as_devinfo(self.raw()) });
        match info.is_null() {
            true => Err(Error::Nothing { call: "doca_dev_as_devinfo", device: self.label().to_owned() }),
            false => Ok(info.cast_const()),
        }
    }

    /// An error unless a question about what it can is answered with yes.
    pub(crate) fn must(
        &self,
        what: &'static str,
        name: &'static str,
        ask: unsafe extern "C" fn(*const sys::doca_devinfo, *mut u8) -> sys::doca_error_t,
    ) -> Result<(), Error> {
        let (info, mut yes) = (self.info()?, 0);
        // SAFETY: the entry is that of an open device, and the answer is one byte.
        call(name, self.label(), || unsafe { ask(info, &mut yes) })?;
        match yes {
            0 => Err(Error::Unable { device: self.label().to_owned(), what }),
            _ => Ok(()),
        }
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: opened once, closed once; all that was made on it holds this value. What DOCA could not free stays until the
        // process ends.
        let _ = alone(|| unsafe { sys::doca_dev_close(self.raw()) });
    }
}

impl Listed {
    fn is(&self, wanted: &str) -> bool {
        self.name.as_deref() == Some(wanted) || is_address(&self.pci, wanted)
    }
}

impl fmt::Display for Listed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "{name} ({})", self.pci),
            None => f.write_str(&self.pci),
        }
    }
}

/// Whether that is what DOCA calls this address: the case of digits does not matter, and the domain 0000 may be left out.
pub(crate) fn is_address(pci: &str, wanted: &str) -> bool {
    pci.eq_ignore_ascii_case(wanted)
        || pci.strip_prefix("0000:").is_some_and(|rest| rest.eq_ignore_ascii_case(wanted))
}

/// A text of fixed room, up to its end.
pub(crate) fn text(room: &[c_char]) -> String {
    let bytes: Vec<u8> = room.iter().map(|byte| byte.cast_unsigned()).collect();
    let text = CStr::from_bytes_until_nul(&bytes).map_or(&bytes[..], CStr::to_bytes);
    String::from_utf8_lossy(text).into_owned()
}

/// The list of devices, freed with this value.
struct List {
    raw: *mut *mut sys::doca_devinfo,
    count: u32,
}

impl List {
    fn new() -> Result<List, Error> {
        let mut list = List { raw: ptr::null_mut(), count: 0 };
        // SAFETY: both may be written.
        call("doca_devinfo_create_list", ANY, || unsafe {
            sys::doca_devinfo_create_list(&mut list.raw, &mut list.count)
        })?;
        Ok(list)
    }

    fn infos(&self) -> &[*mut sys::doca_devinfo] {
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
            // SAFETY: made once, freed once; an opened device does not need it.
            let _ = alone(|| unsafe { sys::doca_devinfo_destroy_list(self.raw) });
        }
    }
}

fn describe(info: *mut sys::doca_devinfo) -> Result<Listed, Error> {
    let mut pci = [0; sys::DOCA_DEVINFO_PCI_ADDR_SIZE as usize];
    // SAFETY: the entry is of a list that is not freed, and the room is as large as an address.
    call("doca_devinfo_get_pci_addr_str", ANY, || unsafe {
        sys::doca_devinfo_get_pci_addr_str(info, pci.as_mut_ptr())
    })?;
    let mut name = [0; sys::DOCA_DEVINFO_IBDEV_NAME_SIZE as usize];
    // SAFETY: as above; the room is as large as is said.
    let named = call("doca_devinfo_get_ibdev_name", ANY, || unsafe {
        sys::doca_devinfo_get_ibdev_name(info, name.as_mut_ptr(), name.len() as u32)
    });
    // One without is listed all the same: the others must be found.
    let name = named.is_ok().then(|| text(&name)).filter(|name| !name.is_empty());
    Ok(Listed { pci: text(&pci), name })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_found_with_or_without_its_domain() {
        for wanted in ["0000:3b:00.0", "3b:00.0", "0000:3B:00.0", "3B:00.0"] {
            assert!(is_address("0000:3b:00.0", wanted), "{wanted}");
        }
        for other in ["", "0000:", "3b:00.1", "0001:3b:00.0", ":3b:00.0", "0000:0000:3b:00.0"] {
            assert!(!is_address("0000:3b:00.0", other), "{other}");
        }
        assert!(!is_address("0001:3b:00.0", "3b:00.0"));
    }

    #[test]
    fn a_text_ends_with_its_zero_or_its_room() {
        assert_eq!(text(&[104, 105, 0, 120]), "hi");
        assert_eq!(text(&[104, 105]), "hi");
        assert_eq!(text(&[-1, 0]), "\u{fffd}");
        assert_eq!(text(&[]), "");
    }
}
