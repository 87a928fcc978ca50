//! Fences between processes: a writer that runs, is stopped, is stopped in mid-copy, is killed.

mod shm_common;

use std::time::{Duration, Instant};

use ringleader::fabric::Fabric;
use ringleader_core::verb::{Class, Status, Verb};
use rustix::process::Signal;
use shm_common::{Acceptor, FENCE_LIMIT, TARGET_LEN, WRITE_LEN, WRITER, Writer, id, reap_one, run, wait_for};

/// Not a test: what the children of the tests below run.
#[test]
fn writer_process() {
    shm_common::writer_process();
}

fn start(dir: &tempfile::TempDir, stop_in: Option<u32>) -> (Acceptor, Writer) {
    let mut acceptor = Acceptor::new(dir.path());
    let writer = Writer::start(dir.path(), stop_in);
    acceptor.meet(&writer);
    (acceptor, writer)
}

/// Long enough for a copy that is under way to show, and for many more to be tried.
fn assert_stands_still(acceptor: &Acceptor, before: &[u64]) {
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(5) {
        assert!(acceptor.snapshot() == before, "bytes landed behind the fence");
    }
}

#[test]
fn nothing_lands_behind_a_fence_of_a_writer_that_never_pauses() {
    let dir = tempfile::tempdir().unwrap();
    let (mut acceptor, _writer) = start(&dir, None);
    acceptor.want_writes(u64::MAX);
    for round in 0..60 {
        let (writes, refusals) = (acceptor.writes(), acceptor.refusals());
        acceptor.let_write();
        wait_for("writes", || (acceptor.writes() > writes + round % 7).then_some(()));
        acceptor.fence();
        let before = acceptor.snapshot();
        assert_stands_still(&acceptor, &before);
        acceptor.wait_closed();
        assert_eq!(acceptor.refusals(), refusals + 1, "the writer learnt of the fence by one refusal");
        assert!(acceptor.snapshot() == before);
    }
    assert_eq!(acceptor.fabric.shots(), 0);
}

/// The writer stands in its copy number `stop_in`: half of the words are new, half are not.
fn assert_half_written(acceptor: &Acceptor, stop_in: u64) {
    let words = acceptor.snapshot();
    let start = (stop_in - 1) * u64::from(WRITE_LEN) % TARGET_LEN / 8;
    let write = &words[start as usize..start as usize + WRITE_LEN as usize / 8];
    let (new, old) = write.split_at(write.len() / 2);
    assert!(new.iter().all(|word| *word == stop_in));
    assert!(old.iter().all(|word| *word != stop_in));
}

#[test]
fn a_writer_stopped_in_mid_copy_is_shot() {
    for stop_in in [1, 2, 17] {
        let dir = tempfile::tempdir().unwrap();
        let (mut acceptor, mut writer) = start(&dir, Some(stop_in));
        acceptor.want_writes(u64::MAX);
        acceptor.let_write();
        writer.wait_stopped();
        assert_half_written(&acceptor, u64::from(stop_in));
        let took = acceptor.fence();
        assert!(took >= FENCE_LIMIT, "shot after {took:?}");
        assert_eq!(acceptor.fabric.shots(), 1);
        let before = acceptor.snapshot();
        assert_eq!(writer.wait_end(), Some(Signal::KILL.as_raw()));
        assert_stands_still(&acceptor, &before);
    }
}

#[test]
fn a_writer_that_wakes_in_time_ends_its_copy_and_is_not_shot() {
    let dir = tempfile::tempdir().unwrap();
    let (mut acceptor, writer) = start(&dir, Some(3));
    acceptor.want_writes(u64::MAX);
    acceptor.let_write();
    writer.wait_stopped();
    acceptor.start_fence();
    let start = Instant::now();
    while start.elapsed() < FENCE_LIMIT / 4 {
        assert!(!acceptor.is_fenced(), "a copy is under way");
        std::thread::sleep(Duration::from_millis(1));
    }
    writer.signal(Signal::CONT);
    wait_for("the fence", || acceptor.is_fenced().then_some(()));
    let before = acceptor.snapshot();
    assert!(before[(2 * WRITE_LEN / 8) as usize..(3 * WRITE_LEN / 8) as usize].iter().all(|word| *word == 3));
    acceptor.wait_closed();
    assert_stands_still(&acceptor, &before);
    assert_eq!((acceptor.writes(), acceptor.fabric.shots()), (3, 0));
    acceptor.let_write();
    wait_for("writes", || (acceptor.writes() > 3).then_some(()));
}

#[test]
fn a_writer_stopped_between_copies_is_fenced_at_once_and_refused_later() {
    let dir = tempfile::tempdir().unwrap();
    let (mut acceptor, writer) = start(&dir, None);
    acceptor.want_writes(5);
    acceptor.let_write();
    wait_for("writes", || (acceptor.writes() == 5).then_some(()));
    writer.signal(Signal::STOP);
    writer.wait_stopped();
    acceptor.start_fence();
    assert!(acceptor.is_fenced(), "there is nothing to wait for");
    let before = acceptor.snapshot();
    acceptor.want_writes(u64::MAX);
    writer.signal(Signal::CONT);
    acceptor.wait_closed();
    assert_eq!((acceptor.writes(), acceptor.refusals(), acceptor.fabric.shots()), (5, 1, 0));
    assert_stands_still(&acceptor, &before);
}

#[test]
fn a_writer_killed_in_mid_copy_is_fenced_and_its_successor_starts_clean() {
    let dir = tempfile::tempdir().unwrap();
    let (mut acceptor, mut writer) = start(&dir, Some(4));
    acceptor.want_writes(u64::MAX);
    acceptor.let_write();
    writer.wait_stopped();
    writer.signal(Signal::KILL);
    assert_eq!(writer.wait_end(), Some(Signal::KILL.as_raw()));
    assert_half_written(&acceptor, 4);

    // Its successor knows the epoch and numbers of the dead one, and tries: the grant is not for it.
    let before = acceptor.snapshot();
    let successor = Writer::start(dir.path(), None);
    wait_for("the successor's refusal", || (acceptor.refusals() == 1).then_some(()));
    assert_stands_still(&acceptor, &before);
    let took = acceptor.fence();
    assert!(took < FENCE_LIMIT, "{took:?}");
    assert_eq!(acceptor.fabric.shots(), 0);

    acceptor.meet(&successor);
    acceptor.let_write();
    wait_for("writes", || (acceptor.writes() > 10).then_some(()));
    acceptor.fence();
    let before = acceptor.snapshot();
    assert_stands_still(&acceptor, &before);
}

#[test]
fn a_stopped_peer_answers_and_a_dead_one_does_not() {
    let dir = tempfile::tempdir().unwrap();
    let (mut acceptor, mut writer) = start(&dir, None);
    let read = Verb::Read { id: id(WRITER, Class::Progress, 1), from: 0, to: 0, len: 64 };
    writer.signal(Signal::STOP);
    writer.wait_stopped();
    for _ in 0..100 {
        assert_eq!(run(&mut acceptor.fabric, read).0, Status::Success);
        std::thread::sleep(Duration::from_micros(100));
    }
    writer.signal(Signal::KILL);
    assert_eq!(writer.wait_end(), Some(Signal::KILL.as_raw()));
    let start = Instant::now();
    wait_for("the end to be noticed", || {
        acceptor.fabric.post(&read);
        (reap_one(&mut acceptor.fabric).unwrap().status == Status::Unreachable).then_some(())
    });
    let took = start.elapsed();
    println!("noticed after {took:?}");
    assert!(took < Duration::from_millis(50), "{took:?}");
    let connect = Verb::Connect { id: id(WRITER, Class::Connect, 2) };
    assert_eq!(run(&mut acceptor.fabric, connect).0, Status::Unreachable);
}
