//! What Kueue takes out of its queues again.

use crate::{
    LAB, PRIORITY_CLASS, QUEUE_NAME, condition, jobset_was_written_by_kueue_alone, minicluster,
    queue, until, why, workload,
};
use quorate_e2e::NAMESPACE;
use serde_json::{Value, json};

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
