//! A [`Store`] as bytes, for a node that has fallen behind. Checksums are the core's.

use std::io::{self, ErrorKind, Write};

use super::store::{ITEM_LEN, Store};

const MAGIC: [u8; 8] = *b"RKVSNAP\x01";
/// Bytes before the keys: the magic, the time, how many keys there are.
const HEADER_LEN: usize = 24;

/// What a state may come to that fits into a snapshot of so many bytes; 0: there are no snapshots, and anything may be.
pub(super) fn room(snapshot_len: u64) -> u64 {
    if snapshot_len == 0 { u64::MAX } else { snapshot_len.saturating_sub(HEADER_LEN as u64) }
}

/// Writes it.
pub(super) fn save(store: &Store, out: &mut dyn Write) -> io::Result<()> {
    out.write_all(&MAGIC)?;
    out.write_all(&store.time().to_le_bytes())?;
    out.write_all(&(store.count() as u64).to_le_bytes())?;
    for (_, key, item) in store.keys_from(0) {
        let mut head = [0; ITEM_LEN as usize];
        head[..4].copy_from_slice(&(key.len() as u32).to_le_bytes());
        head[4..8].copy_from_slice(&(item.value.len() as u32).to_le_bytes());
        head[8..].copy_from_slice(&item.end.to_le_bytes());
        out.write_all(&head)?;
        out.write_all(key)?;
        out.write_all(&item.value)?;
    }
    Ok(())
}

/// Reads it.
pub(super) fn load(bytes: &[u8]) -> io::Result<Store> {
    read(bytes).ok_or_else(|| io::Error::new(ErrorKind::InvalidData, "no state of a key-value server"))
}

fn read(bytes: &[u8]) -> Option<Store> {
    let (magic, rest) = bytes.split_first_chunk::<8>()?;
    let (time, rest) = rest.split_first_chunk()?;
    let (count, mut rest) = rest.split_first_chunk()?;
    let mut store = Store::default();
    while !rest.is_empty() {
        let (key_len, value_len, end);
        (key_len, rest) = rest.split_first_chunk()?;
        (value_len, rest) = rest.split_first_chunk()?;
        (end, rest) = rest.split_first_chunk()?;
        let (key, value);
        (key, rest) = rest.split_at_checked(u32::from_le_bytes(*key_len) as usize)?;
        (value, rest) = rest.split_at_checked(u32::from_le_bytes(*value_len) as usize)?;
        store.put(key, value.to_vec(), i64::from_le_bytes(*end));
    }
    // Behind the keys: some may be over that were not removed yet, there as here.
    store.set_time(i64::from_le_bytes(*time));
    (*magic == MAGIC && store.count() as u64 == u64::from_le_bytes(*count)).then_some(store)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kv::store::NEVER;
    use proptest::prelude::*;

    fn saved(store: &Store) -> Vec<u8> {
        let mut bytes = Vec::new();
        save(store, &mut bytes).expect("written");
        bytes
    }

    #[test]
    fn a_state_comes_back_with_all_that_belongs_to_it() {
        let mut store = Store::default();
        assert_eq!(load(&saved(&store)).expect("read"), store);
        store.pass_time(1000);
        for n in 0..3000_i64 {
            let end = if n % 3 == 0 { NEVER } else { 1000 + n };
            store.put(format!("key {n}").as_bytes(), vec![n as u8; n as usize % 50], end);
        }
        // More than one entry removes: what is over and still there is as much a part of it.
        store.pass_time(5000);
        assert!(store.next_end() <= Some(5000));
        let bytes = saved(&store);
        assert_eq!(bytes.len() as u64, HEADER_LEN as u64 + store.size());
        let mut loaded = load(&bytes).expect("read");
        assert_eq!(loaded, store);
        loaded.pass_time(5001);
        store.pass_time(5001);
        assert_eq!(loaded, store);
    }

    #[test]
    fn what_fits_is_what_may_be() {
        assert_eq!(room(0), u64::MAX);
        let mut store = Store::default();
        store.put(b"key", b"value".to_vec(), NEVER);
        assert_eq!(room(saved(&store).len() as u64), store.size());
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(cut in 0_usize..200, at in 0_usize..200, byte in any::<u8>()) {
            let mut store = Store::default();
            for n in 0..5_u8 {
                store.put(&[n], vec![n; 10], i64::from(n) * 7 + 1);
            }
            let mut bytes = saved(&store);
            bytes.truncate(cut.max(1));
            let at = at % bytes.len();
            bytes[at] ^= byte;
            let loaded = load(&bytes);
            prop_assert!(byte == 0 && cut >= saved(&store).len() || loaded.is_err() || at >= 8);
        }
    }
}
