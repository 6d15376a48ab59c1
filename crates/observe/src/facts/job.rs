//! What is kept of a child Job of a JobSet.

use k8s_openapi::api::batch::v1::{Job, JobCondition};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::jiff::Timestamp;
use quorate_api::jobset::label as jobset_label;

use super::{Reading, at, label, number};

/// One Job: the pods of one group in one attempt.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobFacts {
    /// The name.
    pub name: String,
    /// The UID.
    pub uid: String,
    /// The UID of the JobSet that it belongs to.
    pub jobset: String,
    /// The group.
    pub group: String,
    /// The restart attempt.
    pub attempt: u32,
    /// Pods that shall run now.
    pub parallelism: i32,
    /// Pods that shall complete.
    pub completions: i32,
    /// Pods that are pending or running.
    pub active: i32,
    /// Pods that are ready.
    pub ready: i32,
    /// Pods that completed.
    pub succeeded: i32,
    /// Pods that failed.
    pub failed_pods: i32,
    /// Whether `spec.suspend` is true.
    pub suspended: bool,
    /// Labels that its pods want of their nodes (`nodeSelector`).
    pub node_keys: Vec<String>,
    /// Seconds from its start after which it fails.
    pub limit: Option<i64>,
    /// When it was started; a suspension takes that back.
    pub started: Option<Timestamp>,
    /// When it was created.
    pub created: Option<Timestamp>,
    /// When its deletion was asked for.
    pub deleting: Option<Timestamp>,
    /// The condition Complete.
    pub complete: Reading,
    /// The condition Failed.
    pub failed: Reading,
}

impl JobFacts {
    /// Reads a Job.
    pub fn from_job(job: &Job) -> Self {
        let metadata = &job.metadata;
        let spec = job.spec.as_ref();
        let status = job.status.as_ref();
        let conditions = status.and_then(|status| status.conditions.as_deref()).unwrap_or_default();
        Self {
            name: metadata.name.clone().unwrap_or_default(),
            uid: metadata.uid.clone().unwrap_or_default(),
            jobset: label(metadata, jobset_label::JOBSET_UID).unwrap_or_default().to_owned(),
            group: label(metadata, jobset_label::REPLICATED_JOB).unwrap_or_default().to_owned(),
            attempt: number(label(metadata, jobset_label::RESTART_ATTEMPT)),
            parallelism: spec.and_then(|spec| spec.parallelism).unwrap_or_default(),
            completions: spec.and_then(|spec| spec.completions).unwrap_or_default(),
            active: status.and_then(|status| status.active).unwrap_or_default(),
            ready: status.and_then(|status| status.ready).unwrap_or_default(),
            succeeded: status.and_then(|status| status.succeeded).unwrap_or_default(),
            failed_pods: status.and_then(|status| status.failed).unwrap_or_default(),
            suspended: spec.and_then(|spec| spec.suspend).unwrap_or_default(),
            node_keys: spec.map(|spec| node_keys(&spec.template)).unwrap_or_default(),
            limit: spec.and_then(|spec| spec.active_deadline_seconds),
            started: at(status.and_then(|status| status.start_time.as_ref())),
            created: at(metadata.creation_timestamp.as_ref()),
            deleting: at(metadata.deletion_timestamp.as_ref()),
            complete: reading(conditions, "Complete"),
            failed: reading(conditions, "Failed"),
        }
    }
}

/// The keys of a template's node selector.
pub(crate) fn node_keys(template: &PodTemplateSpec) -> Vec<String> {
    let selector = template.spec.as_ref().and_then(|spec| spec.node_selector.as_ref());
    selector.into_iter().flat_map(|selector| selector.keys().cloned()).collect()
}

fn reading(conditions: &[JobCondition], kind: &str) -> Reading {
    conditions.iter().find(|condition| condition.type_ == kind).map_or(
        Reading::Absent,
        |condition| {
            Reading::of(
                &condition.status,
                condition.reason.as_deref(),
                condition.message.as_deref(),
                at(condition.last_transition_time.as_ref()),
            )
        },
    )
}
