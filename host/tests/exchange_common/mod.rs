//! Exchanges over loopback, by number, and what they tell.

#![allow(dead_code, reason = "each test program uses a part of it")]

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use ringleader::Timing;
use ringleader::exchange::{
    CARD_LEN, Card, Event, Exchange, GroupName, Identity, Key, MeetError, Options, Timeouts,
};
use ringleader_core::options::Half;
use ringleader_core::types::{Boot, Incarnation, NodeId};

/// Descriptors and threads are counted: one test at a time.
pub(crate) static TURN: Mutex<()> = Mutex::new(());

pub(crate) fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) fn identity(node: u8) -> Identity {
    Identity {
        layout: 1,
        group: 0,
        group_name: GroupName::new("orders").expect("a name"),
        node: NodeId(node),
        half: Half::Whole,
        boot: Boot(100 + u64::from(node)),
        incarnation: Incarnation(200 + u64::from(node)),
        ring_len: 1 << 20,
        max_entry: 1 << 17,
        snapshot_len: 0,
    }
}

pub(crate) fn options(identity: Identity, listen: SocketAddr, peers: &[(u8, SocketAddr)]) -> Options {
    let mut addresses: [Option<String>; 16] = Default::default();
    for (peer, address) in peers {
        addresses[usize::from(*peer)] = Some(address.to_string());
    }
    Options {
        listen: Some(listen),
        peers: addresses,
        key: Key::from_bytes([7; 32]),
        identity,
        timeouts: Timeouts { meet: Duration::from_secs(5), ..Timeouts::new(&Timing::LOCAL) },
    }
}

/// An address of this machine; nobody is there unless told so.
pub(crate) fn loopback(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

/// The card of a node's attempt: it says whose it is.
pub(crate) fn card(node: u8, attempt: u64) -> Card {
    let mut card = [node; CARD_LEN];
    card[..8].copy_from_slice(&attempt.to_le_bytes());
    card
}

/// `count` nodes that know each other: the last is started first, for it is called and calls nobody.
pub(crate) fn group(count: u8, change: impl Fn(&mut Options)) -> BTreeMap<u8, Exchange> {
    let mut nodes: BTreeMap<u8, Exchange> = BTreeMap::new();
    for node in (1..=count).rev() {
        let peers: Vec<(u8, SocketAddr)> = (1..=count)
            .filter(|peer| *peer != node)
            .map(|peer| (peer, nodes.get(&peer).map_or(loopback(1), Exchange::local_addr)))
            .collect();
        let mut options = options(identity(node), loopback(0), &peers);
        change(&mut options);
        nodes.insert(node, Exchange::start(options).expect("starts"));
    }
    nodes
}

/// The next event.
pub(crate) fn event(exchange: &mut Exchange) -> Event {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(event) = exchange.poll() {
            return event;
        }
        assert!(Instant::now() < deadline, "nothing happens");
        thread::sleep(Duration::from_millis(1));
    }
}

#[track_caller]
pub(crate) fn met(event: Event, peer: u8, attempt: u64, theirs: u64) -> u64 {
    match event {
        Event::Met { peer: found, attempt: mine, session, identity: who, card: given } => {
            assert_eq!((found, mine), (NodeId(peer), attempt));
            assert_eq!(given, card(peer, theirs));
            assert_eq!((who.node, who.ring_len), (NodeId(peer), 1 << 20));
            session
        }
        other => panic!("not met: {other:?}"),
    }
}

#[track_caller]
pub(crate) fn failed(event: Event, peer: u8, attempt: u64) -> MeetError {
    match event {
        Event::Failed { peer: found, attempt: mine, why } => {
            assert_eq!((found, mine), (NodeId(peer), attempt));
            assert!(!why.to_string().is_empty() && !why.to_string().contains('\n'));
            why
        }
        other => panic!("not failed: {other:?}"),
    }
}

pub(crate) fn pair(nodes: &mut BTreeMap<u8, Exchange>) -> (&mut Exchange, &mut Exchange) {
    let mut both = nodes.values_mut();
    (both.next().expect("node 1"), both.next().expect("node 2"))
}

pub(crate) fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").expect("a list").count()
}

/// Threads of exchanges. (The test program has others, which come and go.)
pub(crate) fn threads() -> usize {
    let tasks = fs::read_dir("/proc/self/task").expect("a list").flatten();
    let names = tasks.filter_map(|task| fs::read_to_string(task.path().join("comm")).ok());
    names.filter(|name| name.starts_with("exchange-")).count()
}

/// No more than before. (What other tests left to end may end meanwhile.)
#[track_caller]
pub(crate) fn nothing_is_left(descriptors_before: usize, threads_before: usize) {
    let deadline = Instant::now() + PATIENCE;
    while descriptors() > descriptors_before || threads() > threads_before {
        assert!(Instant::now() < deadline, "{} descriptors, {} threads", descriptors(), threads());
        thread::sleep(Duration::from_millis(5));
    }
}
