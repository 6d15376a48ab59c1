//! What a planned pod is on this machine: from the pod template of a JobSet to a process with
//! mounts, variables and a command, as a kubelet would read it.
//!
//! Pure: the caller's environment and directories come as data. What one machine cannot give (an
//! image, a volume of a cloud) is not imitated; validation warns of it beforehand, and a
//! volume that the main container really mounts is an error here.

mod environment;
mod volumes;

use crate::player::PodId;
use crate::sandbox::{PodMount, Source};
use k8s_openapi::api::core::v1::{Container, PodSpec, PodTemplateSpec, Secret};
use quorate_api::jobset::JobSet;
use quorate_contract::paths;
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

impl LocalPod {
    #[must_use]
    /// The pod where nothing is mounted: its temporary files are where they lie on this machine.
    pub fn unmounted(mut self) -> Self {
        let own = |m: &&PodMount| m.path == Path::new(volumes::TEMPORARY_DIR);
        if let Some(PodMount { source: Source::Host(dir), .. }) = self.mounts.iter().find(own) {
            for (name, value) in &mut self.env {
                if name == volumes::TEMPORARY_VARIABLE {
                    *value = dir.to_string_lossy().into_owned();
                }
            }
        }
        self
    }
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

/// A pod in the making.
struct Build<'a> {
    objects: &'a LocalObjects,
    facts: &'a PodFacts,
    template: &'a PodTemplateSpec,
    spec: &'a PodSpec,
    scratch: &'a Path,
}

#[cfg(test)]
mod tests;
