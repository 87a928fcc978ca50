//! All durations, as C has them.

use ringleader_core::timing::Timing;

use crate::convert::{Sized32, growing, status};
use crate::status::{ringleader_status, ringleader_status as S};

/// All durations and sizes that tune the protocol; the same on all nodes. Take a profile by `ringleader_timing_profile`, and change
/// what has to be changed. Durations are in nanoseconds, sizes in bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ringleader_timing {
    /// `sizeof(ringleader_timing)`.
    pub size: u32,
    /// So often in a row is one and the same beat excused.
    pub max_excuses: u32,
    /// A leader beats this often.
    pub beat_ns: u64,
    /// A beat that has not moved for this long makes its leader suspect: five beats at least, and the worst pause of a poller.
    pub suspect_after_ns: u64,
    /// A suspect's progress must be seen to move within this.
    pub probe_deadline_ns: u64,
    /// Votes are refused for this long after a beat was seen to move. Below `suspect_after_ns`.
    pub lease_ns: u64,
    /// And for this long after a grant.
    pub grant_grace_ns: u64,
    /// A candidate of rank r waits r times this.
    pub stagger_ns: u64,
    /// And up to this more, at random.
    pub jitter_ns: u64,
    /// A request that is not answered is written again this often.
    pub repeat_ns: u64,
    /// A candidate without a majority gives up after this.
    pub campaign_timeout_ns: u64,
    /// A leader without a majority of completed beats gives up after this.
    pub quorum_lost_ns: u64,
    /// A follower whose liveness has not moved for this does not count.
    pub alive_within_ns: u64,
    /// A fence that takes longer ends the process.
    pub fence_limit_ns: u64,
    /// A leader holds its ring for a follower that takes a snapshot for this long at the most.
    pub catchup_limit_ns: u64,
    /// Bound of the difference of two clocks' rates, in parts per million.
    pub drift_ppm: u64,
    /// Largest single WRITE.
    pub max_write: u32,
    /// Bytes on their way to one follower.
    pub inflight: u32,
}

/// Several nodes on one shared machine, whose pollers lose their processor for milliseconds.
pub const RINGLEADER_TIMING_LOCAL: u32 = 0;
/// The kernel's software NIC, in virtual machines.
pub const RINGLEADER_TIMING_SOFT_ROCE: u32 = 1;
/// Nodes on NICs of their own, pinned pollers.
pub const RINGLEADER_TIMING_HARDWARE: u32 = 2;

// SAFETY: `repr(C)`, integers alone, the size first, a multiple of 8 bytes.
unsafe impl Sized32 for ringleader_timing {
    const FIRST: usize = size_of::<ringleader_timing>();
}

impl ringleader_timing {
    /// As the core has it.
    pub fn core(&self) -> Timing {
        Timing {
            beat_ns: self.beat_ns,
            suspect_after_ns: self.suspect_after_ns,
            probe_deadline_ns: self.probe_deadline_ns,
            max_excuses: self.max_excuses,
            lease_ns: self.lease_ns,
            grant_grace_ns: self.grant_grace_ns,
            stagger_ns: self.stagger_ns,
            jitter_ns: self.jitter_ns,
            repeat_ns: self.repeat_ns,
            campaign_timeout_ns: self.campaign_timeout_ns,
            quorum_lost_ns: self.quorum_lost_ns,
            alive_within_ns: self.alive_within_ns,
            fence_limit_ns: self.fence_limit_ns,
            catchup_limit_ns: self.catchup_limit_ns,
            max_write: self.max_write,
            inflight: self.inflight,
            drift_ppm: self.drift_ppm,
        }
    }

    fn of(timing: &Timing) -> ringleader_timing {
        ringleader_timing {
            size: size_of::<ringleader_timing>() as u32,
            max_excuses: timing.max_excuses,
            beat_ns: timing.beat_ns,
            suspect_after_ns: timing.suspect_after_ns,
            probe_deadline_ns: timing.probe_deadline_ns,
            lease_ns: timing.lease_ns,
            grant_grace_ns: timing.grant_grace_ns,
            stagger_ns: timing.stagger_ns,
            jitter_ns: timing.jitter_ns,
            repeat_ns: timing.repeat_ns,
            campaign_timeout_ns: timing.campaign_timeout_ns,
            quorum_lost_ns: timing.quorum_lost_ns,
            alive_within_ns: timing.alive_within_ns,
            fence_limit_ns: timing.fence_limit_ns,
            catchup_limit_ns: timing.catchup_limit_ns,
            drift_ppm: timing.drift_ppm,
            max_write: timing.max_write,
            inflight: timing.inflight,
        }
    }
}

/// The profile of a number of C.
pub fn profile(number: u32) -> Result<Timing, S> {
    match number {
        RINGLEADER_TIMING_LOCAL => Ok(Timing::LOCAL),
        RINGLEADER_TIMING_SOFT_ROCE => Ok(Timing::SOFT_ROCE),
        RINGLEADER_TIMING_HARDWARE => Ok(Timing::HARDWARE),
        _ => Err(S::RINGLEADER_OPTION),
    }
}

/// Fills a timing with a profile: one of `RINGLEADER_TIMING_…`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringleader_timing_profile(
    number: u32,
    out: *mut ringleader_timing,
) -> ringleader_status {
    status((|| {
        // SAFETY: by the conventions.
        let out = unsafe { growing(out) }?;
        out.set(ringleader_timing::of(&profile(number)?));
        Ok(())
    })())
}
