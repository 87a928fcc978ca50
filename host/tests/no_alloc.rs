//! Nothing is allocated between a proposal and its commit, on any node: a counting allocator says so.

#![expect(unsafe_code, reason = "a global allocator is unsafe to implement")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ringleader::{Entry, Node, Options, Outcome, Role};

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call is passed on as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps to the contract, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.realloc(memory, layout, size) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn nothing_is_allocated_between_a_proposal_and_its_commit() {
    let dir = tempfile::Builder::new().prefix("ringleader-test-").tempdir_in("/dev/shm").unwrap();
    let nodes: Vec<Node> = (1..=3)
        .map(|node| {
            let mut options = Options::new(dir.path(), node, [1, 2, 3]);
            options.ring_len = 1 << 20;
            Node::open(options, |_: Entry<'_>| {}).unwrap()
        })
        .collect();
    nodes[0].form(Duration::from_secs(20)).unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    let leader = loop {
        if let Some(leader) = nodes.iter().find(|node| node.status().role == Role::Leader) {
            break leader;
        }
        assert!(Instant::now() < deadline, "a node leads");
        thread::sleep(Duration::from_millis(1));
    };
    let mut handle = leader.handle();
    let payload = [7; 1000];
    let mut commit = |count: u32| {
        for _ in 0..count {
            handle.propose(&payload).unwrap();
            let (_, outcome) = handle.wait(Duration::from_secs(20)).expect("an outcome in time");
            assert!(matches!(outcome, Outcome::Committed { .. }), "{outcome:?}");
        }
        // And with several on their way.
        let mut outstanding = 0;
        for _ in 0..count {
            handle.propose(&payload).unwrap();
            outstanding += 1;
            if outstanding == 50 {
                handle.wait(Duration::from_secs(20)).expect("an outcome in time");
                outstanding -= 1;
            }
        }
        while handle.wait(Duration::from_secs(20)).is_some() {}
    };
    // More than a lap of the ring and of the lane: every page is there, followers are in window.
    commit(1500);
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    commit(1500);
    assert_eq!(ALLOCATIONS.load(Ordering::Relaxed) - before, 0);
}
