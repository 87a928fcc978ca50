//! The units of the protocol: one newtype a meaning, so that an index is never taken for a position.
//!
//! Everything here is plain data without behaviour beyond its own arithmetic.

use core::fmt;

macro_rules! word {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
        #[repr(transparent)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

word! {
    /// A member of a group, 1..=15; 0 means nobody.
    NodeId(u8)
}
word! {
    /// A term, 56 bits; it grows, and has at most one leader.
    Term(u64)
}
word! {
    /// A byte position in the log stream; its place in the ring is `position % ring_len`. Ends are exclusive.
    Position(u64)
}
word! {
    /// The number of an entry: 1, 2, 3, …; 0 is before the first.
    Index(u64)
}
word! {
    /// Counts the arms of one log queue pair.
    Epoch(u32)
}
word! {
    /// One life of promise and log together; lost with either. Random, never 0.
    Incarnation(u64)
}
word! {
    /// One start of a process. Random, never 0.
    Boot(u64)
}
word! {
    /// The CRC-32C in an entry's tail, seeded with the chain of the entry before.
    Chain(u32)
}
word! {
    /// A moment, in nanoseconds of a clock that never falls (`CLOCK_BOOTTIME` in production).
    Instant(u64)
}

/// The largest node id.
pub const MAX_NODES: usize = 15;

impl NodeId {
    /// Nobody.
    pub const NOBODY: NodeId = NodeId(0);

    /// The slot of this node in tables with one row a possible node.
    pub fn slot(self) -> usize {
        usize::from(self.0)
    }

    /// Whether the number can name a member.
    pub fn is_valid(self) -> bool {
        self.0 >= 1 && usize::from(self.0) <= MAX_NODES
    }
}

impl Term {
    /// The largest term that fits beside a node in one word.
    pub const MAX: Term = Term((1 << 56) - 1);

    /// The term after this one.
    pub fn next(self) -> Term {
        Term(self.0 + 1)
    }
}

impl Index {
    /// The index after this one.
    pub fn next(self) -> Index {
        // Wrapping: an index read from a peer's line may be anything.
        Index(self.0.wrapping_add(1))
    }
}

impl Instant {
    /// This moment and `ns` nanoseconds.
    pub fn after(self, ns: u64) -> Instant {
        Instant(self.0.saturating_add(ns))
    }

    /// Nanoseconds from `earlier` to this moment; 0 when it is not earlier.
    pub fn since(self, earlier: Instant) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// `term << 8 | node` in one word: the highest term an acceptor granted, and to whom.
///
/// Ordered by term first. The word of a candidate or leader is the same: its term and itself.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct Promise(pub u64);

impl fmt::Debug for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Promise({self})")
    }
}

impl Promise {
    /// No promise at all.
    pub const NONE: Promise = Promise(0);

    /// The word for `term` and `node`.
    pub fn new(term: Term, node: NodeId) -> Promise {
        Promise(term.0 << 8 | u64::from(node.0))
    }

    /// The term.
    pub fn term(self) -> Term {
        Term(self.0 >> 8)
    }

    /// The node the term was granted to.
    pub fn node(self) -> NodeId {
        NodeId((self.0 & 0xff) as u8)
    }
}

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}|{}", self.term(), self.node())
    }
}

/// A place between two entries: what stands before it, and where the next one begins.
///
/// `index`, `term` and `chain` are those of the entry that ends here; `position` is where the next entry starts (behind
/// a pad that is the next multiple of the ring's length).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct LogPoint {
    /// Index of the entry before; 0 at the start of the log.
    pub index: Index,
    /// Term of the entry before; 0 at the start of the log.
    pub term: Term,
    /// Where the next entry starts.
    pub position: Position,
    /// Chain of the entry before; the low 32 bits of the group id at the start of the log.
    pub chain: Chain,
}

impl LogPoint {
    /// The start of the log of a group.
    pub fn start(group: u128) -> LogPoint {
        LogPoint { chain: Chain(group as u32), ..LogPoint::default() }
    }

    /// What decides which of two logs is the newer: term, then index.
    pub fn rank(&self) -> (Term, Index) {
        (self.term, self.index)
    }
}
