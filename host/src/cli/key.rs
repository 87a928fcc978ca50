//! `ringleader key`: makes the file of a group's key.

use std::path::PathBuf;
use std::process::ExitCode;

use super::wrong;
use crate::exchange::Key;

/// Make a group's key: a new file with 64 random hexadecimal digits that only its owner may read.
///
/// All nodes of a group have the same key; copy the file to each of them over a channel that you trust. Whoever has it can
/// join the group and read and write its memory.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// The file; one that is there is never replaced
    file: PathBuf,
}

pub(super) fn main(args: &Args) -> ExitCode {
    match Key::make(&args.file) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => wrong(error),
    }
}
