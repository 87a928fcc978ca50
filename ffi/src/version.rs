//! Which version of the library this is.

use std::ffi::c_char;

/// The version of this header: major.
pub const RINGLEADER_VERSION_MAJOR: u32 = 0;
/// Minor.
pub const RINGLEADER_VERSION_MINOR: u32 = 1;
/// Patch.
pub const RINGLEADER_VERSION_PATCH: u32 = 0;

/// The version of the library that is linked, `major << 16 | minor << 8 | patch`.
#[unsafe(no_mangle)]
pub extern "C" fn ringleader_version() -> u32 {
    RINGLEADER_VERSION_MAJOR << 16 | RINGLEADER_VERSION_MINOR << 8 | RINGLEADER_VERSION_PATCH
}

/// The same as text, `"0.1.0"`. Never NULL, and never to be freed.
#[unsafe(no_mangle)]
pub extern "C" fn ringleader_version_text() -> *const c_char {
    const TEXT: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    TEXT.as_ptr().cast()
}

// The header says what the package is.
const _: () = assert!(
    number(env!("CARGO_PKG_VERSION_MAJOR")) == RINGLEADER_VERSION_MAJOR
        && number(env!("CARGO_PKG_VERSION_MINOR")) == RINGLEADER_VERSION_MINOR
        && number(env!("CARGO_PKG_VERSION_PATCH")) == RINGLEADER_VERSION_PATCH
);

const fn number(text: &str) -> u32 {
    match u32::from_str_radix(text, 10) {
        Ok(number) => number,
        Err(_) => panic!("cargo gives numbers"),
    }
}
