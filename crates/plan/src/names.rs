//! Names of objects: functions of the MiniCluster's name and UID, so that whoever looks for them
//! needs no search.

use quorate_api::ValidatedMiniCluster;

/// The JobSet: the cluster's own name.
pub fn jobset(cluster: &ValidatedMiniCluster) -> String {
    cluster.name.to_string()
}

/// The Secret with the agent's configuration and the seed.
pub fn secret(cluster: &ValidatedMiniCluster) -> String {
    secret_of(cluster.name.as_str(), cluster.uid.as_deref())
}

/// The same for a cluster's name and UID.
pub fn secret_of(cluster: &str, uid: Option<&str>) -> String {
    // A kubelet keeps immutable objects by name while any pod on its node refers to them, so the pods of a
    // cluster made again under the same name would get the keys of the one before.
    let Some(uid) = uid else { return format!("{cluster}-agent") };
    let part: String = uid.chars().filter(char::is_ascii_alphanumeric).take(8).collect();
    format!("{cluster}-agent-{}", part.to_ascii_lowercase())
}

/// The NetworkPolicy.
pub fn network_policy(cluster: &ValidatedMiniCluster) -> String {
    cluster.name.to_string()
}

/// The PodTemplate that says which nodes the next pods of a JobSet are kept off. The UID makes the name the
/// JobSet's alone, so that nobody has to look whose it is.
pub fn lost_nodes(jobset_uid: &str) -> String {
    format!("quorate-lost-nodes-{jobset_uid}")
}

/// Names inside of a pod; `quorate_api::validate` keeps users away from their prefix.
pub mod pod {
    /// The init container that brings the agent.
    pub const INSTALL: &str = "quorate-install";
    /// The volume of the agent's binary.
    pub const BIN: &str = "quorate-bin";
    /// The volume of the configuration and the seed.
    pub const CONFIG: &str = "quorate-config";
    /// The volume of the broker's run directory.
    pub const RUN: &str = "quorate-run";
    /// The volume of shared memory.
    pub const SHM: &str = "quorate-shm";
}
