//! Reads beside a demo's stream: threads of every node that read as an application does, and check that nothing acknowledged
//! before is missing in what they see.
//!
//! What is acknowledged anywhere is on a board, a file that all nodes share: each writes the last number it has seen
//! committed before it tells the demo. A read looks at the board first.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use ringleader_core::types::MAX_NODES;
use serde::{Deserialize, Serialize};

use super::keeper::Counters;
use super::wire::Quantiles;
use crate::{Read, ReadOutcome, Reader};

/// Between two reads of a thread: the agents need the processors.
const PAUSE: Duration = Duration::from_millis(1);
/// Every read has ended long before, but for the time that its process was stopped.
const PATIENCE: Duration = Duration::from_secs(60);

/// The last number that each node has seen committed.
#[derive(Debug)]
pub struct Board {
    file: File,
    node: u8,
}

impl Board {
    /// The board in that directory, for a node.
    pub fn open(dir: &Path, node: u8) -> io::Result<Board> {
        let options = &mut OpenOptions::new();
        let file =
            options.read(true).write(true).create(true).truncate(false).open(dir.join("acknowledged"))?;
        file.set_len((MAX_NODES as u64 + 1) * 8)?;
        Ok(Board { file, node })
    }

    /// Everything up to that number is committed.
    pub fn note(&self, up_to: u64) -> io::Result<()> {
        self.file.write_all_at(&up_to.to_le_bytes(), u64::from(self.node) * 8)
    }

    /// The last number that anybody has noted.
    fn known(&self) -> io::Result<u64> {
        let mut bytes = [0; (MAX_NODES + 1) * 8];
        self.file.read_exact_at(&mut bytes, 0)?;
        let (words, _) = bytes.as_chunks::<8>();
        Ok(words.iter().map(|word| u64::from_le_bytes(*word)).max().unwrap_or(0))
    }
}

/// What a node's reads came to. Latencies are as often as they were counted, in nanoseconds.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Tally {
    /// By a quorum, at the leader.
    pub quorum: Vec<(u64, u64)>,
    /// At followers.
    pub follower: Vec<(u64, u64)>,
    /// Reads that ended without an answer.
    pub failed: u64,
}

/// All reads of a demo, for its summary.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct ReadSummary {
    /// Reads by a quorum that were answered.
    pub quorum: u64,
    /// How long they took; null when there were none.
    pub quorum_ns: Option<Quantiles>,
    /// Follower reads that were answered.
    pub follower: u64,
    /// How long they took; null when there were none.
    pub follower_ns: Option<Quantiles>,
    /// Reads that ended without an answer: they are asked again.
    pub failed: u64,
    /// Reads that missed something acknowledged before they were asked. There must be none.
    pub stale: u64,
}

impl ReadSummary {
    /// Of what all nodes tell.
    pub fn of(tallies: &[Tally], stale: u64) -> ReadSummary {
        let merged = |which: fn(&Tally) -> &Vec<(u64, u64)>| {
            let mut all = histogram();
            for (value, count) in tallies.iter().flat_map(which) {
                all.saturating_record_n(*value, *count);
            }
            let quantiles = Quantiles {
                p50: all.value_at_quantile(0.5),
                p99: all.value_at_quantile(0.99),
                max: all.max(),
            };
            (all.len(), (!all.is_empty()).then_some(quantiles))
        };
        let (quorum, quorum_ns) = merged(|tally| &tally.quorum);
        let (follower, follower_ns) = merged(|tally| &tally.follower);
        let failed = tallies.iter().map(|tally| tally.failed).sum();
        ReadSummary { quorum, quorum_ns, follower, follower_ns, failed, stale }
    }
}

/// What the threads of a node share with its desk.
#[derive(Debug, Default)]
struct Shared {
    leads: AtomicBool,
    is_over: AtomicBool,
    stale: AtomicU64,
}

/// The threads of a node.
#[derive(Debug)]
pub struct Readers {
    threads: Vec<JoinHandle<io::Result<Outcomes>>>,
    shared: Arc<Shared>,
}

impl Readers {
    /// Starts a thread for each of these readers.
    pub fn start(
        readers: impl Iterator<Item = Reader>,
        dir: &Path,
        node: u8,
        counters: &Arc<Counters>,
    ) -> io::Result<Readers> {
        let shared = Arc::<Shared>::default();
        let threads = readers.map(|reader| {
            let board = Board::open(dir, node)?;
            let (shared, counters) = (Arc::clone(&shared), Arc::clone(counters));
            let read = move || read_on(reader, &board, &counters, &shared);
            thread::Builder::new().name("reads".to_owned()).spawn(read)
        });
        Ok(Readers { threads: threads.collect::<io::Result<_>>()?, shared })
    }

    /// The node leads, or does not: a thread that does not know is only told to ask elsewhere.
    pub fn set_leads(&self, leads: bool) {
        self.shared.leads.store(leads, Ordering::Relaxed);
    }

    /// Reads that missed something, so far.
    pub fn stale(&self) -> u64 {
        self.shared.stale.load(Ordering::Relaxed)
    }

    /// Ends the threads, whose node is to be open still.
    pub fn join(&mut self) -> io::Result<Tally> {
        self.shared.is_over.store(true, Ordering::Relaxed);
        let mut all = Outcomes::new();
        for thread in self.threads.drain(..) {
            let one = thread.join().map_err(|_| io::Error::other("a reading thread panicked"))??;
            all.add(&one);
        }
        Ok(all.tally())
    }
}

#[derive(Debug)]
struct Outcomes {
    quorum: Histogram<u64>,
    follower: Histogram<u64>,
    failed: u64,
}

impl Outcomes {
    fn new() -> Outcomes {
        Outcomes { quorum: histogram(), follower: histogram(), failed: 0 }
    }

    fn add(&mut self, other: &Outcomes) {
        for (all, one) in [(&mut self.quorum, &other.quorum), (&mut self.follower, &other.follower)] {
            for value in one.iter_recorded() {
                all.saturating_record_n(value.value_iterated_to(), value.count_at_value());
            }
        }
        self.failed += other.failed;
    }

    fn tally(&self) -> Tally {
        let counts = |of: &Histogram<u64>| {
            of.iter_recorded().map(|value| (value.value_iterated_to(), value.count_at_value())).collect()
        };
        Tally { quorum: counts(&self.quorum), follower: counts(&self.follower), failed: self.failed }
    }
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 3_600_000_000_000, 2).expect("sound bounds")
}

/// One thread: by a quorum while its node leads, else at the follower that it is.
fn read_on(mut reader: Reader, board: &Board, counters: &Counters, shared: &Shared) -> io::Result<Outcomes> {
    let mut outcomes = Outcomes::new();
    while !shared.is_over.load(Ordering::Relaxed) {
        let how = if shared.leads.load(Ordering::Relaxed) { Read::Quorum } else { Read::Follower };
        let known = board.known()?;
        let asked = Instant::now();
        match reader.read(how, PATIENCE) {
            Some(ReadOutcome::Ready { .. }) => {
                // It was stored before the read was answered.
                if counters.applied.load(Ordering::Relaxed) < known {
                    shared.stale.fetch_add(1, Ordering::Relaxed);
                }
                let took = if how == Read::Quorum { &mut outcomes.quorum } else { &mut outcomes.follower };
                took.saturating_record(asked.elapsed().as_nanos() as u64);
            }
            Some(ReadOutcome::Failed(_)) => outcomes.failed += 1,
            Some(ReadOutcome::Closed) => break,
            Some(_) => {}
            None => return Err(io::Error::other("a read does not end")),
        }
        thread::sleep(PAUSE);
    }
    Ok(outcomes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_board_shows_the_last_number_of_all() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let (one, two) =
            (Board::open(dir.path(), 1).expect("opens"), Board::open(dir.path(), 15).expect("opens"));
        assert_eq!(two.known().expect("reads"), 0);
        one.note(7).expect("written");
        two.note(5).expect("written");
        assert_eq!((one.known().expect("reads"), two.known().expect("reads")), (7, 7));
    }

    #[test]
    fn what_all_nodes_tell_is_one_summary() {
        let one = Tally { quorum: vec![(1000, 3)], follower: vec![], failed: 1 };
        let two = Tally { quorum: vec![(2000, 1)], follower: vec![], failed: 2 };
        let all = ReadSummary::of(&[one, two], 0);
        assert_eq!((all.quorum, all.follower, all.failed, all.follower_ns), (4, 0, 3, None));
        let quorum = all.quorum_ns.expect("there are some");
        assert!((1000..1010).contains(&quorum.p50) && (2000..2020).contains(&quorum.max), "{quorum:?}");
    }
}
