//! Holds a tree against the schema of the MiniCluster: unknown and missing fields, wrong types,
//! words that are none of an enumeration. Pod templates are part of the schema, so their fields are
//! checked as well.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use serde_json::{Map, Value};

use super::suggest;
use super::tree::Node;
use crate::finding::{FieldPath, Finding, Severity};

/// The whole object's schema, made by `crate::generated`.
static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    serde_json::from_str(include_str!("schema.json")).expect("the generated schema is JSON")
});

/// Everything about the structure that is wrong.
pub(super) fn check(root: &Node) -> Vec<Finding> {
    let mut findings = Vec::new();
    node(root, &SCHEMA, &FieldPath::default(), &mut findings);
    if root.get("status").is_some() {
        findings.push(
            Finding::warning(
                FieldPath::new("status"),
                "not read: it is written by the control plane",
            )
            .hint("leave it out"),
        );
    }
    findings
}

/// The fields to leave out before the rest is read. A missing field refuses the item around it.
pub(super) fn refused(findings: &[Finding]) -> BTreeSet<FieldPath> {
    findings
        .iter()
        .filter(|finding| {
            finding.severity == Severity::Error || finding.path == FieldPath::new("status")
        })
        .filter_map(|finding| match finding.message.as_str() {
            MISSING => finding.path.parent(),
            _ => Some(finding.path.clone()),
        })
        .collect()
}

const MISSING: &str = "missing";

fn node(node: &Node, schema: &Value, path: &FieldPath, findings: &mut Vec<Finding>) {
    if node.is_null() {
        return;
    }
    if schema.get("x-kubernetes-int-or-string") == Some(&Value::Bool(true)) {
        return int_or_string(node, path, findings);
    }
    match schema.get("type").and_then(Value::as_str) {
        Some("object") => object(node, schema, path, findings),
        Some("array") => {
            let Some(items) = node.items() else {
                let hint = match node.entries() {
                    Some(_) => "put `- ` before the first field of each item".to_owned(),
                    None => "write it in brackets: `[...]`".to_owned(),
                };
                findings.push(wrong(node, path, "a list").hint(hint));
                return;
            };
            if let Some(most) = schema.get("maxItems").and_then(Value::as_u64)
                && items.len() as u64 > most
            {
                findings.push(
                    Finding::error(
                        path.clone(),
                        format!("{} items are more than {most}", items.len()),
                    )
                    .hint(format!("keep at most {most}")),
                );
            }
            if let Some(schema) = schema.get("items") {
                for (at, item) in items.iter().enumerate() {
                    self::node(item, schema, &path.index(at), findings);
                }
            }
        }
        Some("string") => string(node, schema, path, findings),
        Some("integer") => integer(node, schema, path, findings),
        Some("number") if !node.scalar().is_some_and(Value::is_number) => {
            findings.push(wrong(node, path, "a number").hint("write a number without quotes"));
        }
        Some("boolean") if !node.scalar().is_some_and(Value::is_boolean) => {
            findings.push(
                wrong(node, path, "true or false").hint("write `true` or `false` without quotes"),
            );
        }
        _ => {}
    }
}

fn object(node: &Node, schema: &Value, path: &FieldPath, findings: &mut Vec<Finding>) {
    let Some(entries) = node.entries() else {
        let hint =
            match schema.get("properties").and_then(Value::as_object).and_then(|p| p.keys().next())
            {
                Some(first) => format!("write fields below it, such as `{first}`"),
                None => "write `name: value` lines below it".to_owned(),
            };
        findings.push(wrong(node, path, "an object").hint(hint));
        return;
    };
    let properties = schema.get("properties").and_then(Value::as_object);
    let additional = schema.get("additionalProperties").filter(|schema| schema.is_object());
    let open = schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true));
    for entry in entries {
        let path = path.key(&entry.key);
        if let Some(schema) = properties.and_then(|p| p.get(&entry.key)).or(additional) {
            self::node(&entry.value, schema, &path, findings);
        } else if let Some(properties) = properties
            && !open
        {
            findings.push(unknown(&path, &entry.key, properties));
        }
    }
    for required in schema.get("required").and_then(Value::as_array).into_iter().flatten() {
        let Some(required) = required.as_str() else { continue };
        let there = entries.iter().any(|entry| entry.key == required && !entry.value.is_null());
        if !there {
            findings.push(
                Finding::error(path.key(required), MISSING).hint(format!("add `{required}`")),
            );
        }
    }
}

fn unknown(path: &FieldPath, key: &str, known: &Map<String, Value>) -> Finding {
    let meant =
        |name: &str| Finding::error(path.clone(), format!("unknown field; did you mean `{name}`?"));
    if let Some(name) = suggest::nearest(key, known.keys().map(String::as_str)) {
        return meant(name);
    }
    if let Some(place) = suggest::elsewhere(&SCHEMA, key) {
        return Finding::error(path.clone(), "unknown field")
            .hint(format!("it belongs to {place}"));
    }
    match suggest::deeper(key, known) {
        Some(name) => meant(&name),
        None => Finding::error(path.clone(), "unknown field").hint("take it out"),
    }
}

fn wrong(node: &Node, path: &FieldPath, wanted: &str) -> Finding {
    Finding::error(path.clone(), format!("{} where {wanted} is wanted", node.kind()))
}

fn string(node: &Node, schema: &Value, path: &FieldPath, findings: &mut Vec<Finding>) {
    let Some(text) = node.as_str() else {
        let hint = match node.scalar() {
            Some(Value::Bool(_)) => "put it into quotes: without, YAML reads it as true or false",
            Some(_) => "put it into quotes",
            None => "write one text",
        };
        findings.push(wrong(node, path, "a text").hint(hint));
        return;
    };
    let words = schema.get("enum").and_then(Value::as_array);
    if let Some(words) = words
        && !words.iter().any(|word| word == text)
    {
        let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
        let finding =
            Finding::error(path.clone(), format!("`{text}` is none of {}", words.join(", ")));
        findings.push(match suggest::nearest(text, words.iter().copied()) {
            Some(word) => finding.hint(format!("did you mean `{word}`?")),
            None => finding.hint("take one of them"),
        });
    }
}

fn integer(node: &Node, schema: &Value, path: &FieldPath, findings: &mut Vec<Finding>) {
    let Some(number) = node.scalar().and_then(Value::as_i64) else {
        let hint = if node.as_str() == Some("auto") {
            "leave it out: that is what auto means"
        } else {
            "write a whole number without quotes"
        };
        findings.push(wrong(node, path, "a whole number").hint(hint));
        return;
    };
    if schema.get("format").and_then(Value::as_str) == Some("int32")
        && i32::try_from(number).is_err()
    {
        findings.push(
            Finding::error(path.clone(), format!("{number} is out of range"))
                .hint(format!("take a number up to {}", i32::MAX)),
        );
    }
}

fn int_or_string(node: &Node, path: &FieldPath, findings: &mut Vec<Finding>) {
    match node.scalar() {
        Some(Value::String(_)) => {}
        Some(Value::Number(number)) if !number.is_f64() => {}
        _ => findings.push(
            wrong(node, path, "a text or a whole number")
                .hint("put it into quotes, as in `\"0.5\"`"),
        ),
    }
}
