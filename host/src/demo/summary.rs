//! What a demo came to: numbers for a program (`--json`), and the same in words for people.

use std::fmt;
use std::path::PathBuf;

use serde::Serialize;

use super::history::FailOver;
use super::plan::{Fault, Feed};
use super::reads::ReadSummary;
use super::wire::{Measured, Quantiles};

/// So many leads are told of.
const LEADS_TOLD: usize = 8;

/// The result. Its fields are those of the JSON object; durations are in nanoseconds.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// Nodes started.
    pub nodes: u8,
    /// Entries fed.
    pub entries: u64,
    /// Entries reported committed by a leader.
    pub acknowledged: u64,
    /// Proposals made again, because their outcome was unknown or no leader took them.
    pub retried: u64,
    /// Acknowledged entries missing in a survivor's file; the most of all survivors.
    pub lost: u64,
    /// The same, when the survivors are no majority: they may have these entries, and nobody could tell them that they are committed.
    pub unknown: u64,
    /// Entries too often in a survivor's file; the most of all survivors.
    pub duplicated: u64,
    /// The files of all survivors are identical with each other and with what was fed.
    pub identical: bool,
    /// Nodes killed by other nodes, which could not shut them out otherwise.
    pub shot: usize,
    /// Nodes that fell below every ring.
    pub behind: usize,
    /// Elections after the first.
    pub leader_changes: usize,
    /// Longest time between two commits in a row, measured in the leaders' agents.
    pub longest_gap_ns: u64,
    /// Commit latency with one proposal outstanding; null when it was not measured.
    pub commit_ns: Option<Quantiles>,
    /// The same bytes to the same peers by bare writes.
    pub floor_ns: Option<Quantiles>,
    /// Reads beside the stream, of nodes that lived to the end; null when there were none.
    pub reads: Option<ReadSummary>,
    /// Parts of the fail-over; null when no leader fell.
    pub failover_ns: Option<FailOver>,
    /// Where the files are.
    pub dir: PathBuf,
    /// How many proposals were measured.
    pub samples: u64,
    /// Nodes whose files were compared.
    pub survivors: Vec<u8>,
    /// The nodes counted in `shot`.
    pub shot_nodes: Vec<u8>,
    /// The nodes counted in `behind`.
    pub behind_nodes: Vec<u8>,
    /// Who led.
    pub leaders: Vec<Led>,
    /// From the first proposal to the last acknowledgement.
    pub elapsed_ns: u64,
    /// Acknowledged entries a second of that time.
    pub entries_per_s: u64,
    /// What went wrong, in one line.
    pub failure: Option<String>,
    /// The picture, and what was done: not for programs.
    #[serde(skip)]
    pub story: Story,
}

/// Somebody's lead. Times count from the first proposal, and may be negative.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Led {
    /// Who.
    pub node: u8,
    /// The term.
    pub term: u64,
    /// Since when.
    pub from_ns: i64,
    /// Until when; null for who led at the end.
    pub until_ns: Option<i64>,
}

/// What only people read.
#[derive(Clone, Debug)]
pub struct Story {
    /// What was fed.
    pub feed: Feed,
    /// What happened to whom.
    pub fault: Fault,
    /// Nobody was struck, though it was asked for.
    pub is_spared: bool,
    /// The node that was struck.
    pub struck: Option<u8>,
    /// [`super::picture`].
    pub picture: String,
    /// Bytes of each proposal measured.
    pub sample_size: usize,
    /// Whether the regions were kept.
    pub regions: bool,
    /// Whether the regions were in memory.
    pub in_memory: bool,
}

impl Summary {
    /// Fills in a measurement.
    pub fn set_measured(&mut self, measured: Option<Measured>) {
        self.samples = measured.map_or(0, |measured| measured.samples);
        self.commit_ns = measured.map(|measured| measured.commit_ns);
        self.floor_ns = measured.map(|measured| measured.floor_ns);
    }

    /// 0 when all is well, 1 when something was lost or doubled or went wrong otherwise, 3 when a node stayed behind.
    pub fn exit_status(&self) -> u8 {
        let is_well = self.lost == 0
            && self.unknown == 0
            && self.duplicated == 0
            && self.identical
            && self.failure.is_none()
            && self.reads.is_none_or(|reads| reads.stale == 0)
            && self.acknowledged == self.entries;
        match (is_well, self.behind) {
            (false, _) => 1,
            (true, 0) => 0,
            (true, _) => 3,
        }
    }

    fn what(&self) -> String {
        let feed = match &self.story.feed {
            Feed::File(path) => format!("{}, the lines of {}", entries(self.entries), path.display()),
            Feed::Generated { size, .. } => {
                format!("{} of {size} {}", entries(self.entries), if *size == 1 { "byte" } else { "bytes" })
            }
        };
        let struck = self.story.struck.map_or(String::new(), |node| format!(" (node {node})"));
        let fault = match self.story.fault {
            Fault::None => "nobody harmed".to_owned(),
            Fault::Kill(whom) => format!("the {whom}{struck} killed in mid-stream"),
            Fault::Pause(whom) => format!("the {whom}{struck} stopped in mid-stream, and woken at the end"),
        };
        format!("{} nodes, {feed}; {fault}", self.nodes)
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\n", self.what())?;
        writeln!(f, "{}", self.story.picture)?;
        let count = self.leaders.len();
        for (at, led) in self.leaders.iter().enumerate() {
            // A group that cannot settle elects for ever: the first and the last leads tell enough.
            if count > LEADS_TOLD && (LEADS_TOLD - 2..count - 2).contains(&at) {
                if at == LEADS_TOLD - 2 {
                    writeln!(f, "{:<12}... {} more", "", count - LEADS_TOLD)?;
                }
                continue;
            }
            let title = if at == 0 { "led" } else { "" };
            let from = if led.from_ns < 0 { "before the start".to_owned() } else { ms(led.from_ns) };
            let until = led.until_ns.map_or("the end".to_owned(), ms);
            writeln!(f, "{title:<12}node {} in term {}, from {from} to {until}", led.node, led.term)?;
        }
        if let Some(parts) = &self.failover_ns {
            writeln!(
                f,
                "{:<12}{} = detection {} + fence {} + take-over {} + first commit {}",
                "fail-over",
                time(parts.total),
                part(parts.detect),
                part(parts.fence),
                part(parts.takeover),
                part(parts.first_commit)
            )?;
        }
        match (&self.commit_ns, &self.floor_ns) {
            (Some(commit), Some(floor)) => {
                writeln!(
                    f,
                    "{:<12}p50 {}, p99 {}, max {} ({} {} of {} bytes, one at a time)",
                    "commit",
                    time(commit.p50),
                    time(commit.p99),
                    time(commit.max),
                    self.samples,
                    if self.samples == 1 { "proposal" } else { "proposals" },
                    self.story.sample_size
                )?;
                writeln!(
                    f,
                    "{:<12}p50 {}, p99 {} (the same bytes to the same nodes by bare writes): a commit takes {:.1} times that",
                    "floor",
                    time(floor.p50),
                    time(floor.p99),
                    commit.p50 as f64 / floor.p50.max(1) as f64
                )?;
            }
            _ => writeln!(f, "{:<12}not measured", "commit")?,
        }
        if self.acknowledged > 0 {
            writeln!(
                f,
                "{:<12}{} in {}, {} a second; longest time between two commits {}",
                "stream",
                self.acknowledged,
                time(self.elapsed_ns),
                self.entries_per_s,
                time(self.longest_gap_ns)
            )?;
        }
        if let Some(reads) = &self.reads {
            let kinds = [
                ("at the leader, by a quorum", reads.quorum, reads.quorum_ns),
                ("at followers", reads.follower, reads.follower_ns),
            ];
            for (at, (place, count, took)) in kinds.into_iter().enumerate() {
                let title = if at == 0 { "reads" } else { "" };
                let took = took.map_or(String::new(), |took| {
                    format!(": p50 {}, p99 {}, max {}", time(took.p50), time(took.p99), time(took.max))
                });
                writeln!(f, "{title:<12}{count} {place}{took}")?;
            }
            writeln!(f, "{:<12}{} not answered, {} stale", "", reads.failed, reads.stale)?;
        }
        let why = if self.retried > 0 { " (their leader fell before it told)" } else { "" };
        writeln!(
            f,
            "{:<12}{} of {} acknowledged, {} proposed again{why}, {} lost, {} doubled",
            "entries", self.acknowledged, self.entries, self.retried, self.lost, self.duplicated
        )?;
        if self.unknown > 0 {
            writeln!(
                f,
                "{:<12}{} of the acknowledged: whether the survivors have them cannot be told, for they are no majority and heard of no \
                 commit",
                "unknown", self.unknown
            )?;
        }
        for node in &self.shot_nodes {
            writeln!(
                f,
                "{:<12}node {node}: it was stopped in the middle of a copy, and only its end could shut it out",
                "shot"
            )?;
        }
        for node in &self.behind_nodes {
            writeln!(
                f,
                "{:<12}node {node}: what it missed is in no ring any more; node-{node}.behind has what it got",
                "behind"
            )?;
        }
        if self.story.is_spared {
            writeln!(
                f,
                "{:<12}nobody was struck: without those behind the others would have been no majority; a larger --ring \
                 keeps them",
                ""
            )?;
        }
        let names = list(&self.survivors);
        let verdict = if self.identical { "identical" } else { "NOT identical" };
        let with = match self.story.feed {
            Feed::File(_) => "with each other and with the input",
            Feed::Generated { .. } => "with each other and with what was proposed",
        };
        writeln!(f, "{:<12}of nodes {names}: {verdict} {with}", "files")?;
        let kept = if self.story.regions { ", node-<id>.region" } else { "" };
        writeln!(f, "{:<12}{}: node-<id>.applied{kept}", "", self.dir.display())?;
        if !self.story.in_memory {
            writeln!(
                f,
                "{:<12}/dev/shm is too small for the regions: they were on a disk, which slows them",
                "note"
            )?;
        }
        if let Some(failure) = &self.failure {
            writeln!(f, "{:<12}{failure}", "failed")?;
        }
        Ok(())
    }
}

fn list(nodes: &[u8]) -> String {
    nodes.iter().map(u8::to_string).collect::<Vec<_>>().join(", ")
}

fn ms(ns: i64) -> String {
    format!("{:.0} ms", ns as f64 / 1e6)
}

fn entries(count: u64) -> String {
    if count == 1 { "1 entry".to_owned() } else { format!("{count} entries") }
}

/// A part of a fail-over. What was told with the part before took no time of its own.
fn part(ns: u64) -> String {
    if ns == 0 { "at once".to_owned() } else { time(ns) }
}

fn time(ns: u64) -> String {
    match ns {
        0..10_000 => format!("{:.2} us", ns as f64 / 1e3),
        10_000..1_000_000 => format!("{:.0} us", ns as f64 / 1e3),
        1_000_000..10_000_000_000 => format!("{:.1} ms", ns as f64 / 1e6),
        _ => format!("{:.1} s", ns as f64 / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_short() {
        assert_eq!(time(2_340), "2.34 us");
        assert_eq!(time(23_400), "23 us");
        assert_eq!(time(72_340_000), "72.3 ms");
        assert_eq!(time(11_000_000_000), "11.0 s");
        assert_eq!((part(0).as_str(), part(7).as_str()), ("at once", "0.01 us"));
    }
}
