//! The MiniCluster: every field with its meaning and default.
//!
//! A field is here when its behaviour works, never before. Integers are signed because the schema
//! dialect of Kubernetes has no unsigned formats; `crate::validate` turns them into the types that
//! the plan takes.

use k8s_openapi::api::core::v1::{EnvVar, PodTemplateSpec, ResourceRequirements};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{CustomResource, CustomResourceExt, KubeSchema};
use serde::{Deserialize, Serialize};

use crate::cel;
use crate::status::MiniClusterStatus;
use crate::template::{main_container, schema as template_schema};

mod job;
mod queue;
mod topology;

pub use job::Job;
pub use queue::{NamedQueue, Queue, QueuePolicy};
pub use topology::{Topology, TopologyMode};

/// The API group.
pub const GROUP: &str = "quorate.dev";
/// The only version so far.
pub const VERSION: &str = "v1alpha1";
/// Group and version as they stand in `apiVersion`.
pub const API_VERSION: &str = "quorate.dev/v1alpha1";
/// The kind.
pub const KIND: &str = "MiniCluster";
/// The value of `spec.managedBy` that stands for Quorate's own controller.
pub const MANAGER: &str = "quorate.dev/quorate-controller";

/// A cluster of pods that runs one parallel program, or stays up for people to use.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "quorate.dev",
    version = "v1alpha1",
    kind = "MiniCluster",
    namespaced,
    shortname = "mc",
    category = "all",
    status = "MiniClusterStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "A cluster of pods that runs one parallel program, or stays up for people to use.",
    scale(
        spec_replicas_path = ".spec.size",
        status_replicas_path = ".status.size",
        label_selector_path = ".status.selector"
    ),
    printcolumn(name = "Size", type_ = "integer", json_path = ".status.size"),
    printcolumn(name = "Online", type_ = "integer", json_path = ".status.online"),
    printcolumn(name = "State", type_ = "string", json_path = ".status.state"),
    printcolumn(name = "Jobs", type_ = "string", json_path = ".status.queue.jobs"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = cel::name(),
    validation = cel::name_budget()
)]
#[x_kube(
    validation = cel::min_size(),
    validation = cel::max_size(),
    validation = cel::growth(),
    validation = cel::groups_fill_size(),
    validation = cel::groups_fit(),
    validation = cel::command_or("command"),
    validation = cel::command_or("parallel"),
    validation = cel::command_or("script"),
    validation = cel::command_or("jobs"),
    validation = cel::command_alone(),
    validation = cel::alone_in_program("command"),
    validation = cel::alone_in_program("parallel"),
    validation = cel::alone_in_program("script"),
    validation = cel::alone_in_program("jobs"),
    validation = cel::args_with_command(),
    validation = cel::tasks_have_slots(),
    validation = cel::host_ports(),
    validation = cel::replace(),
    validation = cel::managed_by(),
    validation = cel::idle_without_program(),
    validation = cel::state_without_program(),
    validation = cel::topology_has_workers(),
    validation = cel::topology_groups_are_full(),
    validation = cel::topology_groups_do_not_grow(),
    validation = cel::image()
)]
#[serde(rename_all = "camelCase")]
pub struct MiniClusterSpec {
    /// Brokers, one per pod, the launcher included. Default: 1, or 1 + the sizes of `groups`.
    /// `kubectl scale` needs it to be written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100_000))]
    pub size: Option<i32>,
    /// Brokers that must be connected before the program starts. Default: `size`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100_000))]
    pub min_size: Option<i32>,
    /// The largest size that the cluster may grow to; names, ranks and ports are fixed up to here.
    /// The last group grows. Default: `size`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100_000))]
    pub max_size: Option<i32>,

    /// The image of the main container of all pods. Not needed on one machine, where programs come
    /// from its file system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Short for `program.command`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Arguments after `command`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Variables of the main container of all pods.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "template_schema::env")]
    pub env: Vec<EnvVar>,
    /// Resources of the main container of all pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "template_schema::resources")]
    pub resources: Option<ResourceRequirements>,
    /// The directory that the program starts in. Default: the image's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_dir: Option<String>,
    /// A whole pod template for all pods. The main container is the one named `main`, else the
    /// first. `image`, `env`, `resources` and `workingDir` are laid over it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "template_schema::pod_template")]
    pub template: Option<PodTemplateSpec>,

    /// What is different about the launcher, the pod of rank 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launcher: Option<Launcher>,
    /// Worker groups; together they are one cluster and one MPI world. Default: one group named
    /// `worker` of `size` - 1 pods.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub groups: Vec<Group>,
    /// Tasks that each broker takes unless launcher or group say otherwise. Default: as many as the
    /// CPUs that a pod really has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub slots: Option<i32>,

    /// What the cluster is for. Default: `command` and `args`; without those the cluster stays up
    /// until it is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<Program>,
    /// Host files and variables for MPI's own launchers.
    #[serde(default)]
    pub mpi: Mpi,
    /// How the job queue on the launcher works.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<Queue>,
    /// How brokers find each other.
    #[serde(default)]
    pub bootstrap: Bootstrap,
    /// What happens when something fails.
    #[serde(default)]
    pub failure_policy: FailurePolicy,
    /// Names and reach of the pods. Host networking is `template.spec.hostNetwork`.
    #[serde(default)]
    pub network: Network,
    /// Which workers run close together, and which apart. Default: wherever there is room.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology: Option<Topology>,

    /// True keeps the pods away until it is false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspend: Option<bool>,
    /// Seconds after its end until the MiniCluster is deleted, with all that it became. Default:
    /// never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub ttl_seconds_after_finished: Option<i32>,
    /// Seconds from start to end, restarts included, after which the cluster fails; a suspension
    /// begins them anew, as in a Job. Default: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 2_147_483_647))]
    pub active_deadline_seconds: Option<i64>,
    /// The controller in charge, as in a Job: any other than [`MANAGER`] makes Quorate's controller
    /// leave the object alone. Default: that one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[!-~]+$"), length(max = 63))]
    pub managed_by: Option<String>,
}

impl MiniClusterSpec {
    /// Whether the cluster is for a program; without one it is a queue that people use.
    pub fn has_program(&self) -> bool {
        let pod = self.template.as_ref().and_then(|template| template.spec.as_ref());
        let main = pod.and_then(|pod| Some(&pod.containers[main_container(&pod.containers)?]));
        let of_container = main.and_then(|main| main.command.as_ref());
        self.program.is_some()
            || !self.command.is_empty()
            || of_container.is_some_and(|command| !command.is_empty())
    }

    /// `bootstrap.orphanTimeoutSeconds`, or what it is without being written.
    pub fn orphan_timeout_seconds(&self) -> i32 {
        // A launcher that is replaced is back after 10 s of its Job's back-off and what it takes to
        // start.
        let usual = if self.has_program() { 15 } else { 30 };
        self.bootstrap.orphan_timeout_seconds.unwrap_or(usual)
    }
}

/// What is different about the launcher.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Launcher {
    /// Tasks that the launcher takes; 0 keeps it free of tasks, as `mpirun` launchers are.
    /// Default: `spec.slots`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub slots: Option<i32>,
    /// Laid over `spec.template`: lists with keys are merged by key, tolerations are added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "template_schema::overlay")]
    pub template: Option<PodTemplateSpec>,
}

/// A group of workers.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[x_kube(validation = cel::group_name())]
#[serde(rename_all = "camelCase")]
pub struct Group {
    /// A DNS label; part of the pods' names.
    #[schemars(regex(pattern = r"^[a-z]([-a-z0-9]*[a-z0-9])?$"), length(max = 63))]
    pub name: String,
    /// Pods of the group.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 99_999))]
    pub size: i32,
    /// Tasks that each broker of the group takes. Default: `spec.slots`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub slots: Option<i32>,
    /// Laid over `spec.template`: lists with keys are merged by key, tolerations are added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "template_schema::overlay")]
    pub template: Option<PodTemplateSpec>,
}

/// What the cluster is for: one of `command`, `parallel`, `script` or `jobs`.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[x_kube(
    validation = cel::some_program(),
    validation = cel::two_in_program("command", "parallel"),
    validation = cel::two_in_program("command", "script"),
    validation = cel::two_in_program("command", "jobs"),
    validation = cel::two_in_program("parallel", "script"),
    validation = cel::two_in_program("parallel", "jobs"),
    validation = cel::two_in_program("script", "jobs"),
    validation = cel::args_with_command()
)]
#[serde(rename_all = "camelCase")]
pub struct Program {
    /// Run once on the launcher, for example a script that calls `mpirun`. An argument list, never
    /// a shell line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Arguments after `command`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Launched by the brokers on all pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parallel: Option<Parallel>,
    /// A batch script, put into the cluster's own queue: its first line names the interpreter, its
    /// `#SBATCH` or `#QUORATE` lines say what it needs. It runs once, on the first of its nodes, in a
    /// cluster of its own over them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 524_288))]
    pub script: Option<String>,
    /// Jobs for the cluster's own queue. The program ends when all of them have, with the code of the
    /// first in the list that failed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub jobs: Vec<Job>,
}

/// A parallel program.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Parallel {
    /// The program of each rank. An argument list, never a shell line.
    #[schemars(length(min = 1))]
    pub command: Vec<String>,
    /// Arguments after `command`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Ranks in all. Default: one per slot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub tasks: Option<i32>,
    /// Ranks on each pod that takes tasks. Default: slots decide.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub tasks_per_node: Option<i32>,
    /// CPUs that each rank is bound to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub cpus_per_task: Option<i32>,
    /// Allows more ranks than slots.
    #[serde(default)]
    pub oversubscribe: bool,
    /// Prefixes each output line with the rank that wrote it.
    #[serde(default, rename = "labelIO")]
    pub label_io: bool,
    /// Variables of each rank, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub env: Vec<Variable>,
    /// The directory that ranks start in. Default: the main container's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_dir: Option<String>,
    /// The way in which ranks are offered to meet; `auto` offers all, and each rank takes the one
    /// that its MPI knows.
    #[serde(default)]
    pub mpi: MpiStart,
}

/// A way in which the ranks of a parallel program meet.
#[derive(
    schemars::JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum MpiStart {
    /// All at once.
    #[default]
    Auto,
    /// PMI-1 only: MPICH and its relatives, Intel MPI.
    Pmi1,
    /// PMI-2 only: MPICH and its relatives built for it.
    Pmi2,
    /// PMIx only: Open MPI.
    Pmix,
    /// None: ranks are plain processes.
    None,
}

/// A variable with a plain value.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variable {
    /// The name.
    #[schemars(regex(pattern = r"^[ -<>-~]+$"))]
    pub name: String,
    /// The value; taken as it is.
    #[serde(default)]
    pub value: String,
}

/// Host files and variables for MPI's own launchers.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Mpi {
    /// Whose format and variables batch scripts get; `auto` sets all families at once.
    #[serde(default)]
    pub flavor: Flavor,
}

/// A family of MPI implementations.
#[derive(
    schemars::JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize,
)]
pub enum Flavor {
    /// All families at once.
    #[default]
    #[serde(rename = "auto")]
    Auto,
    /// Open MPI 4 and 5.
    OpenMPI,
    /// MPICH and its relatives with Hydra.
    MPICH,
    /// Intel MPI.
    Intel,
}

/// How brokers find each other, and how long they try.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Bootstrap {
    /// Children of an inner broker in the tree; 0 lets the agent choose from the size.
    #[serde(default)]
    #[schemars(range(min = 0, max = 1024))]
    pub fanout: i32,
    /// The TCP port that brokers listen on; with host networking rank r listens on `port` + r.
    #[serde(default = "default_port")]
    #[schemars(range(min = 1, max = 65_535))]
    pub port: i32,
    /// Seconds until a cluster without quorum fails with a table of who is missing.
    #[serde(default = "default_timeout")]
    #[schemars(range(min = 1))]
    pub timeout_seconds: i32,
    /// Seconds that a broker cut off from rank 0 goes on before it stops its tasks and leaves. Longer
    /// than the 5 s of silence that brokers bear without a doubt. Default: 15, and 30 without a
    /// program, where another launcher may come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 6))]
    pub orphan_timeout_seconds: Option<i32>,
}

impl Default for Bootstrap {
    fn default() -> Self {
        Self {
            fanout: 0,
            port: default_port(),
            timeout_seconds: default_timeout(),
            orphan_timeout_seconds: None,
        }
    }
}

/// What happens when something fails (`docs/adr/0001-recovery.md`).
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FailurePolicy {
    /// How often the whole cluster may start again after a failure. Disruptions by Kubernetes
    /// (drain, preemption, a lost node's eviction) restart it without counting.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub max_restarts: i32,
    /// What it means when a worker's pod is lost. Default: Restart with a program, Replace without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_worker_lost: Option<OnWorkerLost>,
}

/// What the loss of a worker's pod means.
#[derive(schemars::JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OnWorkerLost {
    /// The whole cluster starts again, by `maxRestarts` unless it was a disruption. With a program it
    /// is the launcher that finds out whether the program can go on.
    Restart,
    /// The cluster goes on while Kubernetes replaces the pod, which takes 10 s or more.
    Replace,
    /// The cluster fails, whatever took the pod and whatever `maxRestarts` is.
    Fail,
}

/// Names and reach of the pods.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Network {
    /// The headless Service's name: the second label of each pod's host name. Default: the
    /// MiniCluster's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^[a-z]([-a-z0-9]*[a-z0-9])?$"), length(max = 63))]
    pub subdomain: Option<String>,
    /// True allows traffic into the pods from the cluster's own pods only. Has no effect on pods
    /// that use the node's network, so it is left out for those.
    #[serde(default = "yes")]
    pub network_policy: bool,
}

impl Default for Network {
    fn default() -> Self {
        Self { subdomain: None, network_policy: true }
    }
}

fn one() -> i32 {
    1
}

fn yes() -> bool {
    true
}

fn default_port() -> i32 {
    8117
}

fn default_timeout() -> i32 {
    600
}

/// The definition that the API server enforces.
pub fn crd() -> CustomResourceDefinition {
    let mut definition = MiniCluster::crd();
    cel::figures::add(&mut definition);
    definition
}
