//! The environment of a container: the caller's variables, then the container's own, with values
//! from the downward API and from planned Secrets.

use super::volumes::{TEMPORARY_DIR, TEMPORARY_VARIABLE, has_own_temporary};
use super::{Build, COMPLETION_INDEX, HOST_NAME, PodError};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Container, EnvVar};
use quorate_api::jobset::label;
use quorate_contract::env as names;
use std::collections::BTreeMap;

impl Build<'_> {
    /// The caller's variables, then the container's in order: later ones win.
    pub(super) fn environment(
        &self,
        container: &Container,
    ) -> Result<Vec<(String, String)>, PodError> {
        let mut env: Vec<(String, String)> = Vec::new();
        let mut set = |name: &str, value: String| match env.iter_mut().find(|(n, _)| n == name) {
            Some(entry) => entry.1 = value,
            None => env.push((name.to_owned(), value)),
        };
        for (name, value) in &self.objects.environment {
            set(name, value.clone());
        }
        let id = &self.facts.id;
        set(HOST_NAME, format!("{}-{}-{}-{}", self.objects.name(), id.group, id.job, id.index));
        set(names::INDEX, id.index.to_string());
        if has_own_temporary(container) {
            set(TEMPORARY_VARIABLE, TEMPORARY_DIR.to_owned());
        }
        for source in container.env_from.iter().flatten() {
            let prefix = source.prefix.as_deref().unwrap_or_default();
            if let Some(r) = &source.config_map_ref {
                absent(&r.name, r.optional).map_err(|why| self.variable(prefix, why))?;
            }
            if let Some(r) = &source.secret_ref {
                let data = self.secret_data(&r.name).map_err(|why| self.variable(prefix, why));
                for (key, bytes) in optional(data, r.optional)? {
                    set(&format!("{prefix}{key}"), text(&bytes));
                }
            }
        }
        for variable in container.env.iter().flatten() {
            if let Some(value) = self.value(container, variable)? {
                let value = expand(&value, &env_lookup(&env));
                match env.iter_mut().find(|(n, _)| *n == variable.name) {
                    Some(entry) => entry.1 = value,
                    None => env.push((variable.name.clone(), value)),
                }
            }
        }
        Ok(env)
    }

    fn variable(&self, name: &str, why: String) -> PodError {
        PodError::Variable { group: self.facts.id.group.clone(), variable: name.to_owned(), why }
    }

    fn value(&self, container: &Container, v: &EnvVar) -> Result<Option<String>, PodError> {
        let Some(from) = &v.value_from else {
            return Ok(Some(v.value.clone().unwrap_or_default()));
        };
        let failed = |why| self.variable(&v.name, why);
        if let Some(field) = &from.field_ref {
            return self.field(&field.field_path).map(Some).map_err(failed);
        }
        if let Some(key) = &from.config_map_key_ref {
            return absent(&key.name, key.optional).map(|()| None).map_err(failed);
        }
        if let Some(key) = &from.secret_key_ref {
            let found = self.secret_data(&key.name).and_then(|data| pick(&data, &key.key));
            return optional_value(found, key.optional).map_err(failed);
        }
        if let Some(resource) = &from.resource_field_ref {
            let value = resource_value(container, &resource.resource);
            return value.map(Some).map_err(failed);
        }
        Err(failed("its source is not known here".into()))
    }

    /// A downward-API field (core/v1 ObjectFieldSelector).
    pub(super) fn field(&self, path: &str) -> Result<String, String> {
        let facts = self.facts;
        let in_map = |prefix: &str, map: &BTreeMap<String, String>| {
            let key = path.strip_prefix(prefix)?.strip_suffix("']")?;
            Some(map.get(key).cloned().unwrap_or_default())
        };
        Ok(match path {
            "metadata.name" => facts.name.clone(),
            "metadata.namespace" => self.objects.namespace().to_owned(),
            "metadata.uid" => facts.uid.clone(),
            "spec.nodeName" => self.objects.node.clone(),
            "spec.serviceAccountName" => {
                self.spec.service_account_name.clone().unwrap_or_else(|| "default".into())
            }
            "status.podIP" | "status.podIPs" => facts.ip.to_string(),
            "status.hostIP" | "status.hostIPs" => "127.0.0.1".into(),
            _ => in_map("metadata.labels['", &self.labels())
                .or_else(|| in_map("metadata.annotations['", &self.annotations()))
                .ok_or_else(|| format!("field {path} is not known"))?,
        })
    }

    fn labels(&self) -> BTreeMap<String, String> {
        let metadata = self.template.metadata.as_ref();
        let mut labels = metadata.and_then(|m| m.labels.clone()).unwrap_or_default();
        let id = &self.facts.id;
        labels.extend([
            (label::JOBSET_NAME.to_owned(), self.objects.name().to_owned()),
            (
                label::JOBSET_UID.to_owned(),
                self.objects.jobset.metadata.uid.clone().unwrap_or_default(),
            ),
            (label::REPLICATED_JOB.to_owned(), id.group.clone()),
            (label::RESTART_ATTEMPT.to_owned(), id.attempt.to_string()),
            (label::JOB_INDEX.to_owned(), id.job.to_string()),
            (COMPLETION_INDEX.to_owned(), id.index.to_string()),
        ]);
        labels
    }

    fn annotations(&self) -> BTreeMap<String, String> {
        let metadata = self.template.metadata.as_ref();
        let mut annotations = metadata.and_then(|m| m.annotations.clone()).unwrap_or_default();
        annotations.insert(COMPLETION_INDEX.to_owned(), self.facts.id.index.to_string());
        annotations
    }

    pub(super) fn secret_data(&self, name: &str) -> Result<BTreeMap<String, Vec<u8>>, String> {
        let secret = self
            .objects
            .secrets
            .iter()
            .find(|secret| secret.metadata.name.as_deref() == Some(name))
            .ok_or_else(|| format!("Secret {name} exists in a Kubernetes cluster only"))?;
        let binary = secret.data.iter().flatten().map(|(k, ByteString(v))| (k.clone(), v.clone()));
        let plain =
            secret.string_data.iter().flatten().map(|(k, v)| (k.clone(), v.clone().into_bytes()));
        Ok(binary.chain(plain).collect())
    }
}

/// No ConfigMap is planned: what a template refers to are the user's own, in a cluster. One that is optional
/// has nothing in it here.
pub(super) fn absent(config_map: &str, optional: Option<bool>) -> Result<(), String> {
    match optional {
        Some(true) => Ok(()),
        _ => Err(format!("ConfigMap {config_map} exists in a Kubernetes cluster only")),
    }
}

pub(super) fn optional<E>(
    data: Result<BTreeMap<String, Vec<u8>>, E>,
    optional: Option<bool>,
) -> Result<BTreeMap<String, Vec<u8>>, E> {
    match data {
        Err(_) if optional == Some(true) => Ok(BTreeMap::new()),
        other => other,
    }
}

fn optional_value(
    found: Result<String, String>,
    optional: Option<bool>,
) -> Result<Option<String>, String> {
    match found {
        Err(_) if optional == Some(true) => Ok(None),
        other => other.map(Some),
    }
}

fn pick(data: &BTreeMap<String, Vec<u8>>, key: &str) -> Result<String, String> {
    data.get(key).map(|bytes| text(bytes)).ok_or_else(|| format!("key {key} is missing"))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A container's own limit or request; there is no enforcement here, so without one the value is
/// unknown and not this machine's.
fn resource_value(container: &Container, resource: &str) -> Result<String, String> {
    let resources = container.resources.as_ref();
    let (map, name) = if let Some(name) = resource.strip_prefix("limits.") {
        (resources.and_then(|r| r.limits.as_ref()), name)
    } else if let Some(name) = resource.strip_prefix("requests.") {
        (resources.and_then(|r| r.requests.as_ref()), name)
    } else {
        return Err(format!("resource {resource} is not known"));
    };
    map.and_then(|m| m.get(name))
        .map(|q| q.0.clone())
        .ok_or_else(|| format!("the container has no {resource}"))
}

fn env_lookup(env: &[(String, String)]) -> impl Fn(&str) -> Option<String> + '_ {
    |name| env.iter().rev().find(|(n, _)| n == name).map(|(_, v)| v.clone())
}

/// `$(NAME)` in values, `$$` for a dollar (core/v1 EnvVar).
fn expand(value: &str, lookup: &dyn Fn(&str) -> Option<String>) -> String {
    let mut out = String::new();
    let mut rest = value;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        if let Some(after) = rest.strip_prefix("$$") {
            out.push('$');
            rest = after;
        } else if let Some(after) = rest.strip_prefix("$(")
            && let Some(end) = after.find(')')
        {
            match lookup(&after[..end]) {
                Some(value) => out.push_str(&value),
                None => out.push_str(&rest[..end + 3]),
            }
            rest = &after[end + 1..];
        } else {
            out.push('$');
            rest = &rest[1..];
        }
    }
    out + rest
}
