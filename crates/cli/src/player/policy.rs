//! Policies as tables: what a failed pod means to its Job, and a failed Job to its JobSet. The
//! first rule that matches decides.

use super::Exit;
use k8s_openapi::api::batch::v1::PodFailurePolicyRule;
use quorate_api::jobset::{FailurePolicy, FailurePolicyAction};

/// What a failed pod means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PodVerdict {
    FailJob,
    FailIndex,
    Ignore,
    Count,
}

/// Judges a pod that ended with a code other than 0 (podFailurePolicy of batch/v1).
pub(super) fn judge_pod(rules: &[PodFailurePolicyRule], exit: Exit) -> PodVerdict {
    for rule in rules {
        let by_code = rule.on_exit_codes.as_ref().is_some_and(|codes| {
            let listed = codes.values.contains(&exit.code);
            match codes.operator.as_str() {
                "In" => listed,
                "NotIn" => !listed,
                _ => false,
            }
        });
        let by_condition = exit.disrupted
            && rule.on_pod_conditions.iter().flatten().any(|condition| {
                condition.type_ == "DisruptionTarget"
                    && condition.status.as_deref().unwrap_or("True") == "True"
            });
        if by_code || by_condition {
            return match rule.action.as_str() {
                "FailJob" => PodVerdict::FailJob,
                "FailIndex" => PodVerdict::FailIndex,
                "Ignore" => PodVerdict::Ignore,
                _ => PodVerdict::Count,
            };
        }
    }
    PodVerdict::Count
}

/// What a failed Job leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JobSetVerdict {
    Fail(&'static str),
    Restart { counts: bool },
}

/// A failed Job, in the order of failing.
#[derive(Clone, Copy, Debug)]
pub(super) struct FailedJob<'a> {
    pub(super) group: &'a str,
    pub(super) reason: &'a str,
}

/// Judges failed Jobs (failurePolicy of JobSet); `counted` restarts have happened so far.
pub(super) fn judge_jobs(
    policy: Option<&FailurePolicy>,
    failed: &[FailedJob<'_>],
    counted: u32,
) -> JobSetVerdict {
    let Some(policy) = policy else { return JobSetVerdict::Fail("FailedJobs") };
    let rule = policy.rules.iter().find(|rule| {
        failed.iter().any(|job| {
            let target = rule.target_replicated_jobs.is_empty()
                || rule.target_replicated_jobs.iter().any(|name| name == job.group);
            let reason = rule.on_job_failure_reasons.is_empty()
                || rule.on_job_failure_reasons.iter().any(|reason| reason == job.reason);
            target && reason
        })
    });
    match rule.map_or(FailurePolicyAction::RestartJobSet, |rule| rule.action) {
        FailurePolicyAction::FailJobSet => JobSetVerdict::Fail("FailJobSetFailurePolicyAction"),
        FailurePolicyAction::RestartJobSetAndIgnoreMaxRestarts => {
            JobSetVerdict::Restart { counts: false }
        }
        FailurePolicyAction::RestartJobSet => {
            if i64::from(counted) >= i64::from(policy.max_restarts) {
                JobSetVerdict::Fail("ReachedMaxRestarts")
            } else {
                JobSetVerdict::Restart { counts: true }
            }
        }
    }
}
