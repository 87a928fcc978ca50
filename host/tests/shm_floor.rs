//! The floor: what one WRITE of 128 bytes costs from post to reaped, in this process alone and with a poller at the other
//! end. The times are printed only; what is asserted is that everything completed, and that nothing was allocated.

#![expect(unsafe_code, reason = "an allocator that counts")]

mod shm_common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use ringleader::fabric::Fabric;
use ringleader::fabric::shm::ShmFabric;
use ringleader_core::mem::Memory;
use ringleader_core::types::NodeId;
use ringleader_core::verb::{Class, Completion, Plane, Source, Status, Verb};
use shm_common::{ACCEPTOR, WRITER, create, id, run};

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: everything is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promises are the system allocator's conditions.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(start, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations() -> u64 {
    ALLOCATIONS.with(Cell::get)
}

const WRITES: u32 = 200_000;

fn nanoseconds_a_write(fabric: &mut ShmFabric, len: u32) -> f64 {
    let id = id(ACCEPTOR, Class::Entries, 1);
    let mut out = [Completion { id, status: Status::Failed, value: 0 }; 8];
    let allocated = allocations();
    let start = Instant::now();
    for i in 0..u64::from(WRITES) {
        let at = 65536 + i * u64::from(len) % (256 * 1024);
        let (plane, source) = (Plane::Log, Source::Staging);
        fabric.post(&Verb::Write { id, plane, source, from: at, to: at, len });
        assert_eq!((fabric.reap(&mut out), out[0].status), (1, Status::Success));
    }
    let took = start.elapsed();
    // A peer that is not there is looked for again and again.
    fabric.post(&Verb::Connect { id: shm_common::id(NodeId(9), Class::Connect, 1) });
    assert_eq!((fabric.reap(&mut out), out[0].status), (1, Status::Unreachable));
    assert_eq!(allocations(), allocated, "nothing is allocated after the start");
    took.as_nanos() as f64 / f64::from(WRITES)
}

#[test]
fn floor() {
    let dir = tempfile::Builder::new().tempdir_in("/dev/shm").unwrap();
    let (mut acceptor, areas) = create(dir.path(), ACCEPTOR).unwrap();
    let (mut writer, _writer_areas) = create(dir.path(), WRITER).unwrap();
    let connect = |fabric: &mut ShmFabric, peer| {
        let (status, numbers) = run(fabric, Verb::Connect { id: id(peer, Class::Connect, 1) });
        assert_eq!(status, Status::Success);
        numbers
    };
    let numbers = connect(&mut writer, ACCEPTOR);
    connect(&mut acceptor, WRITER);
    let (status, numbers) = run(&mut acceptor, Verb::Arm { id: id(WRITER, Class::Arm, 1), numbers });
    assert_eq!(status, Status::Success);
    let open = Verb::Open { id: id(ACCEPTOR, Class::Open, 1), numbers };
    assert_eq!(run(&mut writer, open).0, Status::Success);
    let grant = Verb::Grant { id: id(WRITER, Class::Grant, 1) };
    assert_eq!(run(&mut acceptor, grant).0, Status::Success);

    for len in [64, 128, 4096] {
        nanoseconds_a_write(&mut writer, len);
        let alone = nanoseconds_a_write(&mut writer, len);
        let stop = AtomicBool::new(false);
        let polled = std::thread::scope(|scope| {
            scope.spawn(|| {
                // What an acceptor does: looks at the beat and at the first words of the ring.
                while !stop.load(Ordering::Relaxed) {
                    std::hint::black_box(areas.log.words()[0].load(Ordering::Acquire));
                    std::hint::black_box(areas.log.words()[8192].load(Ordering::Acquire));
                    std::hint::spin_loop();
                }
            });
            let polled = nanoseconds_a_write(&mut writer, len);
            stop.store(true, Ordering::Relaxed);
            polled
        });
        println!("WRITE of {len} bytes, post and reap: {alone:.1} ns, beside a poller {polled:.1} ns");
    }
}
