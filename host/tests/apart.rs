//! Nodes whose host and acceptor are apart, over the shared-memory fabric: all in this process, each half with a thread of its own.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use ringleader::{
    Acceptor, Change, CloseError, Entry, Event, Half, Node, OpenError, Options, Outcome, Read, ReadOutcome,
    Role, StateMachine,
};

const PATIENCE: Duration = Duration::from_secs(30);

type Applied = Arc<Mutex<Vec<Vec<u8>>>>;

fn options(dir: &Path, node: u8, half: Half) -> Options {
    let mut options = Options::new(dir, node, [1, 2, 3]);
    options.ring_len = 512 << 10;
    options.half = half;
    options.snapshot_len = Some(0);
    options
}

/// A node, or the host of one.
struct Host {
    node: Node,
    applied: Applied,
}

impl Host {
    fn open(dir: &Path, node: u8, half: Half) -> Host {
        let applied = Applied::default();
        let machine = {
            let applied = Arc::clone(&applied);
            move |entry: Entry<'_>| applied.lock().unwrap().push(entry.payload.to_vec())
        };
        Host { node: Node::open(options(dir, node, half), machine).unwrap(), applied }
    }

    fn applied(&self) -> Vec<Vec<u8>> {
        self.applied.lock().unwrap().clone()
    }
}

struct Group {
    acceptors: Vec<Option<Acceptor>>,
    hosts: Vec<Option<Host>>,
    dir: tempfile::TempDir,
    /// Every payload that was acknowledged.
    acked: Vec<Vec<u8>>,
    proposed: u32,
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

impl Group {
    /// Three nodes, of which the first `whole` are not apart.
    fn form(whole: u8) -> Group {
        let dir = tempfile::Builder::new().prefix("ringleader-test-").tempdir_in("/dev/shm").unwrap();
        let acceptor = |node| Acceptor::open(options(dir.path(), node, Half::Acceptor)).unwrap();
        let acceptors = (1..=3).map(|node| (node > whole).then(|| acceptor(node))).collect();
        let half = |node| if node > whole { Half::Proposer } else { Half::Whole };
        let hosts = (1..=3).map(|node| Some(Host::open(dir.path(), node, half(node)))).collect();
        let group = Group { acceptors, hosts, dir, acked: Vec::new(), proposed: 0 };
        group.host(3).node.form(PATIENCE).unwrap();
        group
    }

    fn host(&self, node: u8) -> &Host {
        self.hosts[usize::from(node) - 1].as_ref().unwrap()
    }

    fn acceptor(&self, node: u8) -> &Acceptor {
        self.acceptors[usize::from(node) - 1].as_ref().unwrap()
    }

    fn leader(&self) -> Option<u8> {
        let mut hosts = self.hosts.iter().flatten();
        hosts.find(|host| host.node.status().role == Role::Leader).map(|host| host.node.options().node)
    }

    /// Has so many payloads acknowledged, by whoever leads.
    fn commit(&mut self, count: u32) {
        for _ in 0..count {
            self.proposed += 1;
            let payload = self.proposed.to_le_bytes().to_vec();
            let deadline = Instant::now() + PATIENCE;
            loop {
                assert!(Instant::now() < deadline, "a payload is acknowledged");
                let leader = until("a node leads", || self.leader());
                let mut handle = self.host(leader).node.handle();
                if handle.propose(&payload).is_ok()
                    && let Some((_, Outcome::Committed { .. })) = handle.wait(PATIENCE)
                {
                    break;
                }
            }
            self.acked.push(payload);
        }
    }

    /// Every application that runs has what was acknowledged, in that order. (A payload may be there twice: its first proposal was
    /// given up as unknown.)
    fn settle(&self) {
        for host in self.hosts.iter().flatten() {
            let node = host.node.options().node;
            until(&format!("node {node} applies all"), || {
                let mut applied = host.applied();
                applied.dedup();
                (applied == self.acked).then_some(())
            });
        }
    }
}

#[test]
fn a_group_of_hosts_and_acceptors_commits_and_applies() {
    let mut group = Group::form(0);
    group.commit(200);
    group.settle();
    for node in 1..=3 {
        let (host, acceptor) = (group.host(node).node.status(), group.acceptor(node).status());
        assert_eq!(host.group, acceptor.group);
        assert_ne!(acceptor.role, Role::Leader, "an acceptor leads nothing");
        assert_eq!(host.leader, group.leader());
    }
    let leader = group.leader().unwrap();
    for (node, how) in [(leader, Read::Quorum), (leader % 3 + 1, Read::Follower)] {
        let outcome = group.host(node).node.reader().read(how, PATIENCE);
        assert!(matches!(outcome, Some(ReadOutcome::Ready { .. })), "{how:?} on node {node}: {outcome:?}");
    }
}

#[test]
fn nodes_that_are_whole_and_nodes_that_are_not_make_one_group() {
    let mut group = Group::form(2);
    group.commit(50);
    for node in [1, 2, 3] {
        let leader = until("a node leads", || group.leader());
        if leader != node {
            // It may be refused while a leader has only begun; then the next round of the loop below sees who leads.
            let _ = group.host(leader).node.transfer(node, PATIENCE);
        }
        group.commit(20);
    }
    group.settle();
}

#[test]
fn a_host_that_leads_ends_and_its_acceptor_votes_on() {
    let mut group = Group::form(0);
    group.commit(50);
    let former = group.leader().unwrap();
    let host = group.hosts[usize::from(former) - 1].take().unwrap();
    host.node.close().unwrap();
    group.commit(50);
    let next = group.leader().unwrap();
    assert_ne!(next, former);
    // Of the two other acceptors one ends, too: what goes on now goes on with that of the host that is gone.
    let third = (1..=3).find(|node| ![former, next].contains(node)).unwrap();
    group.hosts[usize::from(third) - 1].take().unwrap().node.close().unwrap();
    group.acceptors[usize::from(third) - 1].take().unwrap().close().unwrap();
    group.commit(50);
    // And its host comes back, to what its acceptor has kept for it.
    let incarnation = group.acceptor(former).incarnation();
    group.hosts[usize::from(former) - 1] = Some(Host::open(group.dir.path(), former, Half::Proposer));
    group.commit(10);
    group.settle();
    assert_eq!(group.acceptor(former).incarnation(), incarnation, "the acceptor never ended");
}

#[test]
fn a_host_ends_when_its_acceptor_comes_back_without_its_memory() {
    let mut group = Group::form(0);
    group.commit(20);
    let leader = group.leader().unwrap();
    let node = leader % 3 + 1;
    group.acceptors[usize::from(node) - 1].take().unwrap().close().unwrap();
    let again = Acceptor::open(options(group.dir.path(), node, Half::Acceptor)).unwrap();
    let host = group.hosts[usize::from(node) - 1].take().unwrap();
    until("the host ends", || host.node.status().closed.then_some(()));
    assert!(matches!(host.node.close(), Err(CloseError::Orphaned)));
    group.acceptors[usize::from(node) - 1] = Some(again);
    group.hosts[usize::from(node) - 1] = Some(Host::open(group.dir.path(), node, Half::Proposer));
    // Kept out until an operator lets it in.
    group.commit(20);
    until("it is let in", || {
        let leader = group.host(group.leader()?);
        leader.node.change_members(&Change::Readmit { node }, PATIENCE).ok()
    });
    group.commit(20);
    group.settle();
}

#[test]
fn two_hosts_of_one_node_do_not_run_at_once_and_wrong_halves_are_named() {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let host = Host::open(dir.path(), 1, Half::Proposer);
    let machine = |_: Entry<'_>| {};
    let error = Node::open(options(dir.path(), 1, Half::Proposer), machine).unwrap_err().to_string();
    assert!(error.contains("node-1.host") && error.contains("in use"), "{error}");
    let error = Node::open(options(dir.path(), 2, Half::Acceptor), machine).unwrap_err();
    assert!(matches!(&error, OpenError::Option(what) if what.contains("Acceptor::open")), "{error}");
    host.node.close().unwrap();
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "nothing is left behind");
}

/// In a group without snapshots: what it needs was written over in its acceptor's ring. It says so, and stands for nothing.
#[test]
fn a_host_that_was_away_for_longer_than_the_ring_says_so() {
    let mut group = Group::form(0);
    group.commit(5);
    let leader = group.leader().unwrap();
    let node = leader % 3 + 1;
    // More than two laps of the ring, which all hosts apply.
    let handed = |group: &Group, count: usize| {
        until("all are applied", || (group.host(node).applied().len() >= count).then_some(()));
    };
    for _ in 0..40 {
        let mut handle = group.host(group.leader().unwrap()).node.handle();
        handle.propose(&[7; 30_000]).unwrap();
        handle.wait(PATIENCE).unwrap();
    }
    handed(&group, 40);
    group.hosts[usize::from(node) - 1].take().unwrap().node.close().unwrap();
    let host = Host::open(group.dir.path(), node, Half::Proposer);
    until("it is stuck", || {
        let event = host.node.next_event()?.event;
        matches!(event, Event::Stuck { .. }).then_some(())
    });
    assert!(host.applied().is_empty());
    // The others go on, with its acceptor.
    group.commit(20);
}

/// Keeps the first bytes of what it is handed, in a list that it saves and loads.
struct List(Applied);

impl StateMachine for List {
    fn apply(&mut self, entry: Entry<'_>) {
        self.0.lock().unwrap().push(entry.payload[..4].to_vec());
    }

    fn save(&mut self, out: &mut dyn io::Write) -> io::Result<()> {
        out.write_all(&self.0.lock().unwrap().concat())
    }

    fn load(&mut self, state: &[u8]) -> io::Result<()> {
        *self.0.lock().unwrap() = state.chunks(4).map(<[u8]>::to_vec).collect();
        Ok(())
    }
}

/// Over rings that are recycled many times: a host that comes back with nothing takes what its node needs from another's, and one whose
/// acceptor fell behind, too.
#[test]
fn a_host_that_comes_back_empty_takes_a_snapshot() {
    let dir = tempfile::Builder::new().prefix("ringleader-test-").tempdir_in("/dev/shm").unwrap();
    let options = |node, half| {
        let mut options = options(dir.path(), node, half);
        options.snapshot_len = Some(1 << 20);
        options
    };
    let _acceptors: Vec<Acceptor> =
        (1..=3).map(|node| Acceptor::open(options(node, Half::Acceptor)).unwrap()).collect();
    let open = |node: u8| {
        let applied = Applied::default();
        let node = Node::open(options(node, Half::Proposer), List(Arc::clone(&applied))).unwrap();
        Host { node, applied }
    };
    let mut hosts: Vec<Option<Host>> = (1..=3).map(|node| Some(open(node))).collect();
    hosts[0].as_ref().unwrap().node.form(PATIENCE).unwrap();
    let mut count = 0_u32;
    let mut commit = |hosts: &[Option<Host>], more: u32| {
        for _ in 0..more {
            until("an entry is committed", || {
                let mut led = hosts.iter().flatten().filter(|host| host.node.status().role == Role::Leader);
                let mut handle = led.next()?.node.handle();
                let mut payload = vec![7; 20_000];
                payload[..4].copy_from_slice(&count.to_le_bytes());
                handle.propose(&payload).ok()?;
                // One whose outcome nobody knows is proposed again, and the list may have it twice.
                matches!(handle.wait(PATIENCE), Some((_, Outcome::Committed { .. }))).then_some(())
            });
            count += 1;
        }
    };
    commit(&hosts, 60);
    for away in 0..3 {
        // The one that leads among them.
        hosts[away].take().unwrap().node.close().unwrap();
        commit(&hosts, 60);
        hosts[away] = Some(open(away as u8 + 1));
        until("it has what the others have", || {
            let one = hosts[away].as_ref()?.applied();
            let other = hosts[(away + 1) % 3].as_ref()?.applied();
            (one.len() >= 60 * (away + 2) && one == other).then_some(())
        });
        commit(&hosts, 10);
    }
}
