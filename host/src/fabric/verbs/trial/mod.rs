//! A device tried out: what `ringleader bench fence` measures, and what the tests build on.

mod fence;
pub(super) mod rig;

pub use fence::{FenceTrial, try_fence};
