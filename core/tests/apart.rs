//! Nodes whose host and acceptor are apart: they form a group, commit, and outlive the death of hosts.

mod group;

use group::{Group, RING, part};
use ringleader_core::event::Event;
use ringleader_core::layout::{Line, ProgressLine, control, progress_flags};
use ringleader_core::membership::{Change, ChangeError};
use ringleader_core::options::Half;
use ringleader_core::proposer::{FollowerState, Role};
use ringleader_core::snapshot::CatchUp;
use ringleader_core::types::{Instant, NodeId};

/// Acceptors of nodes 1 to 3 first, then their hosts.
fn apart() -> Group {
    let mut group = Group::new();
    let halves = [Half::Acceptor, Half::Proposer];
    group.nodes =
        halves.into_iter().flat_map(|half| (1..=3).map(move |id| part(id, half, 3, 0, Instant(0)))).collect();
    group
}

fn led() -> (Group, usize) {
    let mut group = apart();
    group.turns(200);
    group.nodes[3].replica.form(Instant(group.now), 77 << 64 | 5).expect("fresh");
    group.until("a leader", |group| group.leader().is_some());
    let leader = group.leader().expect("just seen");
    assert!(leader >= 3, "an acceptor never leads");
    group.until("its first entry", |group| group.nodes[leader].replica.status().commit_index.0 > 0);
    (group, leader)
}

#[test]
fn a_group_of_halves_commits_and_all_hosts_apply() {
    let (mut group, _) = led();
    group.propose(0, 20);
    group.until("all have them", |group| (3..6).all(|host| group.nodes[host].applied.len() == 20));
    assert_eq!(group.nodes[3].applied, group.nodes[4].applied);
}

/// It knows where its host stands, not what it was handed: asked for entries, it has none, and does not take its log for damaged.
#[test]
fn an_acceptor_hands_out_nothing() {
    let (mut group, _) = led();
    group.propose(0, 20);
    group.until("all have them", |group| (3..6).all(|host| group.nodes[host].applied.len() == 20));
    for acceptor in 0..3 {
        assert!(!group.nodes[acceptor].replica.apply(|_| panic!("no entry")));
        while let Some(event) = group.nodes[acceptor].replica.poll_event() {
            assert!(!matches!(event, Event::Stuck { .. }), "{event:?}");
        }
    }
    group.propose(20, 5);
    group.until("all have these", |group| (3..6).all(|host| group.nodes[host].applied.len() == 25));
}

#[test]
fn a_dead_host_is_noticed_and_its_acceptor_votes_on() {
    let (mut group, leader) = led();
    group.propose(0, 5);
    group.nodes[leader].alive = false;
    group.until("another leads", |group| (3..6).any(|host| host != leader && group.leader() == Some(host)));
    group.propose(5, 5);
    // Another host dies, once the third acceptor has everything, too: two acceptors of dead hosts still vote.
    let second = group.leader().expect("one leads");
    let end = |group: &Group, at: usize| group.nodes[at].replica.status().end.position;
    group.until("all have the log", |group| (0..3).all(|at| end(group, at) == end(group, second)));
    group.nodes[second].alive = false;
    group.until("the last host leads", |group| group.leader().is_some());
    let last = group.leader().expect("just seen");
    assert_eq!(group.nodes[last].replica.status().role, Role::Leader);
}

/// What its host had not applied is still in its acceptor's memory: a host that comes back needs nobody else.
#[test]
fn a_host_that_comes_back_catches_up_from_its_acceptor() {
    let (mut group, leader) = led();
    group.propose(0, 10);
    let host = if leader == 5 { 4 } else { leader + 1 };
    group.until("it has them", |group| group.nodes[host].applied.len() == 10);
    group.nodes[host].alive = false;
    group.propose(10, 10);
    // All others are gone: what it gets it gets from its acceptor.
    let id = group.nodes[host].id;
    let others: Vec<usize> = (0..6).filter(|at| group.nodes[*at].id != id).collect();
    group.turns(200);
    others.iter().for_each(|at| group.nodes[*at].alive = false);
    let now = Instant(group.now);
    group.nodes[host] = part(id, Half::Proposer, 3, 1, now);
    group.until("it has all", |group| group.nodes[host].applied.len() == 20);
    // And the others come back.
    others.iter().for_each(|at| group.nodes[*at].alive = true);
    group.until("one leads", |group| group.leader().is_some());
    group.propose(20, 3);
    group.until("all have all", |group| (3..6).all(|host| group.nodes[host].applied.len() == 23));
}

#[test]
fn a_host_is_taken_for_down_within_ten_beats() {
    let (mut group, leader) = led();
    group.propose(0, 3);
    let host = if leader == 5 { 4 } else { leader + 1 };
    let acceptor = host - 3;
    let alive = |group: &Group| is_host_alive(group, acceptor);
    group.turns(100);
    assert!(alive(&group));
    group.nodes[host].stopped = true;
    let since = group.now;
    group.until("it is marked", |group| !alive(group));
    assert!(group.now - since <= 10 * ringleader_core::timing::Timing::LOCAL.beat_ns);
    group.propose(3, 3);
    group.nodes[host].stopped = false;
    group.until("it is back", |group| alive(group) && group.nodes[host].applied.len() == 6);
}

/// A follower's read trusts the leader line, which is in the acceptor's memory: what it does not show yet is acknowledged to nobody.
#[test]
fn a_commit_is_told_only_when_the_leader_line_shows_it() {
    let (mut group, leader) = led();
    group.propose(0, 3);
    let acceptors = || (0..3).filter(|at| *at != leader - 3);
    let end = |group: &Group, at: usize| group.nodes[at].replica.status().end.position;
    group.until("all have the log", |group| acceptors().all(|at| end(group, at) == end(group, leader)));
    let told = group.nodes[leader].committed;
    group.cut(leader, leader - 3, true);
    group.nodes[leader].replica.propose(Instant(group.now), b"seen by two of three").expect("there is room");
    group.until("both others have it", |group| acceptors().all(|at| end(group, at) == end(group, leader)));
    group.turns(20);
    assert_eq!(group.nodes[leader].replica.status().role, Role::Leader);
    assert_eq!(group.nodes[leader].committed, told);
    group.cut(leader, leader - 3, false);
    group.until("it is told", |group| group.nodes[leader].committed > told);
}

/// A host that lost everything, and whose acceptor's ring does not reach back to the first entry.
#[test]
fn a_host_that_comes_back_empty_gets_a_snapshot_and_its_acceptor_never_stops_counting() {
    let (mut group, leader) = led();
    let host = if leader == 5 { 4 } else { leader + 1 };
    fill(&mut group, 2 * RING);
    group
        .until("it has it all", |group| group.nodes[host].applied.len() == group.nodes[leader].applied.len());
    group.nodes[host].alive = false;
    let (id, now) = (group.nodes[host].id, Instant(group.now));
    group.nodes[host] = part(id, Half::Proposer, 3, 1, now);
    let mut wanted = false;
    group.until("it has it all again", |group| {
        wanted |= wants(group, host - 3);
        let seen = group.nodes[leader].replica.status().followers[usize::from(id)].expect("a follower");
        assert_eq!(seen.state, FollowerState::Window);
        group.nodes[host].applied.len() == group.nodes[leader].applied.len()
    });
    assert!(wanted, "it said so");
    assert_eq!(group.nodes[host].applied, group.nodes[leader].applied);
    group.until("and wants none any more", |group| !wants(group, host - 3));
    // Its application is asked for its state like any other.
    let third = (3..6).find(|at| *at != leader && *at != host).expect("there are three");
    group.nodes[third].alive = false;
    let (id, now) = (group.nodes[third].id, Instant(group.now));
    group.nodes[third] = part(id, Half::Proposer, 3, 1, now);
    group.until("the third has it all again", |group| {
        group.nodes[third].applied.len() == group.nodes[leader].applied.len()
    });
    group.until("it leads", |group| {
        let now = Instant(group.now);
        if group.leader() == Some(leader) {
            let _ = group.nodes[leader].replica.transfer(now, NodeId(id));
        }
        group.leader() == Some(third)
    });
    fill(&mut group, RING);
    group.until("all have it", |group| {
        let count = group.nodes[third].applied.len();
        (3..6).all(|at| group.nodes[at].applied.len() == count)
    });
}

/// An acceptor below the ring takes a snapshot without its host, counts again, keeps the bytes, and gives them to whoever comes.
#[test]
fn an_acceptor_catches_up_without_its_host_and_holds_the_state_for_it() {
    let (mut group, leader) = led();
    let host = if leader == 5 { 4 } else { leader + 1 };
    let acceptor = host - 3;
    fill(&mut group, RING / 4);
    group.nodes[host].alive = false;
    group.nodes[acceptor].stopped = true;
    fill(&mut group, 3 * RING);
    group.nodes[acceptor].stopped = false;
    let id = group.nodes[host].id;
    group.until("it is in window", |group| {
        let seen = group.nodes[leader].replica.status().followers[usize::from(id)];
        seen.is_some_and(|seen| seen.state == FollowerState::Window)
    });
    let start = group.nodes[acceptor].replica.status().start;
    assert!(start.0 > RING, "its log begins behind a snapshot");
    // All others are gone when its host comes back, empty.
    fill(&mut group, RING / 8);
    let end = group.nodes[leader].replica.status().commit;
    group.until("it has all", |group| group.nodes[acceptor].replica.status().anchor.position >= end);
    let all = group.nodes[leader].applied.clone();
    let others: Vec<usize> = (0..6).filter(|at| *at != acceptor).collect();
    others.iter().for_each(|at| group.nodes[*at].alive = false);
    let now = Instant(group.now);
    group.nodes[host] = part(id, Half::Proposer, 3, 1, now);
    group.until("its host has all", |group| group.nodes[host].applied.len() == all.len());
    assert_eq!(group.nodes[host].applied, all);
}

/// What it holds for its host it does not give up for a newer one.
#[test]
fn a_snapshot_that_no_host_has_taken_is_not_replaced() {
    let (mut group, leader) = led();
    let host = if leader == 5 { 4 } else { leader + 1 };
    let acceptor = host - 3;
    let id = group.nodes[host].id;
    group.nodes[host].alive = false;
    let mut held = None;
    for _ in 0..2 {
        group.nodes[acceptor].stopped = true;
        fill(&mut group, 3 * RING);
        group.nodes[acceptor].stopped = false;
        if held.is_none() {
            group.until("it holds one", |group| group.nodes[acceptor].replica.status().start.0 > 0);
            held = Some(group.nodes[acceptor].replica.status().start);
        }
    }
    group.until("the leader knows", |group| {
        let seen = group.nodes[leader].replica.status().followers[usize::from(id)];
        seen.is_some_and(|seen| seen.catch_up == Some(CatchUp::Unable))
    });
    assert_eq!(Some(group.nodes[acceptor].replica.status().start), held);
    let now = Instant(group.now);
    group.nodes[host] = part(id, Half::Proposer, 3, 1, now);
    group.until("all have all", |group| group.nodes[host].applied.len() == group.nodes[leader].applied.len());
    assert_eq!(group.nodes[host].applied, group.nodes[leader].applied);
}

/// A host that dies in the middle of what it was told to save, and the next one, which knows nothing of that.
#[test]
fn a_host_that_dies_while_it_saves_costs_one_attempt() {
    let (mut group, leader) = led();
    let (behind, source) = match leader {
        3 => (4, 5),
        4 => (3, 5),
        _ => (3, 4),
    };
    group.nodes[source].keeps = true;
    group.nodes[behind].alive = false;
    fill(&mut group, 2 * RING);
    let (id, now) = (group.nodes[behind].id, Instant(group.now));
    group.nodes[behind] = part(id, Half::Proposer, 3, 1, now);
    group.until("it is to save", |group| group.nodes[source].kept.is_some());
    let (other, now) = (group.nodes[source].id, Instant(group.now));
    group.nodes[source] = part(other, Half::Proposer, 3, 1, now);
    let well = |group: &Group, at: usize| group.nodes[at].applied.len() == group.nodes[leader].applied.len();
    group.until("both have all", |group| well(group, behind) && well(group, source));
    assert_eq!(group.nodes[behind].applied, group.nodes[source].applied);
}

fn wants(group: &Group, acceptor: usize) -> bool {
    let line = ProgressLine::read(&group.nodes[acceptor].areas.control, control::PROGRESS).expect("whole");
    line.flags & progress_flags::WANTS != 0
}

/// So many bytes are proposed and committed.
fn fill(group: &mut Group, bytes: u64) {
    let leader = group.leader().expect("one leads");
    let to = group.nodes[leader].replica.status().end.position.0 + bytes;
    group.until("the log goes on", |group| {
        let now = Instant(group.now);
        while group.nodes[leader].replica.propose(now, &[7; 3000]).is_ok() {}
        group.nodes[leader].replica.status().commit.0 >= to
    });
}

/// An acceptor counts for a commit whatever its host is like. What the application has, only hosts have.
#[test]
fn nobody_is_removed_when_no_majority_of_hosts_would_be_left() {
    let (mut group, leader) = led();
    group.propose(0, 5);
    let others: Vec<usize> = (3..6).filter(|at| *at != leader).collect();
    others.iter().for_each(|at| group.nodes[*at].alive = false);
    let seen_dead = |group: &Group| others.iter().all(|at| !is_host_alive(group, at - 3));
    group.until("both are marked", |group| seen_dead(group));
    group.turns(200);
    let [own, gone] = [leader, others[0]].map(|at| NodeId(group.nodes[at].id));
    let refused = |group: &mut Group| {
        let now = Instant(group.now);
        group.nodes[leader].replica.change(now, &Change::Remove { node: own })
    };
    assert_eq!(refused(&mut group), Err(ChangeError::WouldStop { alive: 0, voters: 2 }));
    // Without one of them there is as much as before.
    group.change(leader, Change::Remove { node: gone });
    assert_eq!(refused(&mut group), Err(ChangeError::WouldStop { alive: 0, voters: 1 }));
    // The other's comes back.
    let (id, now) = (group.nodes[others[1]].id, Instant(group.now));
    group.nodes[others[1]] = part(id, Half::Proposer, 3, 1, now);
    group.until("it has all", |group| group.nodes[others[1]].applied.len() == 5);
    group.change(leader, Change::Remove { node: own });
}

/// Else nothing could bring a group back that has lost the host of one node and the memory of another.
#[test]
fn who_counts_for_nothing_is_removed_whatever_hosts_are_left() {
    let (mut group, leader) = led();
    group.propose(0, 5);
    let others: Vec<usize> = (3..6).filter(|at| *at != leader).collect();
    group.nodes[others[0]].alive = false;
    group.nodes[others[1]].alive = false;
    group.nodes[others[1] - 3].alive = false;
    group.until("it is marked", |group| !is_host_alive(group, others[0] - 3));
    group.turns(400);
    let gone = NodeId(group.nodes[others[1]].id);
    group.change(leader, Change::Remove { node: gone });
}

fn is_host_alive(group: &Group, acceptor: usize) -> bool {
    let line = ProgressLine::read(&group.nodes[acceptor].areas.control, control::PROGRESS).expect("whole");
    line.flags & progress_flags::HOST_ALIVE != 0
}

/// Also to one that met the leader's acceptor before the leader's host did.
#[test]
fn a_leader_hands_over_to_another_host() {
    let (mut group, leader) = led();
    group.propose(0, 5);
    group.until("all have them", |group| (3..6).all(|host| group.nodes[host].applied.len() == 5));
    let next = if leader == 5 { 3 } else { leader + 1 };
    let (to, now) = (NodeId(group.nodes[next].id), Instant(group.now));
    group.nodes[leader].replica.transfer(now, to).expect("it is in window");
    group.until("it leads", |group| group.nodes[next].replica.status().role == Role::Leader);
}
