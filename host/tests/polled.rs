//! Nodes without a thread: whoever opened them gives them their turns.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use ringleader::{
    AgentOptions, AgentThread, Change, Entry, Node, OpenError, Options, Outcome, Polled, Read, ReadOutcome,
    Role, SubmitError,
};

const PATIENCE: Duration = Duration::from_secs(60);

/// Gives rounds until there is something.
fn until<T>(agent: &AgentThread, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "not in time");
        assert!(agent.poll_or_rest(Duration::from_millis(1)).is_some(), "it has no thread");
    }
}

fn options(dir: &tempfile::TempDir, node: u8, members: &[u8]) -> Options {
    let mut options = Options::new(dir.path(), node, members);
    options.ring_len = 1 << 20;
    options
}

#[test]
fn a_group_lives_by_the_rounds_of_its_caller() {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let agent = AgentThread::polled(&AgentOptions::default()).unwrap();
    assert_eq!(agent.poll(), Some(Polled::Idle { due: None }), "nobody is there");
    let applied: [Arc<AtomicU64>; 3] = Default::default();
    let me = std::thread::current().id();
    let nodes: Vec<Node> = (1..=3)
        .map(|node| {
            let sum = Arc::clone(&applied[usize::from(node) - 1]);
            let apply = move |entry: Entry<'_>| {
                assert_eq!(std::thread::current().id(), me, "no other thread calls it");
                sum.fetch_add(u64::from_le_bytes(entry.payload.try_into().unwrap()), Ordering::Relaxed);
            };
            Node::open_on(&agent, options(&dir, node, &[1, 2, 3]), apply).unwrap()
        })
        .collect();
    // What waits gives rounds itself, to all of them.
    nodes[0].form(PATIENCE).unwrap();
    let find = || nodes.iter().find(|node| node.status().role == Role::Leader);
    let leader = until(&agent, find);
    let mut handle = leader.handle();
    for value in 1..=100_u64 {
        let mut draft = handle.draft(16).unwrap();
        draft.bytes()[..8].copy_from_slice(&value.to_le_bytes());
        draft.truncate(8);
        assert_eq!(draft.commit().0, 2 * (value - 1));
        drop(handle.draft(1000).unwrap());
        assert_eq!(handle.propose(&value.to_le_bytes()).unwrap().0, 2 * value - 1);
    }
    let mut committed = 0;
    while committed < 200 {
        let (_, outcome) = until(&agent, || handle.poll());
        assert!(matches!(outcome, Outcome::Committed { .. }), "{outcome:?}");
        committed += 1;
    }
    until(&agent, || applied.iter().all(|sum| sum.load(Ordering::Relaxed) == 2 * 5050).then_some(()));
    let too_large = handle.draft(handle.max_payload() + 1).map(|_| ());
    assert!(matches!(too_large, Err(SubmitError::TooLarge { .. })), "{too_large:?}");

    let mut reader = leader.reader();
    reader.ask(Read::Quorum).unwrap();
    let (_, outcome) = until(&agent, || reader.poll());
    assert!(matches!(outcome, ReadOutcome::Ready { applied_index: 200.. }), "{outcome:?}");
    until(&agent, || (leader.metrics().reads == 1).then_some(()));
    let metrics = leader.metrics();
    assert_eq!((metrics.proposed, metrics.committed, metrics.unknown), (200, 200, 0));
    assert_eq!((metrics.applied, metrics.applied_bytes, metrics.reads_failed), (200, 1600, 0));
    assert_eq!((metrics.elected, metrics.gave_up), (1, 0));
    assert!(metrics.campaigns >= 1 && metrics.verbs > 3 && metrics.turns > 1);

    let other = nodes.iter().find(|node| node.status().role != Role::Leader).unwrap();
    let id = other.status().node;
    leader.transfer(id, PATIENCE).unwrap();
    assert_eq!(leader.status().leader, Some(id));
    until(&agent, || (other.status().role == Role::Leader).then_some(()));
    let third = nodes.iter().find(|node| ![id, leader.status().node].contains(&node.status().node)).unwrap();
    other.change_members(&Change::Remove { node: third.status().node }, PATIENCE).unwrap();
    assert_eq!(other.members().unwrap().members.len(), 2);
    let gave_up = until(&agent, || Some(leader.metrics().gave_up).filter(|count| *count > 0));
    assert_eq!(gave_up, 1);
    for node in nodes {
        node.close().unwrap();
    }
    assert_eq!(agent.groups(), 0);
    assert_eq!(handle.propose(b"x"), Err(SubmitError::Closed));
}

#[test]
fn a_round_is_never_given_within_another() {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let agent = AgentThread::polled(&AgentOptions::default()).unwrap();
    let (own, seen) = (Arc::new(OnceLock::<AgentThread>::new()), Arc::new(AtomicBool::new(false)));
    let (asks, tells) = (Arc::clone(&own), Arc::clone(&seen));
    let apply = move |_: Entry<'_>| {
        assert_eq!(asks.get().unwrap().poll(), Some(Polled::Elsewhere));
        tells.store(true, Ordering::Relaxed);
    };
    let node = Node::open_on(&agent, options(&dir, 1, &[1]), apply).unwrap();
    let _ = own.set(agent.clone());
    node.form(PATIENCE).unwrap();
    let mut handle = node.handle();
    until(&agent, || {
        let _ = handle.propose(b"entry");
        while handle.poll().is_some() {}
        seen.load(Ordering::Relaxed).then_some(())
    });
    // The others are not touched by a state machine that panics.
    let broken = Node::open_on(&agent, options(&dir, 2, &[2]), |_: Entry<'_>| panic!("on purpose")).unwrap();
    broken.form(PATIENCE).unwrap();
    let mut breaks = broken.handle();
    until(&agent, || {
        let _ = breaks.propose(b"entry");
        while breaks.poll().is_some() {}
        broken.status().closed.then_some(())
    });
    assert!(broken.close().is_err());
    assert!(!node.status().closed);
    agent.close_all();
    node.close().unwrap();
}

#[test]
fn an_agent_with_a_thread_is_not_polled_and_groups_are_counted() {
    let agent = AgentThread::start(&AgentOptions::default()).unwrap();
    assert_eq!((agent.poll(), agent.poll_or_rest(Duration::ZERO)), (None, None));
    let mut none = AgentOptions::default();
    none.groups = 0;
    assert!(matches!(AgentThread::polled(&none), Err(OpenError::Option(_))));
}
