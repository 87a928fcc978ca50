//! `sim`: runs seeds of the simulator on all cores, or replays one with its story.
//!
//! Exit status: 0 when nothing was found, 1 when something happened that must not, 2 when something did not happen in time,
//! 130 when it was interrupted before either, 64 when it was called wrongly.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use ringleader_tests::call::{WRONG_CALL, arguments};
use ringleader_tests::run::{Outcome, quiet_panics};
use ringleader_tests::seed::Scheme;
use ringleader_tests::summary::Sum;
use signal_hook::consts::SIGINT;

/// Where no terminal is that a bar could be drawn on.
const TOLD_EVERY: u64 = 5000;

/// Runs production replicas on simulated one-sided memory, under faults drawn from seeds.
#[derive(Parser)]
#[command(
    name = "sim",
    version,
    after_help = "Exit status: 0 nothing was found, 1 something happened that must not, 2 something did not happen in time, \
                  130 interrupted before either, 64 called wrongly.\n\
                  Schedules: about one seed in five tells a directed story, whose size is its own; a story that does not get \
                  to its point is left, and the group must get well all the same."
)]
struct Args {
    /// How many seeds to run
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// The first of them
    #[arg(long, default_value_t = 1)]
    first: u64,
    /// Replicas in the group of a storm [default: as the seed draws it]
    #[arg(long, value_parser = clap::value_parser!(u8).range(2..=7))]
    nodes: Option<u8>,
    /// Only this schedule: `swarm`, `members`, `snapshots`, `split` (hosts and acceptors apart), `split-snapshots`, `base`, or the name of a directed one
    /// [default: as the seed draws it]
    #[arg(long)]
    schedule: Option<String>,
    /// Replay this one seed and print its story
    #[arg(long, conflicts_with_all = ["seeds", "first"])]
    seed: Option<u64>,
    /// Lines of the story to print
    #[arg(long, default_value_t = 60)]
    lines: usize,
    /// Threads [default: as many as the machine has processors]
    #[arg(long)]
    threads: Option<usize>,
    /// Go on after a violation, and list all seeds that had one
    #[arg(long)]
    keep_going: bool,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

impl Args {
    fn scheme(&self, seed: u64) -> Scheme {
        match &self.schedule {
            None => Scheme::draw(seed, self.nodes),
            Some(name) => Scheme::named(name, seed, self.nodes).expect("the name was looked at first"),
        }
    }
}

fn main() -> ExitCode {
    let args: Args = match arguments() {
        Ok(args) => args,
        Err(status) => return status,
    };
    if let Some(name) = &args.schedule
        && Scheme::named(name, 0, None).is_none()
    {
        eprintln!(
            "sim: there is no schedule \"{name}\"; there are swarm, members, snapshots, split, split-snapshots, base{}",
            names()
        );
        return ExitCode::from(WRONG_CALL);
    }
    quiet_panics();
    match args.seed {
        Some(seed) => replay(seed, &args),
        None => search(&args),
    }
}

fn names() -> String {
    ringleader_tests::directed::ALL.iter().map(|directed| format!(", {}", directed.name)).collect()
}

fn replay(seed: u64, args: &Args) -> ExitCode {
    let scheme = args.scheme(seed);
    let outcome = scheme.run(seed, args.lines.max(1));
    if args.json {
        let summary = serde_json::json!({
            "seed": seed, "schedule": scheme.name(), "nodes": outcome.nodes, "entries": outcome.entries,
            "acknowledged": outcome.acknowledged, "elections": outcome.elections, "faults": outcome.faults,
            "recovery_ns": outcome.recovery_ns,
            "violation": outcome.violation.as_ref().map(ToString::to_string), "trace": outcome.trace,
        });
        println!("{summary}");
    } else {
        print_story(seed, &scheme, &outcome);
    }
    match &outcome.violation {
        None => ExitCode::SUCCESS,
        Some(violation) => ExitCode::from(if violation.is_liveness() { 2 } else { 1 }),
    }
}

fn search(args: &Args) -> ExitCode {
    let started = Instant::now();
    let bar = if args.json { ProgressBar::hidden() } else { ProgressBar::new(args.seeds) };
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} seeds, {per_sec}, {eta} left {msg}");
    bar.set_style(style.expect("the template is sound"));
    let next = AtomicU64::new(0);
    let interrupted = Arc::new(AtomicBool::new(false));
    // A second time it ends at once, as ever.
    let at_once = signal_hook::flag::register_conditional_default(SIGINT, Arc::clone(&interrupted));
    let asked = signal_hook::flag::register(SIGINT, Arc::clone(&interrupted));
    at_once.and(asked).expect("an interrupt can be caught");
    let stop = AtomicBool::new(false);
    let sum = Mutex::new(Sum::default());
    let threads = args.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) && !interrupted.load(Ordering::Relaxed) {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= args.seeds {
                        break;
                    }
                    // Seeds go round: there is one after the largest.
                    let seed = args.first.wrapping_add(number);
                    let begun = Instant::now();
                    let scheme = args.scheme(seed);
                    let outcome = scheme.run(seed, 0);
                    let took_us = begun.elapsed().as_micros() as u64;
                    bar.inc(1);
                    if bar.is_hidden() && !args.json && (number + 1).is_multiple_of(TOLD_EVERY) {
                        eprintln!("{} of {} seeds", number + 1, args.seeds);
                    }
                    let mut sum = sum.lock().expect("no thread panics while it adds");
                    sum.add(seed, &scheme, outcome, took_us);
                    if !sum.violations.is_empty() {
                        bar.set_message(format!("{} violations", sum.violations.len()));
                        stop.store(!args.keep_going, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    bar.finish_and_clear();
    let sum = sum.into_inner().expect("no thread panicked");
    let found = sum.violations.clone();
    let interrupted = interrupted.load(Ordering::Relaxed);
    let mut summary = sum.summary(started.elapsed().as_secs_f64(), interrupted);
    let again = found.first().map(|first| (first, first.again(args.lines.max(1))));
    if args.json {
        summary.trace = again.map(|(_, outcome)| outcome.trace).unwrap_or_default();
        println!("{}", serde_json::to_string(&summary).expect("numbers and text"));
    } else {
        print!("{summary}");
        if let Some((first, outcome)) = again {
            println!();
            print_story(first.seed, &args.scheme(first.seed), &outcome);
        }
    }
    match (found.iter().any(|found| found.safety), found.is_empty(), interrupted) {
        (true, ..) => ExitCode::from(1),
        (_, false, _) => ExitCode::from(2),
        (_, _, true) => ExitCode::from(130),
        _ => ExitCode::SUCCESS,
    }
}

fn print_story(seed: u64, scheme: &Scheme, outcome: &Outcome) {
    if outcome.trace_left_out > 0 {
        println!("({} lines before)", outcome.trace_left_out);
    }
    for line in &outcome.trace {
        println!("{line}");
    }
    let (name, nodes) = (scheme.name(), outcome.nodes);
    match &outcome.violation {
        Some(violation) => {
            println!("\nseed {seed} ({name}, {nodes} nodes): {violation}\nreplay: {}", scheme.replay(seed))
        }
        None => println!(
            "\nseed {seed} ({name}, {nodes} nodes): nothing wrong in {} committed entries",
            outcome.entries
        ),
    }
}
