//! What a cluster costs the controller's memory: the growth of this process's resident set by many
//! clusters, as watches bring them and looks leave them.

#![allow(clippy::unwrap_used, reason = "a test says by a panic what is wrong")]

#[path = "reconcile/context.rs"]
mod context;

use std::sync::Arc;

use http::{Method, Request, Response};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::client::Body;
use kube::runtime::{reflector, watcher};
use quorate_api::jobset::JobSet;
use quorate_controller::context::Context;
use quorate_controller::reconcile::reconcile;
use quorate_controller::watch::{Key, Lean, Owner, Packed, Place, place};
use quorate_observe::{JobFacts, JobSetFacts, PodFacts};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Clusters that are measured.
const CLUSTERS: usize = 1_000;
/// What one of three pods may cost, in KiB, with a status that was just written: a thousand of them
/// fit into 40 MiB beside the program itself, its connections and what is under way.
const MOST: f64 = 14.0;

/// An API server that agrees with everything and keeps nothing.
fn agreeable() -> Client {
    let service = tower::service_fn(|request: Request<Body>| async {
        let (parts, body) = request.into_parts();
        let bytes = body.collect_bytes().await?;
        let mut object: Value = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        let path = parts.uri.path();
        let code = match parts.method {
            Method::POST => 201,
            Method::PATCH if path.ends_with("/status") => {
                object = minicluster(path.rsplit('/').nth(1).unwrap());
                object["metadata"]["resourceVersion"] = "2".into();
                200
            }
            Method::PATCH => 200,
            _ => {
                object = json!({
                    "kind": "Status", "apiVersion": "v1", "status": "Failure",
                    "reason": "NotFound", "code": 404,
                });
                404
            }
        };
        object["metadata"]["uid"] = "0e5c1a4e-9d3b-4f0e-8f46-1d2a7b9f3c55".into();
        let answer =
            Response::builder().status(code).body(Body::from(object.to_string().into_bytes()));
        answer.map_err(tower::BoxError::from)
    });
    Client::new(service, "hpc")
}

fn uid(kind: usize, name: &str) -> String {
    format!("0e5c1a4e-9d3b-4f{kind:02x}-8f46-{name:0>12}")
}

fn minicluster(name: &str) -> Value {
    json!({
        "apiVersion": "quorate.dev/v1alpha1",
        "kind": "MiniCluster",
        "metadata": {
            "name": name, "namespace": "hpc", "uid": uid(0, name), "generation": 1,
            "resourceVersion": "1", "creationTimestamp": "2026-11-01T10:00:00Z",
            "annotations": {
                "kubectl.kubernetes.io/last-applied-configuration": "x".repeat(900),
            },
            "managedFields": [{"manager": "kubectl", "fieldsV1": {"f:spec": {"f:size": {}}}}],
        },
        "spec": {
            "size": 3,
            "template": {"spec": {
                "tolerations": [{"key": "kwok.x-k8s.io/node", "operator": "Exists"}],
                "containers": [{
                    "name": "main", "image": "localhost/mpi-debian:v1",
                    "command": ["sleep", "3600"],
                }],
            }},
        },
    })
}

fn labels(name: &str, group: &str) -> Value {
    json!({
        "quorate.dev/cluster": name,
        "quorate.dev/group": group,
        "jobset.sigs.k8s.io/jobset-name": name,
        "jobset.sigs.k8s.io/jobset-uid": uid(1, name),
        "jobset.sigs.k8s.io/replicatedjob-name": group,
        "jobset.sigs.k8s.io/restart-attempt": "0",
        "jobset.sigs.k8s.io/job-index": "0",
    })
}

fn jobset(name: &str) -> Value {
    let group = |group: &str| {
        json!({
            "name": group,
            "template": {"spec": {"completions": 1, "template": {"spec": {"containers": []}}}},
        })
    };
    json!({
        "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet",
        "metadata": {
            "name": name, "namespace": "hpc", "uid": uid(1, name),
            "creationTimestamp": "2026-11-01T10:00:00Z",
            "labels": {"quorate.dev/cluster": name},
            "annotations": {"quorate.dev/spec-hash": "v1:0123456789abcdef,image=89abcdef01234567"},
            "ownerReferences": [{
                "apiVersion": "quorate.dev/v1alpha1", "kind": "MiniCluster", "name": name,
                "uid": uid(0, name), "controller": true,
            }],
        },
        "spec": {"replicatedJobs": [group("launcher"), group("worker")]},
        "status": {"restarts": 0},
    })
}

fn job(name: &str, group: &str, pods: usize) -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {
            "name": format!("{name}-{group}-0"), "namespace": "hpc", "uid": uid(2, name),
            "creationTimestamp": "2026-11-01T10:00:01Z", "labels": labels(name, group),
        },
        "spec": {
            "parallelism": pods, "completions": pods, "suspend": false,
            "template": {"spec": {"containers": []}},
        },
        "status": {"active": pods, "ready": pods, "startTime": "2026-11-01T10:00:01Z"},
    })
}

fn pod(name: &str, group: &str, index: usize) -> Value {
    let mut labels = labels(name, group);
    labels["batch.kubernetes.io/job-completion-index"] = index.to_string().into();
    let condition = |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": "2026-11-01T10:00:05Z"});
    let conditions = ["PodScheduled", "Initialized", "ContainersReady", "Ready"].map(condition);
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": format!("{name}-{group}-0-{index}-x7k2p"), "namespace": "hpc",
            "uid": uid(3 + index, name), "creationTimestamp": "2026-11-01T10:00:02Z",
            "labels": labels,
            "ownerReferences": [{
                "apiVersion": "batch/v1", "kind": "Job", "name": format!("{name}-{group}-0"),
                "uid": uid(2, name), "controller": true,
            }],
        },
        "spec": {
            "nodeName": "node-017",
            "containers": [{"name": "main", "image": "localhost/mpi-debian:v1"}],
        },
        "status": {
            "phase": "Running", "podIP": "10.244.17.23",
            "conditions": conditions,
            "initContainerStatuses": [{
                "name": "quorate-agent", "image": "localhost/quorate-agent:v1", "imageID": "",
                "ready": true, "restartCount": 0,
                "state": {"terminated": {"exitCode": 0, "reason": "Completed"}},
            }],
            "containerStatuses": [{
                "name": "main", "image": "localhost/mpi-debian:v1", "imageID": "", "ready": true,
                "restartCount": 0, "state": {"running": {"startedAt": "2026-11-01T10:00:05Z"}},
            }],
        },
    })
}

fn read<K: DeserializeOwned>(value: &Value) -> K {
    serde_json::from_str(&value.to_string()).unwrap()
}

/// What watches bring of one cluster.
fn bring(
    context: &Context,
    store: &mut reflector::store::Writer<Packed>,
    name: &str,
) -> Arc<Packed> {
    let caches = &context.caches;
    let Lean(own) = read::<Lean<JobSet>>(&jobset(name));
    caches.jobsets.put(place(&own.metadata).unwrap(), JobSetFacts::from_jobset(&own));
    for (group, pods) in [("launcher", 1), ("worker", 2)] {
        let Lean(job) = read::<Lean<Job>>(&job(name, group, pods));
        caches.jobs.put(place(&job.metadata).unwrap(), JobFacts::from_job(&job));
        for index in 0..pods {
            let Lean(pod) = read::<Lean<Pod>>(&pod(name, group, index));
            caches.pods.put(place(&pod.metadata).unwrap(), PodFacts::from_pod(&pod));
        }
    }
    let cluster = Key::new("hpc", name);
    let policy = Place { cluster, name: name.to_owned(), uid: uid(6, name), version: 7 };
    caches.network_policies.put(policy, Owner(uid(0, name)));
    let cluster: Packed = read(&minicluster(name));
    let key = reflector::ObjectRef::from_obj(&cluster);
    store.apply_watcher_event(&watcher::Event::Apply(cluster));
    store.as_reader().get(&key).unwrap()
}

fn resident_kilobytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_thousand_clusters_fit_into_little_memory() {
    let context = context::context(agreeable());
    let (_reader, mut store) = reflector::store::<Packed>();
    let mut begin = 0;
    let warm = CLUSTERS / 10;
    for number in 0..warm + CLUSTERS {
        if number == warm {
            begin = resident_kilobytes();
        }
        let object = bring(&context, &mut store, &format!("b{number:05}"));
        reconcile(object, Arc::clone(&context)).await.unwrap();
    }
    let each = (resident_kilobytes() - begin) as f64 / CLUSTERS as f64;
    assert!(each < MOST, "a cluster takes {each:.1} KiB");
}
