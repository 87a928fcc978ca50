//! Of which node a log is, as its host says with the offer: the two must mean the same, or a log would be under another one's votes.
//!
//! Little-endian: magic, node, length of the name, zeros, length of the ring, the group's name.

use std::fmt;

use crate::config::Config;
use crate::exchange::GroupName;

/// "rl-log", and the version of this layout.
const MAGIC: [u8; 8] = *b"rl-log\0\x01";
const HEAD_LEN: usize = 24;

/// See the module.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct About {
    pub(super) group: GroupName,
    pub(super) node: u8,
    pub(super) ring_len: u64,
}

impl About {
    pub(super) fn of(config: &Config) -> About {
        About { group: config.group, node: config.node, ring_len: config.ring_len }
    }

    /// By which host and DPU find each other, however many nodes they have.
    pub(super) fn service(&self) -> String {
        format!("ringleader-{}-{}", self.group, self.node)
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let name = self.group.as_str().as_bytes();
        let mut bytes = MAGIC.to_vec();
        // A name is shorter than what a byte holds.
        bytes.extend_from_slice(&[self.node, name.len() as u8, 0, 0, 0, 0, 0, 0]);
        bytes.extend_from_slice(&self.ring_len.to_le_bytes());
        bytes.extend_from_slice(name);
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<About> {
        let (head, name) = bytes.split_first_chunk::<HEAD_LEN>()?;
        let (magic, rest) = head.split_first_chunk::<8>()?;
        let (marks, ring) = rest.split_first_chunk::<8>()?;
        let [node, len, 0, 0, 0, 0, 0, 0] = *marks else { return None };
        let group = GroupName::new(str::from_utf8(name).ok()?)?;
        let ring_len = u64::from_le_bytes(ring.try_into().ok()?);
        (*magic == MAGIC && usize::from(len) == name.len()).then_some(About { group, node, ring_len })
    }

    /// Why what a host says is not about the same.
    pub(super) fn refuse(&self, said: &[u8]) -> Result<(), String> {
        let said = About::decode(said)
            .ok_or("what the host says of its log is of another version of this program")?;
        match said == *self {
            true => Ok(()),
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

    fn about() -> About {
        About { group: GroupName::new("orders").expect("a name"), node: 3, ring_len: 1 << 20 }
    }

    #[test]
    fn what_is_said_is_heard_and_nothing_else() {
        let bytes = about().encode();
        assert_eq!(About::decode(&bytes), Some(about()));
        assert_eq!(about().refuse(&bytes), Ok(()));
        for len in 0..bytes.len() {
            assert_eq!(About::decode(&bytes[..len]), None, "{len} bytes");
        }
        for at in 0..bytes.len() {
            let mut other = bytes.clone();
            other[at] ^= 1;
            assert!(about().refuse(&other).is_err(), "byte {at}");
        }
        assert!(about().refuse(&[&bytes[..], &[0]].concat()).is_err());
    }

    #[test]
    fn a_refusal_names_both() {
        let other = About { ring_len: 1 << 21, ..about() };
        let why = about().refuse(&other.encode()).expect_err("another ring");
        assert!(why.contains("2097152 bytes") && why.contains("1048576 bytes"), "{why}");
    }
}
