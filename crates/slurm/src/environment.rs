//! The variables that batch scripts, tasks of srun and shells of salloc find.
//!
//! Complete enough for what reads them: PyTorch Lightning, JAX, Ray and MPI launchers inside an
//! allocation. What was asked for at submit (`SLURM_NTASKS`, `SLURM_CPUS_PER_TASK`, ...) is in the
//! job's own environment already ([`crate::options::wanted`]); here is what is known once there are nodes.

use quorate_hostlist::HostList;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Variables by name.
pub type Variables = BTreeMap<String, String>;

/// What a job, or a step, has of one node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// The node's name.
    pub node: String,
    /// Tasks there.
    pub tasks: u32,
    /// CPUs there.
    pub cpus: u32,
    /// Numbers of its GPUs there.
    pub gpus: Vec<u32>,
}

/// An array, as its jobs see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrayPlace {
    /// The array's number.
    pub job: u64,
    /// This job's index.
    pub index: u32,
    /// How many jobs there are.
    pub count: u32,
    /// The smallest index.
    pub least: u32,
    /// The largest index.
    pub most: u32,
    /// The step between the first two, 1 for one job.
    pub step: u32,
}

impl ArrayPlace {
    /// The place of an index among the indices of an array.
    pub fn among(job: u64, index: u32, indices: &quorate_hostlist::IdSet) -> Self {
        let mut all = indices.iter();
        let least = all.next().unwrap_or(index);
        let step = all.next().map_or(1, |second| second - least);
        Self {
            job,
            index,
            count: u32::try_from(indices.len()).unwrap_or(u32::MAX),
            least,
            most: indices.last().unwrap_or(index),
            step,
        }
    }
}

/// A job that has its nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placed {
    /// Its number.
    pub job: u64,
    /// Its name.
    pub name: String,
    /// The cluster's name.
    pub cluster: String,
    /// Its partition.
    pub partition: String,
    /// Its account.
    pub account: Option<String>,
    /// Its quality of service.
    pub qos: Option<String>,
    /// Its user's name and number.
    pub user: (String, u32),
    /// Its group's number.
    pub gid: u32,
    /// What it has of each node, in order.
    pub shares: Vec<Share>,
    /// Its array.
    pub array: Option<ArrayPlace>,
    /// When it started and when it ends at the latest, in seconds since the epoch.
    pub start: i64,
    /// When it ends at the latest.
    pub end: Option<i64>,
    /// How often it began again.
    pub restarts: u32,
}

/// A step of srun.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stepped {
    /// Its number in the job.
    pub step: u32,
    /// What it has of each node, in order.
    pub shares: Vec<Share>,
    /// `block` or `cyclic`.
    pub distribution: String,
    /// The address of the node that srun runs on.
    pub launcher: String,
}

/// A task of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Task<'a> {
    /// Its rank in the step.
    pub rank: u32,
    /// Its place on the node.
    pub local: u32,
    /// The place of its node in the step.
    pub node: u32,
    /// Ranks of all tasks on the node.
    pub beside: &'a [u32],
    /// Its process.
    pub process: u32,
}

/// Counts with repeats: `2(x3),1`.
pub fn counts(numbers: impl IntoIterator<Item = u32>) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for number in numbers {
        match runs.last_mut() {
            Some((last, times)) if *last == number => *times += 1,
            _ => runs.push((number, 1)),
        }
    }
    let mut text = String::new();
    for (number, times) in runs {
        let comma = if text.is_empty() { "" } else { "," };
        let _ = match times {
            1 => write!(text, "{comma}{number}"),
            _ => write!(text, "{comma}{number}(x{times})"),
        };
    }
    text
}

fn nodes(shares: &[Share]) -> String {
    shares.iter().map(|share| share.node.as_str()).collect::<HostList>().to_string()
}

fn numbers(list: &[u32]) -> String {
    let words: Vec<String> = list.iter().map(u32::to_string).collect();
    words.join(",")
}

/// What every process of a job finds: shells of salloc too.
pub fn shell(placed: &Placed) -> Variables {
    let mut variables = Variables::new();
    let mut say = |name: &str, value: String| {
        variables.insert(format!("SLURM_{name}"), value);
    };
    let list = nodes(&placed.shares);
    let count = placed.shares.len().to_string();
    say("CLUSTER_NAME", placed.cluster.clone());
    for name in ["JOB_ID", "JOBID"] {
        say(name, placed.job.to_string());
    }
    say("JOB_NAME", placed.name.clone());
    say("JOB_PARTITION", placed.partition.clone());
    for name in ["JOB_NODELIST", "NODELIST"] {
        say(name, list.clone());
    }
    for name in ["JOB_NUM_NODES", "NNODES"] {
        say(name, count.clone());
    }
    say("JOB_CPUS_PER_NODE", counts(placed.shares.iter().map(|share| share.cpus)));
    say("TASKS_PER_NODE", counts(placed.shares.iter().map(|share| share.tasks)));
    say("NODE_ALIASES", "(null)".to_owned());
    say("JOB_USER", placed.user.0.clone());
    say("JOB_UID", placed.user.1.to_string());
    say("JOB_GID", placed.gid.to_string());
    say("JOB_START_TIME", placed.start.to_string());
    if let Some(end) = placed.end {
        say("JOB_END_TIME", end.to_string());
    }
    if let Some(account) = &placed.account {
        say("JOB_ACCOUNT", account.clone());
    }
    if let Some(qos) = &placed.qos {
        say("JOB_QOS", qos.clone());
    }
    if placed.restarts > 0 {
        say("RESTART_COUNT", placed.restarts.to_string());
    }
    if let Some(array) = placed.array {
        say("ARRAY_JOB_ID", array.job.to_string());
        say("ARRAY_TASK_ID", array.index.to_string());
        say("ARRAY_TASK_COUNT", array.count.to_string());
        say("ARRAY_TASK_MIN", array.least.to_string());
        say("ARRAY_TASK_MAX", array.most.to_string());
        say("ARRAY_TASK_STEP", array.step.to_string());
    }
    variables
}

/// What a process on a node finds of that node.
fn on_node(variables: &mut Variables, share: Option<&Share>, prefix: &str) {
    let Some(share) = share else { return };
    variables.insert("SLURMD_NODENAME".to_owned(), share.node.clone());
    let mut say = |name: &str, value: String| {
        variables.insert(format!("SLURM_{name}"), value);
    };
    say("CPUS_ON_NODE", share.cpus.to_string());
    say("TOPOLOGY_ADDR", share.node.clone());
    say("TOPOLOGY_ADDR_PATTERN", "node".to_owned());
    if !share.gpus.is_empty() {
        say("GPUS_ON_NODE", share.gpus.len().to_string());
        say(&format!("{prefix}_GPUS"), numbers(&share.gpus));
    }
}

/// What a batch script finds on the first node; `process` is its number.
pub fn batch(placed: &Placed, process: u32) -> Variables {
    let mut variables = shell(placed);
    on_node(&mut variables, placed.shares.first(), "JOB");
    variables.insert("ENVIRONMENT".to_owned(), "BATCH".to_owned());
    for name in ["GTIDS", "LOCALID", "NODEID", "PROCID", "PRIO_PROCESS"] {
        variables.insert(format!("SLURM_{name}"), "0".to_owned());
    }
    variables.insert("SLURM_TASK_PID".to_owned(), process.to_string());
    variables
}

/// What a task of a step finds.
pub fn task(placed: &Placed, stepped: &Stepped, task: &Task<'_>) -> Variables {
    let mut variables = shell(placed);
    let node = task.node as usize;
    on_node(&mut variables, stepped.shares.get(node), "STEP");
    let name = stepped.shares.get(node).map(|share| share.node.as_str());
    // The allocation may have more of the node than the step.
    if let Some(whole) = placed.shares.iter().find(|share| Some(share.node.as_str()) == name) {
        variables.insert("SLURM_CPUS_ON_NODE".to_owned(), whole.cpus.to_string());
    }
    let mut say = |name: &str, value: String| {
        variables.insert(format!("SLURM_{name}"), value);
    };
    let tasks: u32 = stepped.shares.iter().map(|share| share.tasks).sum();
    let per_node = counts(stepped.shares.iter().map(|share| share.tasks));
    let count = stepped.shares.len().to_string();
    for name in ["STEP_ID", "STEPID"] {
        say(name, stepped.step.to_string());
    }
    say("STEP_NODELIST", nodes(&stepped.shares));
    say("STEP_NUM_NODES", count.clone());
    say("STEP_NUM_TASKS", tasks.to_string());
    say("STEP_TASKS_PER_NODE", per_node.clone());
    // Of a task these are about its step.
    say("NNODES", count);
    say("TASKS_PER_NODE", per_node);
    for name in ["NTASKS", "NPROCS"] {
        say(name, tasks.to_string());
    }
    say("DISTRIBUTION", stepped.distribution.clone());
    say("LAUNCH_NODE_IPADDR", stepped.launcher.clone());
    say("SRUN_COMM_HOST", stepped.launcher.clone());
    say("GTIDS", numbers(task.beside));
    say("PROCID", task.rank.to_string());
    say("LOCALID", task.local.to_string());
    say("NODEID", task.node.to_string());
    say("PRIO_PROCESS", "0".to_owned());
    say("TASK_PID", task.process.to_string());
    variables
}

/// Variables of one job that no prefix tells.
const OWN: &[&str] = &[
    "CPUS_ON_NODE",
    "GPUS_ON_NODE",
    "GTIDS",
    "JOBID",
    "LAUNCH_NODE_IPADDR",
    "LOCALID",
    "NODEID",
    "PROCID",
    "RESTART_COUNT",
    "STEPID",
    "TASK_PID",
    "TASKS_PER_NODE",
];

/// Whether a variable says something of a job that its steps must find as well, although they know nothing
/// of it but what they are told.
pub fn of_the_whole_job(name: &str) -> bool {
    name == "SLURM_JOBID" || name.starts_with("SLURM_JOB_") || name.starts_with("SLURM_ARRAY_")
}

/// Whether a variable says something of one job, so that another must not inherit it.
pub fn of_a_job(name: &str) -> bool {
    let Some(rest) = name.strip_prefix("SLURM_") else {
        return matches!(name, "SLURMD_NODENAME" | "ENVIRONMENT");
    };
    OWN.contains(&rest)
        || ["ARRAY_", "STEP_", "JOB_", "SRUN_", "TOPOLOGY_"]
            .iter()
            .any(|start| rest.starts_with(start))
}

#[cfg(test)]
mod tests;
