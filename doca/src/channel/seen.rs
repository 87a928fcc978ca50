//! What DOCA's callbacks leave for who waits. They run in the same thread, inside of a call of progress, and must not panic: there is
//! C above them.

#![expect(unsafe_code, reason = "is called by DOCA")]

use std::cell::Cell;
use std::ptr::NonNull;
use std::slice;

use zeroize::Zeroizing;

use super::message::MESSAGE_LEN;
use crate::code::Code;
use crate::sys;

/// See the module. The context's user data is its address.
#[derive(Default)]
pub(super) struct Seen {
    /// The first that connected, as long as it is connected.
    pub(super) peer: Cell<Option<NonNull<sys::doca_comch_connection>>>,
    /// That one has been there, and is not any more.
    pub(super) is_gone: Cell<bool>,
    /// Its first message.
    pub(super) message: Cell<Option<Zeroizing<Vec<u8>>>>,
    /// How many it has sent.
    pub(super) messages: Cell<u32>,
    /// The length of one that is too long, of which nothing is kept.
    pub(super) too_long: Cell<Option<u32>>,
    /// What came of the message that was sent.
    pub(super) sent: Cell<Option<Result<(), Code>>>,
}

impl Seen {
    fn hear(&self, peer: *mut sys::doca_comch_connection, bytes: *const u8, len: u32) {
        // Whoever came second is not listened to.
        if self.peer.get().is_none_or(|first| first.as_ptr() != peer) {
            return;
        }
        self.messages.set(self.messages.get().saturating_add(1));
        if len as usize > MESSAGE_LEN {
            self.too_long.set(Some(len));
        } else if self.messages.get() == 1 {
            let bytes = match bytes.is_null() {
                true => &[],
                // SAFETY: so many bytes are there during the call that this is in.
                false => unsafe { slice::from_raw_parts(bytes, len as usize) },
            };
            self.message.set(Some(Zeroizing::new(bytes.to_vec())));
        }
    }
}

/// That of a context, which outlives it.
///
/// # Safety
///
/// The context is null, or one whose user data was set to the address of a [`Seen`] that lives.
unsafe fn of_context<'a>(ctx: *mut sys::doca_ctx) -> Option<&'a Seen> {
    let mut data = sys::doca_data { u64_: 0 };
    if ctx.is_null() {
        return None;
    }
    // SAFETY: the context is there, as the caller promises, and the data may be written.
    Code::check(unsafe { sys::doca_ctx_get_user_data(ctx, &mut data) }).ok()?;
    // SAFETY: all of the union are bits of one word; it is the address of a `Seen`, as the caller promises.
    unsafe { data.ptr.cast::<Seen>().as_ref() }
}

unsafe fn of_server<'a>(connection: *mut sys::doca_comch_connection) -> Option<&'a Seen> {
    // SAFETY: DOCA gives a connection that is there.
    let server = unsafe { sys::doca_comch_server_get_server_ctx(connection) };
    if server.is_null() {
        return None;
    }
    // SAFETY: the server is there as long as its connections, and was made by `Endpoint`.
    unsafe { of_context(sys::doca_comch_server_as_ctx(server)) }
}

unsafe fn of_client<'a>(connection: *mut sys::doca_comch_connection) -> Option<&'a Seen> {
    // SAFETY: as in `of_server`.
    let client = unsafe { sys::doca_comch_client_get_client_ctx(connection) };
    if client.is_null() {
        return None;
    }
    // SAFETY: as in `of_server`.
    unsafe { of_context(sys::doca_comch_client_as_ctx(client)) }
}

pub(super) unsafe extern "C" fn server_connected(
    _: *mut sys::doca_comch_event_connection_status_changed,
    connection: *mut sys::doca_comch_connection,
    is_well: u8,
) {
    // SAFETY: called by DOCA for a server of `Endpoint`.
    let Some(seen) = (unsafe { of_server(connection) }) else { return };
    if is_well != 0 && seen.peer.get().is_none() && !seen.is_gone.get() {
        seen.peer.set(NonNull::new(connection));
    }
}

pub(super) unsafe extern "C" fn server_disconnected(
    _: *mut sys::doca_comch_event_connection_status_changed,
    connection: *mut sys::doca_comch_connection,
    _: u8,
) {
    // SAFETY: as above.
    let Some(seen) = (unsafe { of_server(connection) }) else { return };
    if seen.peer.get().is_some_and(|first| first.as_ptr() == connection) {
        seen.peer.set(None);
        seen.is_gone.set(true);
    }
}

pub(super) unsafe extern "C" fn server_heard(
    _: *mut sys::doca_comch_event_msg_recv,
    bytes: *mut u8,
    len: u32,
    connection: *mut sys::doca_comch_connection,
) {
    // SAFETY: as above.
    if let Some(seen) = unsafe { of_server(connection) } {
        seen.hear(connection, bytes, len);
    }
}

pub(super) unsafe extern "C" fn client_heard(
    _: *mut sys::doca_comch_event_msg_recv,
    bytes: *mut u8,
    len: u32,
    connection: *mut sys::doca_comch_connection,
) {
    // SAFETY: as above, of a client.
    if let Some(seen) = unsafe { of_client(connection) } {
        // A client has one connection, whether it has asked for it already or not.
        seen.peer.set(NonNull::new(connection));
        seen.hear(connection, bytes, len);
    }
}

/// For both outcomes: the task says which.
pub(super) unsafe extern "C" fn sent(
    task: *mut sys::doca_comch_task_send,
    _: sys::doca_data,
    context_data: sys::doca_data,
) {
    // SAFETY: the task is done, and this program's again.
    let (task, status) = unsafe {
        let task = sys::doca_comch_task_send_as_task(task);
        (task, Code::check(sys::doca_task_get_status(task)))
    };
    // SAFETY: the context's data is the address of a `Seen` that outlives it.
    if let Some(seen) = unsafe { context_data.ptr.cast::<Seen>().as_ref() } {
        seen.sent.set(Some(status));
    }
    // SAFETY: freed once, here.
    unsafe { sys::doca_task_free(task) };
}
