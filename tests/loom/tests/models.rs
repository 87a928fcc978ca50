//! What must hold holds in every order; and not without the barriers.

use std::sync::atomic::Ordering;

use ringleader_loom::models::{
    a_grant_hands_over, a_new_epoch_sees_what_was_before, every_proposal_has_one_outcome, no_mixture,
    the_grant_passes_on, what_was_pushed_is_taken, what_was_written_under_a_grant_is_over,
};
use ringleader_loom::{Weak, weakened};

macro_rules! holds {
    ($($test:ident: $model:ident;)*) => {
        $(#[test]
        fn $test() {
            $model();
        })*
    };
}

macro_rules! fails_without {
    ($($test:ident: $model:ident, $what:expr, $says:literal;)*) => {
        $(#[test]
        #[should_panic(expected = $says)]
        fn $test() {
            weakened($what, $model);
        })*
    };
}

holds! {
    a_complete_fence_ends_all_copies: what_was_written_under_a_grant_is_over;
    a_grant_hands_over_what_was_before: a_grant_hands_over;
    a_writer_of_the_next_epoch_comes_after_the_fence: a_new_epoch_sees_what_was_before;
    two_writers_are_never_in_their_copies_at_once: the_grant_passes_on;
    a_status_is_never_a_mixture: no_mixture;
    a_proposal_has_one_outcome_however_the_agent_ends: every_proposal_has_one_outcome;
    a_lane_is_over_only_when_all_was_taken: what_was_pushed_is_taken;
}

const FULL: Weak = Weak::Fence(Ordering::SeqCst);
const ACQUIRE: Weak = Weak::Fence(Ordering::Acquire);
const RELEASE: Weak = Weak::Fence(Ordering::Release);

fails_without! {
    a_fence_needs_the_full_fences: what_was_written_under_a_grant_is_over, FULL, "Causality violation";
    leaving_needs_its_release: what_was_written_under_a_grant_is_over, Weak::Stores, "Causality violation";
    finding_quiet_needs_its_acquire: what_was_written_under_a_grant_is_over, Weak::Loads, "Causality violation";
    passing_on_needs_the_full_fences: the_grant_passes_on, FULL, "Causality violation";
    giving_needs_its_release: a_grant_hands_over, Weak::Stores, "Causality violation";
    entering_needs_its_acquire: a_grant_hands_over, Weak::Loads, "Causality violation";
    posting_needs_its_fence: no_mixture, RELEASE, "a mixture";
    posting_needs_its_release: no_mixture, Weak::Stores, "a mixture";
    reading_needs_its_fence: no_mixture, ACQUIRE, "a mixture";
    reading_needs_its_acquire: no_mixture, Weak::Loads, "a mixture";
    a_handle_needs_the_fence_before_it_takes_the_last_reply: every_proposal_has_one_outcome, ACQUIRE, "one outcome more";
    an_agent_needs_the_fence_before_it_finds_a_lane_over: what_was_pushed_is_taken, ACQUIRE, "left in the lane";
}
