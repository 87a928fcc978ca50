//! The simulated fabric itself: what it promises (protocol.md 2), and what it does not.

use ringleader_core::layout::log;
use ringleader_core::types::{Epoch, NodeId};
use ringleader_core::verb::{Class, Completion, Plane, RequestId, Source, Status, Verb};
use ringleader_tests::fabric::{Domain, Fabric, Home, Weather};
use ringleader_tests::trace::Trace;

const RING: u64 = 512 * 1024;
const WRITER: NodeId = NodeId(1);
const ACCEPTOR: NodeId = NodeId(2);

fn id(peer: NodeId, class: Class, epoch: u32, number: u32) -> RequestId {
    RequestId { peer, class, epoch: Epoch(epoch), number }
}

fn write(epoch: u32, number: u32, offset: u64, len: u32) -> Verb {
    let id = id(ACCEPTOR, Class::Entries, epoch, number);
    let offset = log::RING + offset;
    Verb::Write { id, plane: Plane::Log, source: Source::Staging, from: offset, to: offset, len }
}

/// Two nodes, and the homes of both.
fn two(seed: u64, weather: Weather) -> (Fabric, Home, Home) {
    let mut fabric = Fabric::new(seed, false, weather, Trace::new(0));
    let (writer, acceptor) = (Home::new(RING, 0), Home::new(RING, 0));
    fabric.start(WRITER, writer.clone());
    fabric.start(ACCEPTOR, acceptor.clone());
    (fabric, writer, acceptor)
}

fn run(fabric: &mut Fabric) {
    while fabric.next_ns().is_some() {
        fabric.step();
    }
}

fn ask(fabric: &mut Fabric, node: NodeId, verb: Verb) -> Completion {
    fabric.post(node, verb);
    run(fabric);
    let done = fabric.reap(node).expect("a verb completes");
    assert_eq!(done.id, verb.id());
    done
}

/// Brings the log queue pair from the writer up to being granted, as life `epoch`.
fn grant(fabric: &mut Fabric, epoch: u32) {
    let connect = if epoch == 1 {
        Verb::Connect { id: id(ACCEPTOR, Class::Connect, 1, 1) }
    } else {
        Verb::Close { id: id(ACCEPTOR, Class::Close, epoch - 1, 1) }
    };
    let own = ask(fabric, WRITER, connect);
    let armed = ask(fabric, ACCEPTOR, Verb::Arm { id: id(WRITER, Class::Arm, epoch, 1), numbers: own.value });
    let opened =
        ask(fabric, WRITER, Verb::Open { id: id(ACCEPTOR, Class::Open, epoch, 1), numbers: armed.value });
    let granted = ask(fabric, ACCEPTOR, Verb::Grant { id: id(WRITER, Class::Grant, epoch, 1) });
    assert_eq!([own.status, armed.status, opened.status, granted.status], [Status::Success; 4]);
}

fn rough() -> Weather {
    let mut weather = Weather::calm(1_000, 500_000);
    weather.split_ppm = 1_000_000;
    weather.word_split_ppm = 500_000;
    weather.flight_ppm = 500_000;
    weather.flight_ns = 20_000;
    weather.landing_ppm = 500_000;
    weather.landing_ns = 20_000;
    weather
}

#[test]
fn a_successful_write_has_landed_whole() {
    for seed in 0..50 {
        let (mut fabric, writer, acceptor) = two(seed, rough());
        grant(&mut fabric, 1);
        writer.staging.write(log::RING, &[7; 512]);
        fabric.post(WRITER, write(1, 1, 0, 4096));
        let done = loop {
            fabric.step();
            if let Some(done) = fabric.reap(WRITER) {
                break done;
            }
        };
        assert_eq!(done.status, Status::Success);
        let mut landed = [0; 512];
        acceptor.log.read(log::RING, &mut landed);
        assert_eq!(landed, [7; 512]);
    }
}

#[test]
fn after_a_fence_nothing_lands_though_pieces_were_on_their_way() {
    let mut waited = 0;
    for seed in 0..300 {
        let (mut fabric, writer, acceptor) = two(seed, rough());
        grant(&mut fabric, 1);
        writer.staging.write(log::RING, &[7; 512]);
        fabric.post(WRITER, write(1, 1, 0, 4096));
        for _ in 0..seed % 4 {
            fabric.step();
        }
        fabric.post(ACCEPTOR, Verb::Fence { id: id(WRITER, Class::Fence, 1, 1) });
        loop {
            fabric.step();
            if fabric.reap(ACCEPTOR).is_some() {
                break;
            }
        }
        let mut at_fence = [0; 512];
        acceptor.log.read(log::RING, &mut at_fence);
        run(&mut fabric);
        let mut later = [0; 512];
        acceptor.log.read(log::RING, &mut later);
        assert_eq!(at_fence, later, "seed {seed}");
        waited += fabric.faults.fences_waited;
    }
    assert!(waited > 0, "no fence ever had to wait: the test shows nothing");
}

#[test]
fn without_draining_pieces_land_after_the_fence() {
    let mut weather = rough();
    weather.fence_drains = false;
    weather.fence_ns = (1, 2);
    let late = (0..300).filter(|seed| {
        let (mut fabric, writer, acceptor) = two(*seed, weather.clone());
        grant(&mut fabric, 1);
        writer.staging.write(log::RING, &[7; 512]);
        fabric.post(WRITER, write(1, 1, 0, 4096));
        fabric.post(ACCEPTOR, Verb::Fence { id: id(WRITER, Class::Fence, 1, 1) });
        while fabric.reap(ACCEPTOR).is_none() {
            fabric.step();
        }
        let landed = fabric.landings();
        run(&mut fabric);
        let _ = acceptor;
        fabric.landings() > landed
    });
    assert!(late.count() > 0);
}

#[test]
fn a_write_of_an_older_life_never_lands_in_a_newer() {
    for seed in 0..200 {
        let mut weather = rough();
        weather.flight_ppm = 1_000_000;
        weather.flight_ns = 200_000;
        let (mut fabric, writer, acceptor) = two(seed, weather);
        grant(&mut fabric, 1);
        writer.staging.write(log::RING, &[7; 8]);
        fabric.post(WRITER, write(1, 1, 0, 64));
        let before = fabric.now_ns();
        // It has left its source when the end is closed, and the acceptor fences and arms again.
        while fabric.next_ns().is_some_and(|next| next < before + 4_000) {
            fabric.step();
        }
        fabric.post(ACCEPTOR, Verb::Fence { id: id(WRITER, Class::Fence, 1, 1) });
        fabric.post(WRITER, Verb::Close { id: id(ACCEPTOR, Class::Close, 1, 1) });
        let closed = loop {
            fabric.step();
            match fabric.reap(WRITER) {
                Some(done) if done.id.class == Class::Close => break done,
                _ => {}
            }
        };
        while fabric.reap(ACCEPTOR).is_none() {
            fabric.step();
        }
        let mut at_fence = [0; 8];
        acceptor.log.read(log::RING, &mut at_fence);
        fabric.post(ACCEPTOR, Verb::Arm { id: id(WRITER, Class::Arm, 2, 1), numbers: closed.value });
        fabric.post(ACCEPTOR, Verb::Grant { id: id(WRITER, Class::Grant, 2, 1) });
        run(&mut fabric);
        let mut later = [0; 8];
        acceptor.log.read(log::RING, &mut later);
        assert_eq!(at_fence, later, "seed {seed}");
    }
}

#[test]
fn behind_an_error_everything_is_flushed_and_completions_keep_their_order() {
    for seed in 0..100 {
        let (mut fabric, writer, _) = two(seed, rough());
        grant(&mut fabric, 1);
        writer.staging.write(log::RING, &[7; 512]);
        fabric.post(WRITER, write(1, 1, 0, 64));
        fabric.post(ACCEPTOR, Verb::Fence { id: id(WRITER, Class::Fence, 1, 1) });
        for number in 2..6 {
            fabric.post(WRITER, write(1, number, 64 * u64::from(number), 64));
        }
        run(&mut fabric);
        let done: Vec<Completion> = std::iter::from_fn(|| fabric.reap(WRITER)).collect();
        assert_eq!(done.iter().map(|done| done.id.number).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
        let failed =
            done.iter().position(|done| done.status != Status::Success).expect("the fence stops some");
        assert!(done[failed + 1..].iter().all(|done| done.status == Status::Flushed), "{done:?}");
        let late = ask(&mut fabric, WRITER, write(1, 6, 0, 64));
        assert_eq!(late.status, Status::Flushed);
    }
}

#[test]
fn an_end_without_permission_refuses() {
    let (mut fabric, _, _) = two(1, Weather::calm(1_000, 500_000));
    let own = ask(&mut fabric, WRITER, Verb::Connect { id: id(ACCEPTOR, Class::Connect, 1, 1) });
    let armed =
        ask(&mut fabric, ACCEPTOR, Verb::Arm { id: id(WRITER, Class::Arm, 1, 1), numbers: own.value });
    ask(&mut fabric, WRITER, Verb::Open { id: id(ACCEPTOR, Class::Open, 1, 1), numbers: armed.value });
    assert_eq!(ask(&mut fabric, WRITER, write(1, 1, 0, 64)).status, Status::Refused);
}

#[test]
fn a_source_that_changes_under_a_write_is_a_breach() {
    let (mut fabric, writer, _) = two(1, Weather::calm(1_000, 500_000));
    grant(&mut fabric, 1);
    fabric.post(WRITER, write(1, 1, 0, 64));
    writer.staging.store(log::RING + 8, 1);
    run(&mut fabric);
    assert_eq!(fabric.take_breach().map(|breach| breach.invariant), Some(11));
}

#[test]
fn arming_before_the_other_end_is_closed_is_a_breach_and_can_acknowledge_what_never_landed() {
    let mut lied = 0;
    for seed in 0..200 {
        let (mut fabric, writer, acceptor) = two(seed, Weather::calm(1_000, 500_000));
        grant(&mut fabric, 1);
        writer.staging.write(log::RING, &[7; 8]);
        ask(&mut fabric, ACCEPTOR, Verb::Fence { id: id(WRITER, Class::Fence, 1, 1) });
        ask(&mut fabric, ACCEPTOR, Verb::Arm { id: id(WRITER, Class::Arm, 2, 1), numbers: 5 });
        assert_eq!(fabric.take_breach().map(|breach| breach.invariant), Some(11));
        let done = ask(&mut fabric, WRITER, write(1, 1, 0, 64));
        if done.status == Status::Success {
            assert_eq!(acceptor.log.load(log::RING), 0);
            lied += 1;
        }
    }
    assert!((20..100).contains(&lied), "{lied} of 200");
}

#[test]
fn a_link_that_is_cut_for_the_answers_only_lets_a_write_land_and_fail() {
    let (mut fabric, writer, acceptor) = two(1, Weather::calm(1_000, 500_000));
    grant(&mut fabric, 1);
    writer.staging.write(log::RING, &[7; 8]);
    fabric.cut(ACCEPTOR, WRITER, true);
    assert_eq!(ask(&mut fabric, WRITER, write(1, 1, 0, 64)).status, Status::Unreachable);
    assert_eq!(acceptor.log.load(log::RING), 7);
}

#[test]
fn a_dead_node_answers_nobody_and_its_next_life_knows_no_old_connection() {
    let (mut fabric, _, _) = two(1, Weather::calm(1_000, 500_000));
    grant(&mut fabric, 1);
    let read = Verb::Read { id: id(ACCEPTOR, Class::Progress, 1, 1), from: 128, to: 768, len: 128 };
    assert_eq!(ask(&mut fabric, WRITER, read).status, Status::Success);
    fabric.start(ACCEPTOR, Home::new(RING, 0));
    assert_eq!(ask(&mut fabric, WRITER, read).status, Status::Unreachable);
    assert_eq!(ask(&mut fabric, WRITER, write(1, 1, 0, 64)).status, Status::Unreachable);
    fabric.stop(ACCEPTOR);
    let connect = Verb::Connect { id: id(ACCEPTOR, Class::Connect, 2, 1) };
    assert_eq!(ask(&mut fabric, WRITER, connect).status, Status::Unreachable);
}

#[test]
fn a_dead_process_leaves_memory_that_answers_until_it_is_lost_too() {
    let (mut fabric, writer, acceptor) = two(1, Weather::calm(1_000, 500_000));
    grant(&mut fabric, 1);
    fabric.fail_domain(ACCEPTOR, Domain::Process);
    writer.staging.write(log::RING, &[7; 8]);
    assert_eq!(ask(&mut fabric, WRITER, write(1, 1, 0, 64)).status, Status::Success);
    assert_eq!(acceptor.log.load(log::RING), 7);
    let read = Verb::Read { id: id(ACCEPTOR, Class::Progress, 1, 1), from: 128, to: 768, len: 128 };
    assert_eq!(ask(&mut fabric, WRITER, read).status, Status::Success);
    assert_eq!((fabric.faults.writes_to_the_dead, fabric.faults.reads_of_the_dead), (1, 1));
    fabric.fail_domain(ACCEPTOR, Domain::Memory);
    assert_eq!(ask(&mut fabric, WRITER, read).status, Status::Unreachable);
    assert_eq!(ask(&mut fabric, WRITER, write(1, 2, 0, 64)).status, Status::Unreachable);
}

#[test]
fn a_lost_completion_never_comes_and_holds_up_all_behind_it_until_the_end_is_closed() {
    let (mut fabric, writer, acceptor) = two(1, Weather::calm(1_000, 500_000));
    grant(&mut fabric, 1);
    writer.staging.write(log::RING, &[7; 8]);
    fabric.weather.ack_lost_ppm = 1_000_000;
    fabric.post(WRITER, write(1, 1, 0, 64));
    run(&mut fabric);
    fabric.weather.ack_lost_ppm = 0;
    fabric.post(WRITER, write(1, 2, 64, 64));
    run(&mut fabric);
    assert!(fabric.reap(WRITER).is_none());
    assert_eq!(acceptor.log.load(log::RING), 7, "it has landed");
    fabric.post(WRITER, Verb::Close { id: id(ACCEPTOR, Class::Close, 1, 1) });
    run(&mut fabric);
    let done: Vec<Status> = std::iter::from_fn(|| fabric.reap(WRITER)).map(|done| done.status).collect();
    assert_eq!(done, [Status::Flushed, Status::Flushed, Status::Success]);
}

#[test]
fn a_fence_that_fails_has_waited_for_nothing_and_says_so() {
    let (mut fabric, _, _) = two(1, Weather::calm(1_000, 500_000));
    grant(&mut fabric, 1);
    fabric.weather.step_fails_ppm = 1_000_000;
    let fence = Verb::Fence { id: id(WRITER, Class::Fence, 1, 1) };
    assert_eq!(ask(&mut fabric, ACCEPTOR, fence).status, Status::Failed);
    fabric.weather.step_fails_ppm = 0;
    assert_eq!(ask(&mut fabric, ACCEPTOR, fence).status, Status::Success);
}

#[test]
fn words_of_a_line_are_read_at_different_times() {
    let mut torn = 0;
    for seed in 0..100 {
        let (mut fabric, _, acceptor) = two(seed, rough());
        grant(&mut fabric, 1);
        let read = Verb::Read { id: id(ACCEPTOR, Class::Progress, 1, 1), from: 128, to: 768, len: 128 };
        fabric.post(WRITER, read);
        while fabric.next_ns().is_some() {
            fabric.step();
            acceptor.control.store(128, fabric.now_ns());
            acceptor.control.store(240, fabric.now_ns());
        }
        torn += fabric.faults.torn_reads;
    }
    assert!(torn > 0);
}
