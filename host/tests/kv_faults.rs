//! `ringleader kv` when nodes die, stop, come back and hand over: nothing acknowledged is lost, nothing is carried out twice, and every
//! node answers with what was acknowledged before.

mod demo_common;
mod kv_common;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use kv_common::{Answer, Conn, PATIENCE, Place, Running, encoded, has_redis_tools, said, until};
use redis::cluster::ClusterClientBuilder;
use rustix::process::Signal;

/// A client that follows the leader: what it sends again was refused, or never left.
struct Follower {
    addresses: Vec<String>,
    conn: Option<Conn>,
    next: usize,
}

/// What is known of a command.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Known {
    Answered(Answer),
    /// The connection broke, or the server does not know.
    Nothing,
}

impl Follower {
    fn new(place: &Place) -> Follower {
        let addresses = (1..=3).map(|node| place.address(node)).collect();
        Follower { addresses, conn: None, next: 0 }
    }

    fn connect(&mut self) -> &mut Conn {
        let begun = Instant::now();
        while self.conn.is_none() {
            let address = &self.addresses[self.next % self.addresses.len()];
            self.conn = Conn::new(address.parse().expect("an address")).ok();
            if self.conn.is_none() {
                self.next += 1;
                assert!(begun.elapsed() < PATIENCE, "nobody is there");
                thread::sleep(Duration::from_millis(2));
            }
        }
        self.conn.as_mut().expect("connected")
    }

    /// Sends commands at once; what is known of each. The ones that were refused are not known to be anything but that.
    fn pipeline(&mut self, commands: &[Vec<u8>]) -> Vec<Known> {
        let conn = self.connect();
        let mut known = Vec::new();
        let mut broken = conn.send(&commands.concat()).is_err();
        let mut moved = None;
        for _ in commands {
            let answer = if broken { None } else { conn.answer().ok() };
            broken |= answer.is_none();
            known.push(match answer {
                Some(answer) if answer.is_error("UNKNOWN") => Known::Nothing,
                Some(answer) => {
                    if answer.is_error("MOVED") {
                        moved = answer.text().split(' ').nth(2).map(str::to_owned);
                    }
                    Known::Answered(answer)
                }
                None => Known::Nothing,
            });
        }
        if broken {
            self.conn = None;
            self.next += 1;
        } else if let Some(address) = moved {
            self.conn = None;
            // One that this client leaves out sleeps: another will lead.
            self.next = self.addresses.iter().position(|one| *one == address).unwrap_or(self.next);
        }
        known
    }

    /// One command until it is answered or nothing is known of it; refusals are not answers.
    fn ask(&mut self, args: &[&[u8]]) -> Known {
        let begun = Instant::now();
        loop {
            let known = self.pipeline(&[encoded(args)]).remove(0);
            match &known {
                Known::Answered(answer) if is_refusal(answer) => {
                    assert!(begun.elapsed() < PATIENCE, "refused for ever: {answer:?}");
                    thread::sleep(Duration::from_millis(1));
                }
                _ => return known,
            }
        }
    }
}

/// Whether it says that the command was not carried out.
fn is_refusal(answer: &Answer) -> bool {
    ["MOVED", "TRYAGAIN", "CLUSTERDOWN"].iter().any(|code| answer.is_error(code))
}

/// What clients were told while nodes died.
#[derive(Default)]
struct Told {
    stop: AtomicBool,
    acknowledged: AtomicU64,
    unknown: AtomicU64,
    keys: Mutex<BTreeMap<String, String>>,
}

impl Told {
    fn count(&self) -> u64 {
        self.acknowledged.load(Ordering::Relaxed)
    }

    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }
}

/// Sets keys of its own in pipelines, each key once.
fn set_keys(place: &Place, told: &Arc<Told>, name: usize) -> thread::JoinHandle<()> {
    let (mut client, told) = (Follower::new(place), Arc::clone(told));
    thread::spawn(move || {
        let mut number = 0_u64;
        while told.goes_on() {
            let pairs: Vec<(String, String)> = (0..20)
                .map(|at| (format!("set:{name}:{}", number + at), format!("value {}", number + at)))
                .collect();
            number += 20;
            let commands: Vec<Vec<u8>> = pairs
                .iter()
                .map(|(key, value)| encoded(&[b"SET", key.as_bytes(), value.as_bytes()]))
                .collect();
            let known = client.pipeline(&commands);
            let mut keys = told.keys.lock().expect("no panic");
            for (known, pair) in known.into_iter().zip(pairs) {
                match known {
                    Known::Answered(Answer::Status(_)) => {
                        keys.insert(pair.0, pair.1);
                        told.acknowledged.fetch_add(1, Ordering::Relaxed);
                    }
                    Known::Answered(answer) => assert!(is_refusal(&answer), "{answer:?}"),
                    Known::Nothing => {
                        told.unknown.fetch_add(1, Ordering::Relaxed);
                    }
                }
            }
            drop(keys);
            thread::sleep(Duration::from_millis(10));
        }
    })
}

/// Adds to one counter; how often that was acknowledged, and how often nothing is known.
fn count_up(place: &Place, told: &Arc<Told>) -> thread::JoinHandle<(i64, i64)> {
    let (mut client, told) = (Follower::new(place), Arc::clone(told));
    thread::spawn(move || {
        let (mut acknowledged, mut unknown, mut last) = (0, 0, 0);
        while told.goes_on() {
            match client.ask(&[b"INCR", b"counter"]) {
                Known::Answered(Answer::Int(value)) => {
                    assert!(value > last, "{value} after {last}");
                    last = value;
                    acknowledged += 1;
                }
                Known::Answered(answer) => panic!("{answer:?}"),
                Known::Nothing => unknown += 1,
            }
        }
        (acknowledged, unknown)
    })
}

/// Appends numbers to one value, in pipelines; those that were acknowledged, and those of which nothing is known.
fn append_numbers(place: &Place, told: &Arc<Told>) -> thread::JoinHandle<(Vec<u64>, BTreeSet<u64>)> {
    let (mut client, told) = (Follower::new(place), Arc::clone(told));
    thread::spawn(move || {
        let (mut number, mut acknowledged, mut unknown) = (0_u64, Vec::new(), BTreeSet::new());
        while told.goes_on() {
            let numbers: Vec<u64> = (number..number + 5).collect();
            number += 5;
            let commands: Vec<Vec<u8>> = numbers
                .iter()
                .map(|number| encoded(&[b"APPEND", b"numbers", format!("{number},").as_bytes()]))
                .collect();
            for (known, number) in client.pipeline(&commands).into_iter().zip(numbers) {
                match known {
                    Known::Answered(Answer::Int(_)) => acknowledged.push(number),
                    Known::Answered(answer) => assert!(is_refusal(&answer), "{answer:?}"),
                    Known::Nothing => {
                        unknown.insert(number);
                    }
                }
            }
            thread::sleep(Duration::from_millis(1));
        }
        (acknowledged, unknown)
    })
}

/// The same by a client library for Redis Cluster, which knows nothing of this server: how many of its keys were acknowledged.
fn set_by_library(place: &Place, told: &Arc<Told>) -> thread::JoinHandle<Vec<String>> {
    let addresses: Vec<String> = (1..=3).map(|node| format!("redis://{}", place.address(node))).collect();
    let told = Arc::clone(told);
    thread::spawn(move || {
        let timeout = Duration::from_secs(2);
        let client = ClusterClientBuilder::new(addresses)
            .connection_timeout(timeout)
            .response_timeout(timeout)
            .retries(3)
            .build()
            .expect("a client");
        let mut acknowledged = Vec::new();
        let mut connection = None;
        let mut number = 0;
        while told.goes_on() {
            if connection.is_none() {
                connection = client.get_connection().ok();
            }
            let Some(there) = &mut connection else { continue };
            let key = format!("library:{number}");
            number += 1;
            match redis::cmd("SET").arg(&key).arg(number).query::<()>(there) {
                Ok(()) => acknowledged.push(key),
                Err(_) => connection = None,
            }
        }
        acknowledged
    })
}

fn read_back(conn: &mut Conn, keys: &BTreeMap<String, String>, whose: &str) {
    let keys: Vec<(&String, &String)> = keys.iter().collect();
    for some in keys.chunks(500) {
        let commands: Vec<u8> = some.iter().flat_map(|(key, _)| encoded(&[b"GET", key.as_bytes()])).collect();
        conn.send(&commands).expect("sent");
        for (key, value) in some {
            let answer = conn.answer().expect("answered");
            assert_eq!(answer, Answer::Bulk(value.as_bytes().to_vec()), "{key} at {whose}");
        }
    }
}

/// Clients of all kinds at work, until they are told to stop.
struct Load {
    told: Arc<Told>,
    setting: Vec<thread::JoinHandle<()>>,
    counting: thread::JoinHandle<(i64, i64)>,
    appending: thread::JoinHandle<(Vec<u64>, BTreeSet<u64>)>,
    library: thread::JoinHandle<Vec<String>>,
}

impl Load {
    fn start(place: &Place) -> Load {
        let told = Arc::new(Told::default());
        Load {
            setting: (0..3).map(|name| set_keys(place, &told, name)).collect(),
            counting: count_up(place, &told),
            appending: append_numbers(place, &told),
            library: set_by_library(place, &told),
            told,
        }
    }

    /// Waits until so many more writes were acknowledged.
    #[track_caller]
    fn go_on(&self, more: u64, nodes: &[Running]) {
        let before = self.told.count();
        until(
            || self.told.count() > before + more,
            || nodes.iter().map(|node| format!("{}\n", node.said())).collect(),
        );
    }

    /// What was acknowledged so far is there at this node.
    fn check_keys(&self, place: &Place, node: u8, when: &str) {
        let keys = self.told.keys.lock().expect("no panic").clone();
        read_back(&mut place.connect(node), &keys, &format!("node {node} {when}"));
    }

    /// Ends all, and reads everything back from every node.
    fn finish(self, place: &Place) {
        self.told.stop.store(true, Ordering::Relaxed);
        for thread in self.setting {
            thread.join().expect("ended");
        }
        let (acknowledged, unknown) = self.counting.join().expect("ended");
        let (appended, doubtful) = self.appending.join().expect("ended");
        let by_library = self.library.join().expect("ended");
        let mut keys = self.told.keys.lock().expect("no panic").clone();
        assert!(!by_library.is_empty() && !appended.is_empty() && acknowledged > 0);
        for key in by_library {
            let number: u64 = key.rsplit(':').next().expect("a number").parse().expect("a number");
            keys.insert(key, (number + 1).to_string());
        }
        for node in 1..=3 {
            let mut conn = place.connect(node);
            read_back(&mut conn, &keys, &format!("node {node} in the end"));
            // Each was carried out once, if it was acknowledged; once or not at all, if nothing is known.
            let counter: i64 = conn.say("GET counter").parse().expect("a number");
            assert!(
                (acknowledged..=acknowledged + unknown).contains(&counter),
                "{counter} of {acknowledged} acknowledged and {unknown} unknown"
            );
            let numbers = conn.say("GET numbers");
            let numbers: Vec<u64> =
                numbers.split_terminator(',').map(|number| number.parse().expect("a number")).collect();
            assert!(numbers.is_sorted_by(|one, next| one < next), "in the order of sending, and each once");
            let there: BTreeSet<u64> = numbers.iter().copied().collect();
            assert!(appended.iter().all(|number| there.contains(number)), "acknowledged, and not there");
            assert!(
                there
                    .iter()
                    .all(|number| appended.binary_search(number).is_ok() || doubtful.contains(number)),
                "refused, and there"
            );
        }
    }
}

/// Waits until all three count for a commit again.
fn wait_until_all_count(place: &Place, nodes: &[Running]) {
    let all_count = || {
        let status = place.status(place.leader(nodes)).unwrap_or_default();
        let counts = |follower: &serde_json::Value| follower["counts"] == true;
        status["lost"] == 0
            && status["voters"] == 3
            && status["followers"].as_array().is_some_and(|all| all.len() == 2 && all.iter().all(counts))
    };
    until(all_count, || nodes.iter().map(Running::said).collect());
}

#[test]
fn no_acknowledged_write_is_lost_when_the_leader_is_killed_in_mid_load() {
    let place = Place::new("ring = \"4M\"\nsnapshot = \"64M\"\nreadmit = \"auto\"", "");
    let mut nodes = place.group();
    let load = Load::start(&place);
    // Two leaders, one after the other: the first comes back, without its memory.
    for round in 0..2 {
        load.go_on(2000, &nodes);
        let leader = place.leader(&nodes);
        let at = usize::from(leader) - 1;
        nodes[at].kill();
        let others: Vec<u8> = (1..=3).filter(|node| *node != leader).collect();
        load.go_on(2000, &nodes);
        if has_redis_tools() {
            // A real client, from any survivor.
            for other in &others {
                let key = format!("cli:{round}:{other}");
                let set = || place.redis_cli(*other, &["-c", "SET", &key, "here"]);
                until(|| set() == "OK", set);
                load.told.keys.lock().expect("no panic").insert(key, "here".to_owned());
            }
        }
        for other in others {
            load.check_keys(&place, other, "after a kill");
        }
        nodes[at] = place.start(leader);
        wait_until_all_count(&place, &nodes);
    }
    load.finish(&place);
}

/// Nobody is left to take a write, or to say what is the latest: the client is told that, and waits no longer than it takes.
#[test]
fn without_a_majority_nothing_is_acknowledged_and_nothing_is_read() {
    let place = Place::new("ring = \"1M\"", "");
    let mut nodes = place.group();
    let leader = place.leader(&nodes);
    let (mut writing, mut reading) = (place.connect(leader), place.connect(leader));
    assert_eq!(writing.say("SET a 1"), "OK");
    nodes.iter_mut().filter(|node| node.node != leader).for_each(Running::kill);
    // The memory of who has just died takes some more.
    let mut written = Answer::Status("OK".to_owned());
    while written.text() == "OK" {
        written = writing.ask("SET a 2").expect("answered");
    }
    assert!(written.is_error("UNKNOWN"), "{written:?}");
    assert!(reading.say("INFO stats").contains("unknown_replies:1\r\n"));
    // By now it knows.
    writing.send(&encoded(&[b"SET", b"a", b"3"])).expect("sent");
    reading.send(&encoded(&[b"GET", b"a"])).expect("sent");
    for conn in [&mut writing, &mut reading] {
        let answer = conn.answer().expect("answered");
        assert!(answer.is_error("CLUSTERDOWN"), "{answer:?}");
    }
    assert_eq!(writing.say("PING"), "PONG");
    assert!(writing.say("CLUSTER INFO").contains("cluster_state:fail"));
}

/// A leader that sleeps has writes on its way when it wakes up: it finds out from the others' log what became of them.
#[test]
fn a_leader_that_slept_tells_what_became_of_its_writes() {
    let place = Place::new("ring = \"4M\"\nsnapshot = \"64M\"\nreadmit = \"auto\"", "");
    let mut nodes = place.group();
    let load = Load::start(&place);
    for _ in 0..3 {
        load.go_on(1000, &nodes);
        let leader = place.leader(&nodes);
        let at = usize::from(leader) - 1;
        nodes[at].signal(Signal::STOP);
        let others: Vec<u8> = (1..=3).filter(|node| *node != leader).collect();
        // Its clients wait for it. Others do not.
        let is_taken_over = || {
            let set = |node: &u8| place.connect(*node).ask("SET awake 1");
            others.iter().any(|node| set(node).is_ok_and(|answer| answer.text() == "OK"))
        };
        until(is_taken_over, || "nobody takes over".to_owned());
        nodes[at].signal(Signal::CONT);
        // Shut out in the middle of a copy it was killed: it starts anew.
        thread::sleep(Duration::from_millis(100));
        if nodes[at].child.try_wait().expect("its status").is_some() {
            nodes[at] = place.start(leader);
        }
        load.go_on(1000, &nodes);
        wait_until_all_count(&place, &nodes);
        for node in 1..=3 {
            load.check_keys(&place, node, "after a sleep");
        }
    }
    // And once politely.
    let leader = place.leader(&nodes);
    let to = (leader % 3 + 1).to_string();
    let output = place.command("transfer", leader).args(["--to", &to]).output().expect("runs");
    assert!(output.status.success(), "{}", said(&output));
    load.go_on(1000, &nodes);
    load.finish(&place);
}

#[test]
fn a_follower_reads_what_was_acknowledged_and_pairs_are_never_torn() {
    let place = Place::new("ring = \"1M\"", "");
    let nodes = place.group();
    let leader = place.leader(&nodes);
    let written = Arc::new(AtomicU64::new(0));
    let stop = Arc::new(AtomicBool::new(false));
    let writer = {
        let (mut conn, written, stop) = (place.connect(leader), Arc::clone(&written), Arc::clone(&stop));
        thread::spawn(move || {
            let mut n = 0;
            while !stop.load(Ordering::Relaxed) {
                n += 1;
                assert_eq!(conn.say(&format!("MSET a {n} b {n}")), "OK");
                written.store(n, Ordering::SeqCst);
            }
        })
    };
    until(|| written.load(Ordering::SeqCst) > 0, || "nothing is written".to_owned());
    let mut conns: Vec<Conn> = (1..=3).map(|node| place.connect(node)).collect();
    let mut highest = 0;
    for round in 0..1500 {
        let before = written.load(Ordering::SeqCst).max(highest);
        let Answer::Array(pair) = conns[round % 3].ask("MGET a b").expect("answered") else {
            panic!("a pair")
        };
        assert_eq!(pair[0], pair[1], "torn");
        let value: u64 = pair[0].text().parse().expect("a number");
        assert!(value >= before, "node {} says {value} after {before}", round % 3 + 1);
        highest = value;
    }
    stop.store(true, Ordering::Relaxed);
    writer.join().expect("ended");
}

#[test]
fn keys_end_on_every_node_and_a_new_leader_goes_on_with_their_time() {
    let place = Place::new("ring = \"1M\"", "");
    let nodes = place.group();
    let leader = place.leader(&nodes);
    let mut conn = place.connect(leader);
    assert_eq!(conn.say("SET short 1 PX 300"), "OK");
    assert_eq!(conn.say("SET long 1 EX 1000"), "OK");
    assert_eq!(conn.say("SET longer 1 PX 3000"), "OK");
    assert_eq!(conn.say("SET forever 1"), "OK");
    for node in 1..=3 {
        let mut conn = place.connect(node);
        // Nobody writes: it ends all the same, and is removed.
        until(|| conn.say("GET short") == "nil", || "it never ends".to_owned());
        until(|| conn.say("DBSIZE") == "2" || conn.say("DBSIZE") == "3", || conn_said(&place, node));
        let left: i64 = conn.say("PTTL long").parse().expect("a number");
        assert!((1..1_000_000).contains(&left), "{left}");
    }
    let to = leader % 3 + 1;
    let output = place.command("transfer", leader).args(["--to", &to.to_string()]).output().expect("runs");
    assert!(output.status.success(), "{}", said(&output));
    assert!(conn.ask("SET x 1").expect("answered").is_error("MOVED"));
    for node in 1..=3 {
        let mut conn = place.connect(node);
        until(|| conn.say("EXISTS longer") == "0", || "it never ends under the new leader".to_owned());
        assert_eq!(conn.say("TTL forever"), "-1");
        let left: i64 = conn.say("PTTL long").parse().expect("a number");
        assert!((1..1_000_000).contains(&left), "{left}");
    }
}

fn conn_said(place: &Place, node: u8) -> String {
    place.connect(node).say("INFO keyspace")
}

#[test]
fn who_missed_more_than_the_ring_holds_takes_the_state_with_all_lives() {
    let place = Place::new("ring = \"1M\"\nsnapshot = \"4M\"\nreadmit = \"auto\"", "");
    let mut nodes = place.group();
    let leader = place.leader(&nodes);
    let away = leader % 3 + 1;
    nodes[usize::from(away) - 1].kill();
    let mut conn = place.connect(leader);
    let mut keys = BTreeMap::new();
    for n in 0..100 {
        let value = format!("{n} ").repeat(5000);
        conn.send(&encoded(&[b"SET", format!("key:{n}").as_bytes(), value.as_bytes()])).expect("sent");
        assert_eq!(conn.answer().expect("answered").text(), "OK");
        keys.insert(format!("key:{n}"), value);
    }
    assert_eq!(conn.say("SET long 1 EX 1000"), "OK");
    assert_eq!(conn.say("SET short 1 PX 5000"), "OK");
    nodes[usize::from(away) - 1] = place.start(away);
    let mut there = place.connect(away);
    let begun = Instant::now();
    while there.ask("GET long").map_or_else(|error| error.to_string(), |answer| answer.text()) != "1" {
        assert!(begun.elapsed() < PATIENCE, "{}", nodes[usize::from(away) - 1].said());
        thread::sleep(Duration::from_millis(20));
    }
    read_back(&mut there, &keys, "the one that was away");
    let info = there.say("INFO stats");
    assert!(!info.contains("states_taken:0"), "{info}");
    let left: i64 = there.say("PTTL long").parse().expect("a number");
    assert!((1..1_000_000).contains(&left), "{left}");
    // Who got its state that way goes on like all others, and may lead.
    let leads = || {
        let output =
            place.command("transfer", leader).args(["--to", &away.to_string()]).output().expect("runs");
        output.status.success()
    };
    until(leads, || nodes.iter().map(|node| node.said()).collect());
    let mut there = place.connect(away);
    until(|| there.say("SET after 1") == "OK", || "it does not lead".to_owned());
    until(|| there.say("EXISTS short") == "0", || "it never ends".to_owned());
    assert_eq!(there.say("DBSIZE"), "102");
}
