use super::*;
use serde_json::json;

fn template(value: &Value) -> PodTemplateSpec {
    serde_json::from_value(value.clone()).unwrap()
}

fn merged(lower: &Value, upper: &Value) -> Value {
    serde_json::to_value(overlay(&template(lower), &template(upper))).unwrap()
}

#[test]
fn containers_meet_by_name_and_new_ones_go_to_the_end() {
    let value = merged(
        &json!({"spec": {"containers": [
            {"name": "log", "image": "a"},
            {"name": "main", "image": "b", "command": ["x"], "resources": {"limits": {"cpu": "1"}}},
        ]}}),
        &json!({"spec": {"containers": [
            {"name": "new", "image": "d"},
            {"name": "main", "image": "c", "resources": {"limits": {"memory": "1Gi"}}},
        ]}}),
    );
    assert_eq!(
        value["spec"]["containers"],
        json!([
            {"name": "log", "image": "a"},
            {"name": "main", "image": "c", "command": ["x"],
             "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}},
            {"name": "new", "image": "d"},
        ])
    );
}

#[test]
fn a_variable_or_volume_of_the_overlay_replaces_the_whole_source() {
    let value = merged(
        &json!({"spec": {"volumes": [{"name": "data", "hostPath": {"path": "/data"}}],
            "containers": [{"name": "main", "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]}]}}),
        &json!({"spec": {"volumes": [{"name": "data", "emptyDir": {}}],
            "containers": [{"name": "main", "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]}]}}),
    );
    assert_eq!(value["spec"]["volumes"], json!([{"name": "data", "emptyDir": {}}]));
    assert_eq!(
        value["spec"]["containers"][0]["env"],
        json!([
            {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "B", "value": "2"},
        ])
    );
}

#[test]
fn tolerations_are_added_once() {
    let gpu = json!({"key": "gpu", "operator": "Exists"});
    let spot = json!({"key": "spot", "operator": "Exists"});
    let value = merged(
        &json!({"spec": {"containers": [], "tolerations": [gpu]}}),
        &json!({"spec": {"containers": [], "tolerations": [spot, gpu]}}),
    );
    assert_eq!(value["spec"]["tolerations"], json!([gpu, spot]));
}

#[test]
fn ports_of_equal_number_and_other_protocol_are_two() {
    let value = merged(
        &json!({"spec": {"containers": [{"name": "main", "ports": [{"containerPort": 53}]}]}}),
        &json!({"spec": {"containers": [{"name": "main", "ports": [
            {"containerPort": 53, "protocol": "UDP"},
            {"containerPort": 53, "protocol": "TCP", "name": "dns"}]}]}}),
    );
    assert_eq!(
        value["spec"]["containers"][0]["ports"],
        json!([
            {"containerPort": 53, "protocol": "TCP", "name": "dns"},
            {"containerPort": 53, "protocol": "UDP"},
        ])
    );
}

#[test]
fn node_selectors_and_labels_are_merged_and_command_lines_replaced() {
    let value = merged(
        &json!({"metadata": {"labels": {"a": "1", "b": "2"}},
            "spec": {"containers": [{"name": "main", "args": ["1", "2"]}], "nodeSelector": {"x": "1"}}}),
        &json!({"metadata": {"labels": {"b": "3"}},
            "spec": {"containers": [{"name": "main", "args": ["3"]}], "nodeSelector": {"y": "2"}}}),
    );
    assert_eq!(value["metadata"]["labels"], json!({"a": "1", "b": "3"}));
    assert_eq!(value["spec"]["nodeSelector"], json!({"x": "1", "y": "2"}));
    assert_eq!(value["spec"]["containers"][0]["args"], json!(["3"]));
}

#[test]
fn the_shorthand_is_laid_over_the_main_container_only() {
    let spec: MiniClusterSpec = serde_json::from_value(json!({
        "image": "new",
        "env": [{"name": "A", "value": "2"}],
        "template": {"spec": {"containers": [
            {"name": "side", "image": "s"},
            {"name": "main", "image": "old", "env": [{"name": "B", "value": "1"}, {"name": "A", "value": "1"}]},
        ]}},
    }))
    .unwrap();
    let value = serde_json::to_value(base(&spec)).unwrap();
    assert_eq!(
        value["spec"]["containers"],
        json!([
            {"name": "side", "image": "s"},
            {"name": "main", "image": "new", "env": [{"name": "B", "value": "1"}, {"name": "A", "value": "2"}]},
        ])
    );
}

#[test]
fn without_a_template_there_is_one_container_named_main() {
    let base = base(&MiniClusterSpec { image: Some("i".into()), ..MiniClusterSpec::default() });
    let value = serde_json::to_value(base).unwrap();
    assert_eq!(value["spec"]["containers"], json!([{"name": "main", "image": "i"}]));
}
