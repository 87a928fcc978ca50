//! What a demo with several groups came to: numbers for a program (`--json`), and the same in words for people.

use std::fmt;
use std::path::PathBuf;

use serde::Serialize;

/// The result. Its fields are those of the JSON object; durations are in nanoseconds. Sums are over all groups.
#[derive(Clone, Debug, Serialize)]
pub struct Tally {
    /// Nodes started: processes.
    pub nodes: u8,
    /// Groups, of which each process has a member on its one agent thread.
    pub groups: u8,
    /// Entries fed, as many to each group.
    pub entries: u64,
    /// Entries reported committed by a leader.
    pub acknowledged: u64,
    /// Proposals made again, because their outcome was unknown or no leader took them.
    pub retried: u64,
    /// Acknowledged entries missing in survivors' files.
    pub lost: u64,
    /// Entries too often in survivors' files.
    pub duplicated: u64,
    /// In each group the files of all survivors are identical with each other and with what was fed.
    pub identical: bool,
    /// Members that fell below every ring of their group.
    pub behind: usize,
    /// Nodes whose files were compared.
    pub survivors: Vec<u8>,
    /// The node that was killed.
    pub struck: Option<u8>,
    /// Groups that it led.
    pub fallen: usize,
    /// From the blow to the first commit of the next leader, of each of these groups; null when none fell.
    pub failover_ns: Option<FellOver>,
    /// Commits under load, of more and more groups; empty when it was not measured.
    pub load: Vec<Step>,
    /// From the first proposal to the last acknowledgement.
    pub elapsed_ns: u64,
    /// Acknowledged in that time.
    pub entries_per_s: u64,
    /// Where the files are.
    pub dir: PathBuf,
    /// Why it did not end well.
    pub failure: Option<String>,
}

/// So many groups under load.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Step {
    /// Groups.
    pub groups: u8,
    /// Proposals on their way in each.
    pub depth: u64,
    /// Commits of all of them together.
    pub commits: u64,
    /// Groups that had the same leader all the time.
    pub loaded: u8,
    /// In this time.
    pub elapsed_ns: u64,
}

/// Durations of several fail-overs.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct FellOver {
    /// The shortest.
    pub min: u64,
    /// As many are shorter as are longer.
    pub p50: u64,
    /// The longest.
    pub max: u64,
}

impl Step {
    /// Commits in a second.
    pub fn per_s(&self) -> f64 {
        self.commits as f64 * 1e9 / self.elapsed_ns.max(1) as f64
    }
}

impl FellOver {
    /// `None` of none.
    pub fn of(mut durations: Vec<u64>) -> Option<FellOver> {
        durations.sort_unstable();
        let (min, max) = (*durations.first()?, *durations.last()?);
        Some(FellOver { min, p50: durations[durations.len() / 2], max })
    }
}

impl Tally {
    /// The program's: 0, 1, or 3 when a member stayed behind.
    pub fn exit_status(&self) -> u8 {
        let is_complete = self.acknowledged == self.entries && self.failure.is_none();
        match (self.identical && self.lost == 0 && self.duplicated == 0 && is_complete, self.behind) {
            (true, 0) => 0,
            (true, _) => 3,
            (false, _) => 1,
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tally { nodes, groups, entries, acknowledged, .. } = self;
        writeln!(f, "{nodes} nodes with {groups} groups each, every node's on one agent thread")?;
        if let Some(first) = self.load.first() {
            writeln!(f, "\nproposals on their way in each group, until more of them bring nothing:")?;
            writeln!(
                f,
                "  {:>6}  {:>5}  {:>12}  {:>9}  {:>14}",
                "groups", "each", "commits/s", "ratio", "us a commit"
            )?;
            for step in &self.load {
                let (ratio, mean) = (
                    step.per_s() / first.per_s().max(1.0),
                    f64::from(step.groups) * step.depth as f64 * 1e6 / step.per_s().max(1.0),
                );
                let Step { groups, depth, .. } = step;
                writeln!(f, "  {groups:>6}  {depth:>5}  {:>12.0}  {ratio:>9.2}  {mean:>14.1}", step.per_s())?;
            }
        }
        writeln!(
            f,
            "\n{acknowledged} of {entries} entries acknowledged, {} a second; {} proposed again",
            self.entries_per_s, self.retried
        )?;
        if let Some(struck) = self.struck {
            write!(f, "node {struck} was killed, which led {} of the {groups} groups", self.fallen)?;
            match self.failover_ns {
                Some(FellOver { min, p50, max }) => {
                    let ms = |ns: u64| ns as f64 / 1e6;
                    let (min, p50, max) = (ms(min), ms(p50), ms(max));
                    writeln!(
                        f,
                        "; the next commits came after {min:.1} ms at best, {p50:.1} in the middle, {max:.1} at worst"
                    )?;
                }
                None => writeln!(f)?,
            }
        }
        let files = self.survivors.len() * usize::from(self.groups);
        match (self.identical, self.lost, self.duplicated) {
            (true, 0, 0) => {
                writeln!(f, "{files} files compared: in each group identical, nothing lost, nothing twice")?
            }
            (_, lost, duplicated) => writeln!(
                f,
                "{files} files compared: NOT identical with what was fed; {lost} entries lost, {duplicated} too often"
            )?,
        }
        if self.behind > 0 {
            writeln!(f, "{} members stayed behind: they fell below every ring of their group", self.behind)?;
        }
        if let Some(failure) = &self.failure {
            writeln!(f, "FAILED: {failure}")?;
        }
        writeln!(f, "files: {}", self.dir.display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally() -> Tally {
        let step =
            |groups, commits| Step { groups, depth: 1, commits, loaded: groups, elapsed_ns: 500_000_000 };
        Tally {
            nodes: 3,
            groups: 4,
            entries: 400,
            acknowledged: 400,
            retried: 0,
            lost: 0,
            duplicated: 0,
            identical: true,
            behind: 0,
            survivors: vec![2, 3],
            struck: Some(1),
            fallen: 2,
            failover_ns: FellOver::of(vec![30_000_000, 10_000_000]),
            load: vec![step(1, 1000), step(2, 1900), step(4, 3000)],
            elapsed_ns: 1_000_000_000,
            entries_per_s: 400,
            dir: "/there".into(),
            failure: None,
        }
    }

    #[test]
    fn only_what_is_whole_ends_well() {
        assert_eq!(tally().exit_status(), 0);
        type Spoil = fn(&mut Tally);
        let spoilt: [(Spoil, u8); 6] = [
            (|tally| tally.lost = 1, 1),
            (|tally| tally.duplicated = 1, 1),
            (|tally| tally.identical = false, 1),
            (|tally| tally.acknowledged = 399, 1),
            (|tally| tally.failure = Some("it broke".to_owned()), 1),
            (|tally| tally.behind = 1, 3),
        ];
        for (spoil, status) in spoilt {
            let mut tally = tally();
            spoil(&mut tally);
            assert_eq!(tally.exit_status(), status);
        }
    }

    #[test]
    fn the_growth_is_shown_beside_one_group() {
        let text = tally().to_string();
        for line in [
            "1      1          2000       1.00           500.0",
            "4      1          6000       3.00           666.7",
        ] {
            assert!(text.contains(line), "{text}");
        }
        assert!(text.contains("8 files compared: in each group identical"), "{text}");
        assert!(text.contains("10.0 ms at best, 30.0 in the middle, 30.0 at worst"), "{text}");
    }
}
