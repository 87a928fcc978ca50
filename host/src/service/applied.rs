//! The state machine of a node that only tells: every applied entry becomes a line of a file or of the standard output.
//! All these lines are its state: who has fallen behind has the beginning, and gets the rest of another node's file.
//!
//! The agent's thread appends to a buffer; a thread of its own writes, so that no disk and no reader ever delays a beat.
//! A reader that falls too far behind ends the node rather than its memory.

use std::fs::File;
use std::io::{self, Write};
use std::mem;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
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
pub(super) struct Keeper {
    shared: Arc<Shared>,
    /// The file, to read it; `None` for what cannot be read again.
    file: Option<File>,
}

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
    /// Bytes of all lines, and how many of them are written.
    collected: u64,
    written: u64,
    /// Nothing more will be applied.
    closed: bool,
    ended: Option<io::Result<()>>,
}

/// A state machine that writes to `out`.
pub(super) fn keeper(out: File) -> io::Result<(Keeper, Writer)> {
    let shared = Arc::new(Shared::default());
    let file = reader_of(&out);
    let theirs = Arc::clone(&shared);
    let thread = thread::Builder::new().name("applied".to_owned()).spawn(move || {
        let ended = write_all(out, &theirs);
        theirs.lock().ended = Some(ended);
        theirs.changed.notify_all();
    })?;
    Ok((Keeper { shared: Arc::clone(&shared), file }, Writer { shared, thread }))
}

impl Shared {
    /// Held for a copy at the most.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StateMachine for Keeper {
    fn apply(&mut self, entry: Entry<'_>) {
        let mut state = self.shared.lock();
        if state.ended.is_some() {
            return;
        }
        let was_empty = state.waiting.is_empty();
        state.waiting.extend_from_slice(entry.payload);
        state.waiting.push(b'\n');
        state.collected += entry.payload.len() as u64 + 1;
        if state.waiting.len() > MAX_WAITING {
            let what = format!("does not keep up: {MAX_WAITING} bytes wait to be written");
            state.ended = Some(Err(io::Error::other(what)));
        }
        drop(state);
        if was_empty {
            self.shared.changed.notify_all();
        }
    }

    fn save(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let Some(file) = &self.file else {
            return Err(io::Error::other("what was applied went to no file that can be read: see --applied"));
        };
        let len = self.wait_for_writer()?;
        let mut piece = vec![0; 64 << 10];
        let mut at = 0;
        while at < len {
            let count = piece.len().min((len - at) as usize);
            file.read_exact_at(&mut piece[..count], at)?;
            out.write_all(&piece[..count])?;
            at += count as u64;
        }
        Ok(())
    }

    fn load(&mut self, lines: &[u8]) -> io::Result<()> {
        let mut state = self.shared.lock();
        let missing = lines.get(state.collected as usize..).ok_or(io::ErrorKind::InvalidData)?;
        // Not bounded like what is applied: it was in memory before.
        state.waiting.extend_from_slice(missing);
        state.collected += missing.len() as u64;
        drop(state);
        self.shared.changed.notify_all();
        Ok(())
    }
}

impl Keeper {
    /// Waits until all lines are in the file; how many bytes they are.
    fn wait_for_writer(&self) -> io::Result<u64> {
        let mut state = self.shared.lock();
        while state.written < state.collected {
            if state.ended.is_some() {
                return Err(io::Error::other("the file of applied entries cannot be written"));
            }
            state = self.shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        Ok(state.collected)
    }
}

/// A way to read what is written there, if it is a file.
fn reader_of(out: &File) -> Option<File> {
    let is_file = out.metadata().is_ok_and(|metadata| metadata.is_file());
    is_file.then(|| File::open(format!("/proc/self/fd/{}", out.as_raw_fd())).ok()).flatten()
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.changed.notify_all();
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
        shared.lock().written += taken.len() as u64;
        shared.changed.notify_all();
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
    fn who_has_the_first_lines_gets_the_others() {
        let files = [(); 2].map(|()| tempfile::NamedTempFile::new().expect("a temporary file"));
        let open = |at: usize| {
            let file = File::options().append(true).open(files[at].path()).expect("opens");
            keeper(file).expect("a thread")
        };
        let ((mut ahead, ahead_writer), (mut behind, behind_writer)) = (open(0), open(1));
        apply(&mut behind, b"one");
        for line in ["one", "two", "three"] {
            apply(&mut ahead, line.as_bytes());
        }
        let mut state = Vec::new();
        ahead.save(&mut state).expect("saved");
        assert!(behind.load(b"x").is_err());
        behind.load(&state).expect("loaded");
        apply(&mut behind, b"four");
        drop((ahead, behind));
        ahead_writer.finish().expect("written");
        behind_writer.finish().expect("written");
        assert_eq!(std::fs::read_to_string(files[1].path()).expect("reads"), "one\ntwo\nthree\nfour\n");

        let (_reader, out) = pipe();
        let (mut keeper, _writer) = keeper(out).expect("a thread");
        assert!(keeper.save(&mut Vec::new()).expect_err("a pipe").to_string().contains("--applied"));
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
