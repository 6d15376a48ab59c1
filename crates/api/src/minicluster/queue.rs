//! The job queue of a cluster: the types of `spec.queue`.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

/// How the job queue on the launcher works (`docs/queue.md`). Every cluster has one; in a cluster
/// without a program it is what the cluster is for.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Queue {
    /// Which job starts next: `easy` lets jobs overtake where they delay nobody, `fifo` none.
    #[serde(default)]
    pub policy: QueuePolicy,
    /// The name of a volume of the launcher's pod, from `template` or `launcher.template`, which
    /// outlives the pod: the queue's log and the kept output of jobs go there, each cluster's into a
    /// directory of its name. Default: they end with the launcher's pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub state_volume: Option<String>,
    /// Seconds without an unfinished job after which a cluster without a program ends, as succeeded.
    /// Default: it stays up until it is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub idle_timeout_seconds: Option<i32>,
}

/// Which job starts next.
#[derive(
    schemars::JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum QueuePolicy {
    /// In order, and EASY back-fill: a job overtakes where it delays nobody.
    #[default]
    Easy,
    /// In order alone.
    Fifo,
}
