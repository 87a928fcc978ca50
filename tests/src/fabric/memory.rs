//! Registered memory of a simulated node: owned words that outlive the node, so that a dead one's can still be looked at.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ringleader_core::mem::{Area, Memory};

/// Words shared by a node, the fabric, and the invariants.
#[derive(Clone, Debug)]
pub struct SimMemory(Arc<[AtomicU64]>);

impl SimMemory {
    /// `len` bytes of zeros.
    pub fn zeroed(len: u64) -> SimMemory {
        SimMemory((0..len / 8).map(|_| AtomicU64::new(0)).collect())
    }
}

impl Memory for SimMemory {
    fn words(&self) -> &[AtomicU64] {
        &self.0
    }
}

/// An area in such memory.
pub type SimArea = Area<SimMemory>;

/// A hash of a range, good enough to tell that a byte in it changed.
pub fn fingerprint(area: &SimArea, offset: u64, len: u64) -> u64 {
    let start = (offset / 8) as usize;
    let words = &area.memory().words()[start..start + (len / 8) as usize];
    let mut lanes =
        [0x243f_6a88_85a3_08d3u64, 0x1319_8a2e_0370_7344, 0xa409_3822_299f_31d0, 0x082e_fa98_ec4e_6c89];
    let (fours, rest) = words.as_chunks::<4>();
    for four in fours {
        for (lane, word) in lanes.iter_mut().zip(four) {
            *lane =
                (*lane ^ word.load(Ordering::Relaxed)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        }
    }
    for word in rest {
        lanes[0] =
            (lanes[0] ^ word.load(Ordering::Relaxed)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    }
    lanes.iter().fold(len, |hash, lane| (hash ^ lane).wrapping_mul(0xd6e8_feb8_6659_fd93).rotate_left(32))
}

/// Whether two ranges of the same length hold the same bytes.
pub fn same(a: &SimArea, a_offset: u64, b: &SimArea, b_offset: u64, len: u64) -> bool {
    let (a_start, b_start, count) = ((a_offset / 8) as usize, (b_offset / 8) as usize, (len / 8) as usize);
    let a_words = &a.memory().words()[a_start..a_start + count];
    let b_words = &b.memory().words()[b_start..b_start + count];
    a_words.iter().zip(b_words).all(|(x, y)| x.load(Ordering::Relaxed) == y.load(Ordering::Relaxed))
}
