//! Strangers, silence and mistakes cost an exchange next to nothing, and do its members no harm.

mod exchange_common;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use exchange_common::*;
use ringleader::exchange::{Event, Exchange, Identity, MeetError, Options};
use ringleader_core::types::{Boot, Incarnation, NodeId};
use snow::{Builder, TransportState};

/// One that answers a node's call with these bytes.
fn impostor(bytes: &'static [u8]) -> (SocketAddr, thread::JoinHandle<()>) {
    let listener = TcpListener::bind(loopback(0)).expect("a port");
    let at = listener.local_addr().expect("an address");
    let thread = thread::spawn(move || {
        let (mut socket, _) = listener.accept().expect("a caller");
        socket.write_all(bytes).expect("writes");
        // Until the caller goes.
        let _ = socket.read_to_end(&mut Vec::new());
    });
    (at, thread)
}

#[test]
fn what_answers_and_is_no_node_of_this_version_is_named() {
    let _turn = turn();
    let cases: [(&[u8], MeetError); 5] = [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", MeetError::NotANode),
        (b"R!", MeetError::NotANode),
        (b"RINGLDR\x09", MeetError::Version { ours: 2, theirs: 9 }),
        (b"RINGLDR\x02\xff\xff", MeetError::NotANode),
        (b"RINGLDR\x02\x01\x00\x01", MeetError::Key),
    ];
    for (bytes, expected) in cases {
        let (at, thread) = impostor(bytes);
        let mut one = Exchange::start(options(identity(1), loopback(0), &[(2, at)])).expect("starts");
        one.meet(NodeId(2), 1, &card(1, 1));
        assert_eq!(failed(event(&mut one), 2, 1), expected);
        drop(one);
        thread.join().expect("ends");
    }
}

/// What a node answers to a stranger that sends these bytes, and then waits.
fn answer_to(at: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut socket = TcpStream::connect(at).expect("connects");
    socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    // It may be closed already.
    let _ = socket.write_all(bytes);
    let mut answer = Vec::new();
    let _ = socket.read_to_end(&mut answer);
    answer
}

#[test]
fn strangers_are_turned_away_and_members_meet_all_the_same() {
    let _turn = turn();
    let before = descriptors();
    let mut nodes = group(2, |options| {
        options.timeouts.handshake = Duration::from_millis(500);
        options.timeouts.meet = PATIENCE;
    });
    let (one, two) = pair(&mut nodes);
    let at = two.local_addr();
    assert_eq!(answer_to(at, b"GET / HTTP/1.0\r\n\r\n"), b"");
    assert_eq!(answer_to(at, &[0xff; 5000]), b"");
    // Another version is told this one; garbage in place of a handshake is another key.
    assert_eq!(answer_to(at, b"RINGLDR\x01"), b"RINGLDR\x02");
    assert_eq!(
        answer_to(at, &[b"RINGLDR\x02\x30\x00".as_slice(), &[5; 48]].concat()),
        b"RINGLDR\x02\x01\x00\x01"
    );
    assert_eq!(answer_to(at, b"RINGLDR\x02\x00\x00"), b"RINGLDR\x02\x01\x00\x01");
    // A length that no frame has, half a preamble, half a frame, nothing at all: out when their time is over.
    assert_eq!(answer_to(at, b"RINGLDR\x02\xff\xff"), b"RINGLDR\x02");
    assert_eq!(answer_to(at, b"RING"), b"");
    assert_eq!(answer_to(at, b"RINGLDR\x02\x30\x00half"), b"RINGLDR\x02");
    assert_eq!(answer_to(at, b""), b"");
    // Crowds that say nothing or half of something, while members meet.
    let idle = descriptors();
    let mut crowd = Vec::new();
    for attempt in 1..=20 {
        for stranger in 0..20 {
            let mut socket = TcpStream::connect(at).expect("connects");
            let _ = socket.write_all(if stranger % 2 == 0 { b"" } else { b"RINGLDR\x02\x30\x00" });
            crowd.push(socket);
        }
        one.meet(NodeId(2), attempt, &card(1, attempt));
        two.meet(NodeId(1), attempt, &card(2, attempt));
        loop {
            if let Event::Met { attempt: met, .. } = event(one)
                && met == attempt
            {
                break;
            }
        }
        // The other may have to lose the former session first.
        loop {
            match event(two) {
                Event::Met { attempt: met, .. } if met == attempt => break,
                Event::Met { .. } | Event::Lost { .. } => {}
                other => panic!("{other:?}"),
            }
        }
        assert!(descriptors() - crowd.len() <= idle + 32 + 10, "few strangers are kept");
    }
    drop(crowd);
    drop(nodes);
    nothing_is_left(before, usize::MAX);
}

/// One that has the key, and says what it likes.
struct Rogue {
    socket: TcpStream,
    noise: TransportState,
}

impl Rogue {
    fn call(at: SocketAddr) -> Rogue {
        const PREAMBLE: &[u8] = b"RINGLDR\x02";
        let mut socket = TcpStream::connect(at).expect("connects");
        socket.set_nodelay(true).expect("a flag");
        socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let builder = Builder::new("Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s".parse().expect("a pattern"));
        let builder = builder.psk(0, &[7; 32]).and_then(|builder| builder.prologue(PREAMBLE));
        let mut noise = builder.and_then(Builder::build_initiator).expect("a handshake");
        let mut message = [0; 256];
        let len = noise.write_message(&[], &mut message).expect("its first message");
        socket.write_all(PREAMBLE).expect("writes");
        socket.write_all(&(len as u16).to_le_bytes()).expect("writes");
        socket.write_all(&message[..len]).expect("writes");
        let mut answer = [0; 8 + 2 + 48];
        socket.read_exact(&mut answer).expect("an answer");
        noise.read_message(&answer[10..], &mut message).expect("the right key");
        Rogue { socket, noise: noise.into_transport_mode().expect("both have spoken") }
    }

    fn say(&mut self, text: &[u8]) {
        let mut message = [0; 65535];
        let len = self.noise.write_message(text, &mut message).expect("a message");
        // It may have been turned away already.
        let _ = self.socket.write_all(&(len as u16).to_le_bytes());
        let _ = self.socket.write_all(&message[..len]);
    }

    /// Until the other end closes.
    fn until_closed(mut self) {
        let _ = self.socket.read_to_end(&mut Vec::new());
    }
}

/// A hello as `wire` encodes it.
fn hello(who: &Identity) -> Vec<u8> {
    let name = who.group_name.as_str().as_bytes();
    let mut text = vec![1, who.node.0, name.len() as u8, 0];
    text.extend(who.layout.to_le_bytes());
    text.extend(who.group.to_le_bytes());
    text.extend(who.boot.0.to_le_bytes());
    text.extend(who.incarnation.0.to_le_bytes());
    text.extend(who.ring_len.to_le_bytes());
    text.extend(who.max_entry.to_le_bytes());
    text.extend(who.snapshot_len.to_le_bytes());
    text.extend(name);
    text.resize(96, 0);
    text
}

#[test]
fn who_has_the_key_and_talks_nonsense_is_sent_away() {
    let _turn = turn();
    let mut nodes = group(3, |_| ());
    let two = nodes.get_mut(&2).expect("there");
    let at = two.local_addr();
    two.meet(NodeId(1), 1, &card(2, 1));
    let one = identity(1);
    let nonsense: [&[&[u8]]; 9] = [
        &[b""],
        &[b"\x09what"],
        &[&[0; 193]],
        &[&[b'x'; 1000]],
        // A card, and a sign of life, before the name.
        &[&[2; 193]],
        &[&[3]],
        &[&hello(&Identity { node: NodeId(0), ..one })],
        // A member that is called and does not call; one that is none.
        &[&hello(&Identity { node: NodeId(3), ..identity(3) })],
        &[&hello(&Identity { node: NodeId(9), boot: Boot(9), incarnation: Incarnation(9), ..one })],
    ];
    for texts in nonsense {
        let mut rogue = Rogue::call(at);
        texts.iter().for_each(|text| rogue.say(text));
        rogue.until_closed();
    }
    assert_eq!(two.poll(), None);
    // Node 1's name opens the door; what comes behind it still has to make sense.
    for (attempt, text) in [&[9][..], &hello(&one), &[2; 192], &[0; 193]].into_iter().enumerate() {
        let mut rogue = Rogue::call(at);
        rogue.say(&hello(&one));
        rogue.say(text);
        rogue.until_closed();
        let attempt = 1 + attempt as u64;
        assert_eq!(failed(event(two), 1, attempt), MeetError::Malformed);
        two.meet(NodeId(1), attempt + 1, &card(2, attempt + 1));
    }
    // A session with it ends when it says anything but that it lives.
    let mut rogue = Rogue::call(at);
    rogue.say(&hello(&one));
    rogue.say(&[&[2][..], &card(1, 5)].concat());
    let session = met(event(two), 1, 5, 5);
    (0..100).for_each(|_| rogue.say(&[3]));
    thread::sleep(Duration::from_millis(50));
    assert_eq!(two.poll(), None);
    rogue.say(&[&[2][..], &card(1, 6)].concat());
    rogue.until_closed();
    assert_eq!(event(two), Event::Lost { peer: NodeId(1), session });
}

/// Whoever has seen every byte of a member's call and sends them again is nobody.
#[test]
fn a_replayed_call_disturbs_nothing() {
    let _turn = turn();
    let mut two = Exchange::start(options(identity(2), loopback(0), &[(1, loopback(1))])).expect("starts");
    let at = two.local_addr();
    let listener = TcpListener::bind(loopback(0)).expect("a port");
    let between = listener.local_addr().expect("an address");
    let heard = Arc::new(Mutex::new(Vec::new()));
    let recorded = Arc::clone(&heard);
    thread::spawn(move || {
        let (mut caller, _) = listener.accept().expect("a caller");
        let mut callee = TcpStream::connect(at).expect("connects");
        let (mut from, mut into) = (callee.try_clone().expect("a copy"), caller.try_clone().expect("a copy"));
        thread::spawn(move || std::io::copy(&mut from, &mut into));
        let mut bytes = [0; 512];
        while let Ok(count @ 1..) = caller.read(&mut bytes) {
            recorded.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&bytes[..count]);
            callee.write_all(&bytes[..count]).expect("writes");
        }
    });
    let mut one = Exchange::start(options(identity(1), loopback(0), &[(2, between)])).expect("starts");
    one.meet(NodeId(2), 1, &card(1, 1));
    two.meet(NodeId(1), 1, &card(2, 1));
    met(event(&mut one), 2, 1, 1);
    met(event(&mut two), 1, 1, 1);
    let heard = heard.lock().unwrap_or_else(PoisonError::into_inner).clone();
    assert!(heard.len() > 300, "the whole call");
    for end in [58, 100, heard.len()] {
        // Its preamble and handshake are answered; the rest is nonsense under the new keys.
        assert!(answer_to(at, &heard[..end]).starts_with(b"RINGLDR\x02"));
    }
    assert_eq!((one.poll(), two.poll()), (None, None));
}

/// Between a caller and a node: copies both ways until it is told to stop, and then keeps both connections.
fn proxy(to: SocketAddr) -> (SocketAddr, Arc<AtomicBool>) {
    let listener = TcpListener::bind(loopback(0)).expect("a port");
    let at = listener.local_addr().expect("an address");
    let frozen = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&frozen);
    thread::spawn(move || {
        let (caller, _) = listener.accept().expect("a caller");
        let callee = TcpStream::connect(to).expect("connects");
        let copy = |mut from: TcpStream, mut to: TcpStream, frozen: Arc<AtomicBool>| {
            let mut bytes = [0; 512];
            while let Ok(count @ 1..) = from.read(&mut bytes) {
                if !frozen.load(Ordering::Relaxed) && to.write_all(&bytes[..count]).is_err() {
                    break;
                }
            }
        };
        let (from, into) = (caller.try_clone().expect("a copy"), callee.try_clone().expect("a copy"));
        let theirs = Arc::clone(&flag);
        let one_way = thread::spawn(move || copy(from, into, theirs));
        copy(callee, caller, flag);
        let _ = one_way.join();
    });
    (at, frozen)
}

#[test]
fn a_session_that_falls_silent_is_over_and_one_that_is_idle_is_not() {
    let _turn = turn();
    let quick = |options: &mut Options| {
        options.timeouts.idle = Duration::from_secs(2);
        options.timeouts.alive = Duration::from_millis(100);
    };
    let mut two = options(identity(2), loopback(0), &[(1, loopback(1))]);
    quick(&mut two);
    let mut two = Exchange::start(two).expect("starts");
    let (at, frozen) = proxy(two.local_addr());
    let mut one = options(identity(1), loopback(0), &[(2, at)]);
    quick(&mut one);
    let mut one = Exchange::start(one).expect("starts");
    one.meet(NodeId(2), 1, &card(1, 1));
    two.meet(NodeId(1), 1, &card(2, 1));
    let (first, second) = (met(event(&mut one), 2, 1, 1), met(event(&mut two), 1, 1, 1));
    thread::sleep(Duration::from_millis(2500));
    assert_eq!((one.poll(), two.poll()), (None, None));
    frozen.store(true, Ordering::Relaxed);
    assert_eq!(event(&mut one), Event::Lost { peer: NodeId(2), session: first });
    assert_eq!(event(&mut two), Event::Lost { peer: NodeId(1), session: second });
}
