//! Which transitions of the protocol's machines have happened, counted for the simulator: it names those it never reached.
//!
//! Only with the feature `marks`, which nothing but the tests' own feature turns on; without it marks are nothing, and cost
//! nothing. The counts are of the whole process, over all its replicas, and nothing in the core ever reads them.

macro_rules! machines {
    ($($(#[doc = $about:literal])+ $machine:ident $name:literal { $($(#[doc = $text:literal])+ $mark:ident,)* })*) => {
        $(
            $(#[doc = $about])+
            #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
            pub enum $machine { $($(#[doc = $text])+ $mark,)* }

            impl Machine for $machine {
                const NAME: &'static str = $name;
                const MARKS: &'static [Self] = &[$($machine::$mark),*];

                #[cfg(feature = "marks")]
                fn counter(self) -> &'static core::sync::atomic::AtomicU64 {
                    static COUNTS: [core::sync::atomic::AtomicU64; $machine::MARKS.len()] =
                        [const { core::sync::atomic::AtomicU64::new(0) }; $machine::MARKS.len()];
                    &COUNTS[self as usize]
                }

                fn text(self) -> &'static str {
                    match self {
                        $($machine::$mark => concat!($($text),+).trim_ascii(),)*
                    }
                }
            }
        )*
    };
}

/// A state machine whose transitions are counted.
pub trait Machine: Copy + 'static {
    /// What it is called.
    const NAME: &'static str;
    /// All its transitions.
    const MARKS: &'static [Self];

    /// How often it happened is counted here.
    #[cfg(feature = "marks")]
    fn counter(self) -> &'static core::sync::atomic::AtomicU64;

    /// The transition in words.
    fn text(self) -> &'static str;

    /// How often it has happened in this process.
    #[cfg(feature = "marks")]
    fn count(self) -> u64 {
        self.counter().load(core::sync::atomic::Ordering::Relaxed)
    }
}

machines! {
    /// What an acceptor does with a request, and with its writer (protocol.md 4 and 6).
    Acceptor "acceptor" {
        /// idle: the request that was answered last, repeated
        Repeated,
        /// idle: a request older than the one answered last, dropped
        Dropped,
        /// idle -> refused: behind
        RefusedBehind,
        /// idle -> refused: lease
        RefusedLease,
        /// idle -> refused: older than what is certainly here
        RefusedOlder,
        /// idle -> fencing, for a vote
        FencingForVote,
        /// idle -> fencing, for an access
        FencingForAccess,
        /// fencing -> abort: the fence took too long
        Abort,
        /// fencing -> refused: the beat moved meanwhile
        RefusedBySecondLook,
        /// fencing -> walking
        Walking,
        /// walking -> refused: older than what the walk found
        RefusedAfterWalk,
        /// walking -> granted, to the own proposer
        GrantedOwn,
        /// walking -> promised, to a peer that is armed and ready
        PromisedArmed,
        /// walking -> promised, to a peer that is not armed yet
        PromisedUnarmed,
        /// promised -> granted: the flag of the peer is set
        Granted,
        /// promised -> void: fenced before the grant was given
        PromiseVoided,
        /// granted -> void: the writer was fenced for a request
        WriterFenced,
        /// granted -> void: the writer's queue pair was closed, or broke
        WriterLost,
        /// busy: a request is kept until the operation ends
        PendingKept,
        /// busy: a kept request gives way to a heavier or newer one
        PendingReplaced,
        /// busy: a lighter request is dropped
        PendingDropped,
        /// idle again: the kept request is judged
        PendingJudged,
    }

    /// The acceptor's end of a log queue pair (protocol.md 4).
    Inbound "queue pair" {
        /// closed -> arming
        Arming,
        /// arming -> armed
        Armed,
        /// arming -> fencing: it could not be armed
        ArmFailed,
        /// armed -> granting
        Granting,
        /// granting -> granted
        Granted,
        /// granting -> fencing: the flag could not be set
        GrantFailed,
        /// armed -> fencing: the peer left or closed its end
        ArmedLeft,
        /// granted -> fencing: the peer left or closed its end
        GrantedLeft,
        /// granted -> fencing, for a request
        GrantedFenced,
        /// fencing -> closed
        Closed,
        /// fencing -> fencing: a fence failed
        FenceFailed,
    }

    /// From a silent leader to a majority of votes (protocol.md 7).
    Candidate "candidate" {
        /// idle -> looking: the leader is silent
        Looks,
        /// looking -> idle: the leader was heard
        HeardWhileLooking,
        /// looking -> waiting: a majority is quiet
        Ranked,
        /// looking: a higher promise is respected
        Respects,
        /// waiting -> idle: the leader was heard
        HeardWhileWaiting,
        /// looking or waiting -> idle: a snapshot is being loaded
        Loads,
        /// waiting -> looking: a higher promise appeared
        RespectsAgain,
        /// waiting -> asking the own acceptor
        Stands,
        /// told by a leader that hands over -> asking the own acceptor
        Told,
        /// a leader that gave up -> asking the own acceptor
        StandsAgain,
        /// asking the own acceptor -> ended: terms are exhausted
        Exhausted,
        /// asking the own acceptor -> ended: no answer in time
        OwnLate,
        /// asking the own acceptor -> ended: refused
        OwnRefused,
        /// asking the own acceptor -> ended: it promised to another
        OwnSuperseded,
        /// asking the own acceptor -> ended: no voter, by what its whole log says
        NoVoter,
        /// asking the own acceptor -> asking all
        AsksAll,
        /// asking all: refused for a lease, asked again
        AsksAgain,
        /// asking all: a voter that was not connected before is asked
        AsksLate,
        /// asking all -> elected
        Elected,
        /// asking all -> ended: behind
        Behind,
        /// asking all -> ended: a majority cannot be had, the log is older
        TooOld,
        /// asking all -> ended: no majority in time
        TimedOut,
        /// asking all -> ended: the own acceptor promised to another
        Superseded,
    }

    /// Why a leader stopped leading, and how it ended (protocol.md 8).
    Leader "leader" {
        /// elected -> its first entry is staged
        Started,
        /// its first entry is committed
        Committed,
        /// leads -> yields: a higher promise
        GaveUpHigherPromise,
        /// leads -> yields: the own acceptor promised anything else
        GaveUpOwnAcceptor,
        /// leads -> yields: no majority completes its beats
        GaveUpQuorumLost,
        /// leads -> yields: its first entry does not get committed
        GaveUpStuck,
        /// leads -> yields: it is no member any more
        GaveUpRemoved,
        /// yields -> follows
        Follows,
        /// leads -> hands over: *yielding* beats
        HandsOver,
        /// hands over: the follower has everything, and is told to stand
        TellsToStand,
        /// hands over -> leads on: nobody was elected
        LeadsOn,
    }

    /// How reads come to their answers (protocol.md 9).
    Reader "reader" {
        /// promises of a majority are asked for
        Checks,
        /// asking -> the check is passed
        Passed,
        /// follower read: the leader's line says what is committed
        Line,
        /// follower read: no leader that has committed anything stands in the line
        NoLine,
        /// follower read: promises name another, from the start
        LooksAgain,
        /// a quorum read is answered
        AnsweredQuorum,
        /// a follower read is answered
        AnsweredFollower,
        /// a lease read is answered
        AnsweredLease,
        /// reads have waited for too long
        Expired,
        /// reads end without an answer
        Failed,
    }

    /// What a log is known to hold (protocol.md 5).
    Walker "walker" {
        /// unconfirmed: a pass begins that nobody has confirmed
        Unconfirmed,
        /// fenced: a pass begins over a log that nobody writes
        FencedPass,
        /// fenced: walked to the end
        FencedDone,
        /// unconfirmed -> confirmed
        Confirmed,
        /// unconfirmed: the anchor moves to what a beat says is committed
        AnchorTold,
        /// fenced: the log has what is committed by another's word, and the anchor moves there
        Vouched,
        /// confirmed: the anchor moves
        AnchorMoved,
        /// confirmed -> damaged: final bytes are not valid any more
        Damaged,
    }

    /// What becomes of the configurations that a log holds, and of who is in them (protocol.md 10).
    Member "membership" {
        /// a fresh node is told that it is a member
        Joined,
        /// a node that was never heard of asks something, and is connected to
        MetStranger,
        /// a learner is added
        Added,
        /// a learner is promoted
        Promoted,
        /// a member is taken out by its leader
        Removed,
        /// a leader takes itself out
        RemovedItself,
        /// a voter that lost its memory becomes a returning learner
        Readmitted,
        /// a returning learner is promoted by itself
        PromotedAgain,
        /// a change is refused: another one is under way, or it is too early
        RefusedBusy,
        /// a promotion is refused: not caught up
        RefusedBehind,
        /// a removed member has been told, and is left
        ToldRemoved,
        /// a removed member could not be told in time, and is left
        LeftUntold,
        /// a leader that took itself out has told all, and hands over
        HandsOver,
        /// a leader that took itself out could not hand over, and gives up
        GivesUpRemoved,
        /// a node that is none of its newest configuration stands all the same, for the one at its anchor
        StandsRemoved,
        /// a configuration is passed by the anchor
        Anchored,
        /// a configuration above the anchor is replaced, or its pass begins anew
        Replaced,
        /// removed: by the own log
        FoundRemoved,
        /// removed: by the block of another node
        ReadRemoved,
        /// too many voters are other lives than the configuration names
        MajorityLost,
        /// a new group is made of what a survivor holds
        NewGroup,
    }

    /// How a follower that is below the ring gets a snapshot (protocol.md 11).
    Snapshot "snapshot" {
        /// leader: resting -> saving, by a follower
        AsksFollower,
        /// leader: resting -> saving, by itself
        AsksItself,
        /// leader: saving -> taking: the source has saved it
        Offered,
        /// leader: saving -> the next source: it left the window, died, or began anew
        SourceLeft,
        /// leader: saving -> the next source: it cannot
        SourceUnable,
        /// leader: saving -> the next source: it takes too long
        SourceLate,
        /// leader: saving -> resting: there is no source left
        NoSource,
        /// leader: a follower is told what to take
        TellsTarget,
        /// leader: taking -> asking: a follower has it
        Done,
        /// leader: taking -> the next source: a follower could not get it
        Lost,
        /// leader: taking: a follower needs a newer one
        TargetWantsNewer,
        /// leader: taking: a follower cannot take one
        TargetUnable,
        /// leader: taking -> saving: its base has passed the snapshot
        Passed,
        /// leader: taking -> resting: nobody is left who may take this one
        Exhausted,
        /// leader: saving or taking -> resting: nobody needs one any more
        Deserted,
        /// leader: saving or taking -> resting: the ring was held for long enough
        LetRingGo,
        /// source: the application is told to write its state
        Saves,
        /// source: the snapshot can be had
        Saved,
        /// source: the application could not
        SaveFailed,
        /// source: the host that is apart is told to save
        Orders,
        /// source: what an acceptor has taken for its host can be had of it
        Keeps,
        /// target: idle -> taking
        Begins,
        /// target: told the same once more, it goes on where it was
        Resumes,
        /// target: told to take another in the middle of one
        Switches,
        /// target: taking -> idle: nobody tells it to any more
        Abandoned,
        /// target: taking -> done: it has applied all that by now
        ThereAlready,
        /// target: taking -> refused: no room, or an application that cannot go on
        CannotTake,
        /// target: taking -> lost: the source has begun anew
        SourceAnew,
        /// target: taking -> lost: the source is not reached
        SourceSilent,
        /// target: taking -> lost: the source has another snapshot, or none
        HeaderGone,
        /// target: taking -> lost: it was another one in the end
        HeaderChanged,
        /// target: taking -> lost: the bytes are not those of the header
        BytesWrong,
        /// target: whole -> refused: older than where its log begins
        TooOld,
        /// target: whole -> loading
        Loads,
        /// target: loading -> the log begins behind it
        Installed,
        /// target: loading -> refused: the application cannot
        LoadFailed,
        /// target: whole -> done: the log has all that, and goes on
        Kept,
        /// target: an acceptor has one that its host has not taken yet
        Pinned,
        /// host: looks for a snapshot in its acceptor's area
        Seeks,
        /// host: has found one there
        Found,
    }

    /// What an application is handed.
    Applier "applier" {
        /// a payload is applied
        Applied,
        /// a no-op is skipped
        SkippedNoOp,
        /// a configuration is skipped
        SkippedConfig,
        /// a pad is skipped
        SkippedPad,
        /// stuck: the kind of an entry is not known here
        StuckUnknown,
        /// stuck: what is committed is not valid here
        StuckInvalid,
        /// stuck: the log is damaged
        StuckDamaged,
        /// stuck: what comes next is not in the acceptor's ring any more
        StuckBelow,
    }
}

impl Reader {
    /// A read of that kind is answered.
    pub(crate) fn answered(how: Read) -> Reader {
        match how {
            Read::Quorum => Reader::AnsweredQuorum,
            Read::Follower => Reader::AnsweredFollower,
            Read::Lease => Reader::AnsweredLease,
        }
    }
}

/// A transition happens.
#[cfg(feature = "marks")]
pub(crate) fn mark(mark: impl Machine) {
    mark.counter().fetch_add(1, core::sync::atomic::Ordering::Relaxed);
}

/// A transition happens: nobody counts it.
#[cfg(not(feature = "marks"))]
#[inline(always)]
pub(crate) fn mark(_: impl Machine) {}

use crate::proposer::FollowerState;
use crate::read::Read;

/// States of a follower, in the order of their table.
pub const FOLLOWER_STATES: [FollowerState; 7] = [
    FollowerState::Down,
    FollowerState::Asking,
    FollowerState::Preparing,
    FollowerState::Window,
    FollowerState::Broken,
    FollowerState::LetGo,
    FollowerState::Behind,
];

#[cfg(feature = "marks")]
static FOLLOWERS: [[core::sync::atomic::AtomicU64; 7]; 7] =
    [const { [const { core::sync::atomic::AtomicU64::new(0) }; 7] }; 7];

/// A leader's view of a follower changes from one state to another.
#[cfg(feature = "marks")]
pub(crate) fn follower(from: FollowerState, to: FollowerState) {
    FOLLOWERS[from as usize][to as usize].fetch_add(1, core::sync::atomic::Ordering::Relaxed);
}

/// A leader's view of a follower changes: nobody counts it.
#[cfg(not(feature = "marks"))]
#[inline(always)]
pub(crate) fn follower(_: FollowerState, _: FollowerState) {}

/// How often leaders' views of followers changed from one state to the other in this process.
#[cfg(feature = "marks")]
pub fn follower_count(from: FollowerState, to: FollowerState) -> u64 {
    FOLLOWERS[from as usize][to as usize].load(core::sync::atomic::Ordering::Relaxed)
}
