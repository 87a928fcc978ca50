//! A completion queue, large enough for every request that can be under way: it cannot overflow.

#![expect(unsafe_code, reason = "calls libibverbs")]

use std::io;
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use rdma_sys as sys;
use ringleader_core::verb::Status;

use super::context::{Context, check};
use super::error::VerbsError;
use super::receives::Channel;

/// Completions taken at once.
pub(super) const POLL: usize = 16;

/// A completion queue.
#[derive(Debug)]
pub(super) struct CompletionQueue {
    raw: NonNull<sys::ibv_cq>,
    _channel: Option<Arc<Channel>>,
    _context: Arc<Context>,
}

// SAFETY: as of `Context`: the pointer may be used from any thread.
unsafe impl Send for CompletionQueue {}
// SAFETY: as above.
unsafe impl Sync for CompletionQueue {}

/// The end of a work request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Done {
    pub(super) id: u64,
    /// `IBV_WC_*`.
    pub(super) code: u32,
}

impl CompletionQueue {
    /// A queue with room for `len` completions.
    pub(super) fn new(context: &Arc<Context>, len: u32) -> Result<Arc<CompletionQueue>, VerbsError> {
        CompletionQueue::make(context, len, None)
    }

    /// The same, that tells a channel when it is asked to.
    pub(super) fn telling(
        context: &Arc<Context>,
        len: u32,
        channel: &Arc<Channel>,
    ) -> Result<Arc<CompletionQueue>, VerbsError> {
        CompletionQueue::make(context, len, Some(Arc::clone(channel)))
    }

    fn make(
        context: &Arc<Context>,
        len: u32,
        channel: Option<Arc<Channel>>,
    ) -> Result<Arc<CompletionQueue>, VerbsError> {
        let len = i32::try_from(len).unwrap_or(i32::MAX);
        let told = channel.as_ref().map_or(ptr::null_mut(), |channel| channel.raw());
        // SAFETY: the context is open, and so is the channel, if any; vector 0 is one that every device has.
        let raw = unsafe { sys::ibv_create_cq(context.raw(), len, ptr::null_mut(), told, 0) };
        let raw = NonNull::new(raw)
            .ok_or_else(io::Error::last_os_error)
            .map_err(VerbsError::call("ibv_create_cq", context.name()))?;
        Ok(Arc::new(CompletionQueue { raw, _channel: channel, _context: Arc::clone(context) }))
    }

    /// Tells the channel of the next completion.
    pub(super) fn tell(&self) -> io::Result<()> {
        // SAFETY: the queue lives.
        check(unsafe { sys::ibv_req_notify_cq(self.raw(), 0) })
    }

    pub(super) fn raw(&self) -> *mut sys::ibv_cq {
        self.raw.as_ptr()
    }

    /// Takes up to [`POLL`] completions and hands each to `each`; how many there were. An error means that the queue is lost.
    #[inline]
    pub(super) fn poll(&self, mut each: impl FnMut(Done)) -> io::Result<usize> {
        let mut taken = [const { MaybeUninit::<sys::ibv_wc>::uninit() }; POLL];
        // SAFETY: the queue lives, and there is room for as many as are asked for.
        let count = unsafe { sys::ibv_poll_cq(self.raw(), POLL as i32, taken.as_mut_ptr().cast()) };
        let Ok(count) = usize::try_from(count) else { return Err(io::ErrorKind::BrokenPipe.into()) };
        for done in &taken[..count.min(POLL)] {
            // SAFETY: the call has filled in so many. Of a failed one only id and status are valid, and only these are read.
            let (id, code) = unsafe { ((*done.as_ptr()).wr_id, (*done.as_ptr()).status) };
            each(Done { id, code });
        }
        Ok(count)
    }
}

impl Drop for CompletionQueue {
    fn drop(&mut self) {
        // SAFETY: made once, freed once; queue pairs that use it hold an `Arc` of this value.
        unsafe { sys::ibv_destroy_cq(self.raw()) };
    }
}

/// What a code means to the core.
#[inline]
pub(super) fn status_of(code: u32) -> Status {
    use sys::ibv_wc_status as Code;
    match code {
        Code::IBV_WC_SUCCESS => Status::Success,
        Code::IBV_WC_WR_FLUSH_ERR => Status::Flushed,
        Code::IBV_WC_REM_ACCESS_ERR | Code::IBV_WC_REM_INV_REQ_ERR => Status::Refused,
        Code::IBV_WC_RETRY_EXC_ERR | Code::IBV_WC_RNR_RETRY_EXC_ERR | Code::IBV_WC_RESP_TIMEOUT_ERR => {
            Status::Unreachable
        }
        _ => Status::Failed,
    }
}
