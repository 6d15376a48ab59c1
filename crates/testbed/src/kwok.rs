//! Nodes that run nothing: kwok plays them and their pods, for tests of scale.
//!
//! Pods on them become ready and stay so until they are deleted, or until the annotation
//! [`COMPLETE`] tells that they have done their work.

use crate::api::{Api, ApiError};
use serde_json::{Value, json};

/// A pod with this annotation set to `yes` has succeeded.
pub const COMPLETE: &str = "testbed.quorate.dev/complete";
/// Keeps real pods away from played nodes; pods for them tolerate it.
pub const TAINT: &str = "kwok.x-k8s.io/node";

/// Creates the nodes.
pub fn create_nodes(api: &Api, count: u32) -> Result<(), ApiError> {
    (0..count).try_for_each(|number| api.create("/api/v1/nodes", &node(number)))
}

/// A node that kwok takes: it must be whole but for what kwok keeps up to date.
fn node(number: u32) -> Value {
    let name = format!("fake-{number}");
    let size = json!({ "cpu": "64", "memory": "256Gi", "pods": "250", "ephemeral-storage": "1Ti" });
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": { "kwok.x-k8s.io/node": "fake" },
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                "type": "kwok",
            },
        },
        "spec": { "taints": [{ "key": TAINT, "value": "fake", "effect": "NoSchedule" }] },
        "status": { "allocatable": size, "capacity": size },
    })
}
