//! What a function of DOCA answers.

#![expect(unsafe_code, reason = "asks DOCA for names")]

use std::ffi::{CStr, c_char};
use std::fmt;

use crate::sys;

/// A code of DOCA that is not success. Every version adds some, so it is a number, not one of a list.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Code(u32);

impl Code {
    /// Nothing of that kind is there, or it cannot be done here.
    pub const NOT_SUPPORTED: Code = Code(sys::DOCA_ERROR_NOT_SUPPORTED);
    /// It goes on by itself.
    pub const IN_PROGRESS: Code = Code(sys::DOCA_ERROR_IN_PROGRESS);
    /// Something that was given is wrong.
    pub const INVALID_VALUE: Code = Code(sys::DOCA_ERROR_INVALID_VALUE);
    /// It may not be done: of a map that is destroyed, that its memory is still registered.
    pub const NOT_PERMITTED: Code = Code(sys::DOCA_ERROR_NOT_PERMITTED);
    /// Others still use it.
    pub const IN_USE: Code = Code(sys::DOCA_ERROR_IN_USE);
    /// What DOCA itself does not expect.
    pub const UNKNOWN: Code = Code(sys::DOCA_ERROR_UNKNOWN);

    /// An error, unless it is success.
    pub(crate) fn check(answer: sys::doca_error_t) -> Result<(), Code> {
        match answer {
            sys::DOCA_SUCCESS => Ok(()),
            other => Err(Code(other)),
        }
    }

    /// The number.
    pub fn number(self) -> u32 {
        self.0
    }

    /// As the library that is loaded calls it, which may be newer than this program.
    pub fn name(self) -> Option<String> {
        // SAFETY: takes any number, and answers with a constant or nothing.
        text(unsafe { sys::doca_error_get_name(self.0) })
    }

    /// What the library says of it.
    pub fn description(self) -> Option<String> {
        // SAFETY: as above.
        text(unsafe { sys::doca_error_get_descr(self.0) })
    }
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.name(), self.description()) {
            (Some(name), Some(what)) => write!(f, "{name} ({}: {what})", self.0),
            (Some(name), None) => write!(f, "{name} ({})", self.0),
            _ => write!(f, "code {}, which this version of DOCA does not name", self.0),
        }
    }
}

fn text(said: *const c_char) -> Option<String> {
    if said.is_null() {
        return None;
    }
    // SAFETY: a text that ends in a zero and is never freed.
    Some(unsafe { CStr::from_ptr(said) }.to_string_lossy().into_owned())
}
