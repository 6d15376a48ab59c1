//! Labels and annotations of all objects and pods.

use std::collections::BTreeMap;

use quorate_api::ValidatedMiniCluster;
use quorate_api::names::LAUNCHER;

/// The MiniCluster that an object belongs to.
pub const CLUSTER: &str = "quorate.dev/cluster";
/// The group of a pod.
pub const GROUP: &str = "quorate.dev/group";
/// `launcher` or `worker`, whatever the group is called.
pub const ROLE: &str = "quorate.dev/role";
/// The role of all pods but the launcher's.
pub const WORKER_ROLE: &str = "worker";
/// What the user asked for and a living cluster cannot take ([`crate::identity`]).
pub const SPEC_HASH: &str = "quorate.dev/spec-hash";
/// Nodes that do not answer. On the JobSet of a cluster: an annotation with the nodes' names, separated by
/// commas. On the PodTemplate that says so to the admission policy of the chart: that annotation, and a label
/// (`true`) by which the policy finds it. On a pod: the annotation, with the nodes that the policy keeps it
/// off.
pub const LOST_NODES: &str = "quorate.dev/lost-nodes";
/// When the annotation [`LOST_NODES`] of a JobSet has had its time (RFC 3339).
pub const LOST_UNTIL: &str = "quorate.dev/lost-until";

/// Labels of an object.
pub fn of_object(cluster: &ValidatedMiniCluster) -> BTreeMap<String, String> {
    [
        ("app.kubernetes.io/name", "minicluster"),
        ("app.kubernetes.io/instance", cluster.name.as_str()),
        ("app.kubernetes.io/managed-by", "quorate"),
        (CLUSTER, cluster.name.as_str()),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .into()
}

/// What a group's pods have besides the labels of their user.
pub fn of_pod(cluster: &ValidatedMiniCluster, group: &str) -> BTreeMap<String, String> {
    let role = if group == LAUNCHER { LAUNCHER } else { WORKER_ROLE };
    [(CLUSTER, cluster.name.as_str()), (GROUP, group), (ROLE, role)]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into()
}

/// Whether an annotation of Kueue is about the pods of one template (topology, slices, groups).
pub(crate) fn of_pod_set(key: &str) -> bool {
    key.starts_with("kueue.x-k8s.io/podset-")
}

/// Matches the cluster's pods and nothing else in the namespace.
pub fn selector(cluster: &ValidatedMiniCluster) -> BTreeMap<String, String> {
    [(CLUSTER.to_owned(), cluster.name.to_string())].into()
}

/// Matches the controller's pods, in whatever namespace they are: its chart labels them so.
pub fn controller() -> BTreeMap<String, String> {
    [("app.kubernetes.io/name".to_owned(), "quorate-controller".to_owned())].into()
}
