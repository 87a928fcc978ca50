//! The files of the host in which threads or processes meet, compiled once more with the atomics of loom, and models of them.
//!
//! loom runs a closure in every order that a bound on preemptions leaves, with every value that C11 lets a load see.
//! `tests/models.rs` runs each model, and each with one barrier left out, which must fail. loom takes a sequentially
//! consistent fence for a synchronisation with every such fence before it, which is more than C11 says.

// The unit tests in the included files are for real threads.
#![cfg(not(test))]

pub mod models;
mod sync;
mod weak;

pub use weak::{Weak, weakened};

#[path = "../../../host/src/fabric/shm/fence.rs"]
mod fence;
#[path = "../../../host/src/handle.rs"]
#[allow(dead_code, reason = "waiting is polling with pauses: no other thread takes part")]
#[allow(unreachable_pub, reason = "in the host it is public")]
mod handle;
#[path = "../../../host/src/lane.rs"]
mod lane;
#[path = "../../../host/src/lanes.rs"]
mod lanes;
#[path = "../../../host/src/seqlock.rs"]
mod seqlock;

/// The included files know their neighbours by these names.
mod errors {
    pub(crate) use ringleader::SubmitError;
}

mod shared {
    use crate::sync::AtomicBool;

    /// The part of the host's `Shared` that a handle looks at.
    #[derive(Debug)]
    pub(crate) struct Shared {
        pub(crate) closed: AtomicBool,
        pub(crate) max_payload: usize,
    }
}
