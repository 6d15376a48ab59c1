//! What a planned pod is on this machine: from the pod template of a JobSet to a process with
//! mounts, variables and a command, as a kubelet would read it.
//!
//! Pure: the caller's environment and directories come as data. What one machine cannot give (an
//! image, a volume of a cloud) is not imitated; [`crate::local`] warns of it beforehand, and a
//! volume that the main container really mounts is an error here.

use crate::player::PodId;
use crate::sandbox::{FileEntry, PodMount, Source};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{
    ConfigMap, Container, DownwardAPIVolumeFile, EnvVar, KeyToPath, PodSpec, PodTemplateSpec,
    Secret, Volume,
};
use quorate_api::jobset::{JobSet, label};
use quorate_contract::{env as names, paths};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

/// The label and annotation of the completion index (batch/v1).
const COMPLETION_INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// Set in every container by Kubernetes.
const HOST_NAME: &str = "HOSTNAME";
/// Where host names lead, as in a pod of Kubernetes.
const DOMAIN: &str = "cluster.local";
/// The grace period of a pod that names none (core/v1).
const DEFAULT_GRACE_SECONDS: i64 = 30;

/// Why a pod cannot be made here.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum PodError {
    /// The template has no container.
    #[error("replicated job {group} has no container")]
    NoContainer {
        /// The replicated job.
        group: String,
    },
    /// A volume of the main container needs something that only a cluster has.
    #[error("volume {volume} of {group} cannot be mounted on one machine: {why}")]
    Volume {
        /// The replicated job.
        group: String,
        /// The volume.
        volume: String,
        /// What is missing.
        why: String,
    },
    /// A variable of the main container needs something that only a cluster has.
    #[error("variable {variable} of {group} has no value on one machine: {why}")]
    Variable {
        /// The replicated job.
        group: String,
        /// The variable.
        variable: String,
        /// What is missing.
        why: String,
    },
}

/// The objects of a local cluster and what this machine adds to them.
#[derive(Clone, Debug)]
pub struct LocalObjects {
    /// The planned JobSet.
    pub jobset: JobSet,
    /// Planned ConfigMaps.
    pub config_maps: Vec<ConfigMap>,
    /// Planned Secrets.
    pub secrets: Vec<Secret>,
    /// This machine's name.
    pub node: String,
    /// The caller's variables: what an image's environment is elsewhere.
    pub environment: Vec<(String, String)>,
    /// The caller's directory: what an image's working directory is elsewhere.
    pub working_dir: PathBuf,
    /// The agent's binary on this machine.
    pub agent: PathBuf,
}

/// A pod's identity, made when it is created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodFacts {
    /// Which pod.
    pub id: PodId,
    /// Its name with the random suffix.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// Its address.
    pub ip: Ipv4Addr,
}

/// A pod ready to be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalPod {
    /// Program and arguments.
    pub argv: Vec<String>,
    /// The whole environment.
    pub env: Vec<(String, String)>,
    /// Where it starts.
    pub working_dir: PathBuf,
    /// What is mounted, parents before children.
    pub mounts: Vec<PodMount>,
    /// On-disk volumes (`emptyDir` without medium) that must exist before the pod starts.
    pub directories: Vec<PathBuf>,
    /// Seconds from SIGTERM to SIGKILL.
    pub grace_seconds: u64,
}

/// A pod's place in the cluster, known before it exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedHost {
    /// The replicated job, the Job's index and the completion index.
    pub group: String,
    /// The Job's index.
    pub job: u32,
    /// The completion index.
    pub index: u32,
    /// `<jobset>-<group>-<job>-<index>`.
    pub host_name: String,
    /// `<host>.<subdomain>`.
    pub service_name: String,
    /// `<host>.<subdomain>.<namespace>.svc.cluster.local`.
    pub full_name: String,
}

impl LocalObjects {
    /// The JobSet's name.
    pub fn name(&self) -> &str {
        self.jobset.metadata.name.as_deref().unwrap_or_default()
    }

    fn namespace(&self) -> &str {
        self.jobset.metadata.namespace.as_deref().unwrap_or("default")
    }

    fn subdomain(&self) -> &str {
        let network = self.jobset.spec.network.as_ref();
        network.and_then(|n| n.subdomain.as_deref()).unwrap_or(self.name())
    }

    /// All pods, in the order of global indices.
    pub fn hosts(&self) -> Vec<PlannedHost> {
        let mut hosts = Vec::new();
        for group in &self.jobset.spec.replicated_jobs {
            let spec = group.template.spec.as_ref();
            let pods = spec.and_then(|s| s.completions).unwrap_or(1);
            for job in 0..u32::try_from(group.replicas).unwrap_or(0) {
                for index in 0..u32::try_from(pods).unwrap_or(0) {
                    let host_name = format!("{}-{}-{job}-{index}", self.name(), group.name);
                    let service_name = format!("{host_name}.{}", self.subdomain());
                    let full_name = format!("{service_name}.{}.svc.{DOMAIN}", self.namespace());
                    hosts.push(PlannedHost {
                        group: group.name.clone(),
                        job,
                        index,
                        host_name,
                        service_name,
                        full_name,
                    });
                }
            }
        }
        hosts
    }

    /// `/etc/hosts` of every pod: all names of all pods.
    pub fn hosts_file(&self, address: impl Fn(usize) -> Ipv4Addr) -> String {
        let mut text = String::from("127.0.0.1 localhost\n::1 localhost\n");
        for (ordinal, host) in self.hosts().iter().enumerate() {
            let ip = address(ordinal);
            let PlannedHost { full_name, service_name, host_name, .. } = host;
            text.push_str(&format!("{ip} {full_name} {service_name} {host_name}\n"));
        }
        text
    }

    /// `/etc/resolv.conf` of every pod: the search list of Kubernetes, and no server, since all
    /// names are in the hosts file.
    pub fn resolver_file(&self) -> String {
        let ns = self.namespace();
        format!(
            "search {ns}.svc.{DOMAIN} svc.{DOMAIN} {DOMAIN}\noptions ndots:5 timeout:1 attempts:1\n"
        )
    }

    /// The pod template of a replicated job.
    pub fn template(&self, group: &str) -> Option<&PodTemplateSpec> {
        let group = self.jobset.spec.replicated_jobs.iter().find(|g| g.name == group)?;
        group.template.spec.as_ref().map(|job| &job.template)
    }

    /// Makes a pod of a template. `scratch` is where on-disk volumes of this pod live.
    pub fn pod(&self, facts: &PodFacts, scratch: &Path) -> Result<LocalPod, PodError> {
        let group = &facts.id.group;
        let no_container = || PodError::NoContainer { group: group.clone() };
        let template = self.template(group).ok_or_else(no_container)?;
        let spec = template.spec.as_ref().ok_or_else(no_container)?;
        let container = main_container(spec).ok_or_else(no_container)?;
        let build = Build { objects: self, facts, template, spec, scratch };
        let mut argv = container.command.clone().unwrap_or_default();
        argv.extend(container.args.clone().unwrap_or_default());
        let (mounts, directories) = build.mounts(container)?;
        Ok(LocalPod {
            argv,
            env: build.environment(container)?,
            working_dir: container
                .working_dir
                .as_ref()
                .map_or_else(|| self.working_dir.clone(), |dir| self.working_dir.join(dir)),
            mounts,
            directories,
            grace_seconds: u64::try_from(
                spec.termination_grace_period_seconds.unwrap_or(DEFAULT_GRACE_SECONDS),
            )
            .unwrap_or(0),
        })
    }
}

/// The container that the agent runs in: the one with the agent's command, else `main`, else the
/// first.
pub fn main_container(spec: &PodSpec) -> Option<&Container> {
    let is_agent =
        |c: &&Container| c.command.iter().flatten().next().is_some_and(|p| p == paths::AGENT);
    spec.containers
        .iter()
        .find(is_agent)
        .or_else(|| spec.containers.iter().find(|c| c.name == "main"))
        .or_else(|| spec.containers.first())
}

struct Build<'a> {
    objects: &'a LocalObjects,
    facts: &'a PodFacts,
    template: &'a PodTemplateSpec,
    spec: &'a PodSpec,
    scratch: &'a Path,
}

impl Build<'_> {
    /// The caller's variables, then the container's in order: later ones win.
    fn environment(&self, container: &Container) -> Result<Vec<(String, String)>, PodError> {
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
        for source in container.env_from.iter().flatten() {
            let prefix = source.prefix.as_deref().unwrap_or_default();
            if let Some(r) = &source.config_map_ref {
                let data = self.config_data(&r.name).map_err(|why| self.variable(prefix, why));
                for (key, bytes) in optional(data, r.optional)? {
                    set(&format!("{prefix}{key}"), text(&bytes));
                }
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
            let found = self.config_data(&key.name).and_then(|data| pick(&data, &key.key));
            return optional_value(found, key.optional).map_err(failed);
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
    fn field(&self, path: &str) -> Result<String, String> {
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

    fn config_data(&self, name: &str) -> Result<BTreeMap<String, Vec<u8>>, String> {
        let map = self
            .objects
            .config_maps
            .iter()
            .find(|map| map.metadata.name.as_deref() == Some(name))
            .ok_or_else(|| format!("ConfigMap {name} exists in a Kubernetes cluster only"))?;
        let plain = map.data.iter().flatten().map(|(k, v)| (k.clone(), v.clone().into_bytes()));
        let binary = map.binary_data.iter().flatten().map(|(k, v)| (k.clone(), v.0.clone()));
        Ok(plain.chain(binary).collect())
    }

    fn secret_data(&self, name: &str) -> Result<BTreeMap<String, Vec<u8>>, String> {
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

    fn mounts(&self, container: &Container) -> Result<(Vec<PodMount>, Vec<PathBuf>), PodError> {
        let mut mounts = Vec::new();
        let mut directories = Vec::new();
        for m in container.volume_mounts.iter().flatten() {
            let failed = |why: String| PodError::Volume {
                group: self.facts.id.group.clone(),
                volume: m.name.clone(),
                why,
            };
            let volume = self
                .spec
                .volumes
                .iter()
                .flatten()
                .find(|v| v.name == m.name)
                .ok_or_else(|| failed("it is not in the pod's volumes".into()))?;
            let mut source = self.source(volume, &mut directories).map_err(failed)?;
            if let Some(path) = m.sub_path.as_deref().filter(|p| !p.is_empty()) {
                source = match source {
                    Source::Host(dir) => {
                        directories.push(dir.join(path));
                        Source::Host(dir.join(path))
                    }
                    _ => return Err(failed("subPath works for directories only".into())),
                };
            }
            mounts.push(PodMount {
                path: PathBuf::from(&m.mount_path),
                source,
                read_only: m.read_only.unwrap_or(false),
            });
        }
        // The volume that the init container `install` fills elsewhere: here the binary of this
        // machine is bound into it, which costs no copy.
        if mounts.iter().any(|m| m.path == Path::new(paths::BIN_DIR)) {
            mounts.retain(|m| m.path != Path::new(paths::BIN_DIR));
            mounts.push(PodMount {
                path: PathBuf::from(paths::AGENT),
                source: Source::Host(self.objects.agent.clone()),
                read_only: true,
            });
        }
        mounts.sort_by_key(|m| m.path.components().count());
        Ok((mounts, directories))
    }

    fn source(&self, volume: &Volume, directories: &mut Vec<PathBuf>) -> Result<Source, String> {
        if let Some(empty) = &volume.empty_dir {
            return match empty.medium.as_deref() {
                Some("Memory") => {
                    let size = empty.size_limit.as_ref().map(|q| quantity_bytes(&q.0));
                    Ok(Source::Memory(size.transpose()?))
                }
                Some(huge) if huge.starts_with("HugePages") => {
                    Err("huge pages are not given out here".into())
                }
                _ => {
                    let dir = self.scratch.join(&volume.name);
                    directories.push(dir.clone());
                    Ok(Source::Host(dir))
                }
            };
        }
        if let Some(map) = &volume.config_map {
            let data = optional(self.config_data(&map.name), map.optional)?;
            return files(data, map.items.as_deref(), map.default_mode).map(Source::Files);
        }
        if let Some(secret) = &volume.secret {
            let name = secret.secret_name.as_deref().unwrap_or_default();
            let data = optional(self.secret_data(name), secret.optional)?;
            return files(data, secret.items.as_deref(), secret.default_mode).map(Source::Files);
        }
        if let Some(downward) = &volume.downward_api {
            return self
                .downward(downward.items.as_deref().unwrap_or_default(), downward.default_mode)
                .map(Source::Files);
        }
        if let Some(projected) = &volume.projected {
            let mut all = Vec::new();
            for source in projected.sources.iter().flatten() {
                if let Some(map) = &source.config_map {
                    let data = optional(self.config_data(&map.name), map.optional)?;
                    all.extend(files(data, map.items.as_deref(), projected.default_mode)?);
                } else if let Some(secret) = &source.secret {
                    let data = optional(self.secret_data(&secret.name), secret.optional)?;
                    all.extend(files(data, secret.items.as_deref(), projected.default_mode)?);
                } else if let Some(downward) = &source.downward_api {
                    let items = downward.items.as_deref().unwrap_or_default();
                    all.extend(self.downward(items, projected.default_mode)?);
                } else {
                    return Err("one of its projected sources needs a Kubernetes cluster".into());
                }
            }
            return Ok(Source::Files(all));
        }
        if let Some(host) = &volume.host_path {
            if matches!(host.type_.as_deref(), Some("DirectoryOrCreate" | "FileOrCreate")) {
                return Err("a hostPath is never created on this machine".into());
            }
            return Ok(Source::Host(PathBuf::from(&host.path)));
        }
        Err("its kind needs a Kubernetes cluster".into())
    }

    fn downward(
        &self,
        items: &[DownwardAPIVolumeFile],
        mode: Option<i32>,
    ) -> Result<Vec<FileEntry>, String> {
        items
            .iter()
            .map(|item| {
                let value = match &item.field_ref {
                    Some(field) => self.field(&field.field_path)?,
                    None => return Err(format!("file {} has no field", item.path)),
                };
                Ok(FileEntry {
                    path: PathBuf::from(&item.path),
                    bytes: value.into_bytes(),
                    mode: file_mode(item.mode.or(mode)),
                })
            })
            .collect()
    }
}

fn optional<E>(
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

fn files(
    data: BTreeMap<String, Vec<u8>>,
    items: Option<&[KeyToPath]>,
    mode: Option<i32>,
) -> Result<Vec<FileEntry>, String> {
    let Some(items) = items.filter(|items| !items.is_empty()) else {
        return Ok(data
            .into_iter()
            .map(|(key, bytes)| FileEntry { path: key.into(), bytes, mode: file_mode(mode) })
            .collect());
    };
    items
        .iter()
        .map(|item| {
            let bytes = data
                .get(&item.key)
                .cloned()
                .ok_or_else(|| format!("key {} is missing", item.key))?;
            let path = PathBuf::from(&item.path);
            Ok(FileEntry { path, bytes, mode: file_mode(item.mode.or(mode)) })
        })
        .collect()
}

fn file_mode(mode: Option<i32>) -> u32 {
    mode.and_then(|m| u32::try_from(m).ok()).unwrap_or(0o644)
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

/// Bytes of a Kubernetes quantity.
fn quantity_bytes(quantity: &str) -> Result<u64, String> {
    const UNITS: [(&str, u64); 11] = [
        ("Ki", 1 << 10),
        ("Mi", 1 << 20),
        ("Gi", 1 << 30),
        ("Ti", 1 << 40),
        ("Pi", 1 << 50),
        ("k", 1_000),
        ("M", 1_000_000),
        ("G", 1_000_000_000),
        ("T", 1_000_000_000_000),
        ("P", 1_000_000_000_000_000),
        ("", 1),
    ];
    let unit = UNITS.iter().find(|(suffix, _)| quantity.ends_with(suffix));
    unit.and_then(|(suffix, factor)| {
        let number: f64 = quantity.strip_suffix(suffix)?.parse().ok()?;
        (number >= 0.0).then_some((number * *factor as f64) as u64)
    })
    .ok_or_else(|| format!("size {quantity} is not readable"))
}

#[cfg(test)]
mod tests;
