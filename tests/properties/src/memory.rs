//! Areas of plain memory, all zero, of which only what is touched costs anything.

use std::sync::atomic::AtomicU64;

use ringleader_core::mem::{Area, Memory};
use zerocopy::FromZeros;

pub(crate) struct Words(Vec<AtomicU64>);

impl Memory for Words {
    fn words(&self) -> &[AtomicU64] {
        &self.0
    }
}

/// An area of `len` bytes.
pub(crate) fn area(len: u64) -> Area<Words> {
    Area::new(Words(AtomicU64::new_vec_zeroed(len as usize / 8).expect("there is memory")))
}

/// The bytes of a range of whole words.
pub(crate) fn bytes_of<M: Memory>(area: &Area<M>, offset: u64, len: u64) -> Vec<u8> {
    (offset..offset + len).step_by(8).flat_map(|at| area.load(at).to_le_bytes()).collect()
}

/// Changes one byte.
pub(crate) fn xor<M: Memory>(area: &Area<M>, offset: u64, bits: u8) {
    let at = offset & !7;
    area.store(at, area.load(at) ^ u64::from(bits) << (offset % 8 * 8));
}
