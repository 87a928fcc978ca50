//! The demo's state machine: it applies each of the client's entries once, in order, and its state is a file.
//! For a node that has fallen behind it is copied: what that one has is the beginning of it.
//!
//! The agent's thread only decides and collects; a thread of its own writes, so that no disk ever delays a beat.

use std::fs::File;
use std::io::{self, Write};
use std::mem;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::proposal;
use crate::{Entry, StateMachine};

/// Bytes are handed to the writing thread in pieces of about this length.
const CHUNK_LEN: usize = 128 << 10;

/// Counters that the node's other threads read. Relaxed everywhere: each is a number of its own.
#[derive(Debug, Default)]
pub struct Counters {
    /// The last of the client's entries that is applied.
    pub applied: AtomicU64,
    /// Dropped: applied before.
    pub repeated: AtomicU64,
    /// Dropped: one before them is missing.
    pub early: AtomicU64,
    /// Dropped: another client's.
    pub strange: AtomicU64,
    /// Bytes applied.
    pub collected: AtomicU64,
    /// Bytes written.
    pub written: AtomicU64,
    /// Writing failed.
    pub broken: AtomicBool,
}

/// The state machine. Dropping it hands the last bytes over.
#[derive(Debug)]
pub struct Keeper {
    client: u64,
    last: u64,
    chunk: Vec<u8>,
    chunks: Sender<Vec<u8>>,
    /// What the writer has written can be read here.
    file: File,
    counters: Arc<Counters>,
}

/// The thread that writes; it ends when its [`Keeper`] is dropped and everything is in the file.
#[derive(Debug)]
pub struct Writer(JoinHandle<std::io::Result<()>>);

/// A state machine for the client's entries, and its writer to `file`.
pub fn keeper(client: u64, file: File) -> std::io::Result<(Keeper, Writer, Arc<Counters>)> {
    let counters = Arc::new(Counters::default());
    let (chunks, arrived) = channel();
    let theirs = Arc::clone(&counters);
    let own = file.try_clone()?;
    let writer = thread::Builder::new().name("applied".to_owned()).spawn(move || {
        let done = write_all(file, &arrived, &theirs);
        theirs.broken.store(done.is_err(), Ordering::Relaxed);
        done
    })?;
    let chunk = Vec::with_capacity(CHUNK_LEN + 1024);
    let keeper = Keeper { client, last: 0, chunk, chunks, file: own, counters: Arc::clone(&counters) };
    Ok((keeper, Writer(writer), counters))
}

impl StateMachine for Keeper {
    fn apply(&mut self, entry: Entry<'_>) {
        let Some(proposal) = proposal::decode(self.client, entry.payload) else {
            // Else it is of a measurement.
            if proposal::client_of(entry.payload).is_some() {
                self.counters.strange.fetch_add(1, Ordering::Relaxed);
            }
            return;
        };
        // Every node sees the same entries in the same order, so every node drops the same ones.
        if proposal.number <= self.last {
            self.counters.repeated.fetch_add(1, Ordering::Relaxed);
            return;
        }
        if proposal.number != self.last + 1 {
            self.counters.early.fetch_add(1, Ordering::Relaxed);
            return;
        }
        self.last = proposal.number;
        self.chunk.extend_from_slice(proposal.bytes);
        self.counters.collected.fetch_add(proposal.bytes.len() as u64, Ordering::Relaxed);
        self.counters.applied.store(self.last, Ordering::Relaxed);
        if self.chunk.len() >= CHUNK_LEN {
            self.hand_over();
        }
    }

    fn save(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.hand_over();
        let len = self.counters.collected.load(Ordering::Relaxed);
        while self.counters.written.load(Ordering::Relaxed) < len {
            if self.counters.broken.load(Ordering::Relaxed) {
                return Err(io::Error::other("the file of applied entries cannot be written"));
            }
            thread::sleep(Duration::from_millis(1));
        }
        out.write_all(&self.last.to_le_bytes())?;
        let mut piece = vec![0; CHUNK_LEN];
        let mut at = 0;
        while at < len {
            let count = piece.len().min((len - at) as usize);
            self.file.read_exact_at(&mut piece[..count], at)?;
            out.write_all(&piece[..count])?;
            at += count as u64;
        }
        Ok(())
    }

    fn load(&mut self, state: &[u8]) -> io::Result<()> {
        let collected = self.counters.collected.load(Ordering::Relaxed);
        let (last, bytes) = state.split_first_chunk::<8>().ok_or(io::ErrorKind::InvalidData)?;
        let missing = bytes.get(collected as usize..).ok_or(io::ErrorKind::InvalidData)?;
        self.last = u64::from_le_bytes(*last);
        self.chunk.extend_from_slice(missing);
        self.counters.collected.fetch_add(missing.len() as u64, Ordering::Relaxed);
        self.counters.applied.store(self.last, Ordering::Relaxed);
        self.hand_over();
        Ok(())
    }
}

impl Keeper {
    fn hand_over(&mut self) {
        let full = mem::replace(&mut self.chunk, Vec::with_capacity(CHUNK_LEN + 1024));
        // The writer is gone after an error that it has reported.
        let _ = self.chunks.send(full);
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.hand_over();
    }
}

impl Writer {
    /// Waits until everything is in the file.
    pub fn join(self) -> std::io::Result<()> {
        self.0.join().unwrap_or_else(|_| Err(std::io::Error::other("the writing thread panicked")))
    }

    /// Whether it ended already: by an error, as long as the keeper lives.
    pub fn is_finished(&self) -> bool {
        self.0.is_finished()
    }
}

fn write_all(mut file: File, arrived: &Receiver<Vec<u8>>, counters: &Counters) -> std::io::Result<()> {
    for chunk in arrived {
        file.write_all(&chunk)?;
        counters.written.fetch_add(chunk.len() as u64, Ordering::Relaxed);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringleader_core::types::{Index, Position, Term};

    #[test]
    fn every_number_once_and_in_order() {
        let path = tempfile::NamedTempFile::new().expect("a temporary file");
        let file = File::create(path.path()).expect("opens");
        let (mut keeper, writer, counters) = keeper(5, file).expect("a thread");
        let mut payload = Vec::new();
        let mut apply = |client, number, text: &str| {
            proposal::encode(client, number, text.as_bytes(), &mut payload);
            keeper.apply(Entry { index: Index(1), term: Term(1), position: Position(0), payload: &payload });
        };
        apply(5, 1, "one ");
        apply(5, 3, "three ");
        apply(4, 2, "another's ");
        apply(5, 2, "two ");
        apply(5, 2, "two ");
        apply(5, 1, "one ");
        apply(5, 3, "three ");
        drop(keeper);
        writer.join().expect("written");
        assert_eq!(std::fs::read_to_string(path.path()).expect("reads"), "one two three ");
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        assert_eq!((read(&counters.applied), read(&counters.repeated), read(&counters.early)), (3, 2, 1));
        assert_eq!(read(&counters.strange), 1);
        assert_eq!((read(&counters.collected), read(&counters.written)), (14, 14));
    }

    #[test]
    fn who_has_the_beginning_gets_the_rest() {
        let paths = [(); 2].map(|()| tempfile::NamedTempFile::new().expect("a temporary file"));
        let open = |at: usize| {
            let file = File::options().read(true).write(true).open(paths[at].path()).expect("opens");
            keeper(5, file).expect("a thread")
        };
        let ((mut ahead, ahead_writer, _), (mut behind, behind_writer, counters)) = (open(0), open(1));
        let mut payload = Vec::new();
        let mut apply = |to: &mut Keeper, number, text: &str| {
            proposal::encode(5, number, text.as_bytes(), &mut payload);
            to.apply(Entry { index: Index(1), term: Term(1), position: Position(0), payload: &payload });
        };
        apply(&mut behind, 1, "one ");
        for (number, text) in [(1, "one "), (2, "two "), (3, "three ")] {
            apply(&mut ahead, number, text);
        }
        let mut state = Vec::new();
        ahead.save(&mut state).expect("saved");
        assert!(behind.load(&state[..9]).is_err() && behind.load(&[]).is_err());
        behind.load(&state).expect("loaded");
        apply(&mut behind, 3, "three ");
        apply(&mut behind, 4, "four ");
        drop((ahead, behind));
        ahead_writer.join().expect("written");
        behind_writer.join().expect("written");
        assert_eq!(std::fs::read_to_string(paths[1].path()).expect("reads"), "one two three four ");
        assert_eq!(counters.applied.load(Ordering::Relaxed), 4);
    }

    #[test]
    fn a_full_disk_is_told() {
        let file = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("opens");
        let (mut keeper, writer, _) = keeper(5, file).expect("a thread");
        let mut payload = Vec::new();
        proposal::encode(5, 1, b"text", &mut payload);
        keeper.apply(Entry { index: Index(1), term: Term(1), position: Position(0), payload: &payload });
        drop(keeper);
        assert!(writer.join().is_err());
    }
}
