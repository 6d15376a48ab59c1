//! The generated files are those that the types make, and the API server takes the definition.

use std::sync::LazyLock;

use quorate_api::{crd, generated_files};
use serde_json::Value;

/// Making it takes a while without optimization.
static CRD: LazyLock<Value> =
    LazyLock::new(|| serde_json::to_value(crd()).expect("a definition is plain data"));

/// `INSTA_UPDATE=always` writes the files, as it does for golden ones.
#[test]
fn the_checked_in_files_are_current() {
    for file in generated_files() {
        let path = format!("{}/../../{}", env!("CARGO_MANIFEST_DIR"), file.path);
        if std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always") {
            std::fs::write(&path, &file.content).unwrap();
        }
        let found = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(found == file.content, "{path} is old: run `cargo xtask crd`");
    }
}

#[test]
fn the_definition_fits_into_an_object_of_the_api_server() {
    let bytes = CRD.to_string().len();
    assert!(bytes < 1024 * 1024, "{bytes} bytes; etcd takes 1.5 MiB with all that is around it");
}

#[test]
fn the_definition_has_names_columns_and_subresources() {
    let crd: &Value = &CRD;
    assert_eq!(crd["spec"]["names"]["shortNames"], serde_json::json!(["mc"]));
    assert_eq!(crd["spec"]["names"]["categories"], serde_json::json!(["all"]));
    let version = &crd["spec"]["versions"][0];
    assert_eq!(version["subresources"]["scale"]["specReplicasPath"], ".spec.size");
    let columns: Vec<_> = version["additionalPrinterColumns"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| &c["name"])
        .collect();
    assert_eq!(columns, ["Size", "Online", "State", "Jobs", "Age"]);
}

/// The API server takes a rule's field path only where the schema has that field.
#[test]
fn rules_point_at_fields_that_are_there() {
    fn walk(schema: &Value, bad: &mut Vec<String>) {
        for rule in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
            assert!(rule["message"].is_string(), "{rule}");
            let Some(path) = rule["fieldPath"].as_str() else { continue };
            let pointer = path.replace('.', "/properties/");
            if schema.pointer(&pointer).is_none() {
                bad.push(path.to_owned());
            }
        }
        let properties = schema["properties"].as_object();
        properties.into_iter().flatten().for_each(|(_, inner)| walk(inner, bad));
        if schema["items"].is_object() {
            walk(&schema["items"], bad);
        }
    }
    let crd: &Value = &CRD;
    let mut bad = Vec::new();
    walk(&crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"], &mut bad);
    assert_eq!(bad, [""; 0]);
}

/// What the API server refuses in a schema (KEP-1693 and its structural rules).
#[test]
fn the_schema_is_structural() {
    fn walk(schema: &Value, path: &str, bad: &mut Vec<String>) {
        let Some(object) = schema.as_object() else {
            return bad.push(format!("{path}: not an object"));
        };
        if !object.contains_key("type")
            && object.get("x-kubernetes-int-or-string") != Some(&Value::Bool(true))
            && object.get("x-kubernetes-preserve-unknown-fields") != Some(&Value::Bool(true))
        {
            bad.push(format!("{path}: no type"));
        }
        for word in ["$ref", "definitions", "oneOf", "anyOf", "allOf", "const", "uniqueItems"] {
            if object.contains_key(word) {
                bad.push(format!("{path}: {word}"));
            }
        }
        if object.contains_key("properties") && object.contains_key("additionalProperties") {
            bad.push(format!("{path}: properties and additionalProperties"));
        }
        if object.get("format").is_some_and(|f| f.as_str().unwrap().starts_with("uint")) {
            bad.push(format!("{path}: unsigned format"));
        }
        for (name, inner) in
            object.get("properties").and_then(Value::as_object).into_iter().flatten()
        {
            walk(inner, &format!("{path}.{name}"), bad);
        }
        if let Some(items) = object.get("items") {
            walk(items, &format!("{path}[]"), bad);
        }
        if let Some(inner) = object.get("additionalProperties") {
            walk(inner, &format!("{path}{{}}"), bad);
        }
    }
    let crd: &Value = &CRD;
    let mut bad = Vec::new();
    walk(&crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"], "", &mut bad);
    assert!(bad.is_empty(), "{bad:#?}");
}
