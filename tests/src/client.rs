//! The client of a run: unique payloads, what became of each, which to propose again; and its reads.

use ringleader_core::read::{Read, ReadTicket};
use ringleader_core::types::{Index, Instant, NodeId, Term};

use crate::history;
use crate::invariants::linearizability::{self, Moment, Write};

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

/// A read that has not ended.
#[derive(Clone, Copy, Debug)]
pub struct OpenRead {
    /// Who was asked.
    pub node: NodeId,
    /// How, and its number there.
    pub ticket: ReadTicket,
    /// What the node's clock had shown.
    pub asked_at: Instant,
    /// What was acknowledged, or read, before.
    pub must_see: Index,
    invoked: Moment,
}

/// All payloads of a run.
#[derive(Clone, Debug, Default)]
pub struct Client {
    proposals: Vec<Proposal>,
    open: Vec<Open>,
    again: Vec<u64>,
    acknowledged: u64,
    writes: Vec<Write>,
    open_reads: Vec<OpenRead>,
    reads: Vec<linearizability::Read>,
    /// Answered reads, by kind.
    answered: [u64; 3],
    /// The last entry that was acknowledged to anybody, or that a read saw.
    known: Index,
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
        let (writes, now, known) = (&mut self.writes, self.now, &mut self.known);
        let mut result = Ok(());
        self.open.retain(|open| {
            if (open.node, open.term) != (node, term) || open.index > index {
                return true;
            }
            let proposal = &mut proposals[open.number as usize];
            proposal.acknowledged = Some(open.index);
            writes[open.write].acknowledged = Some(now);
            *acknowledged += 1;
            *known = open.index.max(*known);
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

    /// A node was asked for a read.
    pub fn read_begun(&mut self, node: NodeId, ticket: ReadTicket, asked_at: Instant) {
        self.now += 1;
        let (invoked, must_see) = (self.now, self.known);
        self.open_reads.push(OpenRead { node, ticket, asked_at, must_see, invoked });
    }

    /// All reads of that kind up to that number have ended at a node, answered from the state behind entry `saw`, if at all.
    /// Calls `check` for each that was answered.
    pub fn read_ended<E>(
        &mut self,
        node: NodeId,
        how: Read,
        number: u64,
        saw: Option<Index>,
        check: impl Fn(&OpenRead, Index) -> Result<(), E>,
    ) -> Result<(), E> {
        self.now += 1;
        let now = self.now;
        let ended =
            |read: &mut OpenRead| read.node == node && read.ticket.how == how && read.ticket.number <= number;
        for read in self.open_reads.extract_if(.., ended) {
            let Some(saw) = saw else { continue };
            check(&read, saw)?;
            self.answered[how as usize] += 1;
            self.reads.push(linearizability::Read { invoked: read.invoked, answered: now, saw });
        }
        self.known = self.known.max(saw.unwrap_or_default());
        Ok(())
    }

    /// A node died: nobody hears of the reads that wait there.
    pub fn forget_reads(&mut self, node: NodeId) {
        self.open_reads.retain(|read| read.node != node);
    }

    /// Whether a read waits at a node.
    pub fn waits_at(&self, node: NodeId) -> bool {
        self.oldest_read_at(node).is_some()
    }

    /// The read that waits longest there.
    pub fn oldest_read_at(&self, node: NodeId) -> Option<&OpenRead> {
        self.open_reads.iter().find(|read| read.node == node)
    }

    /// How many reads of that kind were answered.
    pub fn answered(&self, how: Read) -> u64 {
        self.answered[how as usize]
    }

    /// All reads that were answered, as the client saw it.
    pub fn reads(&self) -> &[linearizability::Read] {
        &self.reads
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
