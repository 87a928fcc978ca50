//! `ringleader node`: one node of a demo. Hidden, for `ringleader demo` starts it and nobody else can.

use std::process::ExitCode;

use crate::demo::child;

#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The node, so that a list of processes shows which is which
    #[arg(long)]
    id: u8,
    /// Process id of the demo
    #[arg(long)]
    parent: u32,
}

pub(crate) fn main(args: &Args) -> ExitCode {
    tracing::debug!(node = args.id, "starts");
    child::run(args.parent)
}
