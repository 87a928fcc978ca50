//! Nodes whose host and acceptor are apart: they form a group, commit, and outlive the death of hosts.

mod group;

use group::{Group, part};
use ringleader_core::options::Half;
use ringleader_core::proposer::Role;
use ringleader_core::types::Instant;

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
    let alive = |group: &Group| {
        use ringleader_core::layout::{Line, ProgressLine, control, progress_flags};
        let line =
            ProgressLine::read(&group.nodes[acceptor].areas.control, control::PROGRESS).expect("whole");
        line.flags & progress_flags::HOST_ALIVE != 0
    };
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
