//! Names of the variables that a pod's containers carry. The plan sets them, the agent reads them.
//! All come from constants or the downward API; none is a secret.

/// The group (replicated job) of this pod; a constant in its template.
pub const GROUP: &str = "QUORATE_GROUP";
/// The pod's index in its Job; Kubernetes sets it for Indexed Jobs.
pub const INDEX: &str = "JOB_COMPLETION_INDEX";
/// The index of the pod's Job among those of its group, from the label `jobset.sigs.k8s.io/job-index`;
/// set only where a group has several.
pub const JOB_INDEX: &str = "QUORATE_JOB_INDEX";
/// The restart attempt, from the label `jobset.sigs.k8s.io/restart-attempt`.
pub const ATTEMPT: &str = "QUORATE_ATTEMPT";
/// The pod's name.
pub const POD_NAME: &str = "QUORATE_POD_NAME";
/// The pod's UID, for programs and logs; brokers tell their lives apart by a number of their own.
pub const POD_UID: &str = "QUORATE_POD_UID";
/// The pod's address.
pub const POD_IP: &str = "QUORATE_POD_IP";
/// The node that the pod is on.
pub const NODE_NAME: &str = "QUORATE_NODE_NAME";

/// Set by the agent for what it starts: the path of the broker's local socket.
pub const SOCKET: &str = "QUORATE_SOCKET";
/// Set by the agent for what it starts: this broker's rank.
pub const BROKER_RANK: &str = "QUORATE_BROKER_RANK";
/// Set by the agent for what it starts: the cluster's name.
pub const CLUSTER: &str = "QUORATE_CLUSTER";
/// Set by the agent for what it starts: how people call this pod, `worker-0-3`.
pub const BROKER_NAME: &str = "QUORATE_BROKER_NAME";
/// Set by the agent for what it starts: this pod's full DNS name.
pub const HOST: &str = "QUORATE_HOST";
/// Set by the agent for what it starts: the address that brokers of this pod can be reached at.
pub const ADDRESS: &str = "QUORATE_ADDRESS";
/// Set by the agent for what it starts: tells it from other processes, for sweeps.
pub const MARK: &str = "QUORATE_MARK";
/// Set by the agent for launched tasks: the job they belong to.
pub const JOB_ID: &str = "QUORATE_JOB_ID";
/// Set by the agent for launched tasks: the task's rank in its job.
pub const TASK_RANK: &str = "QUORATE_TASK_RANK";
/// Set by the agent for launched tasks: tasks of the job.
pub const TASK_COUNT: &str = "QUORATE_TASK_COUNT";
/// Set by the agent for launched tasks: the task's number on its broker.
pub const TASK_LOCAL_RANK: &str = "QUORATE_TASK_LOCAL_RANK";
/// Set by the agent for tasks of the queue's jobs: slots that the job has on this broker.
pub const SLOTS: &str = "QUORATE_SLOTS";
/// Set for jobs of Slurm's names, and by users for pods whose programs are to find those names.
pub const SLURM: &str = "QUORATE_SLURM";
/// Set by the agent for jobs of Slurm's names: the socket of the cluster that they were submitted to.
pub const SLURM_SOCKET: &str = "QUORATE_SLURM_SOCKET";
/// Set by the agent for what it starts: the directory of the host files that launchers' variables name.
/// Where such an environment is passed on to another cluster, it tells whose these are.
pub const HOST_FILES: &str = "QUORATE_HOST_FILES";
/// The log filter, as in `RUST_LOG`.
pub const LOG: &str = "QUORATE_LOG";
