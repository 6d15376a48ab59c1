//! Schemas of pod templates inside the MiniCluster's own.
//!
//! They are those of core/v1 without descriptions (a definition with several full pod templates
//! would not fit into one object of the API server), with only labels and annotations of the
//! metadata (a Job ignores the rest), and, for overlays, without required fields.

use k8s_openapi::api::core::v1::{EnvVar, PodTemplateSpec, ResourceRequirements};
use kube::core::Rule;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use crate::cel;

/// A whole pod template. Containers are not required: without any, one named `main` is made of the
/// shorthand.
pub fn pod_template(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = core::<PodTemplateSpec>(generator, Required::Keep);
    if let Some(pod) = schema.pointer_mut("/properties/spec").and_then(Value::as_object_mut) {
        pod.remove("required");
    }
    templated(schema, false)
}

/// A part of a pod template that is laid over another.
pub fn overlay(generator: &mut SchemaGenerator) -> Schema {
    templated(core::<PodTemplateSpec>(generator, Required::Drop), true)
}

/// Variables of a container.
pub fn env(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = core::<Vec<EnvVar>>(generator, Required::Keep);
    schema.insert("x-kubernetes-list-type".into(), "map".into());
    schema.insert("x-kubernetes-list-map-keys".into(), json!(["name"]));
    schema
}

/// Resources of a container.
pub fn resources(generator: &mut SchemaGenerator) -> Schema {
    core::<ResourceRequirements>(generator, Required::Keep)
}

#[derive(Clone, Copy, PartialEq)]
enum Required {
    Keep,
    Drop,
}

fn core<T: JsonSchema>(generator: &mut SchemaGenerator, required: Required) -> Schema {
    let mut schema = T::json_schema(generator);
    if let Some(object) = schema.as_object_mut() {
        trim(object, required);
    }
    schema
}

fn templated(mut schema: Schema, overlay: bool) -> Schema {
    if let Some(metadata) = schema.pointer_mut("/properties/metadata") {
        let strings = json!({
            "type": "object",
            "additionalProperties": {"type": "string"},
            // A bound that makes the cost of rules over keys known.
            "maxProperties": 128,
        });
        *metadata = json!({
            "type": "object",
            "properties": {"labels": strings, "annotations": strings},
        });
    }
    // Bounds that make the cost of rules over these lists known.
    for (list, most) in [("containers", 32), ("volumes", 128)] {
        if let Some(list) = schema.pointer_mut(&format!("/properties/spec/properties/{list}")) {
            list["maxItems"] = most.into();
        }
    }
    let rules = |rules: Vec<Rule>| serde_json::to_value(rules).expect("rules are plain data");
    for (list, of_item) in
        [("containers", cel::of_container(overlay)), ("volumes", cel::of_volume())]
    {
        if let Some(item) = schema.pointer_mut(&format!("/properties/spec/properties/{list}/items"))
        {
            item["x-kubernetes-validations"] = rules(of_item);
        }
    }
    schema.insert("x-kubernetes-validations".into(), rules(cel::of_template()));
    schema
}

/// Takes descriptions (and required fields) out of a schema. A property may be called
/// `description` or `required`, so properties are walked apart from keywords.
fn trim(schema: &mut Map<String, Value>, required: Required) {
    schema.remove("description");
    if required == Required::Drop {
        schema.remove("required");
    }
    for (keyword, value) in schema.iter_mut() {
        match (keyword.as_str(), value) {
            ("properties", Value::Object(properties)) => {
                for property in properties.values_mut().filter_map(Value::as_object_mut) {
                    trim(property, required);
                }
            }
            ("items" | "additionalProperties" | "not", Value::Object(inner)) => {
                trim(inner, required);
            }
            ("allOf" | "anyOf" | "oneOf", Value::Array(parts)) => {
                for part in parts.iter_mut().filter_map(Value::as_object_mut) {
                    trim(part, required);
                }
            }
            _ => {}
        }
    }
}
