//! What one replica asks of an acceptor and what it is answered, as values; the lines are their form in memory.

use crate::layout::{AnswerLine, RequestLine, request_kind, verdict};
use crate::types::{Boot, Chain, Index, LogPoint, NodeId, Position, Promise, Term};

/// A vote or write access, in `term`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Ask {
    /// A candidate's; (term, index) of its last entry. A candidate asks its own acceptor first and carries none.
    Vote { last: Option<(Term, Index)> },
    /// A leader's.
    Access,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Request {
    pub(crate) from: NodeId,
    pub(crate) boot: Boot,
    pub(crate) sequence: u64,
    pub(crate) term: Term,
    pub(crate) ask: Ask,
}

impl Request {
    /// `me`: a candidate asks its own acceptor, here or apart, before it knows its log.
    pub(crate) fn from_line(me: NodeId, from: NodeId, line: &RequestLine) -> Option<Request> {
        let ask = match line.kind {
            request_kind::VOTE if from == me => Ask::Vote { last: None },
            request_kind::VOTE => Ask::Vote { last: Some((Term(line.last_term), Index(line.last_index))) },
            request_kind::ACCESS => Ask::Access,
            _ => return None,
        };
        let term = Term(line.term);
        (term > Term(0) && term <= Term::MAX).then_some(Request {
            from,
            boot: Boot(line.from_boot),
            sequence: line.sequence,
            term,
            ask,
        })
    }

    /// What it asks to be promised.
    pub(crate) fn promise(&self) -> Promise {
        Promise::new(self.term, self.from)
    }

    /// Of two pending requests the higher term is kept; of two of one term the access.
    pub(crate) fn weight(&self) -> (Term, bool) {
        (self.term, self.ask == Ask::Access)
    }
}

/// What an acceptor said to one request.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub(crate) struct Answer {
    pub(crate) verdict: u8,
    /// The last entry of its log, with `GRANTED`.
    pub(crate) last: LogPoint,
    pub(crate) anchor: LogPoint,
    pub(crate) applied: Position,
    pub(crate) durable: Position,
    /// About a snapshot: which, how long it is, how much of it is there.
    pub(crate) number: u64,
    pub(crate) len: u64,
    pub(crate) fetched: u64,
}

/// What a request about a snapshot says of it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub(crate) struct About {
    /// Who has it: that life of that node, by this number.
    pub(crate) source: NodeId,
    pub(crate) source_boot: Boot,
    pub(crate) number: u64,
    /// The last entry in it. Of a snapshot that is yet to be made only the position means anything: it must not be lower.
    pub(crate) point: LogPoint,
    /// Its reader counts for what is committed, and is told for its host's sake.
    pub(crate) counts: bool,
}

impl About {
    pub(crate) fn from_line(line: &RequestLine) -> About {
        About {
            source: NodeId(line.source),
            source_boot: Boot(line.source_boot),
            number: line.number,
            point: LogPoint {
                index: Index(line.last_index),
                term: Term(line.last_term),
                position: Position(line.position),
                chain: Chain(line.chain as u32),
            },
            counts: line.counts != 0,
        }
    }

    pub(crate) fn fill(&self, line: &mut RequestLine) {
        line.source = self.source.0;
        line.source_boot = self.source_boot.0;
        line.number = self.number;
        line.position = self.point.position.0;
        line.chain = u64::from(self.point.chain.0);
        line.counts = u64::from(self.counts);
    }

    /// The same bytes of the same node.
    pub(crate) fn is_same(&self, other: &About) -> bool {
        let of = |about: &About| (about.source, about.source_boot, about.number, about.point);
        of(self) == of(other)
    }
}

impl Answer {
    pub(crate) fn is_granted(&self) -> bool {
        self.verdict == verdict::GRANTED
    }

    pub(crate) fn fill(&self, line: &mut AnswerLine) {
        line.verdict = self.verdict;
        line.last_term = self.last.term.0;
        line.last_index = self.last.index.0;
        line.last_position = self.last.position.0;
        line.anchor_term = self.anchor.term.0;
        line.anchor_index = self.anchor.index.0;
        line.anchor_position = self.anchor.position.0;
        line.anchor_chain = self.anchor.chain.0;
        line.applied = self.applied.0;
        line.durable = self.durable.0;
        line.snapshot_number = self.number;
        line.snapshot_len = self.len;
        line.fetched = self.fetched;
    }

    /// The chain of `last` is not sent: no step goes by the chains of two nodes.
    pub(crate) fn from_line(line: &AnswerLine) -> Answer {
        Answer {
            verdict: line.verdict,
            last: LogPoint {
                index: Index(line.last_index),
                term: Term(line.last_term),
                position: Position(line.last_position),
                chain: Chain(0),
            },
            anchor: LogPoint {
                index: Index(line.anchor_index),
                term: Term(line.anchor_term),
                position: Position(line.anchor_position),
                chain: Chain(line.anchor_chain),
            },
            applied: Position(line.applied),
            durable: Position(line.durable),
            number: line.snapshot_number,
            len: line.snapshot_len,
            fetched: line.fetched,
        }
    }
}
