//! What is created in the benchmark of controllers: three pods each, for nodes that kwok plays.

use anyhow::{Context as _, Result, anyhow};
use quorate_api::Target;
use quorate_plan::{Context, Delivery, Plan, Seed, plan};
use quorate_testbed::kwok;
use serde_json::{Value, json};

/// Pods of each object.
pub const PODS: usize = 3;
/// Where the objects are.
const NAMESPACE: &str = "default";
/// kwok pulls no images.
const IMAGE: &str = "localhost/mpi-debian:v1";

/// The collection of a kind in the objects' namespace.
pub fn collection(group: &str, plural: &str) -> String {
    collection_in(NAMESPACE, group, plural)
}

/// The collection of a kind in any namespace.
pub fn collection_in(namespace: &str, group: &str, plural: &str) -> String {
    match group {
        "v1" => format!("/api/v1/namespaces/{namespace}/{plural}"),
        group => format!("/apis/{group}/namespaces/{namespace}/{plural}"),
    }
}

/// Pods may run on played nodes.
fn tolerations() -> Value {
    json!([{ "key": kwok::TAINT, "operator": "Exists" }])
}

fn pod_template(container: &str) -> Value {
    json!({ "spec": {
        "tolerations": tolerations(),
        "containers": [{ "name": container, "image": IMAGE, "command": ["sleep", "3600"] }],
    } })
}

/// A MiniCluster without a program: it is up until it is deleted.
pub fn minicluster(name: &str) -> Value {
    minicluster_of(name, &json!({ "size": PODS, "template": pod_template("main") }))
}

/// A MiniCluster of any spec.
pub fn minicluster_of(name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "quorate.dev/v1alpha1",
        "kind": "MiniCluster",
        "metadata": { "name": name },
        "spec": spec,
    })
}

/// The JobSet that [`minicluster`] becomes, as if someone had written it.
pub fn jobset(name: &str) -> Result<Value> {
    let planned = planned(&minicluster(name), Delivery::Copy)?;
    let mut jobset = serde_json::to_value(&planned.jobset).context("render the JobSet")?;
    // There is no MiniCluster to belong to.
    jobset["metadata"]["ownerReferences"] = Value::Null;
    jobset["metadata"]["namespace"] = NAMESPACE.into();
    Ok(jobset)
}

/// What a MiniCluster becomes.
pub fn planned(minicluster: &Value, agent_delivery: Delivery) -> Result<Plan> {
    let document = quorate_api::load(&minicluster.to_string(), Target::Kubernetes)
        .map_err(|findings| anyhow!("the MiniCluster is not valid: {findings:?}"))?;
    let context = Context {
        agent_image: "localhost/quorate-agent:v1".to_owned(),
        agent_delivery,
        port_forward: true,
        cluster_domain: None,
    };
    Ok(plan(&document.validated, &context, &Seed::new([7; 32])))
}

/// A job of mpi-operator: a launcher and workers.
pub fn mpijob(name: &str) -> Value {
    let role = |replicas: usize| json!({ "replicas": replicas, "restartPolicy": "Never", "template": pod_template("main") });
    json!({
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": { "name": name },
        "spec": {
            "slotsPerWorker": 1,
            "mpiReplicaSpecs": { "Launcher": role(1), "Worker": role(PODS - 1) },
        },
    })
}

/// The name of the runtime that [`trainjob`] refers to.
const RUNTIME: &str = "bench";

/// What Trainer makes JobSets from.
pub fn training_runtime() -> Value {
    json!({
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "ClusterTrainingRuntime",
        "metadata": { "name": RUNTIME },
        "spec": {
            "mlPolicy": { "numNodes": PODS },
            "template": { "spec": { "replicatedJobs": [{
                "name": "node",
                "template": {
                    "metadata": {
                        "labels": { "trainer.kubeflow.org/trainjob-ancestor-step": "trainer" },
                    },
                    "spec": { "template": pod_template("node") },
                },
            }] } },
        },
    })
}

/// A job of Trainer.
pub fn trainjob(name: &str) -> Value {
    json!({
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": { "name": name },
        "spec": { "runtimeRef": { "name": RUNTIME }, "trainer": { "numNodes": PODS } },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_jobset_has_the_pods_of_a_minicluster() {
        let jobset = jobset("a").unwrap();
        let jobs = jobset["spec"]["replicatedJobs"].as_array().unwrap();
        let pods: u64 = jobs
            .iter()
            .map(|job| job["template"]["spec"]["parallelism"].as_u64().unwrap_or_default())
            .sum();
        assert_eq!(pods, PODS as u64);
        assert!(jobset["metadata"]["ownerReferences"].is_null());
    }
}
