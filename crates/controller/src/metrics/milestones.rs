//! The phases of a MiniCluster's first attempt, from the moments that its status shows. Pure.

use k8s_openapi::jiff::Timestamp;
use std::time::Duration;

/// When a MiniCluster reached what. Moments that the API server stamps are whole seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Milestones {
    /// Which attempt these are of; only the first counts, since later ones begin elsewhere.
    pub attempt: i32,
    /// The MiniCluster was created.
    pub created: Option<Timestamp>,
    /// Its JobSet was created.
    pub jobset: Option<Timestamp>,
    /// All pods were Running.
    pub running: Option<Timestamp>,
    /// Enough brokers were connected.
    pub quorate: Option<Timestamp>,
    /// The program started.
    pub started: Option<Timestamp>,
    /// The program ended.
    pub finished: Option<Timestamp>,
}

/// A phase, named by what ends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Created → JobSet: the controller.
    JobSet,
    /// → all pods Running: queue, scheduler, images.
    Pods,
    /// → quorate: the brokers.
    Quorum,
    /// → program started: the launch.
    Launch,
    /// → program ended: the user's own.
    Program,
}

impl Phase {
    /// The value of the label `phase`.
    pub fn name(self) -> &'static str {
        match self {
            Self::JobSet => "jobset",
            Self::Pods => "pods",
            Self::Quorum => "quorum",
            Self::Launch => "launch",
            Self::Program => "program",
        }
    }
}

/// A phase that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Which.
    pub phase: Phase,
    /// When the milestone before it was reached.
    pub from: Timestamp,
    /// When its own was; never before `from`.
    pub until: Timestamp,
}

impl Ended {
    /// How long it took.
    pub fn took(&self) -> Duration {
        Duration::try_from(self.until.duration_since(self.from)).unwrap_or_default()
    }
}

/// The phases that ended between two looks at one MiniCluster. Each is given once, however often the
/// same moments are seen; a milestone that never came (a quorum before the last pod ran, a cluster
/// without a program) is passed over.
pub fn ended(before: &Milestones, after: &Milestones) -> Vec<Ended> {
    if after.attempt != 0 {
        return Vec::new();
    }
    let steps = [
        (Phase::JobSet, before.jobset, after.jobset),
        (Phase::Pods, before.running, after.running),
        (Phase::Quorum, before.quorate, after.quorate),
        (Phase::Launch, before.started, after.started),
        (Phase::Program, before.finished, after.finished),
    ];
    let mut ended = Vec::new();
    let mut from = after.created;
    for (phase, known, reached) in steps {
        let Some(reached) = reached else { continue };
        if let (None, Some(from)) = (known, from) {
            // Stamps of two clocks may cross by a little: that phase took no time.
            ended.push(Ended { phase, from, until: reached.max(from) });
        }
        from = from.max(Some(reached));
    }
    ended
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_790_000_000 + second).unwrap()
    }

    fn seconds(ended: &[Ended]) -> Vec<(&'static str, u64)> {
        ended.iter().map(|ended| (ended.phase.name(), ended.took().as_secs())).collect()
    }

    #[test]
    fn each_phase_is_given_once() {
        let created = Milestones { created: Some(at(0)), ..Milestones::default() };
        let made = Milestones { jobset: Some(at(1)), ..created };
        let ran =
            Milestones { running: Some(at(4)), quorate: Some(at(6)), started: Some(at(6)), ..made };
        let done = Milestones { finished: Some(at(60)), ..ran };
        assert_eq!(seconds(&ended(&created, &made)), [("jobset", 1)]);
        assert_eq!(seconds(&ended(&made, &ran)), [("pods", 3), ("quorum", 2), ("launch", 0)]);
        assert_eq!(seconds(&ended(&ran, &ran)), []);
        assert_eq!(seconds(&ended(&ran, &done)), [("program", 54)]);
    }

    #[test]
    fn a_controller_that_comes_late_finds_all_phases() {
        let done = Milestones {
            created: Some(at(0)),
            jobset: Some(at(1)),
            running: Some(at(4)),
            quorate: Some(at(6)),
            started: Some(at(7)),
            finished: Some(at(9)),
            attempt: 0,
        };
        let all = seconds(&ended(&Milestones::default(), &done));
        assert_eq!(all, [("jobset", 1), ("pods", 3), ("quorum", 2), ("launch", 1), ("program", 2)]);
    }

    #[test]
    fn a_quorum_before_the_last_pod_takes_no_negative_time() {
        let before =
            Milestones { created: Some(at(0)), jobset: Some(at(1)), ..Milestones::default() };
        let after = Milestones { running: Some(at(9)), quorate: Some(at(5)), ..before };
        assert_eq!(seconds(&ended(&before, &after)), [("pods", 8), ("quorum", 0)]);
    }

    #[test]
    fn later_attempts_do_not_count() {
        let before = Milestones {
            created: Some(at(0)),
            jobset: Some(at(1)),
            attempt: 1,
            ..Milestones::default()
        };
        let after = Milestones { running: Some(at(900)), ..before };
        assert_eq!(ended(&before, &after), []);
    }
}
