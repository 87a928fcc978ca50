//! Mapped memory: of a region's file, or private. Not: what is in it.
//!
//! Everything handed out is a slice of `AtomicU64`: peers in other processes store into the same pages at any moment,
//! by the same rule (aligned whole words, atomically), so no reference to plain bytes is ever made.
//! A mapping lives as long as anything that was cut from it.

#![expect(unsafe_code, reason = "maps memory, and lends it as slices of atomic words")]

use std::ffi::c_void;
use std::io;
use std::os::fd::AsFd;
#[cfg(feature = "doca")]
use std::os::fd::OwnedFd;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use ringleader_core::mem::Memory;
#[cfg(feature = "doca")]
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};
use rustix::param::page_size;

/// Bytes of a huge page of [`Mapping::huge`], on every kernel: where small ones have 64 KiB, the kernel's own default is 512 MiB.
pub(crate) const HUGE_PAGE: u64 = 2 << 20;

/// One mapping of whole pages.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<c_void>,
    len: usize,
}

// SAFETY: the mapping belongs to the process, not to a thread; the value only holds its address, and its memory is
// reached through atomics alone.
unsafe impl Send for Mapping {}
// SAFETY: as above: all access through `&Mapping` is by atomics or by system calls.
unsafe impl Sync for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by one of the constructors and is unmapped only here; every `Mapped` cut from it
        // holds an `Arc` of this value, so none is left. The result says nothing that could be acted upon.
        let _ = unsafe { munmap(self.start.as_ptr(), self.len) };
    }
}

impl Mapping {
    /// The first `len` bytes of a file, shared with everyone who maps it. The file is at least as long.
    pub(crate) fn shared(file: impl AsFd, len: u64) -> io::Result<Arc<Mapping>> {
        Mapping::of_file(file, len, MapFlags::SHARED)
    }

    /// The first `len` bytes of a file as they are when first looked at; stores stay private.
    pub(crate) fn private(file: impl AsFd, len: u64) -> io::Result<Arc<Mapping>> {
        Mapping::of_file(file, len, MapFlags::PRIVATE)
    }

    fn of_file(file: impl AsFd, len: u64, flags: MapFlags) -> io::Result<Arc<Mapping>> {
        let len = usize::try_from(len).map_err(|_| io::ErrorKind::OutOfMemory)?;
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory that exists.
        let start =
            unsafe { mmap(ptr::null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, flags, file, 0)? };
        Mapping::adopt(start, len)
    }

    /// `len` zeroed bytes of this process alone.
    pub(crate) fn anonymous(len: u64) -> io::Result<Arc<Mapping>> {
        let len = usize::try_from(len).map_err(|_| io::ErrorKind::OutOfMemory)?;
        // SAFETY: as in `of_file`.
        let start = unsafe {
            mmap_anonymous(ptr::null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)?
        };
        Mapping::adopt(start, len)
    }

    /// As [`Mapping::anonymous`], in pages of the pool that an administrator reserved (`hugepages-2048kB`) where it has enough.
    #[cfg(feature = "verbs")]
    pub(crate) fn huge(len: u64) -> io::Result<Arc<Mapping>> {
        let whole = len.checked_next_multiple_of(HUGE_PAGE).and_then(|len| usize::try_from(len).ok());
        let whole = whole.ok_or(io::ErrorKind::OutOfMemory)?;
        let flags = MapFlags::PRIVATE | MapFlags::HUGETLB | MapFlags::HUGE_2MB | MapFlags::POPULATE;
        // SAFETY: as in `of_file`.
        let start =
            unsafe { mmap_anonymous(ptr::null_mut(), whole, ProtFlags::READ | ProtFlags::WRITE, flags) };
        match start {
            Ok(start) => Mapping::adopt(start, whole),
            Err(_) => Mapping::anonymous(len),
        }
    }

    /// As [`Mapping::huge`], of a file without a name, which others can be handed.
    #[cfg(feature = "doca")]
    fn exportable(len: u64) -> io::Result<(Arc<Mapping>, OwnedFd)> {
        let made = |len: u64, flags: MemfdFlags| {
            let file = memfd_create("ringleader-log", MemfdFlags::CLOEXEC | flags)?;
            ftruncate(&file, len)?;
            Mapping::shared(&file, len).map(|mapping| (mapping, file))
        };
        let whole = len.checked_next_multiple_of(HUGE_PAGE).ok_or(io::ErrorKind::OutOfMemory)?;
        made(whole, MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB).or_else(|_| made(len, MemfdFlags::empty()))
    }

    fn adopt(start: *mut c_void, len: usize) -> io::Result<Arc<Mapping>> {
        let start = NonNull::new(start).ok_or(io::ErrorKind::OutOfMemory)?;
        // Large pages make the difference between one and hundreds of TLB misses a lap of the ring. Not every kernel or
        // file system has them, and nothing depends on it.
        // SAFETY: the range was just mapped; the advice changes no content.
        let _ = unsafe { madvise(start.as_ptr(), len, Advice::LinuxHugepage) };
        // A child has no use for it, and copying pages on write after a fork would cost faults in the middle of copies.
        // SAFETY: as above.
        let _ = unsafe { madvise(start.as_ptr(), len, Advice::LinuxDontFork) };
        Ok(Arc::new(Mapping { start, len }))
    }

    /// Makes the pages that a range is in present and writable, so that no access to them faults later. Clipped to the mapping.
    pub(crate) fn populate(&self, offset: u64, len: u64) -> io::Result<()> {
        let (start, end) = pages_of(offset, len, self.len, page_size());
        // SAFETY: the range is inside the mapping; populating changes no content, and failures are errors, not signals.
        let done =
            unsafe { madvise(self.start.as_ptr().byte_add(start), end - start, Advice::LinuxPopulateWrite) };
        match done {
            // A kernel before 5.14: the pages come one by one at their first use.
            Err(rustix::io::Errno::INVAL) => Ok(()),
            other => Ok(other?),
        }
    }

    /// A range of the mapping. It is a bug to ask for one that is not inside, or not of whole words.
    pub(crate) fn slice(self: &Arc<Self>, offset: u64, len: u64) -> Mapped {
        assert!(offset.is_multiple_of(8) && len.is_multiple_of(8), "a range is made of whole words");
        let end = offset.checked_add(len).expect("a range ends below 2^64");
        assert!(end <= self.len as u64, "a range is inside its mapping");
        // SAFETY: `offset` is at most the mapping's length, which fits an `isize` as every mapping does.
        let words = unsafe { self.start.byte_add(offset as usize) }.cast();
        Mapped { words, count: (len / 8) as usize, _mapping: Arc::clone(self) }
    }
}

/// `len` zeroed bytes that can be exported, all of them present, and the file that they are of.
#[cfg(feature = "doca")]
pub(crate) fn exportable(len: u64) -> io::Result<(Mapped, OwnedFd)> {
    let (mapping, file) = Mapping::exportable(len)?;
    mapping.populate(0, u64::MAX)?;
    Ok((mapping.slice(0, len), file))
}

/// From where, at the start of a page, to where `len` bytes at `offset` of a mapping of `mapped` bytes are. The kernel refuses a start
/// inside a page, in the words of one that cannot populate at all.
fn pages_of(offset: u64, len: u64, mapped: usize, page: usize) -> (usize, usize) {
    let end = offset.saturating_add(len).min(mapped as u64) as usize;
    let start = offset.min(end as u64) as usize;
    (start - start % page, end)
}

/// A range of mapped words; the mapping lives as long as the longest-lived clone.
#[derive(Clone, Debug)]
pub struct Mapped {
    /// Aligned to 8 bytes, and valid for `count` words as long as `_mapping` lives.
    words: NonNull<AtomicU64>,
    count: usize,
    _mapping: Arc<Mapping>,
}

impl Mapped {
    /// A part of the range. It is a bug to ask for one that is not inside, or not of whole words.
    pub(crate) fn part(&self, offset: u64, len: u64) -> Mapped {
        let words = &self.words()[(offset / 8) as usize..][..(len / 8) as usize];
        Mapped {
            words: NonNull::from(words).cast(),
            count: words.len(),
            _mapping: Arc::clone(&self._mapping),
        }
    }
}

// SAFETY: it is a shared reference to atomics, together with what keeps them mapped; both may go anywhere.
unsafe impl Send for Mapped {}
// SAFETY: as above.
unsafe impl Sync for Mapped {}

impl Memory for Mapped {
    #[inline(always)]
    fn words(&self) -> &[AtomicU64] {
        // SAFETY: `slice` checked that the range is inside the mapping and aligned; the mapping is readable and writable
        // and outlives the borrow of `self`. Every bit pattern is an `AtomicU64`. All who write these pages, in
        // this process and in others, store aligned words atomically.
        unsafe { std::slice::from_raw_parts(self.words.as_ptr(), self.count) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn a_slice_outlives_the_handle_it_was_cut_from() {
        let mapping = Mapping::anonymous(1 << 16).unwrap();
        mapping.populate(0, u64::MAX).unwrap();
        let range = mapping.slice(4096, 64);
        drop(mapping);
        assert_eq!(range.words().len(), 8);
        range.words()[7].store(5, Ordering::Relaxed);
        assert_eq!(range.clone().words()[7].load(Ordering::Relaxed), 5);
    }

    #[test]
    fn what_is_populated_starts_with_a_page_of_any_size() {
        const MAPPED: usize = 3 * (64 << 10) + 4096;
        for page in [4 << 10, 16 << 10, 64 << 10] {
            for (offset, len) in
                [(0, 1), (4096, 4096), (65_528, 16), (65_536, 65_536), (0, u64::MAX), (u64::MAX, 1)]
            {
                let (start, end) = pages_of(offset, len, MAPPED, page);
                assert!(start.is_multiple_of(page) && start <= end && end <= MAPPED);
                assert!(
                    offset > MAPPED as u64
                        || (start as u64 <= offset && offset - (start as u64) < page as u64)
                );
                assert_eq!(end as u64, offset.saturating_add(len).min(MAPPED as u64));
            }
        }
        assert_eq!(pages_of(4096, 4096, MAPPED, 4096), (4096, 8192));
        assert_eq!(pages_of(4096, 4096, MAPPED, 65_536), (0, 8192));
    }

    #[test]
    #[should_panic(expected = "inside its mapping")]
    fn a_slice_is_inside_its_mapping() {
        Mapping::anonymous(4096).unwrap().slice(4096, 8);
    }
}
