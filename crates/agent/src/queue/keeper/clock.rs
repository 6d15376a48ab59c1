//! The time as the queue is told it.

use quorate_queue::Time;
use std::time::{SystemTime, UNIX_EPOCH};

/// The machine's clock, never running backwards.
#[derive(Debug)]
pub(super) struct Clock {
    /// What it said last.
    pub(super) last: Time,
}

impl Clock {
    /// Now.
    pub(super) fn now(&mut self) -> Time {
        self.last = self.last.max(self.last_wall());
        self.last
    }

    /// The same, and does not count as said.
    pub(super) fn last_wall(&self) -> Time {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Time(u64::try_from(since.as_millis()).unwrap_or(u64::MAX)).max(self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_stepped_back_stands_still() {
        let ahead = Time(u64::MAX / 2);
        let mut clock = Clock { last: ahead };
        assert_eq!((clock.now(), clock.now()), (ahead, ahead));
        let mut behind = Clock { last: Time(1) };
        let first = behind.now();
        assert!(first > Time(1) && behind.now() >= first);
    }
}
