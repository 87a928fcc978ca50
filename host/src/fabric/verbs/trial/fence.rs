//! A fence tried out: a writer that never stops is fenced, over and over, and the log area watched afterwards.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use ringleader_core::layout::log;
use ringleader_core::verb::{Class, Status, Verb};

use super::super::qp::NUMBER_MASK;
use super::super::{Choice, FenceBy, VerbsError};
use super::rig::{Hub, Node, RING_LEN, bytes, connect, id, open, write_log};

const WRITER: u8 = 1;
const ACCEPTOR: u8 = 2;
/// WRITEs kept under way, and the lengths that take turns: one packet, and several, in the middle of which a key may go.
const WINDOW: u32 = 24;
const PIECES: [u32; 2] = [8192, 1024];

/// Writes without end, each time other bytes, until told to stop or until its queue pair breaks.
fn blast(writer: &mut Node, epoch: u32, stop: &AtomicBool) {
    let places = (RING_LEN / u64::from(PIECES[0])) as u32;
    let (mut posted, mut ended) = (0u32, 0u32);
    while !stop.load(Ordering::Relaxed) {
        while posted.wrapping_sub(ended) < WINDOW {
            let offset = log::RING + u64::from(posted % places) * u64::from(PIECES[0]);
            let len = PIECES[posted as usize % 2];
            for word in 0..u64::from(len) / 8 {
                writer.staging.store(offset + word * 8, (u64::from(epoch) << 32) | (u64::from(posted) + 1));
            }
            writer.post(write_log(ACCEPTOR, epoch, posted & NUMBER_MASK, offset, len));
            posted += 1;
        }
        ended += writer.reap() as u32;
        if writer.ended.drain(..).any(|done| done.status != Status::Success) {
            break;
        }
    }
    while ended < posted {
        ended += writer.reap() as u32;
        writer.ended.clear();
    }
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct FenceTrial {
    /// Fences.
    pub rounds: u32,
    /// Those after which bytes landed.
    pub late: u32,
    /// From asking for a fence to its completion, in nanoseconds.
    pub fence_ns: Histogram<u64>,
    /// From asking for the arm of a closed queue pair to its completion, in nanoseconds.
    pub arm_ns: Histogram<u64>,
    /// From asking for a grant to its completion, in nanoseconds.
    pub grant_ns: Histogram<u64>,
}

/// Fences a writer on the same device `rounds` times, in the middle of its stream, and compares the log area for `watch` after
/// each.
pub fn try_fence(
    choice: &Choice,
    fence_by: Option<FenceBy>,
    rounds: u32,
    watch: Duration,
) -> Result<FenceTrial, VerbsError> {
    let hub = Hub::default();
    let mut writer = Node::new(&hub, WRITER, &[ACCEPTOR], choice, None)?;
    let mut acceptor = Node::new(&hub, ACCEPTOR, &[WRITER], choice, fence_by)?;
    let (mut numbers, _) = connect((&mut writer, WRITER), (&mut acceptor, ACCEPTOR), 1);
    let histogram = || Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("these bounds are valid");
    let mut trial =
        FenceTrial { rounds, late: 0, fence_ns: histogram(), arm_ns: histogram(), grant_ns: histogram() };
    for round in 1..=rounds {
        let took = open((&mut writer, WRITER), (&mut acceptor, ACCEPTOR), round, numbers);
        trial.arm_ns.saturating_record(took.0);
        trial.grant_ns.saturating_record(took.1);
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            blast(&mut writer, round, &told);
            writer
        });
        // In the middle of the stream, which begins when the thread does.
        let wait = Instant::now() + Duration::from_secs(10);
        while acceptor.log.load(log::RING) >> 32 != u64::from(round) {
            assert!(Instant::now() < wait, "a granted writer writes");
            std::thread::yield_now();
        }
        std::thread::sleep(Duration::from_micros(3000 + u64::from(round) % 7 * 913));
        let begun = Instant::now();
        let fenced = acceptor.does(Verb::Fence { id: id(WRITER, Class::Fence, round, 0) });
        trial.fence_ns.saturating_record(begun.elapsed().as_nanos() as u64);
        assert_eq!(fenced.status, Status::Success, "a fence works");
        let after = bytes(&acceptor.log);
        let until = Instant::now() + watch;
        let mut changed = false;
        while Instant::now() < until && !changed {
            changed = bytes(&acceptor.log) != after;
            std::thread::sleep(Duration::from_millis(2));
        }
        trial.late += u32::from(changed);
        stop.store(true, Ordering::Relaxed);
        writer = thread.join().expect("the writer ends");
        let closed = writer.does(Verb::Close { id: id(ACCEPTOR, Class::Close, round, 0) });
        assert_eq!(closed.status, Status::Success, "a close works");
        // Flags alone leave the queue pair up: the next arm wants it closed.
        numbers = closed.value;
    }
    Ok(trial)
}
