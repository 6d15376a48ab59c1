//! The live state of a cluster as its rank 0 knows it: what `quorate-agent overlay status -o json`
//! prints, one object per line with `--watch`, and what observers are told ([`crate::observe`]).

use crate::report::{Phases, Report};
use serde::{Deserialize, Serialize};

/// The state of a broker (docs/spec/overlay.md).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum BrokerState {
    /// Looks for its parent.
    #[default]
    Join,
    /// Connected, its inventory is on the way to rank 0.
    Init,
    /// Waits until the cluster is quorate.
    Quorum,
    /// The cluster is quorate: programs run.
    Run,
    /// The program has ended, tasks are stopped.
    Cleanup,
    /// Children leave before their parents.
    Shutdown,
    /// Gone.
    Exit,
}

/// In the words of a readiness probe that fails, what stands before the error of the broker's last
/// dial. The kubelet keeps them in an event of the pod: rank 0 cannot know them.
pub const DIAL_FAILED: &str = ", its last dial failed: ";

/// The cluster seen from rank 0.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterStatus {
    /// The cluster's name.
    pub cluster: String,
    /// The restart attempt.
    pub attempt: u32,
    /// The state of rank 0.
    pub state: BrokerState,
    /// Brokers planned.
    pub size: u32,
    /// Where the cluster is to be smaller: no job has anything of the brokers from this rank on, and
    /// none will get something of them. Their pods may go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free_from: Option<u32>,
    /// The brokers that wait for jobs before they can go; absent while none does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leaving: Option<Leaving>,
    /// Brokers needed to start.
    pub min_size: u32,
    /// Brokers connected, rank 0 included.
    pub online: u32,
    /// The connected ranks as an id set, `0-2,5`.
    pub online_ranks: String,
    /// Ranks that are connected but have been silent for too long.
    pub torpid_ranks: String,
    /// Ranks that were told to stop and are about to leave: nothing is started there.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub draining_ranks: String,
    /// Planned ranks that are not connected; at most 32 are listed.
    pub missing: Vec<Missing>,
    /// Seconds until the bootstrap gives up; `None` once quorate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gives_up_in_seconds: Option<u64>,
    /// The program, once it was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<ProgramStatus>,
    /// The jobs of its queue, once they were counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueueCounts>,
    /// The same for each named queue, by name; at most [`QUEUES_TOLD`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queues: Vec<NamedCounts>,
    /// Why the queue takes no jobs, in one sentence; absent while it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_trouble: Option<String>,
    /// This life of rank 0's broker, 32 hexadecimal digits; empty from agents that do not say it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub boot: String,
    /// When rank 0 reached what it has reached.
    #[serde(default)]
    pub phases: Phases,
    /// How the program ended, once it has: what the launcher's pod will leave behind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<Report>,
    /// How the overlay fares; only where it is asked for by an observer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub figures: Option<Figures>,
}

/// A broker that should be there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Missing {
    /// Its rank.
    pub rank: u32,
    /// Its pod as people call it, `worker-0-3`.
    pub pod: String,
    /// Seconds since it was last heard of; `None` if it never was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub silent_seconds: Option<u64>,
    /// What is known of why: `no contact`, `refused: attempt 0, now 1`, `lost: ...`.
    pub why: String,
}

/// The running program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProgramStatus {
    /// Ranks; 1 for a command on the launcher.
    pub tasks: u32,
    /// Pods that have at least one of them.
    pub pods: u32,
    /// Tasks by pod as in [`crate::report::Placement::tasks_by_pod`].
    pub tasks_by_pod: String,
}

/// How many jobs a queue knows, by what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueueCounts {
    /// Those that wait for something: nodes, another job, their time, their release.
    pub pending: u64,
    /// Those with nodes.
    pub running: u64,
    /// Those that ended with code 0.
    pub completed: u64,
    /// Those that ended otherwise: failed, cancelled, out of time.
    pub failed: u64,
}

/// The most named queues that are counted apart: a status is one line of bounded length.
pub const QUEUES_TOLD: usize = 64;

/// The jobs of one named queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NamedCounts {
    /// The queue's name.
    pub name: String,
    /// Its jobs.
    #[serde(flatten)]
    pub jobs: QueueCounts,
    /// Jobs that were started in this life of rank 0's broker.
    pub started: u64,
    /// Jobs that ended with code 0 in it, forgotten ones too.
    pub ended_well: u64,
    /// Jobs that ended otherwise in it.
    pub ended_badly: u64,
    /// When the job was submitted that has waited for nodes the longest, in milliseconds since the
    /// Unix epoch; absent while none waits for nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest: Option<u64>,
}

/// Brokers beyond a smaller size, which let the jobs on them end first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Leaving {
    /// Their ranks as an id set.
    pub ranks: String,
    /// Their pods as a host list, `worker-0-[2-3]`.
    pub pods: String,
    /// Jobs that have something of them.
    pub jobs: u32,
}

/// What is measured of the overlay on rank 0, for metrics. Changes all the time, and is told
/// with other changes or when a status is due anyway.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Figures {
    /// Bytes that came in over rank 0's links in this life of its broker, before TLS.
    pub bytes_in: u64,
    /// Bytes that went out.
    pub bytes_out: u64,
    /// How long brokers take to answer rank 0; `None` while there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_trip: Option<RoundTrip>,
}

/// Answers of brokers to a request of rank 0, all hops and both brokers' work included.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RoundTrip {
    /// Brokers that were asked; a sample in large clusters.
    pub brokers: u32,
    /// The median in microseconds.
    pub median_micros: u64,
    /// The slowest in microseconds.
    pub most_micros: u64,
}
