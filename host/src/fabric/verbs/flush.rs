//! The READ that pushes: after a queue pair was reset, what its writes left on the way to memory (posted writes of the bus)
//! arrives before the answer of a READ by the same device. Not: the reset.
//!
//! Where the log is in a host's memory, what the acceptor walks is a copy: that one is made whole here, by READs that push as well.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::error::VerbsError;
use super::far::FarLog;
use super::loopback::Loopback;
use super::memory::{Access, Region};
use super::parts::Parts;
use crate::fabric::map::Mapping;

/// Bytes read: a cache line.
const LEN: u32 = 64;

/// See the module.
#[derive(Debug)]
pub(super) enum Flush {
    /// The log is here.
    Own { parts: Arc<Parts>, loopback: Loopback, target: Arc<Region> },
    /// It is in a host's memory.
    OfHost { log: Arc<Mutex<FarLog>>, lost: Arc<AtomicBool> },
}

impl Flush {
    pub(super) fn new(parts: &Arc<Parts>, far: Option<&Arc<Mutex<FarLog>>>) -> Result<Flush, VerbsError> {
        if let Some(log) = far {
            let lost = Arc::clone(log.lock().unwrap_or_else(PoisonError::into_inner).lost());
            return Ok(Flush::OfHost { log: Arc::clone(log), lost });
        }
        let name = parts.context.name();
        let target = Mapping::anonymous(4096).map_err(VerbsError::call("mmap", name))?.slice(0, 4096);
        let domain = parts.control_domain();
        Ok(Flush::Own {
            parts: Arc::clone(parts),
            loopback: Loopback::new(parts, domain)?,
            target: Region::register(domain, &target, Access::Target)?,
        })
    }

    /// Reads of the log area through the device, and waits for it. When it fails, so does the fence, which is then repeated.
    pub(super) fn flush(&mut self) -> Result<(), VerbsError> {
        match self {
            Flush::Own { parts, loopback, target } => {
                let local = target.range(0, LEN).expect("the target is longer");
                let from = &parts.log_readable;
                loopback.read(local, from.address(), from.remote_key()).map_err(|failed| failed.error)
            }
            // Nothing of it is half done when it fails.
            Flush::OfHost { log, .. } => log.lock().unwrap_or_else(PoisonError::into_inner).catch_up(),
        }
    }

    /// Whether the log is in a host's memory that is gone.
    pub(super) fn is_lost(&self) -> bool {
        match self {
            Flush::Own { .. } => false,
            Flush::OfHost { lost, .. } => lost.load(Ordering::Relaxed),
        }
    }
}
