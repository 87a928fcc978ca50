use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use super::*;

const ROUNDS: Metric = Metric { name: "ringleader_agent_rounds_total", kind: Kind::Counter, help: "Rounds." };

/// Something whose rounds are made by the test.
#[derive(Clone, Default)]
struct Agent {
    rounds: Arc<AtomicU64>,
    is_ready: Arc<AtomicBool>,
}

impl Watched for Agent {
    fn rounds(&self) -> Option<u64> {
        Some(self.rounds.load(Ordering::Relaxed))
    }

    fn readiness(&self) -> Vec<Readiness> {
        let is_ready = self.is_ready.load(Ordering::Relaxed);
        vec![Readiness { is_ready, text: "one: how it is".to_owned() }]
    }

    fn measure(&self, page: &mut Page) {
        page.add(&ROUNDS, &[], self.rounds.load(Ordering::Relaxed));
    }
}

fn open(agent: &Agent) -> (Health, SocketAddr) {
    let door = Door::bind(Some(SocketAddr::from(([127, 0, 0, 1], 0)))).expect("bound");
    let address = door.address().expect("it listens");
    (door.open(agent.clone()).expect("opens"), address)
}

fn send(address: SocketAddr, bytes: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("connects");
    stream.write_all(bytes).expect("written");
    stream
}

fn answer(mut stream: TcpStream) -> String {
    let mut all = String::new();
    stream.read_to_string(&mut all).expect("read to its end");
    all
}

/// Status and body.
fn get(address: SocketAddr, path: &str) -> (u16, String) {
    let all = answer(send(address, format!("GET {path} HTTP/1.1\r\nHost: here\r\n\r\n").as_bytes()));
    let (head, body) = all.split_once("\r\n\r\n").expect("a head and a body");
    (head.split(' ').nth(1).expect("a status").parse().expect("a number"), body.to_owned())
}

#[track_caller]
fn until(mut is_true: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_true() {
        assert!(begun.elapsed() < Duration::from_secs(30), "never");
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn without_an_address_there_is_nothing() {
    let health = Door::bind(None).expect("nothing to bind").open(Agent::default()).expect("opens");
    // Where the tests themselves are a service of some manager there is one.
    assert!(health.0.is_none() || std::env::var_os("NOTIFY_SOCKET").is_some());
}

#[test]
fn a_taken_address_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("bound");
    let address = taken.local_addr().expect("its address");
    let error = Door::bind(Some(address)).expect_err("taken");
    assert!(
        error.starts_with(&format!("cannot listen at {address} for questions after health: ")),
        "{error}"
    );
}

#[test]
fn the_port_of_node_exporter_is_refused() {
    for text in ["127.0.0.1:9100", "[::]:9100"] {
        let error = parse_address(text).expect_err("refused");
        assert!(error.contains("port 9100 is node_exporter's"), "{error}");
    }
    assert!(parse_address("localhost").expect_err("no address").contains("is no address:port"));
    assert_eq!(parse_address("[::1]:7490").expect("right").port(), 7490);
}

#[test]
fn alive_as_long_as_there_are_rounds() {
    let agent = Agent::default();
    let (_health, address) = open(&agent);
    assert_eq!(get(address, "/healthz"), (200, "alive\n".to_owned()));
    assert_eq!(get(address, "/readyz"), (503, "not ready: one: how it is\n".to_owned()));
    agent.is_ready.store(true, Ordering::Relaxed);
    assert_eq!(get(address, "/readyz"), (200, "ready: one: how it is\n".to_owned()));
    // No more rounds.
    until(|| get(address, "/healthz").0 == 503);
    let (code, body) = get(address, "/readyz");
    assert_eq!((code, body.lines().next()), (503, Some("not ready: the agent's thread makes no rounds")));
    agent.rounds.fetch_add(1, Ordering::Relaxed);
    until(|| get(address, "/healthz").0 == 200);
    assert_eq!(get(address, "/readyz").0, 200);
    let metrics = get(address, "/metrics?since=ever");
    assert_eq!(metrics.0, 200);
    assert!(metrics.1.ends_with("\nringleader_agent_rounds_total 1\n"), "{}", metrics.1);
    assert_eq!(get(address, "/").0, 404);
}

#[test]
fn who_ends_is_not_ready_and_answers_no_more_once_it_has() {
    let agent = Agent::default();
    agent.is_ready.store(true, Ordering::Relaxed);
    let (health, address) = open(&agent);
    assert_eq!(get(address, "/readyz").0, 200);
    health.stopping();
    until(|| get(address, "/readyz").0 == 503);
    assert!(get(address, "/readyz").1.starts_with("not ready: the service ends\n"));
    drop(health);
    assert!(TcpStream::connect(address).is_err(), "nobody listens");
    assert_eq!(Arc::strong_count(&agent.rounds), 1, "nothing is watched any more");
}

#[test]
fn bad_clients_get_a_word_or_none_and_others_their_answers() {
    let agent = Agent::default();
    let (_health, address) = open(&agent);
    for (bytes, begins) in [
        (&b"nonsense\r\n\r\n"[..], "HTTP/1.1 400 "),
        (b"\0\x01\x02\xff\r\n\r\n", "HTTP/1.1 400 "),
        (b"DELETE /metrics HTTP/1.1\r\n\r\n", "HTTP/1.1 405 "),
        (&[b'x'; 4 * request::MAX_LEN], "HTTP/1.1 431 "),
    ] {
        let mut stream = TcpStream::connect(address).expect("connects");
        // It may be refused before all of it was sent, and then even the answer be lost.
        let whole = stream.write_all(bytes).is_ok();
        let mut all = Vec::new();
        let read = stream.read_to_end(&mut all);
        let said = String::from_utf8_lossy(&all).into_owned();
        assert!(said.starts_with(begins) || (all.is_empty() && !(whole && read.is_ok())), "{said}");
    }
    let head = answer(send(address, b"HEAD /healthz HTTP/1.0\r\n\r\n"));
    assert!(head.starts_with("HTTP/1.1 200 ") && head.ends_with("\r\n\r\n"), "{head}");
    // Piece by piece is well, too.
    let mut slow = TcpStream::connect(address).expect("connects");
    for byte in b"GET /healthz HTTP/1.1\r\n\r\n" {
        slow.write_all(&[*byte]).expect("written");
        slow.flush().expect("sent");
    }
    assert!(answer(slow).starts_with("HTTP/1.1 200 "));
    // Who closes its side has asked all the same.
    let half = send(address, b"GET /healthz HTTP/1.1\r\n\r\n");
    half.shutdown(Shutdown::Write).expect("shut");
    assert!(answer(half).ends_with("alive\n"));
}

#[test]
fn those_who_say_nothing_are_so_many_at_most_and_keep_nobody_out() {
    let agent = Agent::default();
    let (_health, address) = open(&agent);
    let mut silent: Vec<TcpStream> = (0..3 * MAX_CONNECTIONS).map(|_| send(address, b"GET /he")).collect();
    assert_eq!(get(address, "/metrics").0, 200);
    // All but the last ones are closed at once, the others soon.
    for stream in &mut silent {
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("set");
        match stream.read(&mut [0; 16]) {
            Ok(count) => assert_eq!(count, 0, "nothing is answered"),
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset),
        }
    }
    assert_eq!(get(address, "/metrics").0, 200);
}
