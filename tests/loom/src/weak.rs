//! Barriers that are left out, to show that a model notices.

use std::cell::Cell;
use std::sync::atomic::Ordering;

/// What is left out, everywhere in the files under test.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Weak {
    /// Fences of all kinds of this order.
    Fence(Ordering),
    /// Loads are relaxed.
    Loads,
    /// Stores are relaxed.
    Stores,
}

// loom runs all threads of a model on the thread that called it.
thread_local! {
    static WEAK: Cell<Option<Weak>> = const { Cell::new(None) };
}

/// Runs a model with something left out.
pub fn weakened(what: Weak, model: fn()) {
    WEAK.set(Some(what));
    model();
    WEAK.set(None);
}

/// Whether that is left out now.
pub(crate) fn is(what: Weak) -> bool {
    WEAK.get() == Some(what)
}
