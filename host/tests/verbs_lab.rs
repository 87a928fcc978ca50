//! Groups of nodes on RDMA devices, each node on one of its own (`rxe1` on the network interface `n1`, ...), and what can go
//! wrong with devices and links. `make lab` makes such a machine and runs these with `--ignored`; they need root there.

#![cfg(feature = "verbs")]
#![expect(unsafe_code, reason = "a global allocator is unsafe to implement")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use ringleader::config::Notify;
use ringleader::exchange::{GroupName, Key};
use ringleader::fabric::verbs::Choice;
use ringleader::members::Change;
use ringleader::{
    CloseError, Entry, FormError, Node, Options, Outcome, Role, Timing, Transport, VerbsOptions,
};

const KEY: [u8; 32] = [7; 32];

/// Counts the allocations of each thread.
struct Counting;

const THREADS: usize = 1024;
static ALLOCATIONS: [AtomicU64; THREADS] = [const { AtomicU64::new(0) }; THREADS];

thread_local! {
    static THREAD: Cell<usize> = const { Cell::new(0) };
}

/// Where the allocations of this thread are counted: by its number, which is asked of the kernel once.
fn count() {
    let thread = THREAD.get();
    let thread = if thread == 0 { rustix::thread::gettid().as_raw_nonzero().get() as usize } else { thread };
    THREAD.set(thread);
    ALLOCATIONS[thread % THREADS].fetch_add(1, Ordering::Relaxed);
}

// SAFETY: every call is passed on as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller keeps to the contract, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: as above.
        unsafe { System.realloc(memory, layout, size) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The allocations so far of all threads that beat.
fn allocations_of_agents() -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task").expect("threads");
    let numbers = tasks.filter_map(|task| task.ok()?.file_name().into_string().ok());
    let agents = numbers.filter(|number| {
        std::fs::read_to_string(format!("/proc/self/task/{number}/comm"))
            .is_ok_and(|name| name.starts_with("ringleader-"))
    });
    agents
        .map(|number| number.parse::<usize>().expect("a number"))
        .map(|number| ALLOCATIONS[number % THREADS].load(Ordering::Relaxed))
        .sum()
}

type Applied = Arc<Mutex<Vec<u64>>>;

struct Group {
    nodes: Vec<Node>,
    applied: Vec<Applied>,
}

/// Options of one node of so many; `change` makes it a wrong one.
fn options(ports: &[u16], id: u8) -> (Options, VerbsOptions) {
    let address = |port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let others = |node: usize| node.checked_sub(1).and_then(|place| ports.get(place)).copied();
    let verbs = VerbsOptions {
        choice: Choice { device: Some(format!("rxe{id}")), ..Choice::default() },
        listen: address(ports[usize::from(id) - 1]),
        addresses: std::array::from_fn(|node| {
            others(node).filter(|_| node != usize::from(id)).map(|port| address(port).to_string())
        }),
        key: Key::from_bytes(KEY),
        group: GroupName::new("lab").expect("a name"),
    };
    let members: Vec<u8> = (1..=ports.len() as u8).collect();
    let mut options = Options::verbs(verbs.clone(), Timing::SOFT_ROCE, id, members);
    options.ring_len = 1 << 20;
    (options, verbs)
}

fn ports(nodes: usize) -> Vec<u16> {
    let listeners: Vec<_> =
        (0..nodes).map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port")).collect();
    listeners.iter().map(|listener| listener.local_addr().expect("an address").port()).collect()
}

impl Group {
    fn open(nodes: usize, change: impl Fn(u8, &mut Options, &mut VerbsOptions)) -> Group {
        let filter = std::env::var("RINGLEADER_LOG").unwrap_or_else(|_| "error".to_owned());
        let _ = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false).try_init();
        let ports = ports(nodes);
        let mut group = Group { nodes: Vec::new(), applied: Vec::new() };
        for id in 1..=nodes as u8 {
            let (mut options, mut verbs) = options(&ports, id);
            change(id, &mut options, &mut verbs);
            options.transport = Transport::Verbs(Box::new(verbs));
            let applied = Applied::default();
            let sink = Arc::clone(&applied);
            let machine = move |entry: Entry<'_>| {
                let number = u64::from_le_bytes(entry.payload.try_into().expect("a number"));
                sink.lock().expect("nobody panics").push(number);
            };
            group.nodes.push(Node::open(options, machine).expect("a node on its device"));
            group.applied.push(applied);
        }
        group
    }

    fn formed(nodes: usize) -> Group {
        let group = Group::open(nodes, |_, _, _| {});
        group.nodes[0].form(Duration::from_secs(60)).expect("the group forms");
        group
    }

    /// The place of the node that leads, if any of those that are `asked` does.
    fn leader(&self, asked: impl Fn(usize) -> bool) -> Option<usize> {
        (0..self.nodes.len()).find(|at| asked(*at) && self.nodes[*at].status().role == Role::Leader)
    }

    fn wait_for_leader(&self, asked: impl Fn(usize) -> bool) -> usize {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            if let Some(leader) = self.leader(&asked) {
                return leader;
            }
            assert!(Instant::now() < deadline, "nobody leads");
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Gets all these numbers committed, whoever leads.
    fn propose(&self, numbers: std::ops::Range<u64>, asked: impl Fn(usize) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(120);
        for number in numbers {
            loop {
                assert!(Instant::now() < deadline, "number {number} is not committed");
                let leader = self.wait_for_leader(&asked);
                let mut handle = self.nodes[leader].handle();
                if handle.propose(&number.to_le_bytes()).is_ok()
                    && let Some((_, Outcome::Committed { .. })) = handle.wait(Duration::from_secs(5))
                {
                    break;
                }
            }
        }
    }

    /// Waits until all of these nodes have applied the same entries, with all numbers below `end` among them.
    fn wait_until_identical(&self, end: u64, asked: impl Fn(usize) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(60);
        let wanted: BTreeSet<u64> = (0..end).collect();
        loop {
            let logs: Vec<Vec<u64>> = (0..self.nodes.len())
                .filter(|at| asked(*at))
                .map(|at| self.applied[at].lock().expect("nobody panics").clone())
                .collect();
            let complete = logs[0].iter().copied().collect::<BTreeSet<u64>>() == wanted;
            if complete && logs.iter().all(|log| *log == logs[0]) {
                return;
            }
            let lens: Vec<usize> = logs.iter().map(Vec::len).collect();
            assert!(Instant::now() < deadline, "not identical: {lens:?} entries, {end} wanted");
            thread::sleep(Duration::from_millis(20));
        }
    }
}

fn run(line: &str) {
    let mut words = line.split_whitespace();
    let status = Command::new(words.next().expect("a program")).args(words).status();
    assert!(status.expect("it runs").success(), "{line}");
}

#[test]
#[ignore = "needs soft-RoCE devices: make lab"]
fn a_leader_whose_link_goes_down_is_replaced_and_catches_up() {
    let group = Group::formed(3);
    group.propose(0..200, |_| true);
    let leader = group.wait_for_leader(|_| true);
    run(&format!("ip link set n{} down", leader + 1));
    let begun = Instant::now();
    let next = group.wait_for_leader(|at| at != leader);
    println!("lab: link down: node {} leads after {:?}", next + 1, begun.elapsed());
    group.propose(200..400, |at| at != leader);
    group.wait_until_identical(400, |at| at != leader);
    run(&format!("ip link set n{} up", leader + 1));
    let begun = Instant::now();
    group.wait_until_identical(400, |_| true);
    println!("lab: link up: node {} has caught up after {:?}", leader + 1, begun.elapsed());
    group.propose(400..450, |_| true);
    group.wait_until_identical(450, |_| true);
}

#[test]
#[ignore = "needs soft-RoCE devices: make lab"]
fn a_follower_whose_link_goes_down_holds_up_nobody() {
    let group = Group::formed(3);
    group.propose(0..100, |_| true);
    let leader = group.wait_for_leader(|_| true);
    let follower = (leader + 1) % 3;
    run(&format!("ip link set n{} down", follower + 1));
    group.propose(100..300, |at| at != follower);
    run(&format!("ip link set n{} up", follower + 1));
    group.wait_until_identical(300, |_| true);
    group.propose(300..350, |_| true);
    group.wait_until_identical(350, |_| true);
}

#[test]
#[ignore = "needs soft-RoCE devices: make lab"]
fn loss_and_delay_are_lived_with() {
    let group = Group::formed(3);
    for node in 1..=3 {
        run(&format!("tc qdisc add dev n{node} root netem loss 1% delay 1ms 500us"));
    }
    group.propose(0..300, |_| true);
    group.wait_until_identical(300, |_| true);
    for node in 1..=3 {
        run(&format!("tc qdisc del dev n{node} root"));
    }
    group.propose(300..350, |_| true);
    group.wait_until_identical(350, |_| true);
}

/// A connection takes both ends to want it, and who is in no group yet knows of nobody but whom its options name.
#[test]
#[ignore = "needs soft-RoCE devices: make lab"]
fn who_comes_later_is_let_in_by_a_leader_that_came_later_itself() {
    let group = Group::open(4, |_, options, _| options.founders = vec![1, 2]);
    group.nodes[0].form(Duration::from_secs(60)).expect("two form it");
    let limit = Duration::from_secs(60);
    let change = |change: &dyn Fn(u8) -> Change, node: u8| {
        let leader = group.wait_for_leader(|_| true);
        group.nodes[leader].change_members(&change(node), limit).expect("one that can be");
    };
    let add = |node| Change::Add { node, address: String::new() };
    let promote = |node| Change::Promote { node };
    change(&add, 3);
    change(&promote, 3);
    // A candidate may be late, and the leader goes on then.
    let deadline = Instant::now() + limit;
    while group.wait_for_leader(|_| true) != 2 {
        assert!(Instant::now() < deadline, "node 3 is not elected");
        let leader = group.wait_for_leader(|_| true);
        let _ = group.nodes[leader].transfer(3, Duration::from_secs(5));
    }
    change(&add, 4);
    change(&promote, 4);
    group.propose(0..50, |_| true);
    group.wait_until_identical(50, |_| true);
}

/// Clock ticks that this process has had of the processors.
fn ticks() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("a process");
    let fields: Vec<&str> = stat.rsplit_once(") ").expect("a name").1.split(' ').collect();
    fields[11].parse::<u64>().expect("a number") + fields[12].parse::<u64>().expect("a number")
}

#[test]
#[ignore = "needs soft-RoCE devices: make lab"]
fn followers_that_sleep_are_woken() {
    for notify in [Notify::Poll, Notify::Imm] {
        let mut group = Group::open(3, |_, options, _| options.notify = notify);
        group.nodes[0].form(Duration::from_secs(60)).expect("the group forms");
        let begun = Instant::now();
        group.propose(0..300, |_| true);
        group.wait_until_identical(300, |_| true);
        let took = begun.elapsed();
        let before = ticks();
        thread::sleep(Duration::from_secs(3));
        println!(
            "lab: notify {notify:?}: 300 entries in {took:?}; idle for 3 s: {} ticks of 10 ms",
            ticks() - before
        );
        // More than the receives that are posted: they are filled up again.
        let leader = group.wait_for_leader(|_| true);
        let mut handle = group.nodes[leader].handle();
        let (mut sent, mut committed) = (0u64, 0u64);
        let deadline = Instant::now() + Duration::from_secs(120);
        while committed < 6000 && Instant::now() < deadline {
            while sent < 6000 && handle.propose(&(300 + sent).to_le_bytes()).is_ok() {
                sent += 1;
            }
            while let Some((_, outcome)) = handle.poll() {
                committed += u64::from(matches!(outcome, Outcome::Committed { .. }));
                assert!(matches!(outcome, Outcome::Committed { .. }), "{outcome:?}");
            }
            thread::sleep(Duration::from_micros(200));
        }
        group.wait_until_identical(6300, |_| true);
        // The leader goes: those who sleep notice, and one of them leads.
        drop(handle);
        drop(group.nodes.remove(leader));
        group.applied.remove(leader);
        group.propose(6300..6350, |_| true);
        group.wait_until_identical(6350, |_| true);
    }
}

#[test]
#[ignore = "needs soft-RoCE devices: make lab"]
fn a_wrong_key_or_geometry_keeps_a_node_out() {
    let wrong_key = Group::open(3, |id, _, verbs| {
        if id == 3 {
            verbs.key = Key::from_bytes([8; 32]);
        }
    });
    assert_eq!(wrong_key.nodes[0].form(Duration::from_secs(3)), Err(FormError::Timeout));
    drop(wrong_key);
    let wrong_ring = Group::open(3, |id, options, _| {
        if id == 3 {
            options.ring_len = 2 << 20;
        }
    });
    assert_eq!(wrong_ring.nodes[0].form(Duration::from_secs(3)), Err(FormError::Timeout));
}

/// What the state machine of this test does is its own affair: its list has room for all.
#[test]
#[ignore = "needs soft-RoCE devices: make lab"]
fn nothing_is_allocated_while_agents_commit() {
    let group = Group::formed(3);
    for applied in &group.applied {
        applied.lock().expect("nobody panics").reserve(100_000);
    }
    group.propose(0..20, |_| true);
    let leader = group.wait_for_leader(|_| true);
    let mut handle = group.nodes[leader].handle();
    let mut next = 20u64;
    let mut commit = |count: u64| {
        let (mut sent, mut committed) = (0, 0);
        let deadline = Instant::now() + Duration::from_secs(120);
        while committed < count {
            while sent < count && sent - committed < 50 && handle.propose(&next.to_le_bytes()).is_ok() {
                (sent, next) = (sent + 1, next + 1);
            }
            let Some((_, outcome)) = handle.wait(Duration::from_secs(20)) else { continue };
            assert!(matches!(outcome, Outcome::Committed { .. }), "{outcome:?}");
            committed += 1;
            assert!(Instant::now() < deadline, "{committed} of {count} are committed");
        }
    };
    commit(500);
    let before = allocations_of_agents();
    assert!(before > 0, "they are counted");
    commit(1500);
    assert_eq!(allocations_of_agents() - before, 0);
    group.wait_until_identical(next, |_| true);
}

/// Run with `RINGLEADER_TEST_DEVICE_FATAL=1:5000`.
#[test]
#[ignore = "needs soft-RoCE devices and a variable: make lab"]
fn a_node_whose_device_breaks_ends_and_says_so() {
    assert!(std::env::var_os("RINGLEADER_TEST_DEVICE_FATAL").is_some(), "see above");
    let mut group = Group::formed(3);
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut number = 0;
    while !group.nodes[0].status().closed {
        group.propose(number..number + 1, |at| !group.nodes[at].status().closed);
        number += 1;
        assert!(Instant::now() < deadline, "the node goes on");
    }
    group.propose(number..number + 100, |at| at != 0);
    group.wait_until_identical(number + 100, |at| at != 0);
    let broken = group.nodes.remove(0);
    assert!(matches!(broken.close(), Err(CloseError::DeviceLost)));
}
