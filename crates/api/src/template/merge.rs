//! Lays one pod template over another, as `kubectl patch` of the strategic kind does.
//!
//! Objects are merged field by field. Lists whose items have a key are merged by it: an item of the
//! overlay meets the one with its key, in place, and new ones go to the end. Variables and volumes
//! are replaced as a whole, since half of one source and half of another is not a source.
//! Tolerations and `envFrom` are added. Other lists (command lines, capabilities) are replaced.
//! Nothing of the lower template is lost unless the overlay names it, and nothing changes its order.

use k8s_openapi::api::core::v1::{Container, PodSpec, PodTemplateSpec};
use serde_json::{Map, Value};

use super::{MAIN, main_container};
use crate::minicluster::MiniClusterSpec;

/// How the lists of one field meet.
#[derive(Clone, Copy)]
enum Lists {
    /// Items with equal values of these fields are merged.
    ByKey(&'static [&'static str]),
    /// Items with an equal value of this field are replaced.
    ReplaceByKey(&'static str),
    /// Items of the overlay that are not there yet are added.
    Append,
    /// The overlay's list is taken.
    Replace,
}

/// The keys follow the merge keys of core/v1, except that ports are told apart by protocol too and
/// tolerations are added.
fn lists_of(field: &str) -> Lists {
    match field {
        "containers"
        | "initContainers"
        | "ephemeralContainers"
        | "imagePullSecrets"
        | "resourceClaims"
        | "schedulingGates"
        | "claims" => Lists::ByKey(&["name"]),
        "volumeMounts" => Lists::ByKey(&["mountPath"]),
        "volumeDevices" => Lists::ByKey(&["devicePath"]),
        "ports" => Lists::ByKey(&["containerPort", "protocol"]),
        "hostAliases" => Lists::ByKey(&["ip"]),
        "topologySpreadConstraints" => Lists::ByKey(&["topologyKey", "whenUnsatisfiable"]),
        "env" | "volumes" => Lists::ReplaceByKey("name"),
        "tolerations" | "envFrom" => Lists::Append,
        _ => Lists::Replace,
    }
}

/// The template of all pods: `spec.template` with the shorthand laid over its main container.
pub fn base(spec: &MiniClusterSpec) -> PodTemplateSpec {
    let mut template = spec.template.clone().unwrap_or_default();
    let pod = template.spec.get_or_insert_with(PodSpec::default);
    if pod.containers.is_empty() {
        pod.containers.push(Container { name: MAIN.to_owned(), ..Container::default() });
    }
    let main = main_container(&pod.containers).expect("one container was just made sure of");
    let shorthand = PodTemplateSpec {
        spec: Some(PodSpec {
            containers: vec![Container {
                name: pod.containers[main].name.clone(),
                image: spec.image.clone(),
                env: (!spec.env.is_empty()).then(|| spec.env.clone()),
                resources: spec.resources.clone(),
                working_dir: spec.working_dir.clone(),
                ..Container::default()
            }],
            ..PodSpec::default()
        }),
        ..PodTemplateSpec::default()
    };
    overlay(&template, &shorthand)
}

/// `upper` laid over `lower`.
pub fn overlay(lower: &PodTemplateSpec, upper: &PodTemplateSpec) -> PodTemplateSpec {
    let mut value = serde_json::to_value(lower).expect("pod templates are plain data");
    let upper = serde_json::to_value(upper).expect("pod templates are plain data");
    merge(&mut value, upper, "");
    serde_json::from_value(value).expect("two pod templates merge into a pod template")
}

fn merge(lower: &mut Value, upper: Value, field: &str) {
    match (lower, upper) {
        (Value::Object(lower), Value::Object(upper)) => {
            for (key, value) in upper {
                match lower.get_mut(&key) {
                    Some(old) => merge(old, value, &key),
                    None => {
                        lower.insert(key, value);
                    }
                }
            }
        }
        (Value::Array(lower), Value::Array(upper)) => merge_lists(lower, upper, field),
        (lower, upper) => *lower = upper,
    }
}

fn merge_lists(lower: &mut Vec<Value>, upper: Vec<Value>, field: &str) {
    match lists_of(field) {
        Lists::Replace => *lower = upper,
        Lists::Append => {
            for item in upper {
                if !lower.contains(&item) {
                    lower.push(item);
                }
            }
        }
        Lists::ByKey(keys) => {
            for item in upper {
                match lower.iter_mut().find(|old| same(old, &item, keys)) {
                    Some(old) => merge(old, item, ""),
                    None => lower.push(item),
                }
            }
        }
        Lists::ReplaceByKey(key) => {
            for item in upper {
                match lower.iter_mut().find(|old| same(old, &item, &[key])) {
                    Some(old) => *old = item,
                    None => lower.push(item),
                }
            }
        }
    }
}

fn same(a: &Value, b: &Value, keys: &[&str]) -> bool {
    let (Value::Object(a), Value::Object(b)) = (a, b) else { return false };
    keys.iter().all(|key| key_value(a, key) == key_value(b, key))
}

/// A port without a protocol is a TCP port.
fn key_value<'a>(item: &'a Map<String, Value>, key: &str) -> Option<&'a Value> {
    static TCP: std::sync::LazyLock<Value> = std::sync::LazyLock::new(|| "TCP".into());
    match (item.get(key), key) {
        (None, "protocol") => Some(&TCP),
        (value, _) => value,
    }
}

#[cfg(test)]
mod tests;
