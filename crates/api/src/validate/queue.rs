//! The rules of `spec.queue`.

use super::Findings;
use super::pods::MergedTemplates;
use super::spec::number;
use crate::finding::{FieldPath, Finding};
use crate::minicluster::{MiniClusterSpec, QueuePolicy};

/// How the job queue works.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ValidatedQueue {
    /// Whether jobs start in their order alone.
    pub fifo: bool,
    /// A volume of the launcher's pod that outlives it.
    pub state_volume: Option<String>,
    /// Seconds without an unfinished job after which the cluster ends.
    pub idle_timeout_seconds: Option<u32>,
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
    }
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
