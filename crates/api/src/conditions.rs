//! Condition types of a MiniCluster and the machine's words for why they have their value.
//! `kubectl wait --for=condition=Succeeded` depends on these names.

/// The object is valid and what it becomes exists.
pub const ACCEPTED: &str = "Accepted";
/// The pods are kept away by `spec.suspend` or a queue.
pub const SUSPENDED: &str = "Suspended";
/// At least `minSize` brokers are connected to rank 0.
pub const QUORATE: &str = "Quorate";
/// The program runs, or the cluster is ready for people.
pub const RUNNING: &str = "Running";
/// The program ended with code 0.
pub const SUCCEEDED: &str = "Succeeded";
/// The cluster failed and will not start again.
pub const FAILED: &str = "Failed";

/// Reasons of the conditions above, which are also those of `status.reason` and of events. How a
/// program ended has the words of the agent's report (`docs/spec/report.md`) instead.
pub mod reason {
    /// Accepted: all objects are there, or on their way.
    pub const PLANNED: &str = "Planned";
    /// Not accepted: the object breaks a rule; the message lists all of them.
    pub const INVALID: &str = "Invalid";
    /// Not accepted: something of the same name belongs to someone else.
    pub const NAME_TAKEN: &str = "NameTaken";
    /// Not accepted: a change that a running JobSet cannot take.
    pub const IMMUTABLE: &str = "Immutable";
    /// Not accepted: the API server or a webhook refuses one of the objects.
    pub const REFUSED: &str = "AdmissionRefused";

    /// Suspended by `spec.suspend`.
    pub const SUSPENDED_BY_SPEC: &str = "SuspendedBySpec";
    /// Suspended by someone else, who wrote it into the JobSet.
    pub const SUSPENDED_BY_OTHER: &str = "SuspendedByOther";
    /// Suspended: Kueue has not admitted it yet.
    pub const WAITING_FOR_ADMISSION: &str = "WaitingForAdmission";
    /// Suspended: Kueue took its quota away.
    pub const QUEUE_EVICTED: &str = "QueueEvicted";
    /// No longer suspended.
    pub const RESUMED: &str = "Resumed";

    /// Quorate: enough brokers are connected.
    pub const QUORUM_REACHED: &str = "QuorumReached";
    /// Not quorate: brokers are missing; the message says which and why.
    pub const WAITING_FOR_BROKERS: &str = "WaitingForBrokers";
    /// Not quorate: the JobSet is being made.
    pub const STARTING: &str = "Starting";
    /// Not quorate: the JobSet has made no Jobs for too long.
    pub const JOBSET_SILENT: &str = "JobSetSilent";
    /// Not quorate: the JobSet could not make its Jobs.
    pub const JOBS_REFUSED: &str = "JobsRefused";
    /// Not quorate: a ResourceQuota leaves no room for the pods.
    pub const QUOTA_EXCEEDED: &str = "QuotaExceeded";
    /// Not quorate: Pod Security or a webhook refuses the pods.
    pub const PODS_REFUSED: &str = "PodsRefused";
    /// Not quorate: the scheduler finds no node for some pods.
    pub const UNSCHEDULABLE: &str = "Unschedulable";
    /// Not quorate: someone holds the pods back from the scheduler.
    pub const SCHEDULING_GATED: &str = "SchedulingGated";
    /// Not quorate: an image cannot be had.
    pub const IMAGE_PULL: &str = "ImagePull";
    /// Not quorate: an init container failed.
    pub const INIT_FAILED: &str = "InitFailed";
    /// Not quorate: a Secret, ConfigMap or key that a container refers to is missing.
    pub const CONFIG_MISSING: &str = "ConfigMissing";
    /// Not quorate: a volume cannot be mounted.
    pub const MOUNT_FAILED: &str = "MountFailed";
    /// Not quorate: the node cannot set up the pod, its network for example.
    pub const SANDBOX_FAILED: &str = "SandboxFailed";
    /// Not quorate: a container cannot be started.
    pub const CANNOT_RUN: &str = "CannotRun";
    /// Not quorate, or failed: a container used more memory than its limit.
    pub const OUT_OF_MEMORY: &str = "OutOfMemory";
    /// Not quorate, or failed: the kubelet killed a container because its liveness or startup probe
    /// failed.
    pub const PROBE_FAILED: &str = "ProbeFailed";
    /// Not quorate, or failed: a container ended with an error.
    pub const CONTAINER_FAILED: &str = "ContainerFailed";
    /// Not quorate, or failed: Kubernetes took a pod away (drain, preemption, pressure).
    pub const POD_EVICTED: &str = "PodEvicted";
    /// Not quorate, or failed: a pod's node does not answer.
    pub const NODE_LOST: &str = "NodeLost";
    /// Not quorate: pods are being started, nothing is wrong so far.
    pub const PODS_STARTING: &str = "PodsStarting";
    /// Not quorate: the whole cluster starts again.
    pub const RESTARTING: &str = "Restarting";
    /// Neither quorate nor running: the program has ended, the JobSet has not said so yet.
    pub const PROGRAM_ENDED: &str = "ProgramEnded";
    /// Neither quorate nor running: it is over.
    pub const FINISHED: &str = "Finished";
    /// Neither quorate nor running: it is being deleted.
    pub const DELETING: &str = "Deleting";

    /// Not running: the cluster is not quorate.
    pub const NOT_QUORATE: &str = "NotQuorate";
    /// Running: the program was started.
    pub const PROGRAM_STARTED: &str = "ProgramStarted";
    /// Running: no program; people use the cluster.
    pub const READY: &str = "Ready";
    /// No condition's: it runs, and is to be smaller once jobs have ended.
    pub const WAITING_FOR_JOBS: &str = "WaitingForJobs";

    /// Failed: the budget of `failurePolicy.maxRestarts` is used up.
    pub const RESTARTS_EXHAUSTED: &str = "RestartsExhausted";
    /// Failed: `activeDeadlineSeconds` ended the attempt.
    pub const DEADLINE_EXCEEDED: &str = "DeadlineExceeded";
    /// Failed: the JobSet gave up, and nothing that is left says more.
    pub const JOBSET_FAILED: &str = "JobSetFailed";
}
