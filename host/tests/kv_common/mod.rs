//! Nodes of `ringleader kv` as processes, and a client that sees every byte: pipelines, errors, and connections that break.

#![allow(dead_code, reason = "each test program uses its own part")]

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::demo_common::{Turn, turn};

pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A configuration of three nodes with ports of their own.
pub(crate) struct Place {
    pub(crate) turn: Turn,
    shared: tempfile::TempDir,
    pub(crate) ports: Vec<u16>,
}

/// Ports in a row that nobody listens at, and that the system gives nobody who asks for any.
pub(crate) fn free_ports(count: u16) -> Vec<u16> {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let offset = (std::process::id() % 500) as u16 * 40;
    loop {
        let first = 10_000 + (offset + NEXT.fetch_add(count, Ordering::Relaxed)) % 20_000;
        let ports = first..first + count;
        let listeners: Result<Vec<TcpListener>, _> =
            ports.clone().map(|port| TcpListener::bind(("127.0.0.1", port))).collect();
        if listeners.is_ok() {
            return ports.collect();
        }
    }
}

impl Place {
    /// `more` are lines of the configuration, those of [kv] in the end.
    pub(crate) fn new(more: &str, kv: &str) -> Place {
        let turn = turn();
        let shared =
            tempfile::Builder::new().prefix("ringleader-test-").tempdir_in("/dev/shm").expect("made");
        let place = Place { turn, shared, ports: free_ports(3) };
        let addresses: String =
            (1..=3).map(|node| format!("{node} = \"{}\"\n", place.address(node))).collect();
        let text = format!(
            "group = \"test\"\nmembers = [1, 2, 3]\nfabric = \"shm\"\n{more}\n[shm]\ndirectory = {:?}\n[kv]\n{kv}\n[kv.addresses]\n{addresses}",
            place.shared.path().join("group"),
        );
        fs::write(place.config(), text).expect("written");
        place
    }

    pub(crate) fn config(&self) -> PathBuf {
        self.turn.path("group.toml")
    }

    pub(crate) fn address(&self, node: u8) -> String {
        format!("127.0.0.1:{}", self.ports[usize::from(node) - 1])
    }

    pub(crate) fn command(&self, what: &str, node: u8) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ringleader"));
        command.arg(what).arg("--config").arg(self.config()).arg("--node").arg(node.to_string());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub(crate) fn start(&self, node: u8) -> Running {
        let log = self.turn.path(&format!("log-{node}"));
        let mut command = self.command("kv", node);
        let file = File::options().create(true).append(true).open(&log).expect("made");
        command.stdout(file.try_clone().expect("cloned")).stderr(file);
        let child = command.spawn().expect("starts");
        let running = Running { node, child, log };
        until(|| self.status(node).is_some(), || running.said());
        running
    }

    /// Three nodes in a group that is led.
    pub(crate) fn group(&self) -> Vec<Running> {
        let nodes: Vec<Running> = (1..=3).map(|node| self.start(node)).collect();
        let formed = self.command("form", 1).output().expect("runs");
        assert!(formed.status.success(), "{}", said(&formed));
        self.leader(&nodes);
        nodes
    }

    pub(crate) fn status(&self, node: u8) -> Option<Value> {
        let Output { status, stdout, .. } =
            self.command("status", node).arg("--json").output().expect("runs");
        status.success().then(|| serde_json::from_slice(&stdout).expect("JSON"))
    }

    /// The id of the node that leads.
    pub(crate) fn leader(&self, nodes: &[Running]) -> u8 {
        let mut leader = None;
        until(
            || {
                let leads =
                    |node: &&Running| self.status(node.node).is_some_and(|status| status["role"] == "leader");
                leader = nodes.iter().find(leads).map(|node| node.node);
                leader.is_some()
            },
            || nodes.iter().map(Running::said).collect(),
        );
        leader.expect("found")
    }

    pub(crate) fn connect(&self, node: u8) -> Conn {
        Conn::new(self.address(node).parse().expect("an address")).expect("connected")
    }

    /// What a real client makes of it.
    pub(crate) fn redis_cli(&self, node: u8, args: &[&str]) -> String {
        let port = self.ports[usize::from(node) - 1].to_string();
        let output = Command::new("redis-cli").args(["-p", &port]).args(args).stdin(Stdio::null()).output();
        said(&output.expect("redis-cli runs")).trim_end().to_owned()
    }
}

/// Whether Debian's redis-tools are there. Where they are required a test fails without them; else it says so, and is well.
pub(crate) fn has_redis_tools() -> bool {
    let there =
        |name: &str| Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success());
    if there("redis-cli") && there("redis-benchmark") {
        return true;
    }
    let required = std::env::var("LAB_REQUIRED").is_ok_and(|value| value != "0");
    assert!(!required, "redis-cli and redis-benchmark are required here: install redis-tools");
    eprintln!("passed over: redis-cli or redis-benchmark is missing: install redis-tools");
    false
}

pub(crate) struct Running {
    pub(crate) node: u8,
    pub(crate) child: Child,
    log: PathBuf,
}

impl Running {
    pub(crate) fn said(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("sent");
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("ended");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a server answers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Answer {
    Status(String),
    Error(String),
    Int(i64),
    Bulk(Vec<u8>),
    Nil,
    Array(Vec<Answer>),
}

impl Answer {
    pub(crate) fn text(&self) -> String {
        match self {
            Answer::Status(text) | Answer::Error(text) => text.clone(),
            Answer::Int(number) => number.to_string(),
            Answer::Bulk(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            Answer::Nil => "nil".to_owned(),
            Answer::Array(items) => items.iter().map(Answer::text).collect::<Vec<_>>().join(" "),
        }
    }

    pub(crate) fn is_error(&self, code: &str) -> bool {
        matches!(self, Answer::Error(text) if text.split(' ').next() == Some(code))
    }
}

/// A connection. A read that takes longer than the patience is an error.
pub(crate) struct Conn {
    pub(crate) stream: TcpStream,
    input: Vec<u8>,
    at: usize,
}

impl Conn {
    pub(crate) fn new(address: SocketAddr) -> io::Result<Conn> {
        let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        Ok(Conn { stream, input: Vec::new(), at: 0 })
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// One command and its answer.
    pub(crate) fn ask(&mut self, line: &str) -> io::Result<Answer> {
        self.send(&encoded(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>()))?;
        self.answer()
    }

    /// The same, where nothing may come in between.
    #[track_caller]
    pub(crate) fn say(&mut self, line: &str) -> String {
        self.ask(line).expect("answered").text()
    }

    pub(crate) fn answer(&mut self) -> io::Result<Answer> {
        let line = self.line()?;
        let (kind, rest) = line.split_at(1);
        let number = || rest.parse::<i64>().map_err(|_| io::Error::from(ErrorKind::InvalidData));
        Ok(match kind {
            "+" => Answer::Status(rest.to_owned()),
            "-" => Answer::Error(rest.to_owned()),
            ":" => Answer::Int(number()?),
            "$" if rest == "-1" => Answer::Nil,
            "$" => {
                let len = number()? as usize;
                let bytes = self.take(len + 2)?;
                Answer::Bulk(bytes[..len].to_vec())
            }
            "*" => Answer::Array((0..number()?).map(|_| self.answer()).collect::<io::Result<_>>()?),
            _ => return Err(ErrorKind::InvalidData.into()),
        })
    }

    fn line(&mut self) -> io::Result<String> {
        loop {
            if let Some(end) = self.input[self.at..].iter().position(|byte| *byte == b'\n') {
                let line = self.take(end + 1)?;
                return Ok(String::from_utf8_lossy(&line[..end - 1]).into_owned());
            }
            self.more()?;
        }
    }

    fn take(&mut self, len: usize) -> io::Result<Vec<u8>> {
        while self.input.len() - self.at < len {
            self.more()?;
        }
        let bytes = self.input[self.at..self.at + len].to_vec();
        self.at += len;
        if self.at == self.input.len() {
            self.input.clear();
            self.at = 0;
        }
        Ok(bytes)
    }

    fn more(&mut self) -> io::Result<()> {
        let mut chunk = [0; 64 << 10];
        match self.stream.read(&mut chunk)? {
            0 => Err(ErrorKind::UnexpectedEof.into()),
            count => {
                self.input.extend_from_slice(&chunk[..count]);
                Ok(())
            }
        }
    }
}

pub(crate) fn encoded(args: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args {
        bytes.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
        bytes.extend_from_slice(arg);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

#[track_caller]
pub(crate) fn until(mut is_true: impl FnMut() -> bool, say: impl Fn() -> String) {
    let begun = Instant::now();
    while !is_true() {
        assert!(begun.elapsed() < PATIENCE, "never: {}", say());
        std::thread::sleep(Duration::from_millis(10));
    }
}

pub(crate) fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout)
}
