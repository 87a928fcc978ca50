//! The application's callbacks as a state machine.

use std::ffi::{c_int, c_void};
use std::io::{self, Write};
use std::panic;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use ringleader::{Entry, StateMachine};
use ringleader_acceptor::convert::{self, Sized32};
use ringleader_acceptor::event::{ringleader_apply_callback, ringleader_entry};

use crate::guard::{Failure, InCallback, guard};
use crate::status::{ringleader_status, ringleader_status as S};
use crate::table::{Table, handle, pointer};

/// The application of one node: what its state is made of.
///
/// The callbacks of a node are never called at the same time. They may not throw, and may not wait for the node.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ringleader_application {
    /// `sizeof(ringleader_application)`.
    pub size: u32,
    /// 0.
    pub reserved: u32,
    /// What the callbacks are called with.
    pub context: *mut c_void,
    /// Takes a committed entry. Every node of a group is handed the same entries in the same order. Called in the thread of the agent, or
    /// of who polls it: as long as it runs the node neither beats nor votes. The entry, and its payload, are lent until it returns. 0: it
    /// is done; anything else ends the node, whose memory stays as it is.
    pub apply: ringleader_apply_callback,
    /// Writes the state as it is now by `ringleader_snapshot_write`, for a node that has fallen far behind. 0: it is written. NULL: the
    /// application does not save its state. Called in a thread of its own, however long it takes; nothing is applied meanwhile.
    pub save: ringleader_save_callback,
    /// Becomes what another node's `save` has written. 0: it has; anything else: it is what it was before. NULL: it does not load one.
    /// Called like `save`.
    pub load: ringleader_load_callback,
    /// Told once that no callback of the node comes any more; may be NULL. Called in a thread of the library, before `ringleader_close`
    /// returns; or earlier, when `apply` has ended the node. Not called when opening fails.
    pub ended: ringleader_ended_callback,
}

/// See `ringleader_application`.
pub type ringleader_save_callback =
    Option<unsafe extern "C" fn(context: *mut c_void, out: *mut ringleader_snapshot) -> c_int>;
/// See `ringleader_application`.
pub type ringleader_load_callback =
    Option<unsafe extern "C" fn(context: *mut c_void, state: *const u8, len: usize) -> c_int>;
/// See `ringleader_application`.
pub type ringleader_ended_callback = Option<unsafe extern "C" fn(context: *mut c_void)>;

/// Where a `save` callback writes to, until it returns.
pub struct ringleader_snapshot {
    _opaque: [u8; 0],
}

// SAFETY: `repr(C)`, integers, pointers and functions that may be none, of which all zero is some; the size first, a multiple of 8
// bytes. That the bytes of a function lead to one is the caller's word.
unsafe impl Sized32 for ringleader_application {
    const FIRST: usize = size_of::<ringleader_application>();
}

/// The callbacks, for a node that is to be opened.
pub(crate) struct Application {
    callbacks: ringleader_application,
    life: Arc<AtomicU8>,
}

/// Says that the node was opened: the application is told of its end.
pub(crate) struct Opened(ringleader_application, Arc<AtomicU8>);

/// The node is being opened; it is open; its state machine has gone.
const OPENING: u8 = 0;
const OPEN: u8 = 1;
const GONE: u8 = 2;

// SAFETY: by the conventions the callbacks may be called in any thread with their context, by one at a time.
unsafe impl Send for Application {}

impl Application {
    /// Checked.
    pub(crate) unsafe fn new(given: *const ringleader_application) -> Result<(Application, Opened), S> {
        // SAFETY: by the conventions.
        let callbacks = unsafe { convert::grown(given) }?;
        if callbacks.reserved != 0 {
            return Err(S::RINGLEADER_OPTION);
        }
        if callbacks.apply.is_none() {
            return Err(S::RINGLEADER_NULL);
        }
        let life = Arc::new(AtomicU8::new(OPENING));
        Ok((Application { callbacks, life: Arc::clone(&life) }, Opened(callbacks, life)))
    }
}

impl Opened {
    /// The node is open.
    pub(crate) fn tell(self) {
        // AcqRel: what the state machine did before it went is seen by who hears of it.
        if self.1.swap(OPEN, Ordering::AcqRel) == GONE {
            tell_end(&self.0);
        }
    }
}

fn tell_end(callbacks: &ringleader_application) {
    if let Some(ended) = callbacks.ended {
        let _within = InCallback::enter();
        // SAFETY: by the conventions.
        unsafe { ended(callbacks.context) };
    }
}

impl Drop for Application {
    fn drop(&mut self) {
        if self.life.swap(GONE, Ordering::AcqRel) == OPEN {
            tell_end(&self.callbacks);
        }
    }
}

impl StateMachine for Application {
    fn apply(&mut self, entry: Entry<'_>) {
        let entry = ringleader_entry::of(&entry);
        let Some(apply) = self.callbacks.apply else { return };
        let within = InCallback::enter();
        // SAFETY: by the conventions; the entry outlives the call.
        let refused = unsafe { apply(self.callbacks.context, &raw const entry) } != 0;
        drop(within);
        if refused {
            // Ends the node as a panic of an application does, and says nothing: who refused knows why.
            panic::resume_unwind(Box::new("the application refused an entry"));
        }
    }

    fn save(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let Some(save) = self.callbacks.save else {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "this application does not save its state",
            ));
        };
        // SAFETY: only the lifetime is another one: it is taken back below, before `out` ends.
        let lent = unsafe { std::mem::transmute::<&mut dyn Write, &'static mut dyn Write>(out) };
        let writer = WRITERS.put(Writer { out: Lent(lent), error: None }).map_err(|_| full())?;
        let within = InCallback::enter();
        // SAFETY: by the conventions.
        let refused = unsafe { save(self.callbacks.context, pointer(writer)) } != 0;
        drop(within);
        // Another thread may be writing by this handle, against the conventions: it is waited for, for what it uses ends here.
        let writer = loop {
            match WRITERS.take(writer, |_| Ok(())) {
                Ok(writer) => break writer,
                Err(_) => std::thread::yield_now(),
            }
        };
        match writer.error {
            Some(error) => Err(error),
            None if refused => Err(io::Error::other("the application refused to save its state")),
            None => Ok(()),
        }
    }

    fn load(&mut self, state: &[u8]) -> io::Result<()> {
        let Some(load) = self.callbacks.load else {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "this application loads no state"));
        };
        let _within = InCallback::enter();
        // SAFETY: by the conventions; the state is lent for the call.
        let refused = unsafe { load(self.callbacks.context, state.as_ptr(), state.len()) } != 0;
        if refused { Err(io::Error::other("the application refused a state")) } else { Ok(()) }
    }
}

fn full() -> io::Error {
    io::Error::other("there are as many snapshots under way as there can be")
}

/// Where a state is written to.
struct Writer {
    out: Lent,
    error: Option<io::Error>,
}

struct Lent(&'static mut dyn Write);

// SAFETY: it is used by who is alone with its `Writer`, while the thread that it belongs to waits for the callback.
unsafe impl Send for Lent {}

static WRITERS: Table<Writer> = Table::new(1);

/// Appends bytes to the state that a `save` callback writes. `RINGLEADER_FULL` when it does not fit; then nothing of it is of use.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringleader_snapshot_write(
    out: *mut ringleader_snapshot,
    state: *const u8,
    len: usize,
) -> ringleader_status {
    guard(|| {
        let mut writer = WRITERS.alone(handle(out))?;
        // SAFETY: by the conventions.
        let state = unsafe { convert::bytes(state, len) }?;
        if writer.error.is_some() {
            return Err(S::RINGLEADER_FULL.into());
        }
        writer.out.0.write_all(state).map_err(|error| {
            let failure = Failure::new(S::RINGLEADER_FULL, &error);
            writer.error = Some(error);
            failure
        })
    })
}
