//! Section 8 with `quorum = "live"`: whom a leader counts runs, and without a majority of them it gives up. A commit that
//! counts on the dead is held by fewer than it says, and a leader of the dead keeps its clients waiting for ever (5, 14).
//!
//! What a leader knows of others is old by what carries it: bounded here by how long anything may take to arrive.

use ringleader_core::timing::Timing;
use ringleader_core::types::NodeId;

use super::Violation;
use super::configurations::voters;
use crate::view::Member;

/// What a reading, a line or a completion is old by at the most when it is taken note of, in `suspect_after`s.
const OLD: u64 = 16;

/// When each node's processor was last seen to run.
#[derive(Clone, Debug)]
pub struct LiveQuorum {
    timing: Timing,
    stored: bool,
    ran_ns: [u64; 16],
    /// When its proposer was, which may be another processor's, and the time before.
    led_ns: [u64; 16],
    before_ns: [u64; 16],
}

impl LiveQuorum {
    /// Of a group with these timers; `stored`: those that do not run count as well.
    pub fn new(timing: Timing, stored: bool) -> LiveQuorum {
        LiveQuorum { timing, stored, ran_ns: [0; 16], led_ns: [0; 16], before_ns: [0; 16] }
    }

    /// A node comes round in its loop.
    pub fn runs(&mut self, node: NodeId, (acceptor, proposer): (bool, bool), now_ns: u64) {
        if proposer {
            self.before_ns[node.slot()] = self.led_ns[node.slot()];
            self.led_ns[node.slot()] = now_ns;
        }
        if acceptor {
            self.ran_ns[node.slot()] = now_ns;
        }
    }

    /// A leader commits something.
    pub fn commits(&self, leader: &Member, now_ns: u64) -> Result<(), Violation> {
        let within_ns = self.timing.alive_within_ns;
        self.judge(leader, now_ns, within_ns, 5, "commits")
    }

    /// A node stepped: whoever leads has a majority that runs, or had it a short while ago.
    pub fn after_step(&self, member: &Member, now_ns: u64) -> Result<(), Violation> {
        if !member.seen.leads {
            return Ok(());
        }
        let timing = &self.timing;
        let within_ns = timing.alive_within_ns + 2 * timing.quorum_lost_ns + timing.campaign_timeout_ns;
        self.judge(member, now_ns, within_ns, 14, "leads")
    }

    fn judge(
        &self,
        leader: &Member,
        now_ns: u64,
        within_ns: u64,
        invariant: u8,
        does: &str,
    ) -> Result<(), Violation> {
        if self.stored {
            return Ok(());
        }
        // A leader that was stopped takes note of old things when it goes on.
        let stopped_ns = now_ns - self.before_ns[leader.id.slot()];
        let since_ns = now_ns.saturating_sub(within_ns + OLD * self.timing.suspect_after_ns + stopped_ns);
        let all = voters(&leader.configuration);
        let running: Vec<u8> = all
            .iter()
            .filter(|(id, _)| *id == leader.id || self.ran_ns[id.slot()] >= since_ns)
            .map(|(id, _)| id.0)
            .collect();
        if running.len() * 2 <= all.len() {
            return Err(Violation::new(
                invariant,
                format!(
                    "node {} {does}; in the last {} us only {running:?} have run",
                    leader.id,
                    (now_ns - since_ns) / 1000
                ),
            ));
        }
        Ok(())
    }
}
