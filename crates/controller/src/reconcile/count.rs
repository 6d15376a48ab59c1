//! What metrics learn from a look: when a cluster reached what, and why it began again. Pure.

use k8s_openapi::jiff::Timestamp;
use quorate_api::conditions::{self, reason};
use quorate_api::status::MiniClusterStatus;
use quorate_observe::{ContainerState, Observed};

use crate::metrics::{Milestones, RestartCause};

/// When the cluster reached what, as far as its new status and its pods show. What was known before
/// stays known when its pods are gone.
pub(super) fn milestones(
    observed: &Observed,
    status: &MiniClusterStatus,
    known: &Milestones,
) -> Milestones {
    let attempt = status.attempt.unwrap_or(0);
    let known = if known.attempt == attempt { *known } else { Milestones::default() };
    let time = |time: &Option<k8s_openapi::apimachinery::pkg::apis::meta::v1::Time>| {
        time.as_ref().map(|time| time.0)
    };
    let runs = status.conditions.iter().find(|condition| {
        condition.type_ == conditions::RUNNING
            && condition.status == "True"
            && condition.reason == reason::PROGRAM_STARTED
    });
    Milestones {
        attempt,
        created: time(&observed.cluster.metadata.creation_timestamp),
        jobset: known.jobset.or_else(|| time(&status.start_time)),
        running: known.running.or_else(|| running(observed)),
        quorate: known.quorate.or_else(|| time(&status.quorate_time)),
        started: known.started.or_else(|| runs.map(|runs| runs.last_transition_time.0)),
        finished: known.finished.or_else(|| time(&status.completion_time)),
    }
}

/// When the last pod began to run, once all do.
fn running(observed: &Observed) -> Option<Timestamp> {
    let size = observed.shape.as_ref()?.size as usize;
    let mut since = Vec::with_capacity(size);
    for pod in observed.own_pods() {
        match pod.main.as_ref().map(|main| &main.state) {
            Some(ContainerState::Running { since: Some(at) }) => since.push(*at),
            _ => return None,
        }
    }
    (since.len() >= size).then(|| since.into_iter().max())?
}

/// Why a cluster began again, if it did.
pub(super) fn restarted(
    old: Option<&MiniClusterStatus>,
    new: &MiniClusterStatus,
) -> Option<RestartCause> {
    let old = old?;
    if old.start_time != new.start_time || new.attempt <= old.attempt {
        return None;
    }
    Some(if new.restarts > old.restarts { RestartCause::Failure } else { RestartCause::Disruption })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_restart_that_does_not_count_is_a_disruption() {
        let status = |attempt, restarts| MiniClusterStatus {
            attempt: Some(attempt),
            restarts: Some(restarts),
            ..MiniClusterStatus::default()
        };
        let (first, counted, not) = (status(0, 0), status(1, 1), status(1, 0));
        assert_eq!(restarted(Some(&first), &counted), Some(RestartCause::Failure));
        assert_eq!(restarted(Some(&first), &not), Some(RestartCause::Disruption));
        assert_eq!(restarted(Some(&first), &first), None);
        assert_eq!(restarted(None, &counted), None);
    }
}
