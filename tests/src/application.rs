//! The application of a simulated node: what it has been handed, in a few numbers, and the same as bytes.
//!
//! Two applications are equal when they were handed the same entries in the same order.

use ringleader_core::mem::{Area, Memory};
use ringleader_core::snapshot::{Saved, TooLong, Writer};
use ringleader_core::types::Index;

/// See the module.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Application {
    /// The last entry.
    pub index: Index,
    /// How many there were.
    pub count: u64,
    /// Of all of them.
    pub hash: u64,
}

/// The words that say what a state is; behind them comes what makes it long.
const WORDS: usize = 4;

impl Application {
    /// One more entry.
    pub fn apply(&mut self, index: Index, payload: u64) {
        self.index = index;
        self.count += 1;
        self.hash = (self.hash ^ payload).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23) ^ index.0;
    }

    /// Writes so many bytes that say what the state is.
    pub fn save<M: Memory>(&self, len: u64, area: &Area<M>) -> Result<Saved, TooLong> {
        let mut writer = Writer::new(area);
        // In parts that are no words, as a host may.
        for part in self.bytes(len).chunks(1021) {
            writer.write(part)?;
        }
        Ok(writer.finish())
    }

    /// The state that the bytes say; none when they are no state.
    pub fn load(bytes: &[u8]) -> Option<Application> {
        let word = |at: usize| {
            bytes.get(at * 8..at * 8 + 8).and_then(|word| word.try_into().ok()).map(u64::from_le_bytes)
        };
        let state = Application { index: Index(word(0)?), count: word(1)?, hash: word(2)? };
        (word(3)? == bytes.len() as u64 && state.bytes(bytes.len() as u64) == bytes).then_some(state)
    }

    fn bytes(&self, len: u64) -> Vec<u8> {
        let len = len.max(WORDS as u64 * 8);
        let mut bytes = Vec::with_capacity(len as usize + 8);
        for word in [self.index.0, self.count, self.hash, len] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        let mut word = self.hash ^ self.count.rotate_left(17) ^ self.index.0.rotate_left(40);
        while (bytes.len() as u64) < len {
            word = word.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        bytes.truncate(len as usize);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_saved_is_what_is_loaded_and_nothing_else_is() {
        let mut state = Application::default();
        (1..5).for_each(|index| state.apply(Index(index), 77 * index));
        let bytes = state.bytes(101);
        assert_eq!(Application::load(&bytes), Some(state));
        for at in 0..bytes.len() {
            let mut other = bytes.clone();
            other[at] ^= 1;
            assert_eq!(Application::load(&other), None, "byte {at}");
        }
        assert_eq!(Application::load(&bytes[..100]), None);
    }
}
