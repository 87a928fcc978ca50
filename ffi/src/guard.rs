//! Around every function: no panic gets out, and what went wrong is kept as text for who asks.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::ffi::{CString, c_char};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::status::ringleader_status as S;

/// What went wrong, and what there is to say about it beyond the status.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) status: S,
    text: Option<String>,
}

impl Failure {
    pub(crate) fn new(status: S, text: impl fmt::Display) -> Failure {
        Failure { status, text: Some(text.to_string()) }
    }
}

impl From<S> for Failure {
    fn from(status: S) -> Failure {
        Failure { status, text: None }
    }
}

pub(crate) type Outcome = Result<(), Failure>;

thread_local! {
    static TEXT: RefCell<Option<CString>> = const { RefCell::new(None) };
    static CALLBACKS: Cell<u32> = const { Cell::new(0) };
}

/// Runs the body of a function.
pub(crate) fn guard(body: impl FnOnce() -> Outcome) -> S {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => S::RINGLEADER_OK,
        Ok(Err(failure)) => {
            // What comes again and again, and says all by its status, costs nothing more.
            if !matches!(failure.status, S::RINGLEADER_NOTHING | S::RINGLEADER_FULL | S::RINGLEADER_TIMEOUT) {
                keep(failure.text);
            }
            failure.status
        }
        Err(panicked) => {
            keep(Some(said(&*panicked)));
            S::RINGLEADER_PANICKED
        }
    }
}

fn said(panicked: &(dyn Any + Send)) -> String {
    let text = panicked.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panicked.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("it panicked").to_owned()
}

fn keep(text: Option<String>) {
    let text = text.map(|text| CString::new(text.replace('\0', " ")).unwrap_or_default());
    // A thread that ends has nobody to tell.
    let _ = TEXT.try_with(|kept| *kept.borrow_mut() = text);
}

/// What there is to say about the last call of this thread that failed, beyond its status: one line, or an empty text. Never NULL. It
/// stays until the next call of this thread fails.
#[unsafe(no_mangle)]
pub extern "C" fn ringleader_error_text() -> *const c_char {
    let text = TEXT.try_with(|kept| kept.borrow().as_ref().map(|text| text.as_ptr()));
    text.ok().flatten().unwrap_or(c"".as_ptr())
}

/// Marks this thread as within a callback of the application, until it is dropped.
pub(crate) struct InCallback(());

impl InCallback {
    pub(crate) fn enter() -> InCallback {
        let _ = CALLBACKS.try_with(|count| count.set(count.get() + 1));
        InCallback(())
    }
}

impl Drop for InCallback {
    fn drop(&mut self) {
        let _ = CALLBACKS.try_with(|count| count.set(count.get() - 1));
    }
}

/// Refuses what may wait, or ends what calls back, within a callback.
pub(crate) fn may_wait() -> Result<(), S> {
    let within = CALLBACKS.try_with(Cell::get).unwrap_or(0) > 0;
    if within { Err(S::RINGLEADER_IN_CALLBACK) } else { Ok(()) }
}
