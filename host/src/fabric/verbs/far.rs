//! The log in a host's memory, READ by the DPU's device: where the [`Shadow`] comes from, and the thread that keeps it up.
//!
//! The device READs by the same key that writers have, in the domain that it is good in, over a queue pair to itself; an Arm core cannot
//! load from there. When that key opens nothing any more the host has taken its memory away, and the log is gone with it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use ringleader_core::layout::log;
use ringleader_core::mem::{Area, acquire};
use ringleader_core::verb::Status;
use tracing::{debug, error};

use super::error::VerbsError;
use super::loopback::{Loopback, ReadError};
use super::memory::{Access, Region};
use super::parts::{Areas, Parts};
use super::place::HostLog;
use super::shadow::{RawBeat, Shadow, Source};
use crate::fabric::Mapped;
use crate::fabric::map::Mapping;

const BEAT_LEN: u32 = size_of::<RawBeat>() as u32;

/// The host's memory as the device reaches it.
#[derive(Debug)]
struct Far {
    loopback: Loopback,
    log: HostLog,
    /// The copy, and where a beat line comes to before it goes there.
    copy: Arc<Region>,
    beat: Arc<Region>,
}

impl Source for Far {
    type Error = ReadError;

    fn beat(&mut self) -> Result<RawBeat, ReadError> {
        let local = self.beat.range(0, BEAT_LEN).expect("a beat has room there");
        self.loopback.read(local, self.log.address() + log::BEAT, self.log.key())?;
        let mut words = RawBeat::default();
        acquire();
        Area::new(self.beat.memory()).read(0, &mut words);
        Ok(words)
    }

    fn copy(&mut self, offset: u64, len: u32) -> Result<(), ReadError> {
        let local = self.copy.range(offset, len).expect("the ring has such bytes");
        self.loopback.read(local, self.log.address() + offset, self.log.key())
    }
}

/// The acceptor's copy of its log.
#[derive(Debug)]
pub(super) struct FarLog {
    shadow: Shadow<Far, Mapped>,
    lost: Arc<AtomicBool>,
}

impl FarLog {
    /// `copy` is where it is, registered in the domain that the host's key is good in.
    pub(super) fn new(
        parts: &Arc<Parts>,
        areas: &Areas,
        log: &HostLog,
        copy: &Arc<Region>,
    ) -> Result<FarLog, VerbsError> {
        let name = parts.context.name();
        let beat = Mapping::anonymous(4096).map_err(VerbsError::call("mmap", name))?.slice(0, 4096);
        let far = Far {
            loopback: Loopback::new(parts, parts.log_domain())?,
            log: log.clone(),
            copy: Arc::clone(copy),
            beat: Region::register(parts.log_domain(), &beat, Access::Target)?,
        };
        let (log, control) = (Area::new(areas.log.clone()), Area::new(areas.control.clone()));
        let shadow = Shadow::new(far, log, control, parts.ring_len());
        Ok(FarLog { shadow, lost: Arc::default() })
    }

    /// After a fence: exactly what is there.
    pub(super) fn catch_up(&mut self) -> Result<(), VerbsError> {
        let done = self.shadow.catch_up();
        self.judge(done)
    }

    fn look(&mut self) -> Result<bool, VerbsError> {
        let looked = self.shadow.look();
        self.judge(looked)
    }

    /// Set once the host's memory is gone.
    pub(super) fn lost(&self) -> &Arc<AtomicBool> {
        &self.lost
    }

    fn judge<T>(&mut self, done: Result<T, ReadError>) -> Result<T, VerbsError> {
        done.map_err(|ReadError { status, error }| {
            // A port that is down lets nothing out of the device, and comes up again.
            let passes = matches!(status, None | Some(Status::Unreachable | Status::Flushed));
            if !passes && !self.lost.swap(true, Ordering::Relaxed) {
                error!(%error, "the host's memory is not there any more, and the log was in it");
            }
            error
        })
    }
}

/// The thread that looks for beats, until this is dropped.
#[derive(Debug)]
pub(super) struct Keeper {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Keeper {
    /// Looks once in each `pause`.
    pub(super) fn start(name: String, copy: &Arc<Mutex<FarLog>>, pause: Duration) -> std::io::Result<Keeper> {
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, copy) = (Arc::clone(&stop), Arc::clone(copy));
        let keep = move || {
            while !stopped.load(Ordering::Relaxed) {
                let mut copy = copy.lock().unwrap_or_else(PoisonError::into_inner);
                if copy.lost.load(Ordering::Relaxed) {
                    return;
                }
                if let Err(error) = copy.look() {
                    debug!(%error, "the log is not read");
                }
                drop(copy);
                // Also when there was something: a fence waits for its turn.
                thread::sleep(pause);
            }
        };
        let thread = Some(thread::Builder::new().name(name).spawn(keep)?);
        Ok(Keeper { stop, thread })
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            error!("the thread that reads the host's memory panicked");
        }
    }
}
