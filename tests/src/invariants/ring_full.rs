//! Invariant 13: no sequence of entries fills a ring for ever. A log that has no room for what would empty it is lost.
//!
//! Judged when a healed group does not get well: if nothing was acknowledged while leaders refused proposals for lack of room,
//! it is this, and not only slow.

use super::Violation;

/// How it was when the group was healed.
#[derive(Clone, Copy, Debug)]
pub struct RingFull {
    /// Proposals refused for lack of room before.
    refused: u64,
}

impl RingFull {
    /// From now on leaders must find room again.
    pub fn new(refused: u64) -> RingFull {
        RingFull { refused }
    }

    /// How many were refused since.
    pub fn refused(&self, refused: u64) -> u64 {
        refused - self.refused
    }

    /// The group has not got well in time; `what` it lacks, and whether it is proposals.
    pub fn judge(&self, refused: u64, lacks_proposals: bool, what: &str) -> Result<(), Violation> {
        let full = self.refused(refused);
        if lacks_proposals && full > 0 {
            return Err(Violation::new(13, format!("{what}; {full} were refused as full")));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_lack_of_proposals_with_refusals_is_a_full_ring() {
        let ring_full = RingFull::new(5);
        assert!(ring_full.judge(5, true, "").is_ok());
        assert!(ring_full.judge(9, false, "").is_ok());
        assert_eq!(ring_full.judge(9, true, "").map_err(|found| found.invariant), Err(13));
    }
}
