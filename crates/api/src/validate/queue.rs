//! The rules of `spec.queue`.

use super::Findings;
use super::pods::MergedTemplates;
use super::spec::{number, number_at};
use crate::finding::{FieldPath, Finding};
use crate::minicluster::{MiniClusterSpec, NamedQueue, QueuePolicy};
use crate::names::{LAUNCHER, WORKER, is_dns_1035_label};
use std::collections::BTreeSet;

/// How the job queue works.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ValidatedQueue {
    /// Whether jobs start in their order alone.
    pub fifo: bool,
    /// A volume of the launcher's pod that outlives it.
    pub state_volume: Option<String>,
    /// Seconds without an unfinished job after which the cluster ends.
    pub idle_timeout_seconds: Option<u32>,
    /// Its queues; none is one without limits.
    pub queues: Vec<ValidatedNamedQueue>,
}

/// A queue with limits of its own. What is `None` has none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ValidatedNamedQueue {
    /// Its name; unique.
    pub name: String,
    /// The groups that it has; none is all.
    pub groups: Vec<String>,
    /// The most nodes of a job.
    pub nodes: Option<u32>,
    /// The most tasks of a job.
    pub tasks: Option<u32>,
    /// The most cores of a job.
    pub cores: Option<u32>,
    /// The most accelerators of a job.
    pub gpus: Option<u32>,
    /// The longest time limit in seconds.
    pub time: Option<u32>,
    /// The time limit in seconds of a job that says none.
    pub default_time: Option<u32>,
}

pub(super) fn check(
    spec: &MiniClusterSpec,
    merged: &MergedTemplates,
    findings: &mut Findings,
) -> ValidatedQueue {
    let Some(queue) = &spec.queue else { return ValidatedQueue::default() };
    let path = FieldPath::new("spec.queue");
    if spec.has_program() {
        let given = [
            ("stateVolume", queue.state_volume.is_some()),
            ("idleTimeoutSeconds", queue.idle_timeout_seconds.is_some()),
        ];
        for (field, _) in given.iter().filter(|(_, given)| *given) {
            findings.push(
                Finding::error(
                    path.key(field),
                    "the queue of a cluster with a program ends with it",
                )
                .hint("leave it out, or the program"),
            );
        }
    }
    if let Some(name) = &queue.state_volume {
        state_volume(&path.key("stateVolume"), name, merged, findings);
    }
    ValidatedQueue {
        fifo: queue.policy == QueuePolicy::Fifo,
        state_volume: queue.state_volume.clone(),
        idle_timeout_seconds: queue
            .idle_timeout_seconds
            .map(|n| number(findings, "spec.queue.idleTimeoutSeconds", n, 1, i32::MAX)),
        queues: queues(spec, &queue.queues, findings),
    }
}

/// Names are told apart, groups are there, and a job without a time limit can be in each.
fn queues(
    spec: &MiniClusterSpec,
    queues: &[NamedQueue],
    findings: &mut Findings,
) -> Vec<ValidatedNamedQueue> {
    let path = FieldPath::new("spec.queue.queues");
    let mut groups: Vec<&str> = spec.groups.iter().map(|group| group.name.as_str()).collect();
    if groups.is_empty() {
        groups.push(WORKER);
    }
    groups.push(LAUNCHER);
    let mut names = BTreeSet::new();
    let mut checked = Vec::new();
    for (at, queue) in queues.iter().enumerate() {
        let path = path.index(at);
        if !is_dns_1035_label(&queue.name) {
            findings.push(
                Finding::error(
                    path.key("name"),
                    format!("`{}` is not a name for a queue", queue.name),
                )
                .hint(
                    "use lower-case letters, digits and `-`, a letter first, 63 characters at most",
                ),
            );
        }
        if !names.insert(&queue.name) {
            let name = &queue.name;
            findings.push(
                Finding::error(path.key("name"), format!("there is already a queue `{name}`"))
                    .hint("give it another name"),
            );
        }
        for (at, group) in queue.groups.iter().enumerate() {
            if !groups.contains(&group.as_str()) {
                findings.push(
                    Finding::error(
                        path.key("groups").index(at),
                        format!("there is no group `{group}`"),
                    )
                    .hint(format!("the groups are {}", groups.join(", "))),
                );
            }
        }
        if let (Some(most), Some(usual)) = (queue.max_time_seconds, queue.default_time_seconds)
            && usual > most
        {
            findings.push(
                Finding::error(
                    path.key("defaultTimeSeconds"),
                    format!("{usual} is more than maxTimeSeconds: {most}"),
                )
                .hint(format!("set it to at most {most}")),
            );
        }
        let mut limit = |field: &str, value: Option<i32>, least: i32| {
            value.map(|n| number_at(findings, path.key(field), n, least, i32::MAX))
        };
        checked.push(ValidatedNamedQueue {
            name: queue.name.clone(),
            groups: queue.groups.clone(),
            nodes: limit("maxNodes", queue.max_nodes, 1),
            tasks: limit("maxTasks", queue.max_tasks, 1),
            cores: limit("maxCores", queue.max_cores, 1),
            gpus: limit("maxGpus", queue.max_gpus, 0),
            time: limit("maxTimeSeconds", queue.max_time_seconds, 1),
            default_time: limit("defaultTimeSeconds", queue.default_time_seconds, 1),
        });
    }
    checked
}

/// The volume must be the launcher's, and outlive it.
fn state_volume(path: &FieldPath, name: &str, merged: &MergedTemplates, findings: &mut Findings) {
    let volumes = merged.launcher.template.spec.as_ref().and_then(|pod| pod.volumes.as_ref());
    let Some(volume) = volumes.into_iter().flatten().find(|volume| volume.name == name) else {
        findings.push(
            Finding::error(path.clone(), format!("the launcher has no volume `{name}`")).hint(
                "add it to spec.launcher.template.spec.volumes, for example with a persistentVolumeClaim",
            ),
        );
        return;
    };
    if volume.empty_dir.is_some() || volume.ephemeral.is_some() {
        findings.push(
            Finding::error(path.clone(), format!("the volume `{name}` ends with the pod"))
                .hint("take one that outlives it, such as a persistentVolumeClaim"),
        );
    }
}
