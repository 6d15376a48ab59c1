//! What the API server does with an object before it stores it, as far as it can be done without
//! one: defaults, the constraints of the schema, and the CEL rules by the crate `kube-cel`.

use kube::core::cel::{CompiledSchema, Validator, compile_schema};
use serde_json::{Map, Value};

pub(crate) struct Server {
    schema: Value,
    rules: CompiledSchema,
}

/// The object as `kubectl` sends it; `None` when it would not.
pub(crate) fn read(text: &str) -> Option<Value> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).ok()?;
    let [mut object] = <[Value; 1]>::try_from(documents).ok()?;
    drop_nulls(&mut object);
    let ours = object["apiVersion"] == "quorate.dev/v1alpha1" && object["kind"] == "MiniCluster";
    (ours && object["metadata"]["name"].is_string()).then_some(object)
}

fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(object) => {
            object.retain(|_, value| !value.is_null());
            object.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

impl Server {
    pub(crate) fn new() -> Self {
        let definition = serde_json::to_value(quorate_api::crd()).unwrap();
        let schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone();
        let rules = compile_schema(&schema);
        assert!(!rules.has_errors(), "{:?}", rules.compilation_errors());
        Self { schema, rules }
    }

    /// What is wrong; like the API server, rules are looked at only when the schema holds.
    pub(crate) fn refuses(&self, mut object: Value) -> Vec<String> {
        fill(&mut object, &self.schema);
        let mut wrong = Vec::new();
        constraints(&object, &self.schema, "", &mut wrong);
        if wrong.is_empty()
            && let Err(errors) = Validator::new().validate_compiled(&self.rules, &object, None)
        {
            wrong.extend(errors.iter().map(ToString::to_string));
        }
        wrong
    }
}

fn fill(value: &mut Value, schema: &Value) {
    match value {
        Value::Object(object) => {
            let properties: &Map<String, Value> = match &schema["properties"] {
                Value::Object(properties) => properties,
                _ => return,
            };
            for (name, schema) in properties {
                if let Some(default) = schema.get("default")
                    && !object.contains_key(name)
                {
                    object.insert(name.clone(), default.clone());
                }
                if let Some(value) = object.get_mut(name) {
                    fill(value, schema);
                }
            }
        }
        Value::Array(items) => {
            for item in items {
                fill(item, &schema["items"]);
            }
        }
        _ => {}
    }
}

/// The constraints that the definition uses; unknown fields are dropped, not refused.
fn constraints(value: &Value, schema: &Value, path: &str, wrong: &mut Vec<String>) {
    if schema["x-kubernetes-int-or-string"] == true {
        if !value.is_string() && !value.is_i64() {
            wrong.push(format!("{path}: not an integer or a string"));
        }
        return;
    }
    let right = match schema["type"].as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("integer") => value.is_i64(),
        Some("number") => value.is_number(),
        Some("boolean") => value.is_boolean(),
        _ => true,
    };
    if !right {
        return wrong.push(format!("{path}: not of type {}", schema["type"]));
    }
    let mut check = |holds: bool, what: &str| {
        if !holds {
            wrong.push(format!("{path}: {what}"));
        }
    };
    if let Some(number) = value.as_f64() {
        check(schema["minimum"].as_f64().is_none_or(|min| number >= min), "below the minimum");
        check(schema["maximum"].as_f64().is_none_or(|max| number <= max), "above the maximum");
    }
    if let Some(text) = value.as_str() {
        check(
            schema["enum"].as_array().is_none_or(|words| words.contains(value)),
            "not in the enum",
        );
        let length = text.chars().count() as u64;
        check(schema["maxLength"].as_u64().is_none_or(|max| length <= max), "too long");
        check(
            schema["pattern"].as_str().is_none_or(|pattern| matches(pattern, text)),
            "not of the pattern",
        );
    }
    if let Some(items) = value.as_array() {
        let length = items.len() as u64;
        check(schema["minItems"].as_u64().is_none_or(|min| length >= min), "too few items");
        check(schema["maxItems"].as_u64().is_none_or(|max| length <= max), "too many items");
        for key in schema["x-kubernetes-list-map-keys"].as_array().into_iter().flatten() {
            let key = key.as_str().unwrap();
            let twice =
                (0..items.len()).any(|n| items[..n].iter().any(|old| old[key] == items[n][key]));
            check(!twice, "an item twice");
        }
        for (at, item) in items.iter().enumerate() {
            constraints(item, &schema["items"], &format!("{path}[{at}]"), wrong);
        }
    }
    if let Some(object) = value.as_object() {
        for required in schema["required"].as_array().into_iter().flatten() {
            let required = required.as_str().unwrap();
            if !object.contains_key(required) {
                wrong.push(format!("{path}.{required}: required"));
            }
        }
        for (name, value) in object {
            if let Some(schema) = schema["properties"].get(name) {
                constraints(value, schema, &format!("{path}.{name}"), wrong);
            } else if schema["additionalProperties"].is_object() {
                constraints(
                    value,
                    &schema["additionalProperties"],
                    &format!("{path}.{name}"),
                    wrong,
                );
            }
        }
    }
}

fn matches(pattern: &str, text: &str) -> bool {
    match pattern {
        r"^[a-z]([-a-z0-9]*[a-z0-9])?$" => quorate_api::names::is_dns_1035_label(text),
        r"^[ -<>-~]+$" => quorate_api::names::is_variable(text),
        r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[!-~]+$" => quorate_api::names::is_controller(text),
        r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$" => {
            quorate_api::names::is_label_key(text)
        }
        other => panic!("the pattern {other} is new: say here what it means"),
    }
}
