//! `planted`: plants one bug after the other into the core, looks for each, and prints what found it.
//!
//! The same search is made for every bug, and as far as it ever went once more with none planted: then it must find nothing.
//! No check knows which bug is planted. Exit status: 0 when every bug was found and the control found nothing, 1 otherwise, 130 when
//! interrupted.

use std::io::Write;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use clap::Parser;
use ringleader_core::planted::{Bug, plant};
use ringleader_tests::call::arguments;
use ringleader_tests::directed;
use ringleader_tests::run::{
    Outcome, quiet_panics, run, run_catching, run_changing, run_split, run_split_catching,
};

/// Plants bugs into the core, one after the other, and looks for each with the simulator.
#[derive(Parser)]
#[command(name = "planted", version)]
struct Args {
    /// Plant only this bug, or `none` (may be given several times); `--list` names all
    #[arg(long = "bug", value_name = "NAME", value_parser = bug_of)]
    bugs: Vec<Bug>,
    /// Seeds to look through for each bug, until it is found; each is run as every schedule
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// The first of them
    #[arg(long, default_value_t = 1)]
    first: u64,
    /// Run only this schedule (may be given several times); `--list` names all
    #[arg(long = "schedule", value_name = "NAME", value_parser = schedule_of)]
    schedules: Vec<Schedule>,
    /// Threads [default: as many as the machine has processors]
    #[arg(long)]
    threads: Option<usize>,
    /// Name all bugs and schedules, and do nothing
    #[arg(long)]
    list: bool,
    /// Print one JSON object a bug instead of a table
    #[arg(long)]
    json: bool,
    /// Print the story of what is found, so many lines of it
    #[arg(long, default_value_t = 0)]
    lines: usize,
}

/// A way to run a seed.
#[derive(Clone, Copy)]
struct Schedule {
    name: &'static str,
    run: fn(seed: u64, keep_trace: usize) -> Outcome,
}

fn schedules() -> Vec<Schedule> {
    let mut all = vec![
        Schedule { name: "random-3", run: |seed, keep| run(seed, 3, keep) },
        Schedule { name: "random-5", run: |seed, keep| run(seed, 5, keep) },
        Schedule { name: "members-3", run: |seed, keep| run_changing(seed, 3, keep) },
        Schedule { name: "members-4", run: |seed, keep| run_changing(seed, 4, keep) },
        Schedule { name: "snapshots-3", run: |seed, keep| run_catching(seed, 3, keep) },
        Schedule { name: "snapshots-5", run: |seed, keep| run_catching(seed, 5, keep) },
        Schedule { name: "split-3", run: |seed, keep| run_split(seed, 3, keep) },
        Schedule { name: "split-snapshots-3", run: |seed, keep| run_split_catching(seed, 3, keep) },
    ];
    all.extend(directed::ALL.iter().map(|story| Schedule { name: story.name, run: story.run }));
    all
}

fn bug_of(name: &str) -> Result<Bug, String> {
    let all = Bug::ALL.iter().chain([&Bug::None]);
    all.copied().find(|bug| bug.name() == name).ok_or_else(|| "no such bug; --list names all".to_owned())
}

fn schedule_of(name: &str) -> Result<Schedule, String> {
    schedules()
        .into_iter()
        .find(|schedule| schedule.name == name)
        .ok_or_else(|| "no such schedule; --list names all".to_owned())
}

/// What was found with a bug planted.
#[derive(serde::Serialize)]
struct Found {
    /// 0: the core gave up on itself (a failed assertion).
    invariant: u8,
    schedule: &'static str,
    seed: u64,
    what: String,
}

/// A row of the table.
#[derive(serde::Serialize)]
struct Row {
    bug: &'static str,
    about: &'static str,
    found: Option<Found>,
    /// Seeds looked through, the last one included.
    seeds: u64,
    seconds: f64,
}

impl Row {
    fn is_good(&self) -> bool {
        (self.bug == Bug::None.name()) == self.found.is_none()
    }

    fn print(&self) {
        let Row { bug, seeds, seconds, .. } = self;
        let found = match &self.found {
            Some(found) if found.invariant == 0 => format!("assertion, {}", found.schedule),
            Some(found) => format!("invariant {}, {}", found.invariant, found.schedule),
            None if self.is_good() => "nothing, as it must be".to_owned(),
            None => "NOT FOUND".to_owned(),
        };
        println!("{bug:<26}  {found:<34}  {seeds:>5}  {seconds:>7.1}");
        if let Some(found) = self.found.as_ref().filter(|_| !self.is_good()) {
            println!("    WITHOUT A BUG: seed {}: {}", found.seed, found.what);
        }
        // A table that is piped appears row by row, too.
        let _ = std::io::stdout().flush();
    }
}

fn main() -> ExitCode {
    let args: Args = match arguments() {
        Ok(args) => args,
        Err(status) => return status,
    };
    if args.list {
        list();
        return ExitCode::SUCCESS;
    }
    quiet_panics();
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).expect("a signal that can be handled");
    }
    let bugs = if args.bugs.is_empty() { Bug::ALL } else { &args.bugs[..] };
    if !args.json {
        println!("{:<26}  {:<34}  {:>5}  {:>7}", "bug", "found by", "seeds", "seconds");
    }
    let begun = Instant::now();
    let (mut wrong, mut deepest) = (Vec::new(), 0);
    for bug in bugs {
        let Some(row) = search(*bug, args.seeds, &args, &stop) else { return interrupted() };
        deepest = deepest.max(row.seeds);
        show(&row, &args, &mut wrong);
    }
    if args.bugs.is_empty() {
        // All that the search has looked at, without a bug.
        let Some(row) = search(Bug::None, deepest, &args, &stop) else { return interrupted() };
        show(&row, &args, &mut wrong);
    }
    if !args.json {
        println!("{:<26}  {:<34}  {:>5}  {:>7.1}", "", "", "", begun.elapsed().as_secs_f64());
    }
    if wrong.is_empty() {
        return ExitCode::SUCCESS;
    }
    eprintln!("wrong: {}", wrong.join(", "));
    ExitCode::from(1)
}

fn interrupted() -> ExitCode {
    eprintln!("interrupted");
    ExitCode::from(130)
}

fn show(row: &Row, args: &Args, wrong: &mut Vec<&'static str>) {
    if args.json {
        println!("{}", serde_json::to_string(row).expect("numbers and text"));
    } else {
        row.print();
    }
    if !row.is_good() {
        wrong.push(row.bug);
    }
    if args.lines > 0
        && let Some(found) = &row.found
    {
        tell(found, args.lines);
    }
}

fn list() {
    println!("bugs:");
    for bug in Bug::ALL {
        println!("  {:<26}  {}", bug.name(), bug.about());
    }
    println!("schedules:");
    for schedule in schedules() {
        println!("  {}", schedule.name);
    }
}

fn tell(found: &Found, lines: usize) {
    if let Ok(schedule) = schedule_of(found.schedule) {
        println!("{}", (schedule.run)(found.seed, lines).trace.join("\n"));
    }
    println!("{} of seed {}: {}", found.schedule, found.seed, found.what);
}

/// Looks for whatever goes wrong with that bug planted; `None` when interrupted. All runs before the one that found
/// something are finished, so that the answer is the same on any number of threads.
fn search(bug: Bug, seeds: u64, args: &Args, stop: &AtomicBool) -> Option<Row> {
    plant(bug);
    let schedules = if args.schedules.is_empty() { schedules() } else { args.schedules.clone() };
    let each = schedules.len() as u64;
    let runs = seeds.saturating_mul(each);
    let (next, first_found) = (AtomicU64::new(0), Mutex::new(None::<(u64, Found)>));
    let begun = Instant::now();
    let threads = args.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= runs || stop.load(Ordering::Relaxed) {
                        break;
                    }
                    if first_found
                        .lock()
                        .expect("no thread panics")
                        .as_ref()
                        .is_some_and(|(at, _)| *at < number)
                    {
                        break;
                    }
                    let (seed, schedule) =
                        (args.first.wrapping_add(number / each), schedules[(number % each) as usize]);
                    let Some(violation) = (schedule.run)(seed, 0).violation else { continue };
                    let found = Found {
                        invariant: violation.invariant,
                        schedule: schedule.name,
                        seed,
                        what: violation.what,
                    };
                    let mut first = first_found.lock().expect("no thread panics");
                    if first.as_ref().is_none_or(|(at, _)| *at > number) {
                        *first = Some((number, found));
                    }
                }
            });
        }
    });
    let seconds = begun.elapsed().as_secs_f64();
    let found = first_found.into_inner().expect("no thread panicked");
    if stop.load(Ordering::Relaxed) {
        return None;
    }
    let seeds = found.as_ref().map_or(seeds, |(number, _)| number / each + 1);
    Some(Row { bug: bug.name(), about: bug.about(), found: found.map(|(_, found)| found), seeds, seconds })
}
