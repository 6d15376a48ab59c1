//! Faults of the control plane and of the controller itself, on a real Kubernetes.
//!
//! All tests share one cluster. Those that break what all of it stands on (the API server, the JobSet
//! controller) take it for themselves meanwhile; the others bring a namespace of their own, most of
//! them with controllers of their own: the chart's watches the namespace `default` only.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed step is a failed test")]

#[path = "faults/answers.rs"]
mod answers;
#[path = "faults/control_plane.rs"]
mod control_plane;
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
use std::sync::{LazyLock, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// The cluster ends with this process.
static LAB: LazyLock<Lab> = LazyLock::new(|| {
    let shape = Shape { name: "e2e-faults".into(), ..Shape::default() };
    Lab::up_with(shape, &["--set", "watch.namespaces={default}"])
});

/// Held by tests that need a whole control plane, and alone by those that break it.
static WHOLE: RwLock<()> = RwLock::new(());

/// The cluster, for a test that others may run beside.
fn shared() -> (&'static Lab, RwLockReadGuard<'static, ()>) {
    // A test that failed broke nothing that it does not mend when it ends.
    let guard = WHOLE.read().unwrap_or_else(std::sync::PoisonError::into_inner);
    (&LAB, guard)
}

/// The cluster, for a test that breaks something which others stand on.
fn alone() -> (&'static Lab, RwLockWriteGuard<'static, ()>) {
    let guard = WHOLE.write().unwrap_or_else(std::sync::PoisonError::into_inner);
    (&LAB, guard)
}

/// Pods that cost little; the agent needs no more.
const IMAGE: &str = "image: localhost/busybox:v1";
