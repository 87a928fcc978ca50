//! Majorities: pure arithmetic over at most fifteen numbers.

use crate::types::{MAX_NODES, Position};

/// Votes that are a majority of `voters`.
pub fn majority(voters: usize) -> usize {
    voters / 2 + 1
}

/// The highest position that a majority of `voters` has reached, given what those that count have matched.
///
/// Voters that do not count (down, silent, another incarnation) are simply not in `matched`; they still belong to `voters`.
#[inline]
pub fn reached(voters: usize, matched: impl IntoIterator<Item = Position>) -> Option<Position> {
    let mut sorted = [Position(0); MAX_NODES];
    let mut count = 0;
    // More than fifteen cannot be members: leaving one out would only make the result smaller.
    for position in matched.into_iter().take(MAX_NODES) {
        let mut at = count;
        while at > 0 && sorted[at - 1] < position {
            sorted[at] = sorted[at - 1];
            at -= 1;
        }
        sorted[at] = position;
        count += 1;
    }
    sorted[..count].get(majority(voters) - 1).copied()
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;

    /// All multisets of positions 0..=3 for all sizes to 7, against the definition.
    #[test]
    fn exhaustive_to_seven() {
        for voters in 1..=7usize {
            for counting in 0..=voters {
                let mut digits = [0u64; 7];
                loop {
                    let matched: Vec<Position> = digits[..counting].iter().map(|d| Position(*d)).collect();
                    let expected = (0..=3u64)
                        .rev()
                        .find(|p| matched.iter().filter(|m| m.0 >= *p).count() >= majority(voters))
                        .map(Position);
                    assert_eq!(reached(voters, matched.iter().copied()), expected);
                    let Some(at) = digits[..counting].iter().position(|d| *d < 3) else { break };
                    digits[at] += 1;
                    digits[..at].fill(0);
                }
            }
        }
    }

    #[test]
    fn two_majorities_always_meet() {
        for voters in 1..=15 {
            assert!(majority(voters) * 2 > voters);
        }
    }
}
