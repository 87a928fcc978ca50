//! The command line of the `ringleader` program: one file a subcommand. Not the work itself.

mod bench;
mod control;
mod demo;
mod doctor;
mod key;
mod kv;
mod log;
mod member;
mod node;
mod run;

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tracing_subscriber::EnvFilter;

use crate::config::{Config, ConfigError};
use crate::stderr::Stderr;

/// Wrong input, or a damaged region: the thing is named in one line.
pub(crate) const WRONG: u8 = 2;

/// The variable that says what is logged.
const LOG: &str = "RINGLEADER_LOG";

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
    // The texts of these two stand where their options do: one here would hide the longer one there.
    Demo(Box<demo::Args>),
    /// One node of a demo
    #[command(hide = true)]
    Node(node::Args),
    Log(log::Args),
    Run(run::Args),
    Kv(kv::Args),
    Form(control::FormArgs),
    Status(control::StatusArgs),
    Member(member::MemberArgs),
    Recover(member::RecoverArgs),
    Transfer(control::TransferArgs),
    Read(control::ReadArgs),
    Key(key::Args),
    Doctor(doctor::Args),
    Bench(bench::Args),
}

/// Which node is meant.
#[derive(clap::Args, Debug)]
pub struct Which {
    /// The configuration: of this node, or of all nodes of the group
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Which node, in place of the one that the file names
    #[arg(long, value_name = "ID")]
    node: Option<u8>,
}

impl Which {
    /// What the file says of it.
    pub fn config(&self) -> Result<Config, ConfigError> {
        Config::read(&self.config, self.node)
    }
}

/// Runs the program with the process's arguments.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    // Who runs a node for good wants to hear what is wrong with it and its peers.
    let unasked = match cli.command {
        Command::Run(_) | Command::Kv(_) => "warn,ringleader::exchange=info",
        _ => "error",
    };
    if let Err(error) = start_logging(unasked) {
        return wrong(error);
    }
    match cli.command {
        Command::Demo(args) => demo::main(&args),
        Command::Node(args) => node::main(&args),
        Command::Log(args) => log::main(&args),
        Command::Run(args) => run::main(&args),
        Command::Kv(args) => kv::main(&args),
        Command::Form(args) => control::form(&args),
        Command::Status(args) => control::status(&args),
        Command::Member(args) => member::member(&args),
        Command::Recover(args) => member::recover(&args),
        Command::Transfer(args) => control::transfer(&args),
        Command::Read(args) => control::read(&args),
        Command::Key(args) => key::main(&args),
        Command::Doctor(args) => doctor::main(&args),
        Command::Bench(args) => bench::main(&args),
    }
}

/// Logs to the standard error output what the environment asks for (`RINGLEADER_LOG`), else `unasked`, in colours only where somebody
/// sees them. For programs, once.
pub fn start_logging(unasked: &str) -> Result<(), String> {
    let asked = std::env::var_os(LOG).unwrap_or_default();
    let asked = asked.to_str().ok_or_else(|| format!("{LOG}: not UTF-8"))?;
    let filter = EnvFilter::try_new(if asked.is_empty() { unasked } else { asked })
        .map_err(|error| format!("{LOG}={}: {error}", asked.escape_debug()))?;
    let is_coloured =
        io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(|| Stderr)
        .with_ansi(is_coloured)
        // It would complain to the standard error output of not being able to write there, and panic when it cannot.
        .log_internal_errors(false)
        .init();
    Ok(())
}

/// Says what is wrong in one line.
pub(crate) fn wrong(error: impl Display) -> ExitCode {
    complain(error);
    ExitCode::from(WRONG)
}

/// One line on the standard error output. Whoever closed that does not want to hear it.
fn complain(error: impl Display) {
    let _ = writeln!(io::stderr().lock(), "ringleader: {error}");
}
