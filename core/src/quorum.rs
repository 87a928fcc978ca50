//! Majorities: pure arithmetic over at most fifteen numbers.

/// Votes that are a majority of `voters`.
pub fn majority(voters: usize) -> usize {
    voters / 2 + 1
}

/// The highest value that a majority of `voters` has reached, given how far those that count are (in any order; sorted on the
/// way).
///
/// Voters that do not count (down, silent, another incarnation) are simply not in `reached`; they still belong to `voters`.
#[inline]
pub fn reached<T: Copy + PartialOrd>(voters: usize, reached: &mut [T]) -> Option<T> {
    // At most fifteen, mostly two or three.
    for end in 1..reached.len() {
        let mut at = end;
        while at > 0 && reached[at - 1] < reached[at] {
            reached.swap(at - 1, at);
            at -= 1;
        }
    }
    reached.get(majority(voters) - 1).copied()
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
                    let mut matched: Vec<u64> = digits[..counting].to_vec();
                    let expected = (0..=3u64)
                        .rev()
                        .find(|p| matched.iter().filter(|m| *m >= p).count() >= majority(voters));
                    assert_eq!(reached(voters, &mut matched), expected);
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
