//! Live objects by their handles. A handle is no pointer: it is a number of a place and of how often that place was used, marked so
//! that no pointer can equal it (it is not canonical on x86-64, and above what Linux gives out elsewhere). Nothing is ever read
//! through it, so any value is told for what it is.
//!
//! Each place has a word: how often it was used, whether somebody lives there, and who is visiting. Who visits alone (a lane, a reader:
//! for one thread at a time) or shares (nodes) enters by a compare-and-swap of that word; who closes has to be alone. An object is thus
//! never used while it is dropped, and never by two threads that may not.

use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::status::ringleader_status as S;

/// Places of a table.
const PLACES: usize = 1 << 14;
/// The high 16 bits of a handle.
const MARK: u64 = 0x52_1d;
/// Uses of a place; then it is not used again.
const MAX_USES: u64 = 1 << 24;

/// In a place's word, under the count of uses.
const LIVE: u64 = 1 << 31;
const ALONE: u64 = 1 << 30;
const VISITORS: u64 = ALONE - 1;

/// The objects of a kind.
pub(crate) struct Table<T> {
    kind: u64,
    places: [Place<T>; PLACES],
    free: Mutex<Free>,
}

struct Place<T> {
    word: AtomicU64,
    object: UnsafeCell<Option<Box<T>>>,
}

struct Free {
    /// Never used so far.
    fresh: usize,
    used: Vec<u16>,
}

// SAFETY: an object is moved in and out by whoever is alone with it, lent as `&mut T` to who is alone, and as `&T` to several only
// where it may be (`Table::share`); `Place::word` says who is there.
unsafe impl<T: Send> Sync for Table<T> {}

impl<T> Table<T> {
    /// `kind` tells the tables apart.
    pub(crate) const fn new(kind: u64) -> Table<T> {
        Table {
            kind,
            places: [const { Place { word: AtomicU64::new(0), object: UnsafeCell::new(None) } }; PLACES],
            free: Mutex::new(Free { fresh: 0, used: Vec::new() }),
        }
    }

    /// Takes an object in.
    pub(crate) fn put(&self, object: T) -> Result<usize, S> {
        let at = {
            let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
            match free.used.pop() {
                Some(at) => usize::from(at),
                None if free.fresh < PLACES => {
                    free.fresh += 1;
                    free.fresh - 1
                }
                None => return Err(S::RINGLEADER_HANDLES),
            }
        };
        let place = &self.places[at];
        // SAFETY: nobody lives here, so nobody else looks, and nobody else was given this place.
        unsafe { *place.object.get() = Some(Box::new(object)) };
        let uses = place.word.load(Ordering::Relaxed) >> 32;
        // Release: who finds it live finds the object.
        place.word.store(uses << 32 | LIVE, Ordering::Release);
        Ok(self.handle(at, uses))
    }

    fn handle(&self, at: usize, uses: u64) -> usize {
        (MARK << 48 | uses << 24 | (at as u64) << 8 | self.kind << 3) as usize
    }

    /// The place that a handle names, and the uses it names.
    fn find(&self, handle: usize) -> Result<(&Place<T>, u64), S> {
        let word = handle as u64;
        if word == 0 {
            return Err(S::RINGLEADER_NULL);
        }
        if word & 0xff != self.kind << 3 || word >> 48 != MARK {
            return Err(if word.is_multiple_of(8) {
                S::RINGLEADER_FOREIGN
            } else {
                S::RINGLEADER_MISALIGNED
            });
        }
        let place = self.places.get((word >> 8 & 0xffff) as usize).ok_or(S::RINGLEADER_FOREIGN)?;
        Ok((place, word >> 24 & (MAX_USES - 1)))
    }

    /// Enters a place: `enter` makes the next word of a live one.
    fn enter(&self, handle: usize, enter: impl Fn(u64) -> Option<u64>) -> Result<&Place<T>, S> {
        let (place, uses) = self.find(handle)?;
        let mut word = place.word.load(Ordering::Relaxed);
        loop {
            let now = word >> 32;
            if now > uses {
                return Err(S::RINGLEADER_CLOSED_HANDLE);
            }
            if now < uses || word & LIVE == 0 {
                return Err(S::RINGLEADER_FOREIGN);
            }
            let next = enter(word).ok_or(S::RINGLEADER_BUSY)?;
            // Acquire: what the last one did here is seen.
            match place.word.compare_exchange_weak(word, next, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Ok(place),
                Err(other) => word = other,
            }
        }
    }

    /// Lends it to one of several.
    pub(crate) fn share(&self, handle: usize) -> Result<Shared<'_, T>, S>
    where
        T: Sync,
    {
        let place =
            self.enter(handle, |word| (word & ALONE == 0 && word & VISITORS < VISITORS).then_some(word + 1))?;
        Ok(Shared(place))
    }

    /// Lends it to one alone.
    pub(crate) fn alone(&self, handle: usize) -> Result<Alone<'_, T>, S> {
        let place = self.enter(handle, |word| (word & (ALONE | VISITORS) == 0).then_some(word | ALONE))?;
        Ok(Alone(place, PhantomData))
    }

    /// Takes it out: the handle is closed. `check` may refuse.
    pub(crate) fn take(&self, handle: usize, check: impl FnOnce(&T) -> Result<(), S>) -> Result<Box<T>, S> {
        let alone = self.alone(handle)?;
        check(&alone)?;
        let place = alone.0;
        std::mem::forget(alone);
        // SAFETY: this thread is alone with it.
        let object = unsafe { (*place.object.get()).take() };
        let uses = (place.word.load(Ordering::Relaxed) >> 32) + 1;
        place.word.store(uses << 32, Ordering::Release);
        if uses < MAX_USES {
            let at = (handle as u64 >> 8 & 0xffff) as u16;
            self.free.lock().unwrap_or_else(PoisonError::into_inner).used.push(at);
        }
        Ok(object.expect("who is alone with a live place finds somebody there"))
    }
}

/// An object that others may use, too.
pub(crate) struct Shared<'a, T>(&'a Place<T>);

impl<T> Deref for Shared<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: as long as somebody visits nobody is alone here.
        unsafe { (*self.0.object.get()).as_deref() }.expect("somebody lives at a live place")
    }
}

impl<T> Drop for Shared<'_, T> {
    fn drop(&mut self) {
        self.0.word.fetch_sub(1, Ordering::Release);
    }
}

/// An object that nobody else uses.
pub(crate) struct Alone<'a, T>(&'a Place<T>, PhantomData<&'a mut T>);

impl<T> Deref for Alone<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: this thread is alone with it.
        unsafe { (*self.0.object.get()).as_deref() }.expect("somebody lives at a live place")
    }
}

impl<T> DerefMut for Alone<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above.
        unsafe { (*self.0.object.get()).as_deref_mut() }.expect("somebody lives at a live place")
    }
}

impl<T> Drop for Alone<'_, T> {
    fn drop(&mut self) {
        // Nobody else changes the word of who is alone.
        let word = self.0.word.load(Ordering::Relaxed);
        self.0.word.store(word & !ALONE, Ordering::Release);
    }
}

/// The handle of a pointer that C gave.
pub(crate) fn handle<T>(pointer: *mut T) -> usize {
    pointer.addr()
}

/// The pointer that C gets for a handle.
pub(crate) fn pointer<T>(handle: usize) -> *mut T {
    std::ptr::without_provenance_mut(handle)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::thread;

    static TABLE: Table<u32> = Table::new(3);

    #[test]
    fn whatever_is_no_live_handle_is_told_for_what_it_is() {
        let first = TABLE.put(1).unwrap();
        assert_eq!(*TABLE.share(first).unwrap(), 1);
        assert_eq!(TABLE.take(first, |_| Err(S::RINGLEADER_IN_USE)), Err(S::RINGLEADER_IN_USE));
        assert_eq!(*TABLE.take(first, |_| Ok(())).unwrap(), 1);
        let second = TABLE.put(2).unwrap();
        assert_ne!(first, second, "the same place, another handle");
        let refused = |handle| TABLE.share(handle).err();
        assert_eq!(refused(first), Some(S::RINGLEADER_CLOSED_HANDLE));
        assert_eq!(refused(0), Some(S::RINGLEADER_NULL));
        assert_eq!(refused(second + 1), Some(S::RINGLEADER_MISALIGNED));
        assert_eq!(refused(second + 8), Some(S::RINGLEADER_FOREIGN), "of another kind");
        assert_eq!(refused(second + (1 << 24)), Some(S::RINGLEADER_FOREIGN), "of the future");
        assert_eq!(refused(second + (1 << 8)), Some(S::RINGLEADER_FOREIGN), "where nobody ever lived");
        assert_eq!(refused((&raw const TABLE).addr()), Some(S::RINGLEADER_FOREIGN));
        for bit in 0..64 {
            assert!(refused(second ^ (1 << bit)).is_some(), "bit {bit}");
        }
        assert_eq!(refused(usize::MAX), Some(S::RINGLEADER_MISALIGNED));
        assert_eq!(*TABLE.take(second, |_| Ok(())).unwrap(), 2);
        assert_eq!(TABLE.take(second, |_| Ok(())), Err(S::RINGLEADER_CLOSED_HANDLE));
    }

    #[test]
    fn who_is_alone_is_alone_and_nothing_is_closed_while_it_is_used() {
        static TABLE: Table<u64> = Table::new(4);
        let handle = TABLE.put(0).unwrap();
        let shared = TABLE.share(handle).unwrap();
        assert_eq!(TABLE.alone(handle).err(), Some(S::RINGLEADER_BUSY));
        assert_eq!(TABLE.take(handle, |_| Ok(())), Err(S::RINGLEADER_BUSY));
        drop(shared);
        let entered = Arc::new(AtomicU64::new(0));
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..20_000 {
                        match TABLE.alone(handle) {
                            Ok(mut number) => {
                                *number += 1;
                                entered.fetch_add(1, Ordering::Relaxed);
                            }
                            Err(refused) => assert_eq!(refused, S::RINGLEADER_BUSY),
                        }
                    }
                });
            }
        });
        let number = *TABLE.take(handle, |_| Ok(())).unwrap();
        assert_eq!(number, entered.load(Ordering::Relaxed));
    }

    #[test]
    fn a_table_has_an_end() {
        static TABLE: Table<usize> = Table::new(5);
        let handles: Vec<usize> = (0..PLACES).map(|i| TABLE.put(i).unwrap()).collect();
        assert_eq!(TABLE.put(0), Err(S::RINGLEADER_HANDLES));
        for (i, handle) in handles.iter().enumerate() {
            assert_eq!(*TABLE.take(*handle, |_| Ok(())).unwrap(), i);
        }
        TABLE.put(0).unwrap();
    }
}
