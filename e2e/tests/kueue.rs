//! MiniClusters in the queues of the real Kueue: admission, quota, preemption, and one writer of
//! `suspend`.
//!
//! All tests of this file share one cluster; each has a ClusterQueue of its own, so that none takes
//! another's quota.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed step is a failed test")]

#[path = "kueue/admission.rs"]
mod admission;
#[path = "kueue/eviction.rs"]
mod eviction;
#[path = "kueue/topology.rs"]
mod topology;
#[path = "kueue/writers.rs"]
mod writers;

use quorate_e2e::{Lab, NAMESPACE};
use quorate_testbed::Shape;
use quorate_testbed::addons::Addon;
use quorate_testbed::images::Binaries;
use serde_json::{Value, json};
use std::process::Command;
use std::sync::LazyLock;

const VERSION: &str = "kueue.x-k8s.io/v1beta2";
const QUEUE_NAME: &str = "kueue.x-k8s.io/queue-name";
const PRIORITY_CLASS: &str = "kueue.x-k8s.io/priority-class";

/// The cluster ends with this process.
static LAB: LazyLock<Lab> = LazyLock::new(|| {
    let lab = Lab::up(Shape {
        name: "e2e-kueue".into(),
        addons: [Addon::Kueue].into(),
        ..Shape::default()
    });
    let class = |name: &str, value: i32| {
        json!({
            "apiVersion": VERSION, "kind": "WorkloadPriorityClass",
            "metadata": { "name": name }, "value": value,
        })
    };
    for object in [
        json!({ "apiVersion": VERSION, "kind": "ResourceFlavor", "metadata": { "name": "any" } }),
        class("low", 1),
        class("high", 1000),
    ] {
        lab.create(&object.to_string()).unwrap();
    }
    lab
});

/// A ClusterQueue with so much quota of CPUs, and a LocalQueue of the same name in `namespace`;
/// `more` is laid over the queue's spec.
fn queue_in(namespace: &str, name: &str, local: &str, cpus: &str, more: &Value) {
    // The agent's init container asks for memory too, so a queue has to cover it.
    let quota = |name: &str, of: &str| json!({ "name": name, "nominalQuota": of });
    let mut spec = json!({
        "namespaceSelector": {},
        "resourceGroups": [{
            "coveredResources": ["cpu", "memory"],
            "flavors": [{ "name": "any", "resources": [quota("cpu", cpus), quota("memory", "4Gi")] }],
        }],
    });
    for (key, value) in more.as_object().unwrap() {
        spec[key] = value.clone();
    }
    let metadata = json!({ "name": name });
    let cluster_queue = json!({
        "apiVersion": VERSION, "kind": "ClusterQueue", "metadata": metadata, "spec": spec,
    });
    LAB.create(&cluster_queue.to_string()).unwrap();
    let local_queue = json!({
        "apiVersion": VERSION, "kind": "LocalQueue",
        "metadata": { "name": local, "namespace": namespace },
        "spec": { "clusterQueue": name },
    });
    LAB.create(&local_queue.to_string()).unwrap();
}

/// A queue for the tests' namespace.
fn queue(name: &str, cpus: &str, more: &Value) {
    queue_in(NAMESPACE, name, name, cpus, more);
}

/// Sets the quota of a queue.
fn quota(name: &str, cpus: &str) {
    let path = "/spec/resourceGroups/0/flavors/0/resources/0/nominalQuota";
    let patch = json!([{ "op": "replace", "path": path, "value": cpus }]);
    LAB.kubectl(&["patch", "clusterqueue", name, "--type=json", "-p", &patch.to_string()]).unwrap();
}

/// Creates a MiniCluster with labels; `spec` is JSON. Each pod asks for 100m unless `spec` says otherwise.
fn minicluster(name: &str, labels: &Value, spec: &Value) {
    let mut whole = json!({
        "image": "localhost/mpi-debian:v1",
        "resources": { "requests": { "cpu": "100m" } },
    });
    for (key, value) in spec.as_object().unwrap() {
        whole[key] = value.clone();
    }
    let object = json!({
        "apiVersion": "quorate.dev/v1alpha1",
        "kind": "MiniCluster",
        "metadata": { "name": name, "labels": labels },
        "spec": whole,
    });
    LAB.create(&object.to_string()).unwrap();
}

/// The Workload of a JobSet, which has its cluster's name.
fn workload(jobset: &str) -> Option<Value> {
    let list = LAB.kubectl(&["-n", NAMESPACE, "get", "workloads", "-o", "json"]).unwrap();
    let list: Value = serde_json::from_str(&list).unwrap();
    let owned = |object: &&Value| object["metadata"]["ownerReferences"][0]["name"] == jobset;
    list["items"].as_array().unwrap().iter().find(owned).cloned()
}

/// A condition of an object; null if it has none of this type.
fn condition<'a>(object: &'a Value, kind: &str) -> &'a Value {
    let conditions = object["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.find(|condition| condition["type"] == kind).unwrap_or(&Value::Null)
}

/// Waits until a cluster's status has this state and reason.
fn until(name: &str, state: &str, reason: &str) -> Value {
    LAB.until(name, &format!("{state} for {reason}"), |object| {
        object["status"]["state"] == state && object["status"]["reason"] == reason
    })
}

/// What `quorate why` says.
fn why(name: &str) -> String {
    let program = Binaries::default().agent.with_file_name("quorate");
    let mut command = Command::new(program);
    command.args(["why", name, "-n", NAMESPACE, "--kubeconfig"]).arg(LAB.cluster.kubeconfig());
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(!text.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    text
}

/// The controller made the JobSet and never wrote to it again.
fn jobset_was_written_by_kueue_alone(name: &str) {
    let writes = LAB.writes("jobsets", NAMESPACE, name);
    assert!(writes.is_empty() || writes == ["create"], "{name}: {writes:?}");
}
