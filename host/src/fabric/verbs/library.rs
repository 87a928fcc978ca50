//! What a newer libibverbs has and an older one has not: looked up by name, absent where it is absent. Everything else is
//! called through `rdma_sys`.

#![expect(unsafe_code, reason = "looks up functions of libibverbs")]

use std::ffi::{CStr, c_void};
use std::ptr::NonNull;

/// The function of that name, if the library is installed and has it. It stays where it is: the library is never unloaded.
pub(super) fn symbol(name: &CStr) -> Option<NonNull<c_void>> {
    // SAFETY: libibverbs and its dependencies may be loaded at any time; where it is loaded already, this only counts. The
    // handle is not closed, so that the function stays.
    let library = NonNull::new(unsafe { libc::dlopen(c"libibverbs.so.1".as_ptr(), libc::RTLD_NOW) })?;
    // SAFETY: the handle is open, and the name ends in a zero.
    NonNull::new(unsafe { libc::dlsym(library.as_ptr(), name.as_ptr()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_library_has_is_absent() {
        assert_eq!(symbol(c"ibv_of_tomorrow"), None);
        // With the library, what every version has is there; without it, nothing is, and nothing breaks.
        assert_eq!(symbol(c"ibv_create_qp").is_some(), symbol(c"ibv_open_device").is_some());
    }
}
