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
    /// Queues with limits and nodes of their own, which jobs choose with `-q`, or `-p` as in Slurm; jobs
    /// that choose none are in the first. Default: one, `default`, without limits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub queues: Vec<NamedQueue>,
}

/// One of the queues that jobs are in, as a partition of Slurm's.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NamedQueue {
    /// Its name.
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[a-z]([-a-z0-9]*[a-z0-9])?$"))]
    pub name: String,
    /// The groups whose pods its jobs run on: `launcher`, or names of `spec.groups`. Default: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub groups: Vec<String>,
    /// The most nodes of a job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_nodes: Option<i32>,
    /// The most tasks of a job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_tasks: Option<i32>,
    /// The most cores of a job, in all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_cores: Option<i32>,
    /// The most accelerators of a job, in all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub max_gpus: Option<i32>,
    /// The longest time limit, in seconds; a job without one gets `defaultTimeSeconds`, or is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_time_seconds: Option<i32>,
    /// The time limit, in seconds, of a job that says none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub default_time_seconds: Option<i32>,
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
