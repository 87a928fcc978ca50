//! C's pointers, checked: not NULL, aligned, and for structs that begin with their size, of a size that is known.
//!
//! That a pointer leads to as many bytes as it says, which nobody else changes meanwhile, is the caller's word: the conventions in
//! `ringleader.h` say so for all functions at once.

use core::marker::PhantomData;
use core::mem::{align_of, size_of};

use crate::status::ringleader_status as S;

/// A struct of C that begins with its size in bytes, a `uint32_t`, and grows at its end. All its bytes may be zero.
///
/// # Safety
///
/// It is `repr(C)`, its first field is that `u32`, any bytes are a value of it, and it has no padding at its end.
pub unsafe trait Sized32: Copy {
    /// Bytes of it in the first version of the library.
    const FIRST: usize;
}

/// A pointer to something that is read.
///
/// # Safety
///
/// It is NULL, misaligned, or leads to a `T` that stays as it is for `'a`.
pub unsafe fn input<'a, T>(pointer: *const T) -> Result<&'a T, S> {
    check(pointer)?;
    // SAFETY: it was just checked; the rest is the caller's word.
    Ok(unsafe { &*pointer })
}

/// A place that is written on success.
///
/// # Safety
///
/// It is NULL, misaligned, or leads to memory for a `T`, which nobody else uses for `'a`.
pub unsafe fn output<'a, T>(pointer: *mut T) -> Result<Output<'a, T>, S> {
    check(pointer)?;
    Ok(Output { pointer, life: PhantomData })
}

/// Memory for a `T`, which may hold anything. No reference: C may give one place for two outputs, or one that is read before.
#[derive(Debug)]
pub struct Output<'a, T> {
    pointer: *mut T,
    life: PhantomData<&'a mut T>,
}

impl<T> Output<'_, T> {
    /// Writes it.
    pub fn set(self, value: T) {
        // SAFETY: it was checked; the rest is the word of who called `output`.
        unsafe { self.pointer.write(value) };
    }
}

/// Bytes that are read; `len` 0 may come with any pointer.
///
/// # Safety
///
/// `bytes` is NULL or leads to `len` bytes that stay as they are for `'a`.
pub unsafe fn bytes<'a>(bytes: *const u8, len: usize) -> Result<&'a [u8], S> {
    if len == 0 {
        return Ok(&[]);
    }
    if bytes.is_null() {
        return Err(S::RINGLEADER_NULL);
    }
    if isize::try_from(len).is_err() {
        return Err(S::RINGLEADER_TOO_LARGE);
    }
    // SAFETY: not NULL, and no longer than memory can be; the rest is the caller's word.
    Ok(unsafe { core::slice::from_raw_parts(bytes, len) })
}

/// A struct with a size, as the caller's version has it: what that one does not have is zero here.
///
/// # Safety
///
/// `pointer` is NULL, misaligned, or leads to as many bytes as it says in the beginning.
pub unsafe fn grown<T: Sized32>(pointer: *const T) -> Result<T, S> {
    check(pointer)?;
    // SAFETY: by the trait the size is there.
    let size = unsafe { pointer.cast::<u32>().read() } as usize;
    // Of a later version, whose new members say nothing: they can be done without.
    let known = size.min(size_of::<T>());
    if size < T::FIRST || !size.is_multiple_of(4) || size > MAX_SIZE {
        return Err(S::RINGLEADER_SIZE);
    }
    // SAFETY: there are `size` bytes.
    let all = unsafe { core::slice::from_raw_parts(pointer.cast::<u8>(), size) };
    if all[known..].iter().any(|byte| *byte != 0) {
        return Err(S::RINGLEADER_SIZE);
    }
    // SAFETY: by the trait all bytes zero are a `T`, and so are any others; `known` is no more than a `T` has.
    Ok(unsafe {
        let mut value = core::mem::MaybeUninit::<T>::zeroed();
        core::ptr::copy_nonoverlapping(pointer.cast::<u8>(), value.as_mut_ptr().cast(), known);
        value.assume_init()
    })
}

/// No struct is longer.
const MAX_SIZE: usize = 1 << 16;

/// A place for a struct with a size, which its caller has set.
///
/// # Safety
///
/// `pointer` is NULL, misaligned, or leads to as many bytes as it says in the beginning, which nobody else uses for `'a`.
pub unsafe fn growing<'a, T: Sized32>(pointer: *mut T) -> Result<Growing<'a, T>, S> {
    check(pointer)?;
    // SAFETY: by the trait the size is there.
    let size = unsafe { pointer.cast::<u32>().read() } as usize;
    if size < T::FIRST || !size.is_multiple_of(4) || size > MAX_SIZE {
        return Err(S::RINGLEADER_SIZE);
    }
    Ok(Growing { pointer, size, life: PhantomData })
}

/// See [`growing`].
#[derive(Debug)]
pub struct Growing<'a, T> {
    pointer: *mut T,
    size: usize,
    life: PhantomData<&'a mut T>,
}

impl<T: Sized32> Growing<'_, T> {
    /// Writes as much of it as there is room for; the size stays the caller's, and what this version does not know becomes zero.
    pub fn set(self, value: T) {
        let known = self.size.min(size_of::<T>());
        // SAFETY: there are `size` bytes at the pointer, and `known` in the value; the size in the beginning is passed over.
        unsafe {
            let (to, from) = (self.pointer.cast::<u8>(), (&raw const value).cast::<u8>());
            core::ptr::copy_nonoverlapping(from.add(4), to.add(4), known - 4);
            core::ptr::write_bytes(to.add(known), 0, self.size - known);
        }
    }
}

/// Not NULL, and aligned.
pub fn check<T>(pointer: *const T) -> Result<(), S> {
    if pointer.is_null() {
        return Err(S::RINGLEADER_NULL);
    }
    if !pointer.addr().is_multiple_of(align_of::<T>()) {
        return Err(S::RINGLEADER_MISALIGNED);
    }
    Ok(())
}

/// A status of what went well or not.
pub fn status(result: Result<(), S>) -> S {
    result.err().unwrap_or(S::RINGLEADER_OK)
}

/// A flag or number of an enumeration that C gives.
pub fn one_of<T: Copy>(number: u32, all: &[T]) -> Result<T, S> {
    all.get(number as usize).copied().ok_or(S::RINGLEADER_OPTION)
}
