//! `ringleader bench`: figures of this machine, each beside its floor.

use std::process::ExitCode;
use std::time::Duration;

use clap::{Subcommand, ValueEnum};
use hdrhistogram::Histogram;

use super::wrong;
use crate::bench::{self, CatchUpPlan, CommitPlan};
use crate::demo::{Carrier, plan::parse_len};
use crate::{Idle, Measurement, Profile};

/// Measure what this machine does, each figure beside its floor
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand, Debug)]
enum What {
    /// Commits of a group in this process, beside the same WRITEs posted bare
    Commit(Commit),
    /// Quorum reads of a group in this process, beside the same READs posted bare, and beside its commits
    Read(Commit),
    /// Commits while a follower that stood still for longer than its ring holds comes back
    CatchUp(CatchUp),
    /// A turn of a group that has nothing to do, of one and of several on an agent thread
    Turn(Turn),
    /// The ways to take write permission away: how long each takes, and whether anything lands afterwards
    #[cfg(feature = "verbs")]
    Fence(Fence),
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum FabricArg {
    Shm,
    Verbs,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum TimingArg {
    Local,
    SoftRoce,
    Hardware,
}

#[derive(clap::Args, Debug)]
struct Commit {
    /// What carries the verbs
    #[arg(long, value_name = "FABRIC", default_value = "shm")]
    fabric: FabricArg,
    /// With `--fabric verbs`, the device; several times: one a node, around
    #[arg(long, value_name = "DEVICE")]
    device: Vec<String>,
    /// How many nodes, 3 to 15
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(3..=15))]
    nodes: u8,
    /// Proposals, one at a time, and as many samples of the floor
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    samples: usize,
    /// Bytes of each
    #[arg(long, value_name = "BYTES", default_value_t = 64)]
    size: usize,
    /// Bytes of each node's ring
    #[arg(long, value_name = "BYTES", default_value = "8M")]
    ring: String,
    /// Durations [default: local; with `--fabric verbs` soft-roce]
    #[arg(long, value_name = "PROFILE")]
    timing: Option<TimingArg>,
    /// Never give the processor away
    #[arg(long)]
    busy: bool,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args, Debug)]
struct CatchUp {
    #[command(flatten)]
    commit: Commit,
    /// Bytes of the application's state, which the follower takes
    #[arg(long, value_name = "BYTES", default_value = "16M")]
    state: String,
    /// Fail when the median of a commit while the follower comes back is more than so many times what it was before
    #[arg(long, value_name = "TIMES")]
    limit: Option<f64>,
}

#[derive(clap::Args, Debug)]
struct Turn {
    /// How many groups on each of three agent threads, beside one alone
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u8).range(2..=64))]
    groups: u8,
    /// Measure for so many milliseconds each
    #[arg(long, value_name = "MS", default_value_t = 2000)]
    length: u64,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

#[cfg(feature = "verbs")]
#[derive(clap::Args, Debug)]
struct Fence {
    /// The device [default: the first with an active port]
    #[arg(long, value_name = "DEVICE")]
    device: Option<String>,
    /// Fences of each kind
    #[arg(long, value_name = "N", default_value_t = 50)]
    rounds: u32,
    /// After each, the log area is watched for so many milliseconds
    #[arg(long, value_name = "MS", default_value_t = 50)]
    watch: u64,
    /// Also RESET on a device without hardware: in Linux 6.1 it frees packets twice, and may take the machine down
    #[arg(long)]
    dangerous: bool,
}

pub(crate) fn main(args: &Args) -> ExitCode {
    let done = match &args.what {
        What::Commit(args) => commit(args),
        What::Read(args) => read(args),
        What::CatchUp(args) => catch_up(args),
        What::Turn(args) => turn(args),
        #[cfg(feature = "verbs")]
        What::Fence(args) => fence(args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => wrong(error),
    }
}

fn plan(args: &Commit) -> Result<CommitPlan, String> {
    let carrier = match args.fabric {
        FabricArg::Shm => Carrier::SharedMemory,
        FabricArg::Verbs => Carrier::Verbs { devices: args.device.clone() },
    };
    let default_timing = if args.fabric == FabricArg::Shm { TimingArg::Local } else { TimingArg::SoftRoce };
    Ok(CommitPlan {
        carrier,
        nodes: args.nodes,
        samples: args.samples,
        size: args.size,
        ring_len: parse_len(&args.ring).map_err(|error| format!("--ring: {error}"))?,
        profile: match args.timing.unwrap_or(default_timing) {
            TimingArg::Local => Profile::Local,
            TimingArg::SoftRoce => Profile::SoftRoce,
            TimingArg::Hardware => Profile::Hardware,
        },
        idle: if args.busy { Idle::Busy } else { Idle::Adaptive },
    })
}

fn read(args: &Commit) -> Result<(), String> {
    let (commits, reads) = bench::read(&plan(args)?).map_err(|error| error.to_string())?;
    let (read, floor) = (&reads.read_ns, &reads.floor_ns);
    let ratio = read.value_at_quantile(0.5) as f64 / floor.value_at_quantile(0.5).max(1) as f64;
    if args.json {
        println!(
            "{}",
            serde_json::json!({
                "read_ns": summary(read), "floor_ns": summary(floor), "ratio": ratio,
                "commit_ns": summary(&commits.commit_ns), "commit_floor_ns": summary(&commits.floor_ns),
            })
        );
    } else {
        println!("read    {}", quantiles(read));
        println!("floor   {} (the same promises of the same nodes by bare READs)", quantiles(floor));
        println!("commit  {}", quantiles(&commits.commit_ns));
        println!("floor   {} (of commits: the same bytes by bare WRITEs)", quantiles(&commits.floor_ns));
        println!("a quorum read takes {ratio:.3} times its floor ({} samples)", read.len());
    }
    Ok(())
}

fn commit(args: &Commit) -> Result<(), String> {
    let plan = plan(args)?;
    let measured = bench::commit(&plan).map_err(|error| error.to_string())?;
    let (commit, floor) = (&measured.commit_ns, &measured.floor_ns);
    let ratio = commit.value_at_quantile(0.5) as f64 / floor.value_at_quantile(0.5).max(1) as f64;
    if args.json {
        let (commit, floor) = (summary(commit), summary(floor));
        println!("{}", serde_json::json!({ "commit_ns": commit, "floor_ns": floor, "ratio": ratio }));
    } else {
        println!("commit  {}", quantiles(commit));
        println!("floor   {} (the same bytes to the same nodes by bare WRITEs)", quantiles(floor));
        println!(
            "a commit takes {ratio:.3} times its floor ({} samples of {} bytes)",
            commit.len(),
            args.size
        );
    }
    Ok(())
}

fn catch_up(args: &CatchUp) -> Result<(), String> {
    let state_len = parse_len(&args.state).map_err(|error| format!("--state: {error}"))?;
    let plan = CatchUpPlan { group: plan(&args.commit)?, state_len };
    let measured = bench::catch_up(&plan).map_err(|error| error.to_string())?;
    let phases = [
        ("before", &measured.before),
        ("stopped", &measured.stopped),
        ("catching up", &measured.catching),
        ("after", &measured.after),
    ];
    let ratio = |of: &Measurement| {
        let (commit, floor) = (of.commit_ns.value_at_quantile(0.5), of.floor_ns.value_at_quantile(0.5));
        commit as f64 / floor.max(1) as f64
    };
    // Not over the floor: that falls where fewer followers look at the lines that are written.
    let median = |of: &Measurement| of.commit_ns.value_at_quantile(0.5);
    let times = median(&measured.catching) as f64 / median(&measured.before).max(1) as f64;
    let took_ms = measured.took.as_secs_f64() * 1000.0;
    if args.commit.json {
        let phases: serde_json::Map<String, serde_json::Value> = phases
            .iter()
            .map(|(name, of)| {
                let (commit, floor) = (summary(&of.commit_ns), summary(&of.floor_ns));
                let all = serde_json::json!({ "commit_ns": commit, "floor_ns": floor, "ratio": ratio(of) });
                (name.replace(' ', "_"), all)
            })
            .collect();
        println!(
            "{}",
            serde_json::json!({
                "phases": phases, "took_ms": took_ms, "state_len": state_len, "loads": measured.loads, "times": times
            })
        );
    } else {
        for (name, of) in phases {
            println!(
                "{name:<12} commit {}, longest {:.1} us",
                quantiles(&of.commit_ns),
                of.commit_ns.max() as f64 / 1e3
            );
            println!(
                "{:<12} floor  {}; {:.3} times ({} samples)",
                "",
                quantiles(&of.floor_ns),
                ratio(of),
                of.commit_ns.len()
            );
        }
        println!(
            "the follower took {state_len} bytes {} times and was back in {took_ms:.1} ms",
            measured.loads
        );
        println!("meanwhile a commit took {times:.3} times what it took before (median)");
    }
    match args.limit {
        Some(limit) if times > limit => {
            Err(format!("a commit took {times:.3} times what it took before; the limit is {limit}"))
        }
        _ => Ok(()),
    }
}

fn turn(args: &Turn) -> Result<(), String> {
    let length = Duration::from_millis(args.length);
    let measure = |groups| bench::turn(usize::from(groups), length).map_err(|error| error.to_string());
    let (alone, several) = (measure(1)?, measure(args.groups)?);
    if args.json {
        println!(
            "{}",
            serde_json::json!({ "groups": args.groups, "alone_ns": alone, "several_ns": several })
        );
    } else {
        println!("one group alone    {alone:.0} ns a turn");
        println!("{:<2} groups          {several:.0} ns a turn of each", args.groups);
    }
    Ok(())
}

#[cfg(feature = "verbs")]
fn fence(args: &Fence) -> Result<(), String> {
    use crate::fabric::verbs::{Choice, FenceBy, VerbsError, is_software, trial::try_fence};

    let choice = Choice { device: args.device.clone(), ..Choice::default() };
    let software = is_software(&choice).map_err(|error| error.to_string())?;
    let default = FenceBy::strict(software);
    let watch = Duration::from_millis(args.watch);
    let (mut strict, mut lucky, mut weak, mut untried) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for fence_by in FenceBy::ALL {
        let name = format!("{fence_by:?}").to_lowercase();
        if fence_by == FenceBy::Reset && software && !args.dangerous {
            println!("{name:<10}  not tried: it may take this machine down (--dangerous)");
            untried.push(name);
            continue;
        }
        let trial = match try_fence(&choice, Some(fence_by), args.rounds, watch) {
            Err(error @ VerbsError::Unable { .. }) => {
                println!("{name:<10}  not on this device: {error}");
                untried.push(name);
                continue;
            }
            tried => tried.map_err(|error| error.to_string())?,
        };
        println!(
            "{name:<10}  fence {}; arm {}; grant {}; bytes landed after {} of {}{}",
            quantiles(&trial.fence_ns),
            quantiles(&trial.arm_ns),
            quantiles(&trial.grant_ns),
            trial.late,
            trial.rounds,
            if fence_by == default { " (the default here)" } else { "" },
        );
        let list = match trial.late {
            0 if fence_by.waits(software) => &mut strict,
            0 => &mut lucky,
            _ => &mut weak,
        };
        list.push(name);
    }
    let names = |list: &[String]| if list.is_empty() { "none".to_owned() } else { list.join(", ") };
    println!("strict here: {}", names(&strict));
    println!("NOT STRICT here, bytes landed: {}", names(&weak));
    println!(
        "no fence, though nothing landed this time (it does not wait for what is under way): {}",
        names(&lucky)
    );
    println!("not tried: {}", names(&untried));
    Ok(())
}

fn summary(all: &Histogram<u64>) -> serde_json::Value {
    serde_json::json!({
        "samples": all.len(),
        "p50": all.value_at_quantile(0.5),
        "p90": all.value_at_quantile(0.9),
        "p99": all.value_at_quantile(0.99),
        "max": all.max(),
    })
}

fn quantiles(all: &Histogram<u64>) -> String {
    let us = |ns: u64| match ns {
        0..10_000 => format!("{:.2}", ns as f64 / 1000.0),
        _ => format!("{:.1}", ns as f64 / 1000.0),
    };
    let (p50, p99) = (all.value_at_quantile(0.5), all.value_at_quantile(0.99));
    format!("p50 {} us, p99 {} us", us(p50), us(p99))
}
