//! What a node is told at its start: who it is, what it has, and how patient it is.

use crate::{BootId, Millis, Rank};
use serde::{Deserialize, Serialize};

/// Everything a node needs to know before its first event.
#[derive(Clone, Debug)]
pub struct Config {
    /// This broker's rank.
    pub rank: Rank,
    /// Brokers planned now.
    pub size: u32,
    /// Brokers that make the cluster quorate, rank 0 included.
    pub min_size: u32,
    /// Ranks are below this for the cluster's whole life; the tree's shape is computed from it.
    pub max_size: u32,
    /// Children of an inner broker; 0 lets [`crate::Topology`] choose.
    pub fanout: u32,
    /// The cluster's UID: brokers of another one are refused.
    pub cluster: String,
    /// The restart attempt: brokers of another one are refused.
    pub attempt: u32,
    /// This life of this broker.
    pub boot: BootId,
    /// What this broker offers.
    pub inventory: Inventory,
    /// Patience.
    pub timing: Timing,
    /// Seeds the jitter of back-offs; any number that differs between brokers.
    pub seed: u64,
}

/// What a broker offers, as its shell found it. Travels to rank 0 in the hello.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Inventory {
    /// The host name as the pod knows it.
    pub hostname: String,
    /// The pod's name; empty outside of Kubernetes.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub pod: String,
    /// The machine that the pod is on; empty when unknown.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub node: String,
    /// IP addresses, the best first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<String>,
    /// Host CPU numbers that the cpuset allows, as an id set: `0-3,8`.
    pub cpus: String,
    /// CPU time that the cgroup grants, in thousandths of a CPU; `None` without a quota.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_quota_milli: Option<u64>,
    /// Bytes of memory that the broker's tasks may use.
    #[serde(default)]
    pub memory_bytes: u64,
    /// Accelerators.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<Gpu>,
    /// Tasks that the broker takes by default.
    pub slots: u32,
}

/// One accelerator.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Gpu {
    /// The vendor's word: `nvidia`, `amd`, `intel`.
    pub vendor: String,
    /// Its number or UUID as the vendor's visibility variable takes it.
    pub id: String,
}

/// How patient a node is. All spans; the same on all brokers of a cluster.
///
/// [`Timing::check`] holds the rules between them; `docs/spec/overlay.md` has the reasons.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timing {
    /// A child pings its parent this often and gets an answer.
    pub keepalive: Millis,
    /// A neighbour silent for this long is torpid: still a member, gets no new work.
    pub torpid_after: Millis,
    /// A child silent for this long is lost. Longer than `orphan_timeout`, so that a broker which
    /// is given up has given up itself before.
    pub lost_after: Millis,
    /// The first wait between two dials of the same parent.
    pub dial_backoff_min: Millis,
    /// The wait between dials doubles up to this.
    pub dial_backoff_max: Millis,
    /// A dial or a handshake that takes longer has failed.
    pub dial_timeout: Millis,
    /// A new broker that cannot reach its parent for this long tries the parent's parent.
    pub reparent_after: Millis,
    /// A broker whose link to its parent broke tries the same parent for this long before the
    /// parent's parent.
    pub redial_for: Millis,
    /// A broker whose own connection broke, and which does not come back within this, is lost.
    pub rejoin_grace: Millis,
    /// The same for brokers below an inner broker that died: they need time to find another parent.
    pub reparent_grace: Millis,
    /// A broker attached to another than its planned parent looks for that one this often.
    pub home_retry: Millis,
    /// A broker without proof that rank 0 lives for this long stops its tasks and leaves.
    pub orphan_timeout: Millis,
    /// A cluster that is not quorate by then fails.
    pub bootstrap_timeout: Millis,
    /// In CLEANUP and SHUTDOWN: a warning that names who is waited for.
    pub shutdown_warn: Millis,
    /// From CLEANUP until everybody has left, at the most.
    pub shutdown_timeout: Millis,
    /// Changes of the online set are collected for this long before they go up.
    pub aggregate: Millis,
    /// A received message is acknowledged by then, when no message of the other direction does it.
    pub ack_delay: Millis,
    /// An unacknowledged message is sent again after this, then after twice as long, up to 8 times.
    pub resend_after: Millis,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            keepalive: Millis(2_000),
            torpid_after: Millis(5_000),
            lost_after: Millis(20_000),
            dial_backoff_min: Millis(50),
            dial_backoff_max: Millis(1_000),
            dial_timeout: Millis(5_000),
            reparent_after: Millis(5_000),
            redial_for: Millis(1_000),
            rejoin_grace: Millis(3_000),
            reparent_grace: Millis(10_000),
            home_retry: Millis(30_000),
            orphan_timeout: Millis(15_000),
            bootstrap_timeout: Millis(600_000),
            shutdown_warn: Millis(5_000),
            shutdown_timeout: Millis(20_000),
            aggregate: Millis(5),
            ack_delay: Millis(20),
            resend_after: Millis(500),
        }
    }
}

/// A rule between two spans that does not hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{longer} must be longer than {shorter}")]
pub struct TimingError {
    /// The span that is too short.
    pub longer: &'static str,
    /// The span that it must exceed.
    pub shorter: &'static str,
}

impl Timing {
    /// All spans multiplied by `factor / 1000`, at least 1 ms each: for test clusters and
    /// simulations that cannot wait.
    #[must_use]
    pub fn scaled(&self, factor: u64) -> Self {
        let scale = |span: Millis| Millis((span.0 * factor / 1000).max(1));
        Self {
            keepalive: scale(self.keepalive),
            torpid_after: scale(self.torpid_after),
            lost_after: scale(self.lost_after),
            dial_backoff_min: scale(self.dial_backoff_min),
            dial_backoff_max: scale(self.dial_backoff_max),
            dial_timeout: scale(self.dial_timeout),
            reparent_after: scale(self.reparent_after),
            redial_for: scale(self.redial_for),
            rejoin_grace: scale(self.rejoin_grace),
            reparent_grace: scale(self.reparent_grace),
            home_retry: scale(self.home_retry),
            orphan_timeout: scale(self.orphan_timeout),
            bootstrap_timeout: scale(self.bootstrap_timeout),
            shutdown_warn: scale(self.shutdown_warn),
            shutdown_timeout: scale(self.shutdown_timeout),
            aggregate: scale(self.aggregate),
            ack_delay: scale(self.ack_delay),
            resend_after: scale(self.resend_after),
        }
    }

    /// Checks the rules without which the overlay's promises do not hold.
    pub fn check(&self) -> Result<(), TimingError> {
        let rules = [
            (self.torpid_after, self.keepalive, "torpid_after", "keepalive"),
            (self.orphan_timeout, self.torpid_after, "orphan_timeout", "torpid_after"),
            (self.lost_after, self.orphan_timeout, "lost_after", "orphan_timeout"),
            (self.reparent_grace, self.redial_for, "reparent_grace", "redial_for"),
            (self.resend_after, self.ack_delay, "resend_after", "ack_delay"),
        ];
        match rules.into_iter().find(|(longer, shorter, ..)| longer <= shorter) {
            Some((_, _, longer, shorter)) => Err(TimingError { longer, shorter }),
            None => Ok(()),
        }
    }
}
