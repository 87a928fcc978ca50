//! One value for each possible node, indexed by its id.

use core::ops::{Index, IndexMut};

use crate::types::{MAX_NODES, NodeId};

/// A row a node, 1..=15; row 0 belongs to nobody and is never iterated over.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Table<T>([T; MAX_NODES + 1]);

impl<T> Table<T> {
    pub(crate) fn from_fn(mut make: impl FnMut(NodeId) -> T) -> Table<T> {
        Table(core::array::from_fn(|slot| make(NodeId(slot as u8))))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().skip(1)
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.0.iter_mut().skip(1)
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = (NodeId, &T)> {
        self.0.iter().enumerate().skip(1).map(|(slot, value)| (NodeId(slot as u8), value))
    }

    pub(crate) fn entries_mut(&mut self) -> impl Iterator<Item = (NodeId, &mut T)> {
        self.0.iter_mut().enumerate().skip(1).map(|(slot, value)| (NodeId(slot as u8), value))
    }
}

impl<T> Index<NodeId> for Table<T> {
    type Output = T;

    /// Panics for an id above 15: ids from memory are checked before.
    #[inline]
    fn index(&self, node: NodeId) -> &T {
        &self.0[node.slot()]
    }
}

impl<T> IndexMut<NodeId> for Table<T> {
    #[inline]
    fn index_mut(&mut self, node: NodeId) -> &mut T {
        &mut self.0[node.slot()]
    }
}

#[cfg(feature = "model")]
impl<T> Table<T> {
    /// The canonical form of each row.
    pub(crate) fn canonical<C: crate::canonical::Canonical>(
        &self,
        out: &mut C,
        mut row: impl FnMut(NodeId, &T, &mut C),
    ) {
        for (node, value) in self.entries() {
            if out.knows(node) {
                row(node, value, out);
            }
        }
    }
}
