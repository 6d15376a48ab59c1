//! Where workers run: `spec.topology` as affinity of their pods, beside whatever the user's template
//! asks for. Terms of Kubernetes are all to hold, so ours are added and none is changed.
//!
//! A topology group is a Job: its pods share the label [`JOB_KEY`], and no pod of any other Job has
//! that value. `matchLabelKeys` and `mismatchLabelKeys` (KEP-3633, stable since Kubernetes 1.33) put
//! the value in when a pod is made, so one template serves all groups.
//!
//! JobSet's own annotation for this is not used: it makes the other pods of a Job only when the first
//! one has a node, which stands still for ever where all pods of a gang must be there first.

use k8s_openapi::api::core::v1::{
    NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PodAffinityTerm,
    PodSpec, PreferredSchedulingTerm, WeightedPodAffinityTerm,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use quorate_api::jobset::label::JOB_KEY;
use quorate_api::validate::ValidatedTopology;

use crate::labels::{ROLE, WORKER_ROLE};

/// The most that a preference can weigh.
const WEIGHT: i32 = 100;

/// Adds the affinity of a worker's pod.
pub(crate) fn place(pod: &mut PodSpec, topology: &ValidatedTopology) {
    let alone = topology.group_size == Some(1);
    let affinity = pod.affinity.get_or_insert_default();
    on_labelled_nodes(affinity.node_affinity.get_or_insert_default(), topology);
    if !alone {
        let together = PodAffinityTerm {
            match_label_keys: Some(vec![JOB_KEY.to_owned()]),
            ..workers(topology)
        };
        let of_pods = affinity.pod_affinity.get_or_insert_default();
        add(
            together,
            topology,
            &mut of_pods.required_during_scheduling_ignored_during_execution,
            &mut of_pods.preferred_during_scheduling_ignored_during_execution,
        );
    }
    if topology.exclusive {
        let apart = PodAffinityTerm {
            // A pod that is a group of its own keeps away from those of its Job too.
            mismatch_label_keys: (!alone).then(|| vec![JOB_KEY.to_owned()]),
            // Selects all namespaces.
            namespace_selector: Some(LabelSelector::default()),
            ..workers(topology)
        };
        let of_pods = affinity.pod_anti_affinity.get_or_insert_default();
        add(
            apart,
            topology,
            &mut of_pods.required_during_scheduling_ignored_during_execution,
            &mut of_pods.preferred_during_scheduling_ignored_during_execution,
        );
    }
}

/// A node without the label is in no domain: pods there would be neither together nor apart.
fn on_labelled_nodes(affinity: &mut NodeAffinity, topology: &ValidatedTopology) {
    let labelled = NodeSelectorRequirement {
        key: topology.key.clone(),
        operator: "Exists".to_owned(),
        values: None,
    };
    if !topology.required {
        let preference = NodeSelectorTerm {
            match_expressions: Some(vec![labelled]),
            ..NodeSelectorTerm::default()
        };
        affinity
            .preferred_during_scheduling_ignored_during_execution
            .get_or_insert_default()
            .push(PreferredSchedulingTerm { weight: WEIGHT, preference });
        return;
    }
    match &mut affinity.required_during_scheduling_ignored_during_execution {
        Some(selector) => {
            // One of the terms must hold, and within it all expressions. An empty term never holds.
            let empty = |term: &NodeSelectorTerm| {
                term.match_expressions.as_ref().is_none_or(Vec::is_empty)
                    && term.match_fields.as_ref().is_none_or(Vec::is_empty)
            };
            for term in selector.node_selector_terms.iter_mut().filter(|term| !empty(term)) {
                term.match_expressions.get_or_insert_default().push(labelled.clone());
            }
        }
        none => {
            let term = NodeSelectorTerm {
                match_expressions: Some(vec![labelled]),
                ..NodeSelectorTerm::default()
            };
            *none = Some(NodeSelector { node_selector_terms: vec![term] });
        }
    }
}

/// Workers of MiniClusters in the same domain.
fn workers(topology: &ValidatedTopology) -> PodAffinityTerm {
    PodAffinityTerm {
        topology_key: topology.key.clone(),
        label_selector: Some(LabelSelector {
            match_labels: Some([(ROLE.to_owned(), WORKER_ROLE.to_owned())].into()),
            match_expressions: None,
        }),
        ..PodAffinityTerm::default()
    }
}

fn add(
    term: PodAffinityTerm,
    topology: &ValidatedTopology,
    required: &mut Option<Vec<PodAffinityTerm>>,
    preferred: &mut Option<Vec<WeightedPodAffinityTerm>>,
) {
    if topology.required {
        required.get_or_insert_default().push(term);
    } else {
        preferred
            .get_or_insert_default()
            .push(WeightedPodAffinityTerm { weight: WEIGHT, pod_affinity_term: term });
    }
}
