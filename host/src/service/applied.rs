//! The state machine of a node that only tells: every applied entry becomes a line of a file or of the standard output.
//!
//! The agent's thread appends to a buffer; a thread of its own writes, so that no disk and no reader ever delays a beat.
//! A reader that falls too far behind ends the node rather than its memory.

use std::fs::File;
use std::io::{self, Write};
use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::{Entry, StateMachine};

/// Bytes that may wait to be written.
const MAX_WAITING: usize = 64 << 20;
/// How long the last bytes may take when the node has ended.
const FINISH: Duration = Duration::from_secs(5);

/// The agent's end.
#[derive(Debug)]
pub(super) struct Keeper(Arc<Shared>);

/// The desk's end, and the thread that writes.
#[derive(Debug)]
pub(super) struct Writer {
    shared: Arc<Shared>,
    thread: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: Vec<u8>,
    /// Nothing more will be applied.
    closed: bool,
    ended: Option<io::Result<()>>,
}

/// A state machine that writes to `out`.
pub(super) fn keeper(out: File) -> io::Result<(Keeper, Writer)> {
    let shared = Arc::new(Shared::default());
    let theirs = Arc::clone(&shared);
    let thread = thread::Builder::new().name("applied".to_owned()).spawn(move || {
        let ended = write_all(out, &theirs);
        theirs.lock().ended = Some(ended);
        theirs.changed.notify_all();
    })?;
    Ok((Keeper(Arc::clone(&shared)), Writer { shared, thread }))
}

impl Shared {
    /// Held for a copy at the most.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StateMachine for Keeper {
    fn apply(&mut self, entry: Entry<'_>) {
        let mut state = self.0.lock();
        if state.ended.is_some() {
            return;
        }
        let was_empty = state.waiting.is_empty();
        state.waiting.extend_from_slice(entry.payload);
        state.waiting.push(b'\n');
        if state.waiting.len() > MAX_WAITING {
            let what = format!("does not keep up: {MAX_WAITING} bytes wait to be written");
            state.ended = Some(Err(io::Error::other(what)));
        }
        drop(state);
        if was_empty {
            self.0.changed.notify_all();
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.0.lock().closed = true;
        self.0.changed.notify_all();
    }
}

impl Writer {
    /// Whether nothing can be written any more.
    pub(super) fn is_broken(&self) -> bool {
        self.shared.lock().ended.is_some()
    }

    /// Waits until everything is written: for a short time, should nobody read. To be called when the node is closed.
    pub(super) fn finish(self) -> io::Result<()> {
        let deadline = Instant::now() + FINISH;
        let mut state = self.shared.lock();
        loop {
            if let Some(ended) = state.ended.take() {
                if ended.is_ok() {
                    drop(state);
                    let _ = self.thread.join();
                }
                // One that still waits for a reader ends with the process.
                return ended;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::Error::other("nobody reads the last entries"));
            }
            state = match self.shared.changed.wait_timeout(state, left) {
                Ok((state, _)) => state,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
    }
}

fn write_all(mut out: File, shared: &Shared) -> io::Result<()> {
    let mut taken = Vec::new();
    loop {
        let mut state = shared.lock();
        while state.waiting.is_empty() && !state.closed {
            state = shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.waiting.is_empty() {
            return Ok(());
        }
        // The two buffers take turns, and keep what they have grown to.
        taken.clear();
        mem::swap(&mut state.waiting, &mut taken);
        drop(state);
        out.write_all(&taken)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringleader_core::types::{Index, Position, Term};
    use std::io::Read;

    fn apply(keeper: &mut Keeper, payload: &[u8]) {
        keeper.apply(Entry { index: Index(1), term: Term(1), position: Position(0), payload });
    }

    fn pipe() -> (std::io::PipeReader, File) {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        (reader, std::os::fd::OwnedFd::from(writer).into())
    }

    #[test]
    fn every_entry_is_a_line() {
        let (mut reader, out) = pipe();
        let (mut keeper, writer) = keeper(out).expect("a thread");
        apply(&mut keeper, b"one");
        apply(&mut keeper, b"");
        apply(&mut keeper, b"two");
        drop(keeper);
        writer.finish().expect("written");
        let mut text = String::new();
        reader.read_to_string(&mut text).expect("reads");
        assert_eq!(text, "one\n\ntwo\n");
    }

    #[test]
    fn a_reader_that_is_gone_or_asleep_ends_it() {
        let (reader, out) = pipe();
        let (mut keeper, writer) = super::keeper(out).expect("a thread");
        drop(reader);
        while !writer.is_broken() {
            apply(&mut keeper, b"x");
            thread::yield_now();
        }
        assert!(writer.finish().is_err());

        let (_reader, out) = pipe();
        let (mut keeper, writer) = super::keeper(out).expect("a thread");
        let piece = vec![b'x'; 1 << 20];
        let mut count = 0;
        while !writer.is_broken() {
            apply(&mut keeper, &piece);
            count += 1;
            assert!(count < 200, "bounded");
        }
        assert!(writer.finish().expect_err("too much").to_string().contains("does not keep up"));
    }
}
