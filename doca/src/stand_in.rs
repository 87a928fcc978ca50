//! What tests do with the stand-in for DOCA that this build is made against: count its objects, make it fail, and be the NIC that
//! writes with a key. There is no such module in a build against the SDK.

#![expect(unsafe_code, reason = "calls the stand-in")]

use std::ffi::{CString, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU8, Ordering};

use crate::export::HostMemory;
use crate::range::Range;
use crate::sys;

/// The directory that stands for the machine: processes of one directory reach each other.
pub const DIRECTORY: &str = "DOCA_STAND_IN_DIR";

/// Sets it for this process. Others find it in the environment.
pub fn set_directory(directory: &Path) {
    let directory = CString::new(directory.as_os_str().as_bytes()).expect("a path");
    // SAFETY: the text ends in a zero, and is copied.
    unsafe { sys::ringleader_doca_stand_in_directory(directory.as_ptr()) }
}

/// Objects that this process has made and not freed.
pub fn live() -> i64 {
    // SAFETY: reads a number.
    unsafe { sys::ringleader_doca_stand_in_live() }
}

/// By which functions objects were freed since the last time this was asked, in order; "closed-in-use" for a device that was not.
pub fn freed() -> Vec<String> {
    let mut text = vec![0_u8; 8192];
    // SAFETY: the room is as large as is said.
    let len = unsafe { sys::ringleader_doca_stand_in_freed(text.as_mut_ptr().cast(), text.len()) };
    String::from_utf8_lossy(&text[..len]).split_whitespace().map(str::to_owned).collect()
}

/// Lets a function answer with a code, until 0 is set.
pub fn fail(function: &str, code: u32) {
    let function = CString::new(function).expect("a name without zeros");
    // SAFETY: the name ends in a zero.
    unsafe { sys::ringleader_doca_stand_in_fail(function.as_ptr(), code) }
}

/// Lets all functions work.
pub fn mend() {
    // SAFETY: as above.
    unsafe { sys::ringleader_doca_stand_in_fail(ptr::null(), 0) }
}

/// What it says of its version from now on; `None`: nothing.
pub fn set_version(version: Option<&str>) {
    let version = version.map(|version| CString::new(version).expect("a version without zeros"));
    // SAFETY: the text ends in a zero, and is copied.
    unsafe {
        sys::ringleader_doca_stand_in_version(
            version.as_ref().map_or(ptr::null(), |version| version.as_ptr()),
        )
    }
}

/// Why a peer's request fails at the NIC.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// There is no such key, or no more.
    Key,
    /// It is not of these bytes.
    Range,
    /// It does not allow this.
    Permission,
    /// The host has taken the memory away.
    Export,
}

/// A peer's WRITE.
pub fn write(key: u32, address: u64, bytes: &[u8]) -> Result<(), Refusal> {
    // SAFETY: the bytes are as many as is said; where they go is judged by the stand-in.
    judge(unsafe { sys::ringleader_doca_stand_in_write(key, address, bytes.as_ptr().cast(), bytes.len()) })
}

/// A peer's READ.
pub fn read(key: u32, address: u64, bytes: &mut [u8]) -> Result<(), Refusal> {
    // SAFETY: the room is as large as is said.
    judge(unsafe { sys::ringleader_doca_stand_in_read(key, address, bytes.as_mut_ptr().cast(), bytes.len()) })
}

fn judge(answer: i32) -> Result<(), Refusal> {
    match answer.cast_unsigned() {
        sys::STAND_IN_DONE => Ok(()),
        sys::STAND_IN_NO_KEY => Err(Refusal::Key),
        sys::STAND_IN_NO_RANGE => Err(Refusal::Range),
        sys::STAND_IN_NO_PERMISSION => Err(Refusal::Permission),
        _ => Err(Refusal::Export),
    }
}

/// Memory that can be exported: a file of the directory, mapped.
#[derive(Debug)]
pub struct Memory {
    start: NonNull<c_void>,
    len: usize,
}

// SAFETY: mapped until it is dropped, and read through atomics only.
unsafe impl Send for Memory {}

impl Memory {
    /// All zeros. `None` when the stand-in has none to give.
    pub fn new(len: usize) -> Option<Memory> {
        // SAFETY: takes any length.
        let start = NonNull::new(unsafe { sys::ringleader_doca_stand_in_memory(len) })?;
        start.as_ptr().expose_provenance();
        Some(Memory { start, len })
    }

    /// What is there now.
    pub fn bytes(&self, offset: usize, len: usize) -> Vec<u8> {
        assert!(offset.checked_add(len).is_some_and(|end| end <= self.len), "these bytes are inside");
        let byte = |at| {
            // SAFETY: inside of the mapping, which others change at any moment, as atomics may be.
            unsafe { AtomicU8::from_ptr(self.start.cast::<u8>().as_ptr().add(at)) }.load(Ordering::Relaxed)
        };
        (offset..offset + len).map(byte).collect()
    }
}

// SAFETY: mapped from `new` to `drop`, and there is no reference into it but to atomics.
unsafe impl HostMemory for Memory {
    fn range(&self) -> Range {
        Range::new(self.start.as_ptr().addr() as u64, self.len as u64).expect("mapped")
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: mapped once, given back once.
        unsafe { sys::ringleader_doca_stand_in_memory_free(self.start.as_ptr()) }
    }
}
