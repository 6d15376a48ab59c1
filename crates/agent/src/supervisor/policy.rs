//! When a broker that died is started again, and with what the pod ends. Pure.

use nix::sys::wait::WaitStatus;
use quorate_contract::exit;
use quorate_contract::report::{Reason, Report};
use std::time::Duration;

/// A broker that died so often within [`DEATH_WINDOW`] is given up.
pub const DEATH_LIMIT: usize = 5;
/// The span in which deaths count together.
pub const DEATH_WINDOW: Duration = Duration::from_secs(5);
/// The waits before the first, second, ... start after deaths in one window.
const DELAYS: [Duration; DEATH_LIMIT - 1] = [
    Duration::ZERO,
    Duration::from_millis(20),
    Duration::from_millis(100),
    Duration::from_millis(400),
];
/// The code of a Rust process that panicked.
const PANICKED: i32 = 101;

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// With this code.
    Exit(i32),
    /// By this signal.
    Signal(i32),
}

impl End {
    /// From what waitpid said; `None` for states other than ends.
    pub fn from_wait(status: WaitStatus) -> Option<Self> {
        match status {
            WaitStatus::Exited(_, code) => Some(Self::Exit(code)),
            WaitStatus::Signaled(_, signal, _) => Some(Self::Signal(signal as i32)),
            _ => None,
        }
    }
}

/// What happens after a broker's end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It is started again.
    Restart {
        /// After so long.
        after: Duration,
    },
    /// The pod ends.
    End(Box<Ending>),
}

/// How the pod ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ending {
    /// The code to exit with.
    pub code: i32,
    /// What to leave behind, when the broker could not.
    pub report: Option<Report>,
}

/// What the supervisor remembers.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    deaths: Vec<Duration>,
    stopping: Option<i32>,
}

impl Policy {
    /// A signal told the pod to stop.
    pub fn stop(&mut self, signal: i32) {
        self.stopping.get_or_insert(signal);
    }

    /// How the pod ends that was told to stop.
    pub fn stopped(&self) -> Ending {
        let code = exit::signaled(self.stopping.unwrap_or(15));
        let report = Report::new(code, Reason::Terminated, "the pod was told to stop");
        Ending { code, report: Some(report) }
    }

    /// The broker has ended, `now` after the supervisor's start.
    pub fn broker_ended(&mut self, end: End, now: Duration) -> Decision {
        let died = match end {
            End::Exit(PANICKED) => "by a crash inside".to_owned(),
            End::Exit(code) => return Decision::End(Box::new(Ending { code, report: None })),
            End::Signal(signal) => format!("by signal {signal}"),
        };
        if self.stopping.is_some() {
            return Decision::End(Box::new(self.stopped()));
        }
        self.deaths.retain(|&at| now.saturating_sub(at) < DEATH_WINDOW);
        self.deaths.push(now);
        if let Some(&after) = DELAYS.get(self.deaths.len() - 1) {
            return Decision::Restart { after };
        }
        let message = format!(
            "the broker died {} times within {} s, the last time {died}",
            self.deaths.len(),
            DEATH_WINDOW.as_secs()
        );
        let report = Report::new(exit::INTERNAL, Reason::Internal, message);
        Decision::End(Box::new(Ending { code: exit::INTERNAL, report: Some(report) }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_broker_that_ends_by_itself_ends_the_pod_with_its_code() {
        let decision = Policy::default().broker_ended(End::Exit(66), at(1));
        assert_eq!(decision, Decision::End(Box::new(Ending { code: 66, report: None })));
    }

    #[test]
    fn a_killed_broker_is_started_again_at_once() {
        let mut policy = Policy::default();
        let first = policy.broker_ended(End::Signal(9), at(1));
        assert_eq!(first, Decision::Restart { after: Duration::ZERO });
        let panicked = policy.broker_ended(End::Exit(101), at(1));
        assert!(matches!(panicked, Decision::Restart { after } if after > Duration::ZERO));
    }

    #[test]
    fn five_deaths_at_once_end_the_pod_with_the_reason() {
        let mut policy = Policy::default();
        for _ in 0..4 {
            let decision = policy.broker_ended(End::Signal(11), at(1));
            assert!(matches!(decision, Decision::Restart { .. }));
        }
        match policy.broker_ended(End::Signal(11), at(2)) {
            Decision::End(ending) => {
                let report = ending.report.unwrap();
                assert_eq!((ending.code, report.reason), (exit::INTERNAL, Reason::Internal));
                assert!(report.message.contains("5 times") && report.message.contains("signal 11"));
            }
            other @ Decision::Restart { .. } => panic!("{other:?}"),
        }
    }

    #[test]
    fn deaths_far_apart_do_not_add_up() {
        let mut policy = Policy::default();
        for n in 0..50 {
            let decision = policy.broker_ended(End::Signal(9), at(n * 10));
            assert_eq!(decision, Decision::Restart { after: Duration::ZERO });
        }
    }

    #[test]
    fn a_broker_killed_while_stopping_is_not_started_again() {
        let mut policy = Policy::default();
        policy.stop(15);
        match policy.broker_ended(End::Signal(9), at(1)) {
            Decision::End(ending) => assert_eq!(ending.code, exit::TERMINATED),
            other @ Decision::Restart { .. } => panic!("{other:?}"),
        }
        // A broker that ends in time has the last word.
        let decision = policy.broker_ended(End::Exit(0), at(1));
        assert_eq!(decision, Decision::End(Box::new(Ending { code: 0, report: None })));
    }
}
