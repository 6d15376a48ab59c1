//! Who may reach the pods: the cluster's own pods on every port, since MPI picks its ports itself;
//! the controller on the brokers' port, where it asks for the status; and nobody else. Egress stays
//! open, for data and images.
//!
//! The controller is known by a label that any pod may have, in whatever namespace: a planner cannot
//! know where it runs. That opens the one port to pods that call themselves so, and no more than
//! that: what listens there talks to nobody without a key made from the cluster's seed.

use k8s_openapi::api::networking::v1::{
    NetworkPolicy, NetworkPolicyIngressRule, NetworkPolicyPeer, NetworkPolicyPort,
    NetworkPolicySpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
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
            ingress: Some(vec![
                NetworkPolicyIngressRule {
                    from: Some(vec![NetworkPolicyPeer {
                        pod_selector: Some(pods),
                        ..NetworkPolicyPeer::default()
                    }]),
                    ports: None,
                },
                NetworkPolicyIngressRule {
                    from: Some(vec![NetworkPolicyPeer {
                        namespace_selector: Some(LabelSelector::default()),
                        pod_selector: Some(controller()),
                        ..NetworkPolicyPeer::default()
                    }]),
                    ports: Some(vec![NetworkPolicyPort {
                        port: Some(IntOrString::Int(i32::from(cluster.port))),
                        protocol: Some("TCP".to_owned()),
                        end_port: None,
                    }]),
                },
            ]),
            egress: None,
            policy_types: Some(vec!["Ingress".to_owned()]),
        }),
    })
}

fn controller() -> LabelSelector {
    LabelSelector { match_labels: Some(labels::controller()), ..LabelSelector::default() }
}
