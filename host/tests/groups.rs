//! Many groups on one agent thread: each lives, ends and breaks by itself.

use std::panic;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use ringleader::config::Notify;
use ringleader::{
    AgentOptions, AgentThread, CloseError, Entry, MAX_GROUPS, Node, OpenError, Options, Outcome, Role,
    SubmitError,
};

const PATIENCE: Duration = Duration::from_secs(20);

type Applied = Arc<Mutex<Vec<Vec<u8>>>>;

/// One group: three nodes, and what each of them applied.
struct Group {
    nodes: Vec<Node>,
    applied: Vec<Applied>,
}

/// Three agent threads, as of three processes, and groups with a member on each.
struct Cluster {
    agents: Vec<AgentThread>,
    groups: Vec<Group>,
    _dir: tempfile::TempDir,
}

fn directory() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("ringleader-test-").tempdir_in("/dev/shm").unwrap()
}

fn options(dir: &Path, group: usize, node: u8) -> Options {
    let mut options = Options::new(dir.join(format!("group-{group}")), node, [1, 2, 3]);
    options.ring_len = 512 << 10;
    options
}

/// Waits until something is so.
fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "{what}");
        thread::sleep(Duration::from_millis(1));
    }
}

impl Cluster {
    /// `machine` may do something beside with what is applied, given the group and the node.
    fn form(
        count: usize,
        change: impl Fn(&mut Options),
        machine: impl Fn(usize, u8, &[u8]) + Clone + Send + 'static,
    ) -> Cluster {
        let dir = directory();
        let agents: Vec<AgentThread> =
            (0..3).map(|_| AgentThread::start(&AgentOptions::default()).unwrap()).collect();
        let groups = (0..count).map(|group| {
            let applied: Vec<Applied> = (0..3).map(|_| Applied::default()).collect();
            let open = |node: u8| {
                let mut options = options(dir.path(), group, node);
                change(&mut options);
                let (applied, machine) = (Arc::clone(&applied[usize::from(node) - 1]), machine.clone());
                let machine = move |entry: Entry<'_>| {
                    machine(group, node, entry.payload);
                    applied.lock().unwrap().push(entry.payload.to_vec());
                };
                Node::open_on(&agents[usize::from(node) - 1], options, machine).unwrap()
            };
            let nodes: Vec<Node> = (1..=3).map(open).collect();
            nodes[group % 3].form(PATIENCE).unwrap();
            Group { nodes, applied }
        });
        let groups = groups.collect();
        Cluster { agents, groups, _dir: dir }
    }
}

impl Group {
    fn leader(&self) -> usize {
        until("a node leads", || self.nodes.iter().position(|node| node.status().role == Role::Leader))
    }

    /// Makes the node at that place lead.
    fn be_led_by(&self, at: usize) {
        until("the lead is handed over", || {
            let leader = self.leader();
            // It may not be ready yet, or an election come in between.
            let done = leader == at || self.nodes[leader].transfer(at as u8 + 1, PATIENCE).is_ok();
            (done && self.nodes[at].status().role == Role::Leader).then_some(())
        });
    }

    /// Commits so many payloads, whoever leads; payloads of unknown outcome are no matter here.
    fn commit(&self, payload: &[u8], count: usize) {
        let mut committed = 0;
        let deadline = Instant::now() + PATIENCE;
        while committed < count {
            assert!(Instant::now() < deadline, "commits in time");
            let leads = |node: &&Node| node.status().role == Role::Leader;
            let Some(mut handle) = self.nodes.iter().find(leads).map(Node::handle) else { continue };
            while committed < count && handle.propose(payload).is_ok() {
                match handle.wait(PATIENCE) {
                    Some((_, Outcome::Committed { .. })) => committed += 1,
                    _ => break,
                }
            }
        }
    }

    /// Waits until so many of these payloads were applied on all nodes that are left.
    fn applied_at_least(&self, payload: &[u8], count: usize) {
        let of = |applied: &Applied| applied.lock().unwrap().iter().filter(|of| *of == payload).count();
        until("all apply", || self.applied.iter().all(|applied| of(applied) >= count).then_some(()));
    }
}

/// Without panics of the machine in the test's output, which are meant.
fn quietly() {
    let hook = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        if info.payload().downcast_ref::<&str>() != Some(&"the machine breaks") {
            hook(info);
        }
    }));
}

#[test]
fn a_leader_here_is_a_follower_there() {
    let cluster = Cluster::form(6, |_| {}, |_, _, _| {});
    for (at, group) in cluster.groups.iter().enumerate() {
        group.be_led_by(at % 3);
    }
    for (at, group) in cluster.groups.iter().enumerate() {
        let payload = [at as u8; 100];
        group.commit(&payload, 100);
        group.applied_at_least(&payload, 100);
        let others = |of: &Vec<u8>| of[..] != payload;
        assert!(!group.applied.iter().any(|applied| applied.lock().unwrap().iter().any(others)));
    }
    for at in 0..3 {
        let is = |role| cluster.groups.iter().any(|group| group.nodes[at].status().role == role);
        until("a thread leads here and follows there", || {
            (is(Role::Leader) && is(Role::Follower)).then_some(())
        });
    }
    assert!(cluster.agents.iter().all(|agent| agent.groups() == 6));
}

#[test]
fn one_group_closes_and_the_others_go_on() {
    let mut cluster = Cluster::form(3, |_| {}, |_, _, _| {});
    let closing = cluster.groups.remove(1);
    let mut handle = closing.nodes[closing.leader()].handle();
    for node in closing.nodes {
        node.close().unwrap();
    }
    assert!(handle.propose(b"late").is_err_and(|error| error == SubmitError::Closed));
    assert!(cluster.agents.iter().all(|agent| agent.groups() == 2));
    for group in &cluster.groups {
        group.commit(b"on", 50);
        group.applied_at_least(b"on", 50);
    }
    // All of the rest at once, on one thread: the nodes tell how it went when they are asked.
    cluster.agents[0].close_all();
    assert_eq!(cluster.agents[0].groups(), 0);
    for group in &mut cluster.groups {
        let node = group.nodes.remove(0);
        group.applied.remove(0);
        assert!(node.status().closed);
        node.close().unwrap();
        group.commit(b"two", 10);
        group.applied_at_least(b"two", 10);
    }
    // And it takes new ones.
    let dir = directory();
    let node = Node::open_on(&cluster.agents[0], options(dir.path(), 9, 1), |_: Entry<'_>| {}).unwrap();
    assert_eq!(cluster.agents[0].groups(), 1);
    node.close().unwrap();
}

#[test]
fn a_machine_that_panics_ends_its_own_node_alone() {
    quietly();
    // The first group's machine breaks on node 1.
    let mut cluster = Cluster::form(
        2,
        |_| {},
        |group, node, payload| {
            if group == 0 && node == 1 && payload == b"break" {
                panic!("the machine breaks");
            }
        },
    );
    cluster.groups[0].be_led_by(1);
    cluster.groups[0].commit(b"break", 1);
    until("it ends", || cluster.groups[0].nodes[0].status().closed.then_some(()));
    let broken = cluster.groups[0].nodes.remove(0);
    cluster.groups[0].applied.remove(0);
    for group in &cluster.groups {
        group.commit(b"on", 50);
        group.applied_at_least(b"on", 50);
    }
    assert!(matches!(broken.close(), Err(CloseError::Panicked)));
    assert_eq!(cluster.agents[0].groups(), 1);
    for group in cluster.groups {
        for node in group.nodes {
            node.close().unwrap();
        }
    }
}

#[test]
fn threads_that_sleep_are_woken_by_any_of_their_groups() {
    let cluster = Cluster::form(4, |options| options.notify = Notify::Imm, |_, _, _| {});
    // The second and the third thread lead nothing, and may sleep.
    for group in &cluster.groups {
        group.be_led_by(0);
    }
    for group in cluster.groups.iter().rev() {
        group.commit(b"wake", 200);
        group.applied_at_least(b"wake", 200);
    }
}

#[test]
fn sixty_four_groups_find_room_and_no_more() {
    let dir = directory();
    let agent = AgentThread::start(&AgentOptions::default()).unwrap();
    let open = |group: usize| {
        let mut options = options(dir.path(), group, 1);
        options.members = vec![1];
        Node::open_on(&agent, options, |_: Entry<'_>| {})
    };
    let mut nodes: Vec<Node> = (0..MAX_GROUPS).map(|group| open(group).unwrap()).collect();
    let refused = open(MAX_GROUPS).unwrap_err();
    assert!(matches!(refused, OpenError::Room { groups: MAX_GROUPS }), "{refused}");
    assert!(refused.to_string().contains("64 groups"), "{refused}");
    assert!(!dir.path().join("group-64").exists(), "nothing is left behind");
    // All of them live: groups of one node each.
    nodes.iter().for_each(|node| node.form(PATIENCE).unwrap());
    let mut handles: Vec<_> = nodes
        .iter()
        .map(|node| {
            until("it leads", || (node.status().role == Role::Leader).then_some(()));
            node.handle()
        })
        .collect();
    for handle in &mut handles {
        handle.propose(b"to each").unwrap();
    }
    for handle in &mut handles {
        let (_, outcome) = handle.wait(PATIENCE).expect("an outcome in time");
        assert!(matches!(outcome, Outcome::Committed { .. }), "{outcome:?}");
    }
    nodes.swap_remove(17).close().unwrap();
    let again = open(MAX_GROUPS).unwrap();
    assert_eq!((agent.groups(), agent.room()), (MAX_GROUPS, MAX_GROUPS));
    again.close().unwrap();
}

#[test]
fn a_thread_is_what_it_was_started_as() {
    for groups in [0, MAX_GROUPS + 1] {
        let mut options = AgentOptions::default();
        options.groups = groups;
        let refused = AgentThread::start(&options).unwrap_err().to_string();
        assert!(refused.contains(&groups.to_string()) && refused.contains("1 to 64"), "{refused}");
    }
    let dir = directory();
    let agent = AgentThread::start(&AgentOptions::default()).unwrap();
    let mut pinned = options(dir.path(), 0, 1);
    pinned.pin = Some(0);
    let refused = Node::open_on(&agent, pinned, |_: Entry<'_>| {}).unwrap_err().to_string();
    assert!(refused.contains("processor 0") && refused.contains("not pinned"), "{refused}");
    assert_eq!(agent.groups(), 0);
    let node = Node::open(options(dir.path(), 0, 1), |_: Entry<'_>| {}).unwrap();
    let refused = Node::open_on(node.agent(), options(dir.path(), 1, 1), |_: Entry<'_>| {}).unwrap_err();
    assert!(matches!(refused, OpenError::Room { groups: 1 }), "{refused}");
}
