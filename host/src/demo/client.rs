//! The client: which entries are on their way to which leader, and which are acknowledged.
//!
//! Entries are proposed in *streams*. A stream goes to one node, begins with the first entry that is not acknowledged,
//! and is in order without holes: the node ends it at the first proposal that is not taken or whose outcome is unknown,
//! and reports nothing of it after. The client then begins another, with the same first entry, to whoever leads.
//!
//! **Why each entry is applied once, and an acknowledged one for certain.** A number stands for the same bytes for ever,
//! and the state machine applies number n only when n - 1 was the last. So nothing is applied twice or out of order,
//! whatever stands in the log. Let a stream acknowledge m. Its first entry f had all of 1..f acknowledged before, so they
//! are committed before f in the log; f..=m are committed, in this order, for each was `Committed` and a leader's
//! proposals stand in the log in their order. So when m is applied, m - 1 has been: m is applied there, or was before. What a dead stream
//! left in the log is either next in line (applied, and the repetition dropped), or old (dropped), or early (dropped).

use std::collections::VecDeque;
use std::io;

use super::proposal;
use super::source::Source;
use super::wire::{Order, Outbox};

/// Most entries on their way. Many: the client, the node and its agent share processors with everybody else, and the
/// leader is to go on while one of them waits for its turn.
const MAX_WINDOW: u64 = 32_768;
/// Most bytes of the log on their way.
const MAX_WINDOW_LEN: u64 = 8 << 20;
/// A frame is sealed when it is about this long.
const FRAME_LEN: u64 = 32 << 10;

/// The client's side of all streams.
#[derive(Debug)]
pub struct Client {
    source: Source,
    entries: u64,
    /// Entries that are read and not acknowledged; the first has number `acked + 1`.
    unacked: VecDeque<Vec<u8>>,
    acked: u64,
    stream: u32,
    /// The node of the stream that goes on.
    to: Option<u8>,
    /// Last number given to the stream.
    sent: u64,
    /// Last number ever given to a stream.
    sent_before: u64,
    sent_len: u64,
    retried: u64,
    window: u64,
    window_len: u64,
}

impl Client {
    /// A client for so many entries of `source`, over rings of `ring_len` bytes.
    pub fn new(source: Source, entries: u64, ring_len: u64) -> Client {
        // A small feed goes out in several rounds, so that there is a middle for something to happen in.
        let window = (entries / 4).clamp(1, MAX_WINDOW);
        Client {
            source,
            entries,
            unacked: VecDeque::new(),
            acked: 0,
            stream: 0,
            to: None,
            sent: 0,
            sent_before: 0,
            sent_len: 0,
            retried: 0,
            window,
            // The log takes no more than half a ring at once, and a follower may be a little behind.
            window_len: MAX_WINDOW_LEN.min(ring_len / 8),
        }
    }

    /// Whether everything is acknowledged.
    pub fn is_done(&self) -> bool {
        self.acked == self.entries
    }

    /// Entries acknowledged.
    pub fn acknowledged(&self) -> u64 {
        self.acked
    }

    /// Proposals made again.
    pub fn retried(&self) -> u64 {
        self.retried
    }

    /// The node that the stream goes to.
    pub fn target(&self) -> Option<u8> {
        self.to
    }

    /// Begins a stream to a node.
    pub fn begin(&mut self, node: u8, outbox: &mut Outbox) {
        self.stream += 1;
        self.to = Some(node);
        self.sent = self.acked;
        self.sent_len = 0;
        outbox.push(&Order::Begin { stream: self.stream, first: self.acked + 1 });
    }

    /// Gives the stream up: its node is dead or stopped.
    pub fn abandon(&mut self) {
        self.to = None;
    }

    /// Entries are committed; returns how many are new.
    pub fn handle_acked(&mut self, node: u8, stream: u32, up_to: u64) -> u64 {
        if self.to != Some(node) || stream != self.stream || up_to <= self.acked || up_to > self.sent {
            return 0;
        }
        let count = up_to - self.acked;
        for entry in self.unacked.drain(..count as usize) {
            self.sent_len -= slot_len(&entry);
        }
        self.acked = up_to;
        count
    }

    /// The node ended the stream; false when it was another one.
    pub fn handle_ended(&mut self, node: u8, stream: u32) -> bool {
        if self.to != Some(node) || stream != self.stream {
            return false;
        }
        self.to = None;
        true
    }

    /// Puts proposals into the outbox as far as the window is open.
    pub fn fill(&mut self, outbox: &mut Outbox) -> io::Result<()> {
        if self.to.is_none() {
            return Ok(());
        }
        let mut frame = None;
        let mut frame_len = 0;
        while self.sent < self.entries && self.sent - self.acked < self.window {
            let at = (self.sent - self.acked) as usize;
            if at == self.unacked.len() {
                let mut entry = Vec::new();
                if !self.source.next_entry(&mut entry)? {
                    return Err(io::Error::other("the file has become shorter since it was checked"));
                }
                self.unacked.push_back(entry);
            }
            let entry = &self.unacked[at];
            if self.sent_len > 0 && self.sent_len + slot_len(entry) > self.window_len {
                break;
            }
            self.sent += 1;
            self.sent_len += slot_len(entry);
            if self.sent <= self.sent_before {
                self.retried += 1;
            }
            outbox_frame(&mut frame, outbox, self.stream, self.sent);
            outbox.add(entry);
            frame_len += entry.len() as u64 + 4;
            if frame_len >= FRAME_LEN {
                frame_len = 0;
                if let Some(start) = frame.take() {
                    outbox.seal(start);
                }
            }
        }
        if let Some(start) = frame {
            outbox.seal(start);
        }
        self.sent_before = self.sent_before.max(self.sent);
        Ok(())
    }
}

fn outbox_frame(frame: &mut Option<usize>, outbox: &mut Outbox, stream: u32, first: u64) {
    frame.get_or_insert_with(|| outbox.open_batch(stream, first));
}

fn slot_len(entry: &[u8]) -> u64 {
    (32 + 8 + (proposal::HEADER_LEN + entry.len()) as u64).next_multiple_of(64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::wire::{Frame, Inbox};

    fn client(entries: u64) -> Client {
        Client::new(Source::Generated { next: 1, entries, size: 64 }, entries, 64 << 20)
    }

    /// Numbers in the outbox, by stream.
    fn sent(outbox: &mut Outbox) -> Vec<(u32, u64)> {
        let mut bytes = Vec::new();
        outbox.send(&mut bytes).expect("a vector takes everything");
        let mut inbox = Inbox::default();
        while !bytes.is_empty() {
            let len = bytes.len().min(64 << 10);
            inbox.receive(&mut bytes.drain(..len).collect::<Vec<u8>>().as_slice()).expect("reads");
        }
        let mut all = Vec::new();
        while let Some((_, frame)) = inbox.take::<Order>().expect("whole") {
            if let Frame::Batch(batch) = frame {
                let (stream, first) = (batch.stream, batch.first);
                all.extend((first..).zip(batch).map(|(number, entry)| {
                    assert!(entry.starts_with(format!("{number} ").as_bytes()));
                    (stream, number)
                }));
            }
        }
        all
    }

    #[test]
    fn what_is_not_acknowledged_goes_out_again_in_order() {
        let mut client = client(400);
        let mut outbox = Outbox::default();
        client.begin(1, &mut outbox);
        client.fill(&mut outbox).expect("reads");
        assert_eq!(sent(&mut outbox), (1..=100).map(|number| (1, number)).collect::<Vec<_>>());
        assert_eq!(client.handle_acked(1, 1, 40), 40);
        client.fill(&mut outbox).expect("reads");
        assert_eq!(sent(&mut outbox), (101..=140).map(|number| (1, number)).collect::<Vec<_>>());
        assert!(client.handle_ended(1, 1));
        client.fill(&mut outbox).expect("reads");
        assert!(outbox.is_empty());
        client.begin(2, &mut outbox);
        client.fill(&mut outbox).expect("reads");
        assert_eq!(sent(&mut outbox), (41..=140).map(|number| (2, number)).collect::<Vec<_>>());
        assert_eq!(client.retried(), 100);
    }

    #[test]
    fn only_the_stream_that_goes_on_is_heard() {
        let mut client = client(400);
        let mut outbox = Outbox::default();
        client.begin(1, &mut outbox);
        client.fill(&mut outbox).expect("reads");
        client.abandon();
        client.begin(2, &mut outbox);
        client.fill(&mut outbox).expect("reads");
        assert_eq!(client.handle_acked(1, 1, 10), 0);
        assert_eq!(client.handle_acked(1, 2, 10), 0);
        assert_eq!(client.handle_acked(2, 2, 5000), 0);
        assert!(!client.handle_ended(1, 1));
        assert_eq!(client.handle_acked(2, 2, 10), 10);
        assert_eq!(client.handle_acked(2, 2, 10), 0);
    }

    #[test]
    fn the_window_is_bounded_in_bytes_and_lets_one_entry_through_always() {
        let source = Source::Generated { next: 1, entries: 80_000, size: 60 << 10 };
        let mut client = Client::new(source, 80_000, 512 << 10);
        let mut outbox = Outbox::default();
        client.begin(1, &mut outbox);
        let mut last = 0;
        for round in 1..=3 {
            client.fill(&mut outbox).expect("reads");
            last += 1;
            assert_eq!(sent(&mut outbox), [(1, last)]);
            assert_eq!(client.handle_acked(1, 1, last), 1, "round {round}");
        }
    }

    #[test]
    fn nothing_to_do_is_done() {
        assert!(client(0).is_done());
    }
}
