//! `ringleader kv`: a node of a replicated key-value server that speaks the protocol of Redis; or a group of them on this machine.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use super::{complain, wrong};
use crate::config::Config;
use crate::health::parse_address;
use crate::kv::{self, group};
use crate::len::parse_len;
use crate::processes::die_with_parent;
use crate::service::Error;

/// Run one node of a replicated key-value server, until Ctrl-C or SIGTERM; or, with --nodes, a whole group on this machine.
///
/// Clients speak the protocol of Redis: redis-cli -c, redis-benchmark and the libraries for Redis Cluster. Writes go through the log
/// and are answered when a majority has them; reads miss nothing that was acknowledged, at every node. A node that does not lead
/// sends writes to the one that does. docs/kv.md has the rest.
///
/// Where it listens is in the table [kv] of the configuration: at 127.0.0.1, port 7000 and the node, when there is none. Other
/// addresses take a password. A group is formed once, by `ringleader form`; --nodes does that by itself.
#[derive(clap::Args, Debug)]
#[command(
    group(clap::ArgGroup::new("which").required(true).args(["config", "nodes"])),
    after_help = "Exit status: 0 after a signal to end, 1 when something failed, 2 when the configuration, or what it \
                  names, is wrong: then nothing was started and nothing is left behind."
)]
pub(super) struct Args {
    /// The configuration: of this node, or of all nodes of the group
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Which node, in place of the one that the file names
    #[arg(long, value_name = "ID", conflicts_with = "nodes")]
    node: Option<u8>,
    /// Start so many nodes on this machine, form their group, and end all of them with this command
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u8).range(1..=15))]
    nodes: Option<u8>,
    /// With --nodes: the first node's port; the others have the next ones
    #[arg(long, value_name = "PORT", requires = "nodes", default_value_t = 7001, value_parser = clap::value_parser!(u16).range(1..))]
    port: u16,
    /// With --nodes: bytes of all keys and values, as in 256M, a multiple of 64K
    #[arg(long, value_name = "SIZE", requires = "nodes", default_value = "64M", value_parser = parse_len)]
    memory: u64,
    /// Answer /healthz, /readyz and /metrics over HTTP there, in place of what the file says; for example 127.0.0.1:7490
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = parse_address, conflicts_with = "nodes")]
    health: Option<SocketAddr>,
    /// Process id of the command that started this node with others
    #[arg(long, hide = true)]
    parent: Option<u32>,
}

pub(super) fn main(args: &Args) -> ExitCode {
    let ended = match (args.nodes, &args.config) {
        (Some(nodes), _) => group::run(&group::Options { nodes, port: args.port, memory: args.memory }),
        (None, Some(path)) => {
            if let Some(parent) = args.parent {
                match die_with_parent(parent) {
                    Ok(true) => {}
                    Ok(false) => return ExitCode::FAILURE,
                    Err(error) => return wrong(error),
                }
            }
            match Config::read(path, args.node) {
                Ok(config) => kv::run(&config.with_health(args.health), args.parent.is_some()),
                Err(error) => return wrong(error),
            }
        }
        (None, None) => return wrong("--config or --nodes"),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(Error::Wrong(what)) => wrong(what),
        Err(error) => {
            complain(error);
            ExitCode::FAILURE
        }
    }
}
