//! Who may reach the pods: the cluster's own pods on every port, since MPI picks its ports itself,
//! and nobody else. Egress stays open, for data and images.

use k8s_openapi::api::networking::v1::{
    NetworkPolicy, NetworkPolicyIngressRule, NetworkPolicyPeer, NetworkPolicySpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use quorate_api::ValidatedMiniCluster;

use crate::{labels, meta, names};

/// `None` when it is not wanted, or when pods use the node's network, where policies do not reach.
pub(crate) fn network_policy(cluster: &ValidatedMiniCluster) -> Option<NetworkPolicy> {
    if !cluster.network_policy || cluster.port_per_rank() {
        return None;
    }
    let pods =
        LabelSelector { match_labels: Some(labels::selector(cluster)), ..LabelSelector::default() };
    Some(NetworkPolicy {
        metadata: meta::object(cluster, names::network_policy(cluster)),
        spec: Some(NetworkPolicySpec {
            pod_selector: Some(pods.clone()),
            ingress: Some(vec![NetworkPolicyIngressRule {
                from: Some(vec![NetworkPolicyPeer {
                    pod_selector: Some(pods),
                    ..NetworkPolicyPeer::default()
                }]),
                ports: None,
            }]),
            egress: None,
            policy_types: Some(vec!["Ingress".to_owned()]),
        }),
    })
}
