//! What many runs have given together, in text and in JSON.

use std::collections::BTreeMap;
use std::fmt;

use crate::fabric::Faults;
use crate::run::Outcome;
use crate::seed::Scheme;

/// A violation that was found, and how to see it again.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Found {
    /// The seed.
    pub seed: u64,
    /// What it ran.
    pub schedule: &'static str,
    /// Number of the invariant of protocol.md, section 14; 0 for an assertion of the core.
    pub invariant: u8,
    /// In words.
    pub what: String,
    /// The command that replays it.
    pub replay: String,
    /// Whether something that must not happen did, and not only something that must did not in time.
    #[serde(skip)]
    pub safety: bool,
    #[serde(skip)]
    scheme: Scheme,
}

impl Found {
    /// Runs it again, and keeps the last lines of its story.
    pub fn again(&self, keep_trace: usize) -> Outcome {
        self.scheme.run(self.seed, keep_trace)
    }
}

/// All runs up to now.
#[derive(Debug, Default)]
pub struct Sum {
    seeds: u64,
    schedules: BTreeMap<&'static str, Schedule>,
    nodes: BTreeMap<u8, u64>,
    entries: u64,
    acknowledged: u64,
    reads: u64,
    elections: u64,
    events: BTreeMap<String, u64>,
    faults: Faults,
    run_us: Vec<u64>,
    recovery_ns: Vec<u64>,
    unjudged: u64,
    /// What was found, by seed.
    pub violations: Vec<Found>,
}

/// How often a schedule was run, and how often all that it wants to happen happened.
#[derive(Clone, Copy, Debug, Default, serde::Serialize)]
pub struct Schedule {
    seeds: u64,
    told: u64,
}

/// The whole of it.
#[derive(Debug, serde::Serialize)]
pub struct Summary {
    seeds: u64,
    schedules: BTreeMap<&'static str, Schedule>,
    nodes: BTreeMap<u8, u64>,
    entries: u64,
    acknowledged: u64,
    reads: u64,
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
    interrupted: bool,
    /// What the core did, by machine.
    #[cfg(feature = "marks")]
    transitions: Vec<crate::transitions::Transition>,
    /// What it never did, and could have.
    #[cfg(feature = "marks")]
    never_reached: Vec<String>,
    /// The story of the first violation.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub trace: Vec<String>,
}

impl Sum {
    /// One more run.
    pub fn add(&mut self, seed: u64, scheme: &Scheme, outcome: Outcome, took_us: u64) {
        self.seeds += 1;
        let schedule = self.schedules.entry(scheme.name()).or_default();
        schedule.seeds += 1;
        schedule.told += u64::from(outcome.told);
        *self.nodes.entry(outcome.nodes).or_default() += 1;
        self.entries += outcome.entries;
        self.acknowledged += outcome.acknowledged;
        self.reads += outcome.reads;
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
        if let Some(violation) = outcome.violation {
            self.violations.push(Found {
                seed,
                schedule: scheme.name(),
                invariant: violation.invariant,
                safety: !violation.is_liveness(),
                what: violation.what,
                replay: scheme.replay(seed),
                scheme: *scheme,
            });
            self.violations.sort_by_key(|found| found.seed);
        }
    }

    /// All of it.
    pub fn summary(mut self, seconds: f64, interrupted: bool) -> Summary {
        self.run_us.sort_unstable();
        self.recovery_ns.sort_unstable();
        #[cfg(feature = "marks")]
        let transitions = crate::transitions::all();
        let middle = |sorted: &[u64]| sorted.get(sorted.len() / 2).copied().unwrap_or(0);
        let last = |sorted: &[u64]| sorted.last().copied().unwrap_or(0);
        Summary {
            seeds: self.seeds,
            schedules: self.schedules,
            nodes: self.nodes,
            entries: self.entries,
            acknowledged: self.acknowledged,
            reads: self.reads,
            elections: self.elections,
            events: self.events,
            faults: self.faults,
            violations: self.violations,
            unjudged: self.unjudged,
            recovery_ns_p50: middle(&self.recovery_ns),
            recovery_ns_max: last(&self.recovery_ns),
            seed_us_p50: middle(&self.run_us),
            seed_us_max: last(&self.run_us),
            seconds,
            interrupted,
            #[cfg(feature = "marks")]
            never_reached: crate::transitions::never_reached(&transitions),
            #[cfg(feature = "marks")]
            transitions,
            trace: Vec::new(),
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} seeds in {:.1} s ({:.1} ms a seed in the median, {:.1} ms at most){}",
            self.seeds,
            self.seconds,
            self.seed_us_p50 as f64 / 1e3,
            self.seed_us_max as f64 / 1e3,
            if self.interrupted { ", interrupted" } else { "" }
        )?;
        let schedules = self.schedules.iter().map(|(name, one)| match one.told == one.seeds {
            true => format!("{name} {}", one.seeds),
            false => format!("{name} {} ({} told to their end)", one.seeds, one.told),
        });
        writeln!(f, "schedules: {}", list(schedules))?;
        writeln!(
            f,
            "groups: {}",
            list(self.nodes.iter().map(|(nodes, seeds)| format!("{seeds} of {nodes} nodes")))
        )?;
        writeln!(
            f,
            "{} entries committed, {} proposals acknowledged, {} reads answered, {} elections won",
            self.entries, self.acknowledged, self.reads, self.elections
        )?;
        writeln!(
            f,
            "all well again after {:.1} ms in the median, {:.1} ms at most (simulated); {} runs lost too much to be judged",
            self.recovery_ns_p50 as f64 / 1e6,
            self.recovery_ns_max as f64 / 1e6,
            self.unjudged
        )?;
        let faults = self.faults.list().map(|(name, count)| format!("{} {count}", name.replace('_', " ")));
        writeln!(f, "faults: {}", list(faults))?;
        writeln!(f, "events: {}", list(self.events.iter().map(|(name, count)| format!("{name} {count}"))))?;
        #[cfg(feature = "marks")]
        write_transitions(f, &self.transitions, &self.never_reached)?;
        for found in &self.violations {
            writeln!(
                f,
                "seed {} ({}): invariant {}: {}",
                found.seed, found.schedule, found.invariant, found.what
            )?;
        }
        Ok(())
    }
}

/// A line a machine, with what it did and how often; then what was never reached, one a line.
#[cfg(feature = "marks")]
fn write_transitions(
    f: &mut fmt::Formatter<'_>,
    all: &[crate::transitions::Transition],
    never: &[String],
) -> fmt::Result {
    for of in all.chunk_by(|one, next| one.machine == next.machine) {
        writeln!(f, "transitions of the {}:", of[0].machine)?;
        for one in of.iter().filter(|one| one.count > 0) {
            writeln!(f, "{:>12}  {}", one.count, one.text)?;
        }
    }
    for one in all.iter().filter(|one| one.count == 0) {
        if let Some(why) = one.unreachable {
            writeln!(f, "not reached, and cannot be here: {}: {} ({why})", one.machine, one.text)?;
        }
    }
    for one in never {
        writeln!(f, "NEVER REACHED: {one}")?;
    }
    Ok(())
}

fn list(items: impl Iterator<Item = String>) -> String {
    items.collect::<Vec<_>>().join(", ")
}
