//! From a validated MiniCluster to every object that it becomes.
//!
//! ```text
//! ValidatedMiniCluster + Context + Seed --plan--> JobSet, Secret, NetworkPolicy
//! ```
//!
//! Owns: names, labels, and the content of each object. It is a total function of its input: no
//! I/O, no clock, no randomness, and equal input gives equal bytes. It must not judge what a user
//! wrote; that is `quorate_api::validate`.

#![forbid(unsafe_code)]

mod config;
mod delivery;
mod identity;
mod jobset;
pub mod labels;
mod meta;
pub mod names;
mod network_policy;
mod placement;
mod pod;
mod rules;
mod secret;
mod stored;

use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use quorate_api::ValidatedMiniCluster;
use quorate_api::jobset::JobSet;
use quorate_contract::AgentConfig;

pub use config::program;
pub use delivery::Delivery;
pub use identity::{changes, identity};
pub use pod::queue_notes;
pub use quorate_contract::keys::Seed;
pub use rules::{Broken, check_jobset};
pub use stored::dropped;

/// What the plan needs to know besides the MiniCluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Context {
    /// The image that holds the agent at `quorate_contract::paths::IMAGE_AGENT`.
    pub agent_image: String,
    /// How it comes into the pods. Like the image, it counts when a cluster is made and never after.
    pub agent_delivery: Delivery,
    /// Whether its queue takes verbs of people who forward ports to the launcher. Counts when a cluster is
    /// made and never after.
    pub port_forward: bool,
    /// The DNS domain of the Kubernetes cluster, such as `cluster.local`; `None` when the pods' own
    /// search list is to be used.
    pub cluster_domain: Option<String>,
}

/// All objects of one MiniCluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The pods.
    pub jobset: JobSet,
    /// The agent's configuration, and the seed of the brokers' keys.
    pub secret: Secret,
    /// Who may reach the pods; `None` when the user wants none or it would have no effect.
    pub network_policy: Option<NetworkPolicy>,
    /// The configuration in `secret`, for players that need it as data.
    pub config: AgentConfig,
}

/// Plans a MiniCluster.
pub fn plan(cluster: &ValidatedMiniCluster, context: &Context, seed: &Seed) -> Plan {
    let mut config = config::agent_config(cluster, context.cluster_domain.as_deref());
    config.queue.inside_only = !context.port_forward;
    Plan {
        jobset: jobset::jobset(cluster, context),
        secret: secret::secret(cluster, &config, seed),
        network_policy: network_policy::network_policy(cluster),
        config,
    }
}

impl Plan {
    /// All objects as YAML documents, in the order in which they are to be made. The seed is
    /// replaced by a note unless `show_secret` is true.
    pub fn to_yaml(&self, show_secret: bool) -> String {
        let mut secret = serde_json::to_value(&self.secret).expect("objects are plain data");
        if !show_secret && let Some(data) = secret["data"].as_object_mut() {
            for value in data.values_mut() {
                *value = "<redacted>".into();
            }
        }
        let mut documents = vec![secret];
        if let Some(policy) = &self.network_policy {
            documents.push(serde_json::to_value(policy).expect("objects are plain data"));
        }
        documents.push(serde_json::to_value(&self.jobset).expect("objects are plain data"));
        documents
            .iter()
            .map(|document| serde_saphyr::to_string(document).expect("JSON values are YAML"))
            .collect::<Vec<_>>()
            .join("---\n")
    }
}
