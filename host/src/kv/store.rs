//! Keys and values, with the ends of their lives. A function of the entries applied: no clock is read here, the time is the log's.
//!
//! Keys are in the order of a hash of theirs, which is the same on every node: a place in that order is a cursor of SCAN that means
//! the same everywhere and at any time, whatever comes and goes meanwhile.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::mem;

use xxhash_rust::xxh3::xxh3_64;

/// The end of a life without end.
pub(super) const NEVER: i64 = i64::MAX;

/// Bytes that a snapshot takes for a key besides key and value.
pub(super) const ITEM_LEN: u64 = 16;

/// Keys that are removed in one entry because their time is over. A bound on how long an entry takes; the others are not seen any
/// more, either.
const EXPIRE: usize = 1000;

/// See the head of this file.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Store {
    /// The latest time of an entry, in milliseconds since the epoch. What ends then or before is not there any more.
    time: i64,
    /// By the hash of the key.
    buckets: BTreeMap<u64, Bucket>,
    /// When keys end: end, hash, key. Of those that end.
    ends: BTreeSet<(i64, u64, Box<[u8]>)>,
    count: usize,
    /// Bytes of all keys and values, and [`ITEM_LEN`] each.
    size: u64,
}

/// A value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Item {
    pub(super) value: Vec<u8>,
    /// When it ends, or [`NEVER`].
    pub(super) end: i64,
}

/// Keys of one hash: nearly always one.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Bucket {
    One(Box<[u8]>, Item),
    Many(BTreeMap<Box<[u8]>, Item>),
}

impl Bucket {
    /// Puts an item in the place of the one that this key had.
    fn put(&mut self, key: &[u8], item: Item) -> Option<Item> {
        match self {
            Bucket::One(one, there) if **one == *key => return Some(mem::replace(there, item)),
            Bucket::Many(many) => return many.insert(key.into(), item),
            Bucket::One(..) => {}
        }
        if let Bucket::One(other, there) = mem::replace(self, Bucket::Many(BTreeMap::new())) {
            *self = Bucket::Many([(other, there), (key.into(), item)].into_iter().collect());
        }
        None
    }
}

/// The hash of a key: 53 bits, which every client's numbers hold.
pub(super) fn hash(key: &[u8]) -> u64 {
    xxh3_64(key) >> 11
}

/// What a key and a value of these lengths add to [`Store::size`].
pub(super) fn cost(key: usize, value: usize) -> u64 {
    ITEM_LEN + key as u64 + value as u64
}

impl Store {
    /// The log's time.
    pub(super) fn time(&self) -> i64 {
        self.time
    }

    /// Keys, those included whose time is over and that are not removed yet.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Keys that end some time.
    pub(super) fn ending(&self) -> usize {
        self.ends.len()
    }

    /// See the field.
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// When the next key ends that is not removed yet.
    pub(super) fn next_end(&self) -> Option<i64> {
        self.ends.first().map(|(end, ..)| *end)
    }

    /// An entry of this time begins: keys whose time is over go.
    pub(super) fn pass_time(&mut self, time: i64) {
        self.time = self.time.max(time);
        for _ in 0..EXPIRE {
            if self.next_end().is_none_or(|end| end > self.time) {
                break;
            }
            if let Some((_, _, key)) = self.ends.pop_first() {
                self.take(&key);
            }
        }
    }

    /// The log's time is this: of a state that is loaded.
    pub(super) fn set_time(&mut self, time: i64) {
        self.time = time;
    }

    /// What a key has, if it is there at the log's time.
    pub(super) fn item(&self, key: &[u8]) -> Option<&Item> {
        let item = match self.buckets.get(&hash(key))? {
            Bucket::One(one, item) => (**one == *key).then_some(item)?,
            Bucket::Many(many) => many.get(key)?,
        };
        self.lives(item).then_some(item)
    }

    fn lives(&self, item: &Item) -> bool {
        item.end > self.time
    }

    /// Puts a value in the place of what there is.
    pub(super) fn put(&mut self, key: &[u8], value: Vec<u8>, end: i64) {
        let hash = hash(key);
        self.size += cost(key.len(), value.len());
        let item = Item { value, end };
        let before = match self.buckets.entry(hash) {
            Entry::Vacant(place) => {
                place.insert(Bucket::One(key.into(), item));
                None
            }
            Entry::Occupied(mut place) => place.get_mut().put(key, item),
        };
        let ended = before.as_ref().map_or(NEVER, |before| before.end);
        match before {
            Some(before) => self.size -= cost(key.len(), before.value.len()),
            None => self.count += 1,
        }
        if ended != end {
            if ended != NEVER {
                self.ends.remove(&(ended, hash, key.into()));
            }
            if end != NEVER {
                self.ends.insert((end, hash, key.into()));
            }
        }
    }

    /// Takes a key out; what it had, if it was there at the log's time.
    pub(super) fn remove(&mut self, key: &[u8]) -> Option<Item> {
        let item = self.take(key)?;
        if item.end != NEVER {
            self.ends.remove(&(item.end, hash(key), key.into()));
        }
        self.lives(&item).then_some(item)
    }

    /// Takes a key out of its bucket.
    fn take(&mut self, key: &[u8]) -> Option<Item> {
        let hash = hash(key);
        let item = match self.buckets.get_mut(&hash)? {
            Bucket::One(one, _) if **one != *key => return None,
            Bucket::One(..) => match self.buckets.remove(&hash)? {
                Bucket::One(_, item) => item,
                Bucket::Many(_) => unreachable!("it was just seen to be one"),
            },
            Bucket::Many(many) => {
                let item = many.remove(key)?;
                if many.is_empty() {
                    self.buckets.remove(&hash);
                }
                item
            }
        };
        self.count -= 1;
        self.size -= cost(key.len(), item.value.len());
        Some(item)
    }

    /// Changes the value of a key that is there, in place.
    pub(super) fn change(&mut self, key: &[u8], change: impl FnOnce(&mut Vec<u8>)) {
        let item = match self.buckets.get_mut(&hash(key)) {
            Some(Bucket::One(one, item)) if **one == *key => item,
            Some(Bucket::Many(many)) => match many.get_mut(key) {
                Some(item) => item,
                None => return,
            },
            _ => return,
        };
        let before = item.value.len() as u64;
        change(&mut item.value);
        self.size = self.size - before + item.value.len() as u64;
    }

    /// Sets when a key that is there ends.
    pub(super) fn set_end(&mut self, key: &[u8], end: i64) {
        if let Some(item) = self.remove(key) {
            self.put(key, item.value, end);
        }
    }

    /// Nothing is there any more. The time stays.
    pub(super) fn clear(&mut self) {
        *self = Store { time: self.time, ..Store::default() };
    }

    /// All keys, from this hash on, with their hashes, in the order of those.
    pub(super) fn keys_from(&self, hash: u64) -> impl Iterator<Item = (u64, &[u8], &Item)> {
        self.buckets.range(hash..).flat_map(|(hash, bucket)| {
            let (one, many) = match bucket {
                Bucket::One(key, item) => (Some((&**key, item)), None),
                Bucket::Many(many) => (None, Some(many.iter().map(|(key, item)| (&**key, item)))),
            };
            one.into_iter().chain(many.into_iter().flatten()).map(|(key, item)| (*hash, key, item))
        })
    }

    /// Whether a scan shows it.
    pub(super) fn shows(&self, item: &Item) -> bool {
        self.lives(item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(store: &Store, key: &[u8]) -> Option<Vec<u8>> {
        store.item(key).map(|item| item.value.clone())
    }

    #[test]
    fn what_is_over_is_not_seen_and_goes() {
        let mut store = Store::default();
        store.pass_time(1000);
        store.put(b"a", b"1".to_vec(), 2000);
        store.put(b"b", b"2".to_vec(), NEVER);
        store.pass_time(1999);
        assert_eq!(value(&store, b"a"), Some(b"1".to_vec()));
        store.pass_time(2000);
        assert_eq!((value(&store, b"a"), value(&store, b"b")), (None, Some(b"2".to_vec())));
        assert_eq!((store.count(), store.size(), store.next_end()), (1, cost(1, 1), None));
        // Time does not go back.
        store.pass_time(5);
        assert_eq!(store.time(), 2000);
    }

    #[test]
    fn more_than_one_entry_removes_are_not_seen_either() {
        let mut store = Store::default();
        let keys: Vec<Vec<u8>> = (0..2 * EXPIRE + 5).map(|n| n.to_string().into_bytes()).collect();
        for key in &keys {
            store.put(key, vec![], 10);
        }
        store.pass_time(10);
        assert_eq!(store.count(), EXPIRE + 5);
        assert!(keys.iter().all(|key| store.item(key).is_none()));
        assert!(keys.iter().all(|key| store.remove(key).is_none()));
        assert_eq!((store.count(), store.size(), store.ending()), (0, 0, 0));
    }

    #[test]
    fn counts_are_those_of_what_is_there() {
        let mut store = Store::default();
        store.put(b"a", b"12345".to_vec(), 50);
        store.put(b"a", b"123".to_vec(), NEVER);
        assert_eq!((store.count(), store.size(), store.ending()), (1, cost(1, 3), 0));
        store.change(b"a", |value| value.extend_from_slice(b"4567"));
        store.set_end(b"a", 70);
        assert_eq!((store.size(), store.next_end()), (cost(1, 7), Some(70)));
        store.set_end(b"a", NEVER);
        assert_eq!((store.ending(), store.remove(b"a").expect("there").value), (0, b"1234567".to_vec()));
        assert_eq!((store.count(), store.size()), (0, 0));
        store.put(b"a", vec![], 5);
        store.pass_time(3);
        store.clear();
        assert_eq!(store, Store { time: 3, ..Store::default() });
    }

    #[test]
    fn keys_of_one_hash_are_kept_apart() {
        let mut store = Store::default();
        let item = |text: &str| Item { value: text.as_bytes().to_vec(), end: NEVER };
        // No two such keys are known: the bucket is made by hand.
        let many = [(b"x".as_slice().into(), item("other"))].into_iter().collect();
        store.buckets.insert(hash(b"a"), Bucket::Many(many));
        (store.count, store.size) = (1, cost(1, 5));
        store.put(b"a", b"1".to_vec(), NEVER);
        assert_eq!(store.keys_from(0).count(), 2);
        store.change(b"a", |value| value.push(b'2'));
        assert_eq!(value(&store, b"a"), Some(b"12".to_vec()));
        assert!(store.remove(b"a").is_some() && store.remove(b"a").is_none());
        assert_eq!((store.count(), store.size()), (1, cost(1, 5)));
        store.buckets.insert(hash(b"b"), Bucket::One(b"y".as_slice().into(), item("")));
        assert!(store.item(b"b").is_none() && store.remove(b"b").is_none());
        (store.count, store.size) = (2, cost(1, 5) + cost(1, 0));
        store.put(b"b", b"2".to_vec(), NEVER);
        assert_eq!((value(&store, b"b"), store.count()), (Some(b"2".to_vec()), 3));
    }
}
