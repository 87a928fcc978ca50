//! How a test program is called: one status for a wrong call, in all of them.

use std::process::ExitCode;

use clap::Parser;

/// Status of a wrong call: `EX_USAGE` of sysexits.h. Not clap's own 2, which means a late group to `sim`.
pub const WRONG_CALL: u8 = 64;

/// The arguments; else what is wrong, or the help, has been printed, and this is how to end.
pub fn arguments<Args: Parser>() -> Result<Args, ExitCode> {
    Args::try_parse().map_err(|error| {
        // Where it cannot be said there is nobody to tell.
        let _ = error.print();
        ExitCode::from(if error.use_stderr() { WRONG_CALL } else { 0 })
    })
}
