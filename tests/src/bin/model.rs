//! `model`: tries every schedule of three production replicas on a tiny fabric, within bounds, and says which were exhausted.
//!
//! The long form, which sees more than ten million states and takes some minutes, is what it does when nothing is said:
//! `cargo run --release -p ringleader-tests --bin model`.
//!
//! Exit status: 0 when nothing was found, 1 when an invariant was broken, 130 when it was interrupted, 64 when it was called wrongly.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Parser;
use indicatif::{HumanCount, ProgressBar, ProgressStyle};
#[cfg(feature = "planted")]
use ringleader_core::planted::{Bug, plant};
use ringleader_tests::call::arguments;
use ringleader_tests::model::search::Progress;
use ringleader_tests::model::state::{Bounds, Start};
use ringleader_tests::model::{Found, Limits, Round, rounds};
use ringleader_tests::run::quiet_panics;

/// Explores every interleaving of three production replicas on a tiny fabric of one-sided memory.
///
/// Everything is a choice: which half of a WRITE or READ lands next, when a completion is delivered, an acceptor's end
/// is armed, granted or fenced, when a node looks around, when its time-outs end, who crashes or stops and when. States
/// that behave alike are one. After each choice the invariants 1 to 5, 7, 8, 11 and 12 of docs/protocol.md are judged.
///
/// The search goes in rounds. Round D tries all schedules that leave a fixed one at most D times: by holding back what is
/// due until nothing else can happen, by letting it happen early after all, by another order on one queue pair, or by a
/// proposal, time-out, crash or stop before all is calm. When all is calm every choice is free. With --every-order
/// nothing is fixed, and there is one round of all interleavings.
#[derive(Parser)]
#[command(name = "model", version)]
struct Args {
    /// The state to begin in
    #[arg(long, value_enum, default_value_t = Start::Led)]
    start: Start,
    /// Proposals
    #[arg(long, default_value_t = 2)]
    proposals: u8,
    /// Reads, at any node
    #[arg(long, default_value_t = 0)]
    reads: u8,
    /// Candidacies
    #[arg(long, default_value_t = 2)]
    candidates: u8,
    /// Crashes and stops
    #[arg(long, default_value_t = 1)]
    faults: u8,
    /// Log queue pairs that break with something outstanding
    #[arg(long, default_value_t = 0)]
    breaks: u8,
    /// Time-outs of all nodes together
    #[arg(long, default_value_t = 6)]
    waits: u8,
    /// Time-outs of one node
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u8).range(0..=4))]
    waits_each: u8,
    /// Slots of 64 bytes in a ring
    #[arg(long, default_value_t = 4, value_parser = slots)]
    slots: u64,
    /// Deviations from the fixed schedule in the last round
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(0..=20), conflicts_with = "every_order")]
    deviations: u8,
    /// No fixed schedule: every interleaving, in one round
    #[arg(long)]
    every_order: bool,
    /// A fabric that breaks its promise: a fence does not wait for what passed before it
    #[arg(long)]
    leaky_fences: bool,
    /// Distinct states of one round, at most
    #[arg(long, default_value_t = 12_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    max_states: u64,
    /// Threads [default: as many as the machine has processors]
    #[arg(long)]
    threads: Option<usize>,
    /// Plant this bug in the core first (`--bin planted -- --list` names all)
    #[cfg(feature = "planted")]
    #[arg(long, value_name = "NAME", value_parser = bug_of)]
    planted: Option<Bug>,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    let args: Args = match arguments() {
        Ok(args) => args,
        Err(status) => return status,
    };
    quiet_panics();
    #[cfg(feature = "planted")]
    if let Some(bug) = args.planted {
        plant(bug);
    }
    let interrupted = Arc::new(AtomicBool::new(false));
    let heard = signal_hook::flag::register(signal_hook::consts::SIGINT, Arc::clone(&interrupted));
    if let Err(error) = heard {
        eprintln!("model: cannot listen for Ctrl-C: {error}");
    }
    let bounds = args.bounds();
    let all = || std::thread::available_parallelism().map_or(1, usize::from);
    let limits = Limits { max_states: args.max_states, threads: args.threads.unwrap_or_else(all) };
    let mut done: Vec<Round> = Vec::new();
    let bar = if args.json { ProgressBar::hidden() } else { ProgressBar::new_spinner() };
    let style = ProgressStyle::with_template("{spinner} {msg}, {elapsed}");
    bar.set_style(style.expect("the template is sound"));
    let found = rounds(
        &bounds,
        &limits,
        |bounds| {
            let progress = Arc::new(Progress::default());
            watch(&bar, &interrupted, bounds, Arc::clone(&progress));
            progress
        },
        |round| {
            if !args.json {
                bar.suspend(|| println!("{}", describe(round)));
            }
        },
        &mut done,
    );
    bar.finish_and_clear();
    let interrupted = interrupted.load(Ordering::Relaxed);
    if args.json {
        println!("{}", summary(&bounds, &limits, &done, found.as_ref(), interrupted));
    } else {
        tell(&bounds, &done, found.as_ref(), interrupted);
    }
    match (found, interrupted) {
        (Some(_), _) => ExitCode::from(1),
        (None, true) => ExitCode::from(130),
        (None, false) => ExitCode::SUCCESS,
    }
}

#[cfg(feature = "planted")]
fn bug_of(name: &str) -> Result<Bug, String> {
    Bug::ALL.iter().copied().find(|bug| bug.name() == name).ok_or_else(|| "no such bug".to_owned())
}

fn slots(text: &str) -> Result<u64, String> {
    match text {
        "4" => Ok(4),
        "8" => Ok(8),
        "16" => Ok(16),
        _ => Err("a ring of a model has 4, 8 or 16 slots".into()),
    }
}

impl Args {
    fn bounds(&self) -> Bounds {
        Bounds {
            start: self.start,
            slots: self.slots,
            proposals: self.proposals,
            reads: self.reads,
            candidates: self.candidates,
            faults: self.faults,
            breaks: self.breaks,
            waits: self.waits,
            waits_each: self.waits_each,
            deviations: (!self.every_order).then_some(self.deviations),
            fences_drain: !self.leaky_fences,
        }
    }
}

/// Shows how far a round is, and ends it when somebody presses Ctrl-C.
fn watch(bar: &ProgressBar, interrupted: &Arc<AtomicBool>, bounds: &Bounds, progress: Arc<Progress>) {
    let (bar, interrupted) = (bar.clone(), Arc::clone(interrupted));
    let name = name(bounds);
    // Ends by itself: it only holds on to what the search of this round holds on to.
    let progress = {
        let weak = Arc::downgrade(&progress);
        drop(progress);
        weak
    };
    std::thread::spawn(move || {
        while let Some(progress) = progress.upgrade() {
            if interrupted.load(Ordering::Relaxed) {
                progress.stop.store(true, Ordering::Relaxed);
            }
            let states = HumanCount(progress.states.load(Ordering::Relaxed));
            let steps = HumanCount(progress.steps.load(Ordering::Relaxed));
            bar.set_message(format!("{name}: {states} states, {steps} steps"));
            drop(progress);
            std::thread::sleep(Duration::from_millis(100));
        }
    });
}

fn name(bounds: &Bounds) -> String {
    match bounds.deviations {
        Some(1) => "1 deviation".into(),
        Some(count) => format!("{count} deviations"),
        None => "every order".into(),
    }
}

fn describe(round: &Round) -> String {
    let outcome = &round.outcome;
    let end = match (&outcome.found, outcome.exhausted) {
        (Some(_), _) => "FOUND SOMETHING",
        (None, true) => "exhausted",
        (None, false) => "not exhausted",
    };
    let seconds = round.took.as_secs_f64();
    format!(
        "{}: {} distinct states, {} steps, longest way {}, {seconds:.1} s ({} states a second): {end}",
        name(&round.bounds),
        HumanCount(outcome.states),
        HumanCount(outcome.steps),
        outcome.longest,
        HumanCount((outcome.states as f64 / seconds.max(1e-3)) as u64),
    )
}

fn bounds_of(bounds: &Bounds) -> String {
    let start = match bounds.start {
        Start::Formed => "a formed group without leader",
        Start::Led => "a group that is led",
    };
    format!(
        "from {start}: {} proposals, {} reads, {} candidacies, {} crashes or stops, {} broken queue pairs, {} time-outs ({} a node), rings of {} slots",
        bounds.proposals,
        bounds.reads,
        bounds.candidates,
        bounds.faults,
        bounds.breaks,
        bounds.waits,
        bounds.waits_each,
        bounds.slots
    )
}

fn tell(bounds: &Bounds, done: &[Round], found: Option<&Found>, interrupted: bool) {
    println!("bounds: {}", bounds_of(bounds));
    let exhausted = done.iter().rfind(|round| round.outcome.exhausted);
    match exhausted {
        Some(round) => println!("exhausted within them: all schedules, {}", name(&round.bounds)),
        None => println!("exhausted within them: nothing"),
    }
    if let Some(round) = done.last() {
        for (what, counts) in ["candidacies", "elections", "commits"].iter().zip(&round.outcome.reached) {
            let counts = counts.iter().enumerate().filter(|(_, states)| **states > 0);
            let counts: Vec<_> =
                counts.map(|(count, states)| format!("{count}: {}", HumanCount(*states))).collect();
            println!("states of the last round by {what} so far: {}", counts.join(", "));
        }
    }
    if let Some(found) = found {
        println!("\nThe shortest way known:");
        found.story.iter().for_each(|line| println!("{line}"));
        println!("\n{} (after {} choices)", found.violation, found.choices);
    } else {
        let most = done.iter().map(|round| round.outcome.states).max().unwrap_or(0);
        let cut = if interrupted { "interrupted; " } else { "" };
        println!("{cut}{} distinct states seen, no invariant broken", HumanCount(most));
    }
}

fn summary(
    bounds: &Bounds,
    limits: &Limits,
    done: &[Round],
    found: Option<&Found>,
    interrupted: bool,
) -> serde_json::Value {
    let rounds = done.iter().map(|round| {
        serde_json::json!({
            "deviations": round.bounds.deviations, "states": round.outcome.states, "steps": round.outcome.steps,
            "ends": round.outcome.ends, "reached": round.outcome.reached, "longest": round.outcome.longest, "exhausted": round.outcome.exhausted,
            "seconds": round.took.as_secs_f64(),
        })
    });
    let violation = found.map(|found| {
        serde_json::json!({
            "invariant": found.violation.invariant, "what": found.violation.what, "choices": found.choices,
            "deviations": found.deviations, "story": found.story,
        })
    });
    let states = done.iter().map(|round| round.outcome.states).max().unwrap_or(0);
    serde_json::json!({
        "bounds": bounds, "max_states": limits.max_states, "rounds": rounds.collect::<Vec<_>>(),
        "states": states, "violation": violation, "interrupted": interrupted,
    })
}
