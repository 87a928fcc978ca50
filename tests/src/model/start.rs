//! The state that a search begins in: a group formed by a fixed schedule, and led if that is wanted.
//!
//! Also all times of the model: a clock moves by one wait, and a time-out either ends within that or never.

use std::sync::Arc;

use ringleader_core::options::{Half, Options};
use ringleader_core::proposer::{Confirm, OwnCopy, Quorum, Role};
use ringleader_core::replica::Replica;
use ringleader_core::timing::Timing;
use ringleader_core::types::{Boot, Incarnation, Instant, NodeId};

use super::actions::{Action, World};
use super::fabric::Fabric;
use super::memory::{Lent, use_rings_of};
use super::state::{Bounds, Node, Record, Spent, Start, State};
use crate::invariants::Violation;

/// A wait is as long as the longest time-out that can fire; what shall never fire takes an hour.
pub(crate) const WAIT_NS: u64 = 100;
const NEVER_NS: u64 = 3_600_000_000_000;

/// Time-outs that fire do so within one wait; repeats, lost quorums and whatever only helps progress never do: on a fabric
/// that loses nothing they would only add copies of what is under way.
const TIMING: Timing = Timing {
    beat_ns: 8,
    suspect_after_ns: WAIT_NS,
    probe_deadline_ns: 1,
    max_excuses: 0,
    lease_ns: 40,
    grant_grace_ns: 50,
    stagger_ns: 1,
    jitter_ns: 1,
    repeat_ns: NEVER_NS,
    campaign_timeout_ns: WAIT_NS,
    quorum_lost_ns: NEVER_NS,
    alive_within_ns: NEVER_NS,
    fence_limit_ns: NEVER_NS,
    catchup_limit_ns: NEVER_NS,
    max_write: 64,
    inflight: 64,
    drift_ppm: 1000,
};

impl World {
    /// The state that a search begins in, reached by a fixed schedule.
    pub fn first_state(&self) -> Result<State, Violation> {
        use_rings_of(self.map.ring_len());
        let fabric = Fabric::new();
        let form = Arc::new(fabric.form());
        let mut state = State {
            nodes: std::array::from_fn(|at| self.new_node(NodeId(at as u8 + 1))),
            fabric: Arc::new(fabric),
            fabric_form: form,
            record: Arc::new(Record::default()),
            spent: Spent::default(),
            held: 0,
        };
        let free = World {
            bounds: Bounds { candidates: u8::MAX, proposals: 0, faults: 0, breaks: 0, ..self.bounds },
            map: self.map.clone(),
        };
        free.settle(&mut state)?;
        let first = NodeId(1);
        free.step_node(&mut state, first, false, |replica, now| {
            replica.form(now, 0x6d6f_6465_6c00_0001).expect("a fresh node can be told to form");
        })?;
        free.settle(&mut state)?;
        let formed = State::ids().all(|id| state.node(id).replica.status().group != 0);
        assert!(formed, "the fixed schedule forms a group");
        let led = |state: &State| {
            let status = state.node(first).replica.status();
            let commit = status.commit;
            status.role == Role::Leader
                && commit.0 > 0
                && State::ids().all(|id| state.node(id).replica.status().applied.position == commit)
        };
        for _ in 0..20 {
            if self.bounds.start == Start::Formed || led(&state) {
                break;
            }
            for id in State::ids() {
                state = free.wait(&state, id)?;
                free.settle(&mut state)?;
            }
        }
        assert!(self.bounds.start == Start::Formed || led(&state), "the fixed schedule elects node 1");
        state.spent = Spent::default();
        Ok(state)
    }

    fn new_node(&self, node: NodeId) -> Node {
        let mut peers = [false; 16];
        State::ids().filter(|peer| *peer != node).for_each(|peer| peers[peer.slot()] = true);
        let options = Options {
            node,
            half: Half::Whole,
            peers,
            ring_len: self.map.ring_len(),
            max_entry: 64,
            snapshot_len: 0,
            timing: TIMING,
            quorum: Quorum::Live,
            own_copy: OwnCopy::Last,
            confirm: Confirm::Completion,
            lease_reads: None,
            incarnation: Incarnation(0x100 + u64::from(node.0)),
            boot: Boot(0x200 + u64::from(node.0)),
            seed: u64::from(node.0),
        };
        let clock = 1000;
        let zeroed = self.map.zeroed();
        let (replica, words) =
            self.map.lend(&zeroed, || Replica::tiny(options, Lent::areas(), Instant(clock)));
        let replica = replica.expect("the options of a model are sound");
        Node::new(&self.map, node, replica, words.unwrap_or(zeroed), clock)
    }

    /// Everything that can happen without a choice happens, in a fixed order.
    fn settle(&self, state: &mut State) -> Result<(), Violation> {
        loop {
            let next = self.fabric_actions(state).into_iter().next();
            if let Some(action) = next {
                *state = self.apply(state, action)?.expect("what is enabled happens");
                continue;
            }
            let mut moved = false;
            for id in State::ids() {
                if let Some(after) = self.apply(state, Action::Tick(id))? {
                    *state = after;
                    moved = true;
                    break;
                }
            }
            if !moved {
                return Ok(());
            }
        }
    }
}
