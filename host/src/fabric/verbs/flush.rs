//! The READ that pushes: after a queue pair was reset, what its writes left on the way to memory (posted writes of the bus)
//! arrives before the answer of a READ by the same device. Not: the reset.
//!
//! A queue pair connected to itself, with a completion queue of its own, used by one thread.

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use ringleader_core::verb::Status;

use super::cq::{CompletionQueue, status_of};
use super::error::VerbsError;
use super::memory::{Access, Region};
use super::parts::Parts;
use super::qp::{Numbers, Operation, Path, Permission, QueuePair, Request};
use crate::fabric::map::Mapping;

/// Bytes read: a cache line.
const LEN: u32 = 64;
/// The transport's time-out, as of [`Path`]: a second. Nothing is lost on the way from a device to itself, and one that has to wait
/// for its processor must not be taken for dead.
const TIMEOUT: u8 = 18;
/// A READ that takes longer has failed, and with it the fence, which is then repeated.
const PATIENCE: Duration = Duration::from_secs(2);

/// See the module.
#[derive(Debug)]
pub(super) struct Flush {
    parts: Arc<Parts>,
    cq: Arc<CompletionQueue>,
    target: Arc<Region>,
    /// `None` after a failure: the next one starts afresh.
    qp: Option<QueuePair>,
    count: u64,
}

impl Flush {
    pub(super) fn new(parts: &Arc<Parts>) -> Result<Flush, VerbsError> {
        let name = parts.context.name();
        let target = Mapping::anonymous(4096).map_err(VerbsError::call("mmap", name))?.slice(0, 4096);
        Ok(Flush {
            parts: Arc::clone(parts),
            cq: CompletionQueue::new(&parts.context, 16)?,
            target: Region::register(parts.control_domain(), &target, Access::Target)?,
            qp: None,
            count: 0,
        })
    }

    /// Reads a line of the log area through the device, and waits for it.
    pub(super) fn flush(&mut self) -> Result<(), VerbsError> {
        let qp = match self.qp.take() {
            Some(qp) => qp,
            None => self.connect()?,
        };
        self.count += 1;
        self.read(&qp)?;
        self.qp = Some(qp);
        Ok(())
    }

    fn connect(&self) -> Result<QueuePair, VerbsError> {
        let qp = QueuePair::new(self.parts.control_domain(), &self.cq, 4, None)?;
        let own = self.parts.own();
        let gone = || VerbsError::NoGid {
            device: self.parts.context.name().to_owned(),
            port: self.parts.port.number,
            wanted: self.parts.port.gid.map(|gid| gid.index),
        };
        let path = Path { timeout: TIMEOUT, ..self.parts.path(&own).ok_or_else(gone)? };
        qp.connect(&path, Numbers { qp: qp.number(), packet: 0 }, 0, Permission::ReadWrite)?;
        Ok(qp)
    }

    fn read(&self, qp: &QueuePair) -> Result<(), VerbsError> {
        let failed = |call| VerbsError::call(call, self.parts.context.name());
        let request = Request {
            id: self.count,
            operation: Operation::Read,
            local: self.target.range(0, LEN).expect("the target is longer"),
            address: self.parts.log_readable.address(),
            key: self.parts.log_readable.remote_key(),
        };
        qp.post(&[request]).map_err(|(_, error)| failed("ibv_post_send of the flush")(error))?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            let mut end = None;
            let polled = self.cq.poll(|done| {
                // One of a queue pair that was given up may still be here.
                if done.id == self.count {
                    end = Some(done.code);
                }
            });
            polled.map_err(failed("ibv_poll_cq of the flush"))?;
            match end {
                Some(code) if status_of(code) == Status::Success => return Ok(()),
                Some(code) => {
                    let error = io::Error::other(format!("the READ ended with code {code} (IBV_WC_*)"));
                    return Err(failed("flush READ")(error));
                }
                None if Instant::now() >= deadline => {
                    return Err(failed("flush READ")(io::Error::from(io::ErrorKind::TimedOut)));
                }
                None => thread::yield_now(),
            }
        }
    }
}
