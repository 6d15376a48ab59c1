//! MiniClusters on a real Kubernetes with three nodes, with the controller from its chart.
//!
//! All tests of this file share one cluster, so that it is started once; each has names of its own.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed step is a failed test")]

#[path = "operator/causes.rs"]
mod causes;
#[path = "operator/corpus.rs"]
mod corpus;
#[path = "operator/lifecycle.rs"]
mod lifecycle;
#[path = "operator/outside.rs"]
mod outside;
#[path = "operator/programs.rs"]
mod programs;
#[path = "operator/queue.rs"]
mod queue;
#[path = "operator/truth.rs"]
mod truth;
#[path = "operator/verbs.rs"]
mod verbs;

use quorate_e2e::Lab;
use quorate_testbed::Shape;
use std::sync::LazyLock;

/// The cluster ends with this process.
static LAB: LazyLock<Lab> =
    LazyLock::new(|| Lab::up(Shape { name: "e2e-operator".into(), ..Shape::default() }));

/// Pods of a cluster go to different nodes as long as there are any.
fn spread(cluster: &str) -> String {
    format!(
        "template:
  spec:
    containers: [{{name: main, image: 'localhost/mpi-debian:v1'}}]
    topologySpreadConstraints:
    - maxSkew: 1
      topologyKey: kubernetes.io/hostname
      whenUnsatisfiable: DoNotSchedule
      labelSelector: {{matchLabels: {{quorate.dev/cluster: {cluster}}}}}
"
    )
}
