//! Bugs that can be planted, to prove that simulator and model find them.
//!
//! Only with the feature `planted`, which nothing but the tests' own `planted` feature turns on; without it [`is`] is
//! `false` at compile time and no trace of a bug is left. One bug at a time is planted, for the whole process: all of them
//! are in one build. Numbers in the descriptions are sections of docs/protocol.md.

/// Whether this build can have a bug planted. Programs that are not tests refuse to be compiled with it.
pub const IN_THIS_BUILD: bool = cfg!(feature = "planted");

macro_rules! bugs {
    ($($(#[doc = $about:literal])* $bug:ident = $name:literal,)*) => {
        /// A mistake somebody could make in the core. Each breaks it in one place.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[repr(u8)]
        #[non_exhaustive]
        pub enum Bug {
            /// None: the core as it is.
            None = 0,
            $($(#[doc = $about])* $bug,)*
        }

        impl Bug {
            /// All that can be planted.
            pub const ALL: &'static [Bug] = &[$(Bug::$bug),*];

            /// Its name on command lines and in tables.
            pub const fn name(self) -> &'static str {
                match self {
                    Bug::None => "none",
                    $(Bug::$bug => $name,)*
                }
            }

            /// What is broken, and which sections forbid it.
            pub const fn about(self) -> &'static str {
                match self {
                    Bug::None => "The core as it is.",
                    $(Bug::$bug => concat!($($about),*).trim_ascii_start(),)*
                }
            }
        }
    };
}

bugs! {
    /// What an acceptor's last look found before the fence is taken for what stays after it (6, step 6).
    WalkBeforeFence = "walk-before-fence",
    /// An acceptor promises while the former writer's fence is not proved yet (6, step 4).
    PromiseBeforeFence = "promise-before-fence",
    /// An unconfirmed pass goes on from the last valid entry, not from the anchor (5).
    WalkFromValid = "walk-from-valid",
    /// Bytes below `matched` confirm a walk, whoever's entries they are (5).
    ConfirmWithoutOwnTerm = "confirm-without-own-term",
    /// A vote is granted though the beat moved while its leader was being fenced (6, step 5).
    NoSecondLook = "no-second-look",
    /// A leader writes its beat into its own log area without its acceptor's grant (4).
    BeatsOutsideFence = "beats-outside-fence",
    /// A leader counts its own copy after its own acceptor took the grant back (4, 8).
    OwnCopyWithoutGrant = "own-copy-without-grant",
    /// A leader counts what it has sent for what has landed (8, Commit).
    CommitBeyondMatched = "commit-beyond-matched",
    /// Entries of older terms are committed by being held by a majority (8, Commit).
    CommitOlderTerms = "commit-older-terms",
    /// A beat carries the leader's commit to a follower that does not have all of it (8, Commit).
    BeatCommitAboveMatched = "beat-commit-above-matched",
    /// A leader that gave up tells its followers what its successor has committed (8, Commit).
    YieldingBeatTellsAnchor = "yielding-beat-tells-anchor",
    /// An entry's CRC does not go on from the one before (3).
    CrcNotChained = "crc-not-chained",
    /// An entry is taken for valid by its header and its lap, whatever its CRC (3, judge).
    CrcNotChecked = "crc-not-checked",
    /// The entry behind a pad takes the pad's index once more (3; 14, 4).
    PadIndexReused = "pad-index-reused",
    /// A proposal behind a pad is told the pad's index for its own (14, 6).
    TicketOfThePad = "ticket-of-the-pad",
    /// A candidate leads with one vote less than a majority (7).
    MinorityElected = "minority-elected",
    /// An acceptor votes for whoever asks in the term of its promise (6, step 1).
    DoubleVote = "double-vote",
    /// A candidate's log is not compared with what the fence left (6, step 6).
    NoOlderCheck = "no-older-check",
    /// What is refused for its log is promised all the same (6).
    RefusalThatPromises = "refusal-that-promises",
    /// A vote is not answered before the candidate's queue pair is armed (6, step 7).
    VoteWaitsForArming = "vote-waits-for-arming",
    /// A broken follower is not asked again before its queue pair is armed (8).
    BrokenWaitsForArming = "broken-waits-for-arming",
    /// An acceptor arms its end while the peer's is not known closed (2, A3; 4, step 3).
    ArmBeforeClosed = "arm-before-closed",
    /// What the completions of an earlier epoch have matched is counted in the next one (8).
    EarlierEpochCounted = "earlier-epoch-counted",
    /// A leader begins where a follower's log ends, without looking whether its own has the same entry there (8, preparing).
    StartUnchecked = "start-unchecked",
    /// A new leadership uses the staging ring while WRITEs of the one before still read it (8, Room).
    StageBeforeDrained = "stage-before-drained",
    /// A source byte is reused while a WRITE that reads it is outstanding (8, Room).
    SourceByteReused = "source-byte-reused",
    /// A follower's slot is overwritten before it is applied there (8, Room).
    FollowerSlotReused = "follower-slot-reused",
    /// `base` is the end less a ring, as if nothing could have landed above the end (1).
    BaseFromEnd = "base-from-end",
    /// A follower's ring is filled to the brim, and the next leader's first entry finds no room (8, Reserve).
    RingWithoutReserve = "ring-without-reserve",
    /// A leader takes payload for its half of the ring's reserve (8, Reserve).
    LeaderReserveTaken = "leader-reserve-taken",
    /// A follower whose processor does not run counts for a commit (8, Commit).
    ZombieCounted = "zombie-counted",
    /// Beats to followers that do not run keep a leader in office (8).
    QuorumOfTheDead = "quorum-of-the-dead",
    /// A voter that lost its memory is a voter again by one entry (10).
    ReplaceInOneStep = "replace-in-one-step",
    /// A change is begun while another one is not committed (10).
    TwoChangesAtATime = "two-changes-at-a-time",
    /// A configuration is in force only when it is known committed (10).
    ConfigWhenCommitted = "config-when-committed",
    /// A leader changes the configuration before its first entry is committed (10).
    ChangeBeforeNoOp = "change-before-no-op",
    /// A configuration forgets who was taken out: that life may come back (10; 14, 9).
    RemovedForgotten = "removed-forgotten",
    /// A learner counts for a commit (10; 14, 9).
    LearnerCounted = "learner-counted",
    /// A voter that was removed counts for a commit until it is told (10; 14, 9).
    RemovedCounted = "removed-counted",
    /// A learner asks for votes, and counts its own (10).
    LearnerCampaigns = "learner-campaigns",
    /// A configuration stays in force when the suffix it stood in was replaced (5, 10).
    ConfigNotRolledBack = "config-not-rolled-back",
    /// A read that arrives while a check is under way is answered by that check (9, quorum and follower reads).
    ReadJoinsCheck = "read-joins-check",
    /// Promises that were read before a read arrived count for its check (9, quorum and follower reads).
    EarlierReadingsCounted = "earlier-readings-counted",
    /// A leader answers from what it knew committed before its own first entry was (9, quorum read).
    ReadBeforeOwnEntry = "read-before-own-entry",
    /// A follower read takes what is known committed here for what the leader has committed (9, follower read).
    LeadersLineSkipped = "leaders-line-skipped",
    /// A follower read counts promises whatever they say (9, follower read).
    AnyPromiseCounted = "any-promise-counted",
    /// The leader line is written after clients were answered (9, follower read).
    LineAfterAnswer = "line-after-answer",
    /// A leader that hands over goes on answering by its lease (9, lease).
    LeaseKeptInTransfer = "lease-kept-in-transfer",
    /// A leader that was to hand over and leads on counts its lease from *yielding* beats, or those before (9, lease).
    LeaseByYieldingBeats = "lease-by-yielding-beats",
    /// Beats that a follower did not see before the next one was being written bind it to nothing (6, step 2).
    TornBeatUnseen = "torn-beat-unseen",
    /// A node votes for itself within the lease of another leader's beat (6, step 2).
    SelfVoteSkipsLease = "self-vote-skips-lease",
    /// A leader counts its lease from the completion of its beats (9, lease).
    LeaseFromCompletion = "lease-from-completion",
    /// A leader counts its lease by its own clock as if all clocks were the same (9, lease).
    LeaseWithoutDrift = "lease-without-drift",
    /// A lease is judged by a reading of the clock from before the read arrived (9, lease read).
    LeaseByOlderClock = "lease-by-older-clock",
    /// A completion counts though WRITEs are to be confirmed by READ (8).
    CompletionCounted = "completion-counted",
    /// A snapshot is given, told of and loaded, however old it is (11).
    SnapshotTakesBack = "snapshot-takes-back",
    /// A follower is served from below `base` (8, preparing; 14, 12).
    ServedBelowBase = "served-below-base",
    /// What lies below an installed snapshot is served (1, base; 11).
    BaseWithoutSnapshot = "base-without-snapshot",
    /// A snapshot is loaded without a second look at its header, and whatever its CRC (11).
    SnapshotUnchecked = "snapshot-unchecked",
    /// A leader recycles what follows the snapshot that a follower takes (11).
    HoldsNothing = "holds-nothing",
    /// Entries are applied while the application writes its state (11).
    ApplyWhileSaving = "apply-while-saving",
    /// The log begins behind a snapshot before the application has become it (11).
    InstalledBeforeLoaded = "installed-before-loaded",
    /// The configuration of a snapshot is not taken over (11).
    SnapshotConfigForgotten = "snapshot-config-forgotten",
    /// A node that installs a snapshot forgets what it promised (11).
    SnapshotForgetsPromise = "snapshot-forgets-promise",
    /// A host reports a commit that the line in its acceptor's memory does not show yet (13).
    CommitBeforeLine = "commit-before-line",
    /// A host asks the others before it has READ what its acceptor's log ends with (13).
    AsksBeforeItsLog = "asks-before-its-log",
    /// An acceptor begins its log behind a snapshot though that goes on beyond it (13).
    SnapshotReplacesLog = "snapshot-replaces-log",
}

#[cfg(feature = "planted")]
static PLANTED: core::sync::atomic::AtomicU8 = core::sync::atomic::AtomicU8::new(0);

/// Plants a bug in every replica of this process, instead of the one before.
#[cfg(feature = "planted")]
pub fn plant(bug: Bug) {
    PLANTED.store(bug as u8, core::sync::atomic::Ordering::Relaxed);
}

/// Whether that bug is planted.
#[cfg(feature = "planted")]
#[inline]
pub fn is(bug: Bug) -> bool {
    PLANTED.load(core::sync::atomic::Ordering::Relaxed) == bug as u8
}

/// Whether that bug is planted: never.
#[cfg(not(feature = "planted"))]
#[inline]
pub const fn is(_: Bug) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bug_has_a_name_of_its_own() {
        for (at, bug) in Bug::ALL.iter().enumerate() {
            assert!(Bug::ALL[..at].iter().all(|other| other.name() != bug.name()), "{}", bug.name());
            assert!(bug.about().ends_with(").") && !bug.about().starts_with(' '), "{}", bug.about());
        }
    }
}
