//! One end of the channel, of either kind: a context, the engine that moves it on, and an orderly end of both.

#![expect(unsafe_code, reason = "calls DOCA")]

use std::ffi::{CString, c_void};
use std::mem;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use zeroize::Zeroizing;

use super::error::ChannelError;
use super::message::MESSAGE_LEN;
use super::seen::{self, Seen};
use crate::call::{alone, call};
use crate::code::Code;
use crate::device::Device;
use crate::error::Error;
use crate::representor::Representor;
use crate::sys;

/// Between two looks. The channel is for setting up, where nobody counts microseconds.
const PAUSE: Duration = Duration::from_micros(200);
/// Between two pauses.
const STEPS: u32 = 64;
/// How long a context may take to come to rest.
const REST: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, Debug)]
enum Kind {
    Server(NonNull<sys::doca_comch_server>),
    Client(NonNull<sys::doca_comch_client>),
}

/// See the module. Bound to the thread that made it.
pub(super) struct Endpoint {
    kind: Kind,
    engine: NonNull<sys::doca_pe>,
    /// Read by callbacks through its address.
    seen: NonNull<Seen>,
    /// Stays until it is known that it was sent, or that nothing is sent any more.
    outgoing: Zeroizing<Vec<u8>>,
    device: Arc<Device>,
    representor: Option<Arc<Representor>>,
}

impl Endpoint {
    /// The DPU's end, towards a function of the host.
    pub(super) fn server(representor: &Arc<Representor>, name: &str) -> Result<Endpoint, ChannelError> {
        const CREATE: &str = "doca_comch_server_create";
        let device = representor.device();
        let name = judge_name(device, name)?;
        able(
            device,
            "serve the channel: it is no physical function of a DPU",
            "doca_comch_cap_server_is_supported",
            sys::doca_comch_cap_server_is_supported,
        )?;
        let mut raw = ptr::null_mut();
        // SAFETY: device and representor are open, the name ends in a zero, and the pointer may be written.
        call(CREATE, device.label(), || unsafe {
            sys::doca_comch_server_create(device.raw(), representor.raw(), name.as_ptr(), &mut raw)
        })?;
        let raw = NonNull::new(raw).ok_or_else(|| nothing(CREATE, device))?;
        let endpoint = Endpoint::new(Kind::Server(raw), device, Some(Arc::clone(representor)))?;
        let (server, label) = (raw.as_ptr(), device.label());
        // SAFETY: here and below: the server is there and idle, and the functions take what they are given.
        call("doca_comch_server_set_max_msg_size", label, || unsafe {
            sys::doca_comch_server_set_max_msg_size(server, MESSAGE_LEN as u32)
        })?;
        // SAFETY: as above.
        call("doca_comch_server_task_send_set_conf", label, || unsafe {
            sys::doca_comch_server_task_send_set_conf(server, Some(seen::sent), Some(seen::sent), 1)
        })?;
        // SAFETY: as above.
        call("doca_comch_server_event_msg_recv_register", label, || unsafe {
            sys::doca_comch_server_event_msg_recv_register(server, Some(seen::server_heard))
        })?;
        // SAFETY: as above.
        call("doca_comch_server_event_connection_status_changed_register", label, || unsafe {
            sys::doca_comch_server_event_connection_status_changed_register(
                server,
                Some(seen::server_connected),
                Some(seen::server_disconnected),
            )
        })?;
        endpoint.start()?;
        Ok(endpoint)
    }

    /// The host's end.
    pub(super) fn client(device: &Arc<Device>, name: &str) -> Result<Endpoint, ChannelError> {
        const CREATE: &str = "doca_comch_client_create";
        let name = judge_name(device, name)?;
        able(
            device,
            "reach a DPU by the channel",
            "doca_comch_cap_client_is_supported",
            sys::doca_comch_cap_client_is_supported,
        )?;
        let mut raw = ptr::null_mut();
        // SAFETY: the device is open, the name ends in a zero, and the pointer may be written.
        call(CREATE, device.label(), || unsafe {
            sys::doca_comch_client_create(device.raw(), name.as_ptr(), &mut raw)
        })?;
        let raw = NonNull::new(raw).ok_or_else(|| nothing(CREATE, device))?;
        let endpoint = Endpoint::new(Kind::Client(raw), device, None)?;
        let (client, label) = (raw.as_ptr(), device.label());
        // SAFETY: here and below: the client is there and idle, and the functions take what they are given.
        call("doca_comch_client_set_max_msg_size", label, || unsafe {
            sys::doca_comch_client_set_max_msg_size(client, MESSAGE_LEN as u32)
        })?;
        // SAFETY: as above.
        call("doca_comch_client_task_send_set_conf", label, || unsafe {
            sys::doca_comch_client_task_send_set_conf(client, Some(seen::sent), Some(seen::sent), 1)
        })?;
        // SAFETY: as above.
        call("doca_comch_client_event_msg_recv_register", label, || unsafe {
            sys::doca_comch_client_event_msg_recv_register(client, Some(seen::client_heard))
        })?;
        endpoint.start()?;
        Ok(endpoint)
    }

    /// Around a context that was just made, which is freed if this fails.
    fn new(
        kind: Kind,
        device: &Arc<Device>,
        representor: Option<Arc<Representor>>,
    ) -> Result<Endpoint, ChannelError> {
        const CREATE: &str = "doca_pe_create";
        let mut engine = ptr::null_mut();
        // SAFETY: the pointer may be written.
        let made = call(CREATE, device.label(), || unsafe { sys::doca_pe_create(&mut engine) });
        let made = made.and_then(|()| NonNull::new(engine).ok_or_else(|| nothing(CREATE, device)));
        let engine = match made {
            Ok(engine) => engine,
            Err(error) => {
                // What cannot be freed stays.
                let _ = kind.destroy();
                return Err(error.into());
            }
        };
        let endpoint = Endpoint {
            kind,
            engine,
            seen: NonNull::from(Box::leak(Box::default())),
            outgoing: Zeroizing::default(),
            device: Arc::clone(device),
            representor,
        };
        let ctx = endpoint.kind.context();
        let data = sys::doca_data { ptr: endpoint.seen.as_ptr().cast::<c_void>() };
        // SAFETY: the context is there and idle; what the data points to is freed behind it.
        call("doca_ctx_set_user_data", device.label(), || unsafe { sys::doca_ctx_set_user_data(ctx, data) })?;
        // SAFETY: as above.
        call("doca_pe_connect_ctx", device.label(), || unsafe {
            sys::doca_pe_connect_ctx(endpoint.engine.as_ptr(), ctx)
        })?;
        Ok(endpoint)
    }

    fn start(&self) -> Result<(), ChannelError> {
        // SAFETY: the context is there and set up.
        let started = call("doca_ctx_start", self.device.label(), || unsafe {
            sys::doca_ctx_start(self.kind.context())
        });
        match started {
            // A client goes on by itself.
            Ok(()) | Err(Error::Call { code: Code::IN_PROGRESS, .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    pub(super) fn seen(&self) -> &Seen {
        // SAFETY: freed with this value; callbacks change it through cells, in this thread.
        unsafe { self.seen.as_ref() }
    }

    pub(super) fn state(&self) -> Result<sys::doca_ctx_states, ChannelError> {
        let mut state = sys::DOCA_CTX_STATE_IDLE;
        // SAFETY: the context is there, and the state may be written.
        call("doca_ctx_get_state", self.device.label(), || unsafe {
            sys::doca_ctx_get_state(self.kind.context(), &mut state)
        })?;
        Ok(state)
    }

    /// Waits until there is something, which is called so in an error.
    pub(super) fn wait<T>(
        &self,
        what: &'static str,
        deadline: Instant,
        mut look: impl FnMut(&Endpoint) -> Result<Option<T>, ChannelError>,
    ) -> Result<T, ChannelError> {
        loop {
            self.progress();
            if let Some(found) = look(self)? {
                return Ok(found);
            }
            if Instant::now() >= deadline {
                return Err(ChannelError::Deadline { what });
            }
            thread::sleep(PAUSE);
        }
    }

    /// The first message of the other side, if it was one that may be.
    pub(super) fn heard(&self) -> Result<Option<Zeroizing<Vec<u8>>>, ChannelError> {
        let seen = self.seen();
        if let Some(len) = seen.too_long.get() {
            return Err(ChannelError::TooMuch { len });
        }
        if seen.messages.get() > 1 {
            return Err(ChannelError::TooMany);
        }
        Ok(seen.message.take())
    }

    /// Sends the one message to the other side, and waits until that is done.
    pub(super) fn send(
        &mut self,
        what: &'static str,
        bytes: Zeroizing<Vec<u8>>,
        deadline: Instant,
    ) -> Result<(), ChannelError> {
        let Some(peer) = self.seen().peer.get() else { return Err(ChannelError::Gone { what }) };
        self.outgoing = bytes;
        let (name, task) = match self.task(peer) {
            Err(_) if self.is_lost() => return Err(ChannelError::Gone { what }),
            made => made?,
        };
        let task = NonNull::new(task).ok_or_else(|| nothing(name, &self.device))?;
        // SAFETY: the task was just made.
        let task = unsafe { sys::doca_comch_task_send_as_task(task.as_ptr()) };
        // SAFETY: as above; what it sends stays in this value until the context is at rest.
        let submitted =
            call("doca_task_submit", self.device.label(), || unsafe { sys::doca_task_submit(task) });
        if let Err(error) = submitted {
            // SAFETY: what was not submitted is still this program's; freed once.
            alone(|| unsafe { sys::doca_task_free(task) });
            return Err(error.into());
        }
        let sent = self.wait(what, deadline, |endpoint| Ok(endpoint.seen().sent.get()))?;
        sent.map_err(|code| match self.is_lost() {
            true => ChannelError::Gone { what },
            false => {
                let (call, device) = ("doca_comch_task_send", self.device.label().to_owned());
                Error::Call { call, device, code }.into()
            }
        })
    }

    /// Whether nobody is at the other end any more.
    pub(super) fn is_lost(&self) -> bool {
        let is_running = || matches!(self.state(), Ok(sys::DOCA_CTX_STATE_RUNNING));
        self.seen().is_gone.get() || !is_running()
    }

    /// The client's connection, once it is running.
    pub(super) fn connect(&self) -> Result<(), ChannelError> {
        const CONNECTION: &str = "doca_comch_client_get_connection";
        let Kind::Client(client) = self.kind else { return Ok(()) };
        let mut connection = ptr::null_mut();
        // SAFETY: the client is there and started, and the pointer may be written.
        call(CONNECTION, self.device.label(), || unsafe {
            sys::doca_comch_client_get_connection(client.as_ptr(), &mut connection)
        })?;
        self.seen()
            .peer
            .set(Some(NonNull::new(connection).ok_or_else(|| nothing(CONNECTION, &self.device))?));
        Ok(())
    }

    fn progress(&self) {
        // SAFETY: the engine is there. Callbacks run in here, and call no function that waits for its turn (`call`).
        let step = || unsafe { sys::doca_pe_progress(self.engine.as_ptr()) };
        // Whoever sends without end is not listened to without end.
        let _ = (0..STEPS).all(|_| alone(step) != 0);
    }

    fn task(
        &self,
        peer: NonNull<sys::doca_comch_connection>,
    ) -> Result<(&'static str, *mut sys::doca_comch_task_send), ChannelError> {
        let (message, len) = (self.outgoing.as_ptr().cast(), self.outgoing.len() as u32);
        let (peer, mut task) = (peer.as_ptr(), ptr::null_mut());
        let name = match self.kind {
            Kind::Server(_) => "doca_comch_server_task_send_alloc_init",
            Kind::Client(_) => "doca_comch_client_task_send_alloc_init",
        };
        // SAFETY: the connection is there, since it was in `Seen` and nothing has progressed; the bytes are as many as is said, and
        // stay; the pointer may be written.
        call(name, self.device.label(), || unsafe {
            match self.kind {
                Kind::Server(server) => sys::doca_comch_server_task_send_alloc_init(
                    server.as_ptr(),
                    peer,
                    message,
                    len,
                    &mut task,
                ),
                Kind::Client(client) => sys::doca_comch_client_task_send_alloc_init(
                    client.as_ptr(),
                    peer,
                    message,
                    len,
                    &mut task,
                ),
            }
        })?;
        Ok((name, task))
    }

    /// Brings the context to rest. False when it does not come to it in time.
    fn stop(&self) -> bool {
        let is_idle = || matches!(self.state(), Ok(sys::DOCA_CTX_STATE_IDLE));
        if is_idle() {
            return true;
        }
        if let (Kind::Server(server), Some(peer)) = (self.kind, self.seen().peer.get()) {
            // SAFETY: both are there, since nothing has progressed since the callback. What it could not send is not needed.
            let _ = alone(|| unsafe { sys::doca_comch_server_disconnect(server.as_ptr(), peer.as_ptr()) });
        }
        // SAFETY: the context is there. That it goes on, or has stopped by itself, is as good.
        let _ = alone(|| unsafe { sys::doca_ctx_stop(self.kind.context()) });
        let deadline = Instant::now() + REST;
        self.wait("rest", deadline, |_| Ok(is_idle().then_some(()))).is_ok()
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        // SAFETY: the engine is freed once, behind its only context.
        let end_engine = || Code::check(alone(|| unsafe { sys::doca_pe_destroy(self.engine.as_ptr()) }));
        if self.stop() && self.kind.destroy().is_ok() && end_engine().is_ok() {
            // SAFETY: it came out of a box, and nobody else has its address any more.
            drop(unsafe { Box::from_raw(self.seen.as_ptr()) });
        } else {
            // It has the address of what callbacks write to and of what is sent: both stay, and what it is made on.
            mem::forget((mem::take(&mut self.outgoing), Arc::clone(&self.device), self.representor.clone()));
        }
    }
}

impl Kind {
    fn context(self) -> *mut sys::doca_ctx {
        // SAFETY: server and client are there as long as the endpoint; this only casts, and is done inside of other calls.
        unsafe {
            match self {
                Kind::Server(server) => sys::doca_comch_server_as_ctx(server.as_ptr()),
                Kind::Client(client) => sys::doca_comch_client_as_ctx(client.as_ptr()),
            }
        }
    }

    fn destroy(self) -> Result<(), Code> {
        // SAFETY: made once; only when this fails is it there to be destroyed again.
        Code::check(alone(|| unsafe {
            match self {
                Kind::Server(server) => sys::doca_comch_server_destroy(server.as_ptr()),
                Kind::Client(client) => sys::doca_comch_client_destroy(client.as_ptr()),
            }
        }))
    }
}

fn nothing(call: &'static str, device: &Device) -> Error {
    Error::Nothing { call, device: device.label().to_owned() }
}

type Capability = unsafe extern "C" fn(*const sys::doca_devinfo) -> sys::doca_error_t;
type Limit = unsafe extern "C" fn(*const sys::doca_devinfo, *mut u32) -> sys::doca_error_t;

/// An error unless the device is of that kind, and carries the longest message.
fn able(device: &Device, what: &'static str, name: &'static str, ask: Capability) -> Result<(), Error> {
    let info = device.info()?;
    // SAFETY: the entry is that of an open device.
    match call(name, device.label(), || unsafe { ask(info) }) {
        Err(Error::Call { code: Code::NOT_SUPPORTED, .. }) => {
            return Err(Error::Unable { device: device.label().to_owned(), what });
        }
        other => other?,
    }
    let most = limit(device, "doca_comch_cap_get_max_msg_size", sys::doca_comch_cap_get_max_msg_size)?;
    if most < MESSAGE_LEN as u32 {
        let what = "carry a message of 4080 bytes over the channel";
        return Err(Error::Unable { device: device.label().to_owned(), what });
    }
    Ok(())
}

fn limit(device: &Device, name: &'static str, ask: Limit) -> Result<u32, Error> {
    let (info, mut most) = (device.info()?, 0);
    // SAFETY: the entry is that of an open device, and the number may be written.
    call(name, device.label(), || unsafe { ask(info, &mut most) })?;
    Ok(most)
}

fn judge_name(device: &Device, name: &str) -> Result<CString, ChannelError> {
    // With the zero at its end.
    let most = limit(device, "doca_comch_cap_get_max_name_len", sys::doca_comch_cap_get_max_name_len)?;
    let most = (most as usize).saturating_sub(1);
    let wrong = || ChannelError::Name { name: name.to_owned(), most };
    match CString::new(name) {
        Ok(text) if (1..=most).contains(&name.len()) => Ok(text),
        _ => Err(wrong()),
    }
}
