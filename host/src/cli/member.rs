//! `ringleader member` and `ringleader recover`: who is in the group, and what to do when it cannot go on.

use std::process::ExitCode;
use std::time::Duration;

use clap::Subcommand;

use super::control::{PATIENCE, print, put};
use super::{Which, wrong};
use crate::members::{Change, Members};
use crate::service::control::{Answer, Question};

/// Say who is in the group, and change it, one node at a time, while entries flow.
///
/// Changes are asked of the node that leads. To add a node: run it, `member add` it, and `member promote` it; it gets the
/// log before it votes. To replace a machine: add and promote the new one, then remove the old one.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Exit status: 0 when it is done, 1 when it is refused or not done in time, 2 when no such node runs on this \
                  machine."
)]
pub(super) struct MemberArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand, Debug)]
enum What {
    /// Say who is in the group, as the node knows it
    List(Common),
    /// Add a fresh node, which runs: it gets the log, and does not vote yet
    Add(AddArgs),
    /// Make a voter of a learner that has caught up
    Promote(OfArgs),
    /// Take a member out, the leader too: that one hands over and follows nobody any more
    Remove(OfArgs),
    /// Take a member that lost its memory back: as a learner, and as a voter when it has caught up
    Readmit(OfArgs),
}

#[derive(clap::Args, Debug)]
struct Common {
    #[command(flatten)]
    which: Which,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args, Debug)]
struct OfArgs {
    /// The member
    #[arg(value_name = "MEMBER", value_parser = clap::value_parser!(u8).range(1..=15))]
    member: u8,
    #[command(flatten)]
    common: Common,
    /// How long it may take
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    timeout: u64,
}

#[derive(clap::Args, Debug)]
struct AddArgs {
    #[command(flatten)]
    of: OfArgs,
    /// Where the other nodes find it; nothing on shared memory
    #[arg(long, value_name = "HOST:PORT", default_value = "")]
    address: String,
}

/// Make a new group of one node whose group has lost a majority of its voters for good.
///
/// Without --force-new-group this only says what it would mean. What only the lost voters held is lost, though it may have
/// been acknowledged; what the node holds becomes committed, though it may never have been.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Exit status: 0 when the new group is made, 1 when it is not, 2 when no such node runs on this machine."
)]
pub(super) struct RecoverArgs {
    #[command(flatten)]
    common: Common,
    /// Do it
    #[arg(long)]
    force_new_group: bool,
}

pub(super) fn member(args: &MemberArgs) -> ExitCode {
    let (of, change) = match &args.what {
        What::List(common) => return answer(common, &Question::Members, PATIENCE),
        What::Add(add) => {
            let (node, address) = (add.of.member, add.address.clone());
            (&add.of, Change::Add { node, address })
        }
        What::Promote(of) => (of, Change::Promote { node: of.member }),
        What::Remove(of) => (of, Change::Remove { node: of.member }),
        What::Readmit(of) => (of, Change::Readmit { node: of.member }),
    };
    let question = Question::ChangeMembers { change, timeout_ms: of.timeout * 1000 };
    answer(&of.common, &question, 2 * PATIENCE + Duration::from_secs(of.timeout))
}

fn answer(common: &Common, question: &Question, patience: Duration) -> ExitCode {
    match put(&common.which, question, patience) {
        Ok(Answer::Members(members)) if common.json => json(&members),
        Ok(Answer::Members(members)) => print(format_args!("{members}")),
        Ok(Answer::Failed { why }) => {
            eprintln!("ringleader: {why}");
            ExitCode::FAILURE
        }
        Ok(_) => wrong("the node answers something else"),
        Err(error) => wrong(error),
    }
}

fn json(members: &Members) -> ExitCode {
    match serde_json::to_string(members) {
        Ok(text) => print(format_args!("{text}")),
        Err(error) => wrong(error),
    }
}

pub(super) fn recover(args: &RecoverArgs) -> ExitCode {
    let question = Question::Recover { force_new_group: args.force_new_group };
    let answer = match put(&args.common.which, &question, 3 * PATIENCE) {
        Ok(answer) => answer,
        Err(error) => return wrong(error),
    };
    let Answer::Recovery { forced, group, new_group, commit_index, voters, lost } = &answer else {
        let Answer::Failed { why } = answer else { return wrong("the node answers something else") };
        eprintln!("ringleader: no new group is made: {why}");
        return ExitCode::FAILURE;
    };
    if args.common.json {
        match serde_json::to_string(&answer) {
            Ok(text) => print(format_args!("{text}")),
            Err(error) => return wrong(error),
        };
    } else {
        print(format_args!(
            "group {group}: {voters} voters, of which {lost} came back without their memory and no majority is heard\n\
             A new group of this node alone keeps all that this node holds; it knows entries up to {commit_index} committed.\n\
             Lost for good: entries behind that, acknowledged or not, that only other nodes held.\n\
             Committed by it: entries behind that, acknowledged or not, that this node holds.\n\
             Other nodes of the former group stay in that: end them before, and add them, started anew, afterwards."
        ));
        if *forced {
            print(format_args!("made the new group {new_group}"));
        } else {
            print(format_args!("Nothing was done. To do it: --force-new-group"));
        }
    }
    if *forced { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
