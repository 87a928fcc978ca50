//! Memory of this host that its DPU may import. The host's own function gives nobody a key to it, so that whoever writes there does
//! so by the DPU's leave.

#![expect(unsafe_code, reason = "calls DOCA")]

use std::mem::{self, ManuallyDrop};
use std::ptr;
use std::slice;
use std::sync::Arc;

use crate::call::{alone, call};
use crate::code::Code;
use crate::descriptor::{Descriptor, MAX_DESCRIPTOR_LEN};
use crate::device::Device;
use crate::error::Error;
use crate::map::Map;
use crate::range::Range;
use crate::sys;

/// Memory that others may change at any moment.
///
/// # Safety
///
/// [`range`](HostMemory::range) is mapped, readable and writable, and the same for as long as the value lives, wherever it is moved
/// to; and nobody in this process holds a reference into it but to atomics.
pub unsafe trait HostMemory {
    /// Where it is.
    fn range(&self) -> Range;
}

/// What the DPU may let peers do with it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// READ.
    Read,
    /// READ and WRITE.
    Write,
}

impl Access {
    /// Spelled out: no atomics, whose words stay in the DPU's memory, and never relaxed ordering (protocol.md 2, A1).
    fn flags(self) -> u32 {
        match self {
            Access::Read => {
                sys::DOCA_ACCESS_FLAG_LOCAL_READ_ONLY
                    | sys::DOCA_ACCESS_FLAG_PCI_READ_ONLY
                    | sys::DOCA_ACCESS_FLAG_RDMA_READ
            }
            Access::Write => {
                sys::DOCA_ACCESS_FLAG_LOCAL_READ_WRITE
                    | sys::DOCA_ACCESS_FLAG_PCI_READ_WRITE
                    | sys::DOCA_ACCESS_FLAG_RDMA_WRITE
                    | sys::DOCA_ACCESS_FLAG_RDMA_READ
            }
        }
    }
}

/// See the module. When it goes, what was imported of it opens nothing any more, and only then the memory is given back.
#[derive(Debug)]
pub struct Export<M: HostMemory> {
    map: ManuallyDrop<Map>,
    memory: ManuallyDrop<M>,
    range: Range,
    descriptor: Descriptor,
}

impl<M: HostMemory> Export<M> {
    /// Exports all of that memory to the DPU that the device is a function of.
    pub fn new(device: &Arc<Device>, memory: M, access: Access) -> Result<Export<M>, Error> {
        device.must(
            "export memory to a DPU: it is no function of one",
            "doca_mmap_cap_is_export_pci_supported",
            sys::doca_mmap_cap_is_export_pci_supported,
        )?;
        let (range, map) = (memory.range(), Map::new(device)?);
        // SAFETY: the range is mapped for as long as `memory` lives, by its promise, and it outlives the map.
        match unsafe { start(&map, range, access) }.and_then(|()| describe(&map)) {
            Ok(descriptor) => {
                let (map, memory) = (ManuallyDrop::new(map), ManuallyDrop::new(memory));
                Ok(Export { map, memory, range, descriptor })
            }
            Err(error) => {
                end(map, memory);
                Err(error)
            }
        }
    }

    /// What the DPU needs to import it.
    pub fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    /// What it is of.
    pub fn range(&self) -> Range {
        self.range
    }

    /// Its bytes.
    pub fn memory(&self) -> &M {
        &self.memory
    }

    /// Ends it, and says whether that worked: then nobody reaches the memory any more, and it is given back.
    #[expect(clippy::result_large_err, reason = "it happens once in an export's life, and is all of it")]
    pub fn end(self) -> Result<M, (Export<M>, Error)> {
        let Export { map, memory, range, descriptor } = &mut *ManuallyDrop::new(self);
        // SAFETY: all are moved out once, of a value that is not dropped.
        let (map, memory) = unsafe { (ManuallyDrop::take(map), ManuallyDrop::take(memory)) };
        // SAFETY: as above.
        let (range, descriptor) = unsafe { (ptr::read(range), ptr::read(descriptor)) };
        match map.destroy() {
            Ok(()) => Ok(memory),
            Err((map, error)) => {
                let (map, memory) = (ManuallyDrop::new(map), ManuallyDrop::new(memory));
                Err((Export { map, memory, range, descriptor }, error))
            }
        }
    }
}

impl<M: HostMemory> Drop for Export<M> {
    fn drop(&mut self) {
        // SAFETY: moved out once; this value is not used again.
        let (map, memory) =
            unsafe { (ManuallyDrop::take(&mut self.map), ManuallyDrop::take(&mut self.memory)) };
        end(map, memory);
    }
}

/// The map first.
fn end<M: HostMemory>(map: Map, memory: M) {
    match map.destroy() {
        Ok(()) => drop(memory),
        // A NIC may still write there: nobody else gets these bytes as long as the process lives.
        Err((map, _)) => mem::forget((map, memory)),
    }
}

/// # Safety
///
/// The range is mapped until the map is destroyed.
unsafe fn start(map: &Map, range: Range, access: Access) -> Result<(), Error> {
    let (device, label) = (map.device(), map.device().label());
    // SAFETY: map and device are there.
    call("doca_mmap_add_dev", label, || unsafe { sys::doca_mmap_add_dev(map.raw(), device.raw()) })?;
    let (start, len) = (ptr::with_exposed_provenance_mut(range.address() as usize), range.len() as usize);
    // SAFETY: the range is mapped, as the caller promises.
    call("doca_mmap_set_memrange", label, || unsafe { sys::doca_mmap_set_memrange(map.raw(), start, len) })?;
    // SAFETY: the map is there.
    call("doca_mmap_set_permissions", label, || unsafe {
        sys::doca_mmap_set_permissions(map.raw(), access.flags())
    })?;
    // SAFETY: as above.
    call("doca_mmap_start", label, || unsafe { sys::doca_mmap_start(map.raw()) })
}

fn describe(map: &Map) -> Result<Descriptor, Error> {
    let (mut start, mut len) = (ptr::null(), 0);
    let device = map.device();
    alone(|| {
        // SAFETY: the map is started, and both may be written.
        Code::check(unsafe { sys::doca_mmap_export_pci(map.raw(), device.raw(), &mut start, &mut len) })
            .map_err(|code| Error::Call {
                call: "doca_mmap_export_pci",
                device: device.label().to_owned(),
                code,
            })?;
        if start.is_null() {
            return Err(Error::Nothing { call: "doca_mmap_export_pci", device: device.label().to_owned() });
        }
        if len > MAX_DESCRIPTOR_LEN {
            return Err(Error::Descriptor { len });
        }
        // SAFETY: so many bytes are there, until the map is destroyed.
        Descriptor::new(unsafe { slice::from_raw_parts(start.cast(), len) })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_relaxed_ordering_nor_atomics_are_asked_for() {
        for access in [Access::Read, Access::Write] {
            let never = sys::DOCA_ACCESS_FLAG_PCI_RELAXED_ORDERING | sys::DOCA_ACCESS_FLAG_RDMA_ATOMIC;
            assert_eq!(access.flags() & never, 0, "{access:?}");
        }
        let writes = sys::DOCA_ACCESS_FLAG_RDMA_WRITE
            | sys::DOCA_ACCESS_FLAG_PCI_READ_WRITE
            | sys::DOCA_ACCESS_FLAG_LOCAL_READ_WRITE;
        assert_eq!(Access::Read.flags() & writes, 0);
    }
}
