//! What is kept of a JobSet.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::jiff::Timestamp;
use quorate_api::jobset::JobSet;
use quorate_api::names::{QUEUE_NAME, is_of_kueue};
use quorate_plan::labels;

use super::job::node_keys;
use super::lost_nodes::LostNodes;
use super::{Reading, annotation, at, controller, label};

/// The JobSet of a cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobSetFacts {
    /// The name.
    pub name: String,
    /// The UID.
    pub uid: String,
    /// Kind, name and UID of the owner that controls it.
    pub owner: Option<(String, String, String)>,
    /// When it was created.
    pub created: Option<Timestamp>,
    /// When its deletion was asked for.
    pub deleting: Option<Timestamp>,
    /// `spec.suspend`.
    pub suspend: Option<bool>,
    /// `spec.ttlSecondsAfterFinished`.
    pub ttl_seconds: Option<i32>,
    /// `spec.managedBy`: when it names someone else, JobSet's own controller does nothing.
    pub managed_by: Option<String>,
    /// The LocalQueue, when Kueue looks after it.
    pub queue: Option<String>,
    /// All labels of Kueue, the queue's too.
    pub queueing: BTreeMap<String, String>,
    /// All annotations of Kueue, the JobSet's own and those of its pod templates.
    pub queue_notes: BTreeSet<(String, String)>,
    /// The annotation [`labels::SPEC_HASH`]: what it was planned from.
    pub spec_hash: Option<String>,
    /// The note of nodes that do not answer.
    pub lost_nodes: LostNodes,
    /// Pods of each group, by the template: what a restart goes back to.
    pub groups: Vec<(String, i32)>,
    /// Labels that the pods of each group want of their nodes, by the template; only groups that want
    /// any.
    pub node_keys: Vec<(String, Vec<String>)>,
    /// Restarts in all; the attempt that runs now.
    pub restarts: u32,
    /// Restarts that counted.
    pub restarts_counted: u32,
    /// Whether the JobSet controller has spoken of it at all.
    pub seen: bool,
    /// The condition Completed (`Complete` in a later version).
    pub completed: Reading,
    /// The condition Failed.
    pub failed: Reading,
    /// The condition Suspended; absent if it was never suspended.
    pub suspended: Reading,
    /// The condition RestartingJobSet (JobSet v0.12 and later).
    pub restarting: Reading,
}

impl JobSetFacts {
    /// Reads a JobSet.
    pub fn from_jobset(jobset: &JobSet) -> Self {
        let metadata = &jobset.metadata;
        let status = jobset.status.as_ref();
        let reading = |kinds: &[&str]| {
            status
                .into_iter()
                .flat_map(|status| &status.conditions)
                .find(|condition| kinds.contains(&condition.type_.as_str()))
                .map_or(Reading::Absent, |condition| {
                    Reading::of(
                        &condition.status,
                        Some(&condition.reason),
                        Some(&condition.message),
                        Some(condition.last_transition_time.0),
                    )
                })
        };
        let terminal = |word: &str, seen: Reading| {
            let said = status.and_then(|status| status.terminal_state.as_deref()) == Some(word);
            match seen {
                Reading::Absent if said => Reading::of("True", Some(word), None, None),
                seen => seen,
            }
        };
        Self {
            name: metadata.name.clone().unwrap_or_default(),
            uid: metadata.uid.clone().unwrap_or_default(),
            owner: controller(metadata)
                .map(|owner| (owner.kind.clone(), owner.name.clone(), owner.uid.clone())),
            created: at(metadata.creation_timestamp.as_ref()),
            deleting: at(metadata.deletion_timestamp.as_ref()),
            suspend: jobset.spec.suspend,
            ttl_seconds: jobset.spec.ttl_seconds_after_finished,
            managed_by: jobset.spec.managed_by.clone(),
            queue: label(metadata, QUEUE_NAME).map(str::to_owned),
            queueing: metadata
                .labels
                .iter()
                .flatten()
                .filter(|(key, _)| is_of_kueue(key))
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect(),
            queue_notes: std::iter::once(metadata)
                .chain(
                    jobset
                        .spec
                        .replicated_jobs
                        .iter()
                        .filter_map(|job| job.template.spec.as_ref()?.template.metadata.as_ref()),
                )
                .flat_map(|metadata| metadata.annotations.iter().flatten())
                .filter(|(key, _)| is_of_kueue(key))
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect(),
            spec_hash: annotation(metadata, labels::SPEC_HASH).map(str::to_owned),
            lost_nodes: LostNodes::of(metadata),
            groups: jobset
                .spec
                .replicated_jobs
                .iter()
                .map(|job| {
                    let pods = job.template.spec.as_ref().and_then(|spec| spec.completions);
                    (job.name.clone(), pods.unwrap_or(1))
                })
                .collect(),
            node_keys: jobset
                .spec
                .replicated_jobs
                .iter()
                .filter_map(|job| {
                    let keys = node_keys(&job.template.spec.as_ref()?.template);
                    (!keys.is_empty()).then(|| (job.name.clone(), keys))
                })
                .collect(),
            restarts: status.map_or(0, |status| status.restarts.max(0).cast_unsigned()),
            restarts_counted: status
                .map_or(0, |status| status.restarts_count_towards_max.max(0).cast_unsigned()),
            seen: status.is_some(),
            completed: terminal("Completed", reading(&["Completed", "Complete"])),
            failed: terminal("Failed", reading(&["Failed"])),
            suspended: reading(&["Suspended"]),
            restarting: reading(&["RestartingJobSet"]),
        }
    }
}
