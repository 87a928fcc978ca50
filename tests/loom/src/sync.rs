//! The host's `sync`, of loom: the same names, and of the rings as much as the host uses.
//!
//! A ring is here what its documentation says: an element is published by a release store that its consumer acquires, a
//! place is given back the same way, and whether the other end was dropped is a relaxed look at a reference count that
//! dropping lowered with a release. Rings are cut to [`CAPACITY`].

use std::cell::{Cell, OnceCell};
use std::sync::{Arc, Mutex, PoisonError};

pub(crate) use loom::sync::atomic::{AtomicBool, Ordering};
use loom::sync::atomic::{AtomicU64 as Word, AtomicUsize};
pub(crate) use loom::thread::yield_now;

use crate::weak::{self, Weak};

/// Room for two small payloads of a lane, so that the third one wraps.
const CAPACITY: usize = 40;

/// An atomic word, whose orders can be weakened.
#[derive(Debug)]
pub(crate) struct AtomicU64(Word);

impl AtomicU64 {
    pub(crate) fn new(value: u64) -> AtomicU64 {
        AtomicU64(Word::new(value))
    }

    pub(crate) fn load(&self, order: Ordering) -> u64 {
        self.0.load(if weak::is(Weak::Loads) { Ordering::Relaxed } else { order })
    }

    pub(crate) fn store(&self, value: u64, order: Ordering) {
        self.0.store(value, if weak::is(Weak::Stores) { Ordering::Relaxed } else { order });
    }
}

impl crate::fence::Word for AtomicU64 {
    fn load(&self, order: Ordering) -> u64 {
        AtomicU64::load(self, order)
    }

    fn store(&self, value: u64, order: Ordering) {
        AtomicU64::store(self, value, order);
    }

    fn full_fence() {
        fence(Ordering::SeqCst);
    }
}

pub(crate) fn fence(order: Ordering) {
    if !weak::is(Weak::Fence(order)) {
        loom::sync::atomic::fence(order);
    }
}

/// Makes rings.
pub(crate) struct RingBuffer;

impl RingBuffer {
    #[allow(clippy::new_ret_no_self, reason = "the name and the result of what it stands for")]
    pub(crate) fn new<T>(capacity: usize) -> (Producer<T>, Consumer<T>) {
        let slots = (0..capacity.min(CAPACITY)).map(|_| Slot::default()).collect();
        let ring = Arc::new(Ring {
            slots,
            head: AtomicUsize::new(0),
            tail: AtomicUsize::new(0),
            ends: AtomicUsize::new(2),
        });
        let producer = Producer { ring: Arc::clone(&ring), tail: Cell::new(0) };
        (producer, Consumer { ring, head: Cell::new(0), peeked: OnceCell::new() })
    }
}

#[derive(Debug)]
struct Ring<T> {
    slots: Vec<Slot<T>>,
    head: AtomicUsize,
    tail: AtomicUsize,
    ends: AtomicUsize,
}

/// An element, and what tells loom that it is looked at or changed.
#[derive(Debug)]
struct Slot<T> {
    element: Mutex<Option<T>>,
    access: loom::cell::UnsafeCell<()>,
}

impl<T> Default for Slot<T> {
    fn default() -> Self {
        Slot { element: Mutex::new(None), access: loom::cell::UnsafeCell::new(()) }
    }
}

impl<T> Slot<T> {
    fn put(&self, element: Option<T>) {
        self.access.with_mut(|_| ());
        *self.element.lock().unwrap_or_else(PoisonError::into_inner) = element;
    }

    fn look(&self) -> T
    where
        T: Clone,
    {
        self.access.with(|_| ());
        let element = self.element.lock().unwrap_or_else(PoisonError::into_inner);
        element.clone().expect("what is published is there")
    }
}

impl<T> Ring<T> {
    fn slot(&self, at: usize) -> &Slot<T> {
        &self.slots[at % self.slots.len()]
    }

    fn is_abandoned(&self) -> bool {
        self.ends.load(Ordering::Relaxed) < 2
    }
}

/// There is not so much in the ring, or not so much room.
#[derive(Debug)]
pub(crate) struct Short;

#[derive(Debug)]
pub(crate) struct Producer<T> {
    ring: Arc<Ring<T>>,
    tail: Cell<usize>,
}

impl<T> Drop for Producer<T> {
    fn drop(&mut self) {
        self.ring.ends.fetch_sub(1, Ordering::Release);
    }
}

impl<T> Producer<T> {
    pub(crate) fn slots(&self) -> usize {
        self.ring.slots.len() - (self.tail.get() - self.ring.head.load(Ordering::Acquire))
    }

    pub(crate) fn is_full(&self) -> bool {
        self.slots() == 0
    }

    pub(crate) fn push(&mut self, element: T) -> Result<(), Short> {
        if self.is_full() {
            return Err(Short);
        }
        self.publish([element]);
        Ok(())
    }

    fn publish(&self, elements: impl IntoIterator<Item = T>) {
        for element in elements {
            self.ring.slot(self.tail.get()).put(Some(element));
            self.tail.set(self.tail.get() + 1);
        }
        self.ring.tail.store(self.tail.get(), Ordering::Release);
    }

    pub(crate) fn write_chunk(&mut self, count: usize) -> Result<WriteChunk<'_, T>, Short>
    where
        T: Default + Copy,
    {
        if self.slots() < count {
            return Err(Short);
        }
        let cut = (self.ring.slots.len() - self.tail.get() % self.ring.slots.len()).min(count);
        Ok(WriteChunk { producer: self, elements: vec![T::default(); count], cut })
    }
}

/// Elements that are published together.
pub(crate) struct WriteChunk<'a, T> {
    producer: &'a Producer<T>,
    elements: Vec<T>,
    cut: usize,
}

impl<T> WriteChunk<'_, T> {
    pub(crate) fn as_mut_slices(&mut self) -> (&mut [T], &mut [T]) {
        self.elements.split_at_mut(self.cut)
    }

    pub(crate) fn commit(mut self, count: usize) {
        self.elements.truncate(count);
        self.commit_all();
    }

    pub(crate) fn commit_all(self) {
        self.producer.publish(self.elements);
    }
}

#[derive(Debug)]
pub(crate) struct Consumer<T> {
    ring: Arc<Ring<T>>,
    head: Cell<usize>,
    /// What was lent from the head.
    peeked: OnceCell<T>,
}

impl<T> Drop for Consumer<T> {
    fn drop(&mut self) {
        self.ring.ends.fetch_sub(1, Ordering::Release);
    }
}

impl<T: Clone> Consumer<T> {
    fn available(&self) -> usize {
        self.ring.tail.load(Ordering::Acquire) - self.head.get()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.available() == 0
    }

    pub(crate) fn is_abandoned(&self) -> bool {
        self.ring.is_abandoned()
    }

    pub(crate) fn peek(&self) -> Result<&T, Short> {
        if self.is_empty() {
            return Err(Short);
        }
        Ok(self.peeked.get_or_init(|| self.ring.slot(self.head.get()).look()))
    }

    pub(crate) fn pop(&mut self) -> Result<T, Short> {
        if self.is_empty() {
            return Err(Short);
        }
        let element = self.ring.slot(self.head.get()).look();
        self.give_back(1);
        self.peeked = OnceCell::new();
        Ok(element)
    }

    fn give_back(&self, count: usize) {
        for _ in 0..count {
            self.ring.slot(self.head.get()).put(None);
            self.head.set(self.head.get() + 1);
        }
        self.ring.head.store(self.head.get(), Ordering::Release);
    }

    pub(crate) fn read_chunk(&mut self, count: usize) -> Result<ReadChunk<'_, T>, Short> {
        if self.available() < count {
            return Err(Short);
        }
        let head = self.head.get();
        let elements = (head..head + count).map(|at| self.ring.slot(at).look()).collect();
        let cut = (self.ring.slots.len() - head % self.ring.slots.len()).min(count);
        Ok(ReadChunk { consumer: self, elements, cut })
    }
}

/// Elements from the head on.
pub(crate) struct ReadChunk<'a, T> {
    consumer: &'a Consumer<T>,
    elements: Vec<T>,
    cut: usize,
}

impl<T: Clone> ReadChunk<'_, T> {
    pub(crate) fn as_slices(&self) -> (&[T], &[T]) {
        self.elements.split_at(self.cut)
    }

    pub(crate) fn commit_all(self) {
        self.consumer.give_back(self.elements.len());
    }
}
