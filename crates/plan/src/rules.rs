//! What JobSet v0.12 and batch/v1 ask of a JobSet, restated. The API server would say it later and
//! elsewhere: JobSet's webhook does not look into Job templates, so an object that it takes may still
//! fail when its Jobs are made, with nothing but an event to show for it.
//!
//! Stricter than the API in one way: what the webhook would fill in has to be there, since the
//! controller of v0.12 ends in a panic where it is not.

mod job;
mod pods;

use quorate_api::jobset::{JobSet, JobSetSpec, job_failure};
use quorate_api::names::is_dns_1035_label;

/// A rule that a JobSet breaks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {rule}")]
pub struct Broken {
    /// The field.
    pub path: String,
    /// What is asked of it.
    pub rule: &'static str,
}

/// Checks a JobSet; the rules that it breaks.
pub fn check_jobset(jobset: &JobSet) -> Vec<Broken> {
    let mut rules = Rules::default();
    let name = jobset.metadata.name.as_deref().unwrap_or_default();
    rules.check(is_dns_1035_label(name), "metadata.name", "a DNS-1035 label");
    network(&jobset.spec, &mut rules);
    policies(&jobset.spec, &mut rules);
    let jobs = &jobset.spec.replicated_jobs;
    rules.check(!jobs.is_empty(), "spec.replicatedJobs", "at least one");
    for (at, replicated) in jobs.iter().enumerate() {
        let path = format!("spec.replicatedJobs[{at}]");
        let twice = jobs[..at].iter().any(|other| other.name == replicated.name);
        rules.check(!twice, format!("{path}.name"), "unique");
        rules.check(
            is_dns_1035_label(&replicated.group_name),
            format!("{path}.groupName"),
            "a DNS-1035 label",
        );
        rules.check(replicated.replicas >= 1, format!("{path}.replicas"), "1 or more");
        job::check(name, replicated, &path, &mut rules);
    }
    rules.0
}

/// What is broken so far.
#[derive(Default)]
struct Rules(Vec<Broken>);

impl Rules {
    fn check(&mut self, holds: bool, path: impl Into<String>, rule: &'static str) {
        if !holds {
            self.0.push(Broken { path: path.into(), rule });
        }
    }
}

fn network(spec: &JobSetSpec, rules: &mut Rules) {
    let Some(network) = &spec.network else {
        return rules.check(false, "spec.network", "set: the controller reads it without asking");
    };
    rules.check(
        network.enable_dns_hostnames == Some(true),
        "spec.network.enableDNSHostnames",
        "true: brokers find each other by name",
    );
    rules.check(
        network.publish_not_ready_addresses == Some(true),
        "spec.network.publishNotReadyAddresses",
        "true: brokers find each other before they are ready",
    );
    let subdomain = network.subdomain.as_deref();
    rules.check(
        subdomain.is_none_or(is_dns_1035_label),
        "spec.network.subdomain",
        "a DNS-1035 label, since it names the Service",
    );
}

fn policies(spec: &JobSetSpec, rules: &mut Rules) {
    let exists = |name: &String| spec.replicated_jobs.iter().any(|job| job.name == *name);
    match &spec.success_policy {
        None => {
            rules.check(false, "spec.successPolicy", "set: the controller reads it without asking");
        }
        Some(policy) => rules.check(
            policy.target_replicated_jobs.iter().all(exists),
            "spec.successPolicy.targetReplicatedJobs",
            "names of replicated jobs",
        ),
    }
    rules.check(spec.startup_policy.is_some(), "spec.startupPolicy", "set: the webhook would");
    rules.check(
        spec.ttl_seconds_after_finished.is_none_or(|ttl| ttl >= 0),
        "spec.ttlSecondsAfterFinished",
        "0 or more",
    );
    let Some(policy) = &spec.failure_policy else { return };
    rules.check(policy.max_restarts >= 0, "spec.failurePolicy.maxRestarts", "0 or more");
    for (at, rule) in policy.rules.iter().enumerate() {
        let path = format!("spec.failurePolicy.rules[{at}]");
        rules.check(
            is_rule_name(&rule.name),
            format!("{path}.name"),
            "1 to 128 characters: a letter first, then letters, digits and `_,:`, at the end no `,:`",
        );
        let twice = policy.rules[..at].iter().any(|other| other.name == rule.name);
        rules.check(!twice, format!("{path}.name"), "unique");
        rules.check(
            rule.on_job_failure_reasons.iter().all(|r| job_failure::ALL.contains(&r.as_str())),
            format!("{path}.onJobFailureReasons"),
            "reasons of batch/v1",
        );
        rules.check(
            rule.target_replicated_jobs.iter().all(exists),
            format!("{path}.targetReplicatedJobs"),
            "names of replicated jobs",
        );
    }
}

fn is_rule_name(name: &str) -> bool {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    (1..=128).contains(&name.len())
        && name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.ends_with(word)
        && name.chars().all(|c| word(c) || c == ',' || c == ':')
}

#[cfg(test)]
mod tests;
