//! The client of a run: unique payloads, what became of each, and which to propose again.

use ringleader_core::types::{Index, NodeId, Term};

use crate::history;
use crate::invariants::linearizability::{Moment, Write};

/// One payload the client wants committed once.
#[derive(Clone, Copy, Debug)]
pub struct Proposal {
    /// Bytes.
    pub len: usize,
    /// Of its bytes.
    pub hash: u64,
    /// How often a leader took it.
    pub tries: u32,
    /// Where it was acknowledged.
    pub acknowledged: Option<Index>,
    /// How often it stands among committed entries.
    pub committed: u32,
}

#[derive(Clone, Copy, Debug)]
struct Open {
    node: NodeId,
    term: Term,
    index: Index,
    number: u64,
    /// Its place among all writes.
    write: usize,
}

/// All payloads of a run.
#[derive(Clone, Debug, Default)]
pub struct Client {
    proposals: Vec<Proposal>,
    open: Vec<Open>,
    again: Vec<u64>,
    acknowledged: u64,
    writes: Vec<Write>,
    now: Moment,
}

impl Client {
    /// A new payload of so many bytes (at least 8). Its number is its first word.
    pub fn make(&mut self, len: usize) -> u64 {
        let len = len.max(8);
        let number = self.proposals.len() as u64;
        let hash = history::hash(&payload(number, len));
        self.proposals.push(Proposal { len, hash, tries: 0, acknowledged: None, committed: 0 });
        number
    }

    /// The bytes of a payload.
    pub fn payload(&self, number: u64) -> Vec<u8> {
        payload(number, self.proposals[number as usize].len)
    }

    /// One that a former leader left unknown.
    pub fn take_again(&mut self) -> Option<u64> {
        self.again.pop()
    }

    /// One that no leader took.
    pub fn put_back(&mut self, number: u64) {
        self.again.push(number);
    }

    /// A leader took it.
    pub fn taken(&mut self, node: NodeId, term: Term, index: Index, number: u64) {
        self.proposals[number as usize].tries += 1;
        self.now += 1;
        self.open.push(Open { node, term, index, number, write: self.writes.len() });
        self.writes.push(Write { number, ticket: (term, index), invoked: self.now, acknowledged: None });
    }

    /// A leader said: committed up to there. Calls `check` for each payload acknowledged by that.
    pub fn committed<E>(
        &mut self,
        node: NodeId,
        term: Term,
        index: Index,
        mut check: impl FnMut(u64, &Proposal, Term, Index) -> Result<(), E>,
    ) -> Result<(), E> {
        self.now += 1;
        let (proposals, acknowledged) = (&mut self.proposals, &mut self.acknowledged);
        let (writes, now) = (&mut self.writes, self.now);
        let mut result = Ok(());
        self.open.retain(|open| {
            if (open.node, open.term) != (node, term) || open.index > index {
                return true;
            }
            let proposal = &mut proposals[open.number as usize];
            proposal.acknowledged = Some(open.index);
            writes[open.write].acknowledged = Some(now);
            *acknowledged += 1;
            if result.is_ok() {
                result = check(open.number, proposal, open.term, open.index);
            }
            false
        });
        result
    }

    /// A leader gave up, or died: what it had taken is unknown. `again` decides which are proposed once more.
    pub fn unknown(&mut self, node: NodeId, term: Option<Term>, mut again: impl FnMut(u32) -> bool) {
        let (queue, proposals) = (&mut self.again, &self.proposals);
        self.open.retain(|open| {
            if open.node != node || term.is_some_and(|term| term != open.term) {
                return true;
            }
            if again(proposals[open.number as usize].tries) {
                queue.push(open.number);
            }
            false
        });
    }

    /// An entry with this payload is committed.
    pub fn seen_committed(&mut self, number: u64) -> Option<&mut Proposal> {
        self.proposals.get_mut(usize::try_from(number).ok()?)
    }

    /// All that was proposed, and when, as the client saw it.
    pub fn writes(&self) -> &[Write] {
        &self.writes
    }

    /// How many acknowledgements there were.
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    /// How many payloads there are.
    pub fn len(&self) -> usize {
        self.proposals.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.proposals.is_empty()
    }

    /// What became of a payload.
    pub fn proposal(&self, number: u64) -> Option<&Proposal> {
        self.proposals.get(usize::try_from(number).ok()?)
    }
}

fn payload(number: u64, len: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(len + 8);
    bytes.extend_from_slice(&number.to_le_bytes());
    let mut word = number;
    while bytes.len() < len {
        word = word.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}
