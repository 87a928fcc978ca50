//! Randomness from a seed (xorshift64*, Marsaglia 2003 / Vigna 2016): jitter needs nothing better, and a seed replays.

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Rng {
        Rng(seed | 1)
    }

    /// A number below `bound`; 0 when that is 0.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let drawn = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d);
        drawn.checked_rem(bound).unwrap_or(0)
    }
}
