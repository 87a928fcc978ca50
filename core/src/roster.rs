//! The configurations that a log holds: the one at the anchor, and the one in force (protocol.md 5 and 10).
//!
//! Follows the walker. The configuration at the anchor is final; the one in force is that of the last configuration entry of
//! the current walk, and falls back with the suffix that it stood in.

use crate::entry;
use crate::mark::{self, mark};
use crate::mem::{Area, Memory};
use crate::membership::Configuration;
use crate::planted::{self, Bug};
use crate::types::{Position, Term};
use crate::walker::{ConfigEntry, Walker};

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Roster {
    /// Of the entries at or below the anchor, or what the group was formed with.
    anchored: Configuration,
    anchored_entry: Option<ConfigEntry>,
    /// Of the last entry above it.
    walked: Option<Configuration>,
    walked_entry: Option<ConfigEntry>,
    /// Entries up to this term are of the group whose survivor this one was made of: their configurations say nothing.
    floor: Term,
}

impl Roster {
    pub(crate) fn new() -> Roster {
        Roster {
            anchored: Configuration::default(),
            anchored_entry: None,
            walked: None,
            walked_entry: None,
            floor: Term(0),
        }
    }

    /// A group begins here with this configuration. Entries up to its term say nothing.
    pub(crate) fn begin(&mut self, configuration: Configuration) {
        self.floor = configuration.term;
        self.anchored = configuration;
        self.walked = None;
        self.walked_entry = None;
    }

    /// The log begins anew behind a snapshot, with that configuration.
    pub(crate) fn install(&mut self, configuration: Configuration) {
        self.anchored = configuration;
        self.anchored_entry = None;
        self.walked = None;
        self.walked_entry = None;
    }

    /// The configuration at the anchor.
    pub(crate) fn anchored(&self) -> &Configuration {
        &self.anchored
    }

    /// The configuration in force, by the log alone.
    pub(crate) fn in_force(&self) -> &Configuration {
        match &self.walked {
            Some(walked) if !planted::is(Bug::ConfigWhenCommitted) => walked,
            _ => &self.anchored,
        }
    }

    /// The walker stepped. Returns whether the configuration at the anchor changed.
    pub(crate) fn follow<M: Memory>(&mut self, walker: &Walker, log: &Area<M>, ring_len: u64) -> bool {
        let anchored = walker.anchored_config();
        let moved = anchored != self.anchored_entry;
        if moved {
            self.anchored_entry = anchored;
            // A host that is apart may walk what is older than its acceptor's anchor.
            if let Some(next) = anchored.and_then(|entry| self.read(&entry, log, ring_len))
                && next.index >= self.anchored.index
            {
                mark(mark::Member::Anchored);
                self.anchored = next;
            }
        }
        if walker.walked_config() != self.walked_entry {
            let anchor = walker.anchor().position;
            if self.walked_entry.is_some_and(|former| former.next.position > anchor) {
                mark(mark::Member::Replaced);
            }
            self.walked_entry = walker.walked_config();
            self.walked = self.walked_entry.and_then(|entry| self.read(&entry, log, ring_len));
        }
        moved
    }

    /// The configuration of an entry: one that makes no sense here names nobody, so that nobody acts by it. `None` when its
    /// bytes are being replaced, or it is none of this group's.
    fn read<M: Memory>(&self, entry: &ConfigEntry, log: &Area<M>, ring_len: u64) -> Option<Configuration> {
        let mut words = [0; Configuration::MAX_PAYLOAD / 8];
        let (index, term) = (entry.next.index, entry.next.term);
        if term <= self.floor {
            return None;
        }
        let unknown = Configuration::unknown(self.anchored.group).at(index, term);
        let Some(len) = entry::copy_payload(log, ring_len, &entry.before, &entry.next, &mut words) else {
            // Final bytes that do not fit are not this version's.
            return (entry.next.position <= self.final_to()).then_some(unknown);
        };
        let bytes = &zerocopy::IntoBytes::as_bytes(&words)[..len];
        Some(Configuration::from_payload(self.anchored.group, index, term, bytes).unwrap_or(unknown))
    }

    fn final_to(&self) -> Position {
        self.anchored_entry.map_or(Position(0), |entry| entry.next.position)
    }
}

#[cfg(feature = "model")]
impl Roster {
    /// What it follows is the walker's.
    pub(crate) fn canonical(&self, out: &mut impl crate::canonical::Canonical) {
        let Roster { anchored, anchored_entry, walked, walked_entry, floor } = self;
        out.plain((anchored, anchored_entry, walked, walked_entry, floor));
    }
}
