//! Host and acceptor, each with its end of the tests' stand-in for DOCA. What a NIC does with the key is done by the stand-in; what queue
//! pairs do with it is tried in the lab.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use ringleader_core::layout::log;
use ringleader_core::mem::Area;
use ringleader_doca::Library;
use ringleader_doca::stand_in::{self, Refusal};

use super::borrow::{Borrowed, Watch, borrow};
use super::doca::check;
use super::lend::{Lent, lend};
use crate::Options;
use crate::config::Config;
use crate::exchange::{KEY_LEN, Key};
use crate::fabric::verbs::{HostLog, LentLog, LogPlace};
use crate::service::Error;

const RING_LEN: u64 = 1 << 20;

static ONE: Mutex<()> = Mutex::new(());

/// A machine of its own for a test, one at a time.
struct Machine {
    dir: tempfile::TempDir,
    live: i64,
    _one: MutexGuard<'static, ()>,
}

impl Machine {
    fn new() -> Machine {
        let one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        let dir = tempfile::tempdir().expect("a directory");
        stand_in::set_directory(dir.path());
        stand_in::mend();
        Machine { dir, live: stand_in::live(), _one: one }
    }

    fn config(&self, device: &str, more: &str) -> Config {
        let text = format!(
            "group = \"orders\"\nfabric = \"verbs\"\nring = \"1M\"\nsnapshot = 0\n[members]\n1 = \"127.0.0.1:7401\"\n[verbs]\nkey_file = \"k\"\n\
             device = {device:?}\n[dpu]\nplacement = \"host\"\n{more}"
        );
        Config::parse(Path::new("node.toml"), &text, Some(1)).expect("a configuration")
    }

    fn host(&self) -> Config {
        self.config("standin_host", "")
    }

    fn dpu(&self) -> Config {
        self.config("standin_dpu", "host = \"0000:3b:00.0\"\n")
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        stand_in::mend();
        if !thread::panicking() {
            assert_eq!(stand_in::live(), self.live, "objects are left, or were freed twice");
            let left = std::fs::read_dir(self.dir.path()).expect("a directory").count();
            assert_eq!(left, 0, "files are left");
        }
    }
}

fn options(config: &Config) -> Options {
    config.verbs_options(Key::from_bytes([7; KEY_LEN])).expect("of RDMA")
}

fn lent(options: &Options) -> &LentLog {
    let LogPlace::Lent(lent) = &options.log else { panic!("not lent") };
    lent
}

fn taken(options: &Options) -> &HostLog {
    let LogPlace::OfHost(log) = &options.log else { panic!("not taken") };
    log
}

/// Until something is set, and a minute at the most.
fn patience(set: &AtomicBool) -> impl Fn() -> bool + '_ {
    let deadline = Instant::now() + Duration::from_secs(60);
    move || set.load(Ordering::Relaxed) || Instant::now() > deadline
}

/// The host's options, and the acceptor's, which has told its host and looks for another.
fn meet(host: &Config, dpu: &Config) -> (Options, Options, Watch) {
    let (lent, taken, watch) = meet_and_ask(host, dpu);
    (lent.0, taken, watch)
}

/// With what the host asks with later on.
fn meet_and_ask(host: &Config, dpu: &Config) -> ((Options, Lent), Options, Watch) {
    let never = AtomicBool::new(false);
    thread::scope(|scope| {
        let lending = scope.spawn(|| lend(host, options(host), patience(&never)).expect("lent"));
        let (taken, borrowed) = borrow(dpu, options(dpu), patience(&never)).expect("taken").expect("in time");
        assert!(!lending.is_finished(), "it is told when its acceptor stands, and not before");
        let watch = borrowed.map(Borrowed::accept).expect("asked for").expect("told");
        let (lent, ask) = lending.join().expect("lent").expect("in time");
        ((lent, ask.expect("asked for")), taken, watch)
    })
}

#[test]
fn what_is_written_by_the_loan_is_in_the_hosts_log_until_it_ends() {
    let machine = Machine::new();
    let (host, acceptor, watch) = meet(&machine.host(), &machine.dpu());
    let (memory, log) = (lent(&host).memory.clone(), taken(&acceptor).clone());
    assert_eq!(log.len(), log::len(RING_LEN));
    let (key, address) = (log.key(), log.address());
    let words: Vec<u8> = [7_u64, 8].iter().flat_map(|word| word.to_le_bytes()).collect();
    assert_eq!(stand_in::write(key, address + log::RING, &words), Ok(()));
    let area = Area::new(memory);
    assert_eq!([area.load(log::RING), area.load(log::RING + 8)], [7, 8]);
    // What the DPU reads is what the host has.
    area.store(log::RING, 9);
    let mut read = [0; 8];
    assert_eq!(stand_in::read(key, address + log::RING, &mut read), Ok(()));
    assert_eq!(u64::from_le_bytes(read), 9);
    assert_eq!(stand_in::write(key, address + log.len() - 8, &words), Err(Refusal::Range));
    // The acceptor gives it back; the host has its memory still, and nobody reaches it.
    drop((acceptor, log));
    assert_eq!(stand_in::write(key, address + log::RING, &words), Err(Refusal::Key));
    assert_eq!(area.load(log::RING), 9);
    drop((host, watch));
}

#[test]
fn a_host_that_ends_takes_its_memory_with_it() {
    let machine = Machine::new();
    let (host, acceptor, watch) = meet(&machine.host(), &machine.dpu());
    let (key, address) = (taken(&acceptor).key(), taken(&acceptor).address());
    assert_eq!(stand_in::write(key, address, &[1; 8]), Ok(()));
    drop(host);
    assert_eq!(stand_in::write(key, address, &[1; 8]), Err(Refusal::Export));
    drop((acceptor, watch));
}

#[test]
fn a_loan_that_cannot_be_given_back_stays_with_the_process() {
    let mut machine = Machine::new();
    let (host, acceptor, watch) = meet(&machine.host(), &machine.dpu());
    stand_in::fail("doca_mmap_destroy", 2);
    drop(acceptor);
    stand_in::mend();
    // The map, and its device.
    drop((host, watch));
    assert_eq!(stand_in::live() - machine.live, 2);
    machine.live = stand_in::live();
}

#[test]
fn a_host_that_comes_again_is_noticed_and_waits_for_who_comes_next() {
    let machine = Machine::new();
    let (host_config, dpu_config) = (machine.host(), machine.dpu());
    let (host, acceptor, mut watch) = meet(&host_config, &dpu_config);
    assert!(!watch.has_another_come());
    drop(host);
    assert!(!watch.has_another_come(), "one that has gone is none that has come");
    let never = AtomicBool::new(false);
    thread::scope(|scope| {
        let again = scope.spawn(|| lend(&host_config, options(&host_config), patience(&never)));
        let deadline = Instant::now() + Duration::from_secs(60);
        while !watch.has_another_come() {
            assert!(Instant::now() < deadline, "it is not noticed");
            thread::sleep(Duration::from_millis(2));
        }
        // The acceptor ends, and the next one has the new memory.
        drop((acceptor, watch));
        let taken = borrow(&dpu_config, options(&dpu_config), patience(&never)).expect("taken");
        let (next, borrowed) = taken.expect("in time");
        let watch = borrowed.map(Borrowed::accept).expect("asked for").expect("told");
        let (host, _) = again.join().expect("asked").expect("lent").expect("in time");
        let log = self::taken(&next).clone();
        assert_eq!(stand_in::write(log.key(), log.address(), &5_u64.to_le_bytes()), Ok(()));
        assert_eq!(Area::new(lent(&host).memory.clone()).load(0), 5);
        drop((next, log, watch, host));
    });
}

#[test]
fn a_host_whose_acceptor_came_again_hears_it_and_no_other_does() {
    let machine = Machine::new();
    let (host_config, dpu_config) = (machine.host(), machine.dpu());
    let ((host, lent), acceptor, mut watch) = meet_and_ask(&host_config, &dpu_config);
    let never = AtomicBool::new(false);
    thread::scope(|scope| {
        let asking = scope.spawn(|| lent.is_given_up());
        while !asking.is_finished() {
            assert!(!watch.has_another_come(), "it is no other host that asks");
            thread::sleep(Duration::from_millis(2));
        }
        assert!(!asking.join().expect("asked"), "it is given up by the acceptor that has it");
        drop((acceptor, watch));
        assert!(!lent.is_given_up(), "nobody says so");
        // The next one waits for memory, and goes on to wait after it was asked; what it takes is another host's.
        let again = scope.spawn(|| {
            let deadline = Instant::now() + Duration::from_secs(60);
            while !lent.is_given_up() {
                assert!(Instant::now() < deadline, "it is not heard");
            }
            drop(host);
            lend(&host_config, options(&host_config), patience(&never))
        });
        let taken = borrow(&dpu_config, options(&dpu_config), patience(&never)).expect("taken");
        let (next, borrowed) = taken.expect("in time");
        let mut watch = borrowed.map(Borrowed::accept).expect("asked for").expect("told");
        let (host, _) = again.join().expect("asked").expect("lent").expect("in time");
        // One that is late hears it from who has another's.
        let asking = scope.spawn(|| lent.is_given_up());
        while !asking.is_finished() {
            assert!(!watch.has_another_come());
            thread::sleep(Duration::from_millis(2));
        }
        assert!(asking.join().expect("asked"));
        drop((next, watch, host));
    });
    drop(lent);
}

#[test]
fn a_log_of_another_ring_is_refused_and_the_right_one_taken() {
    let machine = Machine::new();
    let (host, dpu) = (machine.host(), machine.dpu());
    let mut other = machine.host();
    other.ring_len = 2 << 20;
    let never = AtomicBool::new(false);
    thread::scope(|scope| {
        let lending = scope.spawn(|| {
            let refused = lend(&other, options(&other), patience(&never)).expect_err("refused");
            (refused, lend(&host, options(&host), patience(&never)).expect("lent"))
        });
        let borrowed = borrow(&dpu, options(&dpu), patience(&never));
        let (taken, borrowed) = borrowed.expect("taken").expect("in time");
        let watch = borrowed.map(Borrowed::accept).expect("asked for").expect("told");
        let (refused, host) = lending.join().expect("asked");
        let (host, _) = host.expect("in time");
        assert!(matches!(refused, Error::Wrong(_)));
        let why = refused.to_string();
        assert!(why.contains("2097152 bytes") && why.contains("1048576 bytes"), "{why}");
        drop((host, taken, watch));
    });
}

#[test]
fn who_waits_can_be_stopped() {
    let machine = Machine::new();
    let (host, dpu) = (machine.host(), machine.dpu());
    assert!(borrow(&dpu, options(&dpu), || true).expect("stopped").is_none());
    let since = Instant::now();
    let stopped = lend(&host, options(&host), || since.elapsed() > Duration::from_millis(100));
    assert!(stopped.expect("stopped").is_none());
    // Its thread notices with its next call, and frees what it has.
    let deadline = Instant::now() + Duration::from_secs(60);
    while stand_in::live() != machine.live {
        assert!(Instant::now() < deadline, "its thread does not end");
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn what_is_not_there_is_named() {
    let machine = Machine::new();
    let fails = |error: Result<bool, Error>| error.expect_err("wrong").to_string();
    let host = machine.config("mlx5_9", "");
    let said = fails(lend(&host, options(&host), || false).map(|_| true));
    assert!(said.contains("no DOCA device mlx5_9"), "{said}");
    let none = machine.config("standin_dpu", "");
    let said = fails(borrow(&none, options(&none), || false).map(|_| true));
    assert!(said.contains("node.toml") && said.contains("host = \"0000:3b:00.0\""), "{said}");
    let odd = machine.config("standin_dpu", "host = \"0000:99:00.0\"\n");
    let said = fails(borrow(&odd, options(&odd), || false).map(|_| true));
    assert!(said.contains("0000:99:00.0"), "{said}");
    stand_in::fail("doca_mmap_export_pci", 77);
    let host = machine.host();
    let said = fails(lend(&host, options(&host), || false).map(|_| true));
    assert!(said.contains("doca_mmap_export_pci") && said.contains("77"), "{said}");
}

#[test]
fn a_program_that_serves_takes_no_stand_in() {
    let _machine = Machine::new();
    let library = Library::load().expect("the stand-in");
    let said = check(&library, false).expect_err("refused").to_string();
    assert!(said.contains("stand-in") && said.contains("NVIDIA's SDK"), "{said}");
    check(&library, true).expect("in a test");
}
