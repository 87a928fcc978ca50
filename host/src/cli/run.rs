//! `ringleader run`: one node of a group, by its configuration.

use std::path::PathBuf;
use std::process::ExitCode;

use super::{Which, complain, wrong};
use crate::service::{self, Error};

/// Run one node of a group, until Ctrl-C or SIGTERM.
///
/// Lines of the standard input are proposed while the node leads; every entry that it applies goes to the standard output
/// as a line. What happens is said on the standard error output. A group is formed once, by `ringleader form`.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Exit status: 0 after a signal to end, 1 when something failed, 2 when the configuration, or what it \
                  names, is wrong: then nothing was started and nothing is left behind."
)]
pub(super) struct Args {
    #[command(flatten)]
    which: Which,
    /// Write the applied entries to this file, which must be empty or not there yet
    #[arg(long, value_name = "FILE")]
    applied: Option<PathBuf>,
}

pub(super) fn main(args: &Args) -> ExitCode {
    let config = match args.which.config() {
        Ok(config) => config,
        Err(error) => return wrong(error),
    };
    match service::run(&config, args.applied.as_deref()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Error::Wrong(what)) => wrong(what),
        Err(error) => {
            complain(error);
            ExitCode::FAILURE
        }
    }
}
