//! An opened device: found by name, asked for what it can, watched for asynchronous events. Not: its ports (`port`).
//!
//! The `ibv_context` is freed with the last handle that was made from it: each holds an [`Arc`] of this one. One that is lent is left
//! to its lender then.

#![expect(unsafe_code, reason = "calls libibverbs")]

use std::ffi::CStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use rdma_sys as sys;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use super::error::VerbsError;
use super::place::{HostLog, Lender};

/// An opened device.
#[derive(Debug)]
pub(super) struct Context {
    raw: NonNull<sys::ibv_context>,
    name: String,
    /// Who opened it, and closes it.
    lender: Option<Lender>,
}

// SAFETY: a context belongs to the process, not to a thread, and libibverbs may be called from any thread at any time
// (ibv_open_device(3) and the libibverbs README, "Thread safety"); this value only holds the pointer.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

/// What a device can, as far as it matters here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Limits {
    pub(super) queue_pairs: u64,
    pub(super) requests: u64,
    pub(super) completions: u64,
    /// READs that it serves at a time as a responder, for one queue pair.
    pub(super) reads_served: u8,
    /// READs that it has under way at a time as an initiator, on one queue pair.
    pub(super) reads_started: u8,
    pub(super) ports: u8,
    /// Memory windows that are bound to a queue pair (type 2B).
    pub(super) has_windows: bool,
}

/// What happened to a device beside any request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum AsyncEvent {
    /// The device is broken or removed: nothing works any more.
    DeviceFatal,
    /// A port went up or down.
    Port { port: u8, up: bool },
    /// A queue pair is in error.
    QueuePair { number: u32, event: u32 },
    /// A completion queue is in error, which means an overflow.
    CompletionQueue,
    /// A GID or LID of a port changed, or anything that changes nothing here.
    Other { event: u32 },
}

/// The names of all devices.
pub(super) fn names() -> Result<Vec<String>, VerbsError> {
    with_devices(|devices| devices.iter().map(|device| name_of(*device)).collect())
}

impl Context {
    /// Opens the device of that name.
    pub(super) fn open(name: &str) -> Result<Arc<Context>, VerbsError> {
        let opened = with_devices(|devices| {
            let device = *devices.iter().find(|device| name_of(**device) == name)?;
            // SAFETY: the device is of a list that is freed after this call.
            Some(NonNull::new(unsafe { sys::ibv_open_device(device) }).ok_or_else(io::Error::last_os_error))
        })?;
        let raw = match opened {
            None => return Err(VerbsError::NoDevice { wanted: Some(name.to_owned()), there: names()? }),
            Some(raw) => raw.map_err(VerbsError::call("ibv_open_device", name))?,
        };
        Context::ready(Context { raw, name: name.to_owned(), lender: None })
    }

    /// That of the domain in which a host's memory can be reached.
    pub(super) fn lent(log: &HostLog) -> Result<Arc<Context>, VerbsError> {
        let nothing = || VerbsError::Call {
            call: "ibv_pd.context",
            device: "a lent domain".to_owned(),
            error: io::ErrorKind::InvalidInput.into(),
        };
        // SAFETY: the domain is valid as long as its lender is held.
        let raw = NonNull::new(unsafe { log.domain().as_ref() }.context).ok_or_else(nothing)?;
        // SAFETY: a context is there as long as its domains are, and names its device.
        let name = name_of(unsafe { raw.as_ref() }.device);
        Context::ready(Context { raw, name, lender: Some(Lender::clone(log.lender())) })
    }

    fn ready(context: Context) -> Result<Arc<Context>, VerbsError> {
        // Events are looked for, never waited for.
        let events = context.events();
        fcntl_getfl(events)
            .and_then(|flags| fcntl_setfl(events, flags | OFlags::NONBLOCK))
            .map_err(VerbsError::call("fcntl of the event channel", &context.name))?;
        Ok(Arc::new(context))
    }

    pub(super) fn raw(&self) -> *mut sys::ibv_context {
        self.raw.as_ptr()
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Whether no piece of hardware is behind it (soft-RoCE, soft-iWARP): such a device has no parent on any bus.
    pub(super) fn is_software(&self) -> bool {
        !Path::new("/sys/class/infiniband").join(&self.name).join("device").exists()
    }

    fn events(&self) -> BorrowedFd<'_> {
        // SAFETY: the descriptor is open as long as the context is, which the borrow keeps alive.
        unsafe { BorrowedFd::borrow_raw((*self.raw()).async_fd) }
    }

    /// What the device can.
    pub(super) fn limits(&self) -> Result<Limits, VerbsError> {
        let mut attr = MaybeUninit::<sys::ibv_device_attr>::zeroed();
        // SAFETY: the context is open, and the structure is as large as the call expects.
        let code = unsafe { sys::ibv_query_device(self.raw(), attr.as_mut_ptr()) };
        check(code).map_err(VerbsError::call("ibv_query_device", &self.name))?;
        // SAFETY: integers only; all were zeroed, and the call has filled in what it knows.
        let attr = unsafe { attr.assume_init() };
        let count = |count: i32| u64::from(count.max(0).unsigned_abs());
        Ok(Limits {
            queue_pairs: count(attr.max_qp),
            requests: count(attr.max_qp_wr),
            completions: count(attr.max_cqe),
            reads_served: attr.max_qp_rd_atom.clamp(1, 255) as u8,
            reads_started: attr.max_qp_init_rd_atom.clamp(1, 255) as u8,
            ports: attr.phys_port_cnt,
            has_windows: attr.max_mw > 0
                && attr.device_cap_flags & sys::ibv_device_cap_flags::IBV_DEVICE_MEM_WINDOW_TYPE_2B.0 != 0,
        })
    }

    /// The next event, if there is one. Never waits.
    pub(super) fn poll_event(&self) -> Option<AsyncEvent> {
        let mut event = MaybeUninit::<sys::ibv_async_event>::zeroed();
        // SAFETY: the context is open; its descriptor does not block; the structure is as large as the call expects.
        if unsafe { sys::ibv_get_async_event(self.raw(), event.as_mut_ptr()) } != 0 {
            return None;
        }
        let event = event.as_mut_ptr();
        // The type is read as a number: a device of tomorrow may have one that the enumeration of today does not.
        // SAFETY: the call has filled the structure in, and a C enumeration is an `unsigned int` here.
        let kind = unsafe { ptr::addr_of!((*event).event_type).cast::<u32>().read() };
        const PORT_ACTIVE: u32 = sys::ibv_event_type::IBV_EVENT_PORT_ACTIVE as u32;
        const PORT_ERR: u32 = sys::ibv_event_type::IBV_EVENT_PORT_ERR as u32;
        const DEVICE_FATAL: u32 = sys::ibv_event_type::IBV_EVENT_DEVICE_FATAL as u32;
        const CQ_ERR: u32 = sys::ibv_event_type::IBV_EVENT_CQ_ERR as u32;
        const QP_FATAL: u32 = sys::ibv_event_type::IBV_EVENT_QP_FATAL as u32;
        const QP_ACCESS_ERR: u32 = sys::ibv_event_type::IBV_EVENT_QP_ACCESS_ERR as u32;
        let read = match kind {
            DEVICE_FATAL => AsyncEvent::DeviceFatal,
            CQ_ERR => AsyncEvent::CompletionQueue,
            PORT_ACTIVE | PORT_ERR => {
                // SAFETY: these two events have a port number.
                let port = unsafe { (*event).element.port_num };
                AsyncEvent::Port { port: port as u8, up: kind == PORT_ACTIVE }
            }
            QP_FATAL..=QP_ACCESS_ERR => {
                // SAFETY: these events name a queue pair, which is not destroyed before the event is acknowledged.
                let number = unsafe { (*(*event).element.qp).qp_num };
                AsyncEvent::QueuePair { number, event: kind }
            }
            event => AsyncEvent::Other { event },
        };
        // SAFETY: the event was just taken, and is acknowledged once.
        unsafe { sys::ibv_ack_async_event(event) };
        Some(read)
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        if self.lender.is_none() {
            // SAFETY: opened once, closed once; nothing made from it is left, for all of it holds an `Arc` of this value.
            unsafe { sys::ibv_close_device(self.raw()) };
        }
    }
}

/// The result of a verb that returns 0 or an error number; some providers return -1 and set `errno`.
pub(super) fn check(code: i32) -> io::Result<()> {
    match code {
        0 => Ok(()),
        1.. => Err(io::Error::from_raw_os_error(code)),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Lends the list of devices.
fn with_devices<T>(look: impl FnOnce(&[*mut sys::ibv_device]) -> T) -> Result<T, VerbsError> {
    let mut count = 0;
    // SAFETY: the call only writes the count.
    let list = unsafe { sys::ibv_get_device_list(&mut count) };
    if list.is_null() {
        return match io::Error::last_os_error() {
            // What the loader answers for a library that it did not find.
            error if error.raw_os_error() == Some(libc::EOPNOTSUPP) => Err(VerbsError::NoLibrary),
            // The kernel has no RDMA.
            error if error.raw_os_error() == Some(libc::ENOSYS) => Ok(look(&[])),
            error => Err(VerbsError::Call { call: "ibv_get_device_list", device: "rdma".to_owned(), error }),
        };
    }
    // SAFETY: the list has that many pointers, and stays until it is freed below.
    let found = look(unsafe { std::slice::from_raw_parts(list, count.max(0) as usize) });
    // SAFETY: taken above, freed once; an opened device does not need it.
    unsafe { sys::ibv_free_device_list(list) };
    Ok(found)
}

fn name_of(device: *mut sys::ibv_device) -> String {
    // SAFETY: the device is of a list that was not freed; its name ends in a zero and lives as long.
    unsafe { CStr::from_ptr(sys::ibv_get_device_name(device)) }.to_string_lossy().into_owned()
}
