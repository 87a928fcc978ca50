//! Readers: when the application's own state may be looked at.

use std::time::{Duration, Instant};

use ringleader::{ReadOutcome, Reader, Ticket};
use ringleader_acceptor::convert::{self, Sized32};
use ringleader_acceptor::event::{failed_read, how};

use crate::agent::Loop;
use crate::guard::{Failure, guard, may_wait};
use crate::lane::submitted;
use crate::node::{find, ringleader_node};
use crate::status::{ringleader_status, ringleader_status as S};
use crate::table::{Table, handle, pointer};

/// A way to read, for one thread at a time.
pub struct ringleader_reader {
    _opaque: [u8; 0],
}

/// How a read ended.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ringleader_read_outcome {
    /// `sizeof(ringleader_read_outcome)`.
    pub size: u32,
    /// `RINGLEADER_OK`: this node's application has been handed everything that was acknowledged to anybody before the read was asked for;
    /// what it has made of that can be looked at now. Anything else: nothing has happened, and it can be asked for again.
    /// `RINGLEADER_NOT_LEADER`: only a leader can read like this, and `leader` is who leads, 0 for nobody.
    pub status: i32,
    /// Which read: its number in the reader.
    pub ticket: u64,
    /// The last entry that the application has been handed.
    pub applied_index: u64,
    /// See `status`.
    pub leader: u32,
    /// 0.
    pub reserved: u32,
}

// SAFETY: `repr(C)`, integers alone, the size first, a multiple of 8 bytes.
unsafe impl Sized32 for ringleader_read_outcome {
    const FIRST: usize = size_of::<ringleader_read_outcome>();
}

/// A reader as this library keeps it.
struct Kept {
    reader: Reader,
    polled: Option<Loop>,
}

static READERS: Table<Kept> = Table::new(5);

fn outcome_of(ticket: Ticket, outcome: ReadOutcome) -> ringleader_read_outcome {
    let (status, applied_index, leader) = match outcome {
        ReadOutcome::Ready { applied_index } => (S::RINGLEADER_OK, applied_index, 0),
        ReadOutcome::Failed(why) => (failed_read(why), 0, 0),
        ReadOutcome::NotLeader { leader } => (S::RINGLEADER_NOT_LEADER, 0, leader.unwrap_or(0)),
        ReadOutcome::NotFormed => (S::RINGLEADER_NOT_FORMED, 0, 0),
        ReadOutcome::NoLeaseReads => (S::RINGLEADER_NO_LEASE_READS, 0, 0),
        _ => (S::RINGLEADER_CLOSED, 0, 0),
    };
    ringleader_read_outcome {
        size: size_of::<ringleader_read_outcome>() as u32,
        status: status as i32,
        ticket: ticket.0,
        applied_index,
        leader: u32::from(leader),
        reserved: 0,
    }
}

/// Opens a reader.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringleader_reader_open(
    node: *mut ringleader_node,
    out: *mut *mut ringleader_reader,
) -> ringleader_status {
    guard(|| {
        // SAFETY: by the conventions.
        let (kept, out) = unsafe { (find(node)?, convert::output(out)?) };
        let reader = READERS.put(Kept { reader: kept.node.reader(), polled: kept.polled.clone() })?;
        out.set(pointer(reader));
        Ok(())
    })
}

/// Asks for a read: `how` is one of `RINGLEADER_READ_…`. `ticket` is its number in the reader, and may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringleader_reader_ask(
    reader: *mut ringleader_reader,
    how: u32,
    ticket: *mut u64,
) -> ringleader_status {
    guard(|| {
        // SAFETY: by the conventions.
        let out = if ticket.is_null() { None } else { Some(unsafe { convert::output(ticket) }?) };
        let how = self::how(how)?;
        let number = READERS.alone(handle(reader))?.reader.ask(how).map_err(submitted)?;
        if let Some(out) = out {
            out.set(number.0);
        }
        Ok(())
    })
}

/// The next read that has ended; `RINGLEADER_NOTHING` when none has. Those of one kind end in the order in which they were asked for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringleader_reader_poll(
    reader: *mut ringleader_reader,
    out: *mut ringleader_read_outcome,
) -> ringleader_status {
    guard(|| {
        // SAFETY: by the conventions.
        let out = unsafe { convert::growing(out) }?;
        let (ticket, outcome) = READERS.alone(handle(reader))?.reader.poll().ok_or(S::RINGLEADER_NOTHING)?;
        out.set(outcome_of(ticket, outcome));
        Ok(())
    })
}

/// Waits for the next read that ends. `RINGLEADER_NOTHING`: none is under way.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringleader_reader_wait(
    reader: *mut ringleader_reader,
    timeout_ns: u64,
    out: *mut ringleader_read_outcome,
) -> ringleader_status {
    guard(|| {
        // SAFETY: by the conventions.
        let out = unsafe { convert::growing(out) }?;
        let mut kept = READERS.alone(handle(reader))?;
        may_wait()?;
        let polled = kept.polled.clone();
        if let Some(polled) = &polled {
            polled.check()?;
        }
        let deadline = Instant::now() + Duration::from_nanos(timeout_ns);
        let mut rounds = 0_u32;
        loop {
            if let Some((ticket, outcome)) = kept.reader.poll() {
                out.set(outcome_of(ticket, outcome));
                return Ok(());
            }
            if kept.reader.outstanding() == 0 {
                return Err(S::RINGLEADER_NOTHING.into());
            }
            rounds = rounds.saturating_add(1);
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(S::RINGLEADER_TIMEOUT.into());
            }
            match &polled {
                // In a turn entries are applied, and whoever applies may ask: the reader is nobody's meanwhile.
                Some(polled) => {
                    drop(kept);
                    polled.turn(left);
                    kept = READERS.alone(handle(reader))?;
                }
                None if rounds < 200 => std::hint::spin_loop(),
                None if rounds < 300 => std::thread::yield_now(),
                None => std::thread::sleep(left.min(Duration::from_micros(50))),
            }
        }
    })
}

/// Closes a reader.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringleader_reader_close(reader: *mut ringleader_reader) -> ringleader_status {
    guard(|| {
        drop(READERS.take(handle(reader), |_| Ok(()))?);
        Ok::<(), Failure>(())
    })
}
