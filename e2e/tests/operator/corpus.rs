//! The API server is held to the same corpus as `quorate validate`, and to the plan's golden objects.

use crate::LAB;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use quorate_api::Target;
use quorate_plan::{Context, Delivery, Seed, plan};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::sync::LazyLock;

fn files(folder: &str) -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(folder);
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|kind| kind == "yaml"))
        .map(|path| {
            (
                path.file_name().unwrap().to_string_lossy().into_owned(),
                fs::read_to_string(&path).unwrap(),
            )
        })
        .collect();
    files.sort();
    assert!(!files.is_empty());
    files
}

/// The text behind `# key: ` in a file's head.
fn head<'a>(text: &'a str, key: &str) -> Vec<&'a str> {
    let prefix = format!("# {key}: ");
    text.lines().filter_map(|line| line.strip_prefix(prefix.as_str())).collect()
}

/// The namespace that some files name is made first.
static SPACES: LazyLock<()> = LazyLock::new(|| {
    LAB.kubectl(&["create", "namespace", "hpc"]).unwrap();
});

fn dry_run(text: &str) -> Result<String, String> {
    LazyLock::force(&SPACES);
    LAB.kubectl_with(&["create", "--dry-run=server", "-f", "-"], text)
}

#[test]
fn the_server_takes_every_good_file() {
    let refused: Vec<String> = files("crates/api/corpus/good")
        .iter()
        .filter(|(_, text)| head(text, "target") != ["local"])
        .filter_map(|(name, text)| dry_run(text).err().map(|error| format!("{name}: {error}")))
        .collect();
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}

/// The server names the field that `quorate validate` names first, and where the words are ours, says
/// the same, figures included. What the schema itself refuses has the server's own words.
#[test]
fn the_server_refuses_every_bad_file_for_the_reason_that_validate_gives() {
    let mut wrong = Vec::new();
    for (name, text) in files("crates/api/corpus/bad") {
        if text.lines().any(|line| line.starts_with("# server: ")) {
            continue;
        }
        match dry_run(&text) {
            Ok(_) => wrong.push(format!("{name}: accepted")),
            Err(error) => {
                let (messages, paths) = (head(&text, "message"), head(&text, "path"));
                if !agrees(&error, &paths, messages[0]) {
                    wrong.push(format!("{name}: wanted {messages:?} at {paths:?}, got {error}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn agrees(error: &str, paths: &[&str], message: &str) -> bool {
    // The decoder names unknown fields before anything is validated; a text where an object is wanted
    // is one with unknown fields to it.
    if error.contains("strict decoding error") {
        return paths.iter().any(|path| {
            let exactly = error.contains(&format!("unknown field \"{path}\""));
            exactly || error.contains(&format!("unknown field \"{path}."))
        });
    }
    // A rule cannot name a key of a map: it points to the map, and speaks of all such keys.
    let key = paths[0]
        .match_indices('[')
        .find(|(at, _)| !paths[0][at + 1..].starts_with(|next: char| next.is_ascii_digit()));
    let path = key.map_or(paths[0], |(at, _)| &paths[0][..at]);
    let said = error.lines().find_map(|line| line.split_once(&format!("{path}: ")));
    if path == "metadata.name" {
        // Metadata is not part of the schema: the rule names the field in its words.
        return error.contains(&format!("<nil>: Invalid value: metadata.name: {message}: "));
    }
    let Some((before, words)) = said else { return false };
    let whole = before.is_empty() || before.ends_with([' ', ':']);
    let of_the_schema = words.contains(" in body ")
        || ["Required value", "Duplicate value", "Unsupported value"]
            .iter()
            .any(|head| words.starts_with(head))
        || words.starts_with("Invalid value: \"");
    let ours = words.strip_prefix("Invalid value: ").is_some_and(|words| {
        key.is_some()
            || words == message
            || words.starts_with(&format!("{message}: "))
            || words.starts_with(&format!("{message}; "))
    });
    whole && (of_the_schema || ours)
}

/// What the server cannot know, the controller answers by a condition with the same words.
#[test]
fn the_controller_refuses_what_the_server_takes_with_the_words_of_validate() {
    const SPACE: &str = "corpus";
    LAB.kubectl(&["create", "namespace", SPACE]).unwrap();
    let mut asked = 0;
    for (name, text) in files("crates/api/corpus/bad") {
        if head(&text, "server") != ["accepts it; refused as Accepted=False"] {
            continue;
        }
        asked += 1;
        let message = head(&text, "message")[0];
        let arguments = ["-n", SPACE, "create", "-o", "name", "-f", "-"];
        let object = LAB
            .kubectl_with(&arguments, &text)
            .unwrap_or_else(|error| panic!("{name}: the server refuses it: {error}"));
        let template = "jsonpath={.status.conditions[?(@.type=='Accepted')]}";
        let ask = || LAB.kubectl(&["-n", SPACE, "get", &object, "-o", template]).unwrap();
        LAB.eventually(&name, ask, |condition| {
            condition.contains("\"False\"") && {
                let value: Value = serde_json::from_str(condition).unwrap();
                value["message"].as_str().unwrap().contains(message)
            }
        });
        LAB.kubectl(&["-n", SPACE, "delete", &object]).unwrap();
    }
    assert!(asked > 10, "{asked} files");
}

/// Neither the definition in the cluster nor our types drop anything that the plan asks for; JobSet's
/// webhook takes part.
#[test]
fn every_planned_object_is_taken_whole_by_the_real_api_server() {
    let mut wrong = Vec::new();
    for (name, text) in files("crates/plan/tests/golden") {
        let as_image = head(&text, "delivery") == ["image"];
        let context = Context {
            agent_image: "localhost/quorate-agent:v1".into(),
            agent_delivery: if as_image { Delivery::Image } else { Delivery::Copy },
            port_forward: true,
            cluster_domain: Some("cluster.local".into()),
        };
        let Ok(document) = quorate_api::load(&text, Target::Kubernetes) else {
            panic!("{name} is no MiniCluster");
        };
        let planned = plan(&document.validated, &context, &Seed::new([7; 32]));
        let policy =
            planned.network_policy.iter().map(|policy| serde_json::to_value(policy).unwrap());
        let mut objects = vec![
            serde_json::to_value(&planned.jobset).unwrap(),
            serde_json::to_value(&planned.secret).unwrap(),
        ];
        objects.extend(policy);
        for object in &mut objects {
            object["metadata"]["namespace"] = "default".into();
        }
        // One call for all of a cluster: kubectl answers one object after another in their order.
        let list = json!({ "apiVersion": "v1", "kind": "List", "items": objects });
        let arguments = ["create", "--dry-run=server", "-o", "json", "-f", "-"];
        match LAB.kubectl_with(&arguments, &list.to_string()) {
            Err(error) => wrong.push(format!("{name}: {error}")),
            Ok(answer) => {
                let answers: Result<Vec<Value>, _> =
                    serde_json::Deserializer::from_str(&answer).into_iter().collect();
                let answers = answers.unwrap();
                assert_eq!(answers.len(), objects.len(), "{name}");
                for (object, answer) in objects.iter_mut().zip(&answers) {
                    as_kept(object);
                    let kind = object["kind"].as_str().unwrap();
                    lost(object, answer, &format!("{name}: {kind}"), &mut wrong);
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Text of a Secret is taken from `stringData` and kept as `data` (core/v1).
fn as_kept(object: &mut Value) {
    let Some(texts) = object.as_object_mut().and_then(|object| object.remove("stringData")) else {
        return;
    };
    for (key, text) in texts.as_object().unwrap() {
        object["data"][key] = STANDARD.encode(text.as_str().unwrap()).into();
    }
}

/// What was asked for and is not in the answer.
fn lost(asked: &Value, answer: &Value, path: &str, wrong: &mut Vec<String>) {
    match (asked, answer) {
        (Value::Object(asked), Value::Object(answer)) => {
            for (key, value) in asked {
                let empty = value.is_null() || value == &Value::Array(Vec::new());
                match answer.get(key) {
                    Some(other) => lost(value, other, &format!("{path}.{key}"), wrong),
                    None if empty => {}
                    None => wrong.push(format!("{path}.{key} is gone")),
                }
            }
        }
        (Value::Array(asked), Value::Array(answer)) if asked.len() <= answer.len() => {
            for (index, (value, other)) in asked.iter().zip(answer).enumerate() {
                lost(value, other, &format!("{path}[{index}]"), wrong);
            }
        }
        (asked, answer) if asked == answer => {}
        (asked, answer) => wrong.push(format!("{path}: {asked} became {answer}")),
    }
}
