//! The models: each is run to its end by loom, and panics when something it must hold does not.

mod fence;
mod lane;
mod seqlock;

pub use fence::{
    a_grant_hands_over, a_new_epoch_sees_what_was_before, the_grant_passes_on,
    what_was_written_under_a_grant_is_over,
};
pub use lane::{every_proposal_has_one_outcome, what_was_pushed_is_taken};
pub use seqlock::no_mixture;

/// Explores a model with so many preemptions at the most: as many as take seconds.
fn explore(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}
