//! The bytes between two nodes: a preamble, then frames of at most [`MAX_FRAME`] bytes behind a length of two, then
//! messages within them. Pure. What arrives may come from anybody: nothing here trusts a length, grows, or panics.
//!
//! A connection begins with the preamble of each side and the two messages of the Noise handshake, each in a frame; a
//! frame of one byte in place of the second is the answer to a wrong key. Every later frame holds one encrypted message.

use ringleader_core::options::Half;
use ringleader_core::types::{Boot, Incarnation, NodeId};

use super::identity::{GroupName, Identity};
use super::{CARD_LEN, Card};

/// What every connection begins with; its last byte is the version of everything below.
pub(super) const PREAMBLE: [u8; 8] = *b"RINGLDR\x02";
/// Bytes of the longest frame, its length not counted.
pub(super) const MAX_FRAME: usize = 256;
/// Bytes that encryption adds.
pub(super) const TAG_LEN: usize = 16;
/// Bytes of the longest message.
pub(super) const MAX_MESSAGE: usize = 1 + CARD_LEN;
/// The frame that says that a handshake could not be read, which is due to another key. Not encrypted: no more than a
/// hint for people.
pub(super) const WRONG_KEY: [u8; 1] = [1];

const PREFIX_LEN: usize = 2;
const HELLO_LEN: usize = 1 + 7 + 16 + 5 * 8 + GroupName::MAX_LEN;
const KIND_HELLO: u8 = 1;
const KIND_CARD: u8 = 2;
const KIND_ALIVE: u8 = 3;

const _: () = assert!(MAX_MESSAGE + TAG_LEN <= MAX_FRAME && HELLO_LEN <= MAX_MESSAGE);

/// What two nodes that have the same key say to each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Message {
    /// Who I am. Once, before anything else.
    Hello(Identity),
    /// How my queue pair can be met.
    Card(Card),
    /// Nothing; only that I live.
    Alive,
}

impl Message {
    /// Its bytes; returns how many.
    pub(super) fn encode(&self, out: &mut [u8; MAX_MESSAGE]) -> usize {
        match self {
            Message::Hello(identity) => {
                let mut at = 0;
                let mut put = |bytes: &[u8]| {
                    out[at..at + bytes.len()].copy_from_slice(bytes);
                    at += bytes.len();
                };
                let name = identity.group_name.as_str().as_bytes();
                put(&[KIND_HELLO, identity.node.0, name.len() as u8, byte_of(identity.half)]);
                put(&identity.layout.to_le_bytes());
                put(&identity.group.to_le_bytes());
                put(&identity.boot.0.to_le_bytes());
                put(&identity.incarnation.0.to_le_bytes());
                put(&identity.ring_len.to_le_bytes());
                put(&identity.max_entry.to_le_bytes());
                put(&identity.snapshot_len.to_le_bytes());
                put(name);
                put(&[0; GroupName::MAX_LEN][name.len()..]);
                at
            }
            Message::Card(card) => {
                out[0] = KIND_CARD;
                out[1..].copy_from_slice(card);
                MAX_MESSAGE
            }
            Message::Alive => {
                out[0] = KIND_ALIVE;
                1
            }
        }
    }

    /// The message of these bytes, if they are one.
    pub(super) fn decode(bytes: &[u8]) -> Option<Message> {
        match bytes.split_first()? {
            (&KIND_ALIVE, []) => Some(Message::Alive),
            (&KIND_CARD, card) => Card::try_from(card).ok().map(Message::Card),
            (&KIND_HELLO, hello) => decode_hello(hello).map(Message::Hello),
            _ => None,
        }
    }
}

fn byte_of(half: Half) -> u8 {
    match half {
        Half::Whole => 0,
        Half::Acceptor => 1,
        Half::Proposer => 2,
    }
}

fn decode_hello(mut rest: &[u8]) -> Option<Identity> {
    if rest.len() != HELLO_LEN - 1 {
        return None;
    }
    fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
        let (head, tail) = rest.split_first_chunk::<N>()?;
        *rest = tail;
        Some(*head)
    }
    let [node, name_len, half] = take::<3>(&mut rest)?;
    let layout = u32::from_le_bytes(take(&mut rest)?);
    let group = u128::from_le_bytes(take(&mut rest)?);
    let boot = u64::from_le_bytes(take(&mut rest)?);
    let incarnation = u64::from_le_bytes(take(&mut rest)?);
    let ring_len = u64::from_le_bytes(take(&mut rest)?);
    let max_entry = u64::from_le_bytes(take(&mut rest)?);
    let snapshot_len = u64::from_le_bytes(take(&mut rest)?);
    let name = str::from_utf8(rest.get(..usize::from(name_len))?).ok()?;
    let node = NodeId(node);
    node.is_valid().then_some(())?;
    Some(Identity {
        layout,
        group,
        group_name: GroupName::new(name)?,
        node,
        half: [Half::Whole, Half::Acceptor, Half::Proposer]
            .into_iter()
            .find(|known| byte_of(*known) == half)?,
        boot: Boot(boot),
        incarnation: Incarnation(incarnation),
        ring_len,
        max_entry,
        snapshot_len,
    })
}

/// Puts a frame together behind its length; returns its bytes in all. The frame itself is at `out[2..2 + len]` already.
pub(super) fn seal(out: &mut [u8], len: usize) -> usize {
    assert!(len <= MAX_FRAME, "a frame is no longer than its limit");
    out[..PREFIX_LEN].copy_from_slice(&(len as u16).to_le_bytes());
    PREFIX_LEN + len
}

/// Bytes that have arrived and are not taken yet. Of a fixed size: the longest frame and its length.
#[derive(Debug)]
pub(super) struct Inbound {
    bytes: [u8; PREFIX_LEN + MAX_FRAME],
    len: usize,
}

/// A length that no frame has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TooLong;

impl Inbound {
    pub(super) fn new() -> Inbound {
        Inbound { bytes: [0; PREFIX_LEN + MAX_FRAME], len: 0 }
    }

    /// Where the next bytes go. Never empty once all whole frames have been taken.
    pub(super) fn room(&mut self) -> &mut [u8] {
        &mut self.bytes[self.len..]
    }

    /// So many have been put there.
    pub(super) fn filled(&mut self, count: usize) {
        self.len += count;
        assert!(self.len <= self.bytes.len(), "no more arrives than there is room for");
    }

    /// The first bytes of a connection, once they are all there.
    pub(super) fn take_preamble(&mut self) -> Option<[u8; PREAMBLE.len()]> {
        let preamble = *self.bytes[..self.len].first_chunk()?;
        self.drop_first(PREAMBLE.len());
        Some(preamble)
    }

    /// Whether what is there of a preamble can still become one: nobody waits for the rest of something else.
    pub(super) fn may_be_preamble(&self) -> bool {
        let len = self.len.min(PREAMBLE.len() - 1);
        self.bytes[..len] == PREAMBLE[..len]
    }

    /// Copies the next whole frame to `out`; its length.
    pub(super) fn take_frame(&mut self, out: &mut [u8; MAX_FRAME]) -> Result<Option<usize>, TooLong> {
        let Some(prefix) = self.bytes[..self.len].first_chunk::<PREFIX_LEN>() else { return Ok(None) };
        let len = usize::from(u16::from_le_bytes(*prefix));
        if len > MAX_FRAME {
            return Err(TooLong);
        }
        let end = PREFIX_LEN + len;
        if self.len < end {
            return Ok(None);
        }
        out[..len].copy_from_slice(&self.bytes[PREFIX_LEN..end]);
        self.drop_first(end);
        Ok(Some(len))
    }

    fn drop_first(&mut self, count: usize) {
        self.bytes.copy_within(count..self.len, 0);
        self.len -= count;
    }
}

#[cfg(test)]
mod tests {
    use super::super::identity::tests::identity;
    use super::*;
    use proptest::prelude::*;

    fn bytes_of(message: &Message) -> Vec<u8> {
        let mut out = [0; MAX_MESSAGE];
        let len = message.encode(&mut out);
        out[..len].to_vec()
    }

    #[test]
    fn there_and_back() {
        let hello = Identity { group: u128::MAX - 5, layout: 77, half: Half::Proposer, ..identity(15) };
        for message in [Message::Hello(hello), Message::Card([9; CARD_LEN]), Message::Alive] {
            let bytes = bytes_of(&message);
            assert_eq!(Message::decode(&bytes), Some(message));
            assert_eq!(Message::decode(&bytes[..bytes.len() - 1]), None);
            let longer = [&bytes[..], &[0]].concat();
            assert_eq!(Message::decode(&longer), None);
        }
    }

    #[test]
    fn golden_bytes_of_a_hello() {
        let bytes = bytes_of(&Message::Hello(Identity { group: 0x0102, ..identity(3) }));
        assert_eq!(bytes.len(), HELLO_LEN);
        assert_eq!(bytes[..8], [1, 3, 6, 0, 1, 0, 0, 0]);
        assert_eq!(bytes[8..24], [2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes[24..32], 103_u64.to_le_bytes());
        assert_eq!(bytes[32..40], 203_u64.to_le_bytes());
        assert_eq!(bytes[40..48], (1_u64 << 20).to_le_bytes());
        assert_eq!(bytes[48..56], (1_u64 << 17).to_le_bytes());
        assert_eq!(bytes[56..64], (1_u64 << 16).to_le_bytes());
        assert_eq!(&bytes[64..72], b"orders\0\0");
        assert!(bytes[72..].iter().all(|byte| *byte == 0));
    }

    #[test]
    fn a_hello_of_nobody_is_none() {
        let mut bytes = bytes_of(&Message::Hello(identity(1)));
        for node in [0, 16, 255] {
            bytes[1] = node;
            assert_eq!(Message::decode(&bytes), None);
        }
        bytes[1] = 1;
        bytes[3] = 3;
        assert_eq!(Message::decode(&bytes), None, "no such half");
        bytes[3] = 2;
        for len in [0, 33, 255] {
            bytes[2] = len;
            assert_eq!(Message::decode(&bytes), None);
        }
    }

    #[test]
    fn what_cannot_become_a_preamble_is_known_at_its_first_byte() {
        let mut inbound = Inbound::new();
        assert!(inbound.may_be_preamble());
        inbound.room()[0] = b'G';
        inbound.filled(1);
        assert!(!inbound.may_be_preamble());
        let mut inbound = Inbound::new();
        inbound.room()[..7].copy_from_slice(&PREAMBLE[..7]);
        inbound.filled(7);
        assert!(inbound.may_be_preamble() && inbound.take_preamble().is_none());
    }

    /// Everything that comes out of these bytes, arriving in pieces of these lengths.
    fn frames(bytes: &[u8], pieces: &[usize]) -> (Vec<Vec<u8>>, bool) {
        let (mut inbound, mut out) = (Inbound::new(), Vec::new());
        let (mut at, mut pieces) = (0, pieces.iter().cycle());
        let mut frame = [0; MAX_FRAME];
        while at < bytes.len() {
            let piece = *pieces.next().expect("not empty");
            let room = inbound.room();
            assert!(!room.is_empty());
            let count = piece.min(room.len()).min(bytes.len() - at);
            room[..count].copy_from_slice(&bytes[at..at + count]);
            inbound.filled(count);
            at += count;
            loop {
                match inbound.take_frame(&mut frame) {
                    Ok(Some(len)) => out.push(frame[..len].to_vec()),
                    Ok(None) => break,
                    Err(TooLong) => return (out, true),
                }
            }
        }
        (out, false)
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn no_bytes_make_it_panic(
            bytes in prop::collection::vec(any::<u8>(), 0..2000),
            pieces in prop::collection::vec(1_usize..300, 1..8),
        ) {
            let (cut, _) = frames(&bytes, &pieces);
            for frame in cut {
                let _ = Message::decode(&frame);
            }
            let _ = Message::decode(&bytes);
        }

        #[test]
        fn frames_come_out_as_they_went_in_however_they_arrive(
            sent in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..=MAX_FRAME), 0..12),
            pieces in prop::collection::vec(1_usize..600, 1..8),
            over in (MAX_FRAME as u16 + 1)..,
        ) {
            let mut bytes = Vec::new();
            for frame in &sent {
                bytes.extend_from_slice(&(frame.len() as u16).to_le_bytes());
                bytes.extend_from_slice(frame);
            }
            prop_assert_eq!(frames(&bytes, &pieces), (sent.clone(), false));
            bytes.extend_from_slice(&over.to_le_bytes());
            prop_assert_eq!(frames(&bytes, &pieces), (sent, true));
        }

        #[test]
        fn what_decodes_encodes_to_the_same(
            kind in 0_u8..5, node in 0_u8..20, name_len in 0_u8..40,
            body in prop::collection::vec(prop_oneof![Just(b'a'), any::<u8>()], CARD_LEN),
            len in 0..=CARD_LEN,
        ) {
            for len in [len, HELLO_LEN - 1, CARD_LEN, 0] {
                let mut bytes = vec![kind];
                bytes.extend_from_slice(&body[..len]);
                if let Some(head) = bytes.get_mut(1..3) {
                    head.copy_from_slice(&[node, name_len]);
                }
                if let Some(half) = bytes.get_mut(3) {
                    *half %= 4;
                }
                if let Some(message) = Message::decode(&bytes) {
                    // Padding and reserved bytes aside.
                    prop_assert_eq!(Message::decode(&bytes_of(&message)), Some(message));
                }
            }
        }
    }
}
