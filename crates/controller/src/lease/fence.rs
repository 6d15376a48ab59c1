//! The fence: whether this process may still write. Closed for followers; for a leader it closes by
//! itself when the renew deadline passes, even if the renewing task hangs.
//!
//! Must not: decide who leads.

use super::Moment;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A write was asked for by a process that does not lead, or no longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this controller does not hold the leader lease; the write was not sent")]
pub struct NotLeader;

impl NotLeader {
    /// One word for conditions, events and metrics.
    pub fn reason(self) -> &'static str {
        "NotLeader"
    }
}

/// Shared by the election, which opens and closes it, and by everything that writes.
#[derive(Clone, Debug)]
pub struct Fence {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    /// Where moments are counted from.
    epoch: Instant,
    /// Nanoseconds after `epoch` when the fence closes; 0 is closed.
    open_until: AtomicU64,
    /// What a write may take after the fence has closed behind it.
    grace: Duration,
}

impl Fence {
    /// A closed fence whose moments begin now.
    pub fn new(grace: Duration) -> Self {
        let inner = Inner { epoch: Instant::now(), open_until: AtomicU64::new(0), grace };
        Self { inner: Arc::new(inner) }
    }

    /// A fence that is always open, for a controller that runs without election.
    pub fn open() -> Self {
        let fence = Self::new(Duration::from_mins(1));
        fence.inner.open_until.store(u64::MAX, Ordering::Release);
        fence
    }

    /// Now, by this process's steady clock.
    pub fn now(&self) -> Moment {
        self.inner.epoch.elapsed()
    }

    /// Opens it until `until`.
    pub fn open_until(&self, until: Moment) {
        let nanos = u64::try_from(until.as_nanos()).unwrap_or(u64::MAX - 1);
        self.inner.open_until.store(nanos, Ordering::Release);
    }

    /// Closes it at once.
    pub fn close(&self) {
        self.inner.open_until.store(0, Ordering::Release);
    }

    /// How long a write that begins now may take: until the fence closes and the grace after it.
    /// Asked before each write.
    pub fn check(&self) -> Result<Duration, NotLeader> {
        let until = self.inner.open_until.load(Ordering::Acquire);
        let left =
            Duration::from_nanos(until).checked_sub(self.now()).filter(|left| !left.is_zero());
        left.map(|left| left.saturating_add(self.inner.grace)).ok_or(NotLeader)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_closes_by_itself() {
        let fence = Fence::new(Duration::from_secs(5));
        assert_eq!(fence.check(), Err(NotLeader));
        fence.open_until(fence.now() + Duration::from_mins(1));
        assert!(fence.check().is_ok_and(|left| left > Duration::from_mins(1)));
        // A moment that has passed: nobody closed it, and yet it is closed.
        fence.open_until(Duration::from_nanos(1));
        assert_eq!(fence.check(), Err(NotLeader));
    }

    #[test]
    fn closing_counts_at_once_for_every_clone() {
        let fence = Fence::new(Duration::from_secs(5));
        let other = fence.clone();
        fence.open_until(fence.now() + Duration::from_mins(1));
        assert!(other.check().is_ok());
        fence.close();
        assert_eq!(other.check(), Err(NotLeader));
    }
}
