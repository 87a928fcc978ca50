//! Who a node says it is, and whether two of them belong together. Pure; what is wrong is an error that names both values.

use std::fmt;

use ringleader_core::options::Half;
use ringleader_core::types::{Boot, Incarnation, NodeId};

use super::error::MeetError;

/// The name of a group in its configuration: 1 to 32 letters, digits, `.`, `_` or `-`, and a letter or digit first.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct GroupName {
    /// Zeros after its end.
    bytes: [u8; GroupName::MAX_LEN],
    len: u8,
}

/// What a node says of itself. The same type on both ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Identity {
    /// Version of the layout of its memory.
    pub layout: u32,
    /// The group's id; 0 while it is not formed.
    pub group: u128,
    /// The group's name.
    pub group_name: GroupName,
    /// The node.
    pub node: NodeId,
    /// What of it this is.
    pub half: Half,
    /// This start of its process; not 0.
    pub boot: Boot,
    /// This life of its promise and log; not 0.
    pub incarnation: Incarnation,
    /// Bytes of its ring.
    pub ring_len: u64,
    /// Bytes of its largest slot.
    pub max_entry: u64,
    /// Bytes that a snapshot in its memory may have.
    pub snapshot_len: u64,
}

impl GroupName {
    /// Bytes of the longest name.
    pub const MAX_LEN: usize = 32;

    /// The name, if it can be one.
    pub fn new(text: &str) -> Option<GroupName> {
        let inner = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-".contains(byte);
        let first = text.bytes().next()?;
        if text.len() > GroupName::MAX_LEN
            || !first.is_ascii_alphanumeric()
            || !text.as_bytes().iter().all(inner)
        {
            return None;
        }
        let mut bytes = [0; GroupName::MAX_LEN];
        bytes[..text.len()].copy_from_slice(text.as_bytes());
        Some(GroupName { bytes, len: text.len() as u8 })
    }

    /// Its bytes, and zeros.
    pub(crate) fn padded(&self) -> [u8; GroupName::MAX_LEN] {
        self.bytes
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        str::from_utf8(&self.bytes[..usize::from(self.len)]).expect("a name is ASCII")
    }
}

impl fmt::Display for GroupName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for GroupName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl Identity {
    /// Whether this node can work with one that says it is `theirs`. `expected`: whose address was called, if one was.
    pub(super) fn check(&self, theirs: &Identity, expected: Option<NodeId>) -> Result<(), MeetError> {
        let differ = |is_wrong: bool, error: MeetError| if is_wrong { Err(error) } else { Ok(()) };
        // A group's name first: whoever called another group's node wants to hear just that.
        differ(
            self.group_name != theirs.group_name,
            MeetError::GroupName { ours: self.group_name, theirs: theirs.group_name },
        )?;
        let apart = [self.half, theirs.half];
        let is_same = theirs.node == self.node && apart.contains(&Half::Whole);
        differ(
            is_same && apart != [Half::Whole; 2],
            MeetError::Halves { node: theirs.node, ours: self.half, theirs: theirs.half },
        )?;
        differ(
            is_same || theirs.boot == self.boot || theirs.incarnation == self.incarnation,
            MeetError::Same { node: theirs.node },
        )?;
        // A host has acceptors for peers, and a node one acceptor.
        differ(
            apart == [Half::Proposer; 2] || theirs.node == self.node && self.half == theirs.half,
            MeetError::Halves { node: theirs.node, ours: self.half, theirs: theirs.half },
        )?;
        if let Some(expected) = expected {
            differ(theirs.node != expected, MeetError::Node { expected, found: theirs.node })?;
        }
        differ(self.layout != theirs.layout, MeetError::Layout { ours: self.layout, theirs: theirs.layout })?;
        differ(
            self.ring_len != theirs.ring_len,
            MeetError::RingLen { ours: self.ring_len, theirs: theirs.ring_len },
        )?;
        differ(
            self.max_entry != theirs.max_entry,
            MeetError::MaxEntry { ours: self.max_entry, theirs: theirs.max_entry },
        )?;
        // What a host saves goes into its acceptor's memory. Of others' snapshots a node takes what it has room for.
        differ(
            theirs.node == self.node && self.snapshot_len != theirs.snapshot_len,
            MeetError::SnapshotLen { ours: self.snapshot_len, theirs: theirs.snapshot_len },
        )?;
        // One that is not formed yet, or has lost its memory, is no stranger: the core knows what to do with it.
        differ(
            self.group != 0 && theirs.group != 0 && self.group != theirs.group,
            MeetError::Group { ours: self.group, theirs: theirs.group },
        )?;
        differ(theirs.boot.0 == 0 || theirs.incarnation.0 == 0, MeetError::Malformed)
    }

    /// Whether `later` can be the same node as this one: one start of a process has one incarnation.
    pub(super) fn is_consistent_with(&self, later: &Identity) -> bool {
        self.boot != later.boot || self.incarnation == later.incarnation
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) fn identity(node: u8) -> Identity {
        Identity {
            layout: 1,
            group: 0,
            group_name: GroupName::new("orders").expect("a name"),
            node: NodeId(node),
            half: Half::Whole,
            boot: Boot(100 + u64::from(node)),
            incarnation: Incarnation(200 + u64::from(node)),
            ring_len: 1 << 20,
            max_entry: 1 << 17,
            snapshot_len: 1 << 16,
        }
    }

    #[test]
    fn names() {
        for good in ["a", "7", "orders-eu.1_x", &"n".repeat(32)] {
            assert_eq!(GroupName::new(good).expect(good).as_str(), good);
        }
        for wrong in ["", "-a", ".", "a b", "a/b", "a\n", "ä", &"n".repeat(33)] {
            assert!(GroupName::new(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn every_difference_is_named_with_both_values() {
        let ours = identity(1);
        let good = identity(2);
        assert_eq!(ours.check(&good, Some(NodeId(2))), Ok(()));
        assert_eq!(ours.check(&Identity { group: 7, ..good }, None), Ok(()));
        let said = |theirs: Identity| {
            let error = ours.check(&theirs, Some(NodeId(2))).expect_err("differs");
            // What one side finds wrong the other does, too, but for who was called.
            if !matches!(error, MeetError::Node { .. }) {
                assert!(theirs.check(&ours, None).is_err() || error == MeetError::Malformed, "{error}");
            }
            error.to_string()
        };
        let other_name = GroupName::new("billing").expect("a name");
        let text = said(Identity { group_name: other_name, ..good });
        assert!(text.contains("orders") && text.contains("billing"), "{text}");
        let text = said(Identity { layout: 9, ..good });
        assert!(text.contains('1') && text.contains('9'), "{text}");
        let text = said(Identity { ring_len: 2 << 20, ..good });
        assert!(text.contains("1048576") && text.contains("2097152"), "{text}");
        let text = said(Identity { max_entry: 64, ..good });
        assert!(text.contains("131072") && text.contains("64"), "{text}");
        assert_eq!(ours.check(&Identity { snapshot_len: 0, ..good }, None), Ok(()), "its own affair");
        let text = said(Identity { node: NodeId(3), ..good });
        assert!(text.contains("node 2") && text.contains("node 3"), "{text}");
        said(Identity { boot: Boot(0), ..good });
        said(Identity { boot: ours.boot, ..good });
        said(Identity { incarnation: ours.incarnation, ..good });
        said(ours);
        let ours = Identity { group: 5, ..ours };
        let text = ours.check(&Identity { group: 6, ..good }, None).expect_err("differs").to_string();
        assert!(text.contains("05") && text.contains("06"), "{text}");
    }

    #[test]
    fn halves_that_do_not_fit_are_named() {
        let of = |node, half, boot| Identity {
            half,
            boot: Boot(boot),
            incarnation: Incarnation(boot),
            ..identity(node)
        };
        let fits = |ours: Identity, theirs: Identity| {
            let both = [ours.check(&theirs, None), theirs.check(&ours, None)].map(|checked| checked.is_ok());
            assert_eq!(both[0], both[1]);
            both[0]
        };
        let host = of(1, Half::Proposer, 5);
        assert!(fits(host, of(1, Half::Acceptor, 6)), "its own acceptor");
        assert!(fits(host, of(2, Half::Acceptor, 6)) && fits(host, of(2, Half::Whole, 6)));
        assert!(fits(of(1, Half::Acceptor, 5), of(2, Half::Acceptor, 6)));
        assert!(!fits(host, of(2, Half::Proposer, 6)), "two hosts");
        assert!(!fits(host, of(1, Half::Whole, 6)), "it has none that is apart");
        assert!(!fits(of(1, Half::Acceptor, 5), of(1, Half::Acceptor, 6)), "two acceptors of one node");
        let text = host.check(&of(1, Half::Whole, 6), None).expect_err("not apart").to_string();
        assert!(text.contains("node 1") && text.contains("[dpu]"), "{text}");
        let other = Identity { snapshot_len: 1 << 17, ..of(1, Half::Acceptor, 6) };
        assert!(!fits(host, other));
        let text = host.check(&other, None).expect_err("it could not save there").to_string();
        assert!(text.contains("65536") && text.contains("131072"), "{text}");
    }

    #[test]
    fn one_boot_has_one_incarnation() {
        let first = identity(2);
        assert!(first.is_consistent_with(&first));
        assert!(first.is_consistent_with(&Identity { boot: Boot(9), incarnation: Incarnation(9), ..first }));
        assert!(first.is_consistent_with(&Identity { boot: Boot(9), ..first }));
        assert!(!first.is_consistent_with(&Identity { incarnation: Incarnation(9), ..first }));
    }
}
