//! Rules of one replicated job: names of Jobs and pods, and the Job template.

use k8s_openapi::api::batch::v1::JobSpec;
use quorate_api::jobset::ReplicatedJob;
use quorate_api::names::is_dns_1035_label;

use super::{Rules, pods};

/// Completions above which `maxFailedIndexes` is required and limited (KEP-3850).
const MANY: i32 = 100_000;

pub(super) fn check(jobset: &str, replicated: &ReplicatedJob, path: &str, rules: &mut Rules) {
    let job_name = format!("{jobset}-{}-{}", replicated.name, replicated.replicas - 1);
    rules.check(
        is_dns_1035_label(&job_name),
        format!("{path}.name"),
        "short enough for Jobs `<jobset>-<name>-<index>`, DNS-1035 labels of at most 63 characters",
    );
    let metadata = replicated.template.metadata.as_ref();
    pods::keys(metadata, &format!("{path}.template.metadata"), rules);
    let Some(job) = &replicated.template.spec else {
        return rules.check(false, format!("{path}.template.spec"), "set");
    };
    let path = format!("{path}.template.spec");
    counts(&job_name, replicated, job, &path, rules);
    failures(job, &path, rules);
    rules.check(
        job.ttl_seconds_after_finished.is_none(),
        format!("{path}.ttlSecondsAfterFinished"),
        "not set: a Job that vanishes is made and run again",
    );
    rules.check(
        job.manual_selector.is_none() && job.selector.is_none(),
        format!("{path}.selector"),
        "not set: the Job controller makes it",
    );
    rules.check(
        job.active_deadline_seconds.is_none_or(|seconds| seconds >= 0),
        format!("{path}.activeDeadlineSeconds"),
        "0 or more",
    );
    pods::check(job, &path, rules);
}

fn counts(
    job_name: &str,
    replicated: &ReplicatedJob,
    job: &JobSpec,
    path: &str,
    rules: &mut Rules,
) {
    rules.check(
        job.completion_mode.as_deref() == Some("Indexed"),
        format!("{path}.completionMode"),
        "Indexed: pods get their names and ranks from it",
    );
    let (Some(parallelism), Some(completions)) = (job.parallelism, job.completions) else {
        return rules.check(
            false,
            format!("{path}.completions"),
            "set, as parallelism: without, JobSet does not check the pods' names",
        );
    };
    rules.check(
        parallelism == completions && completions >= 1,
        format!("{path}.completions"),
        "1 or more, and equal to parallelism",
    );
    rules.check(
        replicated.replicas.checked_mul(parallelism).is_some(),
        format!("{path}.parallelism"),
        "times replicas within 32 bits",
    );
    rules.check(
        is_dns_1035_label(&format!("{job_name}-{}-xxxxx", completions - 1)),
        format!("{path}.completions"),
        "small enough for pods `<job>-<index>-<5 random>`, DNS-1035 labels of at most 63 characters",
    );
}

fn failures(job: &JobSpec, path: &str, rules: &mut Rules) {
    rules.check(
        job.backoff_limit.is_some_and(|limit| limit >= 0),
        format!("{path}.backoffLimit"),
        "set: the default of 6 hides failures from JobSet",
    );
    if let Some(limit) = job.backoff_limit_per_index {
        rules.check(limit >= 0, format!("{path}.backoffLimitPerIndex"), "0 or more");
    }
    if let Some(most) = job.max_failed_indexes {
        let completions = job.completions.unwrap_or(0);
        let within = (0..=completions).contains(&most) && (completions <= MANY || most <= 10_000);
        rules.check(
            job.backoff_limit_per_index.is_some(),
            format!("{path}.maxFailedIndexes"),
            "only together with backoffLimitPerIndex",
        );
        rules.check(
            within,
            format!("{path}.maxFailedIndexes"),
            "at most completions, and 10000 for more than 100000 of them",
        );
    } else {
        rules.check(
            job.backoff_limit_per_index.is_none() || job.completions.unwrap_or(0) <= MANY,
            format!("{path}.maxFailedIndexes"),
            "set for more than 100000 completions",
        );
    }
    let policy = job.pod_failure_policy.as_ref();
    rules.check(
        policy.is_none() || job.pod_replacement_policy.as_deref() == Some("Failed"),
        format!("{path}.podReplacementPolicy"),
        "Failed, the only one beside a pod failure policy",
    );
    for (at, rule) in policy.iter().flat_map(|policy| &policy.rules).enumerate() {
        let path = format!("{path}.podFailurePolicy.rules[{at}]");
        rules.check(
            ["FailJob", "FailIndex", "Ignore", "Count"].contains(&rule.action.as_str()),
            format!("{path}.action"),
            "an action of batch/v1",
        );
        rules.check(
            rule.action != "FailIndex" || job.backoff_limit_per_index.is_some(),
            format!("{path}.action"),
            "FailIndex only together with backoffLimitPerIndex",
        );
        rules.check(
            rule.on_exit_codes.is_some() != rule.on_pod_conditions.is_some(),
            path,
            "exactly one of onExitCodes and onPodConditions",
        );
    }
}
