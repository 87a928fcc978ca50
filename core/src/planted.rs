//! Bugs that can be planted, to prove that simulator and model find them.
//!
//! Only with the feature `planted`, which nothing but the tests' own `planted` feature turns on; without it [`is`] is
//! `false` at compile time and no trace of a bug is left. One bug at a time is planted, for the whole process: all of them
//! are in one build.

/// A mistake somebody could make in the core. Each breaks it in one place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
#[non_exhaustive]
pub enum Bug {
    /// None: the core as it is.
    None = 0,
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
