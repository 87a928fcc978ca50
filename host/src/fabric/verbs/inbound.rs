//! The acceptor's end of the log queue pair that one peer writes through: closed, armed, granted (protocol.md 4). Lives on the
//! worker's thread: each step is a change of state at the device, and takes its time.
//!
//! Arming gives no permission, granting is one flag, fencing is [`FenceBy`], proved, and a READ behind it. The key that the
//! writer uses comes with the arm (`key`). When another process
//! is at the other end, the queue pair is made anew: the former one may still send, to a number that nobody answers to.

use std::sync::Arc;

use ringleader_core::types::{Boot, Epoch};
use ringleader_core::verb::Status;

use super::error::VerbsError;
use super::flush::Flush;
use super::key::Key;
use super::parts::Parts;
use super::qp::{Armed, Numbers, Path, Permission, QueuePair};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Closed,
    Armed,
    Granted,
}

/// How permission is taken away.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FenceBy {
    /// The access flags alone. No fence on any device that checks them once a message or a packet; here to be measured.
    Flags,
    /// RESET: what a device that carries packets out itself has drained when the change of state is done.
    Reset,
    /// The queue pair is destroyed, and made anew for the next arm. Soft-RoCE carries a packet out in whatever context it
    /// arrives, on a machine's own loopback within the writer's call. RESET neither waits for that nor excludes it
    /// (`rxe_qp_reset` of Linux 6.1 runs the responder a second time beside it: bytes land afterwards, and packets are freed
    /// twice). Destroying takes the number away and waits until no packet holds the queue pair.
    Renew,
    /// A memory window of type 2B, bound to the queue pair at each arm, invalidated by a request on the same queue pair. Where
    /// a refused WRITE has taken that to ERR already, window and queue pair are destroyed.
    Window,
    /// The writer's own registration of the log area is freed, and made anew for the next arm.
    Deregister,
    /// The writer's own registration of the log area loses its access flags by `ibv_rereg_mr`, and gets them back.
    Reregister,
}

impl FenceBy {
    /// All of them.
    pub const ALL: [FenceBy; 6] = [
        FenceBy::Renew,
        FenceBy::Reset,
        FenceBy::Flags,
        FenceBy::Window,
        FenceBy::Deregister,
        FenceBy::Reregister,
    ];

    /// Whether it waits for what is under way, by what is known of the device. Of those that do not, a run without a late byte
    /// proves nothing.
    pub fn waits(self, is_software: bool) -> bool {
        match self {
            FenceBy::Flags => false,
            FenceBy::Reset | FenceBy::Window => !is_software,
            FenceBy::Renew | FenceBy::Deregister | FenceBy::Reregister => true,
        }
    }

    /// The one that is strict on a device with or without hardware.
    pub fn strict(is_software: bool) -> FenceBy {
        if is_software { FenceBy::Renew } else { FenceBy::Reset }
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Inbound {
    /// Before the queue pairs: a window goes before the one it is bound to.
    key: Key,
    /// `None` between a fence that destroyed it and the next arm.
    qp: Option<QueuePair>,
    /// The one before: its number is not given out again while its peer may still use it.
    retired: Option<QueuePair>,
    fence_by: FenceBy,
    state: State,
    epoch: Epoch,
    /// The process that it was armed for last.
    boot: Boot,
}

/// How a verb of this end did not work.
#[derive(Debug)]
pub(super) enum Refusal {
    /// It makes no sense in this state.
    State(Status),
    /// The device refused.
    Device(VerbsError),
}

impl From<VerbsError> for Refusal {
    fn from(error: VerbsError) -> Refusal {
        Refusal::Device(error)
    }
}

impl Inbound {
    pub(super) fn new(parts: &Arc<Parts>) -> Result<Inbound, VerbsError> {
        let key = Key::new(parts)?;
        let (qp, fence_by) = (Some(key.queue_pair(parts)?), parts.fence_by);
        Ok(Inbound { key, qp, retired: None, fence_by, state: State::Closed, epoch: Epoch(0), boot: Boot(0) })
    }

    /// Brings it up without permission, for the writer with these numbers; what that opens its end with.
    pub(super) fn arm(
        &mut self,
        parts: &Arc<Parts>,
        (epoch, boot): (Epoch, Boot),
        path: &Path,
        peer: Numbers,
    ) -> Result<Armed, Refusal> {
        // A granted end is fenced first; an epoch that was used may still be known to a writer.
        if self.state == State::Granted || epoch <= self.epoch {
            return Err(Refusal::State(Status::Failed));
        }
        let stays = self.boot == boot || self.boot == Boot(0);
        if self.epoch != Epoch(0) {
            self.take_away(parts)?;
            // What keeps its queue pair over a fence is still in RTS, or in ERR.
            if let Some(qp) = &self.qp {
                qp.reset()?;
            }
        }
        let qp = match self.qp.take() {
            Some(qp) if stays => qp,
            former => {
                let fresh = self.key.queue_pair(parts)?;
                self.retired = former;
                fresh
            }
        };
        self.state = State::Closed;
        self.boot = boot;
        self.epoch = epoch;
        let qp = self.qp.insert(qp);
        qp.connect(path, peer, peer.packet, Permission::Nothing)?;
        let armed = Armed { qp: qp.number(), key: self.key.renew(parts, qp)? };
        self.state = State::Armed;
        Ok(armed)
    }

    pub(super) fn grant(&mut self, epoch: Epoch) -> Result<(), Refusal> {
        match (&self.qp, self.state) {
            (Some(qp), State::Armed | State::Granted) if self.epoch == epoch => {
                // Also when the device says no: nobody knows what it did, and the fence is then a whole one.
                self.state = State::Granted;
                // The READ that may confirm a WRITE goes the same way.
                Ok(qp.permit(Permission::ReadWrite)?)
            }
            _ => Err(Refusal::State(Status::Flushed)),
        }
    }

    /// Takes everything away, for certain.
    pub(super) fn fence(&mut self, parts: &Arc<Parts>, flush: &mut Flush) -> Result<(), Refusal> {
        self.take_away(parts)?;
        // Whoever was only armed never had permission: there is nothing on its way to memory.
        if self.state == State::Granted {
            flush.flush()?;
        }
        self.state = State::Closed;
        Ok(())
    }

    fn take_away(&mut self, parts: &Arc<Parts>) -> Result<(), Refusal> {
        let Some(qp) = &self.qp else { return Ok(()) };
        match self.fence_by {
            FenceBy::Renew => self.destroy(),
            FenceBy::Reset => {
                qp.reset()?;
                if qp.is_reset()? { Ok(()) } else { Err(Refusal::State(Status::Failed)) }
            }
            // Nothing was given.
            _ if self.state == State::Closed => Ok(()),
            FenceBy::Flags => Ok(qp.permit(Permission::Nothing)?),
            FenceBy::Window | FenceBy::Deregister | FenceBy::Reregister => {
                if self.key.end(parts, qp)? {
                    self.destroy()?;
                }
                Ok(())
            }
        }
    }

    fn destroy(&mut self) -> Result<(), Refusal> {
        let Some(qp) = self.qp.take() else { return Ok(()) };
        qp.destroy().map_err(|(qp, error)| {
            self.qp = Some(qp);
            Refusal::Device(error)
        })
    }
}
