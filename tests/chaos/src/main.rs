//! `chaos`: rounds of real processes under faults, judged; or one round, by its seed.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use clap::{Parser, Subcommand, ValueEnum};
use ringleader::demo::plan::parse_len;
use ringleader::processes::Signals;
use ringleader::scratch::{self, SHARED_MEMORY, Scratch};
use ringleader_chaos::node;
use ringleader_chaos::plan::{Options, Round};
use ringleader_chaos::round::{Error, Outcome, Verdict, play};
use ringleader_chaos::totals::{Counts, Happened};
use ringleader_chaos::wire::Plant;
use ringleader_tests::call::{WRONG_CALL, arguments};
use ringleader_tests::rng::Rng;

const PREFIX: &str = "ringleader-chaos-";
/// Exit status after a signal to end.
const INTERRUPTED: u8 = 130;

/// Kills, stops, continues and starts real processes, changes members and leaders, and judges what their clients were told.
#[derive(Parser)]
#[command(
    name = "chaos",
    version,
    after_help = "Exit status: 0 nothing was found, 1 something was told that is not true, 2 a group did not get well in time, or \
                  something of the machine failed, 130 interrupted, 64 called wrongly. A seed fixes the faults of a round and \
                  when they come, not how the processes interleave."
)]
struct Args {
    #[command(subcommand)]
    role: Option<Role>,
    /// How many rounds
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
    /// Of the first round; each other's is drawn from it [default: drawn, and printed]
    #[arg(long)]
    seed: Option<u64>,
    /// How many nodes form each group [default: 3 or 5, as the seed draws it]
    #[arg(long, value_parser = clap::value_parser!(u8).range(3..=9))]
    nodes: Option<u8>,
    /// What carries the nodes' verbs
    #[arg(long, default_value = "shm")]
    fabric: Fabric,
    /// With `--fabric verbs`, the device; several times: one a node, around
    #[arg(long, value_name = "DEVICE")]
    device: Vec<String>,
    /// Bytes of each ring [default: another one each round]
    #[arg(long, value_name = "BYTES")]
    ring: Option<String>,
    /// Host and acceptor of each node are processes of their own: hosts die alone, or with their acceptor
    #[arg(long)]
    apart: bool,
    /// Whether leaders may answer by their lease [default: in half of the rounds]
    #[arg(long, value_name = "BOOL")]
    lease_reads: Option<bool>,
    /// Where the files of rounds that failed are kept [default: a directory `ringleader-chaos-SEED` of the temporary one]
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Print the events of every round
    #[arg(long)]
    verbose: bool,
    /// Go on after a round that failed
    #[arg(long)]
    keep_going: bool,
    /// Do something wrong, to see that it is found
    #[arg(long, hide = true)]
    plant: Option<Plant>,
}

#[derive(Subcommand)]
enum Role {
    /// One node of a round
    #[command(hide = true)]
    Node {
        #[arg(long)]
        parent: u32,
        #[arg(long)]
        setup: String,
    },
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq)]
enum Fabric {
    Shm,
    Verbs,
}

impl Args {
    fn options(&self) -> Result<Options, String> {
        let mut options = match self.fabric {
            Fabric::Shm if !self.device.is_empty() => {
                return Err("--device: only with --fabric verbs".to_owned());
            }
            Fabric::Shm => Options::shared_memory(),
            Fabric::Verbs => Options::verbs(self.device.clone()),
        };
        if let Some(ring) = &self.ring {
            options.ring_len = Some(parse_len(ring).map_err(|error| format!("--ring: {error}"))?);
        }
        if self.apart && self.fabric == Fabric::Verbs {
            return Err("--apart: only with --fabric shm".to_owned());
        }
        options.apart = self.apart;
        (options.nodes, options.lease_reads, options.plant) = (self.nodes, self.lease_reads, self.plant);
        Ok(options)
    }
}

fn main() -> ExitCode {
    let args: Args = match arguments() {
        Ok(args) => args,
        Err(status) => return status,
    };
    if let Some(Role::Node { parent, setup }) = &args.role {
        tracing_subscriber::fmt().with_writer(io::stderr).with_ansi(false).init();
        return node::run(*parent, setup);
    }
    let options = match args.options() {
        Ok(options) => options,
        Err(error) => {
            eprintln!("chaos: {error}");
            return ExitCode::from(WRONG_CALL);
        }
    };
    match run(&args, &options) {
        Ok(status) => ExitCode::from(status),
        Err(Error::Interrupted) => {
            eprintln!("chaos: interrupted");
            ExitCode::from(INTERRUPTED)
        }
        Err(Error::Io(error)) => {
            eprintln!("chaos: {error}");
            ExitCode::from(2)
        }
        Err(Error::Impossible(error)) => {
            eprintln!("chaos: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(args: &Args, options: &Options) -> Result<u8, Error> {
    let signals = Signals::install()?;
    let shared = Path::new(SHARED_MEMORY);
    let base = if shared.is_dir() { shared.to_owned() } else { std::env::temp_dir() };
    scratch::sweep(&base, PREFIX);
    let scratch = Scratch::make(&base, PREFIX)?;
    let program = std::env::current_exe()?;
    let mut seeds = Rng::new(args.seed.unwrap_or_else(|| u64::from(std::process::id()) ^ drawn()));
    // The first seed is the one that was given: a round is played again by it.
    let mut seed = args.seed.unwrap_or_else(|| seeds.word() >> 32);
    let (mut totals, mut spent, mut status) = (Counts::default(), 0, 0);
    let begun = Instant::now();
    for number in 1..=args.rounds {
        let round = Round::draw(seed, options);
        let dir = scratch.dir().join(format!("round-{number}"));
        fs::create_dir(&dir)?;
        let started = Instant::now();
        let outcome = play(&program, &round, options, &dir, &signals).inspect_err(|_| {
            println!("chaos: {} rounds ended before: {totals}", number - 1);
        })?;
        tell(number, &round, &outcome, started, args.verbose);
        totals.add_all(&outcome.counts);
        let failed = match &outcome.verdict {
            Verdict::Well => 0,
            Verdict::Spent => {
                spent += 1;
                0
            }
            Verdict::Wrong(_) => 1,
            Verdict::Stuck(_) => 2,
        };
        if failed != 0 {
            let kept = keep(args.keep.as_deref(), &dir, seed, &outcome)?;
            println!("chaos: seed {seed}: its files are in {}", kept.display());
            status = if status == 0 { failed } else { status.min(failed) };
        }
        fs::remove_dir_all(&dir)?;
        if status != 0 && !args.keep_going {
            break;
        }
        seed = seeds.word() >> 32;
    }
    println!("chaos: {:.0} s: {totals}", begun.elapsed().as_secs_f64());
    if spent > 0 {
        println!(
            "chaos: {spent} groups lost more than a group can lose, by themselves; what they applied was compared"
        );
    }
    Ok(status)
}

fn drawn() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(0)
}

fn tell(number: u64, round: &Round, outcome: &Outcome, started: Instant, verbose: bool) {
    let count = |what| outcome.counts.of(what);
    let reads = count(Happened::QuorumReads) + count(Happened::FollowerReads) + count(Happened::LeaseReads);
    let ended = match &outcome.verdict {
        Verdict::Well => "well".to_owned(),
        Verdict::Spent => "spent: more died by themselves than a group can lose".to_owned(),
        Verdict::Wrong(why) => format!("WRONG: {why}"),
        Verdict::Stuck(why) => format!("STUCK: {why}"),
    };
    println!(
        "round {number}, seed {}: {} nodes, {} acknowledged, {reads} reads, {} killed, {} stopped, {} changes, {} leaders, {:.1} s: {ended}",
        round.seed,
        round.founders,
        count(Happened::Acknowledged),
        [Happened::Killed, Happened::Closed, Happened::Shot, Happened::Fenced].map(count).iter().sum::<u64>(),
        count(Happened::Stopped),
        count(Happened::Changed) + count(Happened::Transferred),
        count(Happened::Leaders),
        started.elapsed().as_secs_f64(),
    );
    if verbose || !matches!(outcome.verdict, Verdict::Well | Verdict::Spent) {
        println!("    {round:?}");
        for event in &outcome.events {
            println!("    {event}");
        }
    }
}

/// Puts what a round that failed left to a place where it stays.
fn keep(place: Option<&Path>, dir: &Path, seed: u64, outcome: &Outcome) -> io::Result<PathBuf> {
    let base = place.map_or_else(std::env::temp_dir, Path::to_owned);
    let kept = base.join(format!("{PREFIX}{seed}"));
    fs::create_dir_all(&kept)?;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            fs::copy(entry.path(), kept.join(entry.file_name()))?;
        }
    }
    fs::write(kept.join("events"), format!("{:?}\n{}\n", outcome.verdict, outcome.events.join("\n")))?;
    Ok(kept)
}
