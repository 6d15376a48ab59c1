//! `suspend` has one writer, whatever else is asked for.

use crate::{
    LAB, QUEUE_NAME, VERSION, condition, jobset_was_written_by_kueue_alone, minicluster, queue,
    queue_in,
};
use quorate_e2e::of_its_generation;
use serde_json::{Value, json};

#[test]
fn suspend_beside_a_queue_is_refused_and_nobody_fights() {
    let name = "suspended-too";
    queue(name, "200m", &json!({}));
    minicluster(name, &json!({ QUEUE_NAME: name }), &json!({ "size": 2 }));
    LAB.state(name, "Ready");
    let suspend = |value: Value| {
        let patch = json!({ "spec": { "suspend": value } }).to_string();
        LAB.kubectl(&["patch", "mc", name, "--type=merge", "-p", &patch]).unwrap();
    };
    for value in [true, false] {
        suspend(value.into());
        let object = LAB.until(name, "refused", |object| {
            condition(object, "Accepted")["status"] == "False"
                && of_its_generation(object)
                // A probe that times out on a busy machine makes it Starting for a moment.
                && object["status"]["state"] == "Ready"
        });
        let message = condition(&object, "Accepted")["message"].as_str().unwrap();
        assert!(message.contains("spec.suspend") && message.contains("queue"), "{message}");
    }
    suspend(Value::Null);
    LAB.until(name, "accepted again", |object| condition(object, "Accepted")["status"] == "True");
    assert_eq!(LAB.get("jobset", name).unwrap()["spec"]["suspend"], false);
    LAB.kubectl(&["delete", "mc", name]).unwrap();
    jobset_was_written_by_kueue_alone(name);
}

/// A LocalQueue called `default` takes all JobSets of its namespace, labelled or not.
#[test]
fn in_a_namespace_with_a_default_queue_kueue_decides_too() {
    let (space, name) = ("defaulted", "unlabelled");
    LAB.kubectl(&["create", "namespace", space]).unwrap();
    queue_in(space, space, "default", "200m", &json!({}));
    let object = json!({
        "apiVersion": "quorate.dev/v1alpha1",
        "kind": "MiniCluster",
        "metadata": { "name": name, "namespace": space },
        "spec": {
            "size": 2,
            "suspend": true,
            "image": "localhost/mpi-debian:v1",
            "resources": { "requests": { "cpu": "100m" } },
        },
    });
    LAB.create(&object.to_string()).unwrap();
    let ask = || -> Value {
        let text = LAB.kubectl(&["-n", space, "get", "mc", name, "-o", "json"]).unwrap();
        serde_json::from_str(&text).unwrap()
    };
    let object = LAB.eventually("Kueue runs it", ask, |object| {
        object["status"]["state"] == "Ready" && condition(object, "Accepted")["status"] == "False"
    });
    let message = condition(&object, "Accepted")["message"].as_str().unwrap();
    assert!(message.contains("spec.suspend") && message.contains("Kueue"), "{message}");
    LAB.kubectl(&["-n", space, "delete", "mc", name]).unwrap();
    let writes = LAB.writes("jobsets", space, name);
    assert!(writes.is_empty() || writes == ["create"], "{writes:?}");
}

/// Kueue hands such a JobSet to another cluster; what a MiniCluster needs beside it stays here.
#[test]
fn a_queue_of_multikueue_is_left_alone_and_told_to_be_no_place_for_a_cluster() {
    let name = "elsewhere";
    for object in [
        json!({
            "apiVersion": VERSION, "kind": "MultiKueueConfig",
            "metadata": { "name": name }, "spec": { "clusters": ["far"] },
        }),
        json!({
            "apiVersion": VERSION, "kind": "AdmissionCheck",
            "metadata": { "name": name },
            "spec": {
                "controllerName": "kueue.x-k8s.io/multikueue",
                "parameters": {
                    "apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": name,
                },
            },
        }),
    ] {
        LAB.create(&object.to_string()).unwrap();
    }
    let checks = json!({ "admissionChecksStrategy": { "admissionChecks": [{ "name": name }] } });
    queue(name, "200m", &checks);
    let known = || {
        LAB.kubectl(&["get", "clusterqueue", name, "-o", "jsonpath={.status.conditions}"]).unwrap()
    };
    LAB.eventually("Kueue knows the queue", known, |text| text.contains("Active"));
    minicluster(name, &json!({ QUEUE_NAME: name }), &json!({ "size": 2 }));
    let object = LAB.until(name, "told of MultiKueue", |object| {
        object["status"]["message"].as_str().is_some_and(|text| text.contains("MultiKueue"))
    });
    assert_eq!(object["status"]["state"], "Suspended");
    let jobset = LAB.get("jobset", name).unwrap();
    assert_eq!(jobset["spec"]["managedBy"], "kueue.x-k8s.io/multikueue");
    assert_eq!(jobset["spec"]["suspend"], true);
    assert!(LAB.of("jobs", name).is_empty() && LAB.of("pods", name).is_empty());
    LAB.kubectl(&["delete", "mc", name]).unwrap();
    jobset_was_written_by_kueue_alone(name);
}
