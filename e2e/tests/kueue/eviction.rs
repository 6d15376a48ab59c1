//! What Kueue takes out of its queues again.

use crate::{
    LAB, PRIORITY_CLASS, QUEUE_NAME, VERSION, condition, jobset_was_written_by_kueue_alone,
    minicluster, queue, quota, until, why, workload,
};
use quorate_e2e::NAMESPACE;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Mounted by the workers alone; they cannot start while it is not there.
fn gate(name: &str, mode: &str) {
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": name }, "data": { "mode": mode },
    });
    LAB.create(&map.to_string()).unwrap();
}

/// Ranks on workers wait for ever unless the gate says `go`.
fn gated(map: &str) -> Value {
    let script = "[ \"$(cat /gate/mode 2>/dev/null || echo go)\" = go ] || sleep 3600; echo passed";
    json!({
        "slots": 1,
        "groups": [{ "name": "worker", "size": 2, "template": { "spec": {
            "volumes": [{ "name": "gate", "configMap": { "name": map } }],
            "containers": [{
                "name": "main",
                "volumeMounts": [{ "name": "gate", "mountPath": "/gate" }],
            }],
        } } }],
        "program": { "parallel": { "command": ["sh", "-c", script], "tasks": 3 } },
    })
}

#[test]
fn a_preempted_cluster_goes_is_told_by_whom_and_needs_its_quorum_again() {
    let (name, by) = ("victim", "urgent");
    let preemption = json!({ "preemption": { "withinClusterQueue": "LowerPriority" } });
    queue("contended", "300m", &preemption);
    let labels = |class: &str| json!({ QUEUE_NAME: "contended", PRIORITY_CLASS: class });
    gate(name, "wait");
    minicluster(name, &labels("low"), &gated(name));
    let first = LAB.state(name, "Running")["status"].clone();
    assert_eq!((&first["attempt"], &first["online"]), (&0.into(), &3.into()));
    let pods = LAB.of("pods", name);
    let before: Vec<String> =
        pods.iter().map(|pod| pod["metadata"]["uid"].as_str().unwrap().to_owned()).collect();

    minicluster(by, &labels("high"), &json!({ "size": 3 }));
    let object = until(name, "Suspended", "QueueEvicted");
    let message = object["status"]["message"].as_str().unwrap();
    assert!(message.contains("Preempted") && message.contains(by), "{message}");
    assert!(object["status"]["quorateTime"].is_null(), "{object}");
    let suspended = condition(&object, "Suspended");
    assert_eq!(
        (&suspended["reason"], &suspended["message"]),
        (&"QueueEvicted".into(), &message.into())
    );
    let answer = why(name);
    assert!(answer.contains(message), "{answer}\nis not\n{message}");
    LAB.eventually("its pods are gone", || LAB.of("pods", name).len(), |pods| *pods == 0);
    LAB.state(by, "Ready");

    // Without its workers the launcher must wait, as at the first start.
    LAB.kubectl(&["delete", "configmap", name]).unwrap();
    LAB.kubectl(&["delete", "mc", by]).unwrap();
    let object = LAB
        .until(name, "resumed with its launcher alone", |object| object["status"]["online"] == 1);
    let status = &object["status"];
    assert_eq!(condition(&object, "Suspended")["status"], "False");
    assert_eq!(condition(&object, "Quorate")["status"], "False", "{status}");
    assert!(["Pending", "Starting"].contains(&status["state"].as_str().unwrap()), "{status}");
    let launcher = LAB.of("pods", name);
    let launcher =
        launcher.iter().find(|pod| pod["metadata"]["labels"]["quorate.dev/role"] == "launcher");
    let uid = launcher.unwrap()["metadata"]["uid"].as_str().unwrap().to_owned();
    assert!(!before.contains(&uid), "it is another pod");
    gate(name, "go");
    let object = LAB.state(name, "Succeeded");
    let status = &object["status"];
    // An eviction is nobody's failure.
    assert_eq!((&status["attempt"], &status["restarts"]), (&0.into(), &0.into()), "{status}");
    assert_eq!(status["exitCode"], 0, "{status}");
    assert!(status["quorateTime"].as_str() > first["quorateTime"].as_str(), "{status}");
    assert_eq!(LAB.output(name).lines().filter(|line| line.contains("passed")).count(), 3);
    jobset_was_written_by_kueue_alone(name);
}

#[test]
fn a_workload_that_is_switched_off_stops_its_cluster_and_goes_on_when_switched_on() {
    let name = "inactive";
    queue(name, "300m", &json!({}));
    gate(name, "wait");
    minicluster(name, &json!({ QUEUE_NAME: name }), &gated(name));
    LAB.state(name, "Running");
    let workload = workload(name).unwrap()["metadata"]["name"].as_str().unwrap().to_owned();
    let switch = |active: bool| {
        let patch = json!({ "spec": { "active": active } }).to_string();
        LAB.kubectl(&[
            "-n",
            NAMESPACE,
            "patch",
            "workload",
            &workload,
            "--type=merge",
            "-p",
            &patch,
        ])
        .unwrap();
    };
    switch(false);
    let object = until(name, "Suspended", "QueueEvicted");
    let message = object["status"]["message"].as_str().unwrap();
    assert!(message.contains(&workload) && message.contains("switched off"), "{message}");
    let answer = why(name);
    assert!(answer.contains("spec.active"), "{answer}");
    LAB.eventually("its pods are gone", || LAB.of("pods", name).len(), |pods| *pods == 0);
    let patch = json!({ "data": { "mode": "go" } }).to_string();
    LAB.kubectl(&["patch", "configmap", name, "--type=merge", "-p", &patch]).unwrap();
    switch(true);
    LAB.state(name, "Succeeded");
    jobset_was_written_by_kueue_alone(name);
}

/// Two kinds of nodes that are told apart by different labels: what was asked for on the first must not
/// be asked for on the second.
#[test]
fn an_evicted_cluster_comes_back_on_a_flavor_with_another_label() {
    let name = "flavored";
    let flavors = [("first-kind", "n1"), ("second-kind", "n2")];
    for (flavor, node) in flavors {
        LAB.kubectl(&["label", "node", node, &format!("{flavor}=yes")]).unwrap();
        let object = json!({
            "apiVersion": VERSION, "kind": "ResourceFlavor", "metadata": { "name": flavor },
            "spec": { "nodeLabels": { flavor: "yes" } },
        });
        LAB.create(&object.to_string()).unwrap();
    }
    let of = |(flavor, _): (&str, &str)| {
        json!({ "name": flavor, "resources": [
            { "name": "cpu", "nominalQuota": "200m" }, { "name": "memory", "nominalQuota": "4Gi" },
        ] })
    };
    let groups = json!({ "resourceGroups": [{
        "coveredResources": ["cpu", "memory"], "flavors": flavors.map(of),
    }] });
    queue(name, "200m", &groups);
    minicluster(name, &json!({ QUEUE_NAME: name }), &json!({ "size": 2 }));
    LAB.state(name, "Ready");
    let nodes = || -> BTreeSet<String> {
        let pods = LAB.of("pods", name);
        pods.iter().filter_map(|pod| Some(pod["spec"]["nodeName"].as_str()?.to_owned())).collect()
    };
    assert_eq!(nodes(), ["n1".to_owned()].into());
    // There is no room on the first kind any more; switched off and on, it is admitted anew.
    quota(name, "0");
    let workload = workload(name).unwrap()["metadata"]["name"].as_str().unwrap().to_owned();
    let switch = |active: bool| {
        let patch = json!({ "spec": { "active": active } }).to_string();
        let change =
            ["-n", NAMESPACE, "patch", "workload", &workload, "--type=merge", "-p", &patch];
        LAB.kubectl(&change).unwrap();
    };
    switch(false);
    LAB.state(name, "Suspended");
    LAB.eventually("its pods are gone", || LAB.of("pods", name).len(), |pods| *pods == 0);
    let selectors = || -> Vec<Value> {
        let jobs = LAB.of("jobs", name);
        jobs.iter().map(|job| job["spec"]["template"]["spec"]["nodeSelector"].clone()).collect()
    };
    LAB.eventually("its Jobs ask for no node", selectors, |all| {
        all.len() == 2
            && all.iter().all(|one| one.as_object().is_none_or(serde_json::Map::is_empty))
    });
    switch(true);
    LAB.state(name, "Ready");
    assert_eq!(nodes(), ["n2".to_owned()].into());
    LAB.kubectl(&["delete", "mc", name]).unwrap();
}
