//! Of which node a log is, and in which host's memory, as that says with the offer: the two must mean the same, or a log would be under
//! another one's votes.
//!
//! Little-endian: magic, node, length of the name, 1 if it is had already, zeros, length of the ring, number of the host, the group's name.

use std::fmt;

use crate::config::Config;
use crate::exchange::GroupName;

/// "rl-log", and the version of this layout.
const MAGIC: [u8; 8] = *b"rl-log\0\x02";
const HEAD_LEN: usize = 32;

/// See the module.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct About {
    pub(super) group: GroupName,
    pub(super) node: u8,
    pub(super) ring_len: u64,
}

/// Whose memory is offered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Lender {
    /// This start of the host: a random word.
    pub(super) number: u64,
    /// An acceptor has it already, as far as the host knows: it asks whether that is so.
    pub(super) is_had: bool,
}

impl About {
    pub(super) fn of(config: &Config) -> About {
        About { group: config.group, node: config.node, ring_len: config.ring_len }
    }

    /// By which host and DPU find each other, however many nodes they have.
    pub(super) fn service(&self) -> String {
        format!("ringleader-{}-{}", self.group, self.node)
    }

    pub(super) fn encode(&self, lender: Lender) -> Vec<u8> {
        let name = self.group.as_str().as_bytes();
        let mut bytes = MAGIC.to_vec();
        // A name is shorter than what a byte holds.
        bytes.extend_from_slice(&[self.node, name.len() as u8, u8::from(lender.is_had), 0, 0, 0, 0, 0]);
        bytes.extend_from_slice(&self.ring_len.to_le_bytes());
        bytes.extend_from_slice(&lender.number.to_le_bytes());
        bytes.extend_from_slice(name);
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<(About, Lender)> {
        let (head, name) = bytes.split_first_chunk::<HEAD_LEN>()?;
        let (magic, rest) = head.split_first_chunk::<8>()?;
        let (marks, rest) = rest.split_first_chunk::<8>()?;
        let (ring, number) = rest.split_first_chunk::<8>()?;
        let [node, len, had @ (0 | 1), 0, 0, 0, 0, 0] = *marks else { return None };
        let group = GroupName::new(str::from_utf8(name).ok()?)?;
        let ring_len = u64::from_le_bytes(*ring);
        let lender = Lender { number: u64::from_le_bytes(number.try_into().ok()?), is_had: had == 1 };
        let fits = *magic == MAGIC && usize::from(len) == name.len();
        fits.then_some((About { group, node, ring_len }, lender))
    }

    /// Whose memory it is that a host offers, or why what it says is not about the same.
    pub(super) fn check(&self, said: &[u8]) -> Result<Lender, String> {
        let (said, lender) = About::decode(said)
            .ok_or("what the host says of its log is of another version of this program")?;
        match said == *self {
            true => Ok(lender),
            false => Err(format!("the host's log is that of {said}, and this acceptor is {self}")),
        }
    }
}

impl fmt::Display for About {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {} of {} with a ring of {} bytes", self.node, self.group, self.ring_len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENDER: Lender = Lender { number: 77, is_had: false };

    fn about() -> About {
        About { group: GroupName::new("orders").expect("a name"), node: 3, ring_len: 1 << 20 }
    }

    #[test]
    fn what_is_said_is_heard_and_nothing_else() {
        for is_had in [true, false] {
            let lender = Lender { number: 77, is_had };
            assert_eq!(About::decode(&about().encode(lender)), Some((about(), lender)));
            assert_eq!(about().check(&about().encode(lender)), Ok(lender));
        }
        let bytes = about().encode(LENDER);
        for len in 0..bytes.len() {
            assert_eq!(About::decode(&bytes[..len]), None, "{len} bytes");
        }
        for at in 0..bytes.len() {
            let mut other = bytes.clone();
            other[at] ^= 2;
            let is_number = (24..32).contains(&at);
            assert_eq!(about().check(&other).is_err(), !is_number, "byte {at}");
        }
        assert!(about().check(&[&bytes[..], &[0]].concat()).is_err());
    }

    #[test]
    fn a_refusal_names_both() {
        let other = About { ring_len: 1 << 21, ..about() };
        let why = about().check(&other.encode(LENDER)).expect_err("another ring");
        assert!(why.contains("2097152 bytes") && why.contains("1048576 bytes"), "{why}");
    }
}
