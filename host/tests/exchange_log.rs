//! What an exchange logs: each cause once, on both sides, and nothing secret, whatever is asked for.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use ringleader::Timing;
use ringleader::exchange::{CARD_LEN, Event, Exchange, GroupName, Identity, Key, Options, Timeouts};
use ringleader_core::options::Half;
use ringleader_core::types::{Boot, Incarnation, NodeId};
use tracing_subscriber::fmt::MakeWriter;

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Log;

    fn make_writer(&'a self) -> Log {
        self.clone()
    }
}

impl Log {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()).expect("text")
    }
}

fn start(node: u8, key: [u8; 32], ring_len: u64, peer: (u8, SocketAddr)) -> Exchange {
    let mut peers: [Option<String>; 16] = Default::default();
    peers[usize::from(peer.0)] = Some(peer.1.to_string());
    Exchange::start(Options {
        listen: Some(SocketAddr::from(([127, 0, 0, 1], 0))),
        peers,
        key: Key::from_bytes(key),
        identity: Identity {
            layout: 1,
            group: 0,
            group_name: GroupName::new("orders").expect("a name"),
            node: NodeId(node),
            half: Half::Whole,
            boot: Boot(100 + u64::from(node)),
            incarnation: Incarnation(200 + u64::from(node)),
            ring_len,
            max_entry: ring_len / 8,
            snapshot_len: 0,
        },
        timeouts: Timeouts { meet: Duration::from_secs(20), ..Timeouts::new(&Timing::LOCAL) },
    })
    .expect("starts")
}

/// Meets again and again until the caller has failed so often, or has met.
fn try_often(one: &mut Exchange, two: &mut Exchange, times: u64) {
    let card = [0xab; CARD_LEN];
    let mut attempt = 1;
    one.meet(NodeId(2), attempt, &card);
    two.meet(NodeId(1), attempt, &card);
    let deadline = Instant::now() + Duration::from_secs(30);
    while attempt <= times {
        assert!(Instant::now() < deadline, "nothing happens");
        if let Some(Event::Failed { .. }) = two.poll() {
            two.meet(NodeId(1), attempt, &card);
        }
        match one.poll() {
            Some(Event::Failed { .. }) => {
                attempt += 1;
                one.meet(NodeId(2), attempt, &card);
            }
            Some(_) => return,
            None => thread::sleep(Duration::from_millis(1)),
        }
    }
}

#[test]
fn each_cause_is_told_once_on_both_sides_and_nothing_secret_ever() {
    let log = Log::default();
    tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(log.clone())
        .with_ansi(false)
        .init();
    let nobody = SocketAddr::from(([127, 0, 0, 1], 1));
    let key = [0xc5; 32];

    let mut two = start(2, [0x3d; 32], 1 << 20, (1, nobody));
    let mut one = start(1, key, 1 << 20, (2, two.local_addr()));
    try_often(&mut one, &mut two, 6);
    drop((one, two));
    let mut two = start(2, key, 1 << 21, (1, nobody));
    let mut one = start(1, key, 1 << 20, (2, two.local_addr()));
    try_often(&mut one, &mut two, 6);
    drop((one, two));
    let mut two = start(2, key, 1 << 20, (1, nobody));
    let mut one = start(1, key, 1 << 20, (2, two.local_addr()));
    try_often(&mut one, &mut two, 6);
    drop((one, two));

    let text = log.text();
    let warned =
        |part: &str| text.lines().filter(|line| line.contains("WARN") && line.contains(part)).count();
    // By the one that called, and by the one that was called.
    assert_eq!(warned("it has another key"), 2, "{text}");
    assert_eq!(warned("its ring has 2097152 bytes, and this node's has 1048576"), 1, "{text}");
    assert_eq!(warned("its ring has 1048576 bytes, and this node's has 2097152"), 1, "{text}");
    assert_eq!(warned(""), 4, "{text}");
    assert_eq!(text.lines().filter(|line| line.contains(" met ")).count(), 2, "{text}");
    for secret in ["c5c5", "197, 197", "3d3d", "abab", "171, 171"] {
        assert!(!text.to_lowercase().contains(secret), "{secret}: {text}");
    }
}
