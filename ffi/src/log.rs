//! What the library logs.

use std::ffi::{CString, c_char, c_void};

use ringleader::logging::{self, Level};

use crate::guard::{Failure, InCallback, guard};
use crate::status::{ringleader_status, ringleader_status as S};

/// Nothing is logged.
pub const RINGLEADER_LOG_NOTHING: u32 = 0;
/// What ends a node, or a group.
pub const RINGLEADER_LOG_ERROR: u32 = 1;
/// What an operator should look at.
pub const RINGLEADER_LOG_WARN: u32 = 2;
/// What changes rarely: who leads, who is a member.
pub const RINGLEADER_LOG_INFO: u32 = 3;
/// What helps to understand the former.
pub const RINGLEADER_LOG_DEBUG: u32 = 4;
/// Everything, every commit.
pub const RINGLEADER_LOG_TRACE: u32 = 5;

/// Is handed a line: its level, the part of the library, and the text. The texts are lent until it returns.
pub type ringleader_log_callback = Option<
    unsafe extern "C" fn(context: *mut c_void, level: u32, target: *const c_char, text: *const c_char),
>;

/// What is called with its lines.
struct Hook {
    callback: unsafe extern "C" fn(*mut c_void, u32, *const c_char, *const c_char),
    context: *mut c_void,
}

// SAFETY: by the conventions a log callback may be called in any thread, by several at a time.
unsafe impl Send for Hook {}
// SAFETY: as above.
unsafe impl Sync for Hook {}

/// From now on every line of `level` and above is handed to `callback`, in place of a former one; with `RINGLEADER_LOG_NOTHING` or NULL
/// to none. It is the whole process's: threads of the library call it, several at a time. To be set before nodes are opened, so that
/// their lines say whose they are. A call that is under way in another thread may still come after this returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringleader_set_log(
    level: u32,
    callback: ringleader_log_callback,
    context: *mut c_void,
) -> ringleader_status {
    guard(|| {
        let level = match level {
            RINGLEADER_LOG_NOTHING => None,
            RINGLEADER_LOG_ERROR => Some(Level::ERROR),
            RINGLEADER_LOG_WARN => Some(Level::WARN),
            RINGLEADER_LOG_INFO => Some(Level::INFO),
            RINGLEADER_LOG_DEBUG => Some(Level::DEBUG),
            RINGLEADER_LOG_TRACE => Some(Level::TRACE),
            other => {
                return Err(Failure::new(
                    S::RINGLEADER_OPTION,
                    format_args!("there is no log level {other}"),
                ));
            }
        };
        let (Some(level), Some(callback)) = (level, callback) else {
            logging::clear_hook();
            return Ok(());
        };
        let hook = Hook { callback, context };
        logging::set_hook(level, move |record| hook.tell(record)).map_err(|_| S::RINGLEADER_LOG_TAKEN.into())
    })
}

impl Hook {
    fn tell(&self, record: &logging::Record<'_>) {
        let level = match record.level {
            Level::ERROR => RINGLEADER_LOG_ERROR,
            Level::WARN => RINGLEADER_LOG_WARN,
            Level::INFO => RINGLEADER_LOG_INFO,
            Level::DEBUG => RINGLEADER_LOG_DEBUG,
            _ => RINGLEADER_LOG_TRACE,
        };
        let text = |text: &str| CString::new(text.replace('\0', " ")).unwrap_or_default();
        let (target, text) = (text(record.target), text(record.text));
        let _within = InCallback::enter();
        // SAFETY: by the conventions; the texts outlive the call.
        unsafe { (self.callback)(self.context, level, target.as_ptr(), text.as_ptr()) };
    }
}
