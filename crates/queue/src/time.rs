//! The queue's clock: it is always passed in.

use serde::{Deserialize, Serialize};

/// A moment, in milliseconds since the Unix epoch.
///
/// The shell makes sure that it never runs backwards within one log: after a step back of the
/// machine's clock it repeats the last moment until the clock has caught up.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Time(pub u64);

impl Time {
    /// Later than every moment that is spoken of: the end of a job without a time limit.
    pub const NEVER: Self = Self(u64::MAX);

    /// The moment that many seconds later.
    #[must_use]
    pub const fn after_seconds(self, seconds: u64) -> Self {
        Self(self.0.saturating_add(seconds.saturating_mul(1000)))
    }

    /// Milliseconds from an earlier moment to this one, 0 if it is not earlier.
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}
