//! What `ringleader-dpu run` answers over HTTP: a process over shared memory.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn get(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("connects");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n").expect("written");
    let mut all = String::new();
    stream.read_to_string(&mut all).expect("read");
    all
}

#[test]
fn an_acceptor_says_how_it_is() {
    let dir = tempfile::Builder::new().prefix("ringleader-test-").tempdir_in("/dev/shm").expect("made");
    let path = |name: &str| dir.path().join(name);
    let text = format!(
        "group = \"test\"\nnode = 1\nmembers = [1, 2, 3]\nfabric = \"shm\"\nring = \"1M\"\n[shm]\ndirectory = {:?}\n[dpu]\n",
        path("group")
    );
    fs::write(path("dpu.toml"), text).expect("written");
    let run = |listen: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ringleader-dpu"));
        command.args(["run", "--health", listen, "--config"]).arg(path("dpu.toml")).stdin(Stdio::null());
        command
    };
    let refused = run("127.0.0.1:9100").output().expect("runs");
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("port 9100 is node_exporter's"));
    assert!(!path("group").exists());

    let log = File::create(path("log")).expect("made");
    let mut running = Running(run("127.0.0.1:0").stderr(log).spawn().expect("starts"));
    let begun = Instant::now();
    let address = loop {
        let said = fs::read_to_string(path("log")).expect("read");
        let found = said.lines().find_map(|line| line.strip_prefix("health and metrics at http://"));
        // All of the line.
        if let Some(address) = found.filter(|_| said.contains("waits for its group")) {
            break address.parse().expect("an address");
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "never: {said}");
        thread::sleep(Duration::from_millis(10));
    };
    assert!(get(address, "/healthz").ends_with("\r\n\r\nalive\n"));
    let ready = get(address, "/readyz");
    assert!(ready.starts_with("HTTP/1.1 503 "), "{ready}");
    assert!(
        ready.contains(
            "\nnot ready: acceptor of node 1 of test: waits for its group; its host has not come yet\n"
        ),
        "{ready}"
    );
    let metrics = get(address, "/metrics");
    assert!(metrics.contains("\nringleader_ready{group=\"test\",node=\"1\"} 0\n"), "{metrics}");
    // No host has come, and there is no term yet.
    assert!(!metrics.contains("ringleader_host_alive") && !metrics.contains("ringleader_term"), "{metrics}");
    kill_process(Pid::from_child(&running.0), Signal::TERM).expect("sent");
    assert_eq!(running.0.wait().expect("ends").code(), Some(0));
    assert!(TcpStream::connect(address).is_err(), "nobody listens there any more");
}
