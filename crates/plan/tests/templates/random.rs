//! Random pod templates out of the definition's own schema, made valid where the rules of a
//! MiniCluster forbid what the schema allows.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

static TEMPLATE: LazyLock<Value> = LazyLock::new(|| {
    let definition = serde_json::to_value(quorate_api::crd()).expect("plain data");
    definition
        .pointer("/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/template")
        .expect("the definition has a template")
        .clone()
});

/// Whether a template stands alone or is laid over another.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Role {
    Whole,
    Overlay,
}

/// The fields of a pod.
pub(crate) fn pod_fields() -> Vec<String> {
    let pod = TEMPLATE.pointer("/properties/spec/properties").and_then(Value::as_object);
    pod.expect("a pod has fields").keys().cloned().collect()
}

/// SplitMix64 (Steele, Lea, Flood 2014) over the schema.
pub(crate) struct Generator {
    state: u64,
}

impl Generator {
    pub(crate) fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    pub(crate) fn template(&mut self, role: Role) -> Value {
        let schema: &Value = &TEMPLATE;
        let mut template = self.value(schema, 0);
        if !template["spec"].is_object() {
            template["spec"] = json!({});
        }
        let pod = template["spec"].as_object_mut().expect("it was just made one");
        self.repair(pod, role);
        template
    }

    fn value(&mut self, schema: &Value, depth: u64) -> Value {
        if schema["x-kubernetes-int-or-string"] == true {
            return match self.below(2) {
                0 => json!(self.below(1000)),
                _ => json!(format!("{}Mi", self.below(1000))),
            };
        }
        match schema["type"].as_str() {
            Some("object") if schema["properties"].is_object() => self.object(schema, depth),
            Some("object") => {
                let values = &schema["additionalProperties"];
                let entries =
                    (0..self.below(3)).map(|n| (format!("key-{n}"), self.value(values, depth + 1)));
                Value::Object(entries.collect::<Map<_, _>>())
            }
            Some("array") => {
                (0..=self.below(2)).map(|_| self.value(&schema["items"], depth + 1)).collect()
            }
            Some("integer") => json!(self.below(100)),
            Some("number") => json!(self.below(100) as f64),
            Some("boolean") => json!(self.below(2) == 0),
            _ if schema["format"] == "date-time" => json!("2026-01-01T00:00:00Z"),
            _ => json!(format!("w{}", self.below(50))),
        }
    }

    fn object(&mut self, schema: &Value, depth: u64) -> Value {
        let mut object = Map::new();
        let required: Vec<&str> =
            schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
            // The deeper, the rarer, or the templates would be as large as the schema.
            if required.contains(&name.as_str()) || self.below(3 + depth) < 2 {
                object.insert(name.clone(), self.value(inner, depth + 1));
            }
        }
        Value::Object(object)
    }

    /// Makes the pod one that the rules take.
    fn repair(&mut self, pod: &mut Map<String, Value>, role: Role) {
        for field in ["hostname", "restartPolicy", "subdomain"] {
            pod.remove(field);
        }
        let prefix = if role == Role::Whole { "base" } else { "over" };
        let mut volumes = Vec::new();
        for (at, volume) in items(pod, "volumes").enumerate() {
            let name = format!("{prefix}-volume-{at}");
            volume["name"] = json!(name);
            volumes.push(name);
        }
        if role == Role::Whole && !pod.contains_key("containers") {
            pod.insert("containers".into(), json!([{}]));
        }
        // The main container is the one of that name or the first; overlays may meet it.
        let main = self.below(3) as usize;
        for list in ["containers", "initContainers"] {
            let is_main =
                |at: usize, count: usize| list == "containers" && at == main.min(count - 1);
            let count = items(pod, list).count();
            for (at, container) in items(pod, list).enumerate() {
                let name = match (is_main(at, count), list) {
                    (true, _) => "main".to_owned(),
                    (false, "containers") => format!("{prefix}-container-{at}"),
                    (false, _) => format!("{prefix}-init-{at}"),
                };
                container["name"] = json!(name);
                self.repair_container(container, &volumes, name == "main");
                // An overlay may leave the main container's image as it is.
                if role == Role::Whole || name != "main" {
                    container["image"] = json!("app");
                }
            }
        }
    }

    fn repair_container(&mut self, container: &mut Value, volumes: &[String], main: bool) {
        let Some(container) = container.as_object_mut() else { return };
        if main {
            for field in ["command", "args", "readinessProbe", "terminationMessagePath"] {
                container.remove(field);
            }
        }
        for (at, variable) in items(container, "env").enumerate() {
            variable["name"] = json!(format!("VARIABLE_{at}"));
            if variable["valueFrom"].is_object() {
                variable.as_object_mut().expect("a variable is an object").remove("value");
            }
        }
        for (list, place) in [("volumeMounts", "mountPath"), ("volumeDevices", "devicePath")] {
            if volumes.is_empty() {
                container.remove(list);
            }
            for (at, mount) in items(container, list).enumerate() {
                let volume = self.below(volumes.len() as u64) as usize;
                mount["name"] = json!(volumes[volume]);
                mount[place] = json!(format!("/mnt/{at}"));
            }
        }
        for (at, port) in items(container, "ports").enumerate() {
            port["containerPort"] = json!(8000 + at);
        }
    }
}

fn items<'a>(
    object: &'a mut Map<String, Value>,
    list: &str,
) -> impl Iterator<Item = &'a mut Value> {
    object.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten()
}
