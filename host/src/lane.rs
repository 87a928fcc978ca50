//! The lane between one handle and the agent: payloads one way, replies the other, each a ring with one producer and one
//! consumer, so that neither end ever waits for a lock, and nothing is allocated for a payload of usual size.
//!
//! In the ring a payload stands behind a word, its mark and life, and takes whole words. One that is pushed may lie across the end of
//! the ring; one that is drafted is a single slice, behind a gap where it has to be.
//!
//! Not the handle's interface (`handle.rs`), nor the choice of which lane is served (`lanes.rs`).

use crate::errors::SubmitError;
use crate::handle::Outcome;
use crate::sync::{Consumer, Ordering, Producer, RingBuffer, WriteChunk, fence};

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
/// Beside a length: nothing, so many bytes of it.
const GAP: u32 = 1 << 30;

/// Bytes that a payload takes in the ring.
fn stride(len: usize) -> usize {
    HEADER + len.next_multiple_of(8)
}

fn header(mark: u32, life: u32) -> [u8; HEADER] {
    (u64::from(mark) | u64::from(life) << 32).to_le_bytes()
}

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
        if payload.len() > INLINE_MAX {
            self.room_for_a_box()?;
            self.push_box(payload.into(), life);
            return Ok(());
        }
        let mut chunk = self.payloads.write_chunk(stride(payload.len())).map_err(|_| SubmitError::Full)?;
        let (first, second) = chunk.as_mut_slices();
        fill(first, second, 0, &header(payload.len() as u32, life));
        fill(first, second, HEADER, payload);
        chunk.commit_all();
        Ok(())
    }

    fn room_for_a_box(&self) -> Result<(), SubmitError> {
        let room = self.payloads.slots() >= HEADER && !self.boxes.is_full();
        if room { Ok(()) } else { Err(SubmitError::Full) }
    }

    /// The caller has seen to the room, and only this end fills it.
    fn push_box(&mut self, payload: Box<[u8]>, life: u32) {
        // Before the header is published: who sees the header finds the box.
        self.boxes.push(payload).expect("there was room for a box");
        let mut chunk = self.payloads.write_chunk(HEADER).expect("there was room for a header");
        let (first, second) = chunk.as_mut_slices();
        fill(first, second, 0, &header(BOXED, life));
        chunk.commit_all();
    }

    /// Lends a place for a payload of `len` bytes in the lane itself. The agent sees nothing of it before it is committed.
    pub(crate) fn draft(&mut self, len: usize) -> Result<Draft<'_>, SubmitError> {
        if len > INLINE_MAX {
            self.room_for_a_box()?;
            return Ok(Draft { len, place: DraftPlace::Boxed(vec![0; len].into(), self) });
        }
        let gap = {
            let mut chunk = self.payloads.write_chunk(stride(len)).map_err(|_| SubmitError::Full)?;
            let (first, second) = chunk.as_mut_slices();
            if second.is_empty() || first.len() == HEADER { 0 } else { first.len() }
        };
        if gap > 0 {
            if self.payloads.slots() < gap + stride(len) {
                return Err(SubmitError::Full);
            }
            let mut chunk = self.payloads.write_chunk(gap).map_err(|_| SubmitError::Full)?;
            let (first, second) = chunk.as_mut_slices();
            fill(first, second, 0, &header(GAP | (gap - HEADER) as u32, 0));
            chunk.commit_all();
        }
        let chunk = self.payloads.write_chunk(stride(len)).map_err(|_| SubmitError::Full)?;
        Ok(Draft { len, place: DraftPlace::Inline(chunk) })
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

/// A payload that is being written where the agent takes it from. Dropped, it was never there.
pub(crate) struct Draft<'a> {
    len: usize,
    place: DraftPlace<'a>,
}

enum DraftPlace<'a> {
    Inline(WriteChunk<'a, u8>),
    Boxed(Box<[u8]>, &'a mut HandleEnd),
}

impl Draft<'_> {
    /// The bytes; zeros at first.
    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        match &mut self.place {
            DraftPlace::Inline(chunk) => match chunk.as_mut_slices() {
                (first, []) => &mut first[HEADER..HEADER + self.len],
                // The header alone stands before the end of the ring.
                (_, second) => &mut second[..self.len],
            },
            DraftPlace::Boxed(bytes, _) => &mut bytes[..self.len],
        }
    }

    /// Only the first bytes are meant, where there are more.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Hands it to the agent, which sees it whole.
    pub(crate) fn commit(self, life: u32) {
        let len = self.len;
        match self.place {
            DraftPlace::Inline(mut chunk) => {
                let (first, second) = chunk.as_mut_slices();
                fill(first, second, 0, &header(len as u32, life));
                chunk.commit(stride(len));
            }
            DraftPlace::Boxed(bytes, end) => {
                let mut bytes = bytes.into_vec();
                bytes.truncate(len);
                end.push_box(bytes.into(), life);
            }
        }
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
        let (mark, life) = self.header()?;
        let boxed = mark == BOXED;
        let len = if boxed { 0 } else { mark as usize };
        let chunk = self.payloads.read_chunk(stride(len)).expect("a header is published with its payload");
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

    /// Mark and life of the payload at the head, behind a gap.
    fn header(&mut self) -> Option<(u32, u32)> {
        loop {
            let chunk = self.payloads.read_chunk(HEADER).ok()?;
            let mut header = [0; HEADER];
            gather(chunk.as_slices(), 0, &mut header);
            let header = u64::from_le_bytes(header);
            let mark = header as u32;
            if mark & GAP == 0 {
                return Some((mark, (header >> 32) as u32));
            }
            let gap = HEADER + (mark - GAP) as usize;
            self.payloads.read_chunk(gap).expect("a gap is published whole").commit_all();
        }
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
    pub(crate) fn is_over(&mut self) -> bool {
        let abandoned = self.payloads.is_abandoned();
        // As above: what was pushed before the handle was dropped is seen after it.
        fence(Ordering::Acquire);
        abandoned && self.is_empty()
    }
}

impl AgentEnd {
    /// Whether no payload is in the lane. A draft that was dropped may have left a gap.
    fn is_empty(&mut self) -> bool {
        self.header().is_none()
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
    fn a_draft_is_one_slice_and_only_what_is_committed_of_it_is_ever_seen() {
        let (mut handle, mut agent) = lane();
        let mut scratch = scratch();
        for i in 0..4000_usize {
            let len = [0, 1, 7, 64, 1021, 64 << 10, INLINE_MAX - 3, INLINE_MAX, INLINE_MAX + 1][i % 9];
            let mut draft = handle.draft(len).unwrap();
            assert_eq!(draft.bytes().len(), len);
            assert_eq!(draft.bytes().as_ptr().addr() % 8, 0);
            if i % 5 == 0 {
                drop(draft);
                assert_eq!(take(&mut agent, &mut scratch), None);
                continue;
            }
            draft.bytes().iter_mut().enumerate().for_each(|(at, byte)| *byte = (at * 31 + i) as u8);
            let cut = if i % 3 == 0 { len / 2 } else { len + 1 };
            draft.truncate(cut);
            draft.commit(i as u32);
            let expected: Vec<u8> = (0..len.min(cut)).map(|at| (at * 31 + i) as u8).collect();
            assert_eq!(take(&mut agent, &mut scratch), Some((expected, i as u32)));
        }
        let mut left = handle.draft(RING_LEN / 8 - 8).unwrap();
        left.bytes().fill(1);
        drop(left);
        drop(handle);
        assert!(agent.is_over());
    }

    #[test]
    fn drafts_and_payloads_keep_one_order_and_a_full_lane_takes_no_draft() {
        let (mut handle, mut agent) = lane();
        let mut scratch = scratch();
        let mut pushed = 0_u32;
        for round in 0..200_u32 {
            loop {
                let Ok(mut draft) = handle.draft(9_000) else { break };
                draft.bytes()[..4].copy_from_slice(&pushed.to_le_bytes());
                draft.commit(0);
                pushed += 1;
                if handle.push(&pushed.to_le_bytes(), 0).is_err() {
                    break;
                }
                pushed += 1;
            }
            let mut taken = Vec::new();
            let part = if round % 2 == 0 { 7 } else { usize::MAX };
            while let Some((payload, _)) =
                (taken.len() < part).then(|| take(&mut agent, &mut scratch)).flatten()
            {
                taken.push(u32::from_le_bytes(payload[..4].try_into().unwrap()));
            }
            assert!(taken.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{taken:?}");
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
