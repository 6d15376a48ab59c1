//! Nothing of a user's pod template is ever lost or reordered: random templates over every field that
//! the definition knows come out of the plan unchanged, with the agent's parts added.

#![allow(clippy::panic, reason = "a test says by a panic what is wrong")]

#[path = "templates/random.rs"]
mod random;

use proptest::prelude::*;
use quorate_api::{MiniCluster, Target, validate};
use quorate_plan::{Context, Delivery, Seed, plan};
use serde_json::{Value, json};

use random::{Generator, Role};

/// Where `whole` does not have all of `part`, which is everywhere the same except for additions.
/// Lists may have more items, but the same ones in the same order.
fn lost(part: &Value, whole: &Value, path: &str) -> Option<String> {
    match (part, whole) {
        (Value::Object(part), Value::Object(whole)) => part.iter().find_map(|(key, value)| {
            let path = format!("{path}.{key}");
            match whole.get(key) {
                Some(other) => lost(value, other, &path),
                None => Some(format!("{path} is gone")),
            }
        }),
        (Value::Array(part), Value::Array(whole)) => {
            let mut rest = whole.iter();
            part.iter().enumerate().find_map(|(at, item)| {
                let there = rest.any(|other| lost(item, other, "").is_none());
                (!there).then(|| format!("{path}[{at}] is gone or out of order"))
            })
        }
        // A quantity may be written as a number, and is a text in the types.
        (Value::Number(part), Value::String(whole)) if part.to_string() == *whole => None,
        (part, whole) => (part != whole).then(|| format!("{path} was {part} and is {whole}")),
    }
}

fn planned(spec: &Value) -> Value {
    let object: MiniCluster = serde_json::from_value(json!({
        "apiVersion": "quorate.dev/v1alpha1",
        "kind": "MiniCluster",
        "metadata": {"name": "hello"},
        "spec": spec,
    }))
    .expect("a generated object has the types' form");
    let cluster = validate(&object, Target::Kubernetes)
        .unwrap_or_else(|found| panic!("generated objects are valid: {found:#?}\n{spec:#}"));
    let context = Context {
        agent_image: "agent".into(),
        agent_delivery: Delivery::Copy,
        port_forward: true,
        cluster_domain: None,
    };
    let planned = plan(&cluster, &context, &Seed::new([0; 32]));
    serde_json::to_value(planned.jobset).expect("objects are plain data")
}

fn pods(jobset: &Value, at: usize) -> &Value {
    &jobset["spec"]["replicatedJobs"][at]["template"]["spec"]["template"]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_whole_template_comes_through(seed: u64) {
        let mut generator = Generator::new(seed);
        let template = generator.template(Role::Whole);
        let jobset = planned(&json!({"size": 3, "template": template}));
        for group in [0, 1] {
            prop_assert_eq!(lost(&template, pods(&jobset, group), ""), None);
        }
    }

    #[test]
    fn an_overlay_changes_what_it_names_and_nothing_else(seed: u64) {
        let mut generator = Generator::new(seed);
        let template = generator.template(Role::Whole);
        let overlay = generator.template(Role::Overlay);
        let jobset = planned(&json!({
            "template": template,
            "groups": [{"name": "plain", "size": 2}, {"name": "other", "size": 2, "template": overlay}],
        }));
        let (plain, other) = (pods(&jobset, 1), pods(&jobset, 2));
        // What the overlay does not name is as in the group without it.
        let base = template["spec"].as_object().cloned().unwrap_or_default();
        let named = overlay["spec"].as_object().cloned().unwrap_or_default();
        for (field, value) in base.iter().filter(|(field, _)| !named.contains_key(*field)) {
            prop_assert_eq!(lost(value, &other["spec"][field], field), None);
            if field != "containers" {
                prop_assert_eq!(of_user(other, field), of_user(plain, field), "{}", field);
            }
        }
        // Scalars and new items of the overlay are there.
        for (field, value) in &named {
            let whole = &other["spec"][field];
            match value {
                Value::Array(_) | Value::Object(_) => prop_assert!(!whole.is_null(), "{} is gone", field),
                value => prop_assert_eq!(lost(value, whole, field), None),
            }
        }
        for list in ["containers", "initContainers", "volumes"] {
            for item in named.get(list).and_then(Value::as_array).into_iter().flatten() {
                let found = other["spec"][list].as_array().into_iter().flatten()
                    .find(|other| other["name"] == item["name"]);
                prop_assert!(found.is_some(), "{} {} is gone", list, item["name"]);
            }
        }
    }
}

/// A field of a pod without the agent's init container, which is told another user where an overlay
/// makes the pod root.
fn of_user(pod: &Value, field: &str) -> Value {
    let mut value = pod["spec"][field].clone();
    if let (Some(items), "initContainers") = (value.as_array_mut(), field) {
        items.retain(|item| item["name"] != quorate_plan::names::pod::INSTALL);
    }
    value
}

#[test]
fn the_generator_reaches_most_fields() {
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..300 {
        let template = Generator::new(seed).template(Role::Whole);
        seen.extend(template["spec"].as_object().into_iter().flatten().map(|(key, _)| key.clone()));
    }
    let known = random::pod_fields();
    let missed: Vec<_> = known.iter().filter(|field| !seen.contains(*field)).collect();
    assert_eq!(missed, ["hostname", "restartPolicy", "subdomain"]);
}
