//! Making a new group of a survivor, and what a node is told by its memory alone: what the simulator cannot judge, since a new
//! group loses what others held.

mod group;

use group::{Group, MS};
use ringleader_core::event::Event;
use ringleader_core::membership::{Address, Change, ChangeError};
use ringleader_core::proposer::Role;
use ringleader_core::replica::RecoverError;
use ringleader_core::types::{Instant, NodeId};

#[test]
fn a_survivor_makes_a_new_group_only_when_no_majority_is_left() {
    let (mut group, leader) = Group::led();
    group.propose(leader, 5);
    group.until("all have them", |group| group.nodes.iter().all(|node| node.applied.len() == 5));
    let other = (leader + 1) % 3;
    let force = |group: &mut Group, at: usize| {
        let now = Instant(group.now);
        group.nodes[at].replica.force_new_group(now, 99 << 64)
    };
    assert!(matches!(force(&mut group, leader), Err(RecoverError::LeaderAlive { .. })));
    assert!(matches!(force(&mut group, other), Err(RecoverError::LeaderAlive { .. })));
    for node in 0..3 {
        group.nodes[node].alive = node == other;
    }
    group.until("nobody is heard", |group| group.nodes[other].replica.may_recover().is_ok());
    force(&mut group, other).expect("no majority is left");
    group.until("it leads", |group| group.nodes[other].replica.status().commit_index.0 > 6);
    let replica = &group.nodes[other].replica;
    assert_eq!(replica.configuration().voters(), 1);
    assert_eq!(replica.status().group, 99 << 64 | 5, "the chain began with the low 32 bits");
    group.propose(other, 3);
    group.until("it commits alone", |group| group.nodes[other].applied.len() == 8);
    assert!(group.now < 60_000 * MS);
}

/// Its own entries would be of a term that says nothing in the new group: it would lead by configurations that nobody reads.
#[test]
fn a_candidate_makes_a_new_group_and_stands_in_a_later_term() {
    let (mut group, leader) = Group::led();
    group.propose(leader, 3);
    group.turns(2000);
    group.nodes[leader].alive = false;
    let others = [(leader + 1) % 3, (leader + 2) % 3];
    let mut stands = None;
    for _ in 0..20_000 {
        group.now += MS / 4;
        stands = others.into_iter().find(|at| {
            group.run(*at);
            group.nodes[*at].replica.status().role == Role::Candidate
        });
        if stands.is_some() {
            break;
        }
    }
    let me = stands.expect("one of two stands");
    let dead = others.into_iter().find(|at| *at != me).expect("two others");
    group.nodes[dead].alive = false;
    group.until("a new group may be made", |group| group.nodes[me].replica.may_recover().is_ok());
    let status = group.nodes[me].replica.status();
    assert_eq!(status.role, Role::Candidate, "still");
    group.nodes[me].replica.force_new_group(Instant(group.now), 99 << 64).expect("nobody else is there");
    group.until("it leads", |group| group.nodes[me].replica.status().role == Role::Leader);
    assert!(group.nodes[me].replica.status().promise.term() > status.promise.term());
    let node = NodeId(dead as u8 + 1);
    group.nodes[dead] = group::node(node.0, 3, 1, Instant(group.now));
    group.change(me, Change::Add { node, address: Address::NONE });
    group.change(me, Change::Promote { node });
    group.until("all know it", |group| {
        [me, dead].iter().all(|at| group.nodes[*at].replica.committed_configuration().voters() == 2)
    });
    // Of two nobody leads alone.
    group.cut(me, dead, true);
    group.until("it gives up", |group| group.nodes[me].replica.status().role != Role::Leader);
    group.turns(8000);
    assert_ne!(group.nodes[me].replica.status().role, Role::Leader);
}

#[test]
fn changes_are_refused_with_their_reasons() {
    let (mut group, leader) = Group::led();
    let now = Instant(group.now);
    let me = NodeId(leader as u8 + 1);
    let other = NodeId(((leader + 1) % 3) as u8 + 1);
    let replica = &mut group.nodes[leader].replica;
    let refused = |of| matches!(of, Err(ChangeError::Voter | ChangeError::NotMember | ChangeError::SameLife));
    assert!(refused(replica.change(now, &Change::Promote { node: other }).map(|_| ())));
    assert!(refused(replica.change(now, &Change::Remove { node: NodeId(9) }).map(|_| ())));
    assert!(refused(replica.change(now, &Change::Readmit { node: other }).map(|_| ())));
    replica.change(now, &Change::Remove { node: me }).expect("a leader may go");
    let node = other;
    assert_eq!(
        replica.change(now, &Change::Remove { node }),
        Err(ChangeError::Busy),
        "it leaves that to others"
    );
    assert_eq!(replica.configuration().voters(), 2, "in force at once");
    let mut removed = false;
    group.until("another leads", |group| {
        while let Some(event) = group.nodes[leader].replica.poll_event() {
            removed |= matches!(event, Event::Removed { .. });
        }
        removed |= group.nodes[leader].replica.status().removed;
        removed && group.leader().is_some_and(|now| now != leader)
    });
    let next = group.leader().expect("just seen");
    assert!(group.nodes[next].replica.committed_configuration().member(me).is_none());
}
