//! One call of DOCA at a time. The guide leaves open which of its objects two threads may use at once, and what is done here is
//! done a few times in a process's life: so nothing is done at once, and every handle may go to any thread.

use std::sync::{Mutex, PoisonError};

use crate::code::Code;
use crate::error::Error;
use crate::sys;

static ONE: Mutex<()> = Mutex::new(());

/// Does it while nobody else is at it. Nothing that it does may come back here.
pub(crate) fn alone<T>(what: impl FnOnce() -> T) -> T {
    // Nothing is left half done by a call that unwinds: the functions of C do not.
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    what()
}

/// The function of that name, on that device.
pub(crate) fn call(
    name: &'static str,
    device: &str,
    function: impl FnOnce() -> sys::doca_error_t,
) -> Result<(), Error> {
    Code::check(alone(function)).map_err(|code| Error::Call { call: name, device: device.to_owned(), code })
}
