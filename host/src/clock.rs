//! The clock of the protocol: `CLOCK_BOOTTIME`, which never falls and goes on through a suspension.

use ringleader_core::types::Instant;
use rustix::time::{ClockId, clock_gettime};

/// Now.
#[inline]
pub fn now() -> Instant {
    let time = clock_gettime(ClockId::Boottime);
    Instant(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_moves_forward() {
        let earlier = now();
        std::thread::sleep(std::time::Duration::from_millis(2));
        assert!(now().since(earlier) >= 2_000_000);
    }
}
