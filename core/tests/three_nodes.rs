//! The smallest whole group, without faults: it forms, elects, commits, loses its leader, and goes on.

mod group;

use group::{Group, RING};
use ringleader_core::layout::log;
use ringleader_core::mem::Memory;
use ringleader_core::types::Instant;
use std::sync::atomic::Ordering;

#[test]
fn a_group_forms_commits_and_outlives_its_leader() {
    let mut group = Group::new();
    group.nodes[0].replica.form(Instant(0), 0x1234).expect("fresh");
    group.until("a leader", |group| group.leader().is_some());
    assert!(group.nodes.iter().all(|node| node.replica.status().group == 0x1234));
    group.propose(0, 100);

    let first = group.leader().expect("a leader");
    group.nodes[first].alive = false;
    group.until("another leader", |group| group.leader().is_some_and(|leader| leader != first));
    group.propose(100, 100);

    group.until("all is applied", |group| {
        group.nodes.iter().enumerate().all(|(i, node)| i == first || node.applied.len() == 200)
    });
    let expected: Vec<Vec<u8>> = (0..200).map(|i| format!("entry {i}").into_bytes()).collect();
    for (i, node) in group.nodes.iter().enumerate().filter(|(i, _)| *i != first) {
        assert_eq!(node.applied, expected, "node {}", i + 1);
    }
    let logs: Vec<_> = group.nodes.iter().filter(|node| node.alive).collect();
    for offset in (log::RING..log::RING + logs[0].replica.status().anchor.position.0).step_by(8) {
        assert_eq!(logs[0].areas.log.load(offset), logs[1].areas.log.load(offset));
    }
    assert!(logs[0].areas.log.memory().words()[0].load(Ordering::Relaxed) != 0, "beats came");
}

#[test]
fn the_ring_is_used_many_times_over() {
    let mut group = Group::new();
    group.nodes[1].replica.form(Instant(0), 5).expect("fresh");
    group.until("a leader", |group| group.leader().is_some());
    let leader = group.leader().expect("a leader");
    let mut proposed = 0u64;
    let mut rounds = 0;
    while proposed < 8 * RING {
        let payload = vec![rounds as u8; 1000 + rounds * 3571 % 60_000];
        if group.nodes[leader].replica.propose(Instant(group.now), &payload).is_ok() {
            proposed += payload.len() as u64;
            rounds += 1;
        } else {
            group.turn();
        }
    }
    group.until("all is applied", |group| group.nodes.iter().all(|node| node.applied.len() == rounds));
    assert_eq!(group.nodes[0].applied, group.nodes[1].applied);
    assert_eq!(group.nodes[0].applied, group.nodes[2].applied);
}
