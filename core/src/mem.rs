//! Memory that others write, and what only the processor can do with it: the one file of the core with `unsafe`.
//!
//! An [`Area`] is a range of 64-bit words in registered memory. Peers write it at any moment, without this processor
//! taking part, so every word is an atomic: loads and stores are of whole words, and nothing larger is promised
//! (protocol.md 2, A4). Bytes are copied out and judged; only bytes that are *final* (at or below the anchor: every
//! later WRITE over them is of the same bytes or none) are ever lent as a slice.

#![expect(
    unsafe_code,
    reason = "final bytes of shared memory are lent to the application as a slice, without a copy"
)]

use core::sync::atomic::{AtomicU64, Ordering, fence};

use crate::layout::snapshot;

/// Who owns or maps the words of an area: the host's mapping in production, an array in simulator and model.
///
/// The slice's address and length never change during the life of the value, and its start is 64-byte aligned where the
/// bytes go to a device.
pub trait Memory {
    /// The words.
    fn words(&self) -> &[AtomicU64];
}

impl<M: Memory + ?Sized> Memory for &M {
    fn words(&self) -> &[AtomicU64] {
        (**self).words()
    }
}

impl Memory for [AtomicU64] {
    fn words(&self) -> &[AtomicU64] {
        self
    }
}

/// A range of words that others may write at any time. Offsets and lengths are in bytes and multiples of 8.
///
/// An offset outside the area is a bug of the caller and panics: numbers read from memory are checked before they
/// become offsets.
#[derive(Clone, Debug)]
pub struct Area<M> {
    memory: M,
}

impl<M: Memory> Area<M> {
    /// The area over `memory`.
    pub fn new(memory: M) -> Area<M> {
        Area { memory }
    }

    /// The memory under the area.
    pub fn memory(&self) -> &M {
        &self.memory
    }

    /// Length in bytes.
    pub fn len(&self) -> u64 {
        self.memory.words().len() as u64 * 8
    }

    /// Whether there is no word in it.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One word, whole.
    #[inline]
    pub fn load(&self, offset: u64) -> u64 {
        // Relaxed: a single word carries no order. Who needs one calls `acquire` between two loads.
        self.memory.words()[(offset / 8) as usize].load(Ordering::Relaxed)
    }

    /// Stores one word, whole.
    #[inline]
    pub fn store(&self, offset: u64, word: u64) {
        // Release: who sees this word sees what was stored before it. Costs nothing on x86-64.
        self.memory.words()[(offset / 8) as usize].store(word, Ordering::Release);
    }

    /// Copies words out, each whole, in no order that may be relied on.
    #[inline]
    pub fn read(&self, offset: u64, out: &mut [u64]) {
        let start = (offset / 8) as usize;
        let words = &self.memory.words()[start..start + out.len()];
        for (to, from) in out.iter_mut().zip(words) {
            *to = from.load(Ordering::Relaxed);
        }
    }

    /// Copies words in.
    #[inline]
    pub fn write(&self, offset: u64, words: &[u64]) {
        let start = (offset / 8) as usize;
        for (to, from) in self.memory.words()[start..start + words.len()].iter().zip(words) {
            to.store(*from, Ordering::Relaxed);
        }
        // Whoever sees a word stored after this call sees the words above (a store of a cursor, a mark, a doorbell).
        fence(Ordering::Release);
    }

    /// Copies `len` bytes at `offset` from the same offset of another area of the same geometry.
    pub fn copy_from<N: Memory>(&self, other: &Area<N>, offset: u64, len: u64) {
        let (start, end) = ((offset / 8) as usize, ((offset + len) / 8) as usize);
        for (to, from) in self.memory.words()[start..end].iter().zip(&other.memory.words()[start..end]) {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        fence(Ordering::Release);
    }

    /// Fills `len` bytes at `offset`: some words, bytes, zeros, and one word at the very end.
    #[inline]
    pub fn write_padded(&self, offset: u64, len: u64, head: &[u64], bytes: &[u8], last: u64) {
        let slot = &self.memory.words()[(offset / 8) as usize..((offset + len) / 8) as usize];
        let Some((tail, body)) = slot.split_last() else { return };
        let put = |to: &[AtomicU64], from: &[u64]| {
            to.iter().zip(from).for_each(|(to, word)| to.store(*word, Ordering::Relaxed));
        };
        let (start, body) = body.split_at(head.len());
        put(start, head);
        let (whole, rest) = bytes.as_chunks::<8>();
        let (middle, body) = body.split_at(whole.len());
        middle
            .iter()
            .zip(whole)
            .for_each(|(to, word)| to.store(u64::from_le_bytes(*word), Ordering::Relaxed));
        let mut zeros = body;
        if let ([_, ..], Some((to, behind))) = (rest, body.split_first()) {
            let mut padded = [0; 8];
            padded[..rest.len()].copy_from_slice(rest);
            to.store(u64::from_le_bytes(padded), Ordering::Relaxed);
            zeros = behind;
        }
        zeros.iter().for_each(|word| word.store(0, Ordering::Relaxed));
        // Release: whoever sees the last word may look for the others.
        tail.store(last, Ordering::Release);
    }

    /// Lends bytes that are final.
    ///
    /// The caller has established that the bytes are at or below the anchor and above what recycling may reuse; by the
    /// protocol no node changes them as long as `applied` has not passed them.
    pub(crate) fn lend(&self, offset: u64, len: usize) -> &[u8] {
        let start = (offset / 8) as usize;
        let words = &self.memory.words()[start..start + len.div_ceil(8)];
        // SAFETY: the range is inside the slice just taken, `AtomicU64` has the layout of `u64` without padding, and
        // the bytes are final: writers only ever store the value that already stands there (protocol.md 5 and 8, Room),
        // so what is read does not change. `len` is at most `words.len() * 8`.
        unsafe { core::slice::from_raw_parts(words.as_ptr().cast::<u8>(), len) }
    }
}

impl<M: Memory> Area<M> {
    /// Lends the first `len` bytes of a snapshot that is being loaded, from the snapshot area; `None` when that is shorter.
    ///
    /// For `Event::LoadSnapshot`, until it is answered: from the one to the other nothing is stored there, neither by the core nor
    /// for it (peers have no permission, and no READ into the area is under way), and no
    /// [`Writer`](crate::snapshot::Writer) may be used by the host.
    pub fn lend_loading(&self, len: u64) -> Option<&[u8]> {
        let end = snapshot::BYTES.checked_add(len)?;
        (end <= self.len()).then(|| self.lend(snapshot::BYTES, len as usize))
    }
}

/// The memory of one replica, all zero at its start.
#[derive(Clone, Debug)]
pub struct Areas<M> {
    /// [`crate::layout::control`]: peers READ and WRITE it.
    pub control: Area<M>,
    /// [`crate::layout::log`]: the granted writer WRITEs it, all READ it.
    pub log: Area<M>,
    /// [`crate::layout::staging`]: only this node, and its NIC as source and target.
    pub staging: Area<M>,
    /// [`crate::layout::snapshot`]: peers READ it, only this node stores into it. Empty in a group without snapshots.
    pub snapshot: Area<M>,
}

/// Orders reads of memory that a device or another processor wrote: what is read after it is at least as new as what
/// was read before it.
///
/// On x86-64 and for coherent processors an acquire fence is enough; on Arm a device's writes need a barrier of the
/// outer shareable domain.
#[inline]
pub fn acquire() {
    fence(Ordering::Acquire);
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a barrier has no operands and touches no memory.
    unsafe {
        core::arch::asm!("dmb oshld", options(nostack, preserves_flags));
    }
}

/// CRC-32C of a few bytes, going on from `seed`, by the processor's own instruction; `None` where it has none.
///
/// A library that splits long inputs into streams takes longer to begin than this to end: lines and small entries are on
/// the way of every commit.
#[cfg(feature = "std")]
#[inline]
pub(crate) fn crc32c_of_few(seed: u32, bytes: &[u8]) -> Option<u32> {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{_mm_crc32_u8, _mm_crc32_u32, _mm_crc32_u64};

        #[target_feature(enable = "sse4.2")]
        fn by_instruction(seed: u32, bytes: &[u8]) -> u32 {
            let (words, rest) = bytes.as_chunks::<8>();
            let crc = words
                .iter()
                .fold(u64::from(!seed), |crc, word| _mm_crc32_u64(crc, u64::from_le_bytes(*word)));
            let (halves, rest) = rest.as_chunks::<4>();
            let crc =
                halves.iter().fold(crc as u32, |crc, half| _mm_crc32_u32(crc, u32::from_le_bytes(*half)));
            !rest.iter().fold(crc, |crc, byte| _mm_crc32_u8(crc, *byte))
        }

        if std::is_x86_feature_detected!("sse4.2") {
            // SAFETY: the processor was just seen to have the instruction.
            return Some(unsafe { by_instruction(seed, bytes) });
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (seed, bytes);
    None
}

/// A full barrier: what this processor stored before is visible to all before it reads or stores anything after.
#[inline]
pub fn full() {
    fence(Ordering::SeqCst);
}
