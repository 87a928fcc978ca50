//! `sim`: runs seeds of the simulator on all cores, or replays one with its story.
//!
//! Exit status: 0 when nothing was found, 1 when something happened that must not, 2 when something did not happen in time.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use ringleader_tests::fabric::Faults;
use ringleader_tests::run::{Outcome, quiet_panics, run};

/// Runs production replicas on simulated one-sided memory, under faults drawn from seeds.
#[derive(Parser)]
#[command(name = "sim", version)]
struct Args {
    /// How many seeds to run
    #[arg(long, default_value_t = 1000)]
    seeds: u64,
    /// The first of them
    #[arg(long, default_value_t = 1)]
    first: u64,
    /// Replicas in the group
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(2..=7))]
    nodes: u8,
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

#[derive(Default)]
struct Sum {
    seeds: u64,
    entries: u64,
    acknowledged: u64,
    elections: u64,
    events: BTreeMap<String, u64>,
    faults: Faults,
    run_us: Vec<u64>,
    recovery_ns: Vec<u64>,
    unjudged: u64,
    violations: Vec<(u64, Outcome)>,
}

#[derive(serde::Serialize)]
struct Found {
    seed: u64,
    invariant: u8,
    what: String,
}

#[derive(serde::Serialize)]
struct Summary {
    seeds: u64,
    nodes: u8,
    entries: u64,
    acknowledged: u64,
    elections: u64,
    events: BTreeMap<String, u64>,
    faults: Faults,
    violations: Vec<Found>,
    unjudged: u64,
    recovery_ns_p50: u64,
    recovery_ns_max: u64,
    seed_us_p50: u64,
    seed_us_max: u64,
    seconds: f64,
}

fn main() -> ExitCode {
    let args = Args::parse();
    quiet_panics();
    match args.seed {
        Some(seed) => replay(seed, &args),
        None => search(&args),
    }
}

fn replay(seed: u64, args: &Args) -> ExitCode {
    let outcome = run(seed, args.nodes, args.lines.max(1));
    if args.json {
        let summary = serde_json::json!({
            "seed": seed, "nodes": args.nodes, "entries": outcome.entries, "acknowledged": outcome.acknowledged,
            "elections": outcome.elections, "faults": outcome.faults, "recovery_ns": outcome.recovery_ns,
            "violation": outcome.violation.as_ref().map(ToString::to_string), "trace": outcome.trace,
        });
        println!("{summary}");
    } else {
        print_story(seed, args.nodes, &outcome);
    }
    status(outcome.violation.iter())
}

fn search(args: &Args) -> ExitCode {
    let started = Instant::now();
    let bar = if args.json { ProgressBar::hidden() } else { ProgressBar::new(args.seeds) };
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} seeds, {per_sec}, {eta} left {msg}");
    bar.set_style(style.expect("the template is sound"));
    let next = AtomicU64::new(args.first);
    let end = args.first.saturating_add(args.seeds);
    let stop = AtomicBool::new(false);
    let sum = Mutex::new(Sum::default());
    let threads = args.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= end {
                        break;
                    }
                    let begun = Instant::now();
                    let outcome = run(seed, args.nodes, 0);
                    let took_us = begun.elapsed().as_micros() as u64;
                    bar.inc(1);
                    let mut sum = sum.lock().expect("no thread panics while it adds");
                    sum.add(seed, outcome, took_us);
                    if !sum.violations.is_empty() {
                        bar.set_message(format!("{} violations", sum.violations.len()));
                        stop.store(!args.keep_going, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    bar.finish_and_clear();
    let mut sum = sum.into_inner().expect("no thread panicked");
    sum.violations.sort_by_key(|(seed, _)| *seed);
    let violations =
        sum.violations.iter().filter_map(|(_, outcome)| outcome.violation.clone()).collect::<Vec<_>>();
    let first = sum.violations.first().map(|(seed, _)| *seed);
    let summary = sum.summary(args.nodes, started.elapsed().as_secs_f64());
    if args.json {
        println!("{}", serde_json::to_string(&summary).expect("numbers and text"));
    } else {
        print_summary(&summary);
        if let Some(seed) = first {
            println!();
            print_story(seed, args.nodes, &run(seed, args.nodes, args.lines.max(1)));
        }
    }
    status(violations.iter())
}

impl Sum {
    fn add(&mut self, seed: u64, outcome: Outcome, took_us: u64) {
        self.seeds += 1;
        self.entries += outcome.entries;
        self.acknowledged += outcome.acknowledged;
        self.elections += outcome.elections;
        self.faults.add(&outcome.faults);
        for (event, count) in &outcome.events {
            *self.events.entry(event.clone()).or_default() += count;
        }
        self.run_us.push(took_us);
        match outcome.recovery_ns {
            Some(ns) => self.recovery_ns.push(ns),
            None => self.unjudged += u64::from(outcome.violation.is_none()),
        }
        if outcome.violation.is_some() {
            self.violations.push((seed, outcome));
        }
    }

    fn summary(mut self, nodes: u8, seconds: f64) -> Summary {
        self.run_us.sort_unstable();
        self.recovery_ns.sort_unstable();
        let middle = |sorted: &[u64]| sorted.get(sorted.len() / 2).copied().unwrap_or(0);
        let last = |sorted: &[u64]| sorted.last().copied().unwrap_or(0);
        let found = |(seed, outcome): (u64, Outcome)| {
            let violation = outcome.violation?;
            Some(Found { seed, invariant: violation.invariant, what: violation.what })
        };
        Summary {
            seeds: self.seeds,
            nodes,
            entries: self.entries,
            acknowledged: self.acknowledged,
            elections: self.elections,
            events: self.events,
            faults: self.faults,
            unjudged: self.unjudged,
            recovery_ns_p50: middle(&self.recovery_ns),
            recovery_ns_max: last(&self.recovery_ns),
            seed_us_p50: middle(&self.run_us),
            seed_us_max: last(&self.run_us),
            seconds,
            violations: self.violations.into_iter().filter_map(found).collect(),
        }
    }
}

fn print_summary(summary: &Summary) {
    println!(
        "{} seeds of {} nodes in {:.1} s ({:.1} ms a seed in the median, {:.1} ms at most)",
        summary.seeds,
        summary.nodes,
        summary.seconds,
        summary.seed_us_p50 as f64 / 1e3,
        summary.seed_us_max as f64 / 1e3
    );
    println!(
        "{} entries committed, {} proposals acknowledged, {} elections won",
        summary.entries, summary.acknowledged, summary.elections
    );
    println!(
        "all well again after {:.1} ms in the median, {:.1} ms at most (simulated); {} runs lost too much to be judged",
        summary.recovery_ns_p50 as f64 / 1e6,
        summary.recovery_ns_max as f64 / 1e6,
        summary.unjudged
    );
    let faults = serde_json::to_value(summary.faults).expect("numbers");
    let list = faults
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, count)| format!("{} {count}", name.replace('_', " ")));
    println!("faults: {}", list.collect::<Vec<_>>().join(", "));
    let events = summary.events.iter().map(|(name, count)| format!("{name} {count}"));
    println!("events: {}", events.collect::<Vec<_>>().join(", "));
    for found in &summary.violations {
        println!("seed {}: invariant {}: {}", found.seed, found.invariant, found.what);
    }
}

fn print_story(seed: u64, nodes: u8, outcome: &Outcome) {
    if outcome.trace_left_out > 0 {
        println!("({} lines before)", outcome.trace_left_out);
    }
    for line in &outcome.trace {
        println!("{line}");
    }
    match &outcome.violation {
        Some(violation) => {
            println!("\nseed {seed}: {violation}");
            println!(
                "replay: cargo run --release -p ringleader-tests --bin sim -- --nodes {nodes} --seed {seed}"
            );
        }
        None => println!("\nseed {seed}: nothing wrong in {} committed entries", outcome.entries),
    }
}

fn status<'a>(violations: impl Iterator<Item = &'a ringleader_tests::invariants::Violation>) -> ExitCode {
    let mut status = 0;
    for violation in violations {
        if !violation.is_liveness() {
            return ExitCode::from(1);
        }
        status = 2;
    }
    ExitCode::from(status)
}
