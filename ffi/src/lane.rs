//! Lanes: proposals and their outcomes.
//!
//! A lane is for one thread at a time: its place in the table sees to that. A draft borrows from the lane's handle, which therefore lives
//! behind a pointer, and is left alone until the draft is gone.
//!
//! While its callback runs a lane is nobody's, so that the callback may propose; who tells is kept beside it, for no other thread may tell
//! or close it meanwhile.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use ringleader::{Draft, Handle, Outcome, SubmitError, Ticket};
use ringleader_acceptor::convert::{self, Sized32};

use crate::agent::Loop;
use crate::guard::{Failure, InCallback, guard, may_wait};
use crate::node::{find, ringleader_node};
use crate::status::{ringleader_status, ringleader_status as S};
use crate::table::{Alone, Table, handle, pointer};

/// A way to propose, for one thread at a time: payloads one way, outcomes the other, in the same order.
pub struct ringleader_lane {
    _opaque: [u8; 0],
}

/// How a proposal ended.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ringleader_outcome {
    /// `sizeof(ringleader_outcome)`.
    pub size: u32,
    /// `RINGLEADER_OK`: it is committed, as entry `index`, and will be applied on every node, once. `RINGLEADER_UNKNOWN`: the lead was lost,
    /// or the node closed: it may be committed by the next leader, or never. `RINGLEADER_NOT_LEADER`: it was not proposed, and never will
    /// be: `leader` is who leads, as far as the node knows, 0 for nobody.
    pub status: i32,
    /// Which proposal: its number in the lane.
    pub ticket: u64,
    /// Its number in the log.
    pub index: u64,
    /// See `status`.
    pub leader: u32,
    /// 0.
    pub reserved: u32,
}

/// Is told of an outcome. Called by whoever polls, never by another thread, nor by two at a time; it may propose, and close the lane. After
/// the lane is closed it is not called any more.
pub type ringleader_outcome_callback =
    Option<unsafe extern "C" fn(context: *mut c_void, outcome: *const ringleader_outcome)>;

// SAFETY: `repr(C)`, integers alone, the size first, a multiple of 8 bytes.
unsafe impl Sized32 for ringleader_outcome {
    const FIRST: usize = size_of::<ringleader_outcome>();
}

/// A lane as this library keeps it.
pub(crate) struct Lane {
    /// Dropped before what it borrows from.
    draft: Option<Draft<'static>>,
    /// Bytes of that.
    draft_len: usize,
    handle: NonNull<Handle>,
    callback: Option<Callback>,
    polled: Option<Loop>,
}

#[derive(Clone)]
struct Callback {
    function: unsafe extern "C" fn(*mut c_void, *const ringleader_outcome),
    context: *mut c_void,
    /// The thread in which it runs now.
    telling: Arc<Mutex<Option<ThreadId>>>,
}

impl Callback {
    fn telling(&self) -> MutexGuard<'_, Option<ThreadId>> {
        self.telling.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refuses what may not be done while another thread tells.
    fn check(&self) -> Result<(), S> {
        let told_by = *self.telling();
        let is_free = told_by.is_none_or(|thread| thread == thread::current().id());
        if is_free { Ok(()) } else { Err(S::RINGLEADER_BUSY) }
    }
}

/// A callback that is being told something, until this is dropped.
struct Telling {
    callback: Callback,
    /// In this thread it may run already: one that tells its own lane.
    before: Option<ThreadId>,
}

impl Telling {
    /// To be made by who is alone with the lane: so nobody closes it before this is seen.
    fn begin(callback: Callback) -> Telling {
        let before = callback.telling().replace(thread::current().id());
        Telling { callback, before }
    }

    fn tell(&self, outcome: &ringleader_outcome) {
        let _within = InCallback::enter();
        // SAFETY: by the conventions; the outcome outlives the call.
        unsafe { (self.callback.function)(self.callback.context, outcome) };
    }
}

impl Drop for Telling {
    fn drop(&mut self) {
        *self.callback.telling() = self.before;
    }
}

// SAFETY: a handle and its draft may be sent (the draft holds parts of the handle alone), and so may by the conventions what a callback
// is called with.
unsafe impl Send for Lane {}

static LANES: Table<Lane> = Table::new(4);

impl Lane {
    /// The handle, when no draft borrows it.
    fn handle(&mut self) -> Result<&mut Handle, S> {
        if self.draft.is_some() {
            return Err(S::RINGLEADER_DRAFT_OPEN);
        }
        // SAFETY: it was made of a box, and lives as long as the lane; nobody borrows it, for there is no draft.
        Ok(unsafe { self.handle.as_mut() })
    }

    fn poll(&mut self) -> Result<ringleader_outcome, S> {
        let (ticket, outcome) = self.handle()?.poll().ok_or(S::RINGLEADER_NOTHING)?;
        Ok(outcome_of(ticket, outcome))
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.draft = None;
        // SAFETY: it was made of a box, nobody borrows it, and it is not used any more.
        drop(unsafe { Box::from_raw(self.handle.as_ptr()) });
    }
}

fn outcome_of(ticket: Ticket, outcome: Outcome) -> ringleader_outcome {
    let (status, index, leader) = match outcome {
        Outcome::Committed { index } => (S::RINGLEADER_OK, index, 0),
        Outcome::NotLeader { leader } => (S::RINGLEADER_NOT_LEADER, 0, leader.unwrap_or(0)),
        _ => (S::RINGLEADER_UNKNOWN, 0, 0),
    };
    ringleader_outcome {
        size: size_of::<ringleader_outcome>() as u32,
        status: status as i32,
        ticket: ticket.0,
        index,
        leader: u32::from(leader),
        reserved: 0,
    }
}

/// Why something was not taken.
pub(crate) fn submitted(error: SubmitError) -> S {
    match error {
        SubmitError::Full => S::RINGLEADER_FULL,
        SubmitError::TooLarge { .. } => S::RINGLEADER_TOO_LARGE,
        _ => S::RINGLEADER_CLOSED,
    }
}

fn find_lane(lane: *mut ringleader_lane) -> Result<Alone<'static, Lane>, S> {
    LANES.alone(handle(lane))
}

/// Opens a lane. With a `callback`, which may be NULL, outcomes are told to it: by `ringleader_lane_tell`, and by `ringleader_agent_poll`
/// for a node of a polled agent; without one they are polled.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringleader_lane_open(
    node: *mut ringleader_node,
    callback: ringleader_outcome_callback,
    context: *mut c_void,
    out: *mut *mut ringleader_lane,
) -> ringleader_status {
    guard(|| {
        // SAFETY: by the conventions.
        let (kept, out) = unsafe { (find(node)?, convert::output(out)?) };
        let polled = kept.polled.clone();
        let told_by = polled.clone().filter(|_| callback.is_some());
        let callback = callback.map(|function| Callback { function, context, telling: Arc::default() });
        let handle = NonNull::from(Box::leak(Box::new(kept.node.handle())));
        let lane = LANES.put(Lane { draft: None, draft_len: 0, handle, callback, polled })?;
        if let Some(polled) = told_by {
            polled.tell_by_poll(lane);
        }
        out.set(pointer(lane));
        Ok(())
    })
}

/// Proposes a copy of a payload. `ticket`, which may be NULL, is its number in the lane: 0, 1, 2, and so on. Takes what a lane can hold,
/// whether the node leads or not: outcomes say what became of it. `RINGLEADER_FULL`: poll outcomes, and try again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringleader_lane_propose(
    lane: *mut ringleader_lane,
    payload: *const u8,
    len: usize,
    ticket: *mut u64,
) -> ringleader_status {
    guard(|| {
        // SAFETY: by the conventions.
        let (payload, out) = unsafe { (convert::bytes(payload, len)?, ticket_place(ticket)?) };
        let number = find_lane(lane)?.handle()?.propose(payload).map_err(submitted)?;
        if let Some(out) = out {
            out.set(number.0);
        }
        Ok(())
    })
}

unsafe fn ticket_place<'a>(ticket: *mut u64) -> Result<Option<convert::Output<'a, u64>>, S> {
    if ticket.is_null() {
        return Ok(None);
    }
    // SAFETY: by the conventions.
    unsafe { convert::output(ticket) }.map(Some)
}

/// Lends a place for a payload of `len` bytes in the lane itself, zeros at first, at a multiple of 8: what is written there is copied
/// nowhere before the agent builds the entry of it. (More than 128 KiB lie beside the lane, and may be copied once when they are cut.) It
/// is the caller's until it is committed or dropped, and nothing else can be done with the lane meanwhile, but to close it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringleader_lane_draft(
    lane: *mut ringleader_lane,
    len: usize,
    payload: *mut *mut u8,
) -> ringleader_status {
    guard(|| {
        // SAFETY: by the conventions.
        let out = unsafe { convert::output(payload) }?;
        let mut lane = find_lane(lane)?;
        let draft = lane.handle()?.draft(len).map_err(submitted)?;
        // SAFETY: only the lifetime is another one: the draft is dropped before the handle, which stays where it is and is not used
        // as long as there is a draft.
        let draft = unsafe { std::mem::transmute::<Draft<'_>, Draft<'static>>(draft) };
        lane.draft_len = len;
        let draft = lane.draft.insert(draft);
        out.set(draft.bytes().as_mut_ptr());
        Ok(())
    })
}

/// Proposes the first `len` bytes of the open draft. `ticket` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringleader_lane_commit(
    lane: *mut ringleader_lane,
    len: usize,
    ticket: *mut u64,
) -> ringleader_status {
    guard(|| {
        // SAFETY: by the conventions.
        let out = unsafe { ticket_place(ticket) }?;
        let mut lane = find_lane(lane)?;
        // Its bytes are not looked at before it is certain to be committed: until then they are C's alone.
        if lane.draft.is_some() && len > lane.draft_len {
            return Err(S::RINGLEADER_TOO_LARGE.into());
        }
        let mut draft = lane.draft.take().ok_or(S::RINGLEADER_NO_DRAFT)?;
        draft.truncate(len);
        let number = draft.commit();
        if let Some(out) = out {
            out.set(number.0);
        }
        Ok(())
    })
}

/// Drops the open draft: it was never proposed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringleader_lane_drop(lane: *mut ringleader_lane) -> ringleader_status {
    guard(|| {
        let dropped = find_lane(lane)?.draft.take();
        if dropped.is_some() { Ok(()) } else { Err(S::RINGLEADER_NO_DRAFT.into()) }
    })
}

/// The next outcome, in the order of proposing; `RINGLEADER_NOTHING` when there is none yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringleader_lane_poll(
    lane: *mut ringleader_lane,
    out: *mut ringleader_outcome,
) -> ringleader_status {
    guard(|| {
        // SAFETY: by the conventions.
        let out = unsafe { convert::growing(out) }?;
        out.set(find_lane(lane)?.poll()?);
        Ok(())
    })
}

/// Waits for the next outcome. `RINGLEADER_NOTHING`: nothing is on its way.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringleader_lane_wait(
    lane: *mut ringleader_lane,
    timeout_ns: u64,
    out: *mut ringleader_outcome,
) -> ringleader_status {
    guard(|| {
        // SAFETY: by the conventions.
        let out = unsafe { convert::growing(out) }?;
        let mut kept = find_lane(lane)?;
        may_wait()?;
        let timeout = Duration::from_nanos(timeout_ns);
        let Some(polled) = kept.polled.clone() else {
            let handle = kept.handle()?;
            let ended = handle.wait(timeout);
            let (ticket, outcome) = ended.ok_or(match handle.outstanding() {
                0 => S::RINGLEADER_NOTHING,
                _ => S::RINGLEADER_TIMEOUT,
            })?;
            out.set(outcome_of(ticket, outcome));
            return Ok(());
        };
        polled.check()?;
        let deadline = Instant::now() + timeout;
        loop {
            match kept.poll() {
                Ok(outcome) => break out.set(outcome),
                Err(S::RINGLEADER_NOTHING) => {}
                Err(refused) => return Err(refused.into()),
            }
            if kept.handle()?.outstanding() == 0 {
                return Err(S::RINGLEADER_NOTHING.into());
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(S::RINGLEADER_TIMEOUT.into());
            }
            // In a turn entries are applied, and whoever applies may propose: the lane is nobody's meanwhile.
            drop(kept);
            polled.turn(left);
            kept = find_lane(lane)?;
        }
        Ok(())
    })
}

/// Tells all outcomes that there are to the callback of a lane; `count`, which may be NULL, is how many.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringleader_lane_tell(
    lane: *mut ringleader_lane,
    count: *mut u64,
) -> ringleader_status {
    guard(|| {
        // SAFETY: by the conventions.
        let out = unsafe { ticket_place(count) }?;
        let told = tell_outcomes(handle(lane))?;
        if let Some(out) = out {
            out.set(told);
        }
        Ok(())
    })
}

/// Calls the callback of a lane with each outcome that there may be now; what the callback proposes is for the next time. The lane is nobody's
/// while it runs.
pub(crate) fn tell_outcomes(lane: usize) -> Result<u64, S> {
    let mut most = None;
    let mut told = 0;
    loop {
        let (telling, outcome) = match LANES.alone(lane) {
            Ok(mut lane) => {
                let callback = lane.callback.clone().ok_or(S::RINGLEADER_OPTION)?;
                let polled = callback.check().and_then(|()| {
                    let most = *most.get_or_insert(lane.handle()?.outstanding());
                    if told < most { lane.poll() } else { Err(S::RINGLEADER_NOTHING) }
                });
                match polled {
                    Ok(outcome) => (Telling::begin(callback), outcome),
                    Err(S::RINGLEADER_NOTHING) => return Ok(told),
                    // A draft is open: what has ended is told when it is done with. Or another thread tells.
                    Err(refused) => return if told > 0 { Ok(told) } else { Err(refused) },
                }
            }
            // It was closed by its own callback.
            Err(_) if told > 0 => return Ok(told),
            Err(refused) => return Err(refused),
        };
        telling.tell(&outcome);
        told += 1;
    }
}

/// Proposals whose outcome was not taken yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringleader_lane_outstanding(
    lane: *mut ringleader_lane,
    count: *mut u64,
) -> ringleader_status {
    guard(|| {
        // SAFETY: by the conventions.
        let out = unsafe { convert::output(count) }?;
        out.set(find_lane(lane)?.handle()?.outstanding());
        Ok(())
    })
}

/// The largest payload that fits into an entry, in bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringleader_lane_max_payload(
    lane: *mut ringleader_lane,
    len: *mut usize,
) -> ringleader_status {
    guard(|| {
        // SAFETY: by the conventions.
        let out = unsafe { convert::output(len) }?;
        out.set(find_lane(lane)?.handle()?.max_payload());
        Ok(())
    })
}

/// Closes a lane, and drops a draft that is open. What was proposed goes its way, and nobody hears of it. `RINGLEADER_BUSY` while another
/// thread uses the lane, or runs its callback.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringleader_lane_close(lane: *mut ringleader_lane) -> ringleader_status {
    guard(|| {
        drop(LANES.take(handle(lane), |lane| lane.callback.as_ref().map_or(Ok(()), Callback::check))?);
        Ok::<(), Failure>(())
    })
}
