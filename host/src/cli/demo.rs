//! `ringleader demo`: options to a plan, a progress bar, and the result on the standard output.

use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

use super::wrong;
use crate::MAX_GROUPS;
use crate::demo::{self, Carrier, Error, Fault, Feed, Plan, Profile, Stage, Whom, plan::parse_len};

/// Bytes of a node's rings together, unless they are given.
const RING_LEN: u64 = 64 << 20;
/// Exit status after a signal to end.
const INTERRUPTED: u8 = 130;

/// Start a group of real processes on this machine, replicate entries by one-sided writes, and lose a node on the way.
///
/// Each node is a process with a region of shared memory. They elect a leader; a client proposes the entries to it; in
/// mid-stream, when half of them are acknowledged, one node is killed or stopped. At the end every survivor's file of
/// applied entries is compared with what went in.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Without options: 3 nodes, 20000 made-up entries, and the leader is killed.",
    after_long_help = "\
Examples:
  ringleader demo
          3 nodes, 20000 made-up entries, and the leader is killed
  ringleader demo --nodes 5 --input access.log --dir out
          5 nodes replicate a file line by line; out/node-<id>.applied are identical with it
  ringleader demo --pause leader
          the leader is stopped, another takes over, and the first is woken at the end
  ringleader demo --ring 1M --entries 100000 --pause follower
          a follower sleeps until what it missed is in no ring any more: nobody waits for it, and it takes another's state
  ringleader demo --groups 16
          16 groups on one agent thread a node: commits a second of 1, 2, 4, 8, 16 of them, and a third falls over
  ringleader demo --reads 2 --pause leader
          all nodes read meanwhile, and no read misses what was acknowledged
  ringleader demo --kill none --json | jq .commit_ns
          only the latency, for a program

Exit status:
  0    every acknowledged entry is in every survivor's file, once and in order, and the files are identical
  1    they are not, a read was stale, or something failed
  2    the input or an option cannot be: nothing was started, nothing is left behind;
       or the result cannot be printed
  3    all is well, but a node stayed behind: it fell below every ring, and all entries together are more than a ring
       and 16 MiB, which is what a state may have
  130  ended by Ctrl-C: nothing is left behind"
)]
pub(crate) struct Args {
    /// What carries the nodes' verbs: memory that they share, or RDMA devices
    #[arg(long, value_name = "FABRIC", default_value = "shm")]
    fabric: FabricArg,
    /// With `--fabric verbs`, the device; given several times, node 1 uses the first, and so on, around [default: the first
    /// with an active port]
    #[arg(long, value_name = "DEVICE")]
    device: Vec<String>,
    /// How many nodes, 3 to 15
    #[arg(long, value_name = "N", default_value_t = 3)]
    nodes: u64,
    /// How many groups, 1 to 64: each node has a member of each, all on one agent thread, and the leaders are spread over the
    /// nodes. Each group replicates all entries
    #[arg(long, value_name = "N", default_value_t = 1)]
    groups: u64,
    /// Replicate this file, an entry a line; its newline is part of the entry, which may have an eighth of the ring
    #[arg(long, value_name = "FILE", conflicts_with_all = ["entries", "size"])]
    input: Option<PathBuf>,
    /// Replicate so many made-up entries
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    entries: u64,
    /// Bytes of each made-up entry, its newline included
    #[arg(long, value_name = "BYTES", default_value_t = 64)]
    size: usize,
    /// Kill this node (SIGKILL) in mid-stream, or nobody with `none` [default: leader, unless --pause is given]
    #[arg(long, value_name = "WHOM", conflicts_with = "pause")]
    kill: Option<Kill>,
    /// Stop this node (SIGSTOP) in mid-stream, and wake it at the end
    #[arg(long, value_name = "WHOM")]
    pause: Option<Pause>,
    /// Where the files go: a directory that is empty or not there yet [default: a fresh temporary one]
    ///
    /// Without this option the files stay, too: in a fresh directory `ringleader-...` of the system's temporary one, which
    /// the summary names.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Leave each node's region there too, for `ringleader log`
    #[arg(long)]
    keep_regions: bool,
    /// Bytes of each node's ring, in each group: a power of two, 512K to 16G [default: 64M, shared by the groups]
    #[arg(long, value_name = "BYTES")]
    ring: Option<String>,
    /// Durations for one shared machine, for a software NIC, or for NICs and pinned processors; the last is not for a
    /// shared machine, where nodes that only wait for their turn would be taken for dead [default: local; with `--fabric
    /// verbs` soft-roce]
    #[arg(long, value_name = "PROFILE")]
    timing: Option<TimingArg>,
    /// Which acknowledgements count for a commit: those of nodes seen alive, or of all memory that took the entry
    #[arg(long, value_name = "WHICH", default_value = "live")]
    quorum: QuorumArg,
    /// What says that the bytes of a write are placed: its completion, or a read that follows it
    #[arg(long, value_name = "HOW", default_value = "completion")]
    confirm: ConfirmArg,
    /// What a node's agent does when there is nothing to do: spin, or spin, yield, and sleep
    #[arg(long, value_name = "HOW", default_value = "adaptive")]
    idle: IdleArg,
    /// Proposals measured for the commit latency, one at a time; 0 measures nothing. Several groups are not measured like that,
    /// but loaded for a second each time: with one proposal on its way in each of 1, 2, 4, … groups, then with more in each of
    /// all, until more bring nothing
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    samples: usize,
    /// Bytes of each of them
    #[arg(long, value_name = "BYTES", default_value_t = 64)]
    sample_size: usize,
    /// So many threads of each node read beside the stream: by a quorum at the leader, else at the follower; no read may miss
    /// what was acknowledged before it
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=64))]
    reads: u8,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

#[derive(ValueEnum, Clone, Copy, Debug)]
enum Kill {
    Leader,
    Follower,
    None,
}

#[derive(ValueEnum, Clone, Copy, Debug)]
enum Pause {
    Leader,
    Follower,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum FabricArg {
    Shm,
    Verbs,
}

#[derive(ValueEnum, Clone, Copy, Debug)]
enum TimingArg {
    Local,
    SoftRoce,
    Hardware,
}

#[derive(ValueEnum, Clone, Copy, Debug)]
enum QuorumArg {
    Live,
    Stored,
}

#[derive(ValueEnum, Clone, Copy, Debug)]
enum ConfirmArg {
    Completion,
    Readback,
}

#[derive(ValueEnum, Clone, Copy, Debug)]
enum IdleArg {
    Busy,
    Adaptive,
}

impl Args {
    fn plan(&self) -> Result<Plan, String> {
        if self.fabric == FabricArg::Shm && !self.device.is_empty() {
            return Err("--device: only with --fabric verbs".to_owned());
        }
        let default_timing =
            if self.fabric == FabricArg::Verbs { TimingArg::SoftRoce } else { TimingArg::Local };
        Ok(Plan {
            carrier: match self.fabric {
                FabricArg::Shm => Carrier::SharedMemory,
                FabricArg::Verbs => Carrier::Verbs { devices: self.device.clone() },
            },
            // More than a byte holds are more than a group has; the plan says so.
            nodes: u8::try_from(self.nodes).unwrap_or(u8::MAX),
            groups: u8::try_from(self.groups).unwrap_or(u8::MAX),
            ring_len: match &self.ring {
                Some(ring) => parse_len(ring).map_err(|error| format!("--ring: {error}"))?,
                None => RING_LEN / self.groups.clamp(1, MAX_GROUPS as u64).next_power_of_two(),
            },
            profile: match self.timing.unwrap_or(default_timing) {
                TimingArg::Local => Profile::Local,
                TimingArg::SoftRoce => Profile::SoftRoce,
                TimingArg::Hardware => Profile::Hardware,
            },
            quorum: match self.quorum {
                QuorumArg::Live => crate::Quorum::Live,
                QuorumArg::Stored => crate::Quorum::Stored,
            },
            confirm: match self.confirm {
                ConfirmArg::Completion => crate::Confirm::Completion,
                ConfirmArg::Readback => crate::Confirm::Readback,
            },
            idle: match self.idle {
                IdleArg::Busy => crate::Idle::Busy,
                IdleArg::Adaptive => crate::Idle::Adaptive,
            },
            feed: match &self.input {
                Some(path) => Feed::File(path.clone()),
                None => Feed::Generated { entries: self.entries, size: self.size },
            },
            fault: match (self.kill, self.pause) {
                (_, Some(Pause::Leader)) => Fault::Pause(Whom::Leader),
                (_, Some(Pause::Follower)) => Fault::Pause(Whom::Follower),
                (None | Some(Kill::Leader), None) => Fault::Kill(Whom::Leader),
                (Some(Kill::Follower), None) => Fault::Kill(Whom::Follower),
                (Some(Kill::None), None) => Fault::None,
            },
            dir: self.dir.clone(),
            keep_regions: self.keep_regions,
            samples: self.samples,
            sample_size: self.sample_size,
            reads: usize::from(self.reads),
        })
    }
}

pub(crate) fn main(args: &Args) -> ExitCode {
    let plan = match args.plan() {
        Ok(plan) => plan,
        Err(error) => return wrong(error),
    };
    if plan.groups > 1 {
        let tally = watched(|watch| demo::groups::run(&plan, watch));
        end(tally, args.json, |tally| (tally.exit_status(), &tally.dir))
    } else {
        let summary = watched(|watch| demo::run(&plan, watch));
        end(summary, args.json, |summary| (summary.exit_status(), &summary.dir))
    }
}

/// Runs a demo with a progress bar.
fn watched<T>(run: impl FnOnce(&mut dyn FnMut(Stage)) -> T) -> T {
    let bar = Bar::new();
    let result = run(&mut |stage| bar.show(stage));
    bar.finish();
    result
}

/// Prints what a demo came to, or what was wrong with it.
fn end<T: Serialize + fmt::Display>(
    result: Result<T, Error>,
    json: bool,
    look: impl Fn(&T) -> (u8, &Path),
) -> ExitCode {
    match result {
        Ok(summary) => {
            let (status, dir) = look(&summary);
            match print(&summary, json) {
                // Whoever closed the standard output does not want to read it.
                Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                    wrong(format_args!("standard output: {error}; the files are in {}", dir.display()))
                }
                _ => ExitCode::from(status),
            }
        }
        Err(Error::BadInput(error)) => wrong(error),
        Err(Error::Interrupted) => ExitCode::from(INTERRUPTED),
        Err(error) => {
            eprintln!("ringleader: {error}");
            ExitCode::FAILURE
        }
    }
}

fn print(summary: &(impl Serialize + fmt::Display), json: bool) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if json {
        serde_json::to_writer(&mut out, summary)?;
        writeln!(out)?;
    } else {
        write!(out, "{summary}")?;
    }
    out.flush()
}

/// A progress bar on the standard error output, when it is a terminal.
struct Bar(ProgressBar);

impl Bar {
    fn new() -> Bar {
        let target = if io::stderr().is_terminal() {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target(Some(0), target);
        if let Ok(style) =
            ProgressStyle::with_template("{msg:12} [{bar:40}] {human_pos}/{human_len} {per_sec}")
        {
            bar.set_style(style.progress_chars("=> "));
        }
        Bar(bar)
    }

    fn show(&self, stage: Stage) {
        let message = match stage {
            Stage::Starting => "starting",
            Stage::Measuring => "measuring",
            Stage::Streaming(done, all) => {
                self.0.set_length(all);
                self.0.set_position(done);
                "streaming"
            }
            Stage::Closing => "closing",
            Stage::Comparing => "comparing",
        };
        if self.0.message() != message {
            self.0.set_message(message);
            self.0.reset_eta();
            self.0.tick();
        }
    }

    fn finish(&self) {
        self.0.finish_and_clear();
    }
}
