//! Kueue places pods by its topology and by the labels of its flavors; a MiniCluster leaves that to it.

use crate::{
    LAB, QUEUE_NAME, VERSION, condition, jobset_was_written_by_kueue_alone, minicluster, queue,
    until, why, workload,
};
use serde_json::{Value, json};
use std::collections::BTreeSet;

const HOSTNAME: &str = "kubernetes.io/hostname";

/// A flavor, and what lets a ClusterQueue have it in place of the flavor of all.
fn flavor(name: &str, spec: &Value) -> Value {
    let flavor = json!({
        "apiVersion": VERSION, "kind": "ResourceFlavor", "metadata": { "name": name }, "spec": spec,
    });
    LAB.create(&flavor.to_string()).unwrap();
    let quota = |name: &str, of: &str| json!({ "name": name, "nominalQuota": of });
    json!({ "resourceGroups": [{
        "coveredResources": ["cpu", "memory"],
        "flavors": [{ "name": name, "resources": [quota("cpu", "1"), quota("memory", "4Gi")] }],
    }] })
}

/// Launcher and workers are two sets of pods to Kueue; the annotations on the MiniCluster make them one
/// group for its topology-aware scheduling.
#[test]
fn launcher_and_workers_are_placed_together_by_kueues_topology() {
    let name = "together";
    let topology = json!({
        "apiVersion": VERSION, "kind": "Topology", "metadata": { "name": name },
        "spec": { "levels": [{ "nodeLabel": HOSTNAME }] },
    });
    LAB.create(&topology.to_string()).unwrap();
    let spec = json!({ "topologyName": name, "nodeLabels": { "kubernetes.io/os": "linux" } });
    queue(name, "1", &flavor(name, &spec));
    let object = json!({
        "apiVersion": "quorate.dev/v1alpha1",
        "kind": "MiniCluster",
        "metadata": {
            "name": name,
            "labels": { QUEUE_NAME: name },
            "annotations": {
                "kueue.x-k8s.io/podset-group-name": "all",
                "kueue.x-k8s.io/podset-required-topology": HOSTNAME,
            },
        },
        "spec": {
            "size": 3,
            "image": "localhost/mpi-debian:v1",
            "resources": { "requests": { "cpu": "100m" } },
            "program": { "parallel": { "command": ["/opt/tests/openmpi/hello", "3"], "tasks": 3 } },
        },
    });
    LAB.create(&object.to_string()).unwrap();
    LAB.state(name, "Succeeded");
    let workload = workload(name).unwrap();
    let sets = workload["status"]["admission"]["podSetAssignments"].as_array().unwrap();
    assert_eq!(sets.len(), 2, "{sets:?}");
    assert!(sets.iter().all(|set| set["topologyAssignment"]["levels"] == json!([HOSTNAME])));
    let pods = LAB.of("pods", name);
    let nodes: BTreeSet<_> =
        pods.iter().map(|pod| pod["spec"]["nodeName"].as_str().unwrap()).collect();
    assert_eq!(nodes.len(), 1, "{nodes:?}");
    jobset_was_written_by_kueue_alone(name);
}

#[test]
fn pods_that_no_flavor_fits_wait_in_the_words_of_kueue() {
    let name = "no-flavor-fits";
    queue(name, "1", &flavor("silver", &json!({ "nodeLabels": { "tier": "silver" } })));
    let template = json!({ "spec": { "nodeSelector": { "tier": "gold" } } });
    minicluster(
        name,
        &json!({ QUEUE_NAME: name }),
        &json!({ "size": 2, "template": template, "program": { "command": ["true"] } }),
    );
    let object = LAB.until(name, "told of the flavor", |object| {
        object["status"]["message"].as_str().is_some_and(|text| text.contains("silver"))
    });
    assert_eq!(object["status"]["reason"], "WaitingForAdmission");
    assert!(why(name).contains("doesn't match node affinity"), "{}", why(name));
    LAB.kubectl(&["delete", "mc", name]).unwrap();
    jobset_was_written_by_kueue_alone(name);
}

/// What an admission check adds to the pods may contradict them after their flavor was found. Kueue tries
/// that once. The check's controller is played here: it gives the answer that provisioners give.
#[test]
fn pods_that_an_admission_check_contradicts_are_given_up_and_the_status_says_why() {
    let name = "contradicted";
    let check = json!({
        "apiVersion": VERSION, "kind": "AdmissionCheck", "metadata": { "name": name },
        "spec": { "controllerName": "e2e.quorate.dev/provisioner" },
    });
    LAB.create(&check.to_string()).unwrap();
    let status = |kind: &str, of: &str, status: &Value| {
        let patch = json!({ "status": status }).to_string();
        let words = [kind, of, "--subresource=status", "--type=merge", "-p", &patch];
        LAB.kubectl(&[&["-n", quorate_e2e::NAMESPACE, "patch"], &words[..]].concat()).unwrap();
    };
    let at = "2026-01-01T00:00:00Z";
    let active = json!({ "conditions": [{
        "type": "Active", "status": "True", "reason": "Active", "message": "it is played",
        "lastTransitionTime": at,
    }] });
    status("admissioncheck", name, &active);
    queue(
        name,
        "1",
        &json!({ "admissionChecksStrategy": { "admissionChecks": [{ "name": name }] } }),
    );
    let template = json!({ "spec": { "nodeSelector": { "tier": "gold" } } });
    minicluster(
        name,
        &json!({ QUEUE_NAME: name }),
        &json!({ "size": 2, "template": template, "program": { "command": ["true"] } }),
    );
    let asked = |workload: &Option<Value>| {
        let checks = workload.as_ref().map(|one| &one["status"]["admissionChecks"]);
        checks.is_some_and(|checks| checks[0]["state"] == "Pending")
    };
    let asks = LAB.eventually("Kueue asks the check", || workload(name), asked).unwrap();
    let update = |set: &str| json!({ "name": set, "nodeSelector": { "tier": "silver" } });
    let answer = json!({ "admissionChecks": [{
        "name": name, "state": "Ready", "message": "provisioned", "lastTransitionTime": at,
        "podSetUpdates": [update("launcher"), update("worker")],
    }] });
    status("workload", asks["metadata"]["name"].as_str().unwrap(), &answer);

    let object = until(name, "Suspended", "QueueEvicted");
    let message = object["status"]["message"].as_str().unwrap();
    assert!(message.contains("contradicts the pods") && message.contains("tier"), "{message}");
    let finished = workload(name).unwrap();
    assert_eq!(condition(&finished, "Finished")["reason"], "FailedToStart");
    assert!(why(name).contains("nodeSelector in spec.template"), "{}", why(name));
    assert!(LAB.of("pods", name).is_empty());
    LAB.kubectl(&["delete", "mc", name]).unwrap();
}

#[test]
fn an_annotation_for_kueue_that_changes_later_is_told_and_not_written() {
    let name = "annotated";
    queue(name, "200m", &json!({}));
    minicluster(name, &json!({ QUEUE_NAME: name }), &json!({ "size": 2 }));
    LAB.state(name, "Ready");
    let key = "kueue.x-k8s.io/podset-preferred-topology";
    LAB.kubectl(&["annotate", "mc", name, &format!("{key}={HOSTNAME}")]).unwrap();
    let object = LAB.until(name, "told of the annotation", |object| {
        condition(object, "Accepted")["status"] == "False"
    });
    let accepted = condition(&object, "Accepted");
    assert_eq!(accepted["reason"], "Immutable");
    assert!(accepted["message"].as_str().unwrap().contains(key), "{accepted}");
    assert_eq!(object["status"]["state"], "Ready");
    LAB.kubectl(&["annotate", "mc", name, &format!("{key}-")]).unwrap();
    LAB.until(name, "accepted again", |object| condition(object, "Accepted")["status"] == "True");
    LAB.kubectl(&["delete", "mc", name]).unwrap();
    jobset_was_written_by_kueue_alone(name);
}
