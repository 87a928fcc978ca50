//! Confirming by READ (`confirm = "readback"`, protocol.md 8): where the completion of a WRITE does not say that its bytes are
//! placed, the READ that follows on the same queue pair does, since it is carried out behind all WRITEs before it.
//!
//! One READ serves all that was written since the last one was posted. It reads the tail that was written last, which must be
//! what was sent.

use crate::entry;
use crate::layout::{log, staging};
use crate::mem::{Memory, acquire};
use crate::proposer::flights::{Flight, What};
use crate::proposer::{Proposer, Work};
use crate::types::{Instant, NodeId, Position};
use crate::verb::{Class, NUMBER_MASK, RequestId, Verb};

/// What says that the bytes of a WRITE are placed.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Confirm {
    /// Its completion (protocol.md 2, A1).
    #[default]
    Completion,
    /// A READ on the same queue pair behind it: for memory or devices of which the former is in doubt.
    Readback,
}

/// READs under way to one follower: each has a word of its own to land in.
const MAX_READS: usize = 8;

/// What one READ says when it is back.
#[derive(Clone, Copy, Default, Debug)]
struct Claim {
    /// Everything before is there.
    end: Position,
    /// Where the tail that it reads ends; 0: nothing was written but beats, and what it reads does not matter.
    tail: Position,
    /// When the newest beat before it was posted.
    beat: Option<Instant>,
}

/// What was written to one follower since its queue pair was granted, and not read back yet.
#[derive(Clone, Default, Debug)]
pub(crate) struct Confirms {
    /// Something was written since the last READ was posted.
    due: bool,
    tail: Position,
    beat: Option<Instant>,
    claims: [Claim; MAX_READS],
    landed: usize,
    posted: usize,
}

impl Confirms {
    /// Bytes before `tail` were written.
    pub(crate) fn note_entries(&mut self, tail: Position) {
        self.due = true;
        self.tail = tail;
    }

    pub(crate) fn note_beat(&mut self, posted_at: Instant) {
        self.due = true;
        self.beat = Some(posted_at);
    }

    /// All that was written has been asked for.
    pub(crate) fn is_settled(&self) -> bool {
        !self.due
    }
}

impl Proposer {
    /// The READ behind what was written last.
    pub(crate) fn next_confirm(&mut self, now: Instant, node: NodeId) -> Option<Verb> {
        let ring_len = self.me.ring_len;
        let peer = &mut self.peers[node];
        let Confirms { due, tail, beat, claims, landed, posted } = &mut peer.confirms;
        let free = posted.wrapping_sub(*landed) < MAX_READS;
        if !*due || !free || !peer.flights.has_room_for_entries() || !peer.outbound.is_ready() {
            return None;
        }
        let word = *posted % MAX_READS;
        *due = false;
        claims[word] = Claim { end: peer.sent, tail: *tail, beat: *beat };
        *posted = posted.wrapping_add(1);
        let from = if tail.0 == 0 { log::BEAT } else { tail_of(ring_len, *tail) };
        peer.number = (peer.number + 1) & NUMBER_MASK;
        peer.flights.push(Flight { number: peer.number, posted_at: now, what: What::Confirm });
        Some(Verb::Confirm {
            id: RequestId {
                peer: node,
                class: Class::Confirm,
                epoch: peer.outbound.epoch(),
                number: peer.number,
            },
            from,
            to: staging::confirm(node.slot(), word),
        })
    }

    /// A READ is back: false when the tail is another one than was sent, so that nothing is confirmed.
    pub(crate) fn handle_confirmed<M: Memory>(&mut self, on: &mut Work<M>, node: NodeId) -> bool {
        let ring_len = self.me.ring_len;
        let confirms = &mut self.peers[node].confirms;
        let word = confirms.landed % MAX_READS;
        confirms.landed = confirms.landed.wrapping_add(1);
        let Claim { end, tail, beat } = confirms.claims[word];
        acquire();
        let found = on.areas.staging.load(staging::confirm(node.slot(), word));
        // What was sent is still there: no entry is staged farther than half a ring above what is confirmed.
        if tail.0 != 0 && found != on.areas.staging.load(tail_of(ring_len, tail)) {
            return false;
        }
        if let Some(posted_at) = beat {
            self.handle_beat_placed(on.now, node, posted_at);
        }
        self.handle_matched(on, node, end);
        true
    }
}

/// Where the last word before `end` is in a ring.
fn tail_of(ring_len: u64, end: Position) -> u64 {
    entry::offset(ring_len, Position(end.0 - 8))
}

#[cfg(feature = "model")]
impl Confirms {
    pub(crate) fn canonical(&self, out: &mut impl crate::canonical::Canonical) {
        let Confirms { due, tail, beat, claims, landed, posted } = self;
        out.plain((due, tail));
        out.moment_if_any(*beat);
        out.plain(posted.wrapping_sub(*landed));
        for step in 0..posted.wrapping_sub(*landed) {
            let Claim { end, tail, beat } = claims[landed.wrapping_add(step) % MAX_READS];
            out.plain((end, tail));
            out.moment_if_any(beat);
        }
    }
}
