//! Nodes find each other over loopback, and again after whatever happens to them. Who is no member is in `exchange_strangers`.

mod exchange_common;

use std::collections::BTreeMap;
use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::thread;
use std::time::{Duration, Instant};

use exchange_common::*;
use ringleader::exchange::{
    CARD_LEN, Card, Event, Exchange, ExchangeError, GroupName, Identity, Key, MeetError, Options,
};
use ringleader_core::types::{Boot, Incarnation, NodeId};

#[test]
fn three_nodes_meet_each_other() {
    let _turn = turn();
    let mut nodes = group(3, |_| ());
    for (node, exchange) in &mut nodes {
        for peer in (1..=3).filter(|peer| peer != node) {
            exchange.meet(NodeId(peer), u64::from(peer), &card(*node, u64::from(peer)));
        }
    }
    for (node, exchange) in &mut nodes {
        let mut peers = Vec::new();
        for _ in 0..2 {
            match event(exchange) {
                Event::Met { peer, attempt, card: given, identity: who, .. } => {
                    assert_eq!(attempt, u64::from(peer.0));
                    assert_eq!(given, card(peer.0, u64::from(*node)));
                    assert_eq!(who, identity(peer.0));
                    peers.push(peer.0);
                }
                other => panic!("{other:?}"),
            }
        }
        peers.sort_unstable();
        assert_eq!(peers, (1..=3).filter(|peer| peer != node).collect::<Vec<_>>());
    }
}

#[test]
fn whoever_comes_first_waits_and_a_late_one_is_not_too_late() {
    let _turn = turn();
    let short = |options: &mut Options| options.timeouts.meet = Duration::from_millis(1500);
    for first in [1, 2] {
        let second = 3 - first;
        let mut nodes = group(2, short);
        nodes.get_mut(&first).expect("there").meet(NodeId(second), 1, &card(first, 1));
        let why = failed(event(nodes.get_mut(&first).expect("there")), second, 1);
        assert_eq!(why, MeetError::Timeout);
        // Each wants when the other just does not, then both do.
        nodes.get_mut(&second).expect("there").meet(NodeId(first), 7, &card(second, 7));
        thread::sleep(Duration::from_millis(50));
        nodes.get_mut(&first).expect("there").meet(NodeId(second), 2, &card(first, 2));
        met(event(nodes.get_mut(&first).expect("there")), second, 2, 7);
        met(event(nodes.get_mut(&second).expect("there")), first, 7, 2);
    }
}

#[test]
fn who_meets_anew_ends_the_session_of_the_other() {
    let _turn = turn();
    let mut nodes = group(2, |_| ());
    let (one, two) = pair(&mut nodes);
    one.meet(NodeId(2), 1, &card(1, 1));
    two.meet(NodeId(1), 1, &card(2, 1));
    let mut sessions = [met(event(one), 2, 1, 1), met(event(two), 1, 1, 1)];
    for attempt in 2..10 {
        let (first, second) = if attempt % 2 == 0 { (&mut *one, &mut *two) } else { (&mut *two, &mut *one) };
        let (a, b) = if attempt % 2 == 0 { (1, 2) } else { (2, 1) };
        first.meet(NodeId(b), attempt, &card(a, attempt));
        let session = sessions[usize::from(b) - 1];
        assert_eq!(event(second), Event::Lost { peer: NodeId(a), session });
        second.meet(NodeId(a), attempt, &card(b, attempt));
        sessions[usize::from(a) - 1] = met(event(first), b, attempt, attempt);
        sessions[usize::from(b) - 1] = met(event(second), a, attempt, attempt);
    }
    // Leaving ends it too, and is not told to whoever leaves.
    one.leave(NodeId(2));
    assert_eq!(event(two), Event::Lost { peer: NodeId(1), session: sessions[1] });
    assert_eq!(one.poll(), None);
}

#[test]
fn a_peer_that_dies_is_lost_and_met_again_when_it_is_back() {
    let _turn = turn();
    for dies in [1, 2] {
        let lives = 3 - dies;
        let mut nodes = group(2, |_| ());
        let addresses: BTreeMap<u8, SocketAddr> =
            nodes.iter().map(|(node, exchange)| (*node, exchange.local_addr())).collect();
        let (one, two) = pair(&mut nodes);
        one.meet(NodeId(2), 1, &card(1, 1));
        two.meet(NodeId(1), 1, &card(2, 1));
        let sessions = [met(event(one), 2, 1, 1), met(event(two), 1, 1, 1)];
        drop(nodes.remove(&dies));
        let left = nodes.get_mut(&lives).expect("there");
        let session = sessions[usize::from(lives) - 1];
        assert_eq!(event(left), Event::Lost { peer: NodeId(dies), session });
        left.meet(NodeId(dies), 2, &card(lives, 2));
        let again = Identity { boot: Boot(900), incarnation: Incarnation(901), ..identity(dies) };
        let listen = addresses[&dies];
        let mut back =
            Exchange::start(options(again, listen, &[(lives, addresses[&lives])])).expect("starts");
        back.meet(NodeId(lives), 5, &card(dies, 5));
        met(event(&mut back), lives, 5, 2);
        met(event(left), dies, 2, 5);
    }
}

#[test]
fn a_boot_that_comes_with_another_incarnation_is_refused() {
    let _turn = turn();
    let mut two = Exchange::start(options(identity(2), loopback(0), &[(1, loopback(1))])).expect("starts");
    let at = two.local_addr();
    let mut start = |incarnation| {
        let who = Identity { incarnation: Incarnation(incarnation), ..identity(1) };
        let mut one = Exchange::start(options(who, loopback(0), &[(2, at)])).expect("starts");
        one.meet(NodeId(2), 1, &card(1, 1));
        two.meet(NodeId(1), incarnation, &card(2, incarnation));
        let seen = event(&mut two);
        (one, seen)
    };
    let (one, seen) = start(50);
    let session = met(seen, 1, 50, 1);
    drop(one);
    assert_eq!(event(&mut two), Event::Lost { peer: NodeId(1), session });
    let mut start = |incarnation| {
        let who = Identity { incarnation: Incarnation(incarnation), ..identity(1) };
        let mut one = Exchange::start(options(who, loopback(0), &[(2, at)])).expect("starts");
        one.meet(NodeId(2), 1, &card(1, 1));
        two.meet(NodeId(1), incarnation, &card(2, incarnation));
        let seen = event(&mut two);
        (one, seen)
    };
    let (_one, seen) = start(51);
    assert_eq!(failed(seen, 1, 51), MeetError::Inconsistent);
}

#[test]
fn another_key_is_told_to_the_caller() {
    let _turn = turn();
    let mut nodes = group(2, |options| options.key = Key::from_bytes([options.identity.node.0; 32]));
    let (one, two) = pair(&mut nodes);
    two.meet(NodeId(1), 1, &card(2, 1));
    one.meet(NodeId(2), 1, &card(1, 1));
    assert_eq!(failed(event(one), 2, 1), MeetError::Key);
    // The caller goes on asking, and is answered the same, without haste.
    for attempt in 2..5 {
        one.meet(NodeId(2), attempt, &card(1, attempt));
        assert_eq!(failed(event(one), 2, attempt), MeetError::Key);
    }
    assert_eq!(two.poll(), None);
}

#[test]
fn what_differs_is_named_with_both_values_on_both_sides() {
    let _turn = turn();
    let check = |change: fn(&mut Identity), expected: fn(MeetError) -> bool| {
        let mut nodes = group(2, |options| {
            if options.identity.node == NodeId(1) {
                change(&mut options.identity);
            }
        });
        let (one, two) = pair(&mut nodes);
        two.meet(NodeId(1), 1, &card(2, 1));
        one.meet(NodeId(2), 1, &card(1, 1));
        let (ours, theirs) = (failed(event(one), 2, 1), failed(event(two), 1, 1));
        assert!(expected(ours) && expected(theirs), "{ours} / {theirs}");
        assert!(ours != theirs, "each names its own value first: {ours}");
    };
    check(|who| who.layout = 2, |why| matches!(why, MeetError::Layout { .. }));
    check(|who| who.ring_len = 1 << 21, |why| matches!(why, MeetError::RingLen { .. }));
    check(|who| who.max_entry = 64, |why| matches!(why, MeetError::MaxEntry { .. }));
    check(
        |who| who.group_name = GroupName::new("billing").expect("a name"),
        |why| matches!(why, MeetError::GroupName { .. }),
    );
}

#[test]
fn two_formed_groups_do_not_mix_and_a_fresh_node_may_come() {
    let _turn = turn();
    let mut nodes = group(2, |options| options.identity.group = 5);
    let (one, two) = pair(&mut nodes);
    two.set_group(6);
    two.meet(NodeId(1), 1, &card(2, 1));
    one.meet(NodeId(2), 1, &card(1, 1));
    assert_eq!(failed(event(one), 2, 1), MeetError::Group { ours: 5, theirs: 6 });
    assert_eq!(failed(event(two), 1, 1), MeetError::Group { ours: 6, theirs: 5 });
    two.set_group(0);
    two.meet(NodeId(1), 2, &card(2, 2));
    one.meet(NodeId(2), 2, &card(1, 2));
    met(event(one), 2, 2, 2);
    met(event(two), 1, 2, 2);
}

#[test]
fn wrong_addresses_are_named() {
    let _turn = turn();
    // Node 3 is where node 1 looks for node 2; and nobody is where it looks for node 4.
    let three = Exchange::start(options(identity(3), loopback(0), &[(1, loopback(1))])).expect("starts");
    let nobody = TcpListener::bind(loopback(0)).expect("a port").local_addr().expect("an address");
    let peers = [(2, three.local_addr()), (4, nobody)];
    let mut options = options(identity(1), loopback(0), &peers);
    options.timeouts.meet = Duration::from_millis(1500);
    options.peers[5] = Some("no-such-host.invalid:7400".to_owned());
    options.peers[6] = Some("localhost:1".to_owned());
    let mut one = Exchange::start(options).expect("starts");
    one.meet(NodeId(2), 1, &card(1, 1));
    assert_eq!(failed(event(&mut one), 2, 1), MeetError::Node { expected: NodeId(2), found: NodeId(3) });
    one.meet(NodeId(4), 1, &card(1, 1));
    assert!(matches!(failed(event(&mut one), 4, 1), MeetError::Unreachable(_)));
    one.meet(NodeId(6), 1, &card(1, 1));
    assert!(matches!(failed(event(&mut one), 6, 1), MeetError::Unreachable(_)));
    one.meet(NodeId(5), 1, &card(1, 1));
    assert!(matches!(failed(event(&mut one), 5, 1), MeetError::Unresolved | MeetError::Timeout));
}

/// Whatever cannot work is tried again at leisure: names that nobody has, addresses where nobody is.
#[test]
fn what_cannot_work_costs_next_to_nothing() {
    let _turn = turn();
    let mut options = options(identity(1), loopback(0), &[(2, loopback(1))]);
    options.peers[3] = Some("no-such-host.invalid:7400".to_owned());
    options.timeouts.meet = Duration::from_secs(60);
    let mut one = Exchange::start(options).expect("starts");
    one.meet(NodeId(2), 1, &card(1, 1));
    one.meet(NodeId(3), 1, &card(1, 1));
    let spent = || {
        let usage = fs::read_to_string("/proc/self/stat").expect("its times");
        let fields: Vec<&str> =
            usage.rsplit(')').next().expect("after the name").split_whitespace().collect();
        // utime and stime (proc(5)), in hundredths of a second.
        [11, 12].iter().map(|field| fields[*field].parse::<u64>().expect("a number")).sum::<u64>()
    };
    let before = spent();
    thread::sleep(Duration::from_secs(2));
    assert!(spent() - before < 60, "{} of 200 hundredths", spent() - before);
    assert_eq!(one.poll(), None);
}

/// What a node's fabric makes of the events: which card of whom it holds.
#[derive(Default)]
struct Held {
    attempt: u64,
    /// Session, own attempt and the peer's card, by peer.
    sessions: BTreeMap<u8, (u64, u64, Card)>,
    wanted: Vec<u8>,
}

impl Held {
    fn take(&mut self, event: Event) {
        match event {
            Event::Met { peer, attempt, session, card, .. } => {
                self.sessions.insert(peer.0, (session, attempt, card));
                self.wanted.retain(|wanted| *wanted != peer.0);
            }
            Event::Lost { peer, session } => {
                if self.sessions.get(&peer.0).is_some_and(|held| held.0 == session) {
                    self.sessions.remove(&peer.0);
                }
            }
            Event::Failed { peer, .. } => self.wanted.retain(|wanted| *wanted != peer.0),
            other => panic!("{other:?}"),
        }
    }

    /// Like a core: whoever is not connected is wanted.
    fn want(&mut self, node: u8, exchange: &mut Exchange, peer: u8) {
        self.sessions.remove(&peer);
        self.attempt += 1;
        exchange.meet(NodeId(peer), self.attempt, &card(node, self.attempt));
        self.wanted.push(peer);
    }
}

/// Hundreds of rounds in which all pairs meet anew, from either side or both, with leaves in between: each ends with both
/// ends of each pair holding each other's last card; and nothing grows.
#[test]
fn nodes_that_meet_anew_all_the_time_end_up_with_each_others_last_cards() {
    let _turn = turn();
    let (fds_before, threads_before) = (descriptors(), threads());
    let mut nodes = group(3, |_| ());
    let mut held: BTreeMap<u8, Held> = (1..=3).map(|node| (node, Held::default())).collect();
    let (mut seed, mut most) = (1_u64, 0);
    let mut random = |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    for round in 0..300 {
        for _ in 0..random(6) {
            let node = 1 + random(3) as u8;
            let peer = 1 + ((u64::from(node) + random(2)) % 3) as u8;
            let (exchange, held) =
                (nodes.get_mut(&node).expect("a node"), held.get_mut(&node).expect("a node"));
            if random(8) == 0 {
                exchange.leave(NodeId(peer));
                held.sessions.remove(&peer);
                held.wanted.retain(|wanted| *wanted != peer);
            } else {
                held.want(node, exchange, peer);
            }
            if random(2) == 0 {
                thread::sleep(Duration::from_micros(random(800)));
            }
        }
        let deadline = Instant::now() + PATIENCE;
        loop {
            for (node, exchange) in &mut nodes {
                let held = held.get_mut(node).expect("a node");
                while let Some(event) = exchange.poll() {
                    held.take(event);
                }
                for peer in (1..=3).filter(|peer| peer != node) {
                    if !held.sessions.contains_key(&peer) && !held.wanted.contains(&peer) {
                        held.want(*node, exchange, peer);
                    }
                }
            }
            // Both ends are in the same session when each holds the card of the other's attempt.
            let is_paired = |a: u8, b: u8| match (held[&a].sessions.get(&b), held[&b].sessions.get(&a)) {
                (Some((_, attempt, _)), Some((_, _, given))) => *given == card(a, *attempt),
                _ => false,
            };
            let all = (1..=3).all(|a| (1..=3).filter(|b| *b != a).all(|b| is_paired(a, b)));
            if all {
                thread::sleep(Duration::from_millis(3));
                if nodes.iter_mut().all(|(node, exchange)| match exchange.poll() {
                    None => true,
                    Some(event) => {
                        held.get_mut(node).expect("a node").take(event);
                        false
                    }
                }) {
                    break;
                }
            }
            assert!(Instant::now() < deadline, "round {round}: no end");
            thread::sleep(Duration::from_micros(200));
        }
        most = most.max(descriptors());
    }
    assert!(most <= fds_before + 3 * (2 + 1 + 2 * 2) + 10, "{most} descriptors, {fds_before} before");
    assert_eq!(threads(), threads_before + 3);
    drop(nodes);
    nothing_is_left(fds_before, threads_before);
}

#[test]
fn an_end_leaves_nothing_and_takes_no_time() {
    let _turn = turn();
    let (fds, tasks) = (descriptors(), threads());
    for _ in 0..20 {
        let mut nodes = group(3, |options| options.peers[9] = Some("localhost:1".to_owned()));
        for (node, exchange) in &mut nodes {
            for peer in (1..=3).chain([9]).filter(|peer| peer != node) {
                exchange.meet(NodeId(peer), 1, &card(*node, 1));
            }
        }
        let begun = Instant::now();
        drop(nodes);
        assert!(begun.elapsed() < Duration::from_secs(5));
    }
    nothing_is_left(fds, tasks);
}

#[test]
fn options_that_cannot_be_are_named() {
    let _turn = turn();
    let good = options(identity(1), loopback(0), &[(2, loopback(1))]);
    let said = |change: fn(&mut Options)| {
        let mut options = good.clone();
        change(&mut options);
        Exchange::start(options).expect_err("cannot be").to_string()
    };
    assert!(said(|options| options.peers[2] = Some("nonsense".to_owned())).contains("\"nonsense\""));
    assert!(said(|options| options.peers[2] = Some("host:0".to_owned())).contains("host:0"));
    assert!(said(|options| options.peers[1] = Some("localhost:1".to_owned())).contains("own peer"));
    assert!(said(|options| options.identity.node = NodeId(16)).contains("16"));
    assert!(said(|options| options.timeouts.alive = options.timeouts.idle).contains("time-outs"));
    let taken = TcpListener::bind(loopback(0)).expect("a port");
    let mut options = good.clone();
    options.listen = Some(taken.local_addr().expect("an address"));
    let error = Exchange::start(options).expect_err("taken");
    assert!(matches!(error, ExchangeError::Listen { .. }));
    assert!(error.to_string().contains(&taken.local_addr().expect("an address").to_string()));
}

#[test]
fn nothing_secret_is_shown() {
    let _turn = turn();
    let options = options(identity(1), loopback(0), &[(2, loopback(1))]);
    let shown = format!("{options:?}");
    assert!(shown.contains("Key(..)") && !shown.contains("7, 7"), "{shown}");
    let secret =
        Event::Met { peer: NodeId(2), attempt: 1, session: 1, identity: identity(2), card: [77; CARD_LEN] };
    assert!(!format!("{secret:?}").contains("77"));
    let mut exchange = Exchange::start(options).expect("starts");
    exchange.meet(NodeId(2), 1, &[77; CARD_LEN]);
    assert!(!format!("{exchange:?}").contains("77, 77"));
}
