//! Receives that wake: a WRITE with immediate data takes one, and its completion makes a descriptor readable. They carry no
//! bytes. One stock (a shared receive queue) for each protection domain, filled up again as it is used. Groups on one device have
//! a descriptor in common, and stocks and a completion queue of their own.

#![expect(unsafe_code, reason = "calls libibverbs")]

use std::io;
use std::mem::{self, MaybeUninit};
use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use rdma_sys as sys;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use super::context::{Context, check};
use super::cq::CompletionQueue;
use super::domain::Domain;
use super::error::VerbsError;

/// A completion channel: a descriptor that is readable when a queue that was asked to tell has a completion.
#[derive(Debug)]
pub(super) struct Channel {
    raw: NonNull<sys::ibv_comp_channel>,
    _context: Arc<Context>,
}

// SAFETY: as of `Context`: the pointer may be used from any thread.
unsafe impl Send for Channel {}
// SAFETY: as above.
unsafe impl Sync for Channel {}

impl Channel {
    pub(super) fn new(context: &Arc<Context>) -> Result<Arc<Channel>, VerbsError> {
        // SAFETY: the context is open.
        let raw = NonNull::new(unsafe { sys::ibv_create_comp_channel(context.raw()) })
            .ok_or_else(io::Error::last_os_error)
            .map_err(VerbsError::call("ibv_create_comp_channel", context.name()))?;
        let channel = Arc::new(Channel { raw, _context: Arc::clone(context) });
        let descriptor = channel.descriptor();
        fcntl_getfl(descriptor)
            .and_then(|flags| fcntl_setfl(descriptor, flags | OFlags::NONBLOCK))
            .map_err(VerbsError::call("fcntl of a completion channel", context.name()))?;
        Ok(channel)
    }

    pub(super) fn raw(&self) -> *mut sys::ibv_comp_channel {
        self.raw.as_ptr()
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        // SAFETY: the descriptor is open as long as the channel is, which the borrow keeps alive.
        unsafe { BorrowedFd::borrow_raw(self.raw.as_ref().fd) }
    }

    /// Takes what was told. Whatever it says, the queues are looked at next.
    fn take(&self) {
        let (mut cq, mut of) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: the channel lives and does not block; the call writes two pointers.
        while unsafe { sys::ibv_get_cq_event(self.raw(), &mut cq, &mut of) } == 0 {
            // SAFETY: the event was just taken of this queue, which lives until all its events are acknowledged.
            unsafe { sys::ibv_ack_cq_events(cq, 1) };
        }
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        // SAFETY: made once, freed once; queues that tell it hold an `Arc` of this value.
        unsafe { sys::ibv_destroy_comp_channel(self.raw()) };
    }
}

/// A shared receive queue of one domain.
#[derive(Debug)]
pub(super) struct Stock {
    raw: NonNull<sys::ibv_srq>,
    id: u64,
    _domain: Arc<Domain>,
}

// SAFETY: as of `Context`: the pointer may be used from any thread.
unsafe impl Send for Stock {}
// SAFETY: as above.
unsafe impl Sync for Stock {}

impl Stock {
    /// A stock with room for `len` receives, whose completions carry `id`.
    pub(super) fn new(domain: &Arc<Domain>, id: u64, len: u32) -> Result<Arc<Stock>, VerbsError> {
        // SAFETY: a C structure of pointers and integers, for which zeros are a value.
        let mut init: sys::ibv_srq_init_attr = unsafe { mem::zeroed() };
        init.attr.max_wr = len;
        init.attr.max_sge = 1;
        // SAFETY: the domain lives, and is kept alive by the value made below.
        let raw = NonNull::new(unsafe { sys::ibv_create_srq(domain.raw(), &mut init) })
            .ok_or_else(io::Error::last_os_error)
            .map_err(VerbsError::call("ibv_create_srq", domain.context().name()))?;
        let stock = Arc::new(Stock { raw, id, _domain: Arc::clone(domain) });
        let filled = (0..len).try_for_each(|_| stock.add());
        filled.map_err(VerbsError::call("ibv_post_srq_recv", domain.context().name()))?;
        Ok(stock)
    }

    pub(super) fn raw(&self) -> *mut sys::ibv_srq {
        self.raw.as_ptr()
    }

    /// One receive more.
    fn add(&self) -> io::Result<()> {
        let mut work = MaybeUninit::<sys::ibv_recv_wr>::zeroed();
        let work = work.as_mut_ptr();
        // SAFETY: zeroed pointers and integers; no piece of memory belongs to this receive.
        unsafe { (*work).wr_id = self.id };
        let mut bad = ptr::null_mut();
        // SAFETY: the queue lives, and the request is copied by the call.
        check(unsafe { sys::ibv_post_srq_recv(self.raw(), work, &mut bad) })
    }
}

impl Drop for Stock {
    fn drop(&mut self) {
        // SAFETY: made once, freed once; queue pairs that use it hold an `Arc` of this value.
        unsafe { sys::ibv_destroy_srq(self.raw()) };
    }
}

/// Everything by which WRITEs wake this node.
#[derive(Debug)]
pub(super) struct Receives {
    channel: Arc<Channel>,
    pub(super) cq: Arc<CompletionQueue>,
    pub(super) control: Arc<Stock>,
    pub(super) log: Arc<Stock>,
}

/// Receives of one stock: WRITEs that may come while the node is stopped before its peers find it gone.
const STOCK: u32 = 4096;

impl Receives {
    pub(super) fn new(
        channel: &Arc<Channel>,
        control: &Arc<Domain>,
        log: &Arc<Domain>,
    ) -> Result<Receives, VerbsError> {
        let channel = Arc::clone(channel);
        let cq = CompletionQueue::telling(control.context(), 2 * STOCK, &channel)?;
        Ok(Receives { channel, cq, control: Stock::new(control, 0, STOCK)?, log: Stock::new(log, 1, STOCK)? })
    }

    /// Takes receives that were used, and fills up. How many; an error when the queue is lost.
    pub(super) fn refill(&self) -> io::Result<usize> {
        let mut added = Ok(());
        let count = self.cq.poll(|done| {
            let stock = if done.id == 0 { &self.control } else { &self.log };
            added = stock.add();
        })?;
        added.map(|()| count)
    }

    /// From now on a WRITE makes the descriptor readable; `None` when one came just now.
    pub(super) fn fall_asleep(&self) -> io::Result<Option<BorrowedFd<'_>>> {
        self.cq.tell()?;
        // One that came before the line above tells nobody.
        Ok((self.refill()? == 0).then(|| self.channel.descriptor()))
    }

    /// Takes what was told meanwhile.
    pub(super) fn wake_up(&self) {
        self.channel.take();
    }
}
