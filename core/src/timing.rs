//! All durations and sizes that tune the protocol, in three profiles (protocol.md 14, Timers).

/// Durations are in nanoseconds, sizes in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timing {
    /// A leader beats this often.
    pub beat_ns: u64,
    /// A beat that has not moved for this long makes its leader suspect. At least five beats, and the worst pause of a poller.
    pub suspect_after_ns: u64,
    /// A suspect's progress line must be seen to move within this.
    pub probe_deadline_ns: u64,
    /// So often in a row is one and the same beat excused.
    pub max_excuses: u32,
    /// An acceptor refuses votes for this long after it saw a beat move. Below `suspect_after_ns`.
    pub lease_ns: u64,
    /// And for this long after it gave a grant.
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
    /// A fence that takes longer makes the agent abort; on shared memory a writer stopped in mid-copy is shot after a quarter.
    pub fence_limit_ns: u64,
    /// A leader holds its ring for a follower that takes a snapshot for this long at the most.
    pub catchup_limit_ns: u64,
    /// Largest single WRITE.
    pub max_write: u32,
    /// Bytes on their way to one follower.
    pub inflight: u32,
    /// Bound of the difference of two clocks' rates, in parts per million.
    pub drift_ppm: u64,
}

const US: u64 = 1_000;
const MS: u64 = 1_000_000;

impl Timing {
    /// Nodes on NICs of their own, pinned pollers.
    pub const HARDWARE: Timing = Timing {
        beat_ns: 100 * US,
        suspect_after_ns: MS,
        probe_deadline_ns: 100 * US,
        max_excuses: 3,
        lease_ns: 800 * US,
        grant_grace_ns: 2 * MS,
        stagger_ns: 400 * US,
        jitter_ns: 200 * US,
        repeat_ns: 200 * US,
        campaign_timeout_ns: 4 * MS,
        quorum_lost_ns: 5 * MS,
        alive_within_ns: 10 * MS,
        fence_limit_ns: 200 * MS,
        catchup_limit_ns: 10_000 * MS,
        max_write: 64 << 10,
        inflight: 256 << 10,
        drift_ppm: 1000,
    };

    /// The kernel's software NIC, in virtual machines.
    pub const SOFT_ROCE: Timing = Timing {
        beat_ns: 10 * MS,
        suspect_after_ns: 100 * MS,
        probe_deadline_ns: 20 * MS,
        max_excuses: 3,
        lease_ns: 80 * MS,
        grant_grace_ns: 200 * MS,
        stagger_ns: 30 * MS,
        jitter_ns: 15 * MS,
        repeat_ns: 20 * MS,
        campaign_timeout_ns: 300 * MS,
        quorum_lost_ns: 500 * MS,
        alive_within_ns: 1000 * MS,
        fence_limit_ns: 5000 * MS,
        catchup_limit_ns: 10_000 * MS,
        max_write: 16 << 10,
        inflight: 64 << 10,
        drift_ppm: 1000,
    };

    /// Several nodes on one shared machine: pollers lose their processor for milliseconds.
    pub const LOCAL: Timing = Timing {
        beat_ns: 5 * MS,
        suspect_after_ns: 50 * MS,
        probe_deadline_ns: 10 * MS,
        max_excuses: 3,
        lease_ns: 40 * MS,
        grant_grace_ns: 100 * MS,
        stagger_ns: 15 * MS,
        jitter_ns: 7_500 * US,
        repeat_ns: 10 * MS,
        campaign_timeout_ns: 150 * MS,
        quorum_lost_ns: 250 * MS,
        alive_within_ns: 500 * MS,
        fence_limit_ns: 2000 * MS,
        catchup_limit_ns: 10_000 * MS,
        max_write: 64 << 10,
        inflight: 256 << 10,
        drift_ppm: 1000,
    };

    /// Whether a group can live by it.
    pub fn is_sound(&self) -> bool {
        const HOUR: u64 = 3_600_000 * MS;
        let durations = [
            self.beat_ns,
            self.suspect_after_ns,
            self.probe_deadline_ns,
            self.lease_ns,
            self.grant_grace_ns,
            self.stagger_ns,
            self.jitter_ns,
            self.repeat_ns,
            self.campaign_timeout_ns,
            self.quorum_lost_ns,
            self.alive_within_ns,
            self.fence_limit_ns,
            self.catchup_limit_ns,
        ];
        let sizes = [self.max_write, self.inflight];
        durations.iter().all(|ns| (1..=HOUR).contains(ns))
            && sizes.iter().all(|len| *len >= 64 && len.is_multiple_of(64))
            && self.suspect_after_ns >= 5 * self.beat_ns
            && self.lease_ns < self.suspect_after_ns
            && self.quorum_lost_ns > self.beat_ns
            && self.drift_ppm < 500_000
    }

    /// How long a read may wait before it ends without an answer: a leader that has lost its majority has noticed by then,
    /// and another may have been elected.
    pub fn read_limit_ns(&self) -> u64 {
        2 * self.quorum_lost_ns
    }

    /// A host that is apart, and of whom nothing new was heard for so long, is taken for down by its acceptor.
    pub fn host_silent_ns(&self) -> u64 {
        self.suspect_after_ns / 2
    }

    /// How long after its start an acceptor grants no vote: a lease it no longer remembers may still run,
    /// `lease / (1 - drift)`.
    pub fn start_silence_ns(&self) -> u64 {
        let kept = 1_000_000 - self.drift_ppm;
        (self.lease_ns * 1_000_000).div_ceil(kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_profiles_are_sound_and_what_contradicts_itself_is_not() {
        let sound = Timing::LOCAL;
        assert!(Timing::HARDWARE.is_sound() && Timing::SOFT_ROCE.is_sound() && sound.is_sound());
        assert!(!Timing { repeat_ns: 0, ..sound }.is_sound());
        assert!(!Timing { drift_ppm: 1_000_000, ..sound }.is_sound());
        assert!(!Timing { max_write: 7, ..sound }.is_sound());
        assert!(!Timing { lease_ns: u64::MAX, ..sound }.is_sound());
        assert!(!Timing { suspect_after_ns: sound.beat_ns, ..sound }.is_sound());
    }

    #[test]
    fn a_start_is_silent_for_longer_than_any_lease() {
        assert_eq!(Timing::LOCAL.start_silence_ns(), 40_040_041);
    }
}
