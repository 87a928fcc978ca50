//! What `ringleader run` and `kv` answer over HTTP, and what they tell their service manager: processes over shared memory, and a
//! socket in the manager's place.

mod demo_common;
mod kv_common;
mod run_common;

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use kv_common::free_ports;
use nix::sys::ptrace;
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid as NixPid;
use run_common::{Place, Running, said, until};
use rustix::process::Signal;

/// In the place of a service manager.
struct Manager {
    socket: UnixDatagram,
    path: PathBuf,
}

impl Manager {
    fn new(path: PathBuf) -> Manager {
        let socket = UnixDatagram::bind(&path).expect("bound");
        socket.set_nonblocking(true).expect("set");
        Manager { socket, path }
    }

    /// What it was told since it was last asked.
    fn told(&self) -> Vec<String> {
        let mut told = Vec::new();
        let mut room = [0; 4096];
        while let Ok(len) = self.socket.recv(&mut room) {
            let text = str::from_utf8(&room[..len]).expect("text");
            told.extend(text.lines().map(str::to_owned));
        }
        told
    }

    /// Waits until it is told something that begins like this; gives all of it.
    #[track_caller]
    fn hears(&self, begins: &str) -> Vec<String> {
        let mut all = Vec::new();
        until(
            || {
                all.extend(self.told());
                all.iter().any(|line| line.starts_with(begins))
            },
            || format!("never heard {begins:?}"),
        );
        all
    }
}

fn health_of(said: &str) -> Option<SocketAddr> {
    said.lines().find_map(|line| line.strip_prefix("health and metrics at http://")?.parse().ok())
}

#[track_caller]
fn address(node: &Running) -> SocketAddr {
    until(|| health_of(&node.said()).is_some(), || node.said());
    health_of(&node.said()).expect("found")
}

/// Status and body.
fn get(address: SocketAddr, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).expect("connects");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n").expect("written");
    let mut all = String::new();
    stream.read_to_string(&mut all).expect("read");
    let (head, body) = all.split_once("\r\n\r\n").expect("a head and a body");
    (head.split(' ').nth(1).expect("a status").parse().expect("a number"), body.to_owned())
}

/// All samples, by name and labels. Each family has its help and type first, and nothing is there twice.
fn metrics(address: SocketAddr) -> BTreeMap<String, f64> {
    let (code, body) = get(address, "/metrics");
    assert_eq!(code, 200);
    let mut samples = BTreeMap::new();
    let (mut helped, mut typed) = (String::new(), String::new());
    for line in body.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            helped = rest.split(' ').next().expect("a name").to_owned();
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect("a type");
            assert!(["counter", "gauge"].contains(&kind), "{line}");
            typed = name.to_owned();
        } else {
            let (sample, value) = line.rsplit_once(' ').expect("a value");
            let name = sample.split('{').next().expect("a name");
            assert_eq!((name, name), (helped.as_str(), typed.as_str()), "{line}");
            let before = samples.insert(sample.to_owned(), value.parse().expect("a number"));
            assert!(before.is_none(), "{line}");
        }
    }
    samples
}

fn of(name: &str, group: &str, node: u8) -> String {
    format!("{name}{{group=\"{group}\",node=\"{node}\"}}")
}

fn run_with(place: &Place, node: u8, manager: Option<&Manager>) -> Running {
    let mut command = place.command("run", node);
    command.args(["--health", "127.0.0.1:0"]);
    if let Some(manager) = manager {
        command.env("NOTIFY_SOCKET", &manager.path).env("WATCHDOG_USEC", "1200000");
    }
    place.start(command, node)
}

#[test]
fn a_group_says_how_it_is_from_its_beginning_to_its_end() {
    let place = Place::new();
    let manager = Manager::new(place.turn.path("notify"));
    let mut nodes = vec![run_with(&place, 1, Some(&manager)), run_with(&place, 2, None)];
    let told = manager.hears("WATCHDOG=1");
    assert_eq!(told[0], "READY=1");
    let waits = "STATUS=node 1 of test: waits for its group to be formed: ";
    assert!(told.iter().any(|line| line.starts_with(waits)), "{told:?}");

    let at: Vec<SocketAddr> = nodes.iter().map(address).collect();
    assert_eq!(get(at[0], "/healthz"), (200, "alive\n".to_owned()));
    let (code, why) = get(at[0], "/readyz");
    assert_eq!(code, 503);
    assert!(why.starts_with("not ready: node 1 of test: waits for its group to be formed: "), "{why}");
    let unformed = metrics(at[0]);
    assert_eq!(
        (unformed[&of("ringleader_ready", "test", 1)], unformed[&of("ringleader_formed", "test", 1)]),
        (0.0, 0.0)
    );
    // What it has not got it does not say.
    for name in ["ringleader_term", "ringleader_commit_index", "ringleader_voters", "ringleader_leader"] {
        assert!(!unformed.keys().any(|sample| sample.starts_with(name)), "{name}: {unformed:?}");
    }

    nodes.push(run_with(&place, 3, None));
    place.wait_for(&nodes);
    let at: Vec<SocketAddr> = nodes.iter().map(address).collect();
    assert_eq!(place.command("form", 1).output().expect("runs").status.code(), Some(0));
    for address in &at {
        until(|| get(*address, "/readyz").0 == 200, || get(*address, "/readyz").1);
    }
    let told = manager.hears("STATUS=node 1 of test: ");
    assert!(!told.contains(&"READY=1".to_owned()), "once");

    let leader = place.leader(&nodes);
    nodes[leader].write("one\ntwo\nthree\n");
    for node in &nodes {
        until(|| node.applied() == "one\ntwo\nthree\n", || node.said());
    }
    let id = nodes[leader].node;
    let of_leader = |name: &str| of(name, "test", id);
    until(
        || metrics(at[leader]).get(&of_leader("ringleader_proposals_committed_total")) == Some(&3.0),
        || format!("{:?}", metrics(at[leader])),
    );
    let leads = metrics(at[leader]);
    assert_eq!(leads[&of_leader("ringleader_ready")], 1.0);
    assert_eq!(leads[&of_leader("ringleader_leader")], f64::from(id));
    assert_eq!(leads[&of_leader("ringleader_voters")], 3.0);
    assert_eq!(leads[&of_leader("ringleader_applied_entries_total")], 3.0);
    assert_eq!(leads[&of_leader("ringleader_applied_bytes_total")], 11.0);
    assert_eq!(leads[&format!("ringleader_role{{group=\"test\",node=\"{id}\",role=\"leader\"}}")], 1.0);
    assert_eq!(leads[&format!("ringleader_role{{group=\"test\",node=\"{id}\",role=\"follower\"}}")], 0.0);
    assert!(leads["ringleader_agent_rounds_total"] > 0.0);
    assert_eq!(leads[&format!("ringleader_build_info{{version=\"{}\"}}", env!("CARGO_PKG_VERSION"))], 1.0);
    let follower = (leader + 1) % 3;
    let other = nodes[follower].node;
    let row = format!("ringleader_follower_counts{{group=\"test\",node=\"{id}\",follower=\"{other}\"}}");
    assert!(leads.contains_key(&row), "{leads:?}");
    let follows = metrics(at[follower]);
    assert_eq!(follows[&of("ringleader_leader", "test", other)], f64::from(id));
    assert_eq!(follows[&of("ringleader_applied_entries_total", "test", other)], 3.0);
    assert!(!follows.keys().any(|sample| sample.starts_with("ringleader_follower_")), "{follows:?}");

    // One that is left alone is alive, and not ready.
    let alone = nodes.iter().position(|node| node.node == 1).expect("it runs");
    for node in nodes.iter_mut().filter(|node| node.node != 1) {
        assert_eq!(node.end(Signal::TERM), Some(0), "{}", node.said());
    }
    until(|| get(at[alone], "/readyz").0 == 503, || get(at[alone], "/readyz").1);
    let why = get(at[alone], "/readyz").1;
    assert!(why.starts_with("not ready: node 1 of test: hears of no leader, group "), "{why}");
    assert_eq!(get(at[alone], "/healthz").0, 200);
    manager.told();
    assert_eq!(nodes[alone].end(Signal::TERM), Some(0));
    assert!(manager.told().contains(&"STOPPING=1".to_owned()));
    assert!(TcpStream::connect(at[alone]).is_err(), "nobody listens there any more");
}

/// The thread of this name of a process, which is not its first.
fn thread_of(process: u32, name: &str) -> NixPid {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).expect("listed");
    let is_it = |path: &Path| {
        !path.ends_with(process.to_string())
            && fs::read_to_string(path.join("comm")).is_ok_and(|comm| comm.trim_end() == name)
    };
    let task = tasks.flatten().map(|task| task.path()).find(|path| is_it(path)).expect("it is there");
    let id = task.file_name().and_then(|name| name.to_str()).expect("a name");
    NixPid::from_raw(id.parse().expect("a number"))
}

/// A thread that runs no further.
struct Held(NixPid);

impl Held {
    fn new(thread: NixPid) -> Held {
        ptrace::seize(thread, ptrace::Options::empty()).expect("may trace its child");
        ptrace::interrupt(thread).expect("interrupted");
        waitpid(thread, Some(WaitPidFlag::__WALL)).expect("it is held");
        Held(thread)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // It may have been killed.
        let _ = ptrace::detach(self.0, None);
    }
}

/// The agent's thread alone is held, as if it hung; all others run.
#[test]
fn a_process_whose_agent_hangs_is_not_alive() {
    let place = Place::new();
    let manager = Manager::new(place.turn.path("notify"));
    let mut node = run_with(&place, 1, Some(&manager));
    let at = address(&node);
    manager.hears("WATCHDOG=1");
    let agent = thread_of(node.child.id(), "ringleader");
    let held = Held::new(agent);
    // Counts as dead after some looks; whoever told it to be alive has stopped before.
    until(|| get(at, "/healthz").0 == 503, || "it seems alive".to_owned());
    assert_eq!(get(at, "/healthz").1, "the agent's thread makes no rounds\n");
    assert!(get(at, "/readyz").1.starts_with("not ready: the agent's thread makes no rounds\n"));
    // Numbers are told all the same.
    assert!(metrics(at).contains_key("ringleader_agent_rounds_total"));
    let mut told = manager.hears("STATUS=the agent's thread makes no rounds");
    std::thread::sleep(Duration::from_secs(1));
    told.extend(manager.told());
    let after = told.iter().skip_while(|line| !line.starts_with("STATUS=the agent's"));
    assert_eq!(after.filter(|line| *line == "WATCHDOG=1").count(), 0, "{told:?}");
    drop(held);
    until(|| get(at, "/healthz").0 == 200, || "it seems dead".to_owned());
    manager.hears("WATCHDOG=1");
    assert_eq!(node.end(Signal::TERM), Some(0), "{}", node.said());
}

#[test]
fn nodes_of_several_groups_share_an_address() {
    let place = Place::new();
    let text = fs::read_to_string(place.config()).expect("reads").replace("[1, 2, 3]", "[1]");
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringleader"));
    command.args(["run", "--node", "1", "--applied"]).arg(place.turn.path("."));
    for (name, listen) in [("orders", "[health]\nlisten = \"127.0.0.1:0\"\n"), ("stock", "")] {
        let path = place.turn.path(&format!("{name}.toml"));
        let of_group =
            text.replace("\"test\"", &format!("{name:?}")).replace("/group\"", &format!("/{name}\""));
        assert_ne!(of_group, text);
        fs::write(&path, of_group + listen).expect("written");
        command.arg("--config").arg(path);
    }
    let mut node = place.start(command, 1);
    let at = address(&node);
    let form = |name: &str| {
        let path = place.turn.path(&format!("{name}.toml"));
        let output = Command::new(env!("CARGO_BIN_EXE_ringleader"))
            .args([Path::new("form"), Path::new("--node"), Path::new("1"), Path::new("--config"), &path])
            .output()
            .expect("runs");
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    };
    let ready = |group: &str| metrics(at)[&of("ringleader_ready", group, 1)];
    until(|| get(at, "/readyz").1.lines().count() == 2, || get(at, "/readyz").1);
    form("orders");
    until(|| ready("orders") == 1.0, || get(at, "/readyz").1);
    assert_eq!((ready("stock"), get(at, "/readyz").0), (0.0, 503));
    form("stock");
    until(|| get(at, "/readyz").0 == 200, || get(at, "/readyz").1);
    let body = get(at, "/readyz").1;
    assert!(
        body.contains("ready: node 1 of orders: leads") && body.contains("ready: node 1 of stock: leads"),
        "{body}"
    );
    assert_eq!(node.end(Signal::TERM), Some(0), "{}", node.said());
}

#[test]
fn a_key_value_node_says_how_it_is_and_those_of_a_group_have_no_manager() {
    let place = Place::new();
    let text = fs::read_to_string(place.config()).expect("reads").replace("[1, 2, 3]", "[1]");
    let ports = free_ports(2);
    fs::write(place.config(), format!("{text}[kv]\nlisten = \"127.0.0.1:{}\"\n", ports[0])).expect("written");
    let manager = Manager::new(place.turn.path("notify"));
    let mut command = place.command("kv", 1);
    command.args(["--health", "127.0.0.1:0"]).env("NOTIFY_SOCKET", &manager.path);
    let mut node = place.start(command, 1);
    let at = address(&node);
    assert_eq!(manager.hears("STATUS=node 1 of test: waits")[0], "READY=1");
    assert_eq!(place.command("form", 1).output().expect("runs").status.code(), Some(0));
    until(|| get(at, "/readyz").0 == 200, || get(at, "/readyz").1);
    manager.hears("STATUS=node 1 of test: leads in term ");
    assert_eq!(metrics(at)[&of("ringleader_voters", "test", 1)], 1.0);
    assert_eq!(node.end(Signal::TERM), Some(0), "{}", node.said());
    manager.hears("STOPPING=1");

    // No one of a group is the service that was started.
    let mut group = Command::new(env!("CARGO_BIN_EXE_ringleader"))
        .args(["kv", "--nodes", "1", "--memory", "1M", "--port", &ports[1].to_string()])
        .env("NOTIFY_SOCKET", &manager.path)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("starts");
    let mut first = [0; 5];
    group.stdout.as_mut().expect("open").read_exact(&mut first).expect("says that it is ready");
    assert_eq!(&first, b"ready");
    assert_eq!(manager.told(), [] as [&str; 0]);
    rustix::process::kill_process(rustix::process::Pid::from_child(&group), Signal::TERM).expect("sent");
    assert_eq!(group.wait().expect("ends").code(), Some(0));
}

#[test]
fn an_address_that_cannot_be_is_told_and_nothing_is_left() {
    let place = Place::new();
    let taken = TcpListener::bind("127.0.0.1:0").expect("bound");
    let taken = taken.local_addr().expect("its address").to_string();
    for (listen, why) in [("127.0.0.1:9100", "port 9100 is node_exporter's"), (&taken, "cannot listen at")] {
        for what in ["run", "kv"] {
            let output = place.command(what, 1).args(["--health", listen]).output().expect("runs");
            assert_eq!(output.status.code(), Some(2), "{}", said(&output));
            assert!(said(&output).contains(why), "{}", said(&output));
            assert!(!place.regions().exists());
        }
    }
}
