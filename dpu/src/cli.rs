//! The command line of `ringleader-dpu`. Not the work itself.

use std::fmt::Display;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};
use ringleader::cli::{Which, start_logging};
use ringleader::config::{Config, Dpu, FenceHost};
use ringleader::health::parse_address;
use ringleader::service::control::{Answer, Question, ask};
use ringleader::service::{self, Error};

use crate::fence::HostFence;
use crate::mode;

/// Wrong input: the thing is named in one line.
const WRONG: u8 = 2;
/// How long the agent may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// The acceptor of a Ringleader node, on a DPU: it votes, fences and holds the log, whether its host lives or not.
#[derive(Parser, Debug)]
#[command(
    name = "ringleader-dpu",
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
    /// Run the acceptor until Ctrl-C or SIGTERM. What it holds is gone with it: the node has lost its memory then
    #[command(
        after_help = "Exit status: 0 after a signal to end, 1 when something failed, 2 when the configuration, or what it \
                      names, is wrong, or this BlueField is in NIC mode: then nothing was started and nothing is left behind."
    )]
    Run {
        #[command(flatten)]
        which: Which,
        /// Answer /healthz, /readyz and /metrics over HTTP there, in place of what the file says; for example 127.0.0.1:7490
        #[arg(long, value_name = "ADDRESS:PORT", value_parser = parse_address)]
        health: Option<SocketAddr>,
    },
    /// Say how the acceptor that runs here is: its group, whom it follows, whether its host is up
    #[command(after_help = "Exit status: 0, or 2 when no such acceptor runs on this machine.")]
    Status {
        #[command(flatten)]
        which: Which,
        /// Print one JSON object instead of text
        #[arg(long)]
        json: bool,
    },
}

/// Runs the program with the process's arguments.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    if let Err(error) = start_logging("warn,ringleader::exchange=info") {
        return wrong(error);
    }
    match cli.command {
        Command::Run { which, health } => match config_of(&which) {
            Ok((config, dpu)) => run(&config.with_health(health), &dpu),
            Err(error) => wrong(error),
        },
        Command::Status { which, json } => match config_of(&which) {
            Ok((_, dpu)) => status(&dpu, json),
            Err(error) => wrong(error),
        },
    }
}

/// The configuration, which says that the acceptor is apart.
fn config_of(which: &Which) -> Result<(Config, Dpu), String> {
    let config = which.config().map_err(|error| error.to_string())?;
    let Some(dpu) = config.dpu.clone() else {
        let path = config.path.display();
        return Err(format!(
            "{path}: no table [dpu]: the acceptor of this node is not apart, ringleader run runs it"
        ));
    };
    Ok((config, dpu))
}

fn run(config: &Config, dpu: &Dpu) -> ExitCode {
    if let Err(error) = mode::check(Path::new("/sys"), std::env::consts::ARCH) {
        return wrong(error);
    }
    let mut fence = match &dpu.fence_host {
        FenceHost::None => None,
        FenceHost::Representor { device } => match HostFence::new(device) {
            Ok(fence) => Some(fence),
            Err(error) => return wrong(error),
        },
    };
    let ran = service::run_acceptor(config, |status| {
        if let Some(fence) = &mut fence {
            fence.look(status);
        }
    });
    match ran {
        Ok(()) => ExitCode::SUCCESS,
        Err(Error::Wrong(what)) => wrong(what),
        Err(error) => {
            complain(error);
            ExitCode::FAILURE
        }
    }
}

fn status(dpu: &Dpu, json: bool) -> ExitCode {
    let text = match ask(&dpu.control, &Question::Status, PATIENCE) {
        Ok(Answer::Status(status)) if json => {
            serde_json::to_string(&status).map_err(|error| error.to_string())
        }
        Ok(Answer::Status(status)) => Ok(status.to_string()),
        Ok(Answer::Failed { why }) => Err(why),
        Ok(_) => Err("the acceptor answers something else".to_owned()),
        Err(error) => Err(error),
    };
    match text.map(|text| writeln!(io::stdout().lock(), "{text}")) {
        Err(error) => wrong(error),
        // Whoever closed the standard output does not want to read it.
        Ok(Err(error)) if error.kind() != io::ErrorKind::BrokenPipe => {
            wrong(format_args!("standard output: {error}"))
        }
        Ok(_) => ExitCode::SUCCESS,
    }
}

fn wrong(error: impl Display) -> ExitCode {
    complain(error);
    ExitCode::from(WRONG)
}

/// One line on the standard error output. Whoever closed that does not want to hear it.
fn complain(error: impl Display) {
    let _ = writeln!(io::stderr().lock(), "ringleader-dpu: {error}");
}
