//! The command line of the `ringleader` program: one file a subcommand. Not the work itself.

mod demo;
mod log;
mod node;

use std::fmt::Display;
use std::io;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tracing_subscriber::EnvFilter;

/// Wrong input, or a damaged region: the thing is named in one line.
pub(crate) const WRONG: u8 = 2;

/// Microsecond state machine replication over one-sided writes.
#[derive(Parser, Debug)]
#[command(
    name = "ringleader",
    version,
    after_help = "The environment variable RINGLEADER_LOG sets what is logged to the standard error output, for example \
                  RINGLEADER_LOG=info or RINGLEADER_LOG=ringleader=debug."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Replicate entries between real processes, lose one of them, and show what happened
    Demo(Box<demo::Args>),
    /// One node of a demo
    #[command(hide = true)]
    Node(node::Args),
    /// Look at the log in the region file of a replica that is stopped or dead
    Log(log::Args),
}

/// Runs the program with the process's arguments.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let filter = EnvFilter::try_from_env("RINGLEADER_LOG").unwrap_or_else(|_| EnvFilter::new("error"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).init();
    match cli.command {
        Command::Demo(args) => demo::main(&args),
        Command::Node(args) => node::main(&args),
        Command::Log(args) => log::main(&args),
    }
}

/// Says what is wrong in one line.
pub(crate) fn wrong(error: impl Display) -> ExitCode {
    eprintln!("ringleader: {error}");
    ExitCode::from(WRONG)
}
