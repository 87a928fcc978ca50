//! Configurations: who is a member, in which role and in which incarnation (protocol.md 10).

use crate::layout::{ConfigBlock, MemberRecord};
use crate::types::{Incarnation, Index, MAX_NODES, NodeId, Term};

/// Whether a member's vote counts.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Role {
    /// It counts.
    Voter,
    /// It does not.
    Learner,
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
}

impl Default for Configuration {
    fn default() -> Self {
        Configuration { group: 0, index: Index(0), term: Term(0), members: heapless::Vec::new(), voters: 0 }
    }
}

impl Configuration {
    /// The configuration a group is formed with.
    pub fn formed(group: u128, members: impl IntoIterator<Item = Member>) -> Configuration {
        let mut configuration = Configuration { group, ..Configuration::default() };
        for member in members {
            configuration.add(member);
        }
        configuration
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

    /// The block that stands for it in registered memory.
    pub fn block(&self) -> ConfigBlock {
        let mut block = ConfigBlock {
            group_low: self.group as u64,
            group_high: (self.group >> 64) as u64,
            index: self.index.0,
            term: self.term.0,
            ..ConfigBlock::default()
        };
        for (record, member) in block.members.iter_mut().zip(self.members()) {
            *record = MemberRecord {
                incarnation: member.incarnation.0,
                node: member.node.0,
                role: match member.role {
                    Role::Voter => 1,
                    Role::Learner => 2,
                },
                reserved: [0; 6],
            };
        }
        block
    }

    /// The configuration in a block; `None` when it makes no sense.
    pub fn from_block(block: &ConfigBlock) -> Option<Configuration> {
        let mut configuration = Configuration {
            group: u128::from(block.group_high) << 64 | u128::from(block.group_low),
            index: Index(block.index),
            term: Term(block.term),
            ..Configuration::default()
        };
        for record in block.members.iter().take_while(|record| record.node != 0) {
            let node = NodeId(record.node);
            let role = match record.role {
                1 => Role::Voter,
                2 => Role::Learner,
                _ => return None,
            };
            let member = Member { node, incarnation: Incarnation(record.incarnation), role };
            if !node.is_valid() || record.incarnation == 0 || !configuration.add(member) {
                return None;
            }
        }
        (configuration.group != 0 && configuration.voters() > 0).then_some(configuration)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn three() -> Configuration {
        Configuration::formed(
            7 << 64 | 9,
            (1..=3).map(|id| Member {
                node: NodeId(id),
                incarnation: Incarnation(100 + u64::from(id)),
                role: Role::Voter,
            }),
        )
    }

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
        block.members[0].role = 3;
        assert_eq!(Configuration::from_block(&block), None, "no such role");
        assert_eq!(Configuration::from_block(&ConfigBlock::default()), None, "nothing");
    }
}
