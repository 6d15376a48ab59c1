//! What keeps clusters apart from strangers: Pod Security, NetworkPolicies, keys, and no rights.
//!
//! All tests of this file share one Kubernetes, in which policies are enforced and whose services have
//! a domain of their own: whatever works here works with any domain.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed step is a failed test")]

#[path = "isolation/network.rs"]
mod network;
#[path = "isolation/restricted.rs"]
mod restricted;
#[path = "isolation/secrets.rs"]
mod secrets;
#[path = "isolation/status_channel.rs"]
mod status_channel;

use quorate_e2e::Lab;
use quorate_testbed::Shape;
use quorate_testbed::addons::Addon;
use serde_json::{Value, json};
use std::sync::LazyLock;

/// The domain of services.
const DOMAIN: &str = "hpc.example";
/// The controller's label, by which policies of clusters know it.
const CONTROLLER: &str = "quorate-controller";

/// The cluster ends with this process.
static LAB: LazyLock<Lab> = LazyLock::new(|| {
    Lab::up(Shape {
        name: "e2e-isolation".into(),
        addons: [Addon::NetworkPolicies].into(),
        cluster_domain: DOMAIN.into(),
        ..Shape::default()
    })
});

/// The other namespaces of the tests, each made once.
static SPACES: LazyLock<()> = LazyLock::new(|| {
    for (name, level) in [("strangers", "privileged"), ("locked", "restricted")] {
        let labels = json!({ "pod-security.kubernetes.io/enforce": level });
        let metadata = json!({ "name": name, "labels": labels });
        let space = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": metadata });
        LAB.create(&space.to_string()).unwrap();
    }
});

/// A pod with a shell that does nothing, as anyone may have one.
fn idle_pod(namespace: &str, name: &str, label: &str) {
    LazyLock::force(&SPACES);
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name, "namespace": namespace, "labels": { "app.kubernetes.io/name": label },
        },
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "containers": [{
                "name": "main",
                "image": "localhost/busybox:v1",
                "command": ["sleep", "3600"],
            }],
        },
    });
    LAB.create(&pod.to_string()).unwrap();
    let wait = ["-n", namespace, "wait", "--for=condition=Ready", "pod", name, "--timeout=120s"];
    LAB.kubectl(&wait).unwrap();
}

/// Objects of a MiniCluster in any namespace.
fn objects(namespace: &str, kind: &str, cluster: &str) -> Vec<Value> {
    let selector = format!("quorate.dev/cluster={cluster}");
    let arguments = ["-n", namespace, "get", kind, "-l", &selector, "-o", "json"];
    let list: Value = serde_json::from_str(&LAB.kubectl(&arguments).unwrap()).unwrap();
    list["items"].as_array().unwrap().clone()
}

/// Waits for a state of a MiniCluster in any namespace.
fn state(namespace: &str, name: &str, state: &str) -> Value {
    let ask = || -> Value {
        let arguments = ["-n", namespace, "get", "mc", name, "-o", "json"];
        serde_json::from_str(&LAB.kubectl(&arguments).unwrap()).unwrap()
    };
    LAB.eventually(&format!("{name} is {state}"), ask, |object| object["status"]["state"] == state)
}

fn name_of(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap()
}

/// The pod of rank 0.
fn launcher(namespace: &str, cluster: &str) -> Value {
    let pods = objects(namespace, "pods", cluster);
    let of_rank_0 = |pod: &Value| pod["metadata"]["labels"]["quorate.dev/role"] == "launcher";
    pods.into_iter().find(of_rank_0).unwrap()
}
