//! `ringleader run`: one node of a group, by its configuration; or one each of several groups.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use super::{complain, wrong};
use crate::config::{Config, ConfigError};
use crate::health::parse_address;
use crate::service::{self, Error};

/// Run one node of a group, or of several groups, until Ctrl-C or SIGTERM.
///
/// Lines of the standard input are proposed while the node leads; every entry that it applies goes to the standard output
/// as a line. What happens is said on the standard error output. A group is formed once, by `ringleader form`.
///
/// With `--config` given several times, up to 64, the process hosts a node of each of these groups on one agent thread. A line
/// then begins with the name of the group that it is for, and a space; and each group's entries go to a file of their own.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Exit status: 0 after a signal to end, 1 when something failed, 2 when the configuration, or what it \
                  names, is wrong: then nothing was started and nothing is left behind."
)]
pub(super) struct Args {
    /// The configuration: of this node, or of all nodes of the group; once for each group
    #[arg(long, value_name = "FILE", required = true)]
    config: Vec<PathBuf>,
    /// Which node, in place of the one that each file names
    #[arg(long, value_name = "ID")]
    node: Option<u8>,
    /// Write the applied entries to this file, which must be empty or not there yet; with several groups, to `<group>.applied`
    /// in this directory, which must be there
    #[arg(long, value_name = "PATH")]
    applied: Option<PathBuf>,
    /// Answer /healthz, /readyz and /metrics over HTTP there, in place of what the files say; for example 127.0.0.1:7490
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = parse_address)]
    health: Option<SocketAddr>,
}

pub(super) fn main(args: &Args) -> ExitCode {
    let configs: Result<Vec<Config>, ConfigError> =
        args.config.iter().map(|path| Ok(Config::read(path, args.node)?.with_health(args.health))).collect();
    let configs = match configs {
        Ok(configs) => configs,
        Err(error) => return wrong(error),
    };
    match service::run(&configs, args.applied.as_deref()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Error::Wrong(what)) => wrong(what),
        Err(error) => {
            complain(error);
            ExitCode::FAILURE
        }
    }
}
