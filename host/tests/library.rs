//! Nodes as an application embeds them: three in one process, over the shared-memory fabric.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use ringleader::config::Notify;
use ringleader::{
    Entry, Event, GiveUp, Handle, LeaseReads, MeasureError, Node, OpenError, Options, Outcome, Read,
    ReadOutcome, Role, SubmitError, Ticket, TransferError,
};

const PATIENCE: Duration = Duration::from_secs(20);

type Applied = Arc<Mutex<Vec<(u64, Vec<u8>)>>>;

fn options(dir: &Path, node: u8) -> Options {
    let mut options = Options::new(dir, node, [1, 2, 3]);
    options.ring_len = 512 << 10;
    options
}

fn open(dir: &Path, node: u8) -> (Node, Applied) {
    open_with(options(dir, node))
}

fn open_with(options: Options) -> (Node, Applied) {
    let applied = Applied::default();
    let machine = {
        let applied = Arc::clone(&applied);
        move |entry: Entry<'_>| applied.lock().unwrap().push((entry.index.0, entry.payload.to_vec()))
    };
    (Node::open(options, machine).unwrap(), applied)
}

struct Group {
    nodes: Vec<Node>,
    applied: Vec<Applied>,
    _dir: tempfile::TempDir,
}

/// A directory in memory, as an application would choose.
fn directory() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("ringleader-test-").tempdir_in("/dev/shm").unwrap()
}

fn form() -> Group {
    let dir = directory();
    let (nodes, applied): (Vec<_>, Vec<_>) = (1..=3).map(|node| open(dir.path(), node)).unzip();
    nodes[0].form(PATIENCE).unwrap();
    Group { nodes, applied, _dir: dir }
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
    /// Which node leads, by its place.
    fn leader(&self) -> usize {
        until("a node leads", || self.nodes.iter().position(|node| node.status().role == Role::Leader))
    }
}

/// Proposes until it is committed; the index.
fn commit(handle: &mut Handle, payload: &[u8]) -> Option<u64> {
    handle.propose(payload).unwrap();
    match handle.wait(PATIENCE).expect("an outcome in time") {
        (_, Outcome::Committed { index }) => Some(index),
        _ => None,
    }
}

#[test]
fn nodes_that_sleep_are_woken_by_what_is_written() {
    let dir = directory();
    let sleeper = |node| {
        let mut options = options(dir.path(), node);
        options.notify = Notify::Imm;
        open_with(options)
    };
    let (nodes, applied): (Vec<_>, Vec<_>) = (1..=3).map(sleeper).unzip();
    nodes[0].form(PATIENCE).unwrap();
    let mut group = Group { nodes, applied, _dir: dir };
    for round in 0..2u8 {
        let leader = group.leader();
        let mut handle = group.nodes[leader].handle();
        let mut committed = 0;
        while committed < 200 {
            committed += usize::from(commit(&mut handle, &[round]).is_some());
        }
        let count = |applied: &Applied| applied.lock().unwrap().iter().filter(|(_, b)| b == &[round]).count();
        until("all apply", || group.applied.iter().all(|applied| count(applied) >= 200).then_some(()));
        // Those who sleep notice that the leader is gone, too.
        drop(handle);
        if round == 0 {
            group.nodes.remove(leader).close().unwrap();
            group.applied.remove(leader);
        }
    }
}

#[test]
fn three_nodes_form_a_group_and_apply_the_same() {
    let group = form();
    let leader = group.leader();
    let mut handle = group.nodes[leader].handle();
    let payloads: Vec<Vec<u8>> = (0..2000_u32).map(|i| i.to_le_bytes().repeat(i as usize % 50)).collect();
    let mut outcomes = Vec::new();
    for payload in &payloads {
        while handle.propose(payload) == Err(SubmitError::Full) {
            outcomes.extend(handle.poll());
        }
    }
    while outcomes.len() < payloads.len() {
        outcomes.push(handle.wait(PATIENCE).expect("an outcome in time"));
    }
    let mut indexes = Vec::new();
    for (i, (ticket, outcome)) in outcomes.into_iter().enumerate() {
        assert_eq!(ticket, Ticket(i as u64));
        let Outcome::Committed { index } = outcome else { panic!("{ticket:?} ended {outcome:?}") };
        indexes.push(index);
    }
    let expected: Vec<(u64, Vec<u8>)> = indexes.into_iter().zip(payloads).collect();
    for applied in &group.applied {
        until("all is applied", || (applied.lock().unwrap().len() == expected.len()).then_some(()));
        assert!(*applied.lock().unwrap() == expected);
    }
    let status = group.nodes[leader].status();
    assert_eq!(status.leader, Some(leader as u8 + 1));
    assert_eq!(status.followers.len(), 2);
    assert_eq!(status.commit_index, expected.last().unwrap().0);
    let events: Vec<_> = std::iter::from_fn(|| group.nodes[leader].next_event()).collect();
    assert!(events.iter().any(|event| matches!(event.event, Event::Elected { .. })));
    assert!(events.is_sorted_by_key(|event| event.at_ns));
    for node in group.nodes {
        node.close().unwrap();
    }
}

#[test]
fn handles_of_several_threads_share_one_log() {
    const EACH: u64 = 500;
    let group = form();
    let leader = group.leader();
    let ended: Vec<Vec<u64>> = thread::scope(|scope| {
        let threads: Vec<_> = (0..3_u64)
            .map(|client| {
                let mut handle = group.nodes[leader].handle();
                scope.spawn(move || {
                    (0..EACH)
                        .map(|number| {
                            let payload = [client.to_le_bytes(), number.to_le_bytes()].concat();
                            commit(&mut handle, &payload).expect("nobody disturbs the leader")
                        })
                        .collect()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(ended.iter().all(|indexes| indexes.is_sorted_by(|a, b| a < b)));
    for applied in &group.applied {
        until("all is applied", || (applied.lock().unwrap().len() == 3 * EACH as usize).then_some(()));
        let applied = applied.lock().unwrap();
        for client in 0..3_u64 {
            let own: Vec<u64> = applied
                .iter()
                .filter(|(_, payload)| payload[..8] == client.to_le_bytes())
                .map(|(index, _)| *index)
                .collect();
            assert_eq!(own, ended[client as usize]);
        }
    }
}

#[test]
fn who_does_not_lead_names_who_does() {
    let group = form();
    let leader = group.leader();
    let follower = (leader + 1) % 3;
    until("the follower knows", || group.nodes[follower].status().leader);
    let mut handle = group.nodes[follower].handle();
    handle.propose(b"here?").unwrap();
    let (_, outcome) = handle.wait(PATIENCE).unwrap();
    assert_eq!(outcome, Outcome::NotLeader { leader: Some(leader as u8 + 1) });
    assert_eq!(group.nodes[follower].measure(10, 8).unwrap_err(), MeasureError::NotLeader);
}

#[test]
fn a_closed_leader_is_succeeded_and_its_handles_end() {
    let mut group = form();
    let leader = group.leader();
    let mut handle = group.nodes[leader].handle();
    commit(&mut handle, b"before").unwrap();
    for _ in 0..100 {
        handle.propose(b"perhaps").unwrap();
    }
    group.nodes.remove(leader).close().unwrap();
    let mut seen_other = false;
    while let Some((_, outcome)) = handle.wait(PATIENCE) {
        let committed = matches!(outcome, Outcome::Committed { .. });
        assert!(!(committed && seen_other), "no commit behind a gap");
        seen_other |= !committed;
    }
    assert_eq!(handle.outstanding(), 0);
    assert_eq!(handle.propose(b"after"), Err(SubmitError::Closed));
    let next = group.leader();
    until("the next leader commits", || commit(&mut group.nodes[next].handle(), b"after"));
    group.applied.remove(leader);
    until("both apply the same", || {
        let (one, other) = (group.applied[0].lock().unwrap(), group.applied[1].lock().unwrap());
        (one.last().is_some_and(|(_, payload)| payload == b"after") && *one == *other).then_some(())
    });
}

#[test]
fn a_measurement_gives_as_many_samples_as_asked_for() {
    let group = form();
    let leader = group.leader();
    let measurement = group.nodes[leader].measure(1000, 64).unwrap();
    assert_eq!(measurement.commit_ns.len(), 1000);
    assert_eq!(measurement.floor_ns.len(), 1000);
    eprintln!(
        "commit p50 {} ns, floor p50 {} ns",
        measurement.commit_ns.value_at_quantile(0.5),
        measurement.floor_ns.value_at_quantile(0.5)
    );
    assert!(matches!(group.nodes[leader].measure(1, 1 << 20), Err(MeasureError::TooLarge { .. })));
    assert!(commit(&mut group.nodes[leader].handle(), b"after").is_some());
}

#[test]
fn what_cannot_be_is_refused_by_name_and_leaves_nothing() {
    let dir = directory();
    let file = |node: u8| dir.path().join(format!("node-{node}.region"));
    let refused = |options: Options| Node::open(options, |_: Entry<'_>| {}).unwrap_err().to_string();
    let mut odd = options(dir.path(), 1);
    odd.ring_len = 700_000;
    assert!(refused(odd).contains("700000"));
    let mut pinned = options(dir.path(), 1);
    pinned.pin = Some(99_999);
    assert!(refused(pinned).contains("99999"));
    assert!(!file(1).exists());

    let (node, _) = open(dir.path(), 2);
    let again = Node::open(options(dir.path(), 2), |_: Entry<'_>| {}).unwrap_err();
    assert!(matches!(again, OpenError::Region(_)), "{again}");
    let mut handle = node.handle();
    let max = handle.max_payload();
    assert_eq!(handle.propose(&vec![0; max + 1]), Err(SubmitError::TooLarge { max }));
    node.close().unwrap();
    assert!(!file(2).exists());

    let mut kept = options(dir.path(), 3);
    kept.keep_region = true;
    Node::open(kept, |_: Entry<'_>| {}).unwrap().close().unwrap();
    assert!(file(3).exists());
}

/// A process never adopts the region of a former one: a node that comes back has lost its memory, and is no member.
#[test]
fn a_node_that_comes_back_without_its_memory_is_kept_out() {
    let mut group = form();
    let leader = group.leader();
    let lost = (leader + 1) % 3;
    group.nodes.remove(lost).close().unwrap();
    group.applied.remove(lost);
    let (back, applied) = open(group._dir.path(), lost as u8 + 1);
    let node = ringleader_core::types::NodeId(lost as u8 + 1);
    until("the others notice", || {
        let told = |other: &Node| {
            std::iter::from_fn(|| other.next_event()).any(|event| event.event == Event::Forgetful { node })
        };
        group.nodes.iter().any(told).then_some(())
    });
    until("a commit by the two that are left", || {
        let leader = group.nodes.iter().find(|node| node.status().role == Role::Leader)?;
        commit(&mut leader.handle(), b"without it")
    });
    let status = back.status();
    assert!(!status.formed && status.role == Role::Follower, "{status:?}");
    assert!(applied.lock().unwrap().is_empty());
}

#[test]
fn reads_see_all_that_was_committed_before_on_every_node_that_can_read_like_that() {
    let dir = directory();
    let with_leases = |node| {
        let mut options = options(dir.path(), node);
        options.lease_reads = Some(LeaseReads { clocks_drift_below_ppm: 1000 });
        open_with(options)
    };
    let (nodes, applied): (Vec<_>, Vec<_>) = (1..=3).map(with_leases).unzip();
    let group = Group { nodes, applied, _dir: dir };
    assert_eq!(
        group.nodes[1].reader().read(Read::Follower, PATIENCE),
        Some(ReadOutcome::NotFormed),
        "before there is a group"
    );
    group.nodes[0].form(PATIENCE).unwrap();
    let mut readers: Vec<_> = group.nodes.iter().map(Node::reader).collect();
    let mut seen = [0; 3];
    for round in 0..200_u64 {
        let leader = group.leader();
        let mut handle = group.nodes[leader].handle();
        let Some(index) = commit(&mut handle, &round.to_le_bytes()) else { continue };
        for (node, reader) in readers.iter_mut().enumerate() {
            for (at, how) in Read::ALL.into_iter().enumerate() {
                match reader.read(how, PATIENCE).expect("every read ends") {
                    ReadOutcome::Ready { applied_index } => {
                        assert!(applied_index >= index, "{how:?} on {node}: {applied_index} < {index}");
                        let last = group.applied[node].lock().unwrap().last().cloned().unwrap();
                        assert!(last.0 >= index, "the application has it");
                        seen[at] += 1;
                    }
                    ReadOutcome::NotLeader { .. } => assert!(how != Read::Follower),
                    ReadOutcome::Failed(_) => {}
                    other => panic!("{how:?} on {node}: {other:?}"),
                }
            }
        }
    }
    assert!(seen.iter().all(|count| *count > 100), "{seen:?}");
    // What waits when a node ends is said so.
    let mut reader = group.nodes[0].reader();
    reader.ask(Read::Follower).unwrap();
    drop(group);
    until("the end", || reader.poll());
    assert_eq!(reader.ask(Read::Follower), Err(SubmitError::Closed));
}

#[test]
fn a_lead_is_handed_over_to_whom_it_is_told() {
    let group = form();
    let mut handed = 0;
    for round in 0..6 {
        let old = group.leader();
        commit(&mut group.nodes[old].handle(), b"before");
        let new = (old + 1 + round % 2) % 3;
        let id = new as u8 + 1;
        match group.nodes[old].transfer(id, PATIENCE) {
            Ok(()) => {
                until("it leads", || (group.nodes[new].status().role == Role::Leader).then_some(()));
                handed += 1;
            }
            // On a machine with few processors a node may seem not to run.
            Err(TransferError::NotReady | TransferError::NotElected | TransferError::NotLeader { .. }) => {}
            Err(error) => panic!("{error}"),
        }
        until("a commit", || commit(&mut group.nodes[group.leader()].handle(), b"after"));
    }
    assert!(handed > 0);
    let leader = group.leader();
    let own = leader as u8 + 1;
    assert_eq!(group.nodes[leader].transfer(own, PATIENCE), Err(TransferError::NotVoter));
    assert_eq!(group.nodes[leader].transfer(9, PATIENCE), Err(TransferError::NotVoter));
    let other = group.nodes[(leader + 1) % 3].transfer(own, PATIENCE);
    assert!(matches!(other, Err(TransferError::NotLeader { .. })), "{other:?}");
    let asked = |node: &Node| {
        std::iter::from_fn(|| node.next_event())
            .any(|timed| matches!(timed.event, Event::GaveUp { reason: GiveUp::Asked, .. }))
    };
    assert!(group.nodes.iter().any(asked));
}
