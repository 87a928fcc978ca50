//! A node that hears no leader looks whether its group has gone on without it (protocol.md 10).
//!
//! Progress lines name the configuration at their anchor. One that is newer than the own is READ, as a block: a committed
//! configuration that does not name a node is how a node that was away learns that it was removed.

use crate::layout::{ConfigBlock, Line, control, staging};
use crate::link::Link;
use crate::mem::{Area, Memory};
use crate::membership::Configuration;
use crate::table::Table;
use crate::types::{Index, NodeId};
use crate::verb::{Class, NUMBER_MASK, RequestId, Verb};

/// The READ that is wanted or under way: one at a time.
#[derive(Clone, Default, Debug)]
pub(crate) struct Inquiry {
    of: Option<NodeId>,
    posted: bool,
    number: u32,
    /// The newest committed configuration that was looked at.
    seen: Index,
}

impl Inquiry {
    /// A progress line of that node names a configuration, which is newer than the own.
    pub(crate) fn want(&mut self, of: NodeId, index: Index) {
        if self.of.is_none() && index > self.seen {
            self.of = Some(of);
            self.posted = false;
        }
    }

    pub(crate) fn handle_down(&mut self, node: NodeId) {
        self.of = self.of.filter(|of| *of != node);
    }

    pub(crate) fn poll(&mut self, links: &Table<Link>) -> Option<Verb> {
        let peer = self.of.filter(|of| !self.posted && links[*of].is_up())?;
        self.posted = true;
        self.number = (self.number + 1) & NUMBER_MASK;
        Some(Verb::Read {
            id: RequestId {
                peer,
                class: Class::Config,
                epoch: links[peer].connection(),
                number: self.number,
            },
            from: control::CONFIG,
            to: staging::config(peer.slot()),
            len: size_of::<ConfigBlock>() as u32,
        })
    }

    /// The READ ended well: the configuration, if it is whole and known committed there.
    pub(crate) fn handle_block<M: Memory>(
        &mut self,
        from: NodeId,
        number: u32,
        area: &Area<M>,
    ) -> Option<Configuration> {
        if self.of != Some(from) || !self.posted || self.number != number {
            return None;
        }
        self.of = None;
        let block = ConfigBlock::read(area, staging::config(from.slot()))?;
        let configuration =
            Configuration::from_block(&block).filter(|_| block.index == block.anchor_index)?;
        self.seen = self.seen.max(configuration.index);
        Some(configuration)
    }
}

#[cfg(feature = "model")]
impl Inquiry {
    pub(crate) fn canonical(&self, out: &mut impl crate::canonical::Canonical) {
        let Inquiry { of, posted, number, seen } = self;
        out.plain((of, posted, number, seen));
    }
}
