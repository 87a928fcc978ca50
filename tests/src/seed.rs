//! What a seed stands for: a storm over a group of some size, or a directed schedule.

use crate::directed;
use crate::rng::Rng;
use crate::run::{Outcome, run, run_catching, run_changing, run_plan, run_split, run_split_catching};
use crate::schedule::Plan;

/// The kind of run that a seed is the seed of.
#[derive(Clone, Copy, Debug)]
pub enum Scheme {
    /// A storm of faults.
    Swarm {
        /// Replicas.
        nodes: u8,
    },
    /// A storm in which members change, too.
    Members {
        /// Replicas at first.
        nodes: u8,
    },
    /// A storm in which nodes fall below the ring, and get snapshots; in some of them members change, too.
    Snapshots {
        /// Replicas at first.
        nodes: u8,
    },
    /// A storm over nodes whose hosts and acceptors are apart.
    Split {
        /// Replicas at first.
        nodes: u8,
    },
    /// A storm over such nodes that fall below the ring, and whose hosts lose what they have; they get snapshots.
    SplitSnapshots {
        /// Replicas at first.
        nodes: u8,
    },
    /// The same with the faults that the first seeds knew: what they found is replayed by it.
    Base {
        /// Replicas.
        nodes: u8,
    },
    /// A directed schedule.
    Directed(directed::Directed),
}

/// One seed in so many is directed.
const DIRECTED_ONE_IN: u64 = 5;
/// So many of the others have snapshots.
const SNAPSHOTS_ONE_IN: u64 = 3;
/// And so many of the rest change the members.
const MEMBERS_ONE_IN: u64 = 2;
/// In so many of all that are not directed hosts and acceptors are apart.
const SPLIT_ONE_IN: u64 = 5;

impl Scheme {
    /// What a seed draws; `nodes` when the number of replicas is not left to it.
    pub fn draw(seed: u64, nodes: Option<u8>) -> Scheme {
        let mut rng = Rng::new(seed ^ 0x5c4e_0000_0000_0000);
        if rng.below(DIRECTED_ONE_IN) == 0 {
            return Scheme::Directed(rng.pick(directed::ALL));
        }
        let nodes = nodes.unwrap_or_else(|| size(&mut rng));
        let (snapshots, members) = (rng.below(SNAPSHOTS_ONE_IN) == 0, rng.below(MEMBERS_ONE_IN) == 0);
        match (snapshots, rng.below(SPLIT_ONE_IN) == 0) {
            (true, true) => Scheme::SplitSnapshots { nodes },
            (false, true) => Scheme::Split { nodes },
            (true, false) => Scheme::Snapshots { nodes },
            (false, false) if members => Scheme::Members { nodes },
            (false, false) => Scheme::Swarm { nodes },
        }
    }

    /// By its name: `swarm`, `members`, `snapshots`, `split`, `split-snapshots`, `base` or that of a directed schedule; of the size that the seed draws, unless `nodes` says it.
    pub fn named(name: &str, seed: u64, nodes: Option<u8>) -> Option<Scheme> {
        let drawn = match Scheme::draw(seed, None) {
            Scheme::Swarm { nodes }
            | Scheme::Members { nodes }
            | Scheme::Snapshots { nodes }
            | Scheme::Split { nodes }
            | Scheme::SplitSnapshots { nodes }
            | Scheme::Base { nodes } => nodes,
            Scheme::Directed(_) => 3,
        };
        let nodes = nodes.unwrap_or(drawn);
        match name {
            "swarm" => Some(Scheme::Swarm { nodes }),
            "members" => Some(Scheme::Members { nodes }),
            "snapshots" => Some(Scheme::Snapshots { nodes }),
            "split" => Some(Scheme::Split { nodes }),
            "split-snapshots" => Some(Scheme::SplitSnapshots { nodes }),
            "base" => Some(Scheme::Base { nodes }),
            name => directed::named(name).map(|directed| Scheme::Directed(*directed)),
        }
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        match self {
            Scheme::Swarm { .. } => "swarm",
            Scheme::Members { .. } => "members",
            Scheme::Snapshots { .. } => "snapshots",
            Scheme::Split { .. } => "split",
            Scheme::SplitSnapshots { .. } => "split-snapshots",
            Scheme::Base { .. } => "base",
            Scheme::Directed(directed) => directed.name,
        }
    }

    /// Runs a seed and keeps the last lines of its story.
    pub fn run(&self, seed: u64, keep_trace: usize) -> Outcome {
        match self {
            Scheme::Swarm { nodes } => run(seed, *nodes, keep_trace),
            Scheme::Members { nodes } => run_changing(seed, *nodes, keep_trace),
            Scheme::Snapshots { nodes } => run_catching(seed, *nodes, keep_trace),
            Scheme::Split { nodes } => run_split(seed, *nodes, keep_trace),
            Scheme::SplitSnapshots { nodes } => run_split_catching(seed, *nodes, keep_trace),
            Scheme::Base { nodes } => run_plan(Plan::base(seed, *nodes), keep_trace),
            Scheme::Directed(directed) => (directed.run)(seed, keep_trace),
        }
    }

    /// The command that replays a seed of it.
    pub fn replay(&self, seed: u64) -> String {
        let nodes = match self {
            Scheme::Swarm { nodes }
            | Scheme::Members { nodes }
            | Scheme::Snapshots { nodes }
            | Scheme::Split { nodes }
            | Scheme::SplitSnapshots { nodes }
            | Scheme::Base { nodes } => {
                format!(" --nodes {nodes}")
            }
            Scheme::Directed(_) => String::new(),
        };
        format!(
            "cargo run --release -p ringleader-tests --bin sim -- --schedule {}{nodes} --seed {seed}",
            self.name()
        )
    }
}

/// How many replicas a storm rages over.
fn size(rng: &mut Rng) -> u8 {
    rng.pick(&[3, 3, 3, 3, 3, 5, 5, 5, 4, 7])
}
