//! Nodes that have fallen below the ring: they take another node's state, while the group goes on.

mod catch_up_common;

use std::time::Duration;

use catch_up_common::{Group, PATIENCE, Settings, until};
use ringleader::bench::{self, CatchUpPlan, CommitPlan};
use ringleader::demo::Carrier;
use ringleader::{CatchUp, Confirm, FollowerState, Idle, Profile, Role, StateMachine as _};

#[test]
fn a_node_that_came_back_empty_takes_another_ones_state() {
    for confirm in [Confirm::Completion, Confirm::Readback] {
        let mut group = Group::form(Settings { confirm, ..Settings::default() });
        group.propose_rings(1);
        group.restart(3);
        // What it lacks has long been recycled.
        group.propose_rings(2);
        group.readmit(3);
        group.propose_rings(1);
        group.all_equal();
        assert!(group.loads(3) >= 1, "it was in no ring any more");
    }
}

#[test]
fn a_node_that_stood_still_for_longer_than_the_ring_holds_comes_back() {
    let group = Group::form(Settings::default());
    let leader = group.leader();
    let late = group.ids().find(|id| *id != leader).expect("three nodes");
    group.stop(late);
    let term = group.node(leader).status().term;
    group.propose_rings(3);
    until("it is let go", || {
        let status = group.node(leader).status();
        let follower = status.followers.iter().find(|follower| follower.node == late)?;
        (follower.state != FollowerState::Window).then_some(())
    });
    group.go_on(late);
    // Entries flow while it takes the state.
    until("it is back", || {
        group.propose(64);
        let status = group.node(leader).status();
        let follower = status.followers.iter().find(|follower| follower.node == late)?;
        (follower.state == FollowerState::Window).then_some(())
    });
    group.all_equal();
    assert!(group.loads(late) >= 1);
    let status = group.node(leader).status();
    assert_eq!((status.role, status.term), (Role::Leader, term), "nobody else was needed");
}

/// How long commits take meanwhile is for the long form to judge (`ringleader bench catch-up --limit`): here, that there are any.
#[test]
fn commits_are_measured_while_a_follower_comes_back() {
    let group = CommitPlan {
        carrier: Carrier::SharedMemory,
        nodes: 3,
        samples: 200,
        size: 512,
        ring_len: 512 << 10,
        profile: Profile::Local,
        idle: Idle::Adaptive,
    };
    let measured =
        bench::catch_up(&CatchUpPlan { group, state_len: 2 << 20 }).expect("nothing is in the way");
    assert_eq!(measured.loads, 1);
    // All that the ring holds was committed without the one that stood still; its return was not waited for.
    assert!(measured.stopped.commit_ns.len() >= 800);
    let phases = [&measured.before, &measured.stopped, &measured.catching, &measured.after];
    for phase in phases {
        let (commit, floor) = (&phase.commit_ns, &phase.floor_ns);
        assert!(commit.len() >= 100 && floor.len() >= 100);
        println!(
            "commit p50 {} ns, longest {} ns; floor p50 {} ns",
            commit.value_at_quantile(0.5),
            commit.max(),
            floor.value_at_quantile(0.5)
        );
    }
}

#[test]
fn nobody_waits_for_a_source_that_stands_still() {
    let group = Group::form(Settings { nodes: 5, ..Settings::default() });
    let leader = group.leader();
    let late = group.ids().find(|id| *id != leader).expect("five nodes");
    group.stop(late);
    group.propose_rings(3);
    group.stop_in_save();
    group.go_on(late);
    // One of the others was asked, and saves for ever.
    let source = until("somebody saves", || {
        group.propose(64);
        let status = group.node(leader).status();
        let follower = status.followers.iter().find(|follower| follower.node == late)?;
        match follower.catch_up {
            Some(CatchUp::Saving { source }) if group.is_in_save() => Some(source),
            _ => None,
        }
    });
    assert_ne!(source, leader);
    group.propose_rings(2);
    group.go_on_saving();
    until("it is back", || {
        group.propose(64);
        let status = group.node(leader).status();
        let follower = status.followers.iter().find(|follower| follower.node == late)?;
        (follower.state == FollowerState::Window).then_some(())
    });
    group.all_equal();
}

#[test]
fn where_no_state_can_be_saved_the_leader_says_so_and_the_group_goes_on() {
    // The largest state does not fit.
    let group = Group::form(Settings { snapshot_len: 64 << 10, ..Settings::default() });
    let leader = group.leader();
    let late = group.ids().find(|id| *id != leader).expect("three nodes");
    group.stop(late);
    group.propose_rings(3);
    group.go_on(late);
    until("it is said", || {
        let status = group.node(leader).status();
        let follower = status.followers.iter().find(|follower| follower.node == late)?;
        (follower.catch_up == Some(CatchUp::NoSource)).then_some(())
    });
    group.propose_rings(1);
    assert_eq!(group.loads(late), 0);
    // And a machine that knows nothing of it refuses both.
    let mut closure = |_: ringleader::Entry<'_>| {};
    assert!(closure.save(&mut Vec::new()).is_err() && closure.load(&[]).is_err());
}

#[test]
fn a_node_is_closed_while_its_state_is_being_saved() {
    let mut group = Group::form(Settings { nodes: 5, ..Settings::default() });
    let leader = group.leader();
    let late = group.ids().find(|id| *id != leader).expect("five nodes");
    group.stop(late);
    group.propose_rings(3);
    group.stop_in_save();
    group.go_on(late);
    let source = until("somebody saves", || {
        group.propose(64);
        let status = group.node(leader).status();
        let follower = status.followers.iter().find(|follower| follower.node == late)?;
        match follower.catch_up {
            Some(CatchUp::Saving { source }) if group.is_in_save() => Some(source),
            _ => None,
        }
    });
    let closing = group.close(source);
    std::thread::sleep(Duration::from_millis(20));
    group.go_on_saving();
    closing.join().expect("no panic").expect("a clean end");
    until("it is back without that source", || {
        group.propose(64);
        let leader = group.try_leader()?;
        let status = group.node(leader).status();
        let follower = status.followers.iter().find(|follower| follower.node == late)?;
        (follower.state == FollowerState::Window).then_some(())
    });
    assert!(PATIENCE > Duration::ZERO);
    group.all_equal();
}
