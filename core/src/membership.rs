//! Configurations: who is a member, in which role and in which incarnation, and what one change makes of it (protocol.md 10).
//!
//! A change adds a learner, promotes one, or takes one member out; a member that lost its memory is taken out and added as a
//! learner by one entry. In each case the voters of two configurations in a row differ by at most one, so that their
//! majorities meet.

use crate::layout::{ConfigBlock, MAX_ADDRESS_LEN, MemberRecord};
use crate::planted::{self, Bug};
use crate::types::{Incarnation, Index, MAX_NODES, NodeId, Term};

/// Whether a member's vote counts.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Role {
    /// It counts.
    Voter,
    /// It does not.
    Learner,
    /// It does not, and the leader promotes it when it has caught up: a voter that lost its memory.
    Returning,
}

/// Where a host finds a node, in the host's own words: a few opaque bytes, or none.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Address {
    len: u8,
    bytes: [u8; MAX_ADDRESS_LEN],
}

impl Address {
    /// No address: the host knows without one.
    pub const NONE: Address = Address { len: 0, bytes: [0; MAX_ADDRESS_LEN] };

    /// These bytes; `None` when they are more than [`MAX_ADDRESS_LEN`].
    pub fn new(address: &[u8]) -> Option<Address> {
        let mut bytes = [0; MAX_ADDRESS_LEN];
        bytes.get_mut(..address.len())?.copy_from_slice(address);
        Some(Address { len: address.len() as u8, bytes })
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

/// A member of a group.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Member {
    /// Its id.
    pub node: NodeId,
    /// The life of its promise and log that is meant; another one is a stranger.
    pub incarnation: Incarnation,
    /// Voter or learner.
    pub role: Role,
    /// For the host.
    pub address: Address,
}

impl Member {
    /// A voter without an address.
    pub fn voter(node: NodeId, incarnation: Incarnation) -> Member {
        Member { node, incarnation, role: Role::Voter, address: Address::NONE }
    }
}

/// One step from a configuration to the next.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Change {
    /// A node becomes a learner, in the life that is connected.
    Add {
        /// The node.
        node: NodeId,
        /// For the hosts of all members.
        address: Address,
    },
    /// A learner becomes a voter.
    Promote {
        /// The learner.
        node: NodeId,
    },
    /// A member is none any more.
    Remove {
        /// The member.
        node: NodeId,
    },
    /// A member that lost its memory is none any more, and a learner in the life that is connected; a voter is promoted
    /// by itself when it has caught up.
    Readmit {
        /// The member.
        node: NodeId,
    },
}

/// What a leader does about a member that lost its memory.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Readmit {
    /// It tells its host, and an operator decides.
    #[default]
    Ask,
    /// It readmits it.
    Auto,
}

impl Change {
    /// Whom it is about.
    pub fn node(&self) -> NodeId {
        match *self {
            Change::Add { node, .. }
            | Change::Promote { node }
            | Change::Remove { node }
            | Change::Readmit { node } => node,
        }
    }
}

/// Why a configuration is not changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ChangeError {
    /// This node does not lead.
    NotLeader {
        /// Who this node follows; nobody when it does not know.
        leader: NodeId,
    },
    /// This leader's first entry is not committed yet.
    TooEarly,
    /// Another change is not committed yet.
    Busy,
    /// No room in the ring until more is applied.
    Full,
    /// There are no such node ids.
    Node,
    /// It is a member already.
    Member,
    /// It is no member.
    NotMember,
    /// It is a voter already.
    Voter,
    /// It is not connected to the leader: not there, or of another group.
    NotConnected,
    /// The node that is connected is another life of the member: readmit it.
    LostMemory,
    /// The life that is connected was taken out before: it has to start anew, without its memory.
    RemovedLife,
    /// The member has not lost its memory: the life that is connected is the one that is meant.
    SameLife,
    /// The learner is not in window, or behind by more than one window.
    NotCaughtUp {
        /// Bytes of the log that it lacks; `u64::MAX` when it is not in window.
        behind: u64,
    },
    /// Nobody would be left to vote.
    LastVoter,
    /// The voters that run now would be no majority afterwards: the group would stop.
    WouldStop {
        /// Voters that would count.
        alive: usize,
        /// Voters that there would be.
        voters: usize,
    },
}

/// Who is in the group, by the entry that said so.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Configuration {
    /// The group; 0 before it is formed.
    pub group: u128,
    /// Index of the entry; 0 for the configuration the group was formed with.
    pub index: Index,
    /// Term of the entry.
    pub term: Term,
    /// Ascending ids.
    members: heapless::Vec<Member, MAX_NODES>,
    /// How many of them are voters.
    voters: usize,
    /// Of each node, 1..=15, the last life that was taken out; 0: none.
    removed: [u64; MAX_NODES],
}

/// What comes before the members' records in the payload of an entry: how many there are, and who was taken out.
const PAYLOAD_HEAD: usize = 8 + MAX_NODES * 8;

impl Default for Configuration {
    fn default() -> Self {
        Configuration {
            group: 0,
            index: Index(0),
            term: Term(0),
            members: heapless::Vec::new(),
            voters: 0,
            removed: [0; MAX_NODES],
        }
    }
}

impl Configuration {
    /// Bytes of the longest payload of a configuration entry.
    pub const MAX_PAYLOAD: usize = PAYLOAD_HEAD + MAX_NODES * size_of::<MemberRecord>();

    /// The configuration a group is formed with.
    pub fn formed(group: u128, members: impl IntoIterator<Item = Member>) -> Configuration {
        let mut configuration = Configuration::unknown(group);
        for member in members {
            configuration.add(member);
        }
        configuration
    }

    /// What a node knows of its group before it has seen a configuration of it: nobody is a member, nobody votes.
    pub fn unknown(group: u128) -> Configuration {
        Configuration { group, ..Configuration::default() }
    }

    /// The same, as that of an entry.
    pub(crate) fn at(self, index: Index, term: Term) -> Configuration {
        Configuration { index, term, ..self }
    }

    /// Puts a member in its place; `false` when there is one of that id.
    fn add(&mut self, member: Member) -> bool {
        match self.members.binary_search_by_key(&member.node, |member| member.node) {
            Ok(_) => false,
            Err(at) => {
                self.voters += usize::from(member.role == Role::Voter);
                self.members.insert(at, member).is_ok()
            }
        }
    }

    /// Takes a member out.
    fn take(&mut self, node: NodeId) -> Option<Member> {
        let at = self.members.iter().position(|member| member.node == node)?;
        let member = self.members.remove(at);
        self.voters -= usize::from(member.role == Role::Voter);
        Some(member)
    }

    /// What the change makes of it, by the entry after `index` of `term`. `connected`: the life that is connected, if any.
    pub fn changed(
        &self,
        change: &Change,
        connected: Option<Incarnation>,
        (index, term): (Index, Term),
    ) -> Result<Configuration, ChangeError> {
        let node = change.node();
        if !node.is_valid() {
            return Err(ChangeError::Node);
        }
        let mut next = Configuration { index, term, ..self.clone() };
        let former = next.take(node);
        let member = match (*change, former) {
            (Change::Add { .. }, Some(_)) => return Err(ChangeError::Member),
            (_, None) if !matches!(change, Change::Add { .. }) => return Err(ChangeError::NotMember),
            (Change::Add { address, .. }, _) => {
                let incarnation = connected.ok_or(ChangeError::NotConnected)?;
                Some(Member { node, incarnation, role: Role::Learner, address })
            }
            (Change::Promote { .. }, Some(Member { role: Role::Voter, .. })) => {
                return Err(ChangeError::Voter);
            }
            (Change::Promote { .. }, Some(former)) => {
                if connected.ok_or(ChangeError::NotConnected)? != former.incarnation {
                    return Err(ChangeError::LostMemory);
                }
                Some(Member { role: Role::Voter, ..former })
            }
            (Change::Readmit { .. }, Some(former)) => {
                let incarnation = connected.ok_or(ChangeError::NotConnected)?;
                if incarnation == former.incarnation {
                    return Err(ChangeError::SameLife);
                }
                let role = match former.role {
                    Role::Learner => Role::Learner,
                    _ if planted::is(Bug::ReplaceInOneStep) => Role::Voter,
                    _ => Role::Returning,
                };
                Some(Member { incarnation, role, ..former })
            }
            (Change::Remove { .. }, _) | (_, None) => None,
        };
        // Who was taken out stays out: a log that is behind could not tell which came last.
        if member.is_some_and(|member| self.has_removed(node, member.incarnation)) {
            return Err(ChangeError::RemovedLife);
        }
        let goes = |former: &Member| member.is_none_or(|member| member.incarnation != former.incarnation);
        if let Some(former) = former.filter(goes)
            && !planted::is(Bug::RemovedForgotten)
        {
            next.removed[usize::from(node.0) - 1] = former.incarnation.0;
        }
        if let Some(member) = member {
            next.add(member);
        }
        if next.voters == 0 { Err(ChangeError::LastVoter) } else { Ok(next) }
    }

    /// Whether there is a group at all.
    pub fn is_formed(&self) -> bool {
        self.group != 0
    }

    /// The members, by id.
    pub fn members(&self) -> impl Iterator<Item = &Member> {
        self.members.iter()
    }

    /// The member of that id.
    pub fn member(&self, node: NodeId) -> Option<&Member> {
        self.members.iter().find(|member| member.node == node)
    }

    /// Whether that life of that node is a member.
    pub fn names(&self, node: NodeId, incarnation: Incarnation) -> bool {
        self.member(node).is_some_and(|member| member.incarnation == incarnation)
    }

    /// Whether that life was a member, and was the last of that node to be taken out: it never comes back.
    pub fn has_removed(&self, node: NodeId, incarnation: Incarnation) -> bool {
        let last = usize::from(node.0).checked_sub(1).and_then(|at| self.removed.get(at));
        incarnation.0 != 0 && last == Some(&incarnation.0)
    }

    /// Whether the node's vote counts.
    pub fn is_voter(&self, node: NodeId) -> bool {
        self.member(node).is_some_and(|member| member.role == Role::Voter)
    }

    /// The entry that made it; (0, 0) when the group was formed with it.
    pub(crate) fn entry(&self) -> (Term, Index) {
        (self.term, self.index)
    }

    /// How many votes there are.
    pub fn voters(&self) -> usize {
        self.voters
    }

    /// The block that stands for it in registered memory, but for how far it is known committed.
    pub fn block(&self) -> ConfigBlock {
        let mut block = ConfigBlock {
            group_low: self.group as u64,
            group_high: (self.group >> 64) as u64,
            index: self.index.0,
            term: self.term.0,
            removed: self.removed,
            ..ConfigBlock::default()
        };
        for (record, member) in block.members.iter_mut().zip(self.members()) {
            *record = record_of(member);
        }
        block
    }

    /// The configuration in a block; `None` when it makes no sense.
    pub fn from_block(block: &ConfigBlock) -> Option<Configuration> {
        let group = u128::from(block.group_high) << 64 | u128::from(block.group_low);
        let used = block.members.iter().take_while(|record| record.node != 0);
        (group != 0)
            .then(|| {
                Configuration::from_records(
                    group,
                    (Index(block.index), Term(block.term)),
                    block.removed,
                    used,
                )
            })
            .flatten()
    }

    /// The payload of its entry, and how long it is: the number of members as a word, the lives that were taken out, the
    /// members' records.
    pub fn payload(&self) -> ([u8; Self::MAX_PAYLOAD], usize) {
        let mut bytes = [0; Self::MAX_PAYLOAD];
        let (head, records) = bytes.split_at_mut(PAYLOAD_HEAD);
        let words = [self.members.len() as u64].into_iter().chain(self.removed);
        for (to, word) in head.chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        for (to, member) in records.chunks_exact_mut(size_of::<MemberRecord>()).zip(self.members()) {
            to.copy_from_slice(zerocopy::IntoBytes::as_bytes(&record_of(member)));
        }
        (bytes, PAYLOAD_HEAD + self.members.len() * size_of::<MemberRecord>())
    }

    /// The configuration in the payload of an entry; `None` when it makes no sense.
    pub fn from_payload(group: u128, index: Index, term: Term, payload: &[u8]) -> Option<Configuration> {
        let (head, records) = payload.split_first_chunk::<PAYLOAD_HEAD>()?;
        let (count, removed) =
            <[[u8; 8]; 1 + MAX_NODES] as zerocopy::FromBytes>::ref_from_bytes(head).ok()?.split_first()?;
        let records: &[MemberRecord] = zerocopy::FromBytes::ref_from_bytes(records).ok()?;
        let removed = core::array::from_fn(|at| u64::from_le_bytes(removed[at]));
        let whole = u64::from_le_bytes(*count) == records.len() as u64;
        whole.then(|| Configuration::from_records(group, (index, term), removed, records)).flatten()
    }

    fn from_records<'a>(
        group: u128,
        (index, term): (Index, Term),
        removed: [u64; MAX_NODES],
        records: impl IntoIterator<Item = &'a MemberRecord>,
    ) -> Option<Configuration> {
        let mut configuration = Configuration { index, term, removed, ..Configuration::unknown(group) };
        for record in records {
            let role = match record.role {
                1 => Role::Voter,
                2 => Role::Learner,
                3 => Role::Returning,
                _ => return None,
            };
            let address = Address::new(record.address.get(..usize::from(record.address_len))?)?;
            let node = NodeId(record.node);
            let member = Member { node, incarnation: Incarnation(record.incarnation), role, address };
            let again = configuration.has_removed(node, member.incarnation);
            if !node.is_valid() || record.incarnation == 0 || again || !configuration.add(member) {
                return None;
            }
        }
        (configuration.voters() > 0).then_some(configuration)
    }

    /// What locks to this configuration and nothing else: its group is drawn at random, and each member's incarnation was.
    pub fn hash(&self) -> u64 {
        // FNV-1a; it tells configurations of one forming apart, it guards against nobody.
        let block = self.block();
        zerocopy::IntoBytes::as_bytes(&block)
            .iter()
            .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
    }
}

fn record_of(member: &Member) -> MemberRecord {
    MemberRecord {
        incarnation: member.incarnation.0,
        node: member.node.0,
        role: match member.role {
            Role::Voter => 1,
            Role::Learner => 2,
            Role::Returning => 3,
        },
        address_len: member.address.len,
        address: member.address.bytes,
        ..MemberRecord::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn three() -> Configuration {
        let member = |id: u8| Member::voter(NodeId(id), Incarnation(100 + u64::from(id)));
        Configuration::formed(7 << 64 | 9, (1..=3).map(member))
    }

    const AT: (Index, Term) = (Index(8), Term(3));

    #[test]
    fn a_block_gives_its_configuration_back() {
        let configuration = three();
        assert_eq!(Configuration::from_block(&configuration.block()), Some(configuration.clone()));
        assert_eq!(configuration.voters(), 3);
        assert!(configuration.names(NodeId(2), Incarnation(102)));
        assert!(!configuration.names(NodeId(2), Incarnation(103)));
    }

    #[test]
    fn a_block_that_makes_no_sense_is_none() {
        let mut block = three().block();
        block.members[1].node = 1;
        assert_eq!(Configuration::from_block(&block), None, "a node twice");
        block.members[1].node = 16;
        assert_eq!(Configuration::from_block(&block), None, "no such node");
        block = three().block();
        block.members[0].role = 4;
        assert_eq!(Configuration::from_block(&block), None, "no such role");
        block = three().block();
        block.members[0].address_len = 49;
        assert_eq!(Configuration::from_block(&block), None, "a longer address than there can be");
        assert_eq!(Configuration::from_block(&ConfigBlock::default()), None, "nothing");
    }

    #[test]
    fn a_payload_gives_its_configuration_back() {
        let address = Address::new(b"10.0.0.4:7400").expect("short enough");
        let change = Change::Add { node: NodeId(4), address };
        let next = three().changed(&change, Some(Incarnation(9)), AT).expect("a new node");
        let (bytes, len) = next.payload();
        assert_eq!(len, 8 + 15 * 8 + 4 * 64);
        let of = |bytes: &[u8]| Configuration::from_payload(next.group, AT.0, AT.1, bytes);
        assert_eq!(of(&bytes[..len]).as_ref(), Some(&next));
        assert_eq!(
            next.member(NodeId(4)).map(|member| member.address.as_bytes()),
            Some(&b"10.0.0.4:7400"[..])
        );
        assert_eq!(of(&bytes[..len - 1]), None);
        assert_eq!(of(&bytes[..len - 64]), None);
        assert_eq!(of(&[]), None);
    }

    /// Whatever is done, the voters of two configurations in a row differ by at most one life.
    #[test]
    fn every_change_leaves_majorities_that_meet() {
        let voters = |of: &Configuration| {
            of.members()
                .filter(|member| member.role == Role::Voter)
                .map(|member| (member.node, member.incarnation))
                .collect::<std::collections::BTreeSet<_>>()
        };
        let mut all = std::vec![three()];
        for _ in 0..4 {
            let mut grown = all.clone();
            for before in &all {
                for node in (1..=5).map(NodeId) {
                    let changes = [
                        Change::Add { node, address: Address::NONE },
                        Change::Promote { node },
                        Change::Remove { node },
                        Change::Readmit { node },
                    ];
                    for life in [100 + u64::from(node.0), 200] {
                        for change in &changes {
                            let Ok(next) = before.changed(change, Some(Incarnation(life)), AT) else {
                                continue;
                            };
                            assert!(voters(before).symmetric_difference(&voters(&next)).count() <= 1);
                            assert_eq!(next.voters(), voters(&next).len());
                            if !grown.contains(&next) {
                                grown.push(next);
                            }
                        }
                    }
                }
            }
            all = grown;
            all.truncate(300);
        }
        assert!(all.len() > 100);
    }

    /// Whatever comes between, and however it travels.
    #[test]
    fn a_life_that_was_removed_stays_out() {
        let (node, life) = (NodeId(3), Incarnation(103));
        let left = three().changed(&Change::Remove { node }, None, AT).expect("two are left");
        let others = left.changed(&Change::Remove { node: NodeId(1) }, None, AT).expect("one is left");
        let (bytes, len) = others.payload();
        let walked = Configuration::from_payload(others.group, AT.0, AT.1, &bytes[..len]).expect("whole");
        let read = Configuration::from_block(&others.block()).expect("whole");
        for known in [left, others, walked, read] {
            assert!(known.has_removed(node, life) && !known.has_removed(node, Incarnation(0)));
            let add = |life| known.changed(&Change::Add { node, address: Address::NONE }, Some(life), AT);
            assert_eq!(add(life).unwrap_err(), ChangeError::RemovedLife);
            assert!(add(Incarnation(7)).expect("another life").names(node, Incarnation(7)));
        }
    }

    #[test]
    fn a_member_that_was_removed_makes_no_sense() {
        let mut block = three().block();
        block.removed[2] = 103;
        assert_eq!(Configuration::from_block(&block), None);
        block.removed[2] = 104;
        assert!(Configuration::from_block(&block).is_some());
    }

    #[test]
    fn refusals_name_their_reason() {
        let three = three();
        let of = |change, life| three.changed(&change, life, AT).map(|_| ()).unwrap_err();
        let node = NodeId(3);
        let (same, other) = (Some(Incarnation(103)), Some(Incarnation(7)));
        assert_eq!(of(Change::Add { node, address: Address::NONE }, other), ChangeError::Member);
        assert_eq!(of(Change::Promote { node }, same), ChangeError::Voter);
        assert_eq!(of(Change::Promote { node: NodeId(4) }, same), ChangeError::NotMember);
        assert_eq!(of(Change::Remove { node: NodeId(16) }, None), ChangeError::Node);
        assert_eq!(of(Change::Readmit { node }, same), ChangeError::SameLife);
        assert_eq!(of(Change::Readmit { node }, None), ChangeError::NotConnected);
        let returning = three.changed(&Change::Readmit { node }, other, AT).expect("a voter that came back");
        assert_eq!(returning.voters(), 2);
        let promote = Change::Promote { node };
        assert_eq!(returning.changed(&promote, same, AT).unwrap_err(), ChangeError::LostMemory);
        assert_eq!(returning.changed(&promote, other, AT).expect("caught up").voters(), 3);
        let again = returning.changed(&Change::Readmit { node }, same, AT);
        assert_eq!(again.unwrap_err(), ChangeError::RemovedLife, "the life that it lost");
        let one = Configuration::formed(1, [Member::voter(node, Incarnation(1))]);
        assert_eq!(one.changed(&Change::Remove { node }, None, AT).unwrap_err(), ChangeError::LastVoter);
    }
}
