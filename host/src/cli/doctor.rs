//! `ringleader doctor`: what this machine must have, looked at one by one.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use super::wrong;
use crate::config::Config;
use crate::doctor::{self, Facts, Wants};

/// Check what this machine must have to run a node: good, or what is wrong and the command that mends it.
///
/// Without a configuration it looks at the device that a node would take by itself, and at what the defaults need.
/// Nothing is changed; that device is opened and asked one question.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Exit status: 0 when nothing must be mended, 1 when something must, 2 when the configuration is wrong or \
                  the result cannot be printed. What only could be better does not count."
)]
pub(super) struct Args {
    /// Check for this configuration
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Which node, in place of the one that the file names
    #[arg(long, value_name = "ID", requires = "config")]
    node: Option<u8>,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

pub(super) fn main(args: &Args) -> ExitCode {
    let wants = match args.config.as_deref().map(|path| Config::read(path, args.node)).transpose() {
        Ok(config) => config.as_ref().map_or_else(Wants::default, Wants::of),
        Err(error) => return wrong(error),
    };
    let report = doctor::examine(&Facts::here(), &wants);
    let text = if args.json {
        match serde_json::to_string(&report) {
            Ok(text) => text + "\n",
            Err(error) => return wrong(error),
        }
    } else {
        report.to_string()
    };
    match io::stdout().lock().write_all(text.as_bytes()) {
        // Whoever closed the standard output does not want to read it.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            wrong(format_args!("standard output: {error}"))
        }
        _ if report.good => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}
