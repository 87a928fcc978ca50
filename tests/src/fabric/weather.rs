//! How well or badly the simulated fabric behaves: all its delays and misbehaviours, as numbers a seed draws.
//!
//! Chances are in parts per million of the verbs concerned. What the fabric *promises* (protocol.md 2) holds in any
//! weather, except for `early_ppm` and the last two fields, which exist to show that breaking a promise is noticed.

use ringleader_core::verb::Class;

use super::ends::PipeId;

/// Delays and chances.
#[derive(Clone, Debug)]
pub struct Weather {
    /// One way through the network, usually.
    pub latency_ns: (u64, u64),
    /// Nanoseconds a byte takes on the wire, in thousandths.
    pub byte_ps: u64,
    /// A verb takes up to `tail_ns` longer.
    pub tail_ppm: u32,
    /// Longest extra delay of a verb.
    pub tail_ns: u64,
    /// A verb goes in pieces, in any order, each at a time of its own.
    pub split_ppm: u32,
    /// A split verb is split between words, not only between lines of 64 bytes.
    pub word_split_ppm: u32,
    /// A piece has left its source up to `flight_ns` before it arrives.
    pub flight_ppm: u32,
    /// Longest time on the way.
    pub flight_ns: u64,
    /// A piece passes the permission check up to `landing_ns` before it lands.
    pub landing_ppm: u32,
    /// Longest time between permission and landing.
    pub landing_ns: u64,
    /// A completion is up to `ack_ns` late.
    pub ack_late_ppm: u32,
    /// Longest delay of a completion.
    pub ack_ns: u64,
    /// A WRITE to a log completes when it has been let through, before it lands: only a READ behind it waits for that. Without
    /// `confirm = "readback"` the fabric breaks its promise so (protocol.md 2, A1).
    pub early_ppm: u32,
    /// A completion never comes.
    pub ack_lost_ppm: u32,
    /// From here on a queue pair completes nothing for up to `mute_ns`.
    pub mute_ppm: u32,
    /// Longest silence of a queue pair.
    pub mute_ns: u64,
    /// A WRITE lands in part, or not at all, and fails.
    pub partial_ppm: u32,
    /// A refusal, or a target that is gone, is told at once; else it is silence until the time-out.
    pub prompt_ppm: u32,
    /// A refused WRITE puts the acceptor's end into error, too.
    pub refusal_breaks_ppm: u32,
    /// A verb that got no answer fails after this.
    pub timeout_ns: u64,
    /// A verb that could not get through is sent again this often.
    pub resend_ns: u64,
    /// Connect, Open, Close, Arm and Grant take this long.
    pub state_ns: (u64, u64),
    /// One kind of these takes so much longer.
    pub slow_step: Option<(Class, u64)>,
    /// WRITEs over that queue pair are on their way for so long.
    pub slow_flight: Option<(PipeId, u64)>,
    /// One of these takes up to `state_tail_ns` longer.
    pub state_tail_ppm: u32,
    /// Longest extra delay of one of these.
    pub state_tail_ns: u64,
    /// Open, Close, Arm, Grant and Fence fail.
    pub step_fails_ppm: u32,
    /// A fence takes at least this long.
    pub fence_ns: (u64, u64),
    /// A fence takes up to `fence_tail_ns` longer.
    pub fence_tail_ppm: u32,
    /// Longest extra delay of a fence.
    pub fence_tail_ns: u64,
    /// An old writer's duplicate is acknowledged without landing when its target was armed too early.
    pub false_success_ppm: u32,
    /// Whether a fence waits for pieces that passed the permission check. Without it the fabric breaks its promise.
    pub fence_drains: bool,
    /// Whether a piece's permission is checked at all. Without it the fabric breaks its promise.
    pub checks_permission: bool,
}

impl Weather {
    /// A quiet day: everything arrives, soon and in one piece.
    pub fn calm(latency_ns: u64, timeout_ns: u64) -> Weather {
        Weather {
            latency_ns: (latency_ns / 2, latency_ns),
            byte_ps: 80,
            tail_ppm: 0,
            tail_ns: 0,
            split_ppm: 0,
            word_split_ppm: 0,
            flight_ppm: 0,
            flight_ns: 0,
            landing_ppm: 0,
            landing_ns: 0,
            ack_late_ppm: 0,
            ack_ns: 0,
            early_ppm: 0,
            ack_lost_ppm: 0,
            mute_ppm: 0,
            mute_ns: 0,
            partial_ppm: 0,
            prompt_ppm: 1_000_000,
            refusal_breaks_ppm: 0,
            timeout_ns,
            resend_ns: timeout_ns / 7,
            state_ns: (latency_ns, latency_ns * 4),
            slow_step: None,
            slow_flight: None,
            state_tail_ppm: 0,
            state_tail_ns: 0,
            step_fails_ppm: 0,
            fence_ns: (latency_ns, latency_ns * 8),
            fence_tail_ppm: 0,
            fence_tail_ns: 0,
            false_success_ppm: 250_000,
            fence_drains: true,
            checks_permission: true,
        }
    }
}

macro_rules! counts {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// How often each fault happened.
        #[derive(Clone, Copy, Default, Debug, serde::Serialize)]
        pub struct Faults {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Faults {
            /// Adds another run's.
            pub fn add(&mut self, other: &Faults) {
                $(self.$name += other.$name;)*
            }

            /// Each kind by its name.
            pub fn list(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name)),*].into_iter()
            }
        }
    };
}

counts! {
    /// WRITEs that landed in pieces.
    split_writes,
    /// READs whose words were read at different times.
    split_reads,
    /// READs in which a word changed between the first and the last of them.
    torn_reads,
    /// Pieces that were on their way for a while after they left their source.
    in_flight,
    /// WRITEs that completed before they landed.
    early_completions,
    /// Pieces that landed a while after they passed the permission check.
    late_landings,
    /// Pieces that a fence, a closed end or a death dropped.
    dropped_pieces,
    /// WRITEs refused for lack of permission.
    refused,
    /// Pieces refused, or for nobody, of which nobody said a word.
    silent_refusals,
    /// WRITEs that landed in part and failed.
    partial_writes,
    /// Completions that came late.
    late_completions,
    /// Completions that never came.
    lost_completions,
    /// WRITEs whose success was heard of only when their writer was fenced.
    completions_past_fence,
    /// Verbs that completed after later ones of another queue pair.
    reordered_completions,
    /// Queue pairs that went silent for a while.
    silences,
    /// Verbs that ended by the time-out.
    timeouts,
    /// Verbs flushed behind an error.
    flushed,
    /// Verbs sent again.
    resends,
    /// Fences that had to wait for pieces.
    fences_waited,
    /// Fences that took long.
    slow_fences,
    /// Duplicates acknowledged without landing.
    false_successes,
    /// Queue pairs broken.
    broken_queue_pairs,
    /// Queue pairs whose state took long to change.
    slow_steps,
    /// Queue pairs whose state could not be changed.
    failed_steps,
    /// Peers connected once more.
    reconnects,
    /// Links cut in one direction.
    cuts_one_way,
    /// Links cut in both directions.
    cuts_both_ways,
    /// Processes stopped.
    pauses,
    /// Processes stopped between two steps of their loop.
    stutters,
    /// Processes stopped for good, with memory that answers.
    zombies,
    /// Processes that ended because a fence did not.
    aborts,
    /// Processes killed, and their memory with them.
    crashes,
    /// Processes killed whose memory still answered.
    crashes_keeping_memory,
    /// Memory of the dead that was gone after a while.
    memories_lost_later,
    /// READs of the dead that were answered.
    reads_of_the_dead,
    /// WRITEs to the dead that landed.
    writes_to_the_dead,
    /// Processes started again without their memory.
    restarts,
    /// Nodes made slow.
    slow_nodes,
    /// Applications that took nothing for a while.
    stalled_applications,
    /// Clocks whose rates differ within the bound.
    clocks_within_bound,
    /// Clocks whose rates differ by more.
    clocks_beyond_bound,
    /// Applications that were told to write their state.
    snapshots_saved,
    /// Applications that became another's.
    snapshots_loaded,
    /// Applications that could not.
    snapshots_failed,
    /// Leads that were to be handed over.
    transfers,
    /// Clients that proposed an unknown payload again.
    reproposals,
    /// Changes of the members that an operator asked for and got.
    member_changes,
    /// Changes of the members that were refused for good.
    member_changes_refused,
    /// Proposals refused for lack of room.
    full,
}
