//! A host whose acceptor is apart calls every acceptor, its own among them; nobody calls a host.

mod exchange_common;

use std::thread;
use std::time::Duration;

use exchange_common::*;
use ringleader::exchange::{Event, Exchange, Identity, MeetError, Options, host_of};
use ringleader_core::options::Half;
use ringleader_core::types::{Boot, Incarnation, NodeId};

/// An acceptor of node 1, or another, that knows of node 2.
fn acceptor(node: u8, half: Half) -> Exchange {
    let who = Identity { half, ..identity(node) };
    Exchange::start(options(who, loopback(0), &[(3 - node, loopback(1))])).expect("starts")
}

/// The host of node 1, which calls these.
fn host(boot: u64, acceptors: &[&Exchange], change: impl Fn(&mut Options)) -> Exchange {
    let who =
        Identity { half: Half::Proposer, boot: Boot(boot), incarnation: Incarnation(boot), ..identity(1) };
    let peers: Vec<_> = (1..).zip(acceptors.iter().map(|acceptor| acceptor.local_addr())).collect();
    let mut options = Options { listen: None, ..options(who, loopback(0), &peers) };
    change(&mut options);
    Exchange::start(options).expect("starts")
}

const HOST: u8 = 17;

#[test]
fn a_host_knocks_at_its_own_acceptor_and_at_others_and_is_met_by_each() {
    let _turn = turn();
    for other in [Half::Acceptor, Half::Whole] {
        let (mut own, mut two) = (acceptor(1, Half::Acceptor), acceptor(2, other));
        let mut host = host(500, &[&own, &two], |_| ());
        assert!(host.local_addr().port() == 0, "it listens nowhere");
        for (node, exchange) in [(1, &mut own), (2, &mut two)] {
            host.meet(NodeId(node), 7, &card(HOST, 7));
            // Nothing was asked of it before.
            assert_eq!(event(exchange), Event::Knocks { peer: host_of(NodeId(1)) });
            exchange.meet(host_of(NodeId(1)), 3, &card(node, 3));
            match event(exchange) {
                Event::Met { peer, attempt, identity, card: given, .. } => {
                    assert_eq!((peer, attempt, given), (host_of(NodeId(1)), 3, card(HOST, 7)));
                    assert_eq!(
                        (identity.node, identity.half, identity.boot),
                        (NodeId(1), Half::Proposer, Boot(500))
                    );
                }
                other => panic!("not met: {other:?}"),
            }
            met(event(&mut host), node, 7, 3);
        }
        drop(host);
        for exchange in [&mut own, &mut two] {
            assert!(matches!(event(exchange), Event::Lost { peer, .. } if peer == host_of(NodeId(1))));
        }
    }
}

/// Another start of it, or a wish of its own, takes the place of what was: it is heard each time.
#[test]
fn a_host_that_comes_again_knocks_again() {
    let _turn = turn();
    let mut own = acceptor(1, Half::Acceptor);
    let seat = host_of(NodeId(1));
    let mut before = None;
    for boot in 500..505 {
        let mut host = host(boot, &[&own], |_| ());
        for attempt in 1..=2 {
            host.meet(NodeId(1), attempt, &card(HOST, attempt));
            if let Some(session) = before.take() {
                assert_eq!(event(&mut own), Event::Lost { peer: seat, session });
            }
            assert_eq!(event(&mut own), Event::Knocks { peer: seat });
            own.meet(seat, attempt, &card(1, attempt));
            match event(&mut own) {
                Event::Met { session, identity, .. } if identity.boot == Boot(boot) => before = Some(session),
                other => panic!("not met: {other:?}"),
            }
            met(event(&mut host), 1, attempt, attempt);
        }
    }
}

/// An acceptor that could not do anything for it just then is asked again.
#[test]
fn a_host_that_is_not_wanted_goes_and_knocks_again() {
    let _turn = turn();
    let who = Identity { half: Half::Acceptor, ..identity(1) };
    let mut options = options(who, loopback(0), &[(2, loopback(1))]);
    options.timeouts.meet = Duration::from_millis(300);
    let mut own = Exchange::start(options).expect("starts");
    let mut host = host(500, &[&own], |_| ());
    for attempt in 1..=3 {
        host.meet(NodeId(1), attempt, &card(HOST, attempt));
        for _ in 0..2 {
            assert_eq!(event(&mut own), Event::Knocks { peer: host_of(NodeId(1)) });
        }
    }
    own.meet(host_of(NodeId(1)), 1, &card(1, 1));
    assert!(matches!(event(&mut own), Event::Met { .. } | Event::Knocks { .. }));
}

#[test]
fn halves_that_do_not_belong_together_are_told_on_both_sides() {
    let _turn = turn();
    // Its own node is whole there.
    let mut whole = acceptor(1, Half::Whole);
    let mut lost = host(500, &[&whole], |_| ());
    lost.meet(NodeId(1), 1, &card(HOST, 1));
    let why = failed(event(&mut lost), 1, 1);
    let halves = MeetError::Halves { node: NodeId(1), ours: Half::Proposer, theirs: Half::Whole };
    assert_eq!(why, halves);
    // One that no acceptor of this group knows: it is no member, and nobody here hears of it.
    let mut own = acceptor(1, Half::Acceptor);
    let who = Identity { half: Half::Proposer, ..identity(9) };
    let mut options =
        Options { listen: None, ..options(who, loopback(0), &[(1, own.local_addr()), (9, loopback(1))]) };
    options.timeouts.meet = Duration::from_millis(500);
    let mut stranger = Exchange::start(options).expect("starts");
    stranger.meet(NodeId(1), 1, &card(HOST, 1));
    assert_eq!(failed(event(&mut stranger), 1, 1), MeetError::Closed);
    thread::sleep(Duration::from_millis(50));
    assert_eq!((own.poll(), whole.poll()), (None, None));
}

#[test]
fn a_host_needs_the_address_of_its_acceptor() {
    let _turn = turn();
    let who = Identity { half: Half::Proposer, ..identity(1) };
    let options = Options { listen: None, ..options(who, loopback(0), &[(2, loopback(1))]) };
    let said = Exchange::start(options).expect_err("cannot be").to_string();
    assert!(said.contains("the host of node 1 needs the address of its acceptor"), "{said}");
}
