//! A memory window of type 2: a key to a part of a region, good over one queue pair only, made valid and void by requests posted
//! there. Not: whether a void window is a fence (`ringleader bench fence` tries that).
//!
//! Both requests are waited for. Type 2B, the one asked for, names the queue pair; a window is freed before its queue pair.

#![expect(unsafe_code, reason = "calls libibverbs")]

use std::io;
use std::mem;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rdma_sys as sys;
use ringleader_core::verb::Status;

use super::context::check;
use super::cq::{CompletionQueue, status_of};
use super::domain::Domain;
use super::error::VerbsError;
use super::memory::Region;
use super::qp::QueuePair;

/// Requests to a device itself that take longer never end.
const PATIENCE: Duration = Duration::from_secs(2);

/// See the module.
#[derive(Debug)]
pub(super) struct Window {
    raw: NonNull<sys::ibv_mw>,
    /// What it is bound to; `None` while its key is void. Devices do not take the invalidation of a void one well.
    region: Option<Arc<Region>>,
    domain: Arc<Domain>,
    /// Where the queue pairs that it is bound to put their completions; only this value looks there.
    cq: Arc<CompletionQueue>,
    count: u64,
}

// SAFETY: as of `Context`: the pointer may be used from any thread.
unsafe impl Send for Window {}

impl Window {
    /// One that is bound to nothing.
    pub(super) fn new(domain: &Arc<Domain>, cq: &Arc<CompletionQueue>) -> Result<Window, VerbsError> {
        let context = domain.context();
        if !context.limits()?.has_windows {
            return Err(VerbsError::Unable {
                device: context.name().to_owned(),
                what: "memory windows of type 2B",
            });
        }
        // SAFETY: the domain lives, and is kept alive by the value made below.
        let raw = NonNull::new(unsafe { sys::ibv_alloc_mw(domain.raw(), sys::ibv_mw_type::IBV_MW_TYPE_2) })
            .ok_or_else(io::Error::last_os_error)
            .map_err(VerbsError::call("ibv_alloc_mw", context.name()))?;
        Ok(Window { raw, region: None, domain: Arc::clone(domain), cq: Arc::clone(cq), count: 0 })
    }

    fn key(&self) -> u32 {
        // SAFETY: the window lives as long as this value.
        unsafe { self.raw.as_ref() }.rkey
    }

    /// Binds it to a whole region and to a queue pair in RTS; the key, which is another one each time.
    pub(super) fn bind(&mut self, qp: &QueuePair, region: &Arc<Region>) -> Result<u32, VerbsError> {
        // The lowest byte is the user's.
        let key = self.key() & !0xff | self.key().wrapping_add(1) & 0xff;
        let mut work = work(sys::ibv_wr_opcode::IBV_WR_BIND_MW);
        use sys::ibv_access_flags as Flags;
        work.bind_mw_tso_union.bind_mw = sys::bind_mw_t {
            mw: self.raw.as_ptr(),
            rkey: key,
            bind_info: sys::ibv_mw_bind_info {
                mr: region.raw(),
                addr: region.address(),
                length: region.len(),
                mw_access_flags: Flags::IBV_ACCESS_REMOTE_WRITE.0 | Flags::IBV_ACCESS_REMOTE_READ.0,
            },
        };
        self.carry_out(qp, work, "bind of a memory window")?;
        self.region = Some(Arc::clone(region));
        // SAFETY: as in `key`; for windows of this type the field is the user's to keep (ibv_bind_mw(3)).
        unsafe { (*self.raw.as_ptr()).rkey = key };
        Ok(key)
    }

    /// Makes the key void. Fails when the queue pair is in ERR: then only [`Window::free`] does.
    pub(super) fn invalidate(&mut self, qp: &QueuePair) -> Result<(), VerbsError> {
        if self.region.is_none() {
            return Ok(());
        }
        let mut work = work(sys::ibv_wr_opcode::IBV_WR_LOCAL_INV);
        work.imm_data_invalidated_rkey_union.invalidated_rkey = self.key();
        self.carry_out(qp, work, "local invalidate of a memory window")?;
        self.region = None;
        Ok(())
    }

    /// Frees it, and says whether that worked: then its key opens nothing any more.
    pub(super) fn free(self) -> Result<(), (Window, VerbsError)> {
        // SAFETY: allocated once; only when this fails is it there to be freed again.
        match check(unsafe { sys::ibv_dealloc_mw(self.raw.as_ptr()) }) {
            Ok(()) => {
                let parts = mem::ManuallyDrop::new(self);
                // SAFETY: all are moved out once, of a value that is not dropped.
                unsafe {
                    drop((ptr::read(&parts.region), ptr::read(&parts.domain), ptr::read(&parts.cq)));
                }
                Ok(())
            }
            Err(error) => {
                let error = VerbsError::call("ibv_dealloc_mw", self.domain.context().name())(error);
                Err((self, error))
            }
        }
    }

    /// Posts one request and waits for its end.
    fn carry_out(
        &mut self,
        qp: &QueuePair,
        mut work: sys::ibv_send_wr,
        what: &'static str,
    ) -> Result<(), VerbsError> {
        let name = self.domain.context().name();
        self.count += 1;
        work.wr_id = self.count;
        let mut bad = ptr::null_mut();
        // SAFETY: queue pair, window and region live; the request is copied by the call.
        let code = unsafe { sys::ibv_post_send(qp.raw(), &mut work, &mut bad) };
        check(code).map_err(VerbsError::call(what, name))?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            let mut end = None;
            let polled = self.cq.poll(|done| {
                // One of a queue pair that was given up may still be here.
                if done.id == self.count {
                    end = Some(done.code);
                }
            });
            polled.map_err(VerbsError::call(what, name))?;
            let error = match end {
                Some(code) if status_of(code) == Status::Success => return Ok(()),
                Some(code) => io::Error::other(format!("it ended with code {code} (IBV_WC_*)")),
                None if Instant::now() >= deadline => io::ErrorKind::TimedOut.into(),
                None => {
                    thread::yield_now();
                    continue;
                }
            };
            return Err(VerbsError::call(what, name)(error));
        }
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        // SAFETY: allocated once, freed once.
        unsafe { sys::ibv_dealloc_mw(self.raw.as_ptr()) };
    }
}

fn work(opcode: sys::ibv_wr_opcode::Type) -> sys::ibv_send_wr {
    // SAFETY: a C structure of integers, pointers and unions of them, for which zeros are a value.
    let mut work: sys::ibv_send_wr = unsafe { mem::zeroed() };
    work.opcode = opcode;
    work.send_flags = sys::ibv_send_flags::IBV_SEND_SIGNALED.0;
    work
}
