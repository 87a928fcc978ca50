//! Lives of nodes that come, are taken out, and come again; and who is told of it.

mod group;

use group::{Group, MS, node};
use ringleader_core::membership::{Address, Change, ChangeError};
use ringleader_core::proposer::Role;
use ringleader_core::replica::FormError;
use ringleader_core::types::{Instant, NodeId};

fn id(at: usize) -> NodeId {
    NodeId(at as u8 + 1)
}

fn leads(group: &Group, at: usize) -> bool {
    group.nodes[at].replica.status().role == Role::Leader
}

/// An entry that only the leader and `with` have; the leader dies, and one of the two others must lead.
fn only_one_has_it(group: &mut Group, leader: usize, with: usize, third: usize) {
    group.nodes[third].stopped = true;
    group.cut(leader, third, true);
    let before = group.nodes[leader].committed;
    group.until("there is room", |group| {
        group.nodes[leader].replica.propose(Instant(group.now), b"acknowledged").is_ok()
    });
    group.until("it is committed", |group| group.nodes[leader].committed > before);
    group.nodes[leader].alive = false;
    group.nodes[third].stopped = false;
    group.until("one of two leads", |group| [with, third].iter().any(|at| leads(group, *at)));
    assert!(leads(group, with), "the other does not have it");
}

/// It was named by an entry that was replaced, and by none that counts.
#[test]
fn who_was_never_a_member_was_not_removed() {
    let (mut group, leader) = Group::led();
    group.propose(0, 3);
    let others = [(leader + 1) % 3, (leader + 2) % 3];
    group.nodes.push(node(4, 0, 0, Instant(group.now)));
    group.nodes[leader].replica.connect_to(NodeId(4));
    group.turns(400);
    // Added by a leader that does not reach the others any more.
    others.iter().for_each(|other| group.cut(leader, *other, true));
    let add = Change::Add { node: NodeId(4), address: Address::NONE };
    group.nodes[leader].replica.change(Instant(group.now), &add).expect("it is connected");
    group.until("node 4 has it", |group| group.nodes[3].replica.configuration().member(NodeId(4)).is_some());
    group.nodes[leader].alive = false;
    group.until("another leads", |group| others.iter().any(|at| leads(group, *at)));
    let next = others.into_iter().find(|at| leads(&group, *at)).expect("just seen");
    let third = others.into_iter().find(|at| *at != next).expect("two others");
    group.change(next, Change::Remove { node: id(leader) });
    group.turns(2000);
    assert!(!group.nodes[3].replica.status().removed);
    // The same life is added, for the first time that counts.
    group.change(next, add);
    group.change(next, Change::Promote { node: NodeId(4) });
    only_one_has_it(&mut group, next, 3, third);
}

/// A configuration knows the last life of each node that was removed. An older one that is added again is a voter like any other.
#[test]
fn a_life_before_the_last_that_was_removed_may_come_again() {
    let (mut group, leader) = Group::led();
    group.propose(0, 3);
    let (third, at) = ((leader + 1) % 3, (leader + 2) % 3);
    group.turns(400);
    group.nodes[at].alive = false;
    group.turns(1000);
    let second = node(at as u8 + 1, 3, 1, Instant(group.now));
    let mut first = std::mem::replace(&mut group.nodes[at], second);
    first.alive = true;
    let add = Change::Add { node: id(at), address: Address::NONE };
    group.change(leader, Change::Remove { node: id(at) });
    group.change(leader, add);
    group.change(leader, Change::Remove { node: id(at) });
    group.nodes[at].alive = false;
    group.turns(1000);
    group.nodes[at] = first;
    group.until("it knows", |group| group.nodes[at].replica.status().removed);
    group.change(leader, add);
    group.change(leader, Change::Promote { node: id(at) });
    group.until("it knows better", |group| !group.nodes[at].replica.status().removed);
    only_one_has_it(&mut group, leader, at, third);
}

/// A member that came back without its memory, and is told to form: nobody would ever join it. It is refused, and can be let in.
#[test]
fn who_is_told_to_form_and_meets_a_group_is_let_into_that() {
    let (mut group, leader) = Group::led();
    group.propose(0, 3);
    let at = (leader + 2) % 3;
    group.turns(400);
    group.nodes[at].alive = false;
    group.turns(1000);
    let now = Instant(group.now);
    group.nodes[at] = node(at as u8 + 1, 3, 1, now);
    assert_eq!(group.nodes[at].replica.form(now, 0x777), Ok(()), "it has met nobody yet");
    group.until("it has met them", |group| group.nodes[at].replica.status().met_group);
    group.until("it is told", |group| group.nodes[at].refused);
    let now = Instant(group.now);
    assert_eq!(group.nodes[at].replica.form(now, 0x777), Err(FormError::InGroup));
    group.change(leader, Change::Readmit { node: id(at) });
    group.until("it has all", |group| group.nodes[at].applied.len() == 3);
    assert!(!group.nodes[at].replica.status().met_group, "it is in it");
}

/// A connection outlives the life at its other end: that one is not added, for it may be one that was taken out before the last.
#[test]
fn a_life_that_does_not_run_is_not_added() {
    let (mut group, leader) = Group::led();
    group.propose(0, 3);
    group.nodes.push(node(4, 0, 0, Instant(group.now)));
    group.nodes[leader].replica.connect_to(NodeId(4));
    group.turns(400);
    let add = Change::Add { node: NodeId(4), address: Address::NONE };
    group.change(leader, add);
    group.change(leader, Change::Remove { node: NodeId(4) });
    // Another life, which dies before anybody has seen it run; that it ran before says nothing.
    group.nodes[3] = node(4, 3, 1, Instant(group.now));
    group.until("it is connected", |group| {
        group.nodes[leader].replica.found(NodeId(4)) == group.nodes[3].replica.incarnation()
    });
    group.nodes[3].stopped = true;
    group.change(leader, Change::Remove { node: id((leader + 1) % 3) });
    for _ in 0..400 {
        let refused = group.nodes[leader].replica.change(Instant(group.now), &add);
        assert_eq!(refused, Err(ChangeError::NotConnected));
        group.turns(10);
    }
    group.nodes[3].stopped = false;
    group.change(leader, add);
}

#[test]
fn who_has_the_entry_of_its_removal_and_not_its_commit_is_told() {
    let (mut group, leader) = Group::led();
    group.propose(0, 3);
    let (third, at) = ((leader + 1) % 3, (leader + 2) % 3);
    group.turns(2000);
    let remove = Change::Remove { node: id(at) };
    group.nodes[leader].replica.change(Instant(group.now), &remove).expect("two are left");
    group.nodes[third].stopped = true;
    group.cut(leader, third, true);
    group.now += MS / 4;
    group.run(leader);
    group.cut(leader, at, true);
    group.cut(leader, third, false);
    group.nodes[third].stopped = false;
    group.turns(400);
    group.cut(leader, at, false);
    group.until("it is told", |group| group.nodes[at].replica.status().removed);
}

/// The next leader is told to stand: nobody waits for a silence.
#[test]
fn a_leader_that_takes_itself_out_hands_over() {
    let (mut group, leader) = Group::led();
    group.propose(0, 3);
    group.turns(2000);
    let begun = group.now;
    let remove = Change::Remove { node: id(leader) };
    group.nodes[leader].replica.change(Instant(begun), &remove).expect("two are left");
    group.until("another leads", |group| (0..3).any(|at| at != leader && leads(group, at)));
    assert!(group.now - begun < 50 * MS, "{} us", (group.now - begun) / 1000);
}

/// Who is connected to beforehand, so that one day it may let this node in, is no part of the group that is formed.
#[test]
fn a_group_is_formed_with_founders_alone() {
    let mut group = Group::new();
    for at in 0..3 {
        group.nodes[at].replica.connect_to(NodeId(4));
    }
    group.nodes.push(node(4, 3, 0, Instant(group.now)));
    group.turns(400);
    group.nodes[0].replica.form(Instant(group.now), 7 << 64 | 5).expect("fresh");
    group.until("somebody leads", |group| (0..3).any(|at| leads(group, at)));
    for at in 0..3 {
        assert_eq!(group.nodes[at].replica.configuration().voters(), 3);
        assert!(group.nodes[at].replica.configuration().member(NodeId(4)).is_none());
    }
    assert!(!group.nodes[3].replica.configuration().is_formed());
}
