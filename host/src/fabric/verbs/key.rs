//! The key by which one writer's WRITEs reach the log area, and how it becomes void: it comes with each arm, and where the
//! fence is one of keys ([`FenceBy`]), it goes with each fence. Not: the queue pair (`inbound`).

use std::sync::Arc;

use super::cq::CompletionQueue;
use super::error::VerbsError;
use super::inbound::FenceBy;
use super::memory::{Access, Region};
use super::parts::Parts;
use super::qp::QueuePair;
use super::window::Window;

/// Completions of one acceptor's end: a bind or an invalidation at a time, and what a former queue pair left.
const COMPLETIONS: u32 = 16;
/// Requests of one acceptor's end.
const DEPTH: u32 = 4;

/// See the module.
#[derive(Debug)]
pub(super) enum Key {
    /// That of the one registration, the same for every writer at all times: permission is a matter of the queue pair alone.
    Lasting,
    /// Of a window, another one each time that it is bound. `None` until it is bound for the first time, or again after it had
    /// to be freed.
    Window { window: Option<Window>, cq: Arc<CompletionQueue> },
    /// Of a registration for this writer alone; `None` between a fence and the next arm.
    Registration(Option<Region>),
    /// Of one that is changed.
    Changing(Region),
}

impl Key {
    /// What the fence needs; an error where the device does not have it.
    pub(super) fn new(parts: &Arc<Parts>) -> Result<Key, VerbsError> {
        match parts.fence_by {
            FenceBy::Flags | FenceBy::Reset | FenceBy::Renew => Ok(Key::Lasting),
            FenceBy::Window => {
                own(parts)?;
                let cq = CompletionQueue::new(&parts.context, COMPLETIONS)?;
                Ok(Key::Window { window: Some(Window::new(parts.log_domain(), &cq)?), cq })
            }
            FenceBy::Deregister => own(parts).map(|_| Key::Registration(None)),
            FenceBy::Reregister => {
                let mut region = register(parts, Access::Target)?;
                // Whether the device can is known when it did.
                region.change(Access::Target)?;
                Ok(Key::Changing(region))
            }
        }
    }

    /// A queue pair for the acceptor's end.
    pub(super) fn queue_pair(&self, parts: &Arc<Parts>) -> Result<QueuePair, VerbsError> {
        match self {
            Key::Window { cq, .. } => parts.log_qp_on(cq, DEPTH),
            _ => parts.log_qp(),
        }
    }

    /// A key that is good from now on, over a queue pair in RTS.
    pub(super) fn renew(&mut self, parts: &Arc<Parts>, qp: &QueuePair) -> Result<u32, VerbsError> {
        match self {
            Key::Lasting => Ok(parts.log_area.remote_key()),
            Key::Window { window, cq } => {
                let mut bound = match window.take() {
                    Some(window) => window,
                    None => Window::new(parts.log_domain(), cq)?,
                };
                // One that could not be bound is in no state to rely on, and is freed here.
                let key = bound.bind(qp, own(parts)?)?;
                *window = Some(bound);
                Ok(key)
            }
            Key::Registration(region) => Ok(region.insert(register(parts, Access::Write)?).remote_key()),
            Key::Changing(region) => {
                region.change(Access::Write)?;
                Ok(region.remote_key())
            }
        }
    }

    /// Makes it void. True when the queue pair must go, too: it is in ERR, and the window was freed from outside.
    pub(super) fn end(&mut self, parts: &Arc<Parts>, qp: &QueuePair) -> Result<bool, VerbsError> {
        match self {
            Key::Lasting => Ok(false),
            Key::Window { window, .. } => {
                let Some(mut bound) = window.take() else { return Ok(false) };
                if bound.invalidate(qp).is_ok() {
                    *window = Some(bound);
                    return Ok(false);
                }
                bound.free().map(|()| true).map_err(|(bound, error)| {
                    *window = Some(bound);
                    error
                })
            }
            Key::Registration(region) => match region.take().map(Region::deregister) {
                None | Some(Ok(())) => Ok(false),
                Some(Err((still, error))) => {
                    *region = Some(still);
                    Err(error)
                }
            },
            Key::Changing(region) => match region.change(Access::Target) {
                Ok(()) => Ok(false),
                // What a change that failed has done, nobody knows: it goes.
                Err(_) => {
                    let fresh = register(parts, Access::Target)?;
                    let former = std::mem::replace(region, fresh);
                    former.deregister().map(|()| false).map_err(|(former, error)| {
                        *region = former;
                        error
                    })
                }
            },
        }
    }
}

/// The log area in the log domain once more.
fn register(parts: &Arc<Parts>, access: Access) -> Result<Region, VerbsError> {
    Region::new(parts.log_domain(), own(parts)?.memory(), access)
}

/// The log area, where it is registered here: the key of another one is not this node's to change.
fn own(parts: &Parts) -> Result<&Arc<Region>, VerbsError> {
    parts.log_area.region().ok_or_else(|| VerbsError::Unable {
        device: parts.context.name().to_owned(),
        what: "key of its own to the host's memory",
    })
}
