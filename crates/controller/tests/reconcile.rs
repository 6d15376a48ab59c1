//! Whole looks against an API server in memory: what is requested, how often, and what is left when
//! something goes wrong on the way.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::needless_pass_by_value,
    reason = "a test says by a panic what is wrong, and its makers take what they are given"
)]

#[path = "reconcile/context.rs"]
mod context;
#[path = "reconcile/fake.rs"]
mod fake;
#[path = "reconcile/late.rs"]
mod late;
#[path = "reconcile/world.rs"]
mod world;

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::Method;
use quorate_controller::reconcile::{reconcile, retry};
use quorate_controller::watch::{Key, Place};
use quorate_observe::PodFacts;
use serde_json::json;
use world::{ALL, CLUSTERS, CORE, JOBS, JOBSETS, POLICIES, World, hello, packed, writes};

#[tokio::test]
async fn a_new_cluster_costs_three_objects_and_one_status() {
    let world = World::new(hello());
    let calls = world.settle().await;
    let writes = writes(&calls);
    assert_eq!(writes.len(), 4, "{calls:?}");
    assert_eq!(writes[2], "POST jobsets", "the JobSet comes last of the objects");
    assert_eq!(writes[3], "PATCH miniclusters/hello/status");
    assert_eq!(calls.len() - writes.len(), 1, "one read: whether the Service's name is free");
    assert_eq!(world.condition("Accepted"), ("True".into(), "Planned".into()));
    let jobset = world.server.get(&format!("{JOBSETS}/hello")).unwrap();
    assert_eq!(
        jobset["metadata"]["ownerReferences"][0]["uid"],
        json!(world.cluster().metadata.uid)
    );
}

#[tokio::test]
async fn every_write_names_its_writer() {
    let world = World::new(hello());
    world.watch();
    world.look().await.unwrap();
    world.look().await.unwrap();
    let state = world.server.0.lock().unwrap();
    let unnamed = state.calls.iter().filter(|call| {
        // An event has a field of its own for it.
        let event = call.path.ends_with("/events");
        let named = if event {
            call.body["reportingController"] == "quorate-controller"
        } else {
            call.query.contains("fieldManager=quorate-controller")
        };
        call.method != Method::GET && !named
    });
    assert_eq!(unnamed.count(), 0);
}

#[tokio::test]
async fn fields_that_the_server_drops_are_told() {
    let world = World::new(hello());
    let pod = "/spec/replicatedJobs/1/template/spec/template/spec/enableServiceLinks";
    world.server.0.lock().unwrap().unknown.push(pod);
    world.watch();
    world.look().await.unwrap();
    let state = world.server.0.lock().unwrap();
    let events = state.calls.iter().filter(|call| call.path.ends_with("/events"));
    let dropped: Vec<_> = events.filter(|call| call.body["reason"] == "FieldsDropped").collect();
    assert_eq!(dropped.len(), 1, "{dropped:?}");
    let note = dropped[0].body["note"].as_str().unwrap();
    let field = "spec.replicatedJobs[1].template.spec.template.spec.enableServiceLinks";
    assert!(note.contains(field), "{note}");
}

#[tokio::test]
async fn a_controller_that_dies_at_any_write_leaves_what_the_next_one_completes() {
    for done in [false, true] {
        for at in 0..4 {
            let mut world = World::new(hello());
            world.server.0.lock().unwrap().crash_at = Some((at, done));
            world.watch();
            // One look, or two: the status is written by the second.
            let crashed = match world.look().await {
                Ok(_) => world.look().await.is_err(),
                Err(_) => true,
            };
            assert!(crashed, "write {at}");
            world.server.0.lock().unwrap().crash_at = None;
            let seed = world.server.get(&format!("{CORE}/secrets/hello-agent-uid1"));
            world.restart();
            world.settle().await;
            assert_eq!(world.made(), ALL, "write {at}, carried out: {done}");
            if let Some(seed) = seed {
                let kept = world.server.get(&format!("{CORE}/secrets/hello-agent-uid1")).unwrap();
                assert_eq!(kept, seed, "a seed never changes");
            }
        }
    }
}

#[tokio::test]
async fn what_somebody_else_has_is_reported_and_left_alone() {
    for (kind, path) in [
        ("Secret", format!("{CORE}/secrets/hello-agent-uid1")),
        ("Service", format!("{CORE}/services/hello")),
        ("JobSet", format!("{JOBSETS}/hello")),
    ] {
        let world = World::new(hello());
        let theirs = world.server.store(&path, json!({"metadata": {"name": "theirs"}, "spec": {}}));
        world.settle().await;
        assert_eq!(world.condition("Accepted"), ("False".into(), "NameTaken".into()), "{kind}");
        let message = world.cluster().status.unwrap().message.unwrap();
        assert!(message.contains(kind), "{message}");
        assert_eq!(world.server.get(&path).unwrap(), theirs, "{kind}");
        let jobset = world.server.get(&format!("{JOBSETS}/hello"));
        assert!(kind == "JobSet" || jobset.is_none(), "{kind}");
    }
}

#[tokio::test]
async fn a_label_that_somebody_takes_off_the_jobset_is_put_back_by_one_write() {
    for living in [false, true] {
        let world = World::new(hello());
        world.settle().await;
        let path = format!("{JOBSETS}/hello");
        let before = world.server.get(&path).unwrap();
        if living {
            let labels = json!({
                "quorate.dev/cluster": "hello",
                "jobset.sigs.k8s.io/jobset-uid": before["metadata"]["uid"],
                "jobset.sigs.k8s.io/replicatedjob-name": "worker",
            });
            let metadata = json!({"name": "hello-worker-0", "namespace": "hpc", "labels": labels});
            let spec = json!({"parallelism": 2, "completions": 2, "template": {}});
            let job = json!({"metadata": metadata, "spec": spec});
            world.server.store(&format!("{JOBS}/hello-worker-0"), job);
        }
        world.change(&path, |jobset| {
            let labels = jobset["metadata"]["labels"].as_object_mut().unwrap();
            labels.remove("quorate.dev/cluster");
        });
        let calls = world.settle().await;
        let after = world.server.get(&path).unwrap();
        assert_eq!(after["metadata"]["labels"], before["metadata"]["labels"], "{living}");
        assert_eq!(after["metadata"]["uid"], before["metadata"]["uid"], "{living}");
        let patches = calls.iter().filter(|call| *call == "PATCH jobsets/hello").count();
        assert_eq!(patches, 1, "{calls:?}");
    }
}

#[tokio::test]
async fn a_policy_without_our_label_counts_as_there() {
    let world = World::new(hello());
    world.settle().await;
    let place = |object: &str| Place {
        cluster: Key::new("hpc", "hello"),
        name: object.to_owned(),
        uid: world.server.get(&format!("{POLICIES}/{object}")).unwrap()["metadata"]["uid"]
            .as_str()
            .unwrap()
            .to_owned(),
        version: 0,
    };
    // What a watch by label says when the label goes.
    assert!(world.context.caches.network_policies.remove(&place("hello")));
    world.look().await.unwrap();
    assert_eq!(writes(&world.server.take_calls()), ["POST networkpolicies"]);
    world.look().await.unwrap();
    assert_eq!(world.server.take_calls(), [""; 0]);
}

#[tokio::test]
async fn a_refusal_is_told_once_and_not_sent_again() {
    for code in [403, 422] {
        let world = World::new(hello());
        world.server.fault(Method::POST, "/jobsets", code, "spec.x: no", usize::MAX);
        let calls = world.settle().await;
        assert_eq!(calls.iter().filter(|call| *call == "POST jobsets").count(), 1, "{calls:?}");
        assert_eq!(world.condition("Accepted").0, "False");
        let events = calls.iter().filter(|call| call.contains("events")).count();
        assert_eq!(events, 1, "{calls:?}");
        // A changed object is tried at once.
        world.server.0.lock().unwrap().faults.clear();
        world.change(&format!("{CLUSTERS}/hello"), |o| o["metadata"]["generation"] = json!(2));
        world.settle().await;
        assert_eq!(world.condition("Accepted").0, "True");
    }
}

#[tokio::test]
async fn a_webhook_that_cannot_be_reached_is_tried_again_with_growing_waits() {
    let world = World::new(hello());
    world.server.fault(Method::POST, "/jobsets", 500, "failed calling webhook", 3);
    let mut waits = Vec::new();
    for _ in 0..3 {
        world.watch();
        let error = world.look().await.unwrap_err();
        assert_eq!(error.reason(), "Webhook");
        let object = packed(&world.cluster());
        waits.push(format!("{:?}", retry(&object, &error, &world.context)));
    }
    assert_ne!(waits[0], waits[2]);
    world.settle().await;
    assert_eq!(world.made(), ALL);
}

#[tokio::test]
async fn a_webhook_that_stays_silent_is_named_in_the_status() {
    let world = World::new(hello());
    world.server.fault(Method::POST, "/jobsets", 500, "failed calling webhook", usize::MAX);
    let deadline = Instant::now() + Duration::from_secs(30);
    let told = "the JobSet hello cannot be made yet: failed calling webhook";
    loop {
        world.watch();
        world.look().await.unwrap_err();
        let status = world.cluster().status.unwrap_or_default();
        if status.message.is_some_and(|message| message.starts_with(told)) {
            break;
        }
        assert!(Instant::now() < deadline, "never told");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(world.condition("Accepted").0, "True");
    let calls = world.server.take_calls();
    assert!(!calls.iter().any(|call| call.contains("events")), "{calls:?}");
}

#[tokio::test]
async fn a_status_upon_an_old_version_is_not_forced() {
    let world = World::new(hello());
    world.watch();
    world.look().await.unwrap();
    let old = world.cluster();
    world.change(&format!("{CLUSTERS}/hello"), |o| o["metadata"]["labels"] = json!({"a": "b"}));
    let object = packed(&old);
    reconcile(object, Arc::clone(&world.context)).await.unwrap();
    assert!(world.cluster().status.is_none());
    world.settle().await;
    assert_eq!(world.condition("Accepted").0, "True");
}

#[tokio::test]
async fn a_quiet_cluster_costs_nothing() {
    let mut world = World::new(hello());
    world.settle().await;
    assert_eq!(world.settle().await, Vec::<String>::new());
    world.restart();
    assert_eq!(world.settle().await, Vec::<String>::new(), "nor does a controller's start");
}

#[tokio::test]
async fn a_cluster_made_again_under_its_name_takes_nothing_of_the_former_one() {
    let world = World::new(hello());
    world.settle().await;
    let former = world.server.get(&format!("{CORE}/secrets/hello-agent-uid1")).unwrap();
    world.server.remove(&format!("{CLUSTERS}/hello"));
    world.server.store(
        &format!("{CLUSTERS}/hello"),
        json!({
            "apiVersion": "quorate.dev/v1alpha1", "kind": "MiniCluster",
            "metadata": {"name": "hello", "namespace": "hpc", "generation": 1}, "spec": hello(),
        }),
    );
    // Everything of the former one is still there.
    world.watch();
    world.look().await.unwrap();
    assert!(!world.server.take_calls().iter().any(|call| call.starts_with("POST jobsets")));
    // The JobSet is gone, the rest is not.
    world.server.remove(&format!("{JOBSETS}/hello"));
    world.watch();
    assert_eq!(world.look().await.unwrap_err().reason(), "Leftover");
    for path in [format!("{CORE}/secrets/hello-agent-uid1"), format!("{POLICIES}/hello")] {
        world.server.remove(&path);
    }
    world.settle().await;
    // What pods mount is never under the former one's name: a kubelet may remember that.
    let uid = world.cluster().metadata.uid.unwrap().replace('-', "");
    assert_ne!(uid, "uid1");
    assert_eq!(world.made(), ALL.map(|name| name.replace("uid1", &uid)));
    let seed = world.server.get(&format!("{CORE}/secrets/hello-agent-{uid}")).unwrap();
    assert_ne!(seed["data"], former["data"]);
}

#[tokio::test]
async fn suspend_and_resume_are_one_write_each() {
    let world = World::new(hello());
    world.settle().await;
    for suspend in [true, false] {
        world.change(&format!("{CLUSTERS}/hello"), |o| {
            o["spec"]["suspend"] = json!(suspend);
            o["metadata"]["generation"] = json!(if suspend { 2 } else { 3 });
        });
        let calls = world.settle().await;
        let patches = calls.iter().filter(|call| *call == "PATCH jobsets/hello").count();
        assert_eq!(patches, 1, "{calls:?}");
        let jobset = world.server.get(&format!("{JOBSETS}/hello")).unwrap();
        assert_eq!(jobset["spec"]["suspend"], json!(suspend));
    }
}

#[tokio::test]
async fn a_size_is_patched_into_the_job_and_again_after_a_restart() {
    let world = World::new(json!({"size": 3, "maxSize": 6, "image": "mpi"}));
    world.settle().await;
    let jobset = world.server.get(&format!("{JOBSETS}/hello")).unwrap();
    let job = |attempt: u32| {
        json!({
            "apiVersion": "batch/v1", "kind": "Job",
            "metadata": {"name": "hello-worker-0", "namespace": "hpc", "labels": {
                "quorate.dev/cluster": "hello",
                "jobset.sigs.k8s.io/jobset-uid": jobset["metadata"]["uid"],
                "jobset.sigs.k8s.io/replicatedjob-name": "worker",
                "jobset.sigs.k8s.io/restart-attempt": attempt.to_string(),
            }},
            "spec": {"parallelism": 2, "completions": 2, "template": {}},
        })
    };
    let path = format!("{JOBS}/hello-worker-0");
    world.server.store(&path, job(0));
    world.settle().await;
    world.change(&format!("{CLUSTERS}/hello"), |o| {
        o["spec"]["size"] = json!(5);
        o["metadata"]["generation"] = json!(2);
    });
    for attempt in [0, 1] {
        let calls = world.settle().await;
        let patches = calls.iter().filter(|call| *call == "PATCH jobs/hello-worker-0").count();
        assert_eq!(patches, 1, "attempt {attempt}: {calls:?}");
        let spec = &world.server.get(&path).unwrap()["spec"];
        assert_eq!((&spec["parallelism"], &spec["completions"]), (&json!(4), &json!(4)));
        // A restart makes the Job anew, as the template has it.
        world.server.remove(&path);
        world.server.store(&path, job(1));
    }
}

#[tokio::test]
async fn a_change_that_a_jobset_cannot_take_is_a_condition_and_no_loop() {
    let world = World::new(hello());
    world.settle().await;
    world.change(&format!("{CLUSTERS}/hello"), |o| {
        o["spec"]["image"] = json!("other");
        o["metadata"]["generation"] = json!(2);
    });
    let calls = world.settle().await;
    assert!(!calls.iter().any(|call| call.contains("jobsets")), "{calls:?}");
    assert_eq!(world.condition("Accepted"), ("False".into(), "Immutable".into()));
    let message = world.cluster().status.unwrap().message.unwrap();
    assert!(message.contains("spec.image"), "{message}");
    world.change(&format!("{CLUSTERS}/hello"), |o| {
        o["spec"]["image"] = json!("mpi");
        o["metadata"]["generation"] = json!(3);
    });
    world.settle().await;
    assert_eq!(world.condition("Accepted"), ("True".into(), "Planned".into()));
}

#[tokio::test]
async fn a_pod_that_hangs_on_a_lost_node_has_failed_by_a_disruption_and_goes() {
    let world = World::new(hello());
    world.settle().await;
    let jobset = world.server.get(&format!("{JOBSETS}/hello")).unwrap();
    let pod = format!("{CORE}/pods/hello-worker-0-1-abcde");
    world.server.store(
        &pod,
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": "hello-worker-0-1-abcde", "namespace": "hpc",
                "deletionTimestamp": "2026-01-01T00:00:00Z",
                "labels": {
                    "quorate.dev/cluster": "hello", "quorate.dev/group": "worker",
                    "jobset.sigs.k8s.io/jobset-uid": jobset["metadata"]["uid"],
                },
            },
            "spec": {"nodeName": "n2", "containers": [{"name": "main"}]},
            "status": {"phase": "Running"},
        }),
    );
    world.watch();
    world.look().await.unwrap();
    assert!(world.server.get(&pod).is_none());
    let state = world.server.0.lock().unwrap();
    let calls: Vec<_> =
        state.calls.iter().rev().filter(|call| call.method != Method::GET).collect();
    let call = |method: Method, part: &str| {
        let found = calls.iter().position(|call| call.method == method && call.path.contains(part));
        (found.unwrap(), &calls[found.unwrap()].body)
    };
    let (last, delete) = call(Method::DELETE, "/pods/");
    assert_eq!(delete["gracePeriodSeconds"], json!(0));
    assert!(delete["preconditions"]["uid"].is_string());
    let (before, failed) = call(Method::PATCH, "/pods/hello-worker-0-1-abcde/status");
    assert_eq!(failed["metadata"]["uid"], delete["preconditions"]["uid"]);
    assert_eq!(failed["status"]["phase"], "Failed");
    assert_eq!(failed["status"]["conditions"][0]["type"], "DisruptionTarget");
    assert_eq!(failed["status"]["conditions"][0]["reason"], "NodeLost");
    let (noted, note) = call(Method::PATCH, "/jobsets/hello");
    assert_eq!(note["metadata"]["annotations"]["quorate.dev/lost-nodes"], "n2");
    let (first, template) = call(Method::POST, "/podtemplates");
    assert_eq!(template["metadata"]["ownerReferences"][0]["uid"], jobset["metadata"]["uid"]);
    assert_eq!(template["metadata"]["annotations"]["quorate.dev/lost-nodes"], "n2");
    let order = [first, noted, before, last];
    assert!(order.is_sorted_by(|a, b| a > b), "new pods must not go where this one was: {order:?}");
}

#[tokio::test]
async fn a_note_of_lost_nodes_takes_the_place_of_an_earlier_one_and_goes_in_time() {
    let world = World::new(hello());
    world.settle().await;
    let path = format!("{JOBSETS}/hello");
    let uid = world.server.get(&path).unwrap()["metadata"]["uid"].as_str().unwrap().to_owned();
    let template = format!("{CORE}/podtemplates/quorate-lost-nodes-{uid}");
    // Of a controller that died before it had noted that on the JobSet.
    let metadata = json!({"name": format!("quorate-lost-nodes-{uid}"), "namespace": "hpc"});
    world.server.store(&template, json!({"metadata": metadata}));
    let pod = format!("{CORE}/pods/hello-worker-0-1-abcde");
    let metadata = json!({
        "name": "hello-worker-0-1-abcde", "namespace": "hpc",
        "deletionTimestamp": "2026-01-01T00:00:00Z",
        "labels": {
            "quorate.dev/cluster": "hello", "quorate.dev/group": "worker",
            "jobset.sigs.k8s.io/jobset-uid": uid,
        },
    });
    let spec = json!({"nodeName": "n2", "containers": [{"name": "main"}]});
    world.server.store(&pod, json!({"metadata": metadata, "spec": spec}));
    world.watch();
    world.look().await.unwrap();
    let noted = &world.server.get(&template).unwrap()["metadata"]["annotations"];
    assert_eq!(noted["quorate.dev/lost-nodes"], "n2");

    let mut jobset = world.server.get(&path).unwrap();
    jobset["metadata"]["annotations"]["quorate.dev/lost-until"] = json!("2026-01-01T00:00:00Z");
    world.server.store(&path, jobset);
    world.watch();
    world.look().await.unwrap();
    assert!(world.server.get(&template).is_none());
    let jobset = world.server.get(&path).unwrap();
    assert!(jobset["metadata"]["annotations"].get("quorate.dev/lost-nodes").is_none(), "{jobset}");
}

#[tokio::test]
async fn a_drained_worker_makes_its_launchers_end_a_disruption_too() {
    let world = World::new(json!({
        "size": 2, "image": "mpi", "program": {"parallel": {"command": ["lmp"]}},
    }));
    world.settle().await;
    let jobset = world.server.get(&format!("{JOBSETS}/hello")).unwrap();
    let path = |group: &str| format!("{CORE}/pods/hello-{group}-0-0-abcde");
    for (group, taken) in [("launcher", "False"), ("worker", "True")] {
        let name = format!("hello-{group}-0-0-abcde");
        world.server.store(
            &path(group),
            json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {
                    "name": name, "namespace": "hpc",
                    "labels": {
                        "quorate.dev/cluster": "hello", "quorate.dev/group": group,
                        "jobset.sigs.k8s.io/jobset-uid": jobset["metadata"]["uid"],
                    },
                },
                "spec": {"nodeName": "n2", "containers": [{"name": "main"}]},
                "status": {"phase": "Running", "conditions": [{
                    "type": "DisruptionTarget", "status": taken,
                    "reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting",
                }]},
            }),
        );
    }
    world.watch();
    world.look().await.unwrap();
    let launcher = world.server.get(&path("launcher")).unwrap();
    let told = &launcher["status"]["conditions"][0];
    assert_eq!((&told["type"], &told["status"]), (&json!("DisruptionTarget"), &json!("True")));
    assert_eq!(told["reason"], "WorkerDisrupted", "{told}");
    assert_eq!(launcher["status"]["phase"], "Running", "nothing happens to it");
    world.settle().await;
    // A pod that is said to be excused is no disruption of its own.
    let facts = PodFacts::from_pod(&serde_json::from_value(launcher).unwrap());
    assert!(facts.excused && facts.disruption.is_none());
}

#[tokio::test]
async fn an_invalid_object_becomes_nothing_but_a_condition() {
    let world = World::new(json!({"size": 2, "minSize": 3, "image": "mpi"}));
    let calls = world.settle().await;
    assert_eq!(world.made(), Vec::<String>::new());
    assert_eq!(world.condition("Accepted"), ("False".into(), "Invalid".into()));
    assert!(calls.iter().all(|call| call.contains("miniclusters") || call.contains("events")));
}

#[tokio::test]
async fn a_cluster_goes_when_its_time_after_the_end_is_over_and_its_status_has_told_the_end() {
    let mut spec = hello();
    spec["ttlSecondsAfterFinished"] = json!(0);
    let world = World::new(spec);
    world.settle().await;
    world.change(&format!("{JOBSETS}/hello"), |o| {
        o["status"] = json!({"restarts": 0, "conditions": [{
            "type": "Completed", "status": "True", "reason": "AllJobsCompleted", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }]});
    });
    world.watch();
    world.look().await.unwrap();
    assert_eq!(world.condition("Succeeded").0, "True");
    let key = Key::new("hpc", "hello");
    assert!(world.context.caches.jobsets.get(&key, "hello").is_some());
    world.look().await.unwrap();
    assert!(world.server.get(&format!("{CLUSTERS}/hello")).is_none());
}
