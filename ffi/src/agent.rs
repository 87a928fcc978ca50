//! Agents: the thread of several nodes, or none, for who has a loop.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Duration;

use ringleader::{AgentOptions, AgentThread, Idle, MAX_GROUPS, Polled};
use ringleader_acceptor::convert::{self, Sized32, one_of};

use crate::guard::{Failure, guard, may_wait};
use crate::lane;
use crate::status::{ringleader_status, ringleader_status as S};
use crate::table::{Table, handle, pointer};

/// What gives nodes their turns: a thread of the library, or a loop of the caller.
pub struct ringleader_agent {
    _opaque: [u8; 0],
}

/// What an agent is made with. What is 0 has its default.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ringleader_agent_options {
    /// `sizeof(ringleader_agent_options)`.
    pub size: u32,
    /// Groups that it has room for, 1 to 64; 0: 64.
    pub groups: u32,
    /// `RINGLEADER_IDLE_…`.
    pub idle: u32,
    /// The processor its thread is tied to, and 1; 0: none.
    pub pin_plus_one: u32,
}

/// Spins, then yields, then sleeps for short times.
pub const RINGLEADER_IDLE_ADAPTIVE: u32 = 0;
/// Never gives the processor away: for one of its own.
pub const RINGLEADER_IDLE_BUSY: u32 = 1;

// SAFETY: `repr(C)`, integers alone, the size first, without padding.
unsafe impl Sized32 for ringleader_agent_options {
    const FIRST: usize = size_of::<ringleader_agent_options>();
}

/// The number of an idling as C says it.
pub(crate) fn idle(number: u32) -> Result<Idle, S> {
    one_of(number, &[Idle::Adaptive, Idle::Busy])
}

/// An agent as this library keeps it.
pub(crate) struct Agent {
    pub(crate) thread: AgentThread,
    /// Where nobody but the caller gives turns.
    pub(crate) polled: Option<Loop>,
}

pub(crate) static AGENTS: Table<Agent> = Table::new(2);

/// A polled agent, for who waits at something of it. Its nodes, lanes and readers have it, and need not look for the agent.
#[derive(Clone, Debug)]
pub(crate) struct Loop {
    thread: AgentThread,
    by: ThreadId,
    /// Lanes whose outcomes go to a callback.
    calling: Arc<Mutex<Vec<usize>>>,
}

impl Loop {
    /// Only who polls may wait here: what waits gives turns.
    pub(crate) fn check(&self) -> Result<(), S> {
        if thread::current().id() == self.by { Ok(()) } else { Err(S::RINGLEADER_WRONG_THREAD) }
    }

    /// Gives a round, and rests when it found nothing to do.
    pub(crate) fn turn(&self, limit: Duration) {
        let _ = self.thread.poll_or_rest(limit);
    }

    /// A lane with a callback: its outcomes are told by who polls.
    pub(crate) fn tell_by_poll(&self, lane: usize) {
        self.calling.lock().unwrap_or_else(PoisonError::into_inner).push(lane);
    }

    fn tell_outcomes(&self) -> bool {
        // Callbacks may open lanes of this agent: they are told the next time.
        let lanes = std::mem::take(&mut *self.calling.lock().unwrap_or_else(PoisonError::into_inner));
        let mut any = false;
        let left: Vec<usize> = lanes
            .into_iter()
            .filter(|lane| match lane::tell_outcomes(*lane) {
                Ok(count) => {
                    any |= count > 0;
                    true
                }
                // Another thread has it or tells it, or a draft is open: the next time.
                Err(refused) => refused != S::RINGLEADER_CLOSED_HANDLE,
            })
            .collect();
        self.calling.lock().unwrap_or_else(PoisonError::into_inner).extend(left);
        any
    }
}

/// Options of C.
unsafe fn options(given: *const ringleader_agent_options) -> Result<AgentOptions, S> {
    let mut options = AgentOptions::default();
    if given.is_null() {
        return Ok(options);
    }
    // SAFETY: by the conventions.
    let given = unsafe { convert::grown(given) }?;
    options.groups = if given.groups == 0 { MAX_GROUPS } else { given.groups as usize };
    options.idle = idle(given.idle)?;
    options.pin = (given.pin_plus_one as usize).checked_sub(1);
    Ok(options)
}

fn make(agent: Result<AgentThread, ringleader::OpenError>, is_polled: bool) -> Result<usize, Failure> {
    let thread = agent.map_err(|error| crate::options::failed_open(&error))?;
    let by = thread::current().id();
    let polled = is_polled.then(|| Loop { thread: thread.clone(), by, calling: Arc::default() });
    Ok(AGENTS.put(Agent { thread, polled })?)
}

/// Starts an agent with a thread of the library. `options` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringleader_agent_start(
    options: *const ringleader_agent_options,
    out: *mut *mut ringleader_agent,
) -> ringleader_status {
    guard(|| {
        // SAFETY: by the conventions.
        let (given, out) = unsafe { (self::options(options)?, convert::output(out)?) };
        out.set(pointer(make(AgentThread::start(&given), false)?));
        Ok(())
    })
}

/// Makes an agent without a thread, for a caller that has a loop: `ringleader_agent_poll`, always in this thread, gives its nodes their
/// turns. `options` may be NULL; the pin is for the caller, and is not looked at.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringleader_agent_polled(
    options: *const ringleader_agent_options,
    out: *mut *mut ringleader_agent,
) -> ringleader_status {
    guard(|| {
        // SAFETY: by the conventions.
        let (given, out) = unsafe { (self::options(options)?, convert::output(out)?) };
        out.set(pointer(make(AgentThread::polled(&given), true)?));
        Ok(())
    })
}

/// Gives every node of a polled agent a turn, and tells outcomes to the callbacks of its lanes. Applies entries in here. `RINGLEADER_OK`
/// when something was done, and the next turn may find more; `RINGLEADER_NOTHING` when there was nothing to do. Rests for up to
/// `rest_ns` nanoseconds then, as the thread of an agent would; 0: it does not. A node that gets no turn for longer than a few beats
/// is taken for dead by the others.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringleader_agent_poll(
    agent: *mut ringleader_agent,
    rest_ns: u64,
) -> ringleader_status {
    guard(|| {
        let agent = AGENTS.share(handle(agent))?;
        let own = agent.polled.as_ref().ok_or(S::RINGLEADER_NOT_POLLED)?;
        own.check()?;
        may_wait()?;
        let limit = Duration::from_nanos(rest_ns);
        let polled = match rest_ns {
            0 => agent.thread.poll(),
            _ => agent.thread.poll_or_rest(limit),
        };
        let told = own.tell_outcomes();
        match polled {
            Some(Polled::Progress) => Ok(()),
            _ if told => Ok(()),
            _ => Err(S::RINGLEADER_NOTHING.into()),
        }
    })
}

/// Groups that an agent hosts now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringleader_agent_groups(
    agent: *mut ringleader_agent,
    count: *mut u32,
) -> ringleader_status {
    guard(|| {
        // SAFETY: by the conventions.
        let (agent, out) = unsafe { (AGENTS.share(handle(agent))?, convert::output(count)?) };
        out.set(agent.thread.groups() as u32);
        Ok(())
    })
}

/// Closes an agent, and waits for its thread. `RINGLEADER_IN_USE` while it hosts a node.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringleader_agent_close(agent: *mut ringleader_agent) -> ringleader_status {
    guard(|| {
        may_wait()?;
        let check =
            |agent: &Agent| if agent.thread.groups() > 0 { Err(S::RINGLEADER_IN_USE) } else { Ok(()) };
        // Before it is taken from everybody: who is refused disturbs nobody.
        check(&*AGENTS.share(handle(agent))?)?;
        drop(AGENTS.take(handle(agent), check)?);
        Ok(())
    })
}
