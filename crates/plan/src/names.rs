//! Names of objects: functions of the MiniCluster's name, so that whoever looks for them needs no
//! search.

use quorate_api::ValidatedMiniCluster;

/// The JobSet: the cluster's own name.
pub fn jobset(cluster: &ValidatedMiniCluster) -> String {
    cluster.name.to_string()
}

/// The Secret with the seed.
pub fn secret(cluster: &ValidatedMiniCluster) -> String {
    secret_of(cluster.name.as_str())
}

/// The same for a cluster's name.
pub fn secret_of(cluster: &str) -> String {
    format!("{cluster}-seed")
}

/// The ConfigMap with the agent's configuration.
pub fn config_map(cluster: &ValidatedMiniCluster) -> String {
    format!("{}-agent", cluster.name)
}

/// The NetworkPolicy.
pub fn network_policy(cluster: &ValidatedMiniCluster) -> String {
    cluster.name.to_string()
}

/// Names inside of a pod; `quorate_api::validate` keeps users away from their prefix.
pub mod pod {
    /// The init container that brings the agent.
    pub const INSTALL: &str = "quorate-install";
    /// The volume of the agent's binary.
    pub const BIN: &str = "quorate-bin";
    /// The volume of the configuration.
    pub const CONFIG: &str = "quorate-config";
    /// The volume of the seed.
    pub const SECRET: &str = "quorate-secret";
    /// The volume of the broker's run directory.
    pub const RUN: &str = "quorate-run";
    /// The volume of shared memory.
    pub const SHM: &str = "quorate-shm";
}
