//! How long a leader may take for granted that nobody else leads (protocol.md 9): the other half of the acceptors' lease.
//!
//! An acceptor keeps its lease from the moment at which it *saw* a beat, a leader counts from the moment at which it *posted*
//! it, and less by what two clocks may differ: so the leader's half ends first. No clock is read here.

use crate::mem::Memory;
use crate::planted::{self, Bug};
use crate::proposer::{Proposer, Role, Work};
use crate::quorum::reached;
use crate::types::{Instant, MAX_NODES, NodeId};

impl Proposer {
    /// Whether the beats that a majority has completed, the own acceptor among them, still keep every other from being
    /// elected. Only voters count; neither *yielding* beats do, nor those posted before one.
    pub(crate) fn holds_lease<M: Memory>(&self, on: &Work<M>) -> bool {
        let Some(allowed) = self.lease_reads else { return false };
        let gives_up = self.lead.transfer.is_some() && !planted::is(Bug::LeaseKeptInTransfer);
        if self.role != Role::Leader || !self.lead.has_committed() || gives_up {
            return false;
        }
        let binding = |node: NodeId| {
            let posted = self.peers[node].binds?;
            let later = posted > self.lead.binding_after || planted::is(Bug::LeaseByYieldingBeats);
            later.then_some(posted)
        };
        let own_id = self.me.node;
        let Some(own) = binding(own_id) else { return false };
        let members = on.configuration.members().map(|member| member.node);
        let mut posted: heapless::Vec<Instant, MAX_NODES> =
            members.filter(|node| *node == own_id || self.is_voter(on, *node)).filter_map(binding).collect();
        let Some(majority) = reached(on.configuration.voters(), &mut posted) else { return false };
        on.now.since(majority.min(own)) < lease_ns(self.timing.lease_ns, allowed.clocks_drift_below_ppm)
    }
}

/// A leader's lease from the posting of its beats: an acceptor whose clock is faster by the whole bound keeps to its own for
/// longer than that.
fn lease_ns(acceptors_ns: u64, drift_ppm: u64) -> u64 {
    if planted::is(Bug::LeaseWithoutDrift) {
        return acceptors_ns;
    }
    acceptors_ns.saturating_mul(1_000_000 - drift_ppm.min(1_000_000)) / 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leaders_lease_is_shorter_by_the_drift() {
        assert_eq!(lease_ns(40_000_000, 1_000), 39_960_000);
        assert_eq!(lease_ns(800_000, 200_000), 640_000);
        assert_eq!(lease_ns(1, 1_000), 0);
    }
}
