//! Facts that cost a request, and when they are worth it.
//!
//! Events and Workloads are not watched for every cluster: there are many, and a cluster in which all
//! goes well needs none. Who observes asks here what would tell more, fetches that and looks again.

use k8s_openapi::jiff::{SignedDuration, Timestamp};

use crate::facts::pod::Phase;
use crate::observed::Observed;
use crate::scene::{Scene, Turn};

/// How long pods may be missing or pending before it is worth a request to ask why.
const WORTH_IT: SignedDuration = SignedDuration::from_secs(15);

/// Facts that are not there and would tell more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wants {
    /// Events about the JobSet, its Jobs and pods. Wanted as long as the trouble lasts; once in ten
    /// seconds is often enough.
    pub events: bool,
    /// The Workload that Kueue made for the JobSet.
    pub workload: bool,
}

/// What would tell more now.
pub fn wants(observed: &Observed, now: Timestamp) -> Wants {
    let scene = Scene::new(observed, now);
    let queued = scene.jobset.is_some_and(|jobset| jobset.queue.is_some());
    Wants {
        events: due(&scene).is_some_and(|due| now >= due),
        workload: scene.turn == Turn::Suspended
            && queued
            && observed.cluster.spec.suspend != Some(true),
    }
}

/// When events become worth a request, if they do.
pub(crate) fn due(scene: &Scene<'_>) -> Option<Timestamp> {
    if scene.turn != Turn::Waiting {
        return None;
    }
    let jobset = scene.jobset?;
    let jobs = scene.observed.own_jobs().filter_map(|job| job.created).max();
    let missing = (scene.pods.len() as u32) < scene.shape.size;
    // A pod without a node is the scheduler's, which speaks in the pod itself.
    let pending = scene
        .pods
        .values()
        .filter(|pod| pod.phase == Phase::Pending && pod.node.is_some())
        .filter_map(|pod| pod.created)
        .max();
    let since = if missing { jobs.or(jobset.created) } else { pending };
    since.map(|since| since + WORTH_IT)
}
