//! Memory of the host in the DPU's hands: a key to it for peers, which goes when the DPU says so.
//!
//! The order of an end is: the queue pairs through which peers write (fenced as anywhere, protocol.md 2, A2), then the
//! [`Import`], then the [`Domain`] and the device. The last two hold each other up; the first two are for who has both.

#![expect(unsafe_code, reason = "calls DOCA")]

use std::ptr;
use std::sync::Arc;

use crate::call::call;
use crate::descriptor::Descriptor;
use crate::device::Device;
use crate::domain::Domain;
use crate::error::Error;
use crate::map::Map;
use crate::range::Range;
use crate::sys;

/// See the module.
#[derive(Debug)]
pub struct Import {
    map: Map,
    range: Range,
}

impl Import {
    /// Imports what the descriptor is of, an error when that is not what its host says.
    pub fn new(device: &Arc<Device>, descriptor: &Descriptor, said: Range) -> Result<Import, Error> {
        const CREATE: &str = "doca_mmap_create_from_export";
        device.must(
            "import memory of its host: it is no function of a DPU",
            "doca_mmap_cap_is_create_from_export_pci_supported",
            sys::doca_mmap_cap_is_create_from_export_pci_supported,
        )?;
        let (bytes, mut raw) = (descriptor.secret(), ptr::null_mut());
        // SAFETY: the bytes are as many as is said, and only read; the device is open; the pointer may be written.
        call(CREATE, device.label(), || unsafe {
            sys::doca_mmap_create_from_export(
                ptr::null(),
                bytes.as_ptr().cast(),
                bytes.len(),
                device.raw(),
                &mut raw,
            )
        })?;
        let map = Map::of(CREATE, raw, device)?;
        let range = range_of(&map)?;
        if range != said {
            return Err(Error::Range { said, found: range });
        }
        Ok(Import { map, range })
    }

    /// What it is of, as peers address it.
    pub fn range(&self) -> Range {
        self.range
    }

    /// The key to it, for peers on queue pairs in that domain. It is good until this value is gone.
    pub fn key(&self, domain: &Domain) -> Result<u32, Error> {
        let mut key = 0;
        // SAFETY: map and domain are there, and the key may be written.
        call("doca_rdma_bridge_get_mmap_mkey_from_pd", self.map.device().label(), || unsafe {
            sys::doca_rdma_bridge_get_mmap_mkey_from_pd(
                self.map.raw(),
                domain.raw().as_ptr().cast(),
                &mut key,
            )
        })?;
        Ok(key)
    }

    /// Makes its key void, and says whether that worked. When it did not, the key may still open the host's memory: whoever must
    /// keep a writer out has its queue pair to destroy, and its own process to end.
    pub fn revoke(self) -> Result<(), (Import, Error)> {
        let Import { map, range } = self;
        map.destroy().map_err(|(map, error)| (Import { map, range }, error))
    }
}

fn range_of(map: &Map) -> Result<Range, Error> {
    const GET: &str = "doca_mmap_get_memrange";
    let (mut start, mut len) = (ptr::null_mut(), 0);
    let label = map.device().label();
    // SAFETY: the map is there, and both may be written.
    call(GET, label, || unsafe { sys::doca_mmap_get_memrange(map.raw(), &mut start, &mut len) })?;
    Range::new(start.addr() as u64, len as u64)
        .ok_or_else(|| Error::Nothing { call: GET, device: label.to_owned() })
}
