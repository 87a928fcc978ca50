//! The lane between one handle and the agent: payloads one way, replies the other, each a ring with one producer and one
//! consumer, so that neither end ever waits for a lock, and nothing is allocated for a payload of usual size.
//!
//! Not the handle's interface (`handle.rs`), nor the choice of which lane is served (`lanes.rs`).

use crate::errors::SubmitError;
use crate::handle::Outcome;
use crate::sync::{Consumer, Ordering, Producer, RingBuffer, fence};

/// Bytes of a lane's ring of payloads.
const RING_LEN: usize = 1 << 20;
/// Payloads above this travel as a boxed slice, so that the ring stays small enough for a cache.
pub(crate) const INLINE_MAX: usize = RING_LEN / 8;
/// Boxed payloads on their way.
const BOXES: usize = 16;
/// Proposals of one lane without a reply, and replies that nobody polled yet, together.
pub(crate) const WINDOW: usize = 8192;

const HEADER: usize = 8;
const BOXED: u32 = 1 << 31;

/// How a proposal ended, and the life of the lane it was made in.
///
/// A life ends with the first proposal that is not committed. What was proposed in that life afterwards is refused, so
/// that a pipeline never has a gap; the handle begins the next life when it has seen that first one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reply {
    pub(crate) outcome: Outcome,
    pub(crate) life: u32,
}

/// Makes both ends of a lane.
pub(crate) fn lane() -> (HandleEnd, AgentEnd) {
    let (payloads_in, payloads_out) = RingBuffer::new(RING_LEN);
    let (boxes_in, boxes_out) = RingBuffer::new(BOXES);
    let (replies_in, replies_out) = RingBuffer::new(WINDOW);
    (
        HandleEnd { payloads: payloads_in, boxes: boxes_in, replies: replies_out },
        AgentEnd { payloads: payloads_out, boxes: boxes_out, replies: replies_in },
    )
}

/// The handle's end.
#[derive(Debug)]
pub(crate) struct HandleEnd {
    payloads: Producer<u8>,
    boxes: Producer<Box<[u8]>>,
    replies: Consumer<Reply>,
}

impl HandleEnd {
    /// Puts a payload into the lane. The agent sees it whole or not at all.
    pub(crate) fn push(&mut self, payload: &[u8], life: u32) -> Result<(), SubmitError> {
        let inline = payload.len() <= INLINE_MAX;
        let body = if inline { payload } else { &[] };
        if !inline && (self.payloads.slots() < HEADER || self.boxes.is_full()) {
            return Err(SubmitError::Full);
        }
        let mut chunk = self.payloads.write_chunk(HEADER + body.len()).map_err(|_| SubmitError::Full)?;
        let mark = if inline { payload.len() as u32 } else { BOXED };
        let header = u64::from(mark) | u64::from(life) << 32;
        let (first, second) = chunk.as_mut_slices();
        fill(first, second, 0, &header.to_le_bytes());
        fill(first, second, HEADER, body);
        if !inline {
            // Before the header is published: who sees the header finds the box.
            self.boxes.push(payload.into()).expect("there was room, and only this end fills it");
        }
        chunk.commit_all();
        Ok(())
    }

    /// The next reply.
    pub(crate) fn pop(&mut self) -> Option<Reply> {
        self.replies.pop().ok()
    }

    /// Whether the agent let go of its end: no further reply comes.
    pub(crate) fn is_abandoned(&self) -> bool {
        let abandoned = self.replies.is_abandoned();
        // The ring does not synchronise this answer: with the fence, replies given before the end are seen after it.
        fence(Ordering::Acquire);
        abandoned
    }
}

/// Copies `bytes` to offset `at` of the two parts of a chunk.
fn fill(first: &mut [u8], second: &mut [u8], at: usize, bytes: &[u8]) {
    let cut = first.len().saturating_sub(at).min(bytes.len());
    let (head, tail) = bytes.split_at(cut);
    if !head.is_empty() {
        first[at..at + cut].copy_from_slice(head);
    }
    if !tail.is_empty() {
        let at = (at + cut) - first.len();
        second[at..at + tail.len()].copy_from_slice(tail);
    }
}

/// The agent's end.
#[derive(Debug)]
pub(crate) struct AgentEnd {
    payloads: Consumer<u8>,
    boxes: Consumer<Box<[u8]>>,
    replies: Producer<Reply>,
}

/// What became of the proposal at the head of a lane.
pub(crate) enum Take<T> {
    /// It is done with: out of the lane.
    Taken(T),
    /// It stays at the head.
    Kept(T),
}

impl AgentEnd {
    /// Shows the payload at the head and its life to `f`, which says whether it leaves the lane. `None` when the lane is
    /// empty. `scratch` holds a payload that lies across the end of the ring.
    pub(crate) fn head<T>(
        &mut self,
        scratch: &mut [u8; INLINE_MAX],
        f: impl FnOnce(&[u8], u32) -> Take<T>,
    ) -> Option<T> {
        let chunk = self.payloads.read_chunk(HEADER).ok()?;
        let mut header = [0; HEADER];
        gather(chunk.as_slices(), 0, &mut header);
        let header = u64::from_le_bytes(header);
        let (mark, life) = (header as u32, (header >> 32) as u32);
        let boxed = mark == BOXED;
        let len = if boxed { 0 } else { mark as usize };
        let chunk = self.payloads.read_chunk(HEADER + len).expect("a header is published with its payload");
        let (first, second) = chunk.as_slices();
        let payload = if boxed {
            &**self.boxes.peek().expect("a box is published before its header")
        } else if first.len() >= HEADER + len {
            &first[HEADER..HEADER + len]
        } else {
            gather((first, second), HEADER, &mut scratch[..len]);
            &scratch[..len]
        };
        Some(match f(payload, life) {
            Take::Kept(result) => result,
            Take::Taken(result) => {
                chunk.commit_all();
                if boxed {
                    drop(self.boxes.pop());
                }
                result
            }
        })
    }

    /// How many more replies fit.
    pub(crate) fn room(&mut self) -> usize {
        self.replies.slots()
    }

    /// Gives a reply. The caller has seen to the room.
    pub(crate) fn reply(&mut self, reply: Reply) {
        self.replies.push(reply).expect("no proposal is taken without room for its reply");
    }

    /// Whether the lane is empty and its handle gone.
    pub(crate) fn is_over(&self) -> bool {
        let abandoned = self.payloads.is_abandoned();
        // As above: what was pushed before the handle was dropped is seen after it.
        fence(Ordering::Acquire);
        abandoned && self.payloads.is_empty()
    }
}

/// The scratch of [`AgentEnd::head`].
pub(crate) fn scratch() -> Box<[u8; INLINE_MAX]> {
    vec![0; INLINE_MAX].into_boxed_slice().try_into().expect("made with that length")
}

/// Copies bytes from offset `at` of the two parts of a chunk.
fn gather((first, second): (&[u8], &[u8]), at: usize, out: &mut [u8]) {
    let cut = first.len().saturating_sub(at).min(out.len());
    let (head, tail) = out.split_at_mut(cut);
    if !head.is_empty() {
        head.copy_from_slice(&first[at..at + cut]);
    }
    if !tail.is_empty() {
        let at = (at + cut) - first.len();
        tail.copy_from_slice(&second[at..at + tail.len()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(agent: &mut AgentEnd, scratch: &mut [u8; INLINE_MAX]) -> Option<(Vec<u8>, u32)> {
        agent.head(scratch, |payload, life| Take::Taken((payload.to_vec(), life)))
    }

    #[test]
    fn payloads_of_all_lengths_come_out_as_they_went_in_across_the_end_of_the_ring() {
        let (mut handle, mut agent) = lane();
        let mut scratch = scratch();
        for i in 0..2000_usize {
            let len = [0, 1, 7, 64, 1021, INLINE_MAX - 1, INLINE_MAX, INLINE_MAX + 1, 3 * RING_LEN][i % 9];
            let payload: Vec<u8> = (0..len).map(|at| (at * 31 + i) as u8).collect();
            handle.push(&payload, i as u32).unwrap();
            assert_eq!(take(&mut agent, &mut scratch), Some((payload, i as u32)));
            assert_eq!(take(&mut agent, &mut scratch), None);
        }
    }

    #[test]
    fn a_full_lane_refuses_and_takes_again_after_the_head_left() {
        let (mut handle, mut agent) = lane();
        let mut scratch = scratch();
        let payload = vec![7; INLINE_MAX - HEADER];
        let fits = RING_LEN / INLINE_MAX;
        for _ in 0..fits {
            handle.push(&payload, 0).unwrap();
        }
        assert_eq!(handle.push(&[], 0), Err(SubmitError::Full));
        agent.head(&mut scratch, |_, _| Take::Kept(()));
        assert_eq!(handle.push(&[], 0), Err(SubmitError::Full), "a head that is kept leaves no room");
        agent.head(&mut scratch, |_, _| Take::Taken(()));
        handle.push(&payload, 0).unwrap();
    }

    #[test]
    fn boxed_payloads_are_bounded_and_keep_their_place_in_the_order() {
        let (mut handle, mut agent) = lane();
        let mut scratch = scratch();
        let large = vec![1; INLINE_MAX + 1];
        for _ in 0..BOXES {
            handle.push(&large, 0).unwrap();
        }
        assert_eq!(handle.push(&large, 0), Err(SubmitError::Full));
        handle.push(b"small", 0).unwrap();
        for _ in 0..BOXES {
            assert_eq!(take(&mut agent, &mut scratch).unwrap().0, large);
        }
        assert_eq!(take(&mut agent, &mut scratch).unwrap().0, b"small");
        assert!(!agent.is_over());
        drop(handle);
        assert!(agent.is_over());
    }
}
