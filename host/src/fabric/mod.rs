//! A fabric carries out the core's verbs (protocol.md 2 says what one must promise). One agent owns it and calls it
//! from its one thread.

use ringleader_core::layout::{AREA_ALIGN, control, log, snapshot};
use ringleader_core::verb::{Completion, Verb};

mod bell;
mod completions;
pub(crate) mod environment;
mod map;
pub mod shm;
#[cfg(feature = "verbs")]
pub mod verbs;

pub use bell::Bell;
pub(crate) use bell::sleep;
pub(crate) use map::HUGE_PAGE;
pub use map::Mapped;
#[cfg(feature = "doca")]
pub(crate) use map::exportable;

/// Bytes that a node on an RDMA device locks: its areas, of which what is registered in both domains counts twice, and some
/// tens of KiB for each of its queues.
pub(crate) fn locked_len(ring_len: u64, snapshot_len: u64) -> u64 {
    control::LEN + 3 * log::len(ring_len) + snapshot::len(snapshot_len) + AREA_ALIGN + (8 << 20)
}

/// One-sided memory between the nodes of a group.
pub trait Fabric {
    /// Starts a verb. Never waits for a peer; an error is a completion.
    fn post(&mut self, verb: &Verb);

    /// Takes up to `out.len()` completions; returns how many. Also moves whatever goes on beside the posts: fences,
    /// watching peers die.
    fn reap(&mut self, out: &mut [Completion]) -> usize;

    /// Hands what was posted to the device, where that is a step of its own. To be called when a loop of posts ends.
    #[inline(always)]
    fn ring(&mut self) {}

    /// Before its agent sleeps: what a WRITE of a peer rings from now on. `None` where a fabric has no bell, or has something
    /// to do.
    #[inline(always)]
    fn fall_asleep(&mut self) -> Option<Bell<'_>> {
        None
    }

    /// After [`Fabric::fall_asleep`] had something, whether anybody slept or not.
    #[inline(always)]
    fn wake_up(&mut self) {}

    /// The group was formed: from now on only its members are met.
    fn handle_formed(&mut self, _group: u128) {}

    /// Whether this node is cut off, because its port is down, or was a moment ago. Nobody waits for a fence here then, and one
    /// whose READ cannot leave the device is not stuck.
    fn is_cut_off(&self) -> bool {
        false
    }

    /// Whether nothing will be carried out any more, because the device is gone. The agent ends then.
    #[inline(always)]
    fn is_dead(&self) -> bool {
        false
    }
}
