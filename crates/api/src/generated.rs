//! Files that are made of the types and checked in, so that a reader, the API server and `load` all
//! have them without running anything. `cargo xtask crd` writes them; a test holds them to the types.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use schemars::generate::SchemaSettings;
use serde::Serialize as _;
use serde_json::ser::{PrettyFormatter, Serializer};
use serde_json::{Map, Value, json};

use crate::minicluster::crd;

/// A generated file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GeneratedFile {
    /// Its path from the root of the repository.
    pub path: &'static str,
    /// Its content.
    pub content: String,
}

/// All generated files of this crate.
pub fn generated_files() -> Vec<GeneratedFile> {
    vec![
        GeneratedFile { path: "config/crd/quorate.dev_miniclusters.yaml", content: crd_yaml() },
        GeneratedFile {
            path: "charts/quorate/files/minicluster-definition.yaml",
            content: chart_yaml(),
        },
        GeneratedFile { path: "docs/reference/minicluster.md", content: reference() },
        GeneratedFile { path: "crates/api/src/load/schema.json", content: load_schema() },
    ]
}

/// The definition as YAML.
fn crd_yaml() -> String {
    let yaml = serde_saphyr::to_string(&crd()).expect("a definition is plain data");
    format!("# Made from the types by `cargo xtask crd`; change those instead.\n{yaml}")
}

/// The definition without its head, which the chart writes itself.
fn chart_yaml() -> String {
    let yaml = crd_yaml();
    let spec = yaml.find("\nspec:\n").expect("a definition has a spec after its metadata");
    yaml[spec + 1..].to_owned()
}

fn reference() -> String {
    let definition = serde_json::to_value(crd()).expect("a definition is plain data");
    crate::reference::page(&definition)
}

/// What `load` holds files against: the definition's schema without texts and rules, but with the
/// metadata that the definition leaves to the API server. Making it from the types takes a tenth of a
/// second, reading it a millisecond.
fn load_schema() -> String {
    let definition = serde_json::to_value(crd()).expect("a definition is plain data");
    let mut schema = definition
        .pointer("/spec/versions/0/schema/openAPIV3Schema")
        .expect("a definition made of a type has a schema")
        .clone();
    let mut settings = SchemaSettings::openapi3();
    settings.inline_subschemas = true;
    let metadata = settings.into_generator().into_root_schema_for::<ObjectMeta>();
    schema["properties"]["metadata"] =
        serde_json::to_value(metadata).expect("a schema is plain data");
    schema["properties"]["apiVersion"] = json!({"type": "string"});
    schema["properties"]["kind"] = json!({"type": "string"});
    if let Some(schema) = schema.as_object_mut() {
        strip(schema);
    }
    lines(&schema)
}

/// JSON on many lines, so that two changes of the types meet in no line but their own.
fn lines(value: &Value) -> String {
    let mut text = Vec::new();
    let narrow = PrettyFormatter::with_indent(b" ");
    value
        .serialize(&mut Serializer::with_formatter(&mut text, narrow))
        .expect("a schema is plain data");
    text.push(b'\n');
    String::from_utf8(text).expect("JSON is text")
}

fn strip(schema: &mut Map<String, Value>) {
    for word in
        ["$schema", "title", "description", "default", "nullable", "x-kubernetes-validations"]
    {
        schema.remove(word);
    }
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        properties.values_mut().filter_map(Value::as_object_mut).for_each(strip);
    }
    for word in ["items", "additionalProperties"] {
        if let Some(inner) = schema.get_mut(word).and_then(Value::as_object_mut) {
            strip(inner);
        }
    }
}
