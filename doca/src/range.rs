//! A piece of a host's memory, as the host addresses it.

use std::fmt;

/// See the module. Not empty, and without a wrap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Range {
    address: u64,
    len: u64,
}

impl Range {
    /// `None` when it is empty or wraps.
    pub fn new(address: u64, len: u64) -> Option<Range> {
        let is_range = len != 0 && address.checked_add(len).is_some();
        is_range.then_some(Range { address, len })
    }

    /// Where it begins.
    pub fn address(self) -> u64 {
        self.address
    }

    /// How many bytes it has.
    #[expect(clippy::len_without_is_empty, reason = "it is never empty")]
    pub fn len(self) -> u64 {
        self.len
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x} and {} bytes from there", self.address, self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_empty_or_wraps_is_no_range() {
        assert_eq!(Range::new(4096, 0), None);
        assert_eq!(Range::new(u64::MAX, 1), None);
        assert_eq!(Range::new(1, u64::MAX), None);
        assert!(Range::new(u64::MAX - 1, 1).is_some() && Range::new(0, u64::MAX).is_some());
    }
}
