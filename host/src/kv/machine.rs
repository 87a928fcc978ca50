//! Between the agent's thread, which is handed the entries, and the server's, which carries them out.
//!
//! The agent copies an entry and goes on: it beats and votes whatever clients do. All that changes the state is here in one queue;
//! the server takes it empty and says when it is done. A server that falls far behind keeps the agent waiting, and with it the node:
//! that bounds the memory. A state to save is looked at by the thread that saves it, for nothing is applied meanwhile; the server
//! reads along.

use std::collections::VecDeque;
use std::io;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::snapshot;
use super::store::Store;
use crate::{Entry, StateMachine};

/// Bytes of entries that may wait for the server.
const MAX_WAITING: usize = 64 << 20;

/// What happened to the state.
#[derive(Debug)]
pub(super) enum Piece {
    /// Entries in a row: length and bytes of each.
    Entries(Vec<u8>),
    /// Another node's state has taken the place of this one.
    Loaded(Box<Store>),
}

/// What both threads have.
#[derive(Debug)]
pub(super) struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
    store: RwLock<Store>,
    bell: Bell,
}

#[derive(Debug, Default)]
struct Queue {
    pieces: VecDeque<Piece>,
    /// Bytes in them.
    waiting: usize,
    /// The server works on what it has taken.
    taken: bool,
    /// It has ended.
    closed: bool,
}

/// By which the agent wakes the server.
#[derive(Debug)]
pub(super) struct Bell {
    asleep: AtomicBool,
    waker: mio::Waker,
}

impl Bell {
    pub(super) fn new(waker: mio::Waker) -> Bell {
        Bell { asleep: AtomicBool::new(false), waker }
    }

    /// The server is going to sleep: it looks at everything once more, and sleeps only when it finds nothing.
    pub(super) fn fall_asleep(&self) {
        self.asleep.store(true, Ordering::Relaxed);
        // Either the server sees what was put there before the bell was looked at, or the bell is seen to be wanted.
        fence(Ordering::SeqCst);
    }

    pub(super) fn wake_up(&self) {
        self.asleep.store(false, Ordering::Relaxed);
    }

    /// Something is there for the server.
    pub(super) fn ring(&self) {
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) && self.asleep.swap(false, Ordering::Relaxed) {
            // A pipe to itself that cannot be written to is full, which wakes as well.
            let _ = self.waker.wake();
        }
    }
}

impl Shared {
    pub(super) fn new(bell: Bell) -> Arc<Shared> {
        let store = RwLock::new(Store::default());
        Arc::new(Shared { queue: Mutex::default(), changed: Condvar::new(), store, bell })
    }

    pub(super) fn bell(&self) -> &Bell {
        &self.bell
    }

    /// Held for a copy at the most.
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// To look at the state.
    pub(super) fn store(&self) -> RwLockReadGuard<'_, Store> {
        self.store.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// To change it: for the server alone.
    pub(super) fn store_mut(&self) -> RwLockWriteGuard<'_, Store> {
        self.store.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is to be done to the state; nothing may be left out, and [`Shared::done`] comes behind it.
    pub(super) fn take(&self) -> VecDeque<Piece> {
        let mut queue = self.queue();
        let pieces = mem::take(&mut queue.pieces);
        queue.waiting = 0;
        queue.taken = !pieces.is_empty();
        drop(queue);
        if !pieces.is_empty() {
            self.changed.notify_all();
        }
        pieces
    }

    /// It is done.
    pub(super) fn done(&self) {
        self.queue().taken = false;
        self.changed.notify_all();
    }

    /// The server has ended: nobody waits for it.
    pub(super) fn close(&self) {
        self.queue().closed = true;
        self.changed.notify_all();
    }
}

/// The agent's end.
#[derive(Debug)]
pub(super) struct Machine(pub(super) Arc<Shared>);

impl StateMachine for Machine {
    fn apply(&mut self, entry: Entry<'_>) {
        let mut queue = self.0.queue();
        while queue.waiting > MAX_WAITING && !queue.closed {
            queue = self.0.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        if queue.closed {
            return;
        }
        queue.waiting += 4 + entry.payload.len();
        if !matches!(queue.pieces.back(), Some(Piece::Entries(_))) {
            queue.pieces.push_back(Piece::Entries(Vec::new()));
        }
        if let Some(Piece::Entries(bytes)) = queue.pieces.back_mut() {
            bytes.extend_from_slice(&(entry.payload.len() as u32).to_le_bytes());
            bytes.extend_from_slice(entry.payload);
        }
        drop(queue);
        self.0.bell.ring();
    }

    fn save(&mut self, out: &mut dyn io::Write) -> io::Result<()> {
        let mut queue = self.0.queue();
        while !queue.pieces.is_empty() || queue.taken {
            if queue.closed {
                return Err(io::Error::other("the server has ended"));
            }
            queue = self.0.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        drop(queue);
        snapshot::save(&self.0.store(), out)
    }

    fn load(&mut self, state: &[u8]) -> io::Result<()> {
        let store = Box::new(snapshot::load(state)?);
        self.0.queue().pieces.push_back(Piece::Loaded(store));
        self.0.bell.ring();
        Ok(())
    }
}

/// The entries in a piece.
pub(super) fn entries(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (len, rest) = bytes.split_first_chunk()?;
        let (entry, rest) = rest.split_at_checked(u32::from_le_bytes(*len) as usize)?;
        bytes = rest;
        Some(entry)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kv::store::NEVER;
    use ringleader_core::types::{Index, Position, Term};

    fn shared() -> (mio::Poll, Arc<Shared>) {
        let poll = mio::Poll::new().expect("a poll");
        let waker = mio::Waker::new(poll.registry(), mio::Token(0)).expect("a waker");
        (poll, Shared::new(Bell::new(waker)))
    }

    fn entry(payload: &[u8]) -> Entry<'_> {
        Entry { index: Index(1), term: Term(1), position: Position(0), payload }
    }

    #[test]
    fn entries_and_states_come_in_their_order() {
        let (_poll, shared) = shared();
        let mut machine = Machine(Arc::clone(&shared));
        let mut store = Store::default();
        store.put(b"a", b"1".to_vec(), NEVER);
        let mut state = Vec::new();
        snapshot::save(&store, &mut state).expect("written");
        machine.apply(entry(b"one"));
        machine.apply(entry(b""));
        machine.load(&state).expect("a state");
        assert!(machine.load(b"no state").is_err());
        machine.apply(entry(b"two"));
        let mut pieces = shared.take();
        let [Piece::Entries(first), Piece::Loaded(loaded), Piece::Entries(last)] = pieces.make_contiguous()
        else {
            panic!("three pieces")
        };
        assert_eq!(entries(first).collect::<Vec<_>>(), [&b"one"[..], b""]);
        assert_eq!(**loaded, store);
        assert_eq!(entries(last).collect::<Vec<_>>(), [b"two"]);
        assert!(shared.take().is_empty());
    }

    #[test]
    fn a_state_is_saved_when_the_server_has_carried_everything_out() {
        let (_poll, shared) = shared();
        let mut machine = Machine(Arc::clone(&shared));
        machine.apply(entry(b"one"));
        let saving = std::thread::spawn(move || {
            let mut out = Vec::new();
            machine.save(&mut out).map(|()| out)
        });
        let taken = shared.take();
        assert_eq!(taken.len(), 1);
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert!(!saving.is_finished(), "one is taken and not carried out");
        shared.store_mut().put(b"one", vec![], NEVER);
        shared.done();
        let state = saving.join().expect("ended").expect("saved");
        assert_eq!(snapshot::load(&state).expect("a state"), *shared.store());
    }

    #[test]
    fn a_server_that_is_far_behind_is_waited_for_and_one_that_has_ended_is_not() {
        let (_poll, shared) = shared();
        let mut machine = Machine(Arc::clone(&shared));
        let large = vec![0; MAX_WAITING];
        machine.apply(entry(&large));
        let waiting = std::thread::spawn(move || {
            machine.apply(entry(b"next"));
            machine
        });
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert!(!waiting.is_finished());
        assert_eq!(shared.take().len(), 1);
        let mut machine = waiting.join().expect("ended");
        assert_eq!(shared.take().len(), 1);
        shared.close();
        machine.apply(entry(&large));
        machine.apply(entry(&large));
        assert!(machine.save(&mut Vec::new()).is_err() || shared.take().is_empty());
    }

    #[test]
    fn the_bell_rings_for_who_sleeps() {
        let (mut poll, shared) = shared();
        let mut machine = Machine(Arc::clone(&shared));
        let mut events = mio::Events::with_capacity(4);
        let mut rings = || {
            poll.poll(&mut events, Some(std::time::Duration::ZERO)).expect("polled");
            events.iter().count()
        };
        machine.apply(entry(b"one"));
        assert_eq!(rings(), 0);
        shared.bell().fall_asleep();
        machine.apply(entry(b"two"));
        machine.apply(entry(b"three"));
        assert_eq!(rings(), 1);
        shared.bell().wake_up();
        machine.apply(entry(b"four"));
        assert_eq!(rings(), 0);
    }
}
