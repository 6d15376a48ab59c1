//! A token bucket: a rate that may be exceeded for a moment after a quiet time. Pure.

use std::time::Duration;

/// How many requests may be sent.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenBucket {
    /// Tokens a second.
    rate: f64,
    /// The most tokens that a quiet time gathers.
    burst: f64,
    /// Tokens at `at`; negative when promised to waiters.
    tokens: f64,
    at: Duration,
}

impl TokenBucket {
    /// A full bucket; both numbers are at least 1.
    pub fn new(rate: u16, burst: u16) -> Self {
        let (rate, burst) = (f64::from(rate.max(1)), f64::from(burst.max(1)));
        Self { rate, burst, tokens: burst, at: Duration::ZERO }
    }

    /// Takes a token; answers how long to wait before it may be used.
    pub fn take(&mut self, now: Duration) -> Duration {
        let passed = now.saturating_sub(self.at).as_secs_f64();
        self.tokens = (self.tokens + passed * self.rate).min(self.burst) - 1.0;
        self.at = now.max(self.at);
        Duration::from_secs_f64((-self.tokens / self.rate).max(0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_free_then_the_rate_holds() {
        let mut bucket = TokenBucket::new(10, 3);
        let waits: Vec<u128> = (0..5).map(|_| bucket.take(Duration::ZERO).as_millis()).collect();
        assert_eq!(waits, [0, 0, 0, 100, 200]);
        // Two were promised; a second later these are paid and the bucket is full again.
        assert_eq!(bucket.take(Duration::from_secs(1)), Duration::ZERO);
    }

    #[test]
    fn quiet_time_gathers_no_more_than_the_burst() {
        let mut bucket = TokenBucket::new(1, 2);
        let hour = Duration::from_hours(1);
        let free = (0..5).filter(|_| bucket.take(hour).is_zero()).count();
        assert_eq!(free, 2);
    }
}
