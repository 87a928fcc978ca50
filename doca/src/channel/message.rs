//! The two messages, to and from bytes. Little-endian, in this order: magic, version, kind, number of exports, length of the note,
//! zeros; for each export its address, its length, and the length of its descriptor; the descriptors; the note. Nothing behind it.

use std::fmt;

use zeroize::Zeroizing;

use super::error::ChannelError;
use crate::descriptor::Descriptor;
use crate::range::Range;

/// Bytes of the longest message: that of a BlueField's channel.
pub const MESSAGE_LEN: usize = 4080;
/// Pieces of memory in an offer.
pub const MAX_EXPORTS: usize = 4;
/// Bytes of a note.
pub const MAX_NOTE_LEN: usize = 1024;
/// Bytes of the reason of a refusal.
pub const MAX_WHY_LEN: usize = 256;

/// "rl-doca", the first word.
const MAGIC: [u8; 8] = *b"rl-doca\0";
/// Version of this file's layout.
const VERSION: u16 = 1;
const OFFER: u8 = 1;
const ACCEPTED: u8 = 2;
const REFUSED: u8 = 3;

/// What the host has for its DPU.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Offer {
    /// Its memory: 1 to [`MAX_EXPORTS`].
    pub exports: Vec<Exported>,
    /// What else the two need, which is not looked at here; wiped like a descriptor. At most [`MAX_NOTE_LEN`].
    pub note: Note,
}

/// One piece of memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Exported {
    /// By which it is imported.
    pub descriptor: Descriptor,
    /// Where it is, as the host says.
    pub range: Range,
}

/// What the DPU says to it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// It has imported all of it.
    Accepted {
        /// As in an offer.
        note: Note,
    },
    /// It has kept nothing of it.
    Refused {
        /// For people; cut to [`MAX_WHY_LEN`].
        why: String,
    },
}

/// Bytes that may be secret.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Note(Zeroizing<Vec<u8>>);

/// What is wrong with a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Malformed(&'static str);

impl Note {
    /// A copy of these.
    pub fn new(bytes: &[u8]) -> Note {
        Note(Zeroizing::new(bytes.to_vec()))
    }

    /// To use or to hand on.
    pub fn secret(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Note({} secret bytes)", self.0.len())
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl Offer {
    pub(super) fn encode(&self) -> Result<Zeroizing<Vec<u8>>, ChannelError> {
        let exports = self.exports.len();
        if !(1..=MAX_EXPORTS).contains(&exports) {
            return Err(ChannelError::Malformed(WRONG_COUNT));
        }
        encode(OFFER, &self.exports, self.note.secret())
    }

    /// The offer that these bytes are.
    pub(super) fn judge(bytes: &[u8]) -> Result<Offer, Malformed> {
        let (kind, exports, note) = decode(bytes)?;
        match kind {
            OFFER if exports.is_empty() => Err(WRONG_COUNT),
            OFFER => Ok(Offer { exports, note: Note::new(note) }),
            _ => Err(Malformed("it is no offer")),
        }
    }
}

impl Answer {
    pub(super) fn encode(&self) -> Result<Zeroizing<Vec<u8>>, ChannelError> {
        match self {
            Answer::Accepted { note } => encode(ACCEPTED, &[], note.secret()),
            Answer::Refused { why } => {
                let end = (0..=why.len().min(MAX_WHY_LEN)).rev().find(|end| why.is_char_boundary(*end));
                let end = end.unwrap_or_default();
                encode(REFUSED, &[], &why.as_bytes()[..end])
            }
        }
    }

    /// The answer that these bytes are.
    pub(super) fn judge(bytes: &[u8]) -> Result<Answer, Malformed> {
        let (kind, exports, note) = decode(bytes)?;
        if !exports.is_empty() {
            return Err(WRONG_COUNT);
        }
        match kind {
            ACCEPTED => Ok(Answer::Accepted { note: Note::new(note) }),
            // Whatever is in it goes to a terminal.
            REFUSED if note.len() <= MAX_WHY_LEN => {
                let why = String::from_utf8_lossy(note);
                Ok(Answer::Refused { why: why.chars().filter(|char| !char.is_control()).collect() })
            }
            REFUSED => Err(Malformed("the reason of its refusal is too long")),
            _ => Err(Malformed("it is no answer")),
        }
    }
}

const WRONG_COUNT: Malformed = Malformed("its number of exports is wrong");
const TRUNCATED: Malformed = Malformed("it ends too soon");

fn encode(kind: u8, exports: &[Exported], note: &[u8]) -> Result<Zeroizing<Vec<u8>>, ChannelError> {
    // Never moved while it is filled, so that no copy is left behind.
    let mut bytes = Zeroizing::new(Vec::with_capacity(MESSAGE_LEN));
    let descriptors: usize = exports.iter().map(|export| export.descriptor.secret().len()).sum();
    let len = 16 + 18 * exports.len() + descriptors + note.len();
    if len > MESSAGE_LEN || note.len() > MAX_NOTE_LEN {
        return Err(ChannelError::TooLong { len });
    }
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    // Both lengths were compared with bounds far below what two bytes hold, the number with one below what one holds.
    bytes.extend_from_slice(&[kind, exports.len() as u8]);
    bytes.extend_from_slice(&(note.len() as u16).to_le_bytes());
    bytes.extend_from_slice(&[0; 2]);
    for Exported { descriptor, range } in exports {
        bytes.extend_from_slice(&range.address().to_le_bytes());
        bytes.extend_from_slice(&range.len().to_le_bytes());
        bytes.extend_from_slice(&(descriptor.secret().len() as u16).to_le_bytes());
    }
    for export in exports {
        bytes.extend_from_slice(export.descriptor.secret());
    }
    bytes.extend_from_slice(note);
    Ok(bytes)
}

/// Kind, exports and note.
fn decode(bytes: &[u8]) -> Result<(u8, Vec<Exported>, &[u8]), Malformed> {
    let (magic, rest) = part::<8>(bytes)?;
    if magic != MAGIC {
        return Err(Malformed("it does not begin like one"));
    }
    let (version, rest) = part(rest)?;
    if u16::from_le_bytes(version) != VERSION {
        return Err(Malformed("it is of another version of this program"));
    }
    let ([kind, count], rest) = part(rest)?;
    let (note_len, rest) = part(rest)?;
    let note_len = usize::from(u16::from_le_bytes(note_len));
    let (reserved, mut rest) = part(rest)?;
    if reserved != [0; 2] {
        return Err(Malformed("its reserved bytes are not zero"));
    }
    if usize::from(count) > MAX_EXPORTS {
        return Err(WRONG_COUNT);
    }
    if note_len > MAX_NOTE_LEN {
        return Err(Malformed("its note is too long"));
    }
    let mut headed = Vec::with_capacity(MAX_EXPORTS);
    for _ in 0..count {
        let (address, behind) = part(rest)?;
        let (len, behind) = part(behind)?;
        let (descriptor_len, behind) = part(behind)?;
        let range = Range::new(u64::from_le_bytes(address), u64::from_le_bytes(len));
        let range = range.ok_or(Malformed("one of its exports is empty or wraps"))?;
        headed.push((range, usize::from(u16::from_le_bytes(descriptor_len))));
        rest = behind;
    }
    let mut exports = Vec::with_capacity(MAX_EXPORTS);
    for (range, len) in headed {
        let (descriptor, behind) = rest.split_at_checked(len).ok_or(TRUNCATED)?;
        let descriptor = Descriptor::new(descriptor);
        let descriptor = descriptor.map_err(|_| Malformed("one of its descriptors is empty or too long"))?;
        exports.push(Exported { descriptor, range });
        rest = behind;
    }
    match rest.split_at_checked(note_len) {
        None => Err(TRUNCATED),
        Some((note, [])) => Ok((kind, exports, note)),
        Some(_) => Err(Malformed("there is something behind its end")),
    }
}

fn part<const LEN: usize>(bytes: &[u8]) -> Result<([u8; LEN], &[u8]), Malformed> {
    bytes.split_first_chunk().map(|(part, rest)| (*part, rest)).ok_or(TRUNCATED)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::descriptor::MAX_DESCRIPTOR_LEN;
    use proptest::prelude::*;

    fn exported(len: usize) -> Exported {
        let descriptor = Descriptor::new(&vec![7; len]).expect("a descriptor");
        Exported { descriptor, range: Range::new(0x7f00_0000_0000, 1 << 20).expect("a range") }
    }

    fn offer(lens: &[usize], note: usize) -> Offer {
        Offer { exports: lens.iter().map(|len| exported(*len)).collect(), note: Note::new(&vec![9; note]) }
    }

    #[test]
    fn golden_bytes() {
        let bytes = offer(&[3], 2).encode().expect("encoded");
        let golden = [
            &b"rl-doca\0"[..],
            &[1, 0, 1, 1, 2, 0, 0, 0],
            &[0, 0, 0, 0, 0, 0x7f, 0, 0],
            &[0, 0, 0x10, 0, 0, 0, 0, 0],
            &[3, 0, 7, 7, 7, 9, 9],
        ]
        .concat();
        assert_eq!(bytes.as_slice(), golden);
        let bytes = Answer::Refused { why: "no".to_owned() }.encode().expect("encoded");
        assert_eq!(bytes.as_slice(), [&b"rl-doca\0"[..], &[1, 0, 3, 0, 2, 0, 0, 0], b"no"].concat());
    }

    #[test]
    fn every_cut_and_every_tail_is_refused() {
        let whole = offer(&[300, 1, 40, 2], 100).encode().expect("encoded");
        assert_eq!(Offer::judge(&whole), Ok(offer(&[300, 1, 40, 2], 100)));
        for len in 0..whole.len() {
            assert!(Offer::judge(&whole[..len]).is_err(), "{len} bytes");
        }
        let longer = [whole.as_slice(), &[0]].concat();
        assert_eq!(Offer::judge(&longer), Err(Malformed("there is something behind its end")));
    }

    #[test]
    fn what_is_not_what_it_should_be_is_refused() {
        let whole = offer(&[300], 100).encode().expect("encoded");
        let with = |at: usize, byte: u8| {
            let mut bytes = whole.to_vec();
            bytes[at] = byte;
            Offer::judge(&bytes).expect_err("refused").to_string()
        };
        assert!(with(0, b'R').contains("does not begin"));
        assert!(with(8, 2).contains("another version"));
        assert!(with(10, ACCEPTED).contains("no offer"));
        assert!(with(11, 0).contains("behind its end"));
        let none = [&whole[..11], &[0, 0, 0, 0, 0]].concat();
        assert_eq!(Offer::judge(&none), Err(WRONG_COUNT));
        assert!(with(11, 5).contains("number of exports"));
        assert!(with(13, 5).contains("note is too long"));
        assert!(with(14, 1).contains("reserved"));
        assert!(with(33, 0xff).contains("ends too soon"));
        let mut empty = whole.to_vec();
        empty[24..32].fill(0);
        assert!(Offer::judge(&empty).expect_err("refused").to_string().contains("empty or wraps"));
        assert!(Answer::judge(&whole).is_err());
        let answer = Answer::Accepted { note: Note::default() }.encode().expect("encoded");
        assert!(Offer::judge(&answer).is_err());
    }

    #[test]
    fn what_is_too_long_is_not_sent() {
        assert!(offer(&[MAX_DESCRIPTOR_LEN], MAX_NOTE_LEN).encode().is_ok());
        assert!(matches!(offer(&[1], MAX_NOTE_LEN + 1).encode(), Err(ChannelError::TooLong { .. })));
        let two = offer(&[MAX_DESCRIPTOR_LEN, MAX_DESCRIPTOR_LEN], 0);
        assert!(matches!(two.encode(), Err(ChannelError::TooLong { len: 4148 })));
        assert!(offer(&[], 0).encode().is_err() && offer(&[1; 5], 0).encode().is_err());
        // A reason is cut, between two characters.
        let why = "ü".repeat(MAX_WHY_LEN);
        let bytes = Answer::Refused { why: format!("x{why}") }.encode().expect("encoded");
        let Ok(Answer::Refused { why }) = Answer::judge(&bytes) else { panic!("no refusal") };
        assert_eq!(why.len(), MAX_WHY_LEN - 1);
    }

    #[test]
    fn a_reason_has_no_control_characters() {
        let bytes = Answer::Refused { why: "no\x1b[2J\n\0".to_owned() }.encode().expect("encoded");
        assert_eq!(Answer::judge(&bytes), Ok(Answer::Refused { why: "no[2J".to_owned() }));
    }

    #[test]
    fn secrets_are_not_printed() {
        let text = format!("{:?}", offer(&[3], 2));
        assert!(text.contains("3 secret bytes") && text.contains("2 secret bytes"), "{text}");
        assert!(!text.contains("7, 7") && !text.contains("9, 9"), "{text}");
    }

    proptest! {
        #[test]
        fn any_bytes_are_judged(bytes in proptest::collection::vec(any::<u8>(), 0..5000)) {
            prop_assert!(Offer::judge(&bytes).is_err() && Answer::judge(&bytes).is_err());
        }

        #[test]
        fn what_is_changed_is_refused_or_says_what_it_encodes_to(
            at in 0..478_usize, byte: u8, kind in prop::sample::select(vec![OFFER, ACCEPTED, REFUSED]),
        ) {
            let mut bytes = offer(&[300, 26], 100).encode().expect("encoded").to_vec();
            bytes[10] = kind;
            bytes[at] = byte;
            if let Ok(offer) = Offer::judge(&bytes) {
                prop_assert_eq!(offer.encode().expect("encoded").to_vec(), bytes.clone());
            }
            if let Ok(answer @ Answer::Accepted { .. }) = Answer::judge(&bytes) {
                prop_assert_eq!(answer.encode().expect("encoded").to_vec(), bytes);
            }
        }

        #[test]
        fn what_is_said_is_heard(
            lens in proptest::collection::vec(1..700_usize, 1..=MAX_EXPORTS), note in 0..=MAX_NOTE_LEN,
        ) {
            let offer = offer(&lens, note);
            prop_assert_eq!(Offer::judge(&offer.encode().expect("encoded")), Ok(offer));
        }
    }
}
