//! Where workers run: the types of `spec.topology`.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use crate::cel;

/// Where workers run, by a label of nodes. The launcher runs anywhere (`docs/spec/placement.md`).
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[x_kube(validation = cel::topology_says_something())]
#[serde(rename_all = "camelCase")]
pub struct Topology {
    /// The label of nodes whose values are the domains: racks, switches, zones, NVLink cliques;
    /// `kubernetes.io/hostname` makes each node one.
    #[schemars(
        regex(
            pattern = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"
        ),
        length(max = 317)
    )]
    pub key: String,
    /// Workers that belong together: so many with ranks in a row are in one domain. The size of each
    /// worker group is a multiple of it. Default: all workers of a worker group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 99_999))]
    pub group_size: Option<i32>,
    /// True gives a domain to one such group alone: no others of this MiniCluster are in it, and no
    /// workers of another one, in whatever namespace.
    #[serde(default)]
    pub exclusive: bool,
    /// Whether pods wait for nodes where all this holds, or take others if there are none.
    #[serde(default)]
    pub mode: TopologyMode,
}

/// How much is meant of a topology.
#[derive(
    schemars::JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize,
)]
pub enum TopologyMode {
    /// Pods wait until it can be so.
    #[default]
    Required,
    /// The scheduler does what it can.
    Preferred,
}
