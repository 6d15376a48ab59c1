use super::*;
use quorate_api::{Target, load};
use serde_json::{Value, json};

use crate::{Context, Delivery, Seed, plan};

const OBJECT: &str = "apiVersion: quorate.dev/v1alpha1\nkind: MiniCluster\nmetadata: {name: hello}\n\
    spec: {size: 4, command: [./hello]}\n";

/// A planned JobSet after one edit, at a JSON pointer below `spec`; null takes a field out.
fn broken_by(pointer: &str, value: Value) -> Vec<String> {
    let document = load(OBJECT, Target::Local).unwrap();
    let context = Context {
        agent_image: "agent".into(),
        agent_delivery: Delivery::Copy,
        port_forward: true,
        cluster_domain: None,
    };
    let mut object =
        serde_json::to_value(plan(&document.validated, &context, &Seed::new([0; 32])).jobset)
            .unwrap();
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    let parent = object.pointer_mut(&format!("/spec{parent}")).unwrap();
    match parent {
        Value::Object(map) if value.is_null() => drop(map.remove(key).unwrap()),
        Value::Object(map) => drop(map.insert(key.to_owned(), value)),
        Value::Array(items) => items[key.parse::<usize>().unwrap()] = value,
        _ => unreachable!("the pointer leads to an object or a list"),
    }
    let jobset: JobSet = serde_json::from_value(object).unwrap();
    check_jobset(&jobset).into_iter().map(|broken| broken.path).collect()
}

#[test]
fn an_untouched_plan_breaks_nothing() {
    assert_eq!(broken_by("/suspend", json!(false)), [""; 0]);
}

#[test]
fn each_rule_is_noticed() {
    let worker = "/replicatedJobs/1";
    let job = "/replicatedJobs/1/template/spec";
    let pod = "/replicatedJobs/1/template/spec/template/spec";
    let at = |path: &str| format!("spec{}", path.replace("/1", "[1]").replace('/', "."));
    let cases = [
        ("/network".to_owned(), Value::Null, "spec.network".to_owned()),
        (
            "/network/enableDNSHostnames".into(),
            json!(false),
            "spec.network.enableDNSHostnames".into(),
        ),
        (
            "/network/publishNotReadyAddresses".into(),
            Value::Null,
            "spec.network.publishNotReadyAddresses".into(),
        ),
        ("/network/subdomain".into(), json!("a.b"), "spec.network.subdomain".into()),
        ("/successPolicy".into(), Value::Null, "spec.successPolicy".into()),
        (
            "/successPolicy/targetReplicatedJobs".into(),
            json!(["head"]),
            "spec.successPolicy.targetReplicatedJobs".into(),
        ),
        ("/startupPolicy".into(), Value::Null, "spec.startupPolicy".into()),
        ("/ttlSecondsAfterFinished".into(), json!(-1), "spec.ttlSecondsAfterFinished".into()),
        ("/failurePolicy/maxRestarts".into(), json!(-1), "spec.failurePolicy.maxRestarts".into()),
        (
            "/failurePolicy/rules/0/name".into(),
            json!("a rule"),
            "spec.failurePolicy.rules[0].name".into(),
        ),
        (
            "/failurePolicy/rules/0/name".into(),
            json!("rule:"),
            "spec.failurePolicy.rules[0].name".into(),
        ),
        (
            "/failurePolicy/rules/0/onJobFailureReasons".into(),
            json!(["Bored"]),
            "spec.failurePolicy.rules[0].onJobFailureReasons".into(),
        ),
        (
            "/failurePolicy/rules/0/targetReplicatedJobs".into(),
            json!(["head"]),
            "spec.failurePolicy.rules[0].targetReplicatedJobs".into(),
        ),
        (format!("{worker}/name"), json!("launcher"), at(&format!("{worker}/name"))),
        (format!("{worker}/name"), json!("w".repeat(60)), at(&format!("{worker}/name"))),
        (format!("{worker}/groupName"), json!("Default"), at(&format!("{worker}/groupName"))),
        (format!("{worker}/replicas"), json!(0), at(&format!("{worker}/replicas"))),
        (format!("{worker}/replicas"), json!(i32::MAX), at(&format!("{job}/parallelism"))),
        (format!("{worker}/template/spec"), Value::Null, at(job)),
        (
            format!("{worker}/template/metadata/labels"),
            json!({"jobset.sigs.k8s.io/job-index": "1"}),
            at(&format!("{worker}/template/metadata")) + "[jobset.sigs.k8s.io/job-index]",
        ),
        (
            format!("{job}/completionMode"),
            json!("NonIndexed"),
            at(&format!("{job}/completionMode")),
        ),
        (format!("{job}/completions"), Value::Null, at(&format!("{job}/completions"))),
        (format!("{job}/completions"), json!(2), at(&format!("{job}/completions"))),
        (format!("{job}/backoffLimit"), Value::Null, at(&format!("{job}/backoffLimit"))),
        (
            format!("{job}/backoffLimitPerIndex"),
            Value::Null,
            at(&format!("{job}/maxFailedIndexes")),
        ),
        (
            format!("{job}/backoffLimitPerIndex"),
            json!(-1),
            at(&format!("{job}/backoffLimitPerIndex")),
        ),
        (format!("{job}/maxFailedIndexes"), json!(7), at(&format!("{job}/maxFailedIndexes"))),
        (
            format!("{job}/podReplacementPolicy"),
            json!("TerminatingOrFailed"),
            at(&format!("{job}/podReplacementPolicy")),
        ),
        (
            format!("{job}/podFailurePolicy/rules/0/action"),
            json!("Panic"),
            at(&format!("{job}/podFailurePolicy/rules")) + "[0].action",
        ),
        (
            format!("{job}/podFailurePolicy/rules/0/onPodConditions"),
            Value::Null,
            at(&format!("{job}/podFailurePolicy/rules")) + "[0]",
        ),
        (
            format!("{job}/ttlSecondsAfterFinished"),
            json!(60),
            at(&format!("{job}/ttlSecondsAfterFinished")),
        ),
        (format!("{job}/selector"), json!({}), at(&format!("{job}/selector"))),
        (
            format!("{job}/activeDeadlineSeconds"),
            json!(-1),
            at(&format!("{job}/activeDeadlineSeconds")),
        ),
        (
            format!("{job}/template/metadata/labels"),
            json!({"a": "b c"}),
            at(&format!("{job}/template/metadata/labels")) + "[a]",
        ),
        (format!("{pod}/restartPolicy"), json!("OnFailure"), at(&format!("{pod}/restartPolicy"))),
        (format!("{pod}/hostname"), json!("head"), at(&format!("{pod}/hostname"))),
        (format!("{pod}/containers"), json!([]), at(&format!("{pod}/containers"))),
        (
            format!("{pod}/containers/0/name"),
            json!("quorate-install"),
            at(&format!("{pod}/containers")) + "[0].name",
        ),
        (
            format!("{pod}/containers/0/volumeMounts/0/name"),
            json!("nothing"),
            at(&format!("{pod}/containers")) + "[0].volumeMounts[0].name",
        ),
        (
            format!("{pod}/containers/0/volumeMounts/0/mountPath"),
            json!("/quorate/run"),
            at(&format!("{pod}/containers")) + "[0].volumeMounts[2].mountPath",
        ),
        (
            format!("{pod}/volumes/0/name"),
            json!("quorate-run"),
            at(&format!("{pod}/volumes")) + "[2].name",
        ),
        ("/replicatedJobs".into(), json!([]), "spec.replicatedJobs".into()),
    ];
    for (pointer, value, path) in cases {
        let broken = broken_by(&pointer, value.clone());
        assert!(broken.contains(&path), "{pointer} = {value}: {broken:?}, not {path}");
    }
}

#[test]
fn a_name_that_fits_its_jobs_but_not_its_pods_is_noticed() {
    let name = "w".repeat(63 - "hello--0-2".len());
    let broken = broken_by("/replicatedJobs/1/name", json!(name));
    assert_eq!(broken, ["spec.replicatedJobs[1].template.spec.completions"]);
}
