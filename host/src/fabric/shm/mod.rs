//! Shared memory between the processes of one machine, with the manners of a NIC: one-sided, errors as completions.
//!
//! Each node has one region file, `<dir>/node-<id>.region`: a page of the software NIC, the control area, the log area.
//! Peers map it and copy into it themselves, so a copy can only be fenced with the help of the writer (`fence`), of
//! its end, or by ending it. A region never outlives its process: a dead one is replaced, never adopted.
//! Put the directory on a tmpfs: on a disk the kernel's write-back makes page faults in the middle of a copy.

mod acceptor;
mod error;
mod fabric;
mod fence;
mod header;
mod link;
mod observe;
mod os;
mod process;
mod region;
mod wake;

pub use crate::fabric::map::Mapped;
pub use error::{RegionError, RegionFault};
pub use fabric::{Areas, Options, STOP_IN_COPY, ShmFabric};
pub use header::NicHeader;
pub use observe::{Observed, Owner};
pub(in crate::fabric) use os::futex_wait;
pub use region::path_of;
