//! The agent's configuration: one JSON file per cluster, the same for all of its pods
//! (`docs/spec/agent-config.md`). What differs between pods comes from the environment
//! ([`crate::env`]). Secrets are never in it.
//!
//! Unknown fields are ignored so that an older agent can read a newer file of the same
//! [`VERSION`]; a different version is refused.

use serde::{Deserialize, Serialize};

/// The version of the file's format. Raised when an old agent would misread a new file.
pub const VERSION: u32 = 1;

/// The whole file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentConfig {
    /// Must equal [`VERSION`].
    pub version: u32,
    /// Who this cluster is.
    pub cluster: Cluster,
    /// Brokers that the cluster is planned to have now, the launcher included.
    pub size: u32,
    /// Brokers that must be connected before the program starts.
    pub min_size: u32,
    /// The largest size that it may grow to; names and ranks are fixed up to here.
    pub max_size: u32,
    /// All pods by group, in rank order; the first group is the launcher's and has one pod.
    pub groups: Vec<Group>,
    /// How brokers find each other.
    pub bootstrap: Bootstrap,
    /// What the cluster is for.
    pub program: Program,
    /// Which MPI's files and variables batch scripts get.
    #[serde(default)]
    pub mpi: MpiFlavor,
    /// Whose pods these are, in rank order, where they are another cluster's: an instance within a
    /// cluster calls them by the names that they have. Empty where `groups` give the names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<RankName>,
    /// How the job queue works.
    #[serde(default, skip_serializing_if = "Queue::is_default")]
    pub queue: Queue,
}

/// What the pod of a rank is called.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RankName {
    /// By people: `worker-0-3`.
    pub display: String,
    /// Its DNS name, as long as it is known, or its host name.
    pub host: String,
}

/// The job queue on rank 0.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Queue {
    /// The directory of its log and of kept output, on a volume that outlives the launcher's pod;
    /// `None` is `queue` in the run directory, which does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state_dir: Option<String>,
    /// Jobs start in their order alone: none overtakes.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub fifo: bool,
    /// Seconds without an unfinished job after which the cluster ends; `None` is never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_timeout_seconds: Option<u32>,
    /// Nobody is heard who comes by a port-forward (docs/spec/outside.md).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub inside_only: bool,
    /// Its queues, the default one first; none is one without limits.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub queues: Vec<NamedQueue>,
}

/// A queue with limits of its own; what is `None` has none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NamedQueue {
    /// Its name.
    pub name: String,
    /// The groups whose pods its jobs run on; none is all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// The most nodes of a job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_nodes: Option<u32>,
    /// The most tasks of a job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tasks: Option<u32>,
    /// The most cores of a job, in all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_cores: Option<u32>,
    /// The most accelerators of a job, in all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_gpus: Option<u32>,
    /// The longest time limit in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_time_seconds: Option<u32>,
    /// The time limit in seconds of a job that says none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_time_seconds: Option<u32>,
}

impl Queue {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Names that stay the same for the life of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cluster {
    /// The MiniCluster's name, which is also the JobSet's.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// Its UID: names the trust domain, so a re-created cluster of the same name is another one.
    pub uid: String,
    /// The headless Service's name: the second label of every pod's host name.
    pub subdomain: String,
    /// The DNS domain of the Kubernetes cluster, such as `cluster.local`; `None` when the pods'
    /// own search list is to be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
}

/// The pods of one replicated job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Group {
    /// The group's name, which is the replicated job's: `launcher`, `worker`, ...
    pub name: String,
    /// The rank of the group's pod with index 0.
    pub first_rank: u32,
    /// Pods of the group at the cluster's largest size.
    pub count: u32,
    /// Pods of each of the group's Jobs; absent when they are all in one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pods_per_job: Option<u32>,
    /// Tasks that a broker of this group takes by default.
    #[serde(default)]
    pub slots: Slots,
}

impl Group {
    /// The Job of the group's n-th pod, and the pod's index in it.
    fn place(&self, n: u32) -> (u32, u32) {
        match self.pods_per_job {
            Some(pods @ 1..) => (n / pods, n % pods),
            _ => (0, n),
        }
    }
}

/// Tasks that one broker takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Slots {
    /// As many as the CPUs that cgroup and cpuset really give the pod.
    #[default]
    Auto,
    /// Just so many; 0 keeps a launcher free of tasks.
    Fixed(u32),
}

/// How brokers find each other, and how long they try.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Bootstrap {
    /// Children of an inner broker; 0 lets the agent choose from the size.
    #[serde(default)]
    pub fanout: u32,
    /// The TCP port that brokers listen on.
    pub port: u16,
    /// With host networking pods may share an address: rank r then listens on `port + r`.
    #[serde(default)]
    pub port_per_rank: bool,
    /// Seconds until a cluster without quorum fails with a table of who is missing.
    pub timeout_seconds: u32,
    /// Seconds that a broker cut off from rank 0 goes on before it stops its tasks and leaves.
    pub orphan_timeout_seconds: u32,
}

/// What the cluster is for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum Program {
    /// Nothing: stay up until deleted.
    #[default]
    None,
    /// Run once on the launcher, with host files and the remote-shell stand-in at hand.
    Command {
        /// The program and its arguments; never through a shell.
        argv: Vec<String>,
    },
    /// Launched by the brokers.
    Parallel(Parallel),
    /// A batch script in the cluster's own queue; the program ends when its job does.
    Script {
        /// The text, with its interpreter line and its `#SBATCH` or `#QUORATE` lines.
        text: String,
    },
    /// Jobs in the cluster's own queue; the program ends when all of them have.
    Jobs {
        /// In the order of their submission.
        jobs: Vec<Job>,
    },
}

/// A job of a program that is a list of jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Job {
    /// What people call it; unique.
    pub name: String,
    /// The program of each task and its arguments; never through a shell.
    pub argv: Vec<String>,
    /// Tasks in all; `None` means one, or one for each node and place on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tasks: Option<u32>,
    /// Nodes; `None` means as few as the tasks fit on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<u32>,
    /// The most tasks of one node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tasks_per_node: Option<u32>,
    /// Cores of each task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus_per_task: Option<u32>,
    /// Accelerators of each task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpus_per_task: Option<u32>,
    /// Seconds that it may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_limit_seconds: Option<u32>,
    /// Variables added to each task's environment, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<(String, String)>,
    /// The directory to start in; `None` means the container's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_dir: Option<String>,
    /// Jobs before it in the list that must have ended with 0.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<String>,
}

/// A parallel program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Parallel {
    /// The program and its arguments; never through a shell.
    pub argv: Vec<String>,
    /// Ranks in all; `None` means one per slot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tasks: Option<u32>,
    /// Ranks on each pod; `None` means that slots decide.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tasks_per_node: Option<u32>,
    /// CPUs that each rank is bound to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus_per_task: Option<u32>,
    /// Allows more ranks than slots.
    #[serde(default)]
    pub oversubscribe: bool,
    /// Prefixes each output line with the rank.
    #[serde(default)]
    pub label_io: bool,
    /// Variables added to each rank's environment, in order.
    #[serde(default)]
    pub env: Vec<(String, String)>,
    /// The directory to start in; `None` means the container's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_dir: Option<String>,
    /// The way in which ranks are offered to meet.
    #[serde(default)]
    pub mpi: MpiStart,
}

/// The way in which the ranks of a parallel program are offered to meet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MpiStart {
    /// All ways at once; each rank takes the one that its MPI knows.
    #[default]
    Auto,
    /// PMI-1 only.
    Pmi1,
    /// PMI-2 only.
    Pmi2,
    /// PMIx only.
    Pmix,
    /// None: ranks are plain processes.
    None,
}

impl MpiStart {
    /// The word as it stands in the file and on command lines.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Pmi1 => "pmi1",
            Self::Pmi2 => "pmi2",
            Self::Pmix => "pmix",
            Self::None => "none",
        }
    }
}

/// Which MPI's host file format and environment family batch scripts get.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum MpiFlavor {
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

/// Why a configuration is not usable.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The bytes are not the JSON that this version expects.
    #[error("the agent configuration is not readable")]
    Parse(#[source] serde_json::Error),
    /// Written for another generation of agents.
    #[error("the agent configuration has version {found}, this agent reads version {VERSION}")]
    Version {
        /// The version in the file.
        found: u32,
    },
    /// The groups do not cover ranks 0..maxSize one after the other.
    #[error("group {group} of the agent configuration starts at rank {found}, not {expected}")]
    Ranks {
        /// The group that is out of line.
        group: String,
        /// Where it starts.
        found: u32,
        /// Where it should start.
        expected: u32,
    },
}

impl AgentConfig {
    /// Reads and checks a configuration file's bytes.
    pub fn parse(bytes: &[u8]) -> Result<Self, ConfigError> {
        #[derive(Deserialize)]
        struct Probe {
            version: u32,
        }
        let probe: Probe = serde_json::from_slice(bytes).map_err(ConfigError::Parse)?;
        if probe.version != VERSION {
            return Err(ConfigError::Version { found: probe.version });
        }
        let config: Self = serde_json::from_slice(bytes).map_err(ConfigError::Parse)?;
        let mut expected = 0;
        for group in &config.groups {
            if group.first_rank != expected {
                return Err(ConfigError::Ranks {
                    group: group.name.clone(),
                    found: group.first_rank,
                    expected,
                });
            }
            expected += group.count;
        }
        Ok(config)
    }

    /// The bytes that [`Self::parse`] reads: pretty JSON with a final newline, equal for equal
    /// input.
    pub fn render(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("plain data always serializes");
        text.push('\n');
        text
    }

    /// The group of a rank and which of its pods it is, from 0; `None` beyond the largest size.
    pub fn locate(&self, rank: u32) -> Option<(&Group, u32)> {
        self.groups
            .iter()
            .find(|g| rank >= g.first_rank && rank - g.first_rank < g.count)
            .map(|g| (g, rank - g.first_rank))
    }

    /// The rank of the pod with this index in one of a group's Jobs.
    pub fn rank_of(&self, group: &str, job: u32, index: u32) -> Option<u32> {
        let group = self.groups.iter().find(|g| g.name == group)?;
        let n = match group.pods_per_job {
            Some(pods) if index < pods => job.checked_mul(pods)?.checked_add(index)?,
            None if job == 0 => index,
            _ => return None,
        };
        (n < group.count).then(|| group.first_rank + n)
    }

    /// A rank's short host name, as JobSet gives it: `<cluster>-<group>-<job>-<index>`.
    pub fn host_name(&self, rank: u32) -> Option<String> {
        if let Some(name) = self.given(rank) {
            return Some(labels(&name.host, 1));
        }
        self.locate(rank).map(|(group, n)| {
            let (job, index) = group.place(n);
            format!("{}-{}-{job}-{index}", self.cluster.name, group.name)
        })
    }

    /// How people call a rank's pod: the host name without the cluster's, `worker-0-3`.
    pub fn display_name(&self, rank: u32) -> String {
        if let Some(name) = self.given(rank) {
            return name.display.clone();
        }
        match self.locate(rank) {
            Some((group, n)) => {
                let (job, index) = group.place(n);
                format!("{}-{job}-{index}", group.name)
            }
            None => format!("rank-{rank}"),
        }
    }

    /// A rank's name within the namespace: `<host>.<subdomain>`.
    pub fn service_name(&self, rank: u32) -> Option<String> {
        if let Some(name) = self.given(rank) {
            return Some(labels(&name.host, 2));
        }
        self.host_name(rank).map(|host| format!("{host}.{}", self.cluster.subdomain))
    }

    /// A rank's full DNS name without the final dot:
    /// `<host>.<subdomain>.<namespace>.svc.<domain>`, with `cluster.local` where none is known.
    pub fn full_name(&self, rank: u32) -> Option<String> {
        if let Some(name) = self.given(rank) {
            return Some(name.host.clone());
        }
        let domain = self.cluster.domain.as_deref().unwrap_or("cluster.local");
        self.service_name(rank)
            .map(|name| format!("{name}.{}.svc.{domain}", self.cluster.namespace))
    }

    /// The name that a rank was given, where groups do not give it.
    fn given(&self, rank: u32) -> Option<&RankName> {
        self.names.get(usize::try_from(rank).ok()?)
    }

    /// The TCP port that a rank listens on.
    pub fn port(&self, rank: u32) -> u16 {
        let shift = if self.bootstrap.port_per_rank { rank } else { 0 };
        self.bootstrap.port.saturating_add(u16::try_from(shift).unwrap_or(u16::MAX))
    }
}

/// The first labels of a DNS name, or all of it.
fn labels(name: &str, count: usize) -> String {
    name.split('.').take(count).collect::<Vec<_>>().join(".")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(name: &str, first_rank: u32, count: u32, slots: Slots) -> Group {
        Group { name: name.into(), first_rank, count, pods_per_job: None, slots }
    }

    fn config() -> AgentConfig {
        AgentConfig {
            version: VERSION,
            cluster: Cluster {
                name: "hello".into(),
                namespace: "hpc".into(),
                uid: "u-1".into(),
                subdomain: "hello".into(),
                domain: None,
            },
            size: 4,
            min_size: 4,
            max_size: 4,
            groups: vec![
                group("launcher", 0, 1, Slots::Fixed(0)),
                group("worker", 1, 3, Slots::Auto),
            ],
            bootstrap: Bootstrap {
                fanout: 0,
                port: 8117,
                port_per_rank: false,
                timeout_seconds: 600,
                orphan_timeout_seconds: 15,
            },
            program: Program::Parallel(Parallel {
                argv: vec!["./hello".into()],
                tasks: Some(8),
                ..Parallel::default()
            }),
            mpi: MpiFlavor::Auto,
            names: Vec::new(),
            queue: Queue::default(),
        }
    }

    #[test]
    fn render_and_parse_agree() {
        let config = config();
        assert_eq!(AgentConfig::parse(config.render().as_bytes()).unwrap(), config);
    }

    #[test]
    fn ranks_names_and_ports_follow_the_groups() {
        let mut config = config();
        assert_eq!(config.rank_of("worker", 0, 2), Some(3));
        assert_eq!(config.rank_of("worker", 0, 3), None);
        assert_eq!(config.rank_of("worker", 1, 0), None);
        assert_eq!(config.host_name(3).unwrap(), "hello-worker-0-2");
        assert_eq!(config.display_name(0), "launcher-0-0");
        assert_eq!(config.full_name(1).unwrap(), "hello-worker-0-0.hello.hpc.svc.cluster.local");
        assert_eq!(config.port(3), 8117);
        config.bootstrap.port_per_rank = true;
        assert_eq!(config.port(3), 8120);
    }

    #[test]
    fn ranks_go_through_the_jobs_of_a_group_one_after_the_other() {
        let mut config = config();
        config.groups[1].count = 6;
        config.groups[1].pods_per_job = Some(2);
        assert_eq!(AgentConfig::parse(config.render().as_bytes()).unwrap(), config);
        let names: Vec<_> = (1..7).map(|rank| config.display_name(rank)).collect();
        let expected = ["0-0", "0-1", "1-0", "1-1", "2-0", "2-1"].map(|at| format!("worker-{at}"));
        assert_eq!(names, expected);
        assert_eq!(config.host_name(4).unwrap(), "hello-worker-1-1");
        for rank in 1..7 {
            assert_eq!(config.rank_of("worker", (rank - 1) / 2, (rank - 1) % 2), Some(rank));
        }
        assert_eq!(config.rank_of("worker", 0, 2), None, "a Job has two pods");
        assert_eq!(config.rank_of("worker", 3, 0), None, "there are three Jobs");
        assert_eq!(config.rank_of("worker", u32::MAX, 1), None);
    }

    #[test]
    fn an_instance_calls_pods_by_the_names_that_they_have() {
        let mut config = config();
        let host = |host: &str| RankName { display: "worker-0-2".into(), host: host.into() };
        config.names = vec![host("hello-worker-0-2.hello.hpc.svc.cluster.local"), host("node7")];
        assert_eq!(AgentConfig::parse(config.render().as_bytes()).unwrap(), config);
        assert_eq!(config.display_name(0), "worker-0-2");
        assert_eq!(config.host_name(0).unwrap(), "hello-worker-0-2");
        assert_eq!(config.service_name(0).unwrap(), "hello-worker-0-2.hello");
        assert_eq!(config.full_name(0).unwrap(), "hello-worker-0-2.hello.hpc.svc.cluster.local");
        assert_eq!(config.service_name(1).unwrap(), "node7");
        // Others have the names that their groups give.
        assert_eq!(config.display_name(2), "worker-0-1");
    }

    #[test]
    fn another_version_is_refused_and_says_which() {
        let text = config().render().replace("\"version\": 1", "\"version\": 9");
        let error = AgentConfig::parse(text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains("version 9"), "{error}");
    }

    #[test]
    fn groups_with_a_hole_are_refused() {
        let mut config = config();
        config.groups[1].first_rank = 2;
        assert!(AgentConfig::parse(config.render().as_bytes()).is_err());
    }

    #[test]
    fn unknown_fields_are_left_alone() {
        let text = config().render().replacen('{', "{\"later\": 1,", 1);
        assert_eq!(AgentConfig::parse(text.as_bytes()).unwrap(), config());
    }
}
