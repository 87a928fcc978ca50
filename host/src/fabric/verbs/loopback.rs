//! READs of a device from memory that it reaches itself: over a queue pair connected to itself, with a completion queue of its own,
//! used by one thread. Each is waited for.

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use ringleader_core::verb::Status;

use super::cq::{CompletionQueue, status_of};
use super::domain::Domain;
use super::error::VerbsError;
use super::memory::Local;
use super::parts::Parts;
use super::qp::{Numbers, Operation, Path, Permission, QueuePair, Request};

/// The transport's time-out, as of [`Path`]: a second. Nothing is lost on the way from a device to itself, and one that has to wait
/// for its processor must not be taken for dead.
const TIMEOUT: u8 = 18;
/// A READ that takes longer has failed.
const PATIENCE: Duration = Duration::from_secs(2);

/// See the module.
#[derive(Debug)]
pub(super) struct Loopback {
    parts: Arc<Parts>,
    domain: Arc<Domain>,
    cq: Arc<CompletionQueue>,
    /// `None` after a failure: the next one starts afresh.
    qp: Option<QueuePair>,
    count: u64,
}

/// A READ that failed.
#[derive(Debug)]
pub(super) struct ReadError {
    /// How the device ended it; `None` where it did not come to that.
    pub(super) status: Option<Status>,
    pub(super) error: VerbsError,
}

impl From<VerbsError> for ReadError {
    fn from(error: VerbsError) -> ReadError {
        ReadError { status: None, error }
    }
}

impl Loopback {
    /// With keys of that domain.
    pub(super) fn new(parts: &Arc<Parts>, domain: &Arc<Domain>) -> Result<Loopback, VerbsError> {
        let cq = CompletionQueue::new(&parts.context, 16)?;
        Ok(Loopback { parts: Arc::clone(parts), domain: Arc::clone(domain), cq, qp: None, count: 0 })
    }

    /// Reads from there, and waits for it.
    pub(super) fn read(&mut self, local: Local<'_>, address: u64, key: u32) -> Result<(), ReadError> {
        let qp = match self.qp.take() {
            Some(qp) => qp,
            None => self.connect()?,
        };
        self.count += 1;
        self.carry_out(&qp, local, address, key)?;
        self.qp = Some(qp);
        Ok(())
    }

    fn connect(&self) -> Result<QueuePair, VerbsError> {
        let qp = QueuePair::new(&self.domain, &self.cq, 4, None)?;
        let own = self.parts.own();
        let gone = || VerbsError::NoGid {
            device: self.parts.context.name().to_owned(),
            port: self.parts.port.number,
            wanted: self.parts.port.gid.map(|gid| gid.index),
        };
        let path = Path { timeout: TIMEOUT, ..self.parts.path(&own).ok_or_else(gone)? };
        qp.connect(&path, Numbers { qp: qp.number(), packet: 0 }, 0, Permission::Read)?;
        Ok(qp)
    }

    fn carry_out(&self, qp: &QueuePair, local: Local<'_>, address: u64, key: u32) -> Result<(), ReadError> {
        let failed = |call| VerbsError::call(call, self.parts.context.name());
        let request = Request { id: self.count, operation: Operation::Read, local, address, key };
        qp.post(&[request]).map_err(|(_, error)| failed("ibv_post_send to itself")(error))?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            let mut end = None;
            let polled = self.cq.poll(|done| {
                // One of a queue pair that was given up may still be here.
                if done.id == self.count {
                    end = Some(done.code);
                }
            });
            polled.map_err(failed("ibv_poll_cq of what it posted to itself"))?;
            match end.map(|code| (code, status_of(code))) {
                Some((_, Status::Success)) => return Ok(()),
                Some((code, status)) => {
                    let error = io::Error::other(format!("it ended with code {code} (IBV_WC_*)"));
                    return Err(ReadError { status: Some(status), error: failed("READ from itself")(error) });
                }
                None if Instant::now() >= deadline => {
                    let error = io::Error::from(io::ErrorKind::TimedOut);
                    return Err(failed("READ from itself")(error).into());
                }
                None => thread::yield_now(),
            }
        }
    }
}
