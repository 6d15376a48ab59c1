//! How long to wait before a launcher is tried again. Pure but for the jitter.
//!
//! A broker that starts refuses connections for a moment and is there the next: it is tried again at
//! once. An address from which nothing comes back at all, of a launcher that has never said a word, will
//! mostly stay so: a policy or a missing route is between, or nobody is behind it. Each try costs a
//! socket and seconds of waiting, and with a thousand such launchers that is all that the controller
//! does.

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};

/// The wait after the first failure.
const SHORTEST: Duration = Duration::from_millis(200);
/// The wait after many.
const LONGEST: Duration = Duration::from_mins(1);
/// The same for a launcher from which nothing ever came back.
const SHORTEST_DEAF: Duration = Duration::from_secs(10);
const LONGEST_DEAF: Duration = Duration::from_mins(10);

/// What became of a try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Try {
    /// It has told something.
    Heard,
    /// Something is there, but it tells nothing, or refuses the connection.
    Refused,
    /// Nothing came back.
    Unanswered,
}

/// The waits between the tries of one launcher.
#[derive(Debug)]
pub(super) struct Waits {
    quick: ExponentialBackoff,
    deaf: ExponentialBackoff,
    spoke: bool,
}

impl Waits {
    /// Of a launcher that was never tried.
    pub(super) fn new() -> Self {
        Self {
            quick: doubling(SHORTEST, LONGEST),
            deaf: doubling(SHORTEST_DEAF, LONGEST_DEAF),
            spoke: false,
        }
    }

    /// The wait after a try.
    pub(super) fn after(&mut self, tried: Try) -> Duration {
        match tried {
            Try::Heard => *self = Self { spoke: true, ..Self::new() },
            Try::Unanswered if !self.spoke => return self.deaf.next().unwrap_or(LONGEST_DEAF),
            Try::Refused | Try::Unanswered => {}
        }
        self.quick.next().unwrap_or(LONGEST)
    }
}

/// Jittered, without end.
fn doubling(shortest: Duration, longest: Duration) -> ExponentialBackoff {
    ExponentialBuilder::default()
        .with_min_delay(shortest)
        .with_max_delay(longest)
        .with_jitter()
        .without_max_times()
        .build()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn total(waits: &mut Waits, tried: Try, tries: usize) -> Duration {
        (0..tries).map(|_| waits.after(tried)).sum()
    }

    #[test]
    fn a_broker_that_starts_is_tried_again_at_once() {
        assert!(total(&mut Waits::new(), Try::Refused, 4) < Duration::from_secs(7));
    }

    #[test]
    fn an_address_that_never_answers_costs_few_tries() {
        let mut waits = Waits::new();
        assert!(total(&mut waits, Try::Unanswered, 7) > Duration::from_mins(20));
        // Not one try in ten minutes for each of them.
        assert!(waits.after(Try::Unanswered) >= LONGEST_DEAF);
    }

    #[test]
    fn who_has_spoken_is_tried_again_within_minutes_although_a_network_is_cut() {
        let mut waits = Waits::new();
        waits.after(Try::Unanswered);
        assert!(waits.after(Try::Heard) < Duration::from_secs(1));
        for _ in 0..20 {
            assert!(waits.after(Try::Unanswered) <= 2 * LONGEST);
        }
    }
}
