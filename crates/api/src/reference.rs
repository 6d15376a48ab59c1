//! The reference of MiniCluster for people, made of the definition, so that it cannot say anything
//! else than what the API server enforces.

use serde_json::{Map, Value};
use std::fmt::Write as _;

/// Fields whose schema is Kubernetes' own: what they are called there, and where that is described.
const FOREIGN: &[(&str, &str, &str)] = &[
    ("template", "PodTemplateSpec", "workload-resources/pod-template-v1"),
    ("env", "[]EnvVar", "workload-resources/pod-v1/#environment-variables"),
    ("resources", "ResourceRequirements", "workload-resources/pod-v1/#resources"),
    ("conditions", "[]Condition", "common-definitions/condition"),
];
const KUBERNETES: &str = "https://kubernetes.io/docs/reference/kubernetes-api";

/// The page as Markdown.
pub(crate) fn page(definition: &Value) -> String {
    let version = &definition["spec"]["versions"][0];
    let schema = &version["schema"]["openAPIV3Schema"];
    let mut page = format!(
        "# MiniCluster\n\n\
         `apiVersion: {}/{}`, `kind: MiniCluster`, short name `mc`. {}\n\n\
         Made of the types by `cargo xtask crd`; change those instead. What is written here is what the API server and `quorate validate`\n\
         enforce; an unknown field is refused.\n",
        text(&definition["spec"]["group"]),
        text(&version["name"]),
        text(&schema["description"]),
    );
    // Deepest last, each object once, in the order in which a reader meets them.
    let mut todo = vec![("spec".to_owned(), &schema["properties"]["spec"])];
    todo.push(("status".to_owned(), &schema["properties"]["status"]));
    todo.reverse();
    while let Some((path, schema)) = todo.pop() {
        let mut inner = section(&mut page, &path, schema);
        inner.reverse();
        todo.append(&mut inner);
    }
    rules(&mut page, schema);
    page
}

/// One object: its fields in a table. Answers the objects in it.
fn section<'a>(page: &mut String, path: &str, schema: &'a Value) -> Vec<(String, &'a Value)> {
    let _ = write!(page, "\n## {path}\n\n{}\n\n", flat(&schema["description"]));
    page.push_str("| field | type | default | meaning |\n| --- | --- | --- | --- |\n");
    let required = schema["required"].as_array();
    let mut inner = Vec::new();
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let must = required.is_some_and(|list| list.iter().any(|item| item == name));
        let (kind, object) = kind(name, field);
        let default = match (&field["default"], must) {
            (_, true) => "required".to_owned(),
            // Defaults of an object are those of its fields.
            (Value::Null | Value::Object(_), false) => "–".to_owned(),
            (value, false) => format!("`{value}`"),
        };
        let meaning = flat(&field["description"]).replace('|', "\\|");
        let limits = limits(field);
        let _ = writeln!(page, "| `{name}` | {kind} | {default} | {meaning}{limits} |");
        if let Some((suffix, object)) = object {
            inner.push((format!("{path}.{name}{suffix}"), object));
        }
    }
    inner
}

/// What a field is called, and the object in it that is described in a section of its own: the
/// suffix of that section's path and its schema.
fn kind<'a>(name: &str, field: &'a Value) -> (String, Option<(&'static str, &'a Value)>) {
    if let Some((_, kind, page)) =
        FOREIGN.iter().find(|(foreign, ..)| is_foreign(foreign, name, field))
    {
        return (format!("[{kind}]({KUBERNETES}/{page})"), None);
    }
    if let Some(values) = field["enum"].as_array() {
        let words = values.iter().filter_map(Value::as_str).map(|word| format!("`{word}`"));
        return (words.collect::<Vec<_>>().join(", "), None);
    }
    match (text(&field["type"]), text(&field["format"])) {
        ("array", _) => {
            let items = &field["items"];
            if items["properties"].is_object() {
                return ("list of objects".to_owned(), Some(("[]", items)));
            }
            (format!("list of {}s", text(&items["type"])), None)
        }
        ("object", _) if field["properties"].is_object() => {
            ("object".to_owned(), Some(("", field)))
        }
        ("string", "date-time") => ("time".to_owned(), None),
        (kind, _) => (kind.to_owned(), None),
    }
}

/// `env` of a program is a list of our own, with plain values.
fn is_foreign(foreign: &str, name: &str, field: &Value) -> bool {
    let plain = name == "env" && field["items"]["properties"]["valueFrom"].is_null();
    foreign == name && !plain
}

/// Bounds and patterns, as a last sentence.
fn limits(field: &Value) -> String {
    let number = |word: &str| field[word].as_f64().map(|bound| format!("{bound}"));
    let range = match (number("minimum"), number("maximum")) {
        (Some(least), Some(most)) => format!(" {least} to {most}."),
        (Some(least), None) => format!(" {least} or more."),
        (None, Some(most)) => format!(" At most {most}."),
        (None, None) => String::new(),
    };
    let long = field["maxLength"].as_u64().map(|most| format!(" At most {most} characters."));
    let many = field["maxItems"].as_u64().map(|most| format!(" At most {most}."));
    range + &long.unwrap_or_default() + &many.unwrap_or_default()
}

/// The rules beyond types and bounds, by what they say when they are broken.
fn rules(page: &mut String, schema: &Value) {
    page.push_str(
        "\n## Rules\n\nAn object that breaks one of these is refused with its words, and with the figures where there are any.\n\n",
    );
    let mut said = Vec::new();
    collect(schema, &mut said);
    for message in said {
        let _ = writeln!(page, "- {message}");
    }
}

fn collect<'a>(schema: &'a Value, said: &mut Vec<&'a str>) {
    for rule in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
        if let Some(message) = rule["message"].as_str().filter(|message| !said.contains(message)) {
            said.push(message);
        }
    }
    for field in schema["properties"].as_object().into_iter().flat_map(Map::values) {
        collect(field, said);
    }
    if schema["items"].is_object() {
        collect(&schema["items"], said);
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// A description in one line.
fn flat(description: &Value) -> String {
    text(description).split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use crate::generated_files;

    fn page() -> String {
        let files = generated_files();
        let page = files.iter().find(|file| file.path.ends_with("reference/minicluster.md"));
        page.unwrap().content.clone()
    }

    #[test]
    fn every_part_of_the_spec_has_a_section_and_foreign_types_have_a_link() {
        let page = page();
        for section in
            ["spec", "spec.groups[]", "spec.program.parallel", "spec.bootstrap", "status"]
        {
            assert!(page.contains(&format!("\n## {section}\n")), "{section} is missing");
        }
        assert!(!page.contains("## spec.template"), "Kubernetes describes its own types");
        assert!(page.contains("[PodTemplateSpec](https://kubernetes.io/"));
    }

    #[test]
    fn bounds_and_rules_are_said() {
        let page = page();
        assert!(page.contains("| `port` | integer | `8117` |"), "{page}");
        assert!(
            page.contains(
                "- minSize is more than size: set minSize to at most size, or raise size\n"
            )
        );
    }
}
