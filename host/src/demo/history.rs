//! What happened when, as the nodes tell it: who led, how a fail-over went, how long nothing was committed.
//!
//! All times are `CLOCK_BOOTTIME` of one machine, taken in the agents, so they may be compared.

use serde::Serialize;

use super::wire::{Commits, Happening};

/// Something worth a mark in the picture.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mark {
    /// An event of the protocol.
    Saw(Happening),
    /// The demo killed it.
    Killed,
    /// The demo stopped it.
    Stopped,
    /// The demo woke it.
    Woken,
    /// It was found dead, and the demo had not killed it.
    Dead,
}

/// A mark in a node's lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Moment {
    /// When.
    pub at_ns: u64,
    /// Where.
    pub node: u8,
    /// What.
    pub mark: Mark,
}

/// One term's leader.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Leadership {
    /// Who.
    pub node: u8,
    /// The term.
    pub term: u64,
    /// Since when.
    pub elected_ns: u64,
    /// Its first commit.
    pub first_commit_ns: Option<u64>,
    /// Its commits of entries that count.
    pub commits: Option<Commits>,
    /// Until when: it gave up, or was struck.
    pub ended_ns: Option<u64>,
}

/// How long the parts of a fail-over took. They add up to the total.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct FailOver {
    /// From the strike until the later leader asked for votes: silence, a majority that finds it silent, rank. When the
    /// former leader had to be shot: until anybody asked for votes, for they ask again while they wait for the shot.
    pub detect: u64,
    /// Until the last acceptor that it needed had shut the former leader out.
    pub fence: u64,
    /// Until it led.
    pub takeover: u64,
    /// Until it had committed its first entry.
    pub first_commit: u64,
    /// All of it.
    pub total: u64,
}

/// Everything that happened.
#[derive(Clone, Debug, Default)]
pub struct History {
    moments: Vec<Moment>,
    leaderships: Vec<Leadership>,
}

impl History {
    /// All marks, in the order in which they were heard of.
    pub fn moments(&self) -> &[Moment] {
        &self.moments
    }

    /// All leaders, by term.
    pub fn leaderships(&self) -> &[Leadership] {
        &self.leaderships
    }

    /// Adds a mark.
    pub fn add(&mut self, at_ns: u64, node: u8, mark: Mark) {
        self.moments.push(Moment { at_ns, node, mark });
        match mark {
            Mark::Saw(Happening::Elected { term }) => {
                let place = self.leaderships.partition_point(|former| former.term < term);
                self.leaderships.insert(
                    place,
                    Leadership {
                        node,
                        term,
                        elected_ns: at_ns,
                        first_commit_ns: None,
                        commits: None,
                        ended_ns: None,
                    },
                );
            }
            Mark::Saw(Happening::FirstCommit { term }) => {
                if let Some(leadership) = self.of_term(term) {
                    leadership.first_commit_ns.get_or_insert(at_ns);
                }
            }
            Mark::Saw(Happening::GaveUp { term }) => {
                if let Some(leadership) = self.of_term(term) {
                    leadership.ended_ns.get_or_insert(at_ns);
                }
            }
            Mark::Killed | Mark::Stopped | Mark::Dead => {
                for leadership in self.leaderships.iter_mut().filter(|leadership| leadership.node == node) {
                    leadership.ended_ns.get_or_insert(at_ns);
                }
            }
            _ => {}
        }
    }

    /// A leader's commits so far. Those that it learns of after another has committed are no news.
    pub fn add_commits(&mut self, commits: Commits) {
        let is_late =
            self.leaderships.iter().any(|later| later.term > commits.term && later.first_commit_ns.is_some());
        if let Some(leadership) = self.of_term(commits.term).filter(|_| !is_late) {
            leadership.commits = Some(commits);
        }
    }

    /// What was committed until now does not count.
    pub fn forget_commits(&mut self) {
        for leadership in &mut self.leaderships {
            leadership.commits = None;
        }
    }

    /// The term of the last leader, and the moment of its first commit.
    pub fn last_leader(&self) -> Option<&Leadership> {
        self.leaderships.last()
    }

    /// The fail-over from a leader of `term` that was struck at `at_ns`; `None` as long as no later one has committed.
    pub fn fail_over(&self, term: u64, at_ns: u64) -> Option<FailOver> {
        let (winner, committed_ns) = self
            .leaderships
            .iter()
            .filter(|later| later.term > term)
            .find_map(|later| later.first_commit_ns.map(|at_ns| (later, at_ns)))?;
        let campaign_ns = self
            .times(|moment| {
                moment.node == winner.node
                    && moment.mark == Mark::Saw(Happening::Campaign { term: winner.term })
            })
            .min()
            .unwrap_or(winner.elected_ns);
        // Votes waited for the shot, and candidates did not wait for the votes: the winner's attempt was one of many.
        let is_shot = self.moments.iter().any(|moment| {
            moment.mark == Mark::Dead
                && self.leaderships.iter().any(|led| led.term == term && led.node == moment.node)
        });
        let asked_ns = self
            .times(|moment| {
                matches!(moment.mark, Mark::Saw(Happening::Campaign { term: asked }) if asked > term)
                    && (at_ns..campaign_ns).contains(&moment.at_ns)
            })
            .min()
            .filter(|_| is_shot)
            .unwrap_or(campaign_ns);
        let fenced_ns = self
            .times(|moment| {
                moment.mark == Mark::Saw(Happening::Fenced { by: winner.node })
                    && (campaign_ns..=winner.elected_ns).contains(&moment.at_ns)
            })
            .max()
            .unwrap_or(campaign_ns);
        let mut last = at_ns;
        let mut part = |until: u64| {
            let len = until.saturating_sub(last);
            last = last.max(until);
            len
        };
        let (detect, fence) = (part(asked_ns), part(fenced_ns));
        let (takeover, first_commit) = (part(winner.elected_ns), part(committed_ns));
        Some(FailOver {
            detect,
            fence,
            takeover,
            first_commit,
            total: detect + fence + takeover + first_commit,
        })
    }

    /// Longest time between two commits in a row, also of two leaders.
    pub fn longest_gap_ns(&self) -> u64 {
        let mut longest = 0;
        let mut last_ns = None;
        for commits in self.leaderships.iter().filter_map(|leadership| leadership.commits) {
            let between = last_ns.map_or(0, |last_ns| commits.first_ns.saturating_sub(last_ns));
            longest = longest.max(between).max(commits.longest_gap_ns);
            last_ns = Some(commits.last_ns);
        }
        longest
    }

    fn times(&self, which: impl Fn(&Moment) -> bool) -> impl Iterator<Item = u64> {
        self.moments.iter().filter(move |moment| which(moment)).map(|moment| moment.at_ns)
    }

    fn of_term(&mut self, term: u64) -> Option<&mut Leadership> {
        self.leaderships.iter_mut().find(|leadership| leadership.term == term)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn saw(history: &mut History, at_ns: u64, node: u8, what: Happening) {
        history.add(at_ns, node, Mark::Saw(what));
    }

    fn commits(term: u64, first_ns: u64, last_ns: u64, longest_gap_ns: u64) -> Commits {
        Commits { term, first_ns, last_ns, longest_gap_ns }
    }

    #[test]
    fn a_fail_over_is_split_without_a_rest() {
        let mut history = History::default();
        saw(&mut history, 10, 1, Happening::Elected { term: 1 });
        saw(&mut history, 12, 1, Happening::FirstCommit { term: 1 });
        history.add_commits(commits(1, 20, 100, 3));
        history.add(103, 1, Mark::Killed);
        saw(&mut history, 150, 3, Happening::Quiet);
        saw(&mut history, 155, 3, Happening::Campaign { term: 2 });
        assert_eq!(history.fail_over(1, 103), None);
        // The first attempt came to nothing.
        saw(&mut history, 160, 2, Happening::Campaign { term: 3 });
        saw(&mut history, 161, 2, Happening::Fenced { by: 2 });
        saw(&mut history, 163, 3, Happening::Fenced { by: 2 });
        saw(&mut history, 164, 2, Happening::Elected { term: 3 });
        saw(&mut history, 166, 2, Happening::FirstCommit { term: 3 });
        saw(&mut history, 170, 1, Happening::Fenced { by: 2 });
        history.add_commits(commits(3, 166, 200, 5));
        let fail_over = history.fail_over(1, 103).expect("is over");
        assert_eq!(fail_over, FailOver { detect: 57, fence: 3, takeover: 1, first_commit: 2, total: 63 });
        // Had it been stopped and shot, the first attempt would have waited for that.
        let mut shot = history.clone();
        shot.add(161, 1, Mark::Dead);
        let fail_over = shot.fail_over(1, 103).expect("is over");
        assert_eq!(fail_over, FailOver { detect: 52, fence: 8, takeover: 1, first_commit: 2, total: 63 });
        assert_eq!(history.longest_gap_ns(), 66);
        assert_eq!(history.leaderships()[0].ended_ns, Some(103));
    }

    #[test]
    fn a_woken_leader_does_not_stretch_the_gap() {
        let mut history = History::default();
        saw(&mut history, 10, 1, Happening::Elected { term: 1 });
        history.add_commits(commits(1, 20, 100, 3));
        saw(&mut history, 150, 2, Happening::Elected { term: 2 });
        saw(&mut history, 151, 2, Happening::FirstCommit { term: 2 });
        history.add_commits(commits(2, 151, 200, 2));
        history.add_commits(commits(1, 20, 500, 400));
        assert_eq!(history.longest_gap_ns(), 51);
    }

    #[test]
    fn nothing_happened() {
        assert_eq!(History::default().longest_gap_ns(), 0);
        assert_eq!(History::default().fail_over(0, 0), None);
    }
}
