//! Names that the API keeps from users are those that the plan and the agent use. The API knows
//! neither of them, so the two lists are held together here.

#![allow(clippy::unwrap_used, reason = "a test says by a panic what is wrong")]

use k8s_openapi::api::core::v1::PodSpec;
use quorate_api::minicluster::Bootstrap;
use quorate_api::{MiniCluster, Target, validate};
use quorate_contract::{env, paths};
use quorate_plan::{Context, Delivery, Seed, plan};
use serde_json::{Value, json};

fn object(spec: &Value) -> MiniCluster {
    serde_json::from_value(json!({
        "apiVersion": "quorate.dev/v1alpha1",
        "kind": "MiniCluster",
        "metadata": {"name": "hello"},
        "spec": spec,
    }))
    .unwrap()
}

fn refused(spec: &Value) -> bool {
    validate(&object(spec), Target::Local).is_err()
}

fn planned(agent_delivery: Delivery) -> PodSpec {
    let cluster = validate(&object(&json!({"size": 2})), Target::Local).unwrap();
    let context = Context {
        agent_image: "agent".into(),
        agent_delivery,
        port_forward: true,
        cluster_domain: None,
    };
    let mut plan = plan(&cluster, &context, &Seed::new([0; 32]));
    plan.jobset.spec.replicated_jobs.remove(1).template.spec.unwrap().template.spec.unwrap()
}

#[test]
fn users_cannot_set_the_variables_of_the_agent() {
    let pod = planned(Delivery::Copy);
    let ours = pod.containers[0].env.iter().flatten().map(|variable| variable.name.as_str());
    for name in ours.chain([env::INDEX, env::JOB_INDEX]) {
        assert!(refused(&json!({"env": [{"name": name, "value": "x"}]})), "{name}");
    }
    // The log filter is theirs.
    assert!(!refused(&json!({"env": [{"name": env::LOG, "value": "debug"}]})));
}

#[test]
fn users_cannot_take_the_names_and_places_of_the_agents_volumes() {
    let pod = planned(Delivery::Copy);
    let names = |pod: &PodSpec| -> Vec<_> {
        pod.volumes.iter().flatten().map(|volume| volume.name.clone()).collect()
    };
    let volumes = names(&pod);
    assert_eq!(volumes.len(), 4);
    assert_eq!(names(&planned(Delivery::Image)), volumes);
    for name in volumes {
        let volume = json!({"name": name, "emptyDir": {}});
        assert!(refused(&json!({"template": {"spec": {"volumes": [volume]}}})), "{name}");
    }
    let install = &pod.init_containers.as_ref().unwrap()[0].name;
    let container = json!({"name": install, "image": "x"});
    assert!(refused(&json!({"template": {"spec": {"initContainers": [container]}}})));
    for place in [paths::BIN_DIR, paths::CONFIG_DIR, paths::RUN_DIR, "/quorate"] {
        let template = json!({"spec": {
            "volumes": [{"name": "mine", "emptyDir": {}}],
            "containers": [{"name": "main", "volumeMounts": [{"name": "mine", "mountPath": place}]}],
        }});
        assert!(refused(&json!({ "template": template })), "{place}");
    }
}

/// What tells an owner whether a change needs a new JobSet.
#[test]
fn the_hash_changes_with_what_a_living_cluster_cannot_take() {
    let brought = |spec: Value, image: &str, agent_delivery: Delivery| {
        let cluster = validate(&object(&spec), Target::Local).unwrap();
        let context = Context {
            agent_image: image.into(),
            agent_delivery,
            port_forward: true,
            cluster_domain: None,
        };
        let jobset = plan(&cluster, &context, &Seed::new([0; 32])).jobset;
        jobset.metadata.annotations.unwrap()[quorate_plan::labels::SPEC_HASH].clone()
    };
    let hash = |spec: Value, image: &str| brought(spec, image, Delivery::Copy);
    let base = json!({"size": 2, "maxSize": 4, "command": ["a"]});
    let with = |field: &str, value: Value| {
        let mut spec = base.clone();
        spec[field] = value;
        hash(spec, "agent:1")
    };
    let same = hash(base.clone(), "agent:1");
    assert_eq!(hash(base.clone(), "agent:2"), same);
    assert_eq!(brought(base.clone(), "agent:1", Delivery::Image), same);
    assert_eq!(with("size", json!(3)), same);
    assert_eq!(with("suspend", json!(true)), same);
    assert_eq!(with("ttlSecondsAfterFinished", json!(1)), same);
    for (field, value) in [
        ("maxSize", json!(5)),
        ("command", json!(["b"])),
        ("image", json!("other")),
        ("slots", json!(1)),
        ("failurePolicy", json!({"maxRestarts": 1})),
        ("activeDeadlineSeconds", json!(60)),
        ("network", json!({"subdomain": "net"})),
        ("bootstrap", json!({"port": 9000})),
        ("topology", json!({"key": "rack"})),
    ] {
        assert_ne!(with(field, value), same, "{field}");
    }
}

#[test]
fn defaults_are_those_of_the_contract() {
    assert_eq!(Bootstrap::default().port, i32::from(paths::DEFAULT_PORT));
    let main = &planned(Delivery::Copy).containers[0];
    assert_eq!(main.termination_message_path.as_deref(), Some(paths::TERMINATION_LOG));
    let path = |path: &str| {
        refused(&json!({"template": {"spec": {"containers": [
            {"name": "main", "terminationMessagePath": path}]}}}))
    };
    assert!(!path(paths::TERMINATION_LOG) && path("/elsewhere"));
}
