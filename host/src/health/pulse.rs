//! Whether an agent's thread still makes rounds, judged from a count that is looked at now and then.
//!
//! It is looks that are counted, and not time: when the whole process was stopped for a minute, no look was missed.

/// See the head of this file.
#[derive(Debug)]
pub(super) struct Pulse {
    last: Option<u64>,
    /// Looks since it last moved.
    still: u32,
    /// So many of them, and it counts as dead.
    limit: u32,
    /// It moved, and nobody has asked since.
    moved: bool,
}

impl Pulse {
    pub(super) fn new(limit: u32) -> Pulse {
        Pulse { last: None, still: 0, limit, moved: true }
    }

    /// `None`: there are no rounds to be made.
    pub(super) fn look(&mut self, rounds: Option<u64>) {
        if rounds.is_none() || rounds != self.last {
            self.still = 0;
            self.moved = true;
        } else {
            self.still = self.still.saturating_add(1);
        }
        self.last = rounds;
    }

    pub(super) fn is_alive(&self) -> bool {
        self.still < self.limit
    }

    /// Whether it moved since this was last asked.
    pub(super) fn take_moved(&mut self) -> bool {
        std::mem::take(&mut self.moved)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_move_for_so_many_looks_is_dead_until_it_moves() {
        let mut pulse = Pulse::new(3);
        for rounds in [5, 6, 6, 6] {
            pulse.look(Some(rounds));
            assert!(pulse.is_alive());
        }
        pulse.look(Some(6));
        assert!(!pulse.is_alive());
        pulse.look(Some(7));
        assert!(pulse.is_alive());
    }

    #[test]
    fn who_has_no_rounds_to_make_is_alive() {
        let mut pulse = Pulse::new(1);
        for _ in 0..5 {
            pulse.look(None);
            assert!(pulse.is_alive() && pulse.take_moved());
        }
    }

    #[test]
    fn a_move_is_told_once() {
        let mut pulse = Pulse::new(3);
        pulse.look(Some(1));
        assert!(pulse.take_moved() && !pulse.take_moved());
        pulse.look(Some(1));
        assert!(!pulse.take_moved());
        pulse.look(Some(2));
        pulse.look(Some(2));
        assert!(pulse.take_moved(), "it moved in between");
    }
}
