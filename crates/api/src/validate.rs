//! The rules of a MiniCluster, all at once, and the form that the plan takes.
//!
//! [`validate`] either returns every finding or a [`ValidatedMiniCluster`], in which defaults are
//! filled in, numbers have their range and templates are merged. The schema and the CEL rules of the
//! definition say the same to the API server; `corpus/` holds both to it.

mod groups;
pub mod hash;
mod jobs;
mod local;
mod pods;
mod program;
mod queue;
mod spec;
mod topology;

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::api::core::v1::PodTemplateSpec;

use crate::finding::{Finding, Severity};
use crate::minicluster::{Flavor, MiniCluster, MpiStart, OnWorkerLost};

pub use jobs::ValidatedJob;
pub use queue::{ValidatedNamedQueue, ValidatedQueue};
pub use topology::ValidatedTopology;

/// Where the cluster will run: some rules and warnings hold on one side only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Pods on Kubernetes.
    Kubernetes,
    /// Pods on this machine, with its file system instead of images.
    Local,
    /// Not decided: what only Kubernetes needs is a warning.
    Any,
}

/// A MiniCluster without a fault: the sole input of the plan.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ValidatedMiniCluster {
    /// The name, which is also the JobSet's.
    pub name: ClusterName,
    /// The namespace, `default` where none is given.
    pub namespace: String,
    /// The UID, once the object is stored or its maker has given it one.
    pub uid: Option<String>,
    /// Brokers now, the launcher included: 1 or more.
    pub size: u32,
    /// Brokers that the program needs to start: 1..=`size`.
    pub min_size: u32,
    /// Brokers at most: `size` or more.
    pub max_size: u32,
    /// All groups in rank order; the first is the launcher's.
    pub groups: Vec<ValidatedGroup>,
    /// What the cluster is for.
    pub program: ValidatedProgram,
    /// How its job queue works.
    pub queue: ValidatedQueue,
    /// Host files and variables for MPI's own launchers.
    pub flavor: Flavor,
    /// Children of an inner broker; 0 lets the agent choose.
    pub fanout: u32,
    /// The TCP port of brokers.
    pub port: u16,
    /// Seconds until a cluster without quorum fails.
    pub timeout_seconds: u32,
    /// Seconds that a broker goes on without rank 0.
    pub orphan_timeout_seconds: u32,
    /// Restarts that a failure may cost.
    pub max_restarts: u32,
    /// What a lost worker means.
    pub on_worker_lost: OnWorkerLost,
    /// The headless Service's name.
    pub subdomain: String,
    /// Whether a NetworkPolicy is wanted.
    pub network_policy: bool,
    /// Where workers run; `None` is anywhere.
    pub topology: Option<ValidatedTopology>,
    /// `spec.suspend`, where it is given.
    pub suspend: Option<bool>,
    /// Seconds from the end to the deletion of the JobSet.
    pub ttl_seconds_after_finished: Option<u32>,
    /// Seconds that the whole run may take.
    pub active_deadline_seconds: Option<u32>,
    /// Labels and annotations for Kueue, with its prefix.
    pub queueing: Queueing,
    /// A hash of each field of the spec as it was written, to tell people which one they changed.
    pub written: BTreeMap<String, u64>,
    /// What the writer should know although the object works.
    pub warnings: Vec<Finding>,
}

/// What the writer has to say to Kueue: everything under `kueue.x-k8s.io/` in the metadata.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Queueing {
    /// Labels: the queue, the priority, ...
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    pub annotations: BTreeMap<String, String>,
}

/// The name of a cluster: a DNS-1035 label within the name budget.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterName(String);

impl ClusterName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ClusterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The name of a group: a DNS-1035 label, unique in its cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupName(String);

impl GroupName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for GroupName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One replicated job of the cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct ValidatedGroup {
    /// `launcher`, `worker`, ...
    pub name: GroupName,
    /// The rank of its pod with index 0.
    pub first_rank: u32,
    /// Pods now.
    pub size: u32,
    /// Pods at the cluster's largest size.
    pub max_size: u32,
    /// The Jobs that its pods are in, equally many in each: more than one for topology groups of
    /// several pods, which then do not grow.
    pub jobs: u32,
    /// Tasks that each of its brokers takes; `None` means as many as the pod has CPUs.
    pub slots: Option<u32>,
    /// The pod template with everything laid over it; has at least one container.
    pub template: PodTemplateSpec,
    /// The index of the main container in it. Its command line is part of the program now.
    pub main: usize,
}

impl ValidatedGroup {
    /// Pods of each of its Jobs.
    pub fn pods_per_job(&self) -> u32 {
        self.size / self.jobs
    }

    /// Whether its pods use the node's network.
    pub fn host_network(&self) -> bool {
        self.template.spec.as_ref().and_then(|pod| pod.host_network).unwrap_or(false)
    }
}

/// What the cluster is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValidatedProgram {
    /// Stay up until deleted.
    None,
    /// Run once on the launcher.
    Command {
        /// Program and arguments; at least one.
        argv: Vec<String>,
    },
    /// Launched by the brokers.
    Parallel(ValidatedParallel),
    /// A batch script in the cluster's own queue.
    Script {
        /// The text; begins with its interpreter line.
        text: String,
    },
    /// Jobs in the cluster's own queue; at least one.
    Jobs(Vec<ValidatedJob>),
}

/// A parallel program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidatedParallel {
    /// Program and arguments; at least one.
    pub argv: Vec<String>,
    /// Ranks in all; `None` means one per slot.
    pub tasks: Option<u32>,
    /// Ranks on each pod that takes tasks.
    pub tasks_per_node: Option<u32>,
    /// CPUs of each rank.
    pub cpus_per_task: Option<u32>,
    /// Whether there may be more ranks than slots.
    pub oversubscribe: bool,
    /// Whether output lines carry the rank.
    pub label_io: bool,
    /// Variables of each rank, in order.
    pub env: Vec<(String, String)>,
    /// The directory to start in.
    pub working_dir: Option<String>,
    /// The way in which ranks meet.
    pub mpi: MpiStart,
}

impl ValidatedMiniCluster {
    /// The launcher's group.
    pub fn launcher(&self) -> &ValidatedGroup {
        self.groups.first().expect("validation puts the launcher first")
    }

    /// Whether any pod uses the node's network: rank r then listens on `port` + r, since several
    /// pods of the cluster may share an address.
    pub fn port_per_rank(&self) -> bool {
        self.groups.iter().any(ValidatedGroup::host_network)
    }

    /// Gives a cluster that no API server stores its identity.
    #[must_use]
    pub fn with_uid(mut self, uid: impl Into<String>) -> Self {
        self.uid = Some(uid.into());
        self
    }
}

/// Checks all rules; on failure every finding, errors and warnings, in the order of the fields.
pub fn validate(
    object: &MiniCluster,
    target: Target,
) -> Result<ValidatedMiniCluster, Vec<Finding>> {
    let mut findings = Findings::default();
    let validated = spec::check(object, target, &mut findings);
    let mut findings = findings.0;
    findings.sort_by_key(|finding| finding.severity);
    match validated {
        Some(mut validated) if findings.iter().all(|f| f.severity == Severity::Warning) => {
            validated.warnings = findings;
            Ok(validated)
        }
        _ => Err(findings),
    }
}

/// What was found so far.
#[derive(Default)]
struct Findings(Vec<Finding>);

impl Findings {
    fn push(&mut self, finding: Finding) {
        self.0.push(finding);
    }

    /// Whether anything refuses the object.
    fn refused(&self) -> bool {
        self.0.iter().any(|finding| finding.severity == Severity::Error)
    }
}

#[cfg(test)]
mod tests;
