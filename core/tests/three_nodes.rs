//! The smallest whole group: three replicas, a fabric that carries every verb out at once, no faults. What the simulator
//! does with faults, this shows without: a group forms, elects, commits, loses its leader, and goes on.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ringleader_core::event::Event;
use ringleader_core::layout::{control, log};
use ringleader_core::mem::{Area, Areas, Memory};
use ringleader_core::proposer::{Quorum, Role};
use ringleader_core::replica::{Options, Replica};
use ringleader_core::timing::Timing;
use ringleader_core::types::{Boot, Incarnation, Instant, NodeId};
use ringleader_core::verb::{Completion, Plane, Source, Status, Verb};

const RING: u64 = 512 * 1024;
const MS: u64 = 1_000_000;

#[derive(Clone)]
struct Words(Arc<[AtomicU64]>);

impl Memory for Words {
    fn words(&self) -> &[AtomicU64] {
        &self.0
    }
}

fn area(len: u64) -> Area<Words> {
    Area::new(Words((0..len / 8).map(|_| AtomicU64::new(0)).collect()))
}

fn copy(from: &Area<Words>, at: u64, to: &Area<Words>, place: u64, len: u32) {
    for word in 0..u64::from(len) / 8 {
        to.store(place + word * 8, from.load(at + word * 8));
    }
}

struct Node {
    replica: Replica<Words>,
    areas: Areas<Words>,
    /// Per peer: epoch armed or granted here, and whether granted.
    inbound: [(u32, bool); 4],
    applied: Vec<Vec<u8>>,
    committed: u64,
    alive: bool,
}

struct Group {
    nodes: Vec<Node>,
    now: u64,
}

impl Group {
    fn new() -> Group {
        let nodes = (1..=3u8).map(|id| {
            let areas = Areas {
                control: area(control::LEN),
                log: area(log::len(RING)),
                staging: area(log::len(RING)),
            };
            let mut peers = [false; 16];
            (1..=3).filter(|peer| *peer != id).for_each(|peer| peers[usize::from(peer)] = true);
            let options = Options {
                node: NodeId(id),
                peers,
                ring_len: RING,
                max_entry: RING / 8,
                timing: Timing::LOCAL,
                quorum: Quorum::Live,
                incarnation: Incarnation(10 + u64::from(id)),
                boot: Boot(20 + u64::from(id)),
                seed: u64::from(id),
            };
            let replica = Replica::new(options, areas.clone(), Instant(0)).expect("good options");
            Node { replica, areas, inbound: [(0, false); 4], applied: Vec::new(), committed: 0, alive: true }
        });
        Group { nodes: nodes.collect(), now: 0 }
    }

    fn carry_out(&mut self, me: usize, verb: Verb) -> Completion {
        let id = verb.id();
        let peer = id.peer.slot() - 1;
        let mut done = Completion { id, status: Status::Success, value: 7 };
        let (here, there) = (self.nodes[me].areas.clone(), self.nodes[peer].areas.clone());
        let epoch = id.epoch.0;
        match verb {
            Verb::Arm { .. } => self.nodes[me].inbound[peer + 1] = (epoch, false),
            Verb::Grant { .. } => self.nodes[me].inbound[peer + 1] = (epoch, true),
            Verb::Fence { .. } => self.nodes[me].inbound[peer + 1].1 = false,
            Verb::Open { .. } | Verb::Close { .. } => {}
            _ if !self.nodes[peer].alive => done.status = Status::Unreachable,
            Verb::Connect { .. } => {}
            Verb::Read { from, to, len, .. } => copy(&there.control, from, &here.staging, to, len),
            Verb::Write { plane, source, from, to, len, .. } => {
                let source = if source == Source::Staging { &here.staging } else { &here.log };
                match plane {
                    Plane::Control => copy(source, from, &there.control, to, len),
                    Plane::Log if self.nodes[peer].inbound[me + 1] == (epoch, true) => {
                        copy(source, from, &there.log, to, len);
                    }
                    Plane::Log => done.status = Status::Refused,
                }
            }
        }
        done
    }

    fn turn(&mut self) {
        self.now += MS / 4;
        for me in 0..self.nodes.len() {
            if !self.nodes[me].alive {
                continue;
            }
            self.nodes[me].replica.handle_tick(Instant(self.now));
            loop {
                while let Some(event) = self.nodes[me].replica.poll_event() {
                    if let Event::Committed { index, .. } = event {
                        self.nodes[me].committed = index.0;
                    }
                }
                let Node { replica, applied, .. } = &mut self.nodes[me];
                while replica.apply(|entry| applied.push(entry.payload.to_vec())) {}
                let Some(verb) = replica.poll_verb() else { break };
                let done = self.carry_out(me, verb);
                self.nodes[me].replica.handle_completion(Instant(self.now), done);
            }
        }
    }

    fn leader(&self) -> Option<usize> {
        self.nodes.iter().position(|node| node.alive && node.replica.status().role == Role::Leader)
    }

    fn until(&mut self, what: &str, mut happened: impl FnMut(&Group) -> bool) {
        for _ in 0..20_000 {
            if happened(self) {
                return;
            }
            self.turn();
        }
        panic!("not within five seconds: {what}");
    }

    fn propose(&mut self, from: usize, count: usize) {
        for i in 0..count {
            let leader = self.leader().expect("a leader");
            let payload = format!("entry {}", from + i);
            let ticket = self.nodes[leader]
                .replica
                .propose(Instant(self.now), payload.as_bytes())
                .expect("room in the ring");
            self.until("a commit", |group| group.nodes[leader].committed >= ticket.index.0);
        }
    }
}

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
