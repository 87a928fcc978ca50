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
    pub(crate) fn from_line(from: NodeId, line: &RequestLine) -> Option<Request> {
        let ask = match line.kind {
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
    }

    /// The chain of `last` is not sent: no step compares chains of two nodes.
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
        }
    }
}
