//! Reads fixtures: YAML documents as the API gives them, laid over a cluster in which nothing is
//! wrong. A document changes the object of its kind and name (JSON merge patch, RFC 7386) or adds one;
//! `kind: Scene` carries what is no object: the time, obstacles, the launcher's words, ranks without a
//! pod. A second Workload is the one that took the first one's place.

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use quorate_api::{Target, validate};
use quorate_contract::ClusterStatus;
use quorate_observe::{
    EventFacts, JobFacts, JobSetFacts, Live, Observed, Obstacle, PodFacts, Shape, WorkloadFacts,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

const BASE: &str = include_str!("base.yaml");
/// The time of a fixture that names none.
const NOW: &str = "2026-11-28T10:03:12Z";
const JOBSET_UID: &str = "22222222-bbbb-4000-8000-000000000002";

/// What was seen, and when.
pub(crate) struct Seen {
    pub(crate) observed: Observed,
    pub(crate) now: Timestamp,
}

/// A fixture.
pub(crate) fn read(text: &str) -> Seen {
    let mut objects = documents(BASE);
    let mut jobs = vec![job("launcher", 1), job("worker", 3)];
    let mut pods: Vec<Value> = (0..4).map(pod).collect();
    let mut events = Vec::new();
    let mut workloads = Vec::new();
    let mut scene = json!({});
    for document in documents(text) {
        match document["kind"].as_str().expect("a document has a kind") {
            "Scene" => scene = document,
            "Pod" => lay(&mut pods, document),
            "Job" => lay(&mut jobs, document),
            "Event" => events.push(document),
            "Workload" => workloads.push(Arc::new(WorkloadFacts::from_json(&document))),
            _ => lay(&mut objects, document),
        }
    }
    let now: Timestamp = scene["now"].as_str().unwrap_or(NOW).parse().unwrap();
    let without = |name: &Value| {
        let gone = scene["without"].as_array().into_iter().flatten();
        gone.into_iter().any(|gone| name.as_str().unwrap().starts_with(gone.as_str().unwrap()))
    };
    for list in [&mut objects, &mut jobs, &mut pods] {
        list.retain(|object| {
            !without(&object["metadata"]["name"]) || object["kind"] == "MiniCluster"
        });
    }
    if scene["without"].as_array().is_some_and(|gone| gone.contains(&json!("jobset"))) {
        objects.retain(|object| object["kind"] != "JobSet");
    }
    let find = |kind: &str| objects.iter().find(|object| object["kind"] == kind).cloned();
    let cluster = typed(find("MiniCluster").unwrap());
    let (shape, findings) = match validate(&cluster, Target::Kubernetes) {
        Ok(valid) => (Some(Arc::new(Shape::of(&valid))), valid.warnings),
        Err(findings) => (None, findings),
    };
    let pods: Vec<Arc<PodFacts>> =
        pods.into_iter().map(|pod| Arc::new(PodFacts::from_pod(&typed(pod)))).collect();
    let live = scene.get("live").map(|live| {
        let status: ClusterStatus = typed(live.clone());
        let launcher = pods.iter().filter(|pod| pod.group == "launcher");
        let launcher = launcher.max_by_key(|pod| pod.attempt).expect("a launcher speaks");
        Live { pod_uid: launcher.uid.clone(), at: now, status }
    });
    let observed = Observed {
        jobset_acted: None,
        cluster: Arc::new(cluster),
        shape,
        findings,
        obstacles: scene["obstacles"].as_array().into_iter().flatten().map(obstacle).collect(),
        jobset: find("JobSet").map(|jobset| Arc::new(JobSetFacts::from_jobset(&typed(jobset)))),
        jobs: jobs.into_iter().map(|job| Arc::new(JobFacts::from_job(&typed(job)))).collect(),
        pods,
        live,
        preemptor: workloads.get(1).cloned(),
        workload: workloads.first().cloned(),
        events: events
            .into_iter()
            .map(|event| {
                if event["apiVersion"] == "v1" {
                    EventFacts::from_core(&typed(event))
                } else {
                    EventFacts::from_event(&typed(event))
                }
            })
            .collect(),
    };
    Seen { observed, now }
}

fn documents(text: &str) -> Vec<Value> {
    let documents = text.split("\n---\n").filter(|document| !document.trim().is_empty());
    documents.map(|document| serde_saphyr::from_str(document).unwrap()).collect()
}

fn typed<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

/// Lays a document over the object of its kind and name.
fn lay(objects: &mut Vec<Value>, document: Value) {
    let same = |object: &&mut Value| {
        object["kind"] == document["kind"]
            && object["metadata"]["name"] == document["metadata"]["name"]
    };
    match objects.iter_mut().find(same) {
        Some(object) => merge(object, document),
        None => objects.push(document),
    }
}

fn merge(target: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *target = patch;
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    let target = target.as_object_mut().unwrap();
    for (key, value) in patch {
        if value.is_null() {
            target.remove(&key);
        } else {
            merge(target.entry(key).or_insert(Value::Null), value);
        }
    }
}

fn job(group: &str, pods: i32) -> Value {
    json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": format!("lammps-{group}-0"),
            "namespace": "hpc",
            "uid": format!("33333333-{group}"),
            "creationTimestamp": "2026-11-28T10:00:01Z",
            "labels": labels(group),
        },
        "spec": {"parallelism": pods, "completions": pods, "template": {}},
        "status": {"active": pods, "ready": 0},
    })
}

/// The pod of a rank: it runs, its broker is not connected.
fn pod(rank: u32) -> Value {
    let (group, index) = if rank == 0 { ("launcher", 0) } else { ("worker", rank - 1) };
    let mut labels = labels(group);
    labels["batch.kubernetes.io/job-completion-index"] = json!(index.to_string());
    labels["quorate.dev/cluster"] = json!("lammps");
    labels["quorate.dev/group"] = json!(group);
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": format!("lammps-{group}-0-{index}"),
            "namespace": "hpc",
            "uid": format!("44444444-{rank}"),
            "creationTimestamp": "2026-11-28T10:00:02Z",
            "labels": labels,
            "ownerReferences": [{
                "apiVersion": "batch/v1", "kind": "Job", "name": format!("lammps-{group}-0"),
                "uid": format!("33333333-{group}"), "controller": true,
            }],
        },
        "spec": {
            "nodeName": format!("n{}", rank % 3 + 1),
            "containers": [{
                "name": "main",
                "image": "example/lammps",
                "resources": {"limits": {"cpu": "4", "memory": "8Gi"}},
            }],
        },
        "status": {
            "phase": "Running",
            "podIP": format!("10.0.0.{}", rank + 1),
            "conditions": [
                condition("PodScheduled", "True"),
                condition("Ready", "False"),
            ],
            "containerStatuses": [{
                "name": "main", "image": "example/lammps", "imageID": "", "ready": false,
                "restartCount": 0, "state": {"running": {"startedAt": "2026-11-28T10:00:04Z"}},
            }],
        },
    })
}

fn condition(kind: &str, status: &str) -> Value {
    json!({"type": kind, "status": status, "lastTransitionTime": "2026-11-28T10:00:02Z"})
}

fn labels(group: &str) -> Value {
    json!({
        "jobset.sigs.k8s.io/jobset-name": "lammps",
        "jobset.sigs.k8s.io/jobset-uid": JOBSET_UID,
        "jobset.sigs.k8s.io/replicatedjob-name": group,
        "jobset.sigs.k8s.io/restart-attempt": "0",
    })
}

fn obstacle(value: &Value) -> Obstacle {
    let text = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
    match text("type").as_str() {
        "NameTaken" => Obstacle::NameTaken {
            kind: text("kind"),
            name: text("name"),
            owner: value["owner"].as_str().map(str::to_owned),
        },
        "Queued" => Obstacle::Queued { field: text("field"), queue: text("queue") },
        "Immutable" => Obstacle::Immutable { fields: typed(value["fields"].clone()) },
        "Refused" => {
            Obstacle::Refused { kind: text("kind"), name: text("name"), message: text("message") }
        }
        "Delayed" => {
            Obstacle::Delayed { kind: text("kind"), name: text("name"), message: text("message") }
        }
        "Told" => Obstacle::Told { reason: text("reason"), message: text("message") },
        "Unseen" => Obstacle::Unseen,
        other => panic!("no obstacle {other}"),
    }
}
