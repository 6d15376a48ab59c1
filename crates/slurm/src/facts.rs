//! What the commands that show something are told: jobs, steps, nodes and partitions as plain facts.
//!
//! [`crate::facts::queue`] fills them from a queue; tests fill them from what the real Slurm says.

pub mod queue;
mod state;

pub(crate) use state::NEVER;
pub use state::{JobState, NodeBase, NodeFlag};

use quorate_hostlist::IdSet;
use std::collections::BTreeMap;

/// Everything that can be asked about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cluster {
    /// Its name.
    pub name: String,
    /// The host of its controller.
    pub host: String,
    /// Jobs, in the order of their numbers; jobs of an array that wait are one.
    pub jobs: Vec<JobFacts>,
    /// Steps, each behind its job's other steps.
    pub steps: Vec<StepFacts>,
    /// Nodes, in order.
    pub nodes: Vec<NodeFacts>,
    /// Partitions, in order.
    pub partitions: Vec<PartitionFacts>,
}

/// Which tasks of an array a job stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArrayTasks {
    /// This one.
    One(u32),
    /// These, which all wait.
    Waiting(IdSet),
}

/// The array of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrayFacts {
    /// The array's number.
    pub job: u64,
    /// Which tasks.
    pub tasks: ArrayTasks,
    /// How many may run at once.
    pub limit: Option<u32>,
}

/// Memory that a job asks for, in megabytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// Of each node.
    Node(u64),
    /// Of each CPU.
    Cpu(u64),
}

/// A job. Moments are seconds since the epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobFacts {
    /// Its number.
    pub id: u64,
    /// Its array.
    pub array: Option<ArrayFacts>,
    /// Its name.
    pub name: String,
    /// Its user's name.
    pub user: String,
    /// Its user's number.
    pub uid: u32,
    /// Its group's name.
    pub group: String,
    /// Its group's number.
    pub gid: u32,
    /// Its priority, 0 if it is held.
    pub priority: u32,
    /// Its niceness.
    pub nice: i64,
    /// Its account.
    pub account: Option<String>,
    /// Its quality of service.
    pub qos: Option<String>,
    /// Its state.
    pub state: JobState,
    /// Why it is in that state, in Slurm's words; `None` is nothing to say.
    pub reason: String,
    /// What it waits for, such as `afterok:17(unfulfilled)`.
    pub dependency: Option<String>,
    /// Runs again after a lost node.
    pub requeue: bool,
    /// How often it began again.
    pub restarts: u32,
    /// A batch script.
    pub batch: bool,
    /// Exit code and signal.
    pub exit: (u8, u8),
    /// Who cancelled it.
    pub cancelled_by: Option<u32>,
    /// Its time limit in seconds.
    pub limit: Option<u64>,
    /// When it was submitted.
    pub submit: i64,
    /// When it could first have run.
    pub eligible: Option<i64>,
    /// Since when its age counts.
    pub accrue: Option<i64>,
    /// When it started; of a job that waits, when it will.
    pub start: Option<i64>,
    /// When it ended; of others, when it will at the latest.
    pub end: Option<i64>,
    /// When the scheduler last looked at it, and which.
    pub looked_at: Option<(i64, String)>,
    /// Its partition.
    pub partition: String,
    /// The host it was submitted from, and the session there.
    pub from: (String, u64),
    /// Nodes that it must have.
    pub wanted_nodes: String,
    /// Nodes that it must not have.
    pub excluded_nodes: String,
    /// Its nodes.
    pub nodes: String,
    /// Nodes that it will have.
    pub planned_nodes: Option<String>,
    /// The node of its script.
    pub batch_host: Option<String>,
    /// How many nodes, fewest and most; the most is 0 where it says nothing.
    pub node_count: (u32, u32),
    /// CPUs in all.
    pub cpus: u32,
    /// Tasks in all.
    pub tasks: Option<u32>,
    /// CPUs of each task.
    pub cpus_per_task: u32,
    /// Tasks of each node at most, 0 if it was not said.
    pub tasks_per_node: u32,
    /// CPUs of each node at least.
    pub min_cpus: u32,
    /// Its memory.
    pub memory: Memory,
    /// GPUs in all.
    pub gpus: u32,
    /// GPUs as they were asked for of each node, such as `gres:gpu:2`.
    pub gres: Option<String>,
    /// Features that its nodes must have.
    pub features: Option<String>,
    /// Whole nodes.
    pub exclusive: bool,
    /// Its script or command.
    pub command: Option<String>,
    /// Its working directory.
    pub directory: String,
    /// The user's comment.
    pub comment: Option<String>,
    /// Its files: standard error, input and output.
    pub files: Option<[String; 3]>,
    /// The command line it was submitted with.
    pub submit_line: String,
}

impl JobFacts {
    /// Seconds that it has run.
    pub fn elapsed(&self, now: i64) -> u64 {
        let end = match self.state {
            JobState::Pending => return 0,
            JobState::Running | JobState::Completing | JobState::Suspended => now,
            _ => self.end.unwrap_or(now),
        };
        let ran = self.start.map_or(0, |start| end.saturating_sub(start));
        u64::try_from(ran).unwrap_or(0)
    }

    /// Its number as people see it: `17`, `17_3`, `17_[4-9%2]`.
    pub fn shown_id(&self) -> String {
        match &self.array {
            None => self.id.to_string(),
            Some(array) => format!("{}_{}", array.job, array.shown(true)),
        }
    }

    /// Its resources, as `cpu=4,mem=200M,node=2,billing=4`.
    pub fn tres(&self) -> String {
        let nodes = self.node_count.0;
        let memory = self.total_memory();
        let mut text = format!("cpu={}", self.cpus);
        if memory > 0 {
            text += &format!(",mem={}", megabytes(memory));
        }
        text += &format!(",node={nodes},billing={}", self.cpus);
        if self.gpus > 0 {
            text += &format!(",gres/gpu={}", self.gpus);
        }
        text
    }

    /// Megabytes on all nodes.
    pub fn total_memory(&self) -> u64 {
        match self.memory {
            Memory::Node(each) => each * u64::from(self.node_count.0),
            Memory::Cpu(each) => each * u64::from(self.cpus),
        }
    }
}

impl ArrayFacts {
    /// The tasks: `3`, `4-9%2`, in brackets on request.
    pub(crate) fn shown(&self, brackets: bool) -> String {
        match &self.tasks {
            ArrayTasks::One(index) => index.to_string(),
            ArrayTasks::Waiting(indices) => {
                let limit = self.limit.map_or_else(String::new, |limit| format!("%{limit}"));
                if brackets { format!("[{indices}{limit}]") } else { format!("{indices}{limit}") }
            }
        }
    }
}

/// Megabytes in the largest unit that divides them: `1500M`, `4G`.
pub(crate) fn megabytes(number: u64) -> String {
    crate::value::memory_text(number << 20)
}

/// A step of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepFacts {
    /// The number of its job.
    pub job: u64,
    /// Its name in the job: `batch`, `extern`, `0`.
    pub step: String,
    /// What it runs.
    pub name: String,
    /// Its state.
    pub state: JobState,
    /// Exit code and signal.
    pub exit: (u8, u8),
    /// When it started.
    pub start: i64,
    /// When it ended.
    pub end: Option<i64>,
    /// Its nodes.
    pub nodes: String,
    /// How many nodes.
    pub node_count: u32,
    /// Its CPUs.
    pub cpus: u32,
    /// Its tasks.
    pub tasks: u32,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeFacts {
    /// Its name.
    pub name: String,
    /// Its host's name.
    pub host: String,
    /// Where it is reached.
    pub address: String,
    /// CPUs it offers.
    pub cpus: u32,
    /// CPUs that jobs have.
    pub used_cpus: u32,
    /// Megabytes it offers.
    pub memory: u64,
    /// Megabytes that jobs have.
    pub used_memory: u64,
    /// Megabytes that are free on the machine, if known.
    pub free_memory: Option<u64>,
    /// Load of the machine, times 100, if known.
    pub load: Option<u32>,
    /// GPUs it offers.
    pub gpus: u32,
    /// GPUs that jobs have.
    pub used_gpus: u32,
    /// Its features.
    pub features: Vec<String>,
    /// Its state.
    pub base: NodeBase,
    /// What is said of its state beside that.
    pub flags: Vec<NodeFlag>,
    /// Why it is drained or down, who said so, and when.
    pub reason: Option<(String, String, i64)>,
    /// Its partitions.
    pub partitions: Vec<String>,
    /// Sockets, cores of each, threads of each.
    pub shape: (u32, u32, u32),
    /// When the machine started.
    pub boot: Option<i64>,
    /// When its broker started.
    pub started: Option<i64>,
    /// When it last had a job.
    pub last_busy: Option<i64>,
    /// Other words about it, by Slurm's keys (Arch, OS, Port, Version).
    pub words: BTreeMap<String, String>,
}

/// A partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionFacts {
    /// Its name.
    pub name: String,
    /// Jobs that name none are in it.
    pub default: bool,
    /// It takes and starts jobs.
    pub state: &'static str,
    /// The longest time limit in seconds.
    pub limit: Option<u64>,
    /// The time limit of jobs without one, in seconds.
    pub default_limit: Option<u64>,
    /// The most nodes of a job.
    pub max_nodes: Option<u32>,
}

/// What a command that shows something is called with.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// What there is.
    pub cluster: &'a Cluster,
    /// What time it is, and where.
    pub clock: crate::calendar::Clock,
    /// The caller's environment.
    pub environment: &'a BTreeMap<String, String>,
    /// The caller's name.
    pub user: &'a str,
}

/// What a command answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// For standard output.
    pub output: String,
    /// For standard error.
    pub errors: String,
    /// The exit code.
    pub code: u8,
}

impl Answer {
    pub(crate) fn said(output: String) -> Self {
        Self { output, ..Self::default() }
    }

    pub(crate) fn failed(errors: impl Into<String>) -> Self {
        let mut errors = errors.into();
        if !errors.ends_with('\n') {
            errors.push('\n');
        }
        Self { errors, code: 1, ..Self::default() }
    }
}
