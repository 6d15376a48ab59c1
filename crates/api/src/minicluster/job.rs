//! A job of a program that is a list of jobs: the types of `spec.program.jobs`.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use super::Variable;

/// A job for the cluster's own queue.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Job {
    /// What people call it, and others in `after`.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,
    /// The program of each task. An argument list, never a shell line.
    #[schemars(length(min = 1))]
    pub command: Vec<String>,
    /// Arguments after `command`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Tasks in all. Default: 1, or `tasksPerNode` on each of `nodes`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub tasks: Option<i32>,
    /// Nodes, that is pods. Default: as few as the tasks fit on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub nodes: Option<i32>,
    /// The most tasks of one node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub tasks_per_node: Option<i32>,
    /// Cores of each task. Default: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub cpus_per_task: Option<i32>,
    /// Accelerators of each task. Default: 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub gpus_per_task: Option<i32>,
    /// Seconds that it may take. Default: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub time_limit_seconds: Option<i32>,
    /// Variables of each task, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub env: Vec<Variable>,
    /// The directory that tasks start in. Default: the main container's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_dir: Option<String>,
    /// Jobs before it in the list that must have ended with 0. When one of them does not, it never
    /// starts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<String>,
}
