use super::*;
use serde_json::json;

fn object(spec: &serde_json::Value) -> MiniCluster {
    serde_json::from_value(json!({
        "apiVersion": "quorate.dev/v1alpha1",
        "kind": "MiniCluster",
        "metadata": {"name": "hello"},
        "spec": spec,
    }))
    .unwrap()
}

fn valid(spec: &serde_json::Value) -> ValidatedMiniCluster {
    match validate(&object(spec), Target::Local) {
        Ok(validated) => validated,
        Err(findings) => panic!("{findings:?}"),
    }
}

#[test]
fn the_smallest_object_is_a_cluster_of_one_that_stays_up() {
    let cluster = valid(&json!({}));
    assert_eq!((cluster.size, cluster.min_size, cluster.max_size), (1, 1, 1));
    assert_eq!(cluster.groups.len(), 1);
    assert_eq!(cluster.program, ValidatedProgram::None);
    assert_eq!(cluster.subdomain, "hello");
    assert_eq!(cluster.namespace, "default");
}

#[test]
fn ranks_follow_the_groups_and_the_last_one_grows() {
    let cluster = valid(&json!({
        "maxSize": 12,
        "groups": [{"name": "actor", "size": 6}, {"name": "learner", "size": 2, "slots": 1}],
        "slots": 8,
    }));
    let groups: Vec<_> = cluster
        .groups
        .iter()
        .map(|g| (g.name.as_str(), g.first_rank, g.size, g.max_size, g.slots))
        .collect();
    assert_eq!(
        groups,
        [
            ("launcher", 0, 1, 1, Some(8)),
            ("actor", 1, 6, 6, Some(8)),
            ("learner", 7, 2, 5, Some(1)),
        ]
    );
    assert_eq!((cluster.size, cluster.min_size, cluster.max_size), (9, 9, 12));
}

#[test]
fn command_and_args_are_short_for_the_program() {
    let short = valid(&json!({"command": ["a"], "args": ["b"]}));
    let long = valid(&json!({"program": {"command": ["a", "b"]}}));
    let container = valid(&json!({"template": {"spec": {"containers": [
        {"name": "main", "command": ["a"], "args": ["b"]}]}}}));
    assert_eq!(short.program, long.program);
    assert_eq!(short.program, container.program);
}

#[test]
fn all_errors_come_at_once_and_before_the_warnings() {
    let findings = validate(
        &object(&json!({"size": 4, "minSize": 6, "image": "x", "bootstrap": {"port": 0},
            "failurePolicy": {"maxRestarts": -1}})),
        Target::Local,
    )
    .unwrap_err();
    let paths: Vec<String> = findings.iter().map(|f| f.path.to_string()).collect();
    assert_eq!(
        paths,
        ["spec.minSize", "spec.bootstrap.port", "spec.failurePolicy.maxRestarts", "spec.image"]
    );
    assert_eq!(findings.last().unwrap().severity, Severity::Warning);
}

#[test]
fn an_image_is_needed_on_kubernetes_and_useless_here() {
    assert_eq!(
        validate(&object(&json!({})), Target::Kubernetes).unwrap_err()[0].path.to_string(),
        "spec.image"
    );
    let here = validate(&object(&json!({"image": "x"})), Target::Local).unwrap();
    assert_eq!(here.warnings[0].message, "not used on this machine");
    let there = validate(&object(&json!({"image": "x"})), Target::Kubernetes).unwrap();
    assert!(there.warnings.is_empty());
    let anywhere = validate(&object(&json!({})), Target::Any).unwrap();
    assert_eq!(anywhere.warnings[0].to_string(), "spec.image: missing: Kubernetes needs it");
    assert!(validate(&object(&json!({"image": "x"})), Target::Any).unwrap().warnings.is_empty());
}

#[test]
fn what_has_no_effect_on_this_machine_is_said_once() {
    let spec = json!({
        "image": "x",
        "resources": {"limits": {"cpu": 4}},
        "template": {"spec": {
            "nodeSelector": {"disk": "ssd"},
            "volumes": [{"name": "data", "emptyDir": {}}],
            "initContainers": [{"name": "fetch"}],
            "containers": [
                {"name": "main", "tty": true, "volumeMounts": [{"name": "data", "mountPath": "/data"}]},
                {"name": "metrics"},
            ],
        }},
    });
    let said: Vec<String> = valid(&spec).warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        said,
        [
            "spec.image: not used on this machine",
            "spec.resources: not enforced on this machine",
            "spec.template.spec.containers[1]: side-car `metrics` does not run on this machine",
            "spec.template.spec.initContainers[0]: init container `fetch` does not run on this machine",
            "spec.template.spec: not used on this machine: nodeSelector, tty",
        ]
    );
}
