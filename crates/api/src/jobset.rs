//! JobSet, the part that a MiniCluster uses: group `jobset.x-k8s.io`, version `v1alpha2`.
//!
//! The types follow the CustomResourceDefinition of JobSet v0.12. All that is known of the format is
//! in this module, because a `v1` with conversion is expected. Fields that Quorate neither sets nor
//! reads are left out, and unknown ones are ignored when reading.

use k8s_openapi::api::batch::v1::JobTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use serde::{Deserialize, Serialize};

/// `apiVersion` of a JobSet.
pub const API_VERSION: &str = "jobset.x-k8s.io/v1alpha2";
/// `kind` of a JobSet.
pub const KIND: &str = "JobSet";

/// Labels and annotations that the JobSet controller puts on its Jobs and their pods.
pub mod label {
    /// The JobSet's name.
    pub const JOBSET_NAME: &str = "jobset.sigs.k8s.io/jobset-name";
    /// The JobSet's UID.
    pub const JOBSET_UID: &str = "jobset.sigs.k8s.io/jobset-uid";
    /// The replicated job's name.
    pub const REPLICATED_JOB: &str = "jobset.sigs.k8s.io/replicatedjob-name";
    /// How often the JobSet was restarted when the Job was made.
    pub const RESTART_ATTEMPT: &str = "jobset.sigs.k8s.io/restart-attempt";
    /// The Job's index in its replicated job.
    pub const JOB_INDEX: &str = "jobset.sigs.k8s.io/job-index";
    /// A hash of the Job's namespace and name: the same for all pods of a Job, and for no others.
    pub const JOB_KEY: &str = "jobset.sigs.k8s.io/job-key";
}

/// What `spec.managedBy` calls the controller that is built into JobSet; nothing there means the same.
pub const CONTROLLER: &str = "jobset.sigs.k8s.io/jobset-controller";

/// What a JobSet shall be.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "jobset.x-k8s.io",
    version = "v1alpha2",
    kind = "JobSet",
    namespaced,
    status = "JobSetStatus",
    schema = "disabled",
    derive = "Default",
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase")]
pub struct JobSetSpec {
    /// The groups of Jobs, in the order of their global indices.
    #[serde(default)]
    pub replicated_jobs: Vec<ReplicatedJob>,
    /// Names of pods; required in practice, since the controller reads it without asking.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<Network>,
    /// When the JobSet is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub success_policy: Option<SuccessPolicy>,
    /// What a failed Job means.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_policy: Option<FailurePolicy>,
    /// The order of starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub startup_policy: Option<StartupPolicy>,
    /// True keeps all Jobs suspended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspend: Option<bool>,
    /// Seconds from the end to the deletion of the JobSet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_seconds_after_finished: Option<i32>,
    /// The controller in charge; another one makes the built-in controller ignore the JobSet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub managed_by: Option<String>,
}

/// A group of equal Jobs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplicatedJob {
    /// The group's name, part of its Jobs' and pods' names.
    pub name: String,
    /// A name over several replicated jobs; `default` unless set.
    #[serde(default = "default_group")]
    pub group_name: String,
    /// How many Jobs.
    #[serde(default = "one")]
    pub replicas: i32,
    /// The Job.
    pub template: JobTemplateSpec,
}

/// Names of pods.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Network {
    /// True sets each pod's subdomain and makes the headless Service.
    #[serde(default, rename = "enableDNSHostnames", skip_serializing_if = "Option::is_none")]
    pub enable_dns_hostnames: Option<bool>,
    /// The Service's name; empty means the JobSet's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subdomain: Option<String>,
    /// True gives pods a name before they are ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub publish_not_ready_addresses: Option<bool>,
}

/// When the JobSet is done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SuccessPolicy {
    /// All or any of the targets.
    pub operator: Operator,
    /// The replicated jobs that count; empty means all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub target_replicated_jobs: Vec<String>,
}

/// All or any.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Operator {
    /// Every Job of the targets must complete.
    All,
    /// One Job of the targets is enough.
    Any,
}

/// What a failed Job means.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FailurePolicy {
    /// Restarts that count until the JobSet fails.
    #[serde(default)]
    pub max_restarts: i32,
    /// How the Jobs of the next attempt replace those of the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restart_strategy: Option<RestartStrategy>,
    /// The first rule that matches decides; without a match the JobSet restarts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<FailurePolicyRule>,
}

/// How the Jobs of the next attempt replace those of the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RestartStrategy {
    /// Each Job is made again as soon as its own predecessor is gone.
    Recreate,
    /// No Job is made before all of the last attempt are gone.
    BlockingRecreate,
}

/// One rule on failed Jobs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FailurePolicyRule {
    /// Required by the schema, and part of the condition's reason.
    pub name: String,
    /// What to do.
    pub action: FailurePolicyAction,
    /// Reasons of the Job's Failed condition that match; empty means any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub on_job_failure_reasons: Vec<String>,
    /// RE2 patterns on the message of the Job's Failed condition; empty means any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub on_job_failure_message_patterns: Vec<String>,
    /// Replicated jobs that match; empty means all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub target_replicated_jobs: Vec<String>,
}

/// Reasons that a Job's Failed condition may have (batch/v1).
pub mod job_failure {
    /// More pods failed than `backoffLimit` allows.
    pub const BACKOFF_LIMIT_EXCEEDED: &str = "BackoffLimitExceeded";
    /// `activeDeadlineSeconds` is over.
    pub const DEADLINE_EXCEEDED: &str = "DeadlineExceeded";
    /// Some indexes failed.
    pub const FAILED_INDEXES: &str = "FailedIndexes";
    /// More indexes failed than `maxFailedIndexes` allows.
    pub const MAX_FAILED_INDEXES_EXCEEDED: &str = "MaxFailedIndexesExceeded";
    /// A rule of the pod failure policy said FailJob.
    pub const POD_FAILURE_POLICY: &str = "PodFailurePolicy";
    /// All of them: what the JobSet webhook takes.
    pub const ALL: [&str; 5] = [
        BACKOFF_LIMIT_EXCEEDED,
        DEADLINE_EXCEEDED,
        FAILED_INDEXES,
        MAX_FAILED_INDEXES_EXCEEDED,
        POD_FAILURE_POLICY,
    ];
}

/// What a failed Job leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FailurePolicyAction {
    /// The JobSet fails at once.
    FailJobSet,
    /// Everything starts again; counts.
    RestartJobSet,
    /// Everything starts again; does not count.
    RestartJobSetAndIgnoreMaxRestarts,
}

/// The order of starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StartupPolicy {
    /// All at once, or in list order.
    pub startup_policy_order: StartupOrder,
}

/// All at once, or in list order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StartupOrder {
    /// All at once.
    AnyOrder,
    /// In list order; deprecated upstream.
    InOrder,
}

/// What the controller says of a JobSet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JobSetStatus {
    /// `Completed`, `Failed`, `Suspended`, `RestartingJobSet`, ...
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Restarts in all.
    #[serde(default)]
    pub restarts: i32,
    /// Restarts that count.
    #[serde(default)]
    pub restarts_count_towards_max: i32,
    /// `Completed`, `Failed` or nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminal_state: Option<String>,
    /// Jobs by replicated job; all figures count Jobs, not pods.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replicated_jobs_status: Vec<ReplicatedJobStatus>,
}

/// Jobs of one replicated job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplicatedJobStatus {
    /// The replicated job.
    pub name: String,
    /// Jobs with all pods ready or succeeded.
    #[serde(default)]
    pub ready: i32,
    /// Completed Jobs.
    #[serde(default)]
    pub succeeded: i32,
    /// Failed Jobs.
    #[serde(default)]
    pub failed: i32,
    /// Jobs with at least one active pod.
    #[serde(default)]
    pub active: i32,
    /// Suspended Jobs.
    #[serde(default)]
    pub suspended: i32,
}

fn default_group() -> String {
    "default".to_owned()
}

fn one() -> i32 {
    1
}
