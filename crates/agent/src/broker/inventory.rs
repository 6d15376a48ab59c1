//! What a broker tells about its pod when it joins: CPUs that cgroup and cpuset really give,
//! memory, names and addresses.

use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// The pod of one broker.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Inventory {
    /// Tasks that this broker takes by default (`slots` of the configuration, `auto` resolved).
    pub slots: u32,
    /// The CPUs that the scheduler lets this pod use, ascending (affinity and cpuset).
    pub cpus: Vec<u32>,
    /// The cgroup's CPU quota in thousandths of a CPU; `None` when there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota_millicpus: Option<u32>,
    /// The cgroup's memory limit in bytes, or the machine's memory.
    pub memory: u64,
    /// The pod's host name as the kernel knows it.
    pub host: String,
    /// The pod's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
    /// The node that the pod is on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Addresses of the pod's interfaces, the pod's main address first, loopback left out unless
    /// there is no other.
    pub addresses: Vec<IpAddr>,
}
