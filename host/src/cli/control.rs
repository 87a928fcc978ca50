//! `ringleader form`, `status`, `transfer` and `read`: one question to a node that runs on this machine.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use super::{Which, complain, wrong};
use crate::service::control::{Answer, How, Question, ask};

/// How long a node may take to answer what it need not wait for.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// Form the group, once, by one of its nodes; all of them must run.
///
/// The node asks all others; when all agree the group exists, and its leader is elected. A group in memory is formed again
/// only after all of its nodes have been started anew.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Exit status: 0 when the group is formed (or was before), 1 when it is not, 2 when no such node runs on \
                  this machine."
)]
pub(super) struct FormArgs {
    #[command(flatten)]
    which: Which,
    /// How long the others may take to answer
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    timeout: u64,
}

/// Say how a node that runs on this machine is: its group, who leads, how far it has applied.
#[derive(clap::Args, Debug)]
#[command(after_help = "Exit status: 0, or 2 when no such node runs on this machine.")]
pub(super) struct StatusArgs {
    #[command(flatten)]
    which: Which,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

/// Hand the lead over from a node that runs on this machine to another one of its group.
///
/// The leader gives its lease up, takes no proposals for the moment, and tells the other one to stand for election; if that is
/// not elected within a bound, the leader leads on.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Exit status: 0 when the other one leads, 1 when it does not, 2 when no such node runs on this machine."
)]
pub(super) struct TransferArgs {
    #[command(flatten)]
    which: Which,
    /// Who is to lead
    #[arg(long, value_name = "ID", value_parser = clap::value_parser!(u8).range(1..=15))]
    to: u8,
    /// How long it may take
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    timeout: u64,
}

/// Ask a node that runs on this machine whether its state may be read now, as an application would.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Exit status: 0 when it may: the node has applied everything that was acknowledged before; 1 when that \
                  cannot be told, 2 when no such node runs on this machine."
)]
pub(super) struct ReadArgs {
    #[command(flatten)]
    which: Which,
    /// How the node makes sure of it
    #[arg(long, value_name = "HOW", default_value = "quorum")]
    how: How,
}

pub(super) fn transfer(args: &TransferArgs) -> ExitCode {
    let question = Question::Transfer { to: args.to, timeout_ms: args.timeout * 1000 };
    match put(&args.which, &question, PATIENCE + Duration::from_secs(args.timeout)) {
        Ok(Answer::Transferred { to }) => print(format_args!("node {to} leads")),
        Ok(Answer::Failed { why }) => {
            complain(format_args!("not handed over: {why}"));
            ExitCode::FAILURE
        }
        Ok(_) => wrong("the node answers something else"),
        Err(error) => wrong(error),
    }
}

pub(super) fn read(args: &ReadArgs) -> ExitCode {
    let question = Question::Read { how: args.how, timeout_ms: PATIENCE.as_millis() as u64 };
    match put(&args.which, &question, 2 * PATIENCE) {
        Ok(Answer::Read { applied_index, took_us }) => {
            print(format_args!("may be read: applied up to entry {applied_index} (after {took_us} us)"))
        }
        Ok(Answer::Failed { why }) => {
            complain(format_args!("no read: {why}"));
            ExitCode::FAILURE
        }
        Ok(_) => wrong("the node answers something else"),
        Err(error) => wrong(error),
    }
}

pub(super) fn form(args: &FormArgs) -> ExitCode {
    let question = Question::Form { timeout_ms: args.timeout * 1000 };
    match put(&args.which, &question, PATIENCE + Duration::from_secs(args.timeout)) {
        Ok(Answer::Formed { group, already: false }) => print(format_args!("formed group {group}")),
        Ok(Answer::Formed { group, already: true }) => {
            print(format_args!("the node is in group {group} already"))
        }
        Ok(Answer::Failed { why }) => {
            complain(format_args!("not formed: {why}"));
            ExitCode::FAILURE
        }
        Ok(_) => wrong("the node answers something else"),
        Err(error) => wrong(error),
    }
}

pub(super) fn status(args: &StatusArgs) -> ExitCode {
    match put(&args.which, &Question::Status, PATIENCE) {
        Ok(Answer::Status(status)) if args.json => match serde_json::to_string(&status) {
            Ok(text) => print(format_args!("{text}")),
            Err(error) => wrong(error),
        },
        Ok(Answer::Status(status)) => print(format_args!("{status}")),
        Ok(Answer::Failed { why }) => wrong(why),
        Ok(_) => wrong("the node answers something else"),
        Err(error) => wrong(error),
    }
}

pub(super) fn put(which: &Which, question: &Question, patience: Duration) -> Result<Answer, String> {
    let config = which.config().map_err(|error| error.to_string())?;
    ask(&config.control, question, patience)
}

pub(super) fn print(what: std::fmt::Arguments<'_>) -> ExitCode {
    match writeln!(io::stdout().lock(), "{what}") {
        // Whoever closed the standard output does not want to read it.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            wrong(format_args!("standard output: {error}"))
        }
        _ => ExitCode::SUCCESS,
    }
}
