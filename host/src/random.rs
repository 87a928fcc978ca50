//! Numbers that nobody else has, where nothing secret hangs on them.

use std::hash::{BuildHasher, RandomState};

use crate::clock;

/// One: the standard library seeds its hashers from the system's randomness.
pub(crate) fn random() -> u64 {
    RandomState::new().hash_one(clock::now().0)
}
