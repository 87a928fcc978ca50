//! `ringleader kv` as its clients see it: Debian's `redis-cli` and `redis-benchmark`, and bytes that no client sends.

mod demo_common;
mod kv_common;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use demo_common::{Turn, turn};
use kv_common::{Answer, Conn, Place, encoded, free_ports, has_redis_tools, said, until};
use proptest::prelude::*;
use proptest::test_runner::{Config as RunnerConfig, TestRunner};
use rustix::process::{Pid, Signal, kill_process};

/// `ringleader kv --nodes`. Dropped, it is killed.
struct Group {
    child: Child,
    first: u16,
    /// What it said when it was ready.
    told: Vec<String>,
}

impl Group {
    fn start(turn: &Turn, nodes: u16) -> Group {
        let first = free_ports(nodes)[0];
        let mut command = Command::new(env!("CARGO_BIN_EXE_ringleader"));
        command.args(["kv", "--nodes", &nodes.to_string(), "--port", &first.to_string()]);
        command.env("TMPDIR", turn.path("")).stdin(Stdio::null());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
        let mut told = Vec::new();
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        while told.len() < 6 {
            match lines.next() {
                Some(line) => told.push(line.expect("text")),
                None => panic!("{}", said(&child.wait_with_output().expect("ended"))),
            }
        }
        Group { child, first, told }
    }

    /// The words behind the name of the program in this line of what it said.
    fn words(&self, line: usize) -> Vec<&str> {
        self.told[line].split('#').next().unwrap_or_default().split_whitespace().skip(1).collect()
    }

    fn directory(&self) -> PathBuf {
        Path::new(self.words(3)[2]).parent().expect("a directory").to_owned()
    }

    fn connect(&self, node: u16) -> Conn {
        Conn::new(([127, 0, 0, 1], self.first + node - 1).into()).expect("connected")
    }

    fn process_of(&self, node: u16) -> i32 {
        let info = self.connect(node).say("INFO server");
        let id = info.lines().find_map(|line| line.strip_prefix("process_id:"));
        id.expect("told").parse().expect("a number")
    }

    fn interrupt(&mut self) -> Option<i32> {
        kill_process(Pid::from_child(&self.child), Signal::INT).expect("sent");
        self.child.wait().expect("ended").code()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether a process is there, and more than a name that nobody has asked for yet.
fn lives(process: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(" Z"))
}

#[test]
fn one_command_starts_a_group_that_redis_cli_talks_to_and_leaves_nothing_behind() {
    if !has_redis_tools() {
        return;
    }
    let turn = turn();
    let mut group = Group::start(&turn, 3);
    let (first, told) = (group.first, &group.told);
    assert!(told[0].starts_with("ready: 3 nodes at 127.0.0.1:"), "{told:?}");
    let cli = |port: u16, args: &[&str]| {
        let output = Command::new("redis-cli").args(["-p", &port.to_string()]).args(args).output();
        said(&output.expect("runs")).trim_end().to_owned()
    };
    // The very commands that it prints.
    for (line, expected) in [(&told[1], "OK"), (&told[2], "hello")] {
        let line = line.split('#').next().unwrap_or_default();
        let mut words = line.split_whitespace();
        let output = Command::new(words.next().expect("a program")).args(words).output().expect("runs");
        assert_eq!(said(&output).trim_end(), expected, "{line}");
    }
    let leader = (first..first + 3).find(|port| cli(*port, &["ROLE"]).starts_with("master"));
    let leader = leader.expect("somebody leads");
    let follower = if leader == first { first + 1 } else { first };
    let moved = cli(follower, &["SET", "greeting", "hi"]);
    assert!(moved.starts_with("MOVED ") && moved.ends_with(&format!("127.0.0.1:{leader}")), "{moved}");
    for (args, expected) in [
        (&["PING"][..], "PONG"),
        (&["ECHO", "hello world"], "hello world"),
        (&["SET", "a", "1", "NX"], "OK"),
        (&["SET", "a", "2", "NX"], ""),
        (&["INCR", "a"], "2"),
        (&["DECR", "a"], "1"),
        (&["APPEND", "a", "5"], "2"),
        (&["GET", "a"], "15"),
        (&["MSET", "b", "2", "c", "3"], "OK"),
        (&["MGET", "a", "b", "c", "d"], "15\n2\n3"),
        (&["SETNX", "b", "9"], "0"),
        (&["EXISTS", "a", "b", "d"], "2"),
        (&["EXPIRE", "c", "1000"], "1"),
        (&["TTL", "c"], "1000"),
        (&["PERSIST", "c"], "1"),
        (&["TTL", "c"], "-1"),
        (&["DEL", "c", "greeting"], "2"),
        (&["DBSIZE"], "2"),
        (&["TYPE", "a"], "string"),
        (&["CLUSTER", "KEYSLOT", "foo"], "12182"),
        (&["SELECT", "0"], "OK"),
        (&["COMMAND", "COUNT"], "55"),
        (&["COMMAND", "GETKEYS", "MSET", "x", "1", "y", "2"], "x\ny"),
        (&["NOSUCH"], "ERR unknown command 'NOSUCH', with args beginning with:"),
        (&["-3", "CONFIG", "GET", "databases"], "databases 1"),
        (&["-3", "GET", "nothing"], ""),
    ] {
        let (said, expected) = (cli(leader, args), expected.to_owned());
        assert!(
            said == expected || said.starts_with(&expected) && expected.starts_with("ERR"),
            "{args:?}: {said}"
        );
    }
    for port in first..first + 3 {
        assert_eq!(cli(port, &["GET", "a"]), "15");
        assert!(cli(port, &["CLUSTER", "NODES"]).contains(&format!("127.0.0.1:{leader}@{leader} ")));
        assert!(cli(port, &["CLUSTER", "INFO"]).contains("cluster_state:ok"));
        assert!(cli(port, &["CLUSTER", "SLOTS"]).starts_with(&format!("0\n16383\n127.0.0.1\n{leader}\n")));
        assert!(cli(port, &["CLUSTER", "SHARDS"]).contains(&leader.to_string()));
    }
    // Through a pipe, as scripts do, and followed over a redirection.
    let mut piped = Command::new("redis-cli")
        .args(["-c", "-p", &follower.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("runs");
    let script: String = (0..300).map(|n| format!("SET piped:{n} {n}\n")).collect();
    piped.stdin.take().expect("piped").write_all(script.as_bytes()).expect("written");
    let output = piped.wait_with_output().expect("ended");
    assert_eq!(String::from_utf8_lossy(&output.stdout).matches("OK").count(), 300);
    let mut keys: Vec<String> =
        cli(follower, &["--scan", "--pattern", "piped:*"]).lines().map(str::to_owned).collect();
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), 300);
    // Whatever the load, every command is answered, and none with an error.
    for args in [&["-t", "set,get,incr,mset"][..], &["-t", "set,get", "-P", "16"], &["-t", "get", "-3"]] {
        let output = Command::new("redis-benchmark")
            .args(["-q", "-n", "2000", "-p", &leader.to_string()])
            .args(args)
            .output()
            .expect("runs");
        let text = said(&output);
        assert!(output.status.success() && text.contains("requests per second"), "{args:?}: {text}");
        assert!(!text.to_lowercase().contains("error"), "{args:?}: {text}");
    }
    assert_eq!(cli(leader, &["STRLEN", "key:__rand_int__"]), "3");
    // Its configuration is one for all other commands.
    let output = Command::new(env!("CARGO_BIN_EXE_ringleader")).args(group.words(3)).output().expect("runs");
    assert!(said(&output).contains("in term"), "{}", said(&output));
    let directory = group.directory();
    assert!(directory.exists());
    assert_eq!(group.interrupt(), Some(0));
    assert!(!directory.exists());
    for port in first..first + 3 {
        assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
    }
}

#[test]
fn a_group_whose_command_is_killed_runs_no_more_and_the_next_one_sweeps_what_it_left() {
    let turn = turn();
    let mut group = Group::start(&turn, 3);
    let (directory, nodes) = (group.directory(), [1, 2, 3].map(|node| group.process_of(node)));
    assert!(nodes.iter().all(|node| lives(*node)));
    group.child.kill().expect("killed");
    group.child.wait().expect("ended");
    until(|| !nodes.iter().any(|node| lives(*node)), || format!("{nodes:?} live on"));
    assert!(directory.exists(), "nobody was there to remove it");
    let mut next = Group::start(&turn, 1);
    assert!(!directory.exists(), "the next one was");
    // One that lives is not swept.
    let mut third = Group::start(&turn, 1);
    assert_eq!(next.connect(1).say("SET a 1"), "OK");
    assert!(next.directory().exists() && third.directory().exists());
    assert_eq!((next.interrupt(), third.interrupt()), (Some(0), Some(0)));
    assert!(!next.directory().exists() && !third.directory().exists());
}

#[test]
fn a_node_that_dies_is_started_again_by_the_command_that_is_printed() {
    let turn = turn();
    let mut group = Group::start(&turn, 3);
    let mut lines = BufReader::new(group.child.stderr.take().expect("piped")).lines();
    let mut said_of = |what: &str| loop {
        let line = lines.next().expect("it does not end without a word").expect("text");
        if line.contains(what) {
            return line;
        }
    };
    let leads = |node: &u16| group.connect(*node).say("ROLE").starts_with("master");
    let mut leader = None;
    until(
        || {
            leader = (1..=3).find(leads);
            leader.is_some()
        },
        || "nobody leads".to_owned(),
    );
    let leader = leader.expect("found");
    assert_eq!(group.connect(leader).say("SET a 1"), "OK");
    let process = Pid::from_raw(group.process_of(leader)).expect("a process");
    kill_process(process, Signal::KILL).expect("sent");
    let line = said_of("start it again: ringleader ");
    let words = line.split_once("start it again: ringleader ").expect("seen").1.split(' ');
    let mut again = Command::new(env!("CARGO_BIN_EXE_ringleader"));
    again.args(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let child = again.spawn().expect("starts");
    let mut again = Group { child, first: group.first, told: Vec::new() };
    // It is a voter again, and counts; and has what was written before.
    let is_well = || {
        let mut asked = Command::new(env!("CARGO_BIN_EXE_ringleader"));
        let config = group.words(3)[2].to_owned();
        let output =
            asked.args(["status", "--json", "--config", &config, "--node", &leader.to_string()]).output();
        let status: serde_json::Value =
            serde_json::from_slice(&output.expect("runs").stdout).unwrap_or_default();
        status["voters"] == 3 && status["lost"] == 0 && status["formed"] == true
    };
    until(is_well, || "it does not come back".to_owned());
    until(
        || {
            Conn::new(([127, 0, 0, 1], group.first + leader - 1).into())
                .is_ok_and(|mut conn| conn.ask("GET a").is_ok_and(|answer| answer.text() == "1"))
        },
        || "it does not know what was written".to_owned(),
    );
    // Its own terminal ends it; who started the others says so.
    assert_eq!(group.interrupt(), Some(0));
    said_of(&format!("node {leader}, which somebody started again, goes on"));
    assert!(!group.directory().exists());
    assert!(again.child.try_wait().expect("its status").is_none());
    assert_eq!(again.interrupt(), Some(0));
}

#[test]
fn a_port_that_is_taken_and_a_group_without_a_password_are_said_before_anything_is_made() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
    let port = taken.local_addr().expect("an address").port().to_string();
    let output = Command::new(env!("CARGO_BIN_EXE_ringleader"))
        .args(["kv", "--nodes", "1", "--port", &port])
        .output()
        .expect("runs");
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains(&format!("cannot listen at 127.0.0.1:{port}")), "{}", said(&output));
    let output = Command::new(env!("CARGO_BIN_EXE_ringleader"))
        .args(["kv", "--nodes", "1", "--memory", "100000", "--port", &free_ports(1)[0].to_string()])
        .output()
        .expect("runs");
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains("--memory 100000: it is a multiple of 64K"), "{}", said(&output));
    let output = Command::new(env!("CARGO_BIN_EXE_ringleader")).arg("kv").output().expect("runs");
    assert!(said(&output).contains("--nodes <COUNT>"), "a newcomer has no file: {}", said(&output));
    let place = Place::new("", "listen = \"0.0.0.0:0\"");
    let output = place.command("kv", 1).output().expect("runs");
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains("password_file"), "{}", said(&output));
}

#[test]
fn who_does_not_know_the_password_gets_nothing() {
    let place = Place::new("ring = \"1M\"", "password_file = \"password\"");
    let path = place.turn.path("password");
    fs::write(&path, "open sesame\n").expect("written");
    let output = place.command("kv", 1).output().expect("runs");
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains("chmod 600"), "{}", said(&output));
    let mut permissions = fs::metadata(&path).expect("there").permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut permissions, 0o600);
    fs::set_permissions(&path, permissions).expect("set");
    let nodes = place.group();
    let leader = place.leader(&nodes);
    let mut stranger = place.connect(leader);
    for line in ["GET a", "SET a 1", "PING", "INFO", "CLUSTER SLOTS", "NOSUCH", "CONFIG GET *", "COMMAND"] {
        assert!(stranger.ask(line).expect("answered").is_error("NOAUTH"), "{line}");
    }
    assert!(stranger.ask("HELLO 3").expect("answered").is_error("NOAUTH"));
    for line in ["AUTH open", "AUTH default open", "AUTH other open%sesame", "HELLO 2 AUTH default wrong"] {
        assert!(stranger.ask(line).expect("answered").is_error("WRONGPASS"), "{line}");
    }
    // What is not known yet is not kept, either.
    let mut large = place.connect(leader);
    large.send(b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$100000\r\n").expect("sent");
    assert!(large.answer().expect("answered").is_error("ERR"));
    assert!(large.answer().is_err(), "it is gone");
    // Nor are answers that it does not take: they are not made.
    let mut greedy = place.connect(leader);
    greedy.stream.set_write_timeout(Some(Duration::from_secs(1))).expect("set");
    let bytes = b"GET a\r\n".repeat(10_000);
    let swallowed = (0..1000).take_while(|_| greedy.send(&bytes).is_ok()).count();
    assert!(swallowed < 1000, "it is read on and on");
    let mut known = place.connect(leader);
    known.send(&encoded(&[b"AUTH", b"open sesame"])).expect("sent");
    assert_eq!(known.answer().expect("answered").text(), "OK");
    let kept = bytes_waiting(&mut known);
    assert!((16 << 10..256 << 10).contains(&kept), "{kept}");
    drop(greedy);
    // A word of the password is in two arguments otherwise.
    stranger.send(&encoded(&[b"AUTH", b"open sesame"])).expect("sent");
    assert_eq!(stranger.answer().expect("answered").text(), "OK");
    assert_eq!(stranger.say("SET a 1"), "OK");
    // Who shows a wrong one afterwards is a stranger again.
    assert!(stranger.ask("AUTH wrong").expect("answered").is_error("WRONGPASS"));
    assert!(stranger.ask("GET a").expect("answered").is_error("NOAUTH"));
    if has_redis_tools() {
        let follower = leader % 3 + 1;
        assert_eq!(place.redis_cli(follower, &["--no-auth-warning", "-a", "open sesame", "GET", "a"]), "1");
        let said =
            place.redis_cli(follower, &["--no-auth-warning", "-c", "-a", "open sesame", "SET", "a", "2"]);
        assert_eq!(said, "OK", "and is taken along when it is sent to another node");
    }
}

fn bytes_waiting(conn: &mut Conn) -> u64 {
    let info = conn.say("INFO clients");
    let line = info.lines().find_map(|line| line.strip_prefix("client_bytes_waiting:"));
    line.expect("told").parse().expect("a number")
}

/// A page of somebody else's in a browser on this machine can have it say this to any port; what it says must not be taken for
/// commands.
#[test]
fn a_browser_changes_nothing() {
    let place = Place::new("ring = \"1M\"", "");
    let nodes = place.group();
    let leader = place.leader(&nodes);
    let mut good = place.connect(leader);
    assert_eq!(good.say("SET a 1"), "OK");
    for head in ["POST / HTTP/1.1", "GET / HTTP/1.1\r\nHost: 127.0.0.1", "PUT / HTTP/1.1\r\nhost: there"] {
        let mut browser = place.connect(leader);
        browser.send(format!("{head}\r\n\r\nFLUSHALL\r\nSET a 2\r\n").as_bytes()).expect("sent");
        let mut answers = Vec::new();
        while let Ok(answer) = browser.answer() {
            answers.push(answer.text());
        }
        assert_eq!(answers.last().map(String::as_str), Some("ERR this is no web server"), "{answers:?}");
        assert_eq!(good.say("GET a"), "1");
    }
}

#[test]
fn malformed_and_oversized_commands_harm_nobody_else() {
    let place = Place::new("ring = \"1M\"\nsnapshot = \"1M\"", "max_clients = 40");
    let nodes = place.group();
    let leader = place.leader(&nodes);
    let mut good = place.connect(leader);
    assert_eq!(good.say("SET a 1"), "OK");
    // What comes before it is carried out.
    let mut bad = place.connect(leader);
    bad.send(b"*2\r\n$4\r\nINCR\r\n$1\r\na\r\n*1\r\n$x\r\nPING\r\n").expect("sent");
    assert_eq!(bad.answer().expect("answered"), Answer::Int(2));
    assert!(bad.answer().expect("answered").text().starts_with("ERR Protocol error"));
    assert!(bad.answer().is_err(), "it is gone");
    for (bytes, what) in [
        (&b"*1000000000\r\n"[..], "too many arguments"),
        (b"*3\r\n$3\r\nSET\r\n$1\r\nb\r\n$900000000\r\n", "too many bytes"),
        (b"*1\r\n*1\r\n*1\r\n*1\r\n", "expected '$'"),
        (b"*1\r\n$4\r\nPINGPING\r\n", "expected CRLF"),
    ] {
        let mut bad = place.connect(leader);
        bad.send(bytes).expect("sent");
        let text = bad.answer().expect("answered").text();
        assert!(text.starts_with("ERR Protocol error") && text.contains(what), "{text}");
    }
    // More than an entry holds, and not more than is read: the client stays.
    let mut large = place.connect(leader);
    let value = vec![b'x'; 150_000];
    large.send(&encoded(&[b"SET", b"large", &value])).expect("sent");
    let text = large.answer().expect("answered").text();
    assert!(text.starts_with("ERR a command of more than "), "{text}");
    assert_eq!(large.say("PING"), "PONG");
    // A state that is full is left as it is.
    let value = vec![b'x'; 100_000];
    let mut full = 0;
    for n in 0..20 {
        large.send(&encoded(&[b"SET", format!("large:{n}").as_bytes(), &value])).expect("sent");
        let answer = large.answer().expect("answered");
        full += i32::from(answer.is_error("OOM"));
        assert!(answer.is_error("OOM") || answer.text() == "OK", "{answer:?}");
    }
    assert_eq!(full, 10);
    // Who does not take answers is not made any: they are not kept.
    let mut greedy = place.connect(leader);
    let command = encoded(&[b"GET", b"large:1"]);
    greedy.send(&command.repeat(1000)).expect("sent");
    until(|| bytes_waiting(&mut good) > 1 << 20, || "nothing waits".to_owned());
    std::thread::sleep(Duration::from_millis(300));
    assert!(bytes_waiting(&mut good) < 4 << 20, "a hundred megabytes are not made");
    for _ in 0..1000 {
        assert_eq!(greedy.answer().expect("answered"), Answer::Bulk(value.clone()));
    }
    // Half a command may take its time.
    let mut slow = place.connect(leader);
    for byte in encoded(&[b"GET", b"a"]) {
        slow.send(&[byte]).expect("sent");
    }
    assert_eq!(slow.answer().expect("answered").text(), "2");
    // More clients than there may be are turned away, and the others are served.
    let mut crowd: Vec<Conn> = (0..60).map(|_| place.connect(leader)).collect();
    let mut turned_away = 0;
    for one in &mut crowd {
        let sent = one.send(b"PING\r\n");
        match sent.and_then(|()| one.answer()) {
            Ok(Answer::Status(text)) => assert_eq!(text, "PONG"),
            Ok(Answer::Error(text)) => {
                assert_eq!(text, "ERR max number of clients reached");
                turned_away += 1;
            }
            Ok(answer) => panic!("{answer:?}"),
            // It was told, and its system threw that away because it had sent more.
            Err(_) => turned_away += 1,
        }
    }
    assert!(turned_away >= 20, "{turned_away}");
    drop(crowd);
    assert_eq!(good.say("GET a"), "2");
}

/// Bytes of all kinds on connections of their own; meanwhile another client is served, and nobody's node ends.
#[test]
fn whatever_bytes_come_the_others_are_served() {
    let place = Place::new("ring = \"1M\"", "");
    let nodes = place.group();
    let leader = place.leader(&nodes);
    let mut good = place.connect(leader);
    good.say("SET n 0");
    let piece = prop_oneof![
        Just(b"*3\r\n$3\r\nSET\r\n$1\r\nx\r\n$1\r\ny\r\n".to_vec()),
        Just(b"*2\r\n$3\r\nGET\r\n$1\r\nx\r\n".to_vec()),
        Just(b"*3\r\n$4\r\nMSET\r\n".to_vec()),
        Just(b"HELLO 3\r\n".to_vec()),
        Just(b"SCAN 0 COUNT 5\r\n".to_vec()),
        Just(b"GETEX x EX 5\r\n".to_vec()),
        Just(b"QUIT\r\n".to_vec()),
        Just(b"\r\n".to_vec()),
        "[*$:+-]-?[0-9]{1,12}\r\n".prop_map(String::into_bytes),
        proptest::collection::vec(any::<u8>(), 0..60),
    ];
    let bytes = proptest::collection::vec(piece, 1..12).prop_map(|pieces| pieces.concat());
    let count = std::cell::Cell::new(0);
    let good = std::cell::RefCell::new(good);
    let mut runner =
        TestRunner::new(RunnerConfig { cases: 300, failure_persistence: None, ..RunnerConfig::default() });
    let result = runner.run(&(bytes, any::<bool>()), |(bytes, waits)| {
        let mut bad = place.connect(leader);
        // It may be shown the door while it is still talking.
        let _ = bad.send(&bytes);
        if waits {
            let _ = bad.stream.shutdown(std::net::Shutdown::Write);
            let mut rest = Vec::new();
            let _ = bad.stream.read_to_end(&mut rest);
        }
        count.set(count.get() + 1);
        prop_assert_eq!(good.borrow_mut().say("INCR n"), count.get().to_string());
        Ok(())
    });
    result.expect("others are served");
    for node in &nodes {
        assert!(place.status(node.node).is_some(), "{}", node.said());
    }
}

/// Each is more than may wait for a client, and goes as soon as it is made: then nothing but that tells that there is room again.
#[test]
fn large_answers_come_one_after_the_other() {
    let place = Place::new("", "");
    let nodes = place.group();
    let leader = place.leader(&nodes);
    for (len, count) in [(1_100_000, 3), (1_100_000, 40), (1_500_000, 3), (1_500_000, 10)] {
        let mut conn = place.connect(leader);
        let large = vec![b'x'; len];
        let bytes = [encoded(&[b"ECHO", &large]).repeat(count), encoded(&[b"PING"])].concat();
        let mut sending = conn.stream.try_clone().expect("cloned");
        let sender = std::thread::spawn(move || sending.write_all(&bytes).expect("sent"));
        for at in 0..count {
            assert_eq!(conn.answer().expect("answered"), Answer::Bulk(large.clone()), "{at} of {count}");
        }
        assert_eq!(conn.answer().expect("answered").text(), "PONG");
        sender.join().expect("ended");
    }
}

#[test]
fn a_pipeline_is_carried_out_in_its_order() {
    let place = Place::new("ring = \"1M\"", "");
    let nodes = place.group();
    let leader = place.leader(&nodes);
    let mut conn = place.connect(leader);
    let (mut bytes, mut expected) = (Vec::new(), Vec::new());
    for n in 0..2000 {
        let text = n.to_string();
        let text = text.as_bytes();
        match n % 5 {
            0 => bytes.extend(encoded(&[b"SET", b"k", text])),
            1 | 3 => bytes.extend(encoded(&[b"GET", b"k"])),
            2 => bytes.extend(encoded(&[b"APPEND", b"k", b"!"])),
            _ => bytes.extend(encoded(&[b"PING"])),
        }
        let set = n - n % 5;
        expected.push(match n % 5 {
            0 => Answer::Status("OK".to_owned()),
            1 => Answer::Bulk(set.to_string().into_bytes()),
            2 => Answer::Int(set.to_string().len() as i64 + 1),
            3 => Answer::Bulk(format!("{set}!").into_bytes()),
            _ => Answer::Status("PONG".to_owned()),
        });
    }
    // All at once: more than a client may have on its way.
    for n in 0..20_000 {
        bytes.extend(encoded(&[b"INCR", b"count"]));
        expected.push(Answer::Int(n + 1));
    }
    bytes.extend(encoded(&[b"NOSUCH"]));
    bytes.extend(encoded(&[b"QUIT"]));
    let mut sending = conn.stream.try_clone().expect("cloned");
    let sender = std::thread::spawn(move || sending.write_all(&bytes).expect("sent"));
    for (at, expected) in expected.into_iter().enumerate() {
        assert_eq!(conn.answer().expect("answered"), expected, "{at}");
    }
    assert!(conn.answer().expect("answered").is_error("ERR"));
    assert_eq!(conn.answer().expect("answered").text(), "OK");
    assert!(conn.answer().is_err(), "it has quit");
    sender.join().expect("ended");
}
