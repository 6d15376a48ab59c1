//! What is remembered of a cluster between two looks. All of it can be lost: a controller that starts
//! again finds the same decisions, only a little later.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use quorate_api::Finding;
use quorate_api::status::MiniClusterStatus;
use quorate_observe::Obstacle;

use super::plan::Wanted;
use crate::metrics::Milestones;

/// Between two tries after the first error; doubled with each one.
const FIRST_WAIT: Duration = Duration::from_millis(250);
/// The longest wait after an error.
const LONGEST_WAIT: Duration = Duration::from_mins(1);

/// What validation made of an object, shared with whoever looks at it.
pub(super) type Validated = Result<Arc<Wanted>, Arc<Vec<Finding>>>;

/// Labels, or annotations.
type Words = Option<BTreeMap<String, String>>;

/// What of an object validation looks at: its spec, by the generation, and the labels and annotations of
/// its metadata, which change without one.
pub(super) type Revision = (i64, Words, Words);

/// What is remembered of one cluster.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    /// The UID of the object that all of this is about.
    pub uid: String,
    /// What validation made of the object, by what it read.
    pub validated: Option<(Revision, Validated)>,
    /// What was refused, and when it is worth another try.
    pub refused: Option<Refused>,
    /// The status that was written last, until the watch has caught up with it.
    pub written: Option<Written>,
    /// When a status that can wait is to be written at the latest.
    pub due: Option<Timestamp>,
    /// When the cluster reached what; nothing for one that lived before this controller did.
    pub milestones: Option<Milestones>,
    /// Errors in a row.
    pub errors: u32,
}

/// What an API server or an owner of the same name does not let us have.
#[derive(Clone, Debug)]
pub struct Refused {
    /// The generation of the object that was refused: a changed object is tried at once.
    pub generation: Option<i64>,
    /// What to tell.
    pub obstacles: Vec<Obstacle>,
    /// When to try again.
    pub until: Timestamp,
}

/// A status that was written.
#[derive(Clone, Debug)]
pub struct Written {
    /// The resource version that it was written upon: a watch that still shows this one lags.
    pub upon: String,
    /// The resource version that came of it.
    pub version: String,
    /// The status.
    pub status: MiniClusterStatus,
}

impl Memory {
    /// Of a cluster that was never looked at.
    pub fn new(uid: &str) -> Self {
        Self { uid: uid.to_owned(), ..Self::default() }
    }

    /// How long to wait after the errors so far, `jitter` being any number in 0..1: clusters that
    /// failed together must not come back together.
    pub fn backoff(&self, jitter: f64) -> Duration {
        let doubled = FIRST_WAIT * 2u32.saturating_pow(self.errors.saturating_sub(1).min(16));
        doubled.min(LONGEST_WAIT).mul_f64(0.5 + jitter.clamp(0.0, 1.0))
    }

    /// What is refused still, for an object of this generation.
    pub fn still_refused(&self, generation: Option<i64>, now: Timestamp) -> Option<&Refused> {
        self.refused
            .as_ref()
            .filter(|refused| refused.generation == generation && refused.until > now)
    }
}

/// How long from `now` until `then`; nothing if it is over.
pub(super) fn until(then: Timestamp, now: Timestamp) -> Duration {
    let left: SignedDuration = then.duration_since(now);
    Duration::try_from(left).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_minute_and_spread() {
        let wait = |errors, jitter| Memory { errors, ..Memory::default() }.backoff(jitter);
        assert_eq!(wait(1, 0.5), FIRST_WAIT);
        assert_eq!(wait(3, 0.5), 4 * FIRST_WAIT);
        assert_eq!(wait(40, 0.5), LONGEST_WAIT);
        assert!(wait(3, 0.0) < wait(3, 0.9));
    }

    #[test]
    fn what_was_refused_is_tried_again_when_the_object_changes() {
        let now = Timestamp::UNIX_EPOCH;
        let until = now + SignedDuration::from_mins(1);
        let refused = Refused { generation: Some(1), obstacles: Vec::new(), until };
        let memory = Memory { refused: Some(refused), ..Memory::default() };
        assert!(memory.still_refused(Some(1), now).is_some());
        assert!(memory.still_refused(Some(2), now).is_none());
        assert!(memory.still_refused(Some(1), until).is_none());
    }
}
