//! Stories that random schedules rarely tell, one test each, on production replicas and simulated memory. All invariants
//! are asked all the time; a story adds what must have happened.

use ringleader_core::timing::Timing;
use ringleader_core::types::NodeId;
use ringleader_core::verb::{Class, Plane};
use ringleader_tests::cluster::Cluster;
use ringleader_tests::fabric::{GateState, PipeId};
use ringleader_tests::invariants::Violation;
use ringleader_tests::schedule::Plan;

const TIMING: Timing = Timing::HARDWARE;
const SUSPECT: u64 = TIMING.suspect_after_ns;
const SOON: u64 = 30 * SUSPECT;
const SEEDS: std::ops::Range<u64> = 1..30;

/// A formed group with a leader that has committed something; the client proposes only what the story says.
fn group(seed: u64, nodes: u8) -> (Cluster, NodeId) {
    let mut cluster = Cluster::new(Plan::quiet(seed, nodes, TIMING), 400);
    cluster.proposing = false;
    cluster.form(NodeId(1));
    must(cluster.run_until(SOON, Cluster::is_formed), "formed");
    // Two may stand at the very beginning, and the second depose the first.
    pass(&mut cluster, SOON);
    let leader = cluster.leader().expect("somebody leads");
    say(&mut cluster, leader, 1, 100);
    (cluster, leader)
}

fn must(result: Result<bool, Violation>, what: &str) {
    match result {
        Ok(true) => {}
        Ok(false) => panic!("not in time: {what}"),
        Err(violation) => panic!("{violation}"),
    }
}

fn tell_unless(cluster: &mut Cluster, result: Result<bool, Violation>, what: &str) {
    if !matches!(result, Ok(true)) {
        println!("{}", cluster.fabric.trace.take().1.join("\n"));
    }
    must(result, what);
}

fn pass(cluster: &mut Cluster, for_ns: u64) {
    if let Err(violation) = cluster.run_for(for_ns) {
        panic!("{violation}");
    }
}

/// Proposes so many payloads one after the other, and waits until each is acknowledged.
fn say(cluster: &mut Cluster, leader: NodeId, count: usize, len: usize) {
    for number in 0..count {
        must(cluster.run_until(SOON, |cluster| cluster.member(leader).seen.leads), "it still leads");
        let before = cluster.client.acknowledged();
        let until = cluster.now_ns() + SOON;
        while !cluster.propose(leader, len) {
            assert!(cluster.now_ns() < until, "payload {number} of {count} is not taken");
            pass(cluster, TIMING.beat_ns / 4);
        }
        let done = cluster.run_until(SOON, |cluster| cluster.client.acknowledged() > before);
        tell_unless(cluster, done, "an acknowledgement");
    }
}

fn others(cluster: &Cluster, leader: NodeId) -> Vec<NodeId> {
    cluster.ids().filter(|id| *id != leader).collect()
}

fn another_leader(cluster: &mut Cluster, than: NodeId) -> NodeId {
    must(
        cluster.run_until(SOON, |cluster| cluster.leader().is_some_and(|leader| leader != than)),
        "another leader",
    );
    cluster.leader().expect("just seen")
}

fn all_applied(cluster: &mut Cluster, of: &[NodeId]) {
    let end = cluster.watch.history.end().position;
    must(
        cluster.run_until(SOON, |cluster| of.iter().all(|id| cluster.member(*id).seen.applied >= end)),
        "everybody has everything",
    );
}

#[test]
fn a_group_forms_elects_commits_and_applies() {
    for seed in SEEDS {
        for nodes in [3, 5] {
            let (mut cluster, leader) = group(seed, nodes);
            let led = cluster.watch.leaders.count();
            say(&mut cluster, leader, 10, 200);
            let all: Vec<NodeId> = cluster.ids().collect();
            all_applied(&mut cluster, &all);
            assert_eq!(cluster.client.acknowledged(), 11);
            assert_eq!(cluster.watch.leaders.count(), led, "nobody had a reason to depose the leader");
        }
    }
}

#[test]
fn a_leader_that_dies_is_replaced_and_nothing_acknowledged_is_lost() {
    for seed in SEEDS {
        let (mut cluster, leader) = group(seed, 3);
        say(&mut cluster, leader, 5, 200);
        cluster.propose(leader, 300);
        let later = seed * TIMING.beat_ns / 100;
        pass(&mut cluster, later);
        cluster.crash(leader);
        let died = cluster.now_ns();
        let next = another_leader(&mut cluster, leader);
        assert!(
            cluster.now_ns() - died <= 10 * SUSPECT,
            "{} us without a leader",
            (cluster.now_ns() - died) / 1000
        );
        say(&mut cluster, next, 5, 200);
        let left = others(&cluster, leader);
        all_applied(&mut cluster, &left);
    }
}

#[test]
fn a_leader_paused_over_an_election_wakes_up_and_none_of_its_writes_lands() {
    for seed in SEEDS {
        let (mut cluster, leader) = group(seed, 3);
        say(&mut cluster, leader, 3, 200);
        // Taken by the leader, and not sent yet when it is stopped.
        cluster.propose(leader, 60_000);
        cluster.pause(leader, u64::MAX);
        let next = another_leader(&mut cluster, leader);
        say(&mut cluster, next, 3, 200);
        for other in others(&cluster, leader) {
            let (state, passed) = cluster.fabric.gate_of(other, leader);
            assert_ne!(state, GateState::Granted, "node {other} was fenced from its former leader");
            assert_eq!(passed, 0);
        }
        let committed = cluster.watch.history.len();
        cluster.resume(leader);
        must(cluster.run_until(SOON, |cluster| !cluster.member(leader).seen.leads), "it gives up");
        // It believes that it had a majority, and may stand once more.
        pass(&mut cluster, SOON);
        let now = cluster.leader().expect("somebody leads");
        say(&mut cluster, now, 3, 200);
        all_applied(&mut cluster, &[leader, next]);
        assert!(cluster.watch.history.len() >= committed + 3);
    }
}

#[test]
fn a_fence_waits_for_pieces_that_passed_before_it() {
    let mut waited = 0;
    for seed in SEEDS {
        let (mut cluster, leader) = group(seed, 3);
        cluster.fabric.slow_landings(leader, 8 * SUSPECT);
        cluster.propose(leader, 30_000);
        pass(&mut cluster, 2 * TIMING.beat_ns);
        cluster.pause(leader, 20 * SUSPECT);
        let next = another_leader(&mut cluster, leader);
        say(&mut cluster, next, 3, 200);
        waited += cluster.fabric.faults.fences_waited;
        must(cluster.run_until(SOON, |cluster| !cluster.is_paused(leader)), "it goes on");
        all_applied(&mut cluster, &[leader]);
    }
    assert!(waited > 0, "no fence ever had to wait: the story was not told");
}

#[test]
fn a_stopped_minority_stops_nobody() {
    for seed in SEEDS {
        for (nodes, stopped) in [(3, 1), (5, 2)] {
            let (mut cluster, leader) = group(seed, nodes);
            let led = cluster.watch.leaders.count();
            let asleep: Vec<NodeId> = others(&cluster, leader).into_iter().take(stopped).collect();
            for id in &asleep {
                cluster.pause(*id, u64::MAX);
            }
            for _ in 0..20 {
                let begun = cluster.now_ns();
                say(&mut cluster, leader, 1, 200);
                let took = cluster.now_ns() - begun;
                assert!(took <= 5 * TIMING.beat_ns, "seed {seed}: {} us for one commit", took / 1000);
            }
            for id in &asleep {
                cluster.resume(*id);
            }
            all_applied(&mut cluster, &asleep);
            assert_eq!(cluster.watch.leaders.count(), led);
        }
    }
}

#[test]
fn the_ring_wraps_past_a_sleeping_follower_which_is_left_behind() {
    for seed in SEEDS.take(8) {
        let (mut cluster, leader) = group(seed, 3);
        let led = cluster.watch.leaders.count();
        let asleep = others(&cluster, leader)[0];
        let awake = others(&cluster, leader)[1];
        cluster.pause(asleep, u64::MAX);
        // Three laps.
        say(&mut cluster, leader, 40, 40_000);
        assert_eq!(cluster.watch.leaders.count(), led);
        cluster.resume(asleep);
        must(cluster.run_until(SOON, |cluster| cluster.is_behind(asleep)), "the leader names it");
        say(&mut cluster, leader, 20, 40_000);
        all_applied(&mut cluster, &[leader, awake]);
        assert!(cluster.member(asleep).seen.applied < cluster.member(leader).seen.base);
    }
}

#[test]
fn a_node_that_lost_its_memory_is_kept_out() {
    for seed in SEEDS {
        let (mut cluster, leader) = group(seed, 3);
        let lost = others(&cluster, leader)[0];
        let kept = others(&cluster, leader)[1];
        cluster.crash(lost);
        pass(&mut cluster, 3 * SUSPECT);
        cluster.start(lost);
        say(&mut cluster, leader, 5, 200);
        pass(&mut cluster, 20 * SUSPECT);
        assert!(!cluster.member(lost).seen.formed);
        // Its vote would make a majority with either of the others; it must not count.
        cluster.crash(kept);
        pass(&mut cluster, SOON);
        assert_eq!(cluster.leader(), None, "one of three and a stranger are no majority");
        assert!(!cluster.member(lost).seen.formed);
    }
}

#[test]
fn a_leader_cut_off_from_all_gives_up_and_follows_when_it_is_back() {
    for seed in SEEDS {
        let (mut cluster, leader) = group(seed, 5);
        for other in others(&cluster, leader) {
            cluster.fabric.cut(leader, other, true);
            cluster.fabric.cut(other, leader, true);
        }
        cluster.propose(leader, 500);
        let next = another_leader_but(&mut cluster, leader);
        must(cluster.run_until(SOON, |cluster| !cluster.member(leader).seen.leads), "it gives up alone");
        say(&mut cluster, next, 5, 200);
        for other in others(&cluster, leader) {
            cluster.fabric.cut(leader, other, false);
            cluster.fabric.cut(other, leader, false);
        }
        pass(&mut cluster, SOON);
        let now = cluster.leader().expect("somebody leads");
        say(&mut cluster, now, 3, 200);
        all_applied(&mut cluster, &[leader]);
    }
}

/// Waits for a leader of a later term, though the former still believes in itself.
fn another_leader_but(cluster: &mut Cluster, than: NodeId) -> NodeId {
    let other = |cluster: &Cluster| cluster.ids().find(|id| *id != than && cluster.member(*id).seen.leads);
    must(cluster.run_until(SOON, |cluster| other(cluster).is_some()), "another leader");
    other(cluster).expect("just seen")
}

#[test]
fn answers_that_are_cut_off_break_one_follower_and_depose_nobody() {
    for seed in SEEDS {
        let (mut cluster, leader) = group(seed, 3);
        let deaf = others(&cluster, leader)[0];
        cluster.fabric.cut(deaf, leader, true);
        say(&mut cluster, leader, 10, 200);
        pass(&mut cluster, 10 * SUSPECT);
        say(&mut cluster, leader, 10, 200);
        cluster.fabric.cut(deaf, leader, false);
        all_applied(&mut cluster, &[deaf]);
        assert!(cluster.member(leader).seen.leads);
    }
}

#[test]
fn a_broken_queue_pair_is_mended_without_an_election() {
    for seed in SEEDS {
        let (mut cluster, leader) = group(seed, 3);
        let led = cluster.watch.leaders.count();
        for follower in others(&cluster, leader) {
            cluster.fabric.break_pipe(PipeId { from: leader, to: follower, plane: Plane::Log });
            say(&mut cluster, leader, 3, 200);
            cluster.fabric.break_gate(follower, leader);
            say(&mut cluster, leader, 3, 200);
            pass(&mut cluster, 5 * SUSPECT);
        }
        let all: Vec<NodeId> = cluster.ids().collect();
        all_applied(&mut cluster, &all);
        assert!(cluster.member(leader).seen.leads);
        assert_eq!(cluster.watch.leaders.count(), led);
    }
}

#[test]
fn a_ring_full_of_entries_that_nobody_commits_can_be_left() {
    for seed in SEEDS.take(8) {
        let (mut cluster, leader) = group(seed, 3);
        let sleepers = others(&cluster, leader);
        for id in &sleepers {
            cluster.pause(*id, 12 * SUSPECT);
        }
        let until = cluster.now_ns() + 4 * SUSPECT;
        let mut refused = 0;
        while cluster.now_ns() < until {
            refused += u64::from(!cluster.propose(leader, 50_000));
            pass(&mut cluster, TIMING.beat_ns / 4);
        }
        assert!(refused > 0, "the ring never got full: the story was not told");
        must(
            cluster.run_until(SOON, |cluster| sleepers.iter().all(|id| !cluster.is_paused(*id))),
            "they wake",
        );
        pass(&mut cluster, SOON);
        let now = cluster.leader().expect("somebody leads");
        say(&mut cluster, now, 20, 50_000);
        let all: Vec<NodeId> = cluster.ids().collect();
        all_applied(&mut cluster, &all);
    }
}

#[test]
fn a_ring_full_of_entries_that_nobody_commits_can_be_left_by_another_leader() {
    for seed in SEEDS.take(8) {
        let (mut cluster, leader) = group(seed, 3);
        let sleepers = others(&cluster, leader);
        for id in &sleepers {
            cluster.pause(*id, 12 * SUSPECT);
        }
        let until = cluster.now_ns() + 4 * SUSPECT;
        while cluster.now_ns() < until {
            cluster.propose(leader, 3_000);
            pass(&mut cluster, TIMING.beat_ns / 10);
        }
        // Their memory holds what the leader sent while they slept; now it sleeps, and they must go on from that.
        cluster.pause(leader, u64::MAX);
        let next = another_leader(&mut cluster, leader);
        say(&mut cluster, next, 20, 50_000);
        cluster.resume(leader);
        all_applied(&mut cluster, &sleepers);
    }
}

#[test]
fn a_second_leader_change_during_a_take_over_loses_nothing() {
    for seed in SEEDS {
        let (mut cluster, first) = group(seed, 5);
        say(&mut cluster, first, 5, 2_000);
        cluster.propose(first, 60_000);
        cluster.pause(first, 15 * SUSPECT);
        let second = another_leader(&mut cluster, first);
        // Elected, and stopped before its followers have got its first entry.
        let within = seed * TIMING.beat_ns / 30;
        pass(&mut cluster, within);
        cluster.pause(second, 15 * SUSPECT);
        must(
            cluster.run_until(SOON, |cluster| cluster.leader().is_some_and(|id| id != first && id != second)),
            "a third leader",
        );
        let third = cluster.leader().expect("just seen");
        say(&mut cluster, third, 5, 2_000);
        let all: Vec<NodeId> = cluster.ids().collect();
        pass(&mut cluster, 20 * SUSPECT);
        all_applied(&mut cluster, &all);
    }
}

#[test]
fn an_end_made_anew_before_it_was_opened_is_armed_again_and_never_too_early() {
    for seed in 1..120 {
        let (mut cluster, leader) = group(seed, 3);
        let follower = others(&cluster, leader)[0];
        // The log queue pair has to be armed anew, and the connection breaks at some moment of that.
        cluster.fabric.weather.state_ns = (TIMING.beat_ns / 50, 3 * TIMING.beat_ns);
        cluster.fabric.weather.fence_ns = (TIMING.beat_ns / 50, TIMING.beat_ns);
        cluster.fabric.weather.tail_ppm = 300_000;
        cluster.fabric.weather.tail_ns = 3 * TIMING.beat_ns;
        cluster.fabric.break_pipe(PipeId { from: leader, to: follower, plane: Plane::Log });
        for _ in 0..3 {
            let within = 1 + seed * 7_919 % (2 * TIMING.beat_ns);
            pass(&mut cluster, within);
            cluster.fabric.break_pipe(PipeId { from: leader, to: follower, plane: Plane::Control });
        }
        say(&mut cluster, leader, 3, 200);
        all_applied(&mut cluster, &[follower]);
    }
}

#[test]
fn a_leader_alone_does_not_lock_out_the_follower_that_it_will_need() {
    for seed in SEEDS {
        let (mut cluster, leader) = group(seed, 3);
        let (far, near) = (others(&cluster, leader)[0], others(&cluster, leader)[1]);
        cluster.fabric.cut(leader, far, true);
        cluster.fabric.cut(far, leader, true);
        pass(&mut cluster, SUSPECT);
        // The far one misses less than a quarter of the ring; then the near one dies.
        say(&mut cluster, leader, 3, 30_000);
        cluster.crash(near);
        let until = cluster.now_ns() + 4 * SUSPECT;
        while cluster.now_ns() < until {
            cluster.propose(leader, 60_000);
            pass(&mut cluster, TIMING.beat_ns / 4);
        }
        cluster.fabric.cut(leader, far, false);
        cluster.fabric.cut(far, leader, false);
        pass(&mut cluster, SOON);
        let now = cluster.leader().expect("two of three are a majority");
        say(&mut cluster, now, 10, 60_000);
        all_applied(&mut cluster, &[leader, far]);
    }
}

/// A vote that was given and not granted yet is the candidate's life's that asked, not the next one's.
#[test]
fn who_lost_its_memory_is_never_let_write() {
    let mut told = 0;
    for seed in SEEDS {
        let (mut cluster, leader) = group(seed, 3);
        let (one, other) = (others(&cluster, leader)[0], others(&cluster, leader)[1]);
        cluster.fabric.weather.slow_step = Some((Class::Arm, 30 * SUSPECT));
        for (from, to) in [(one, other), (other, one)] {
            cluster.fabric.break_pipe(PipeId { from, to, plane: Plane::Control });
        }
        let closed = |cluster: &Cluster, at, from| cluster.fabric.gate_of(at, from).0 == GateState::Closed;
        must(
            cluster.run_until(SOON, |cluster| closed(cluster, one, other) && closed(cluster, other, one)),
            "both ends are closed",
        );
        pass(&mut cluster, 6 * SUSPECT);
        cluster.crash(leader);
        let voted = |cluster: &Cluster, at: NodeId, by: NodeId| cluster.promise(at).node() == by;
        let either = |cluster: &Cluster| voted(cluster, one, other) || voted(cluster, other, one);
        must(cluster.run_until(SOON, either), "one has the other's vote, and is not armed there");
        let (at, candidate) = if voted(&cluster, one, other) { (one, other) } else { (other, one) };
        if cluster.fabric.gate_of(at, candidate).0 == GateState::Granted {
            continue;
        }
        told += 1;
        cluster.crash(candidate);
        cluster.fabric.weather.slow_step = None;
        pass(&mut cluster, SUSPECT);
        cluster.start(candidate);
        let granted = |cluster: &Cluster| cluster.fabric.gate_of(at, candidate).0 == GateState::Granted;
        match cluster.run_until(3 * SOON, granted) {
            Ok(granted) => assert!(!granted, "seed {seed}: a life that is no member can write"),
            Err(violation) => panic!("{violation}"),
        }
    }
    assert!(told > 10, "the story was told {told} times");
}
