//! What commands do to a [`Store`], and what they are answered. The same on every node: nothing but the store and the entry is
//! looked at.

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::command::{Answer, Args, Expiry, NOT_A_NUMBER, Only, Read, Scan, Unit, When, Write, number};
use super::glob;
use super::reply::Reply;
use super::store::{NEVER, Store, cost};

/// Keys that one SCAN looks at, whatever it asks for, and bytes of those keys.
const MAX_SCAN: usize = 10_000;
const MAX_SCAN_LEN: usize = 1 << 20;

/// What a state may come to. In every entry, so that all nodes keep to the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Bounds {
    /// Of [`Store::size`].
    pub(super) size: u64,
    /// Bytes of a value.
    pub(super) value: u64,
}

/// Answers a read. `now` is what a node takes for the time, to say how long a key still lives.
pub(super) fn read<'a>(store: &'a Store, read: &Read<'_>, now: i64) -> Reply<'a> {
    match *read {
        Read::Get(key) => value(store, key),
        Read::MGet(keys) => Reply::Array(keys.iter().map(|key| value(store, key)).collect()),
        Read::Exists(keys) => Reply::Int(keys.iter().filter(|key| store.item(key).is_some()).count() as i64),
        Read::StrLen(key) => Reply::Int(store.item(key).map_or(0, |item| item.value.len() as i64)),
        Read::Range { key, first, last } => {
            let bytes = store.item(key).map_or(&[][..], |item| &item.value);
            Reply::Bulk(Cow::Borrowed(range(bytes, first, last)))
        }
        Read::Life { key, unit, absolute } => Reply::Int(life(store, key, unit, absolute, now)),
        Read::Type(key) => Reply::Status(if store.item(key).is_some() { "string" } else { "none" }),
        Read::DbSize => Reply::Int(store.count() as i64),
        Read::Scan(ref asked) => scan(store, asked),
    }
}

/// Bytes that the values of a read come to, roughly: asked before they are copied.
pub(super) fn len_of(store: &Store, read: &Read<'_>) -> usize {
    let len = |key: &[u8]| store.item(key).map_or(0, |item| item.value.len());
    match *read {
        Read::Get(key) | Read::Range { key, .. } => len(key),
        Read::MGet(keys) => keys.iter().fold(0, |sum: usize, key| sum.saturating_add(len(key) + 16)),
        Read::Scan(_) => MAX_SCAN_LEN,
        _ => 0,
    }
}

fn value<'a>(store: &'a Store, key: &[u8]) -> Reply<'a> {
    store.item(key).map_or(Reply::Nil, |item| Reply::Bulk(Cow::Borrowed(&item.value)))
}

fn range(bytes: &[u8], first: i64, last: i64) -> &[u8] {
    let len = bytes.len() as i64;
    let at = |index: i64| if index < 0 { (len.saturating_add(index)).max(0) } else { index };
    if first < 0 && last < 0 && first > last {
        return &[];
    }
    let (first, last) = (at(first), at(last).min(len - 1));
    if first > last { &[] } else { &bytes[first as usize..=last as usize] }
}

fn life(store: &Store, key: &[u8], unit: Unit, absolute: bool, now: i64) -> i64 {
    let Some(item) = store.item(key) else { return -2 };
    if item.end == NEVER {
        return -1;
    }
    let ms = if absolute { item.end } else { (item.end - now.max(store.time())).max(0) };
    match unit {
        Unit::Seconds => (ms + 500) / 1000,
        Unit::Milliseconds => ms,
    }
}

/// All keys of a hash are shown together, and the next one is where the next scan begins: who is there from the first scan to the
/// last is shown.
fn scan<'a>(store: &'a Store, scan: &Scan<'_>) -> Reply<'a> {
    let (mut keys, mut looked, mut len, mut last, mut next) = (Vec::new(), 0, 0, None, 0);
    for (hash, key, item) in store.keys_from(scan.cursor) {
        if last != Some(hash) && (looked >= scan.count.min(MAX_SCAN) || len >= MAX_SCAN_LEN) {
            next = hash;
            break;
        }
        last = Some(hash);
        looked += 1;
        len += key.len();
        if store.shows(item) && !scan.none && scan.pattern.is_none_or(|pattern| glob::matches(pattern, key)) {
            keys.push(Reply::Bulk(Cow::Borrowed(key)));
        }
    }
    Reply::Array(vec![Reply::text(next.to_string()), Reply::Array(keys)])
}

/// Carries a write out. The time of its entry has passed in the store.
pub(super) fn write(store: &mut Store, write: &Write<'_>, bounds: Bounds) -> Reply<'static> {
    match *write {
        Write::Set { key, value, when, expiry, answer } => {
            set(store, key, value, when, expiry, answer, bounds)
        }
        Write::MSet { pairs, when } => set_many(store, pairs, when, bounds),
        Write::Add { key, delta } => add(store, key, delta, bounds),
        Write::Append { key, value } => append(store, key, value, bounds),
        Write::Del(keys) => Reply::Int(keys.iter().filter(|key| store.remove(key).is_some()).count() as i64),
        Write::GetDel(key) => old(store.remove(key).map(|item| item.value)),
        Write::GetEx { key, expiry } => {
            let before = store.item(key).map(|item| item.value.clone());
            if before.is_some() {
                let end = end_of(store, key, expiry);
                store.set_end(key, end);
                // One that is over at once goes at once.
                drop_if_over(store, key, end);
            }
            old(before)
        }
        Write::Expire { key, expiry, only } => expire(store, key, expiry, only),
        Write::Persist(key) => {
            let ends = store.item(key).is_some_and(|item| item.end != NEVER);
            if ends {
                store.set_end(key, NEVER);
            }
            Reply::flag(ends)
        }
        Write::Flush => {
            store.clear();
            Reply::OK
        }
    }
}

fn old(value: Option<Vec<u8>>) -> Reply<'static> {
    value.map_or(Reply::Nil, |value| Reply::Bulk(Cow::Owned(value)))
}

fn set(
    store: &mut Store,
    key: &[u8],
    value: &[u8],
    when: When,
    expiry: Expiry,
    answer: Answer,
    bounds: Bounds,
) -> Reply<'static> {
    let before = store.item(key);
    let is_set = match when {
        When::Always => true,
        When::Absent => before.is_none(),
        When::Present => before.is_some(),
    };
    let before_len = before.map(|item| item.value.len());
    let before = before.filter(|_| answer == Answer::Old).map(|item| item.value.clone());
    if is_set {
        let freed = before_len.map_or(0, |len| cost(key.len(), len));
        if let Some(error) = refused(store, cost(key.len(), value.len()), freed, value.len(), bounds) {
            return error;
        }
        let end = end_of(store, key, expiry);
        store.put(key, value.to_vec(), end);
        drop_if_over(store, key, end);
    }
    match answer {
        Answer::Ok if is_set => Reply::OK,
        Answer::Ok => Reply::Nil,
        Answer::Flag => Reply::flag(is_set),
        Answer::Old => old(before),
    }
}

fn set_many(store: &mut Store, pairs: Args<'_>, when: When, bounds: Bounds) -> Reply<'static> {
    let pairs = || pairs.chunks_exact(2).map(|pair| (pair[0], pair[1]));
    if when == When::Absent && pairs().any(|(key, _)| store.item(key).is_some()) {
        return Reply::flag(false);
    }
    let (mut added, mut freed, mut longest) = (0, 0, 0);
    let mut named = BTreeSet::new();
    for (key, value) in pairs() {
        added += cost(key.len(), value.len());
        // A key that is named twice frees its room once.
        if named.insert(key) {
            freed += store.item(key).map_or(0, |item| cost(key.len(), item.value.len()));
        }
        longest = longest.max(value.len());
    }
    if let Some(error) = refused(store, added, freed, longest, bounds) {
        return error;
    }
    for (key, value) in pairs() {
        store.put(key, value.to_vec(), NEVER);
    }
    if when == When::Absent { Reply::flag(true) } else { Reply::OK }
}

fn add(store: &mut Store, key: &[u8], delta: i64, bounds: Bounds) -> Reply<'static> {
    let before = store.item(key).map(|item| number(&item.value));
    let sum = match before {
        Some(Err(_)) => return NOT_A_NUMBER,
        Some(Ok(before)) => before.checked_add(delta),
        None => Some(delta),
    };
    let Some(sum) = sum else { return Reply::error("ERR increment or decrement would overflow") };
    let value = sum.to_string().into_bytes();
    if before.is_some() {
        store.change(key, |there| *there = value);
    } else {
        if let Some(error) = refused(store, cost(key.len(), value.len()), 0, 0, bounds) {
            return error;
        }
        store.put(key, value, NEVER);
    }
    Reply::Int(sum)
}

fn append(store: &mut Store, key: &[u8], value: &[u8], bounds: Bounds) -> Reply<'static> {
    let before = store.item(key).map(|item| item.value.len());
    let added = if before.is_some() { value.len() as u64 } else { cost(key.len(), value.len()) };
    let len = before.unwrap_or(0) + value.len();
    if let Some(error) = refused(store, added, 0, len, bounds) {
        return error;
    }
    if before.is_some() {
        store.change(key, |there| there.extend_from_slice(value));
    } else {
        store.put(key, value.to_vec(), NEVER);
    }
    Reply::Int(len as i64)
}

fn expire(store: &mut Store, key: &[u8], expiry: Expiry, only: Only) -> Reply<'static> {
    let Some(before) = store.item(key).map(|item| item.end) else { return Reply::flag(false) };
    let end = end_of(store, key, expiry);
    let ends = before != NEVER;
    let passed_over = only.without && ends
        || only.with && !ends
        // Who lives for ever lives longest.
        || only.later && end <= before
        || only.earlier && end >= before;
    if passed_over {
        return Reply::flag(false);
    }
    store.set_end(key, end);
    drop_if_over(store, key, end);
    Reply::flag(true)
}

/// When a key ends.
fn end_of(store: &Store, key: &[u8], expiry: Expiry) -> i64 {
    match expiry {
        Expiry::Never => NEVER,
        Expiry::Keep => store.item(key).map_or(NEVER, |item| item.end),
        Expiry::In(ms) => store.time().saturating_add(ms),
        Expiry::At(ms) => ms,
    }
}

/// A key whose end has come with its beginning was there, and is not any more.
fn drop_if_over(store: &mut Store, key: &[u8], end: i64) {
    if end <= store.time() {
        store.remove(key);
    }
}

/// The error for what does not fit.
fn refused(store: &Store, added: u64, freed: u64, value: usize, bounds: Bounds) -> Option<Reply<'static>> {
    if value as u64 > bounds.value {
        let text = format!("ERR string exceeds maximum allowed size ({} bytes)", bounds.value);
        return Some(Reply::error(text));
    }
    let size = store.size().saturating_sub(freed).saturating_add(added);
    (added > freed && size > bounds.size)
        .then(|| Reply::error("OOM command not allowed when used memory > 'maxmemory'."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kv::command::{Request, parse};
    use std::collections::BTreeMap;

    const BOUNDS: Bounds = Bounds { size: u64::MAX, value: 1 << 20 };

    fn run(store: &mut Store, line: &str, bounds: Bounds) -> String {
        let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let request = match parse(&args) {
            Ok((_, request)) => request.expect("about keys"),
            Err(error) => return shown(&error),
        };
        match request {
            Request::Read(asked) => shown(&read(store, &asked, store.time())),
            Request::Write(asked) => shown(&write(store, &asked, bounds)),
        }
    }

    fn shown(reply: &Reply<'_>) -> String {
        match reply {
            Reply::Status(text) => (*text).to_owned(),
            Reply::Error(text) => text.clone().into_owned(),
            Reply::Int(number) => number.to_string(),
            Reply::Bulk(bytes) => format!("{:?}", String::from_utf8_lossy(bytes)),
            Reply::Nil => "nil".to_owned(),
            Reply::Array(items) => format!("[{}]", items.iter().map(shown).collect::<Vec<_>>().join(" ")),
            Reply::Map(_) => "map".to_owned(),
        }
    }

    /// Lines of commands and what they are answered; a line `@ N` lets the log's time be N.
    fn story(text: &str) {
        let mut store = Store::default();
        store.pass_time(1_000_000);
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            if let Some(time) = line.strip_prefix("@ ") {
                store.pass_time(time.parse().expect("a time"));
                continue;
            }
            let (command, expected) = line.split_once(" -> ").expect("a command and its answer");
            assert_eq!(run(&mut store, command, BOUNDS), expected, "{command}");
        }
    }

    #[test]
    fn strings_are_as_in_redis() {
        story(
            r#"
            GET a -> nil
            SET a 1 -> OK
            GET a -> "1"
            SETNX a 2 -> 0
            SET a 2 NX -> nil
            SET b 2 XX -> nil
            SET a 2 XX GET -> "1"
            SET b x NX GET -> nil
            GETSET a 3 -> "2"
            APPEND a 45 -> 3
            APPEND c new -> 3
            STRLEN a -> 3
            INCR a -> 346
            DECRBY a 400 -> -54
            INCR n -> 1
            INCR b -> ERR value is not an integer or out of range
            SET m 9223372036854775807 -> OK
            INCR m -> ERR increment or decrement would overflow
            GET m -> "9223372036854775807"
            MSET x 1 y 2 x 3 -> OK
            MGET x y z -> ["3" "2" nil]
            MSETNX z 1 x 9 -> 0
            MSETNX z 1 w 9 -> 1
            EXISTS x x y nothing -> 3
            GETRANGE c 0 -2 -> "ne"
            GETRANGE c -2 -1 -> "ew"
            GETRANGE c -1 -2 -> ""
            GETRANGE c 5 9 -> ""
            GETRANGE nothing 0 9 -> ""
            TYPE x -> string
            TYPE nothing -> none
            DBSIZE -> 9
            DEL x x y nothing -> 2
            GETDEL z -> "1"
            GETDEL z -> nil
            FLUSHALL -> OK
            DBSIZE -> 0
            "#,
        );
    }

    #[test]
    fn keys_end_by_the_time_of_the_log() {
        story(
            r#"
            SET a 1 PX 500 -> OK
            PTTL a -> 500
            TTL a -> 1
            PEXPIRETIME a -> 1000500
            TTL nothing -> -2
            SET b 1 -> OK
            TTL b -> -1
            EXPIRE b 10 -> 1
            EXPIRE b 5 GT -> 0
            EXPIRE b 5 NX -> 0
            EXPIRE b 20 XX GT -> 1
            EXPIRE b 20 LT -> 0
            TTL b -> 20
            PERSIST b -> 1
            PERSIST b -> 0
            EXPIRE b 20 GT -> 0
            EXPIRE b 20 XX -> 0
            EXPIRE b 20 LT -> 1
            INCR b -> 2
            APPEND b 0 -> 2
            TTL b -> 20
            SET b 3 KEEPTTL -> OK
            TTL b -> 20
            SET b 3 -> OK
            TTL b -> -1
            @ 1000499
            GET a -> "1"
            SETNX a 2 -> 0
            @ 1000500
            GET a -> nil
            TTL a -> -2
            SETNX a 2 -> 1
            TTL a -> -1
            EXPIRE a -1 -> 1
            GET a -> nil
            EXPIRE a 5 -> 0
            SET c 1 EXAT 5 -> OK
            GET c -> nil
            SET c 1 EX 5 -> OK
            GETEX c -> "1"
            TTL c -> 5
            GETEX c PERSIST -> "1"
            TTL c -> -1
            GETEX c PXAT 7 -> "1"
            DBSIZE -> 1
            "#,
        );
    }

    #[test]
    fn a_state_that_is_full_takes_what_makes_it_smaller() {
        let mut store = Store::default();
        let bounds = Bounds { size: 2 * cost(1, 10), value: 40 };
        let oom = "OOM command not allowed when used memory > 'maxmemory'.";
        assert_eq!(run(&mut store, "SET a 0123456789", bounds), "OK");
        assert_eq!(run(&mut store, "SET b 0123456789", bounds), "OK");
        for line in
            ["SET c 1", "INCR c", "APPEND a 1", "MSET a 0123456789 c 1", "SET a 01234567890", "SETNX c 1"]
        {
            let before = store.clone();
            assert_eq!(run(&mut store, line, bounds), oom, "{line}");
            assert_eq!(store, before);
        }
        assert_eq!(run(&mut store, "SET a 9876543210", bounds), "OK");
        assert_eq!(run(&mut store, "SET a 1", bounds), "OK");
        assert_eq!(run(&mut store, "APPEND a 123456789", bounds), "10");
        let long = format!("SET a {}", "x".repeat(41));
        assert!(run(&mut store, &long, bounds).starts_with("ERR string exceeds"));
        assert_eq!(run(&mut store, "DEL a b", bounds), "2");
    }

    /// Redis's guarantee, with keys that come and go in between.
    #[test]
    fn a_scan_shows_all_that_is_there_from_its_begin_to_its_end() {
        let mut store = Store::default();
        let stays: BTreeSet<String> = (0..500).map(|n| format!("stays:{n}")).collect();
        for key in &stays {
            store.put(key.as_bytes(), vec![], NEVER);
        }
        let (mut seen, mut cursor, mut round) = (BTreeMap::<String, u32>::new(), "0".to_owned(), 0);
        loop {
            for n in 0..20 {
                store.put(format!("comes:{round}:{n}").as_bytes(), vec![], NEVER);
                store.remove(format!("comes:{}:{n}", round - 3).as_bytes());
            }
            round += 1;
            let line = format!("SCAN {cursor} COUNT 7");
            let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            let Ok((_, Some(Request::Read(asked)))) = parse(&args) else { panic!("a read") };
            let Reply::Array(parts) = read(&store, &asked, 0) else { panic!("an array") };
            let [Reply::Bulk(next), Reply::Array(keys)] = &parts[..] else { panic!("two parts") };
            assert!(keys.len() <= 7);
            for key in keys {
                let Reply::Bulk(key) = key else { panic!("a key") };
                *seen.entry(String::from_utf8(key.to_vec()).expect("text")).or_default() += 1;
            }
            cursor = String::from_utf8(next.to_vec()).expect("a number");
            if cursor == "0" {
                break;
            }
        }
        assert!(stays.iter().all(|key| seen.get(key) == Some(&1)));
    }

    /// However few of them match.
    #[test]
    fn a_scan_looks_at_so_many_bytes_of_keys() {
        let mut store = Store::default();
        for n in 0..10 {
            store.put(format!("{n}{}", "x".repeat(MAX_SCAN_LEN / 4)).as_bytes(), vec![], NEVER);
        }
        let mut rounds = 0;
        let mut cursor = "0".to_owned();
        while cursor != "0" || rounds == 0 {
            let line = format!("SCAN {cursor} MATCH nothing COUNT 100");
            let said = run(&mut store, &line, BOUNDS);
            cursor = said.split('"').nth(1).expect("a cursor").to_owned();
            rounds += 1;
        }
        assert_eq!(rounds, 3);
    }

    #[test]
    fn a_scan_keeps_to_its_pattern_and_its_type() {
        story(
            r#"
            MSET a:1 x a:2 x b:1 x -> OK
            SCAN 0 MATCH b* COUNT 100 -> ["0" ["b:1"]]
            SCAN 0 MATCH nothing COUNT 100 -> ["0" []]
            SCAN 0 COUNT 100 TYPE list -> ["0" []]
            SCAN 18446744073709551615 -> ["0" []]
            PEXPIRE b:1 10 -> 1
            @ 1000010
            SCAN 0 MATCH b* COUNT 100 -> ["0" []]
            "#,
        );
    }
}
