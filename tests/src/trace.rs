//! The readable story of a run: who did what to whose memory, and when. Costs nothing while nobody asked for it.

use std::collections::VecDeque;

/// The last lines of a run's story.
#[derive(Debug, Default)]
pub struct Trace {
    keep: usize,
    lines: VecDeque<String>,
    left_out: u64,
}

impl Trace {
    /// A trace of the last `keep` lines; 0 keeps none and makes none.
    pub fn new(keep: usize) -> Trace {
        Trace { keep, ..Trace::default() }
    }

    /// Whether anybody will read it.
    pub fn is_on(&self) -> bool {
        self.keep != 0
    }

    /// One line, made only when it is kept.
    pub fn note(&mut self, at_ns: u64, line: impl FnOnce() -> String) {
        if self.keep == 0 {
            return;
        }
        if self.lines.len() == self.keep {
            self.lines.pop_front();
            self.left_out += 1;
        }
        self.lines.push_back(format!("{:>12.3} us  {}", at_ns as f64 / 1e3, line()));
    }

    /// The lines, oldest first, and how many came before them.
    pub fn take(&mut self) -> (u64, Vec<String>) {
        (std::mem::take(&mut self.left_out), self.lines.drain(..).collect())
    }
}
