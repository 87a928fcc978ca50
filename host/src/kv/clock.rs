//! The time that a leader puts into entries: milliseconds since the epoch, never behind what the log has, and never standing still.
//!
//! It is the wall clock's, as long as that is ahead; a leader whose clock is behind its predecessor's goes on from there at the pace
//! of the monotonic clock. So lives have the length they were given, whatever clocks say, and an absolute end is as good as clocks are.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// See the head of this file.
#[derive(Debug)]
pub(super) struct Clock {
    /// What the log has, or was given out, at the latest; and when that was seen.
    base: i64,
    seen: Instant,
    /// The last time that was given out.
    last: i64,
}

impl Clock {
    pub(super) fn new() -> Clock {
        Clock { base: 0, seen: Instant::now(), last: 0 }
    }

    /// The time now.
    pub(super) fn now(&self) -> i64 {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        self.at(wall, self.seen.elapsed())
    }

    fn at(&self, wall: Duration, since: Duration) -> i64 {
        let ms = |duration: Duration| i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        ms(wall).max(self.base.saturating_add(ms(since)))
    }

    /// The log has come to this time.
    pub(super) fn pass(&mut self, time: i64) {
        if time > self.now() {
            (self.base, self.seen) = (time, Instant::now());
        }
    }

    /// The time of an entry that is proposed now.
    pub(super) fn stamp(&mut self) -> i64 {
        let now = self.now().max(self.last);
        self.last = now;
        // Seldom, for each time a part of a millisecond is lost: from here on a wall clock that is set back is not followed.
        if now - self.base >= 1000 {
            (self.base, self.seen) = (now, Instant::now());
        }
        now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_wall_clocks_unless_that_is_behind() {
        let clock = Clock { base: 5_000, seen: Instant::now(), last: 0 };
        let at = |wall, since| clock.at(Duration::from_millis(wall), Duration::from_millis(since));
        assert_eq!(at(9_000, 10), 9_000);
        assert_eq!(at(1_000, 10), 5_010);
        assert_eq!(at(5_005, 10), 5_010);
        assert_eq!(at(0, u64::MAX), i64::MAX);
    }

    #[test]
    fn it_goes_on_from_where_the_log_is() {
        let mut clock = Clock::new();
        let far = clock.now() + 1_000_000;
        clock.pass(far);
        assert!(clock.stamp() >= far);
        clock.pass(5);
        assert!(clock.stamp() >= far);
        clock.pass(i64::MAX);
        assert_eq!((clock.now(), clock.stamp()), (i64::MAX, i64::MAX));
    }
}
