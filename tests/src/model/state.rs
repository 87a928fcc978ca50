//! One state of the model: three production replicas with their memory, the fabric between them, what was ever committed
//! and who was ever elected, and what may still happen within the bounds.
//!
//! A state is a value; its parts are shared with the states it came from until they change.

use std::sync::Arc;

use ringleader_core::proposer::Role;
use ringleader_core::read::ReadTicket;
use ringleader_core::replica::Replica;
use ringleader_core::types::{Index, NodeId, Term};

use super::canonical::{Form, bytes_of, form_of, form_of_words, hash_of};
use super::fabric::Fabric;
use super::memory::{Lent, Map, NODES, Words};

/// Where the search begins.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Start {
    /// The group is formed, all queue pairs are armed, nobody leads.
    Formed,
    /// Node 1 leads, its first entry is committed and everybody knows.
    Led,
}

/// How far a search goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize)]
pub struct Bounds {
    /// Where it begins.
    pub start: Start,
    /// Slots of 64 bytes in a ring.
    pub slots: u64,
    /// Proposals.
    pub proposals: u8,
    /// Reads.
    pub reads: u8,
    /// Candidacies.
    pub candidates: u8,
    /// Crashes and stops.
    pub faults: u8,
    /// Queue pairs that break.
    pub breaks: u8,
    /// Time-outs: a node's clock moves past all of them.
    pub waits: u8,
    /// And of one node. At most 4, see [`super::canonical`].
    pub waits_each: u8,
    /// Deviations from the fixed schedule; none given: every interleaving.
    pub deviations: Option<u8>,
    /// Fences wait for what passed before them (A2). A fabric that breaks this promise must be found out.
    pub fences_drain: bool,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds {
            start: Start::Led,
            slots: 4,
            proposals: 2,
            reads: 0,
            candidates: 2,
            faults: 1,
            breaks: 0,
            waits: 6,
            waits_each: 4,
            deviations: Some(2),
            fences_drain: true,
        }
    }
}

/// Whether a node's process runs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Life {
    /// It does.
    Running,
    /// It was stopped: its memory answers, and what it posted goes out.
    Stopped,
    /// It is no more, and neither is its memory.
    Dead,
}

/// A node.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its process.
    pub replica: Arc<Replica<Lent>>,
    /// Its memory.
    pub words: Words,
    /// Whether it runs.
    pub life: Life,
    /// Its clock.
    pub clock: u64,
    /// A tick is known to change nothing: not part of the state, but known of it.
    pub(crate) idle: bool,
    pub(crate) form: Arc<Form>,
    pub(crate) image: Arc<Form>,
}

/// An entry that was taken for committed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Committed {
    /// Its slot.
    pub slot: [u64; 8],
    /// The term in which it was.
    pub by: Term,
}

/// What invariants compare with.
#[derive(Clone, PartialEq, Eq, Hash, Default, Debug)]
pub struct Record {
    /// By index, from 1.
    pub committed: Vec<Committed>,
    /// Who was elected when.
    pub elected: Vec<(Term, NodeId)>,
    /// The last entry that was acknowledged, or that a read saw; kept where there are reads.
    pub known: Index,
    /// Reads that wait, and what they must see.
    pub reading: Vec<(NodeId, ReadTicket, Index)>,
}

/// What has been used up of the bounds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Spent {
    /// Proposals.
    pub proposals: u8,
    /// Reads.
    pub reads: u8,
    /// Candidacies.
    pub candidates: u8,
    /// Crashes and stops.
    pub faults: u8,
    /// Broken queue pairs.
    pub breaks: u8,
    /// Time-outs, by node.
    pub waits: [u8; NODES as usize],
}

/// See the module.
#[derive(Clone, Debug)]
pub struct State {
    /// By id, from 1.
    pub nodes: [Node; NODES as usize],
    /// The queue pairs.
    pub fabric: Arc<Fabric>,
    pub(crate) fabric_form: Arc<Form>,
    /// The past, as far as it matters.
    pub record: Arc<Record>,
    /// The bounds, as far as they are used up.
    pub spent: Spent,
    /// What the fixed schedule leaves out until nothing else can happen.
    pub held: u32,
}

impl State {
    /// A node.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.slot() - 1]
    }

    pub(crate) fn node_mut(&mut self, id: NodeId) -> &mut Node {
        &mut self.nodes[id.slot() - 1]
    }

    /// All ids.
    pub fn ids() -> impl Iterator<Item = NodeId> {
        (1..=NODES).map(NodeId)
    }

    /// What tells this state from others.
    pub fn hash(&self) -> u128 {
        let lives: [Life; NODES as usize] = std::array::from_fn(|at| self.nodes[at].life);
        let rest = bytes_of((lives, &self.record, self.spent, self.held));
        let forms =
            self.nodes.iter().flat_map(|node| [&*node.form, &*node.image]).chain([&*self.fabric_form]);
        hash_of(forms, &rest)
    }

    /// Whether nothing at all tells two states apart, not even what does not matter.
    pub fn is_identical(&self, other: &State) -> bool {
        let pairs = || self.nodes.iter().zip(&other.nodes);
        pairs().all(|(one, two)| one.words == two.words && one.clock == two.clock)
            && pairs().all(|(one, two)| format!("{:?}", one.replica) == format!("{:?}", two.replica))
    }

    /// Changes the fabric.
    pub(crate) fn on_fabric<R>(&mut self, change: impl FnOnce(&mut Fabric) -> R) -> R {
        let fabric = Arc::make_mut(&mut self.fabric);
        let result = change(fabric);
        self.fabric_form = Arc::new(fabric.form());
        result
    }
}

impl Node {
    pub(crate) fn new(map: &Map, me: NodeId, replica: Replica<Lent>, words: Words, clock: u64) -> Node {
        let form = Arc::new(form_of(&replica));
        let image = Arc::new(form_of_words(map, me, leads(&replica), &words));
        Node { replica: Arc::new(replica), words, life: Life::Running, clock, idle: false, form, image }
    }

    pub(crate) fn set_words(&mut self, map: &Map, me: NodeId, words: Words) {
        self.image = Arc::new(form_of_words(map, me, leads(&self.replica), &words));
        self.words = words;
        self.idle = false;
    }

    /// Words land in its memory.
    pub(crate) fn place(&mut self, map: &Map, me: NodeId, at: usize, words: &[u64]) {
        if self.words[at..at + words.len()] != *words {
            let mut changed = self.words.to_vec();
            changed[at..at + words.len()].copy_from_slice(words);
            self.set_words(map, me, changed.into());
        }
    }
}

/// Whether a replica's staging ring is in use.
pub(crate) fn leads(replica: &Replica<Lent>) -> bool {
    matches!(replica.status().role, Role::Leader | Role::Yielding)
}
