//! What happens to a MiniCluster while it lives: suspension, deletion, loss of pods, growth.

use crate::LAB;
use quorate_e2e::NAMESPACE;
use serde_json::Value;

const IMAGE: &str = "image: localhost/mpi-debian:v1";

fn condition<'a>(object: &'a Value, kind: &str) -> &'a Value {
    let conditions = object["status"]["conditions"].as_array();
    let found = conditions.into_iter().flatten().find(|condition| condition["type"] == kind);
    found.map_or(&Value::Null, |condition| &condition["status"])
}

#[test]
fn a_suspended_cluster_has_no_pods_until_it_is_resumed() {
    let name = "suspended";
    LAB.minicluster(
        name,
        &format!("size: 2\nsuspend: true\n{IMAGE}\nprogram: {{command: ['true']}}"),
    );
    let object = LAB.state(name, "Suspended");
    assert_eq!(condition(&object, "Suspended"), "True");
    assert!(LAB.of("pods", name).is_empty());
    LAB.kubectl(&["patch", "mc", name, "--type=merge", "-p", r#"{"spec":{"suspend":false}}"#])
        .unwrap();
    let object = LAB.state(name, "Succeeded");
    assert_eq!(condition(&object, "Suspended"), "False");
}

#[test]
fn a_deleted_cluster_leaves_nothing_and_its_name_can_be_used_at_once() {
    let name = "again";
    let spec = format!("size: 3\n{IMAGE}");
    LAB.minicluster(name, &spec);
    let first = LAB.state(name, "Ready")["metadata"]["uid"].clone();
    LAB.kubectl(&["delete", "mc", name, "--wait=false"]).unwrap();
    LAB.eventually("the object is gone", || LAB.get("minicluster", name).is_none(), |gone| *gone);
    LAB.minicluster(name, &spec);
    let second = LAB.until(name, "ready a second time", |object| {
        object["metadata"]["uid"] != first && object["status"]["state"] == "Ready"
    });
    for kind in ["jobsets", "secrets", "networkpolicies"] {
        for object in LAB.of(kind, name) {
            let owner = &object["metadata"]["ownerReferences"][0]["uid"];
            assert_eq!(*owner, second["metadata"]["uid"], "{kind}");
        }
    }
    LAB.kubectl(&["delete", "mc", name]).unwrap();
    let left = || {
        ["jobsets", "jobs", "pods", "secrets", "networkpolicies"]
            .map(|kind| LAB.of(kind, name).len())
    };
    LAB.eventually("nothing is left", left, |left| left.iter().all(|count| *count == 0));
}

#[test]
fn a_worker_that_is_deleted_in_queue_mode_is_replaced_and_never_taken_for_finished() {
    let name = "replaced";
    LAB.minicluster(name, &format!("size: 3\n{IMAGE}"));
    LAB.state(name, "Ready");
    // The quorum may be told before the last broker is.
    LAB.until(name, "whole", |object| object["status"]["online"] == 3);
    let worker = || {
        LAB.of("pods", name).into_iter().find(|pod| {
            let pod_name = pod["metadata"]["name"].as_str().unwrap_or_default();
            pod_name.contains("-worker-0-0-") && pod["metadata"]["deletionTimestamp"].is_null()
        })
    };
    let lost = worker().unwrap();
    LAB.kubectl(&["delete", "pod", lost["metadata"]["name"].as_str().unwrap(), "--wait=false"])
        .unwrap();
    LAB.until(name, "short of a broker", |object| object["status"]["online"] == 2);
    LAB.until(name, "whole again", |object| object["status"]["online"] == 3);
    assert_ne!(worker().unwrap()["metadata"]["uid"], lost["metadata"]["uid"]);
    let status = &LAB.get("minicluster", name).unwrap()["status"];
    assert_eq!((&status["attempt"], &status["state"]), (&0.into(), &"Ready".into()), "{status}");
    LAB.kubectl(&["delete", "mc", name]).unwrap();
}

#[test]
fn a_program_that_loses_a_ranks_pod_starts_again() {
    let name = "restarted";
    let program = "program: {parallel: {command: [sh, -c, 'echo up; sleep 3600'], tasks: 3}}";
    LAB.minicluster(
        name,
        &format!("size: 3\nslots: 1\n{IMAGE}\nfailurePolicy: {{maxRestarts: 2}}\n{program}"),
    );
    LAB.state(name, "Running");
    let pods = LAB.of("pods", name);
    let worker = pods
        .iter()
        .filter_map(|pod| pod["metadata"]["name"].as_str())
        .find(|pod| pod.contains("-worker-0-1-"))
        .unwrap();
    LAB.kubectl(&["delete", "pod", worker, "--wait=false"]).unwrap();
    LAB.until(name, "running in its second attempt", |object| {
        object["status"]["attempt"] == 1 && object["status"]["state"] == "Running"
    });
    LAB.kubectl(&["delete", "mc", name]).unwrap();
}

#[test]
fn a_worker_that_is_evicted_costs_a_program_no_restart() {
    let name = "evicted";
    let program = "program: {parallel: {command: [sh, -c, 'echo up; sleep 3600'], tasks: 3}}";
    // A restart that counts would be the end.
    LAB.minicluster(
        name,
        &format!("size: 3\nslots: 1\n{IMAGE}\nfailurePolicy: {{maxRestarts: 0}}\n{program}"),
    );
    for attempt in 0..2 {
        LAB.until(name, &format!("running in attempt {attempt}"), |object| {
            object["status"]["attempt"] == attempt && object["status"]["state"] == "Running"
        });
        let pods = LAB.of("pods", name);
        let worker = pods
            .iter()
            .filter_map(|pod| pod["metadata"]["name"].as_str())
            .find(|pod| pod.contains("-worker-0-1-"))
            .unwrap();
        let path = format!("/api/v1/namespaces/{NAMESPACE}/pods/{worker}/eviction");
        let eviction = format!(
            "{{\"apiVersion\": \"policy/v1\", \"kind\": \"Eviction\", \"metadata\": {{\"name\": \"{worker}\"}}}}"
        );
        LAB.kubectl_with(&["create", "--raw", &path, "-f", "-"], &eviction).unwrap();
    }
    let object = LAB.until(name, "running in its third attempt", |object| {
        object["status"]["attempt"] == 2 && object["status"]["state"] == "Running"
    });
    let status = &object["status"];
    assert_eq!(status["restarts"], 0, "{status}");
    assert_eq!(status["failure"]["reason"], "PodEvicted", "{status}");
    LAB.kubectl(&["delete", "mc", name]).unwrap();
}

#[test]
fn a_cluster_grows_and_shrinks_between_its_bounds() {
    let name = "elastic";
    LAB.minicluster(name, &format!("size: 2\nminSize: 1\nmaxSize: 4\n{IMAGE}"));
    LAB.state(name, "Ready");
    LAB.kubectl(&["scale", "mc", name, "--replicas=4"]).unwrap();
    LAB.until(name, "four brokers", |object| object["status"]["online"] == 4);
    LAB.kubectl(&["scale", "mc", name, "--replicas=2"]).unwrap();
    let object = LAB.until(name, "two brokers", |object| {
        object["status"]["online"] == 2 && object["status"]["size"] == 2
    });
    assert_eq!(object["status"]["state"], "Ready");
    LAB.kubectl(&["delete", "mc", name]).unwrap();
}

#[test]
fn a_finished_cluster_is_deleted_when_its_time_has_come() {
    let name = "ttl";
    LAB.minicluster(
        name,
        &format!("ttlSecondsAfterFinished: 2\n{IMAGE}\nprogram: {{command: ['true']}}"),
    );
    LAB.eventually("it is gone", || LAB.get("minicluster", name).is_none(), |gone| *gone);
}
