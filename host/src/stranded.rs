//! Says of a follower that nothing brings it back by itself: once, until it is no longer so. A leader has status lines for it, and who
//! reads those is looking already.

use ringleader_core::replica::FollowerStatus;
use ringleader_core::snapshot::CatchUp;
use tracing::warn;

/// Of whom it was said: bit n for node n.
#[derive(Debug, Default)]
pub(crate) struct Stranded(u16);

impl Stranded {
    /// Looks at all followers of a leader, by id; there are none where this node does not lead.
    pub(crate) fn look(&mut self, followers: &[Option<FollowerStatus>]) {
        for (node, follower) in followers.iter().enumerate() {
            let (bit, catch_up) = (1 << node, follower.as_ref().and_then(|follower| follower.catch_up));
            let why = match catch_up {
                Some(CatchUp::NoSource) => "no node can save its state for it: does it fit into `snapshot`?",
                Some(CatchUp::Unable) => {
                    "it has no room for the state of another (`snapshot`), or cannot load it"
                }
                // The next attempt may end the same way.
                Some(_) => continue,
                None => {
                    self.0 &= !bit;
                    continue;
                }
            };
            if self.0 & bit == 0 {
                self.0 |= bit;
                warn!(node, "a follower has fallen below the ring, and stays there: {why}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringleader_core::proposer::FollowerState;
    use ringleader_core::types::{NodeId, Position};

    fn of(catch_up: Option<CatchUp>) -> [Option<FollowerStatus>; 3] {
        let follower = FollowerStatus {
            state: FollowerState::Behind,
            matched: Position(0),
            applied: Position(0),
            counts: false,
            catch_up,
        };
        [None, None, Some(follower)]
    }

    #[test]
    fn it_is_said_once_and_again_when_it_was_well_in_between() {
        let mut stranded = Stranded::default();
        let mut after = |catch_up| {
            stranded.look(&of(catch_up));
            stranded.0
        };
        assert_eq!(after(Some(CatchUp::Waiting)), 0);
        assert_eq!(after(Some(CatchUp::NoSource)), 1 << 2);
        assert_eq!(after(Some(CatchUp::Saving { source: NodeId(1) })), 1 << 2, "the next attempt");
        assert_eq!(after(Some(CatchUp::Unable)), 1 << 2);
        assert_eq!(after(None), 0);
        assert_eq!(after(Some(CatchUp::Unable)), 1 << 2);
    }
}
