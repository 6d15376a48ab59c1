//! Faults of the controller itself and of those who write beside it, on a real Kubernetes.
//!
//! All tests share one cluster. Each brings a namespace of its own, most of them with controllers of
//! their own: the chart's watches the namespace `default` only. What breaks things that all of a cluster
//! stands on is in `outages.rs`.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed step is a failed test")]

#[path = "faults/agent.rs"]
mod agent;
#[path = "faults/answers.rs"]
mod answers;
#[path = "faults/definitions.rs"]
mod definitions;
#[path = "faults/foreign.rs"]
mod foreign;
#[path = "faults/leader.rs"]
mod leader;
#[path = "faults/names.rs"]
mod names;
#[path = "faults/steps.rs"]
mod steps;
#[path = "faults/writers.rs"]
mod writers;

use quorate_e2e::Lab;
use quorate_testbed::Shape;
use std::sync::LazyLock;

/// The cluster ends with this process.
static LAB: LazyLock<Lab> = LazyLock::new(|| {
    let shape = Shape { name: "e2e-faults".into(), ..Shape::default() };
    Lab::up_with(shape, &["--set", "watch.namespaces={default}"])
});

/// Pods that cost little; the agent needs no more.
const IMAGE: &str = "image: localhost/busybox:v1";
