//! Outages of what all of a cluster stands on, under the controllers of the chart: the API server, JobSet's
//! controller and definition, the leader's link, and nodes that take no pods.
//!
//! The tests share one cluster, one after the other: each breaks it, and mends it when it ends.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed step is a failed test")]

#[path = "outages/control_plane.rs"]
mod control_plane;
#[path = "outages/definition.rs"]
mod definition;
#[path = "outages/link.rs"]
mod link;
#[path = "outages/taint.rs"]
mod taint;

use quorate_e2e::{Lab, NAMESPACE, SYSTEM, ledger};
use quorate_testbed::Shape;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

/// Pods that cost little; the agent needs no more.
const IMAGE: &str = "image: localhost/busybox:v1";

/// The cluster ends with this process.
static LAB: LazyLock<Mutex<Lab>> = LazyLock::new(|| {
    Mutex::new(Lab::up(Shape { name: "e2e-outages".into(), nodes: 2, ..Shape::default() }))
});

/// The cluster, for one test alone.
fn alone() -> MutexGuard<'static, Lab> {
    LAB.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How often the containers of the controllers were started again.
fn restarts(lab: &Lab) -> String {
    let path = "jsonpath={.items[*].status.containerStatuses[*].restartCount}";
    lab.kubectl(&["-n", SYSTEM, "get", "pods", "-o", path]).unwrap()
}

/// Objects of a cluster that were made, by resource.
fn made(lab: &Lab, name: &str) -> BTreeMap<String, usize> {
    let mut made = BTreeMap::new();
    for write in ledger::writes(lab, NAMESPACE) {
        let ours = write.name == name || write.name.starts_with(&format!("{name}-"));
        if ours && write.verb == "create" && write.code == 201 {
            *made.entry(write.resource).or_default() += 1;
        }
    }
    made
}

/// `quorate why` must say of a cluster what its status says.
fn explained(lab: &Lab, name: &str, object: &Value) {
    let said = lab.quorate(&["why", name]);
    let first =
        format!("{name} is not running: {}.", object["status"]["message"].as_str().unwrap());
    assert_eq!((said.code, said.out.lines().next()), (0, Some(first.as_str())), "{said:?}");
}
