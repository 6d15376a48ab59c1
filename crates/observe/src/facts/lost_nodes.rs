//! The note of nodes that do not answer: on the JobSet of a cluster, where it is remembered, and as a
//! PodTemplate, where it has its effect.
//!
//! The scheduler takes a node for good until Kubernetes has missed its heartbeats for 40 s or more, but
//! a cluster's brokers know sooner. An admission policy of the chart looks for a PodTemplate of the JobSet
//! whose pod is created, and keeps it off the nodes that this names. The policy does not look at JobSets:
//! the API server would go through all those of the namespace for each pod, and nearly none of them has
//! anything to say. There are PodTemplates only as long as there is a note, and nobody runs them.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{
    Affinity, Container, NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm,
    PodSpec, PodTemplate, PodTemplateSpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use k8s_openapi::jiff::Timestamp;
use quorate_api::jobset;
use quorate_plan::labels::{CLUSTER, LOST_NODES, LOST_UNTIL};
use quorate_plan::names;
use serde_json::{Value, json};

/// Nodes that do not answer, and until when that is believed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LostNodes {
    /// Their names; empty when there is no note.
    pub nodes: BTreeSet<String>,
    /// The end of the note; the epoch when there is none.
    pub until: Timestamp,
}

impl LostNodes {
    /// The note on an object. One whose time cannot be read has had it.
    pub fn of(metadata: &ObjectMeta) -> Self {
        let annotation = |key: &str| metadata.annotations.as_ref()?.get(key);
        let Some(names) = annotation(LOST_NODES) else { return Self::default() };
        let until = annotation(LOST_UNTIL).and_then(|text| text.parse().ok());
        Self {
            nodes: names.split(',').map(str::to_owned).filter(|name| !name.is_empty()).collect(),
            until: until.unwrap_or_default(),
        }
    }

    /// The metadata that a merge patch needs to leave this note, or to take the last one away.
    pub fn metadata(&self) -> Value {
        if self.nodes.is_empty() {
            return json!({"annotations": {LOST_NODES: null, LOST_UNTIL: null}});
        }
        json!({"annotations": {LOST_NODES: self.names(), LOST_UNTIL: self.until.to_string()}})
    }

    /// What the policy reads: what new pods of the JobSet get. It belongs to the JobSet, which has the
    /// cluster's name.
    pub fn template(&self, namespace: &str, cluster: &str, jobset_uid: &str) -> PodTemplate {
        let terms = self.nodes.iter().map(|node| NodeSelectorRequirement {
            key: "metadata.name".to_owned(),
            operator: "NotIn".to_owned(),
            values: Some(vec![node.clone()]),
        });
        let term =
            NodeSelectorTerm { match_fields: Some(terms.collect()), ..NodeSelectorTerm::default() };
        let affinity = Affinity {
            node_affinity: Some(NodeAffinity {
                required_during_scheduling_ignored_during_execution: Some(NodeSelector {
                    node_selector_terms: vec![term],
                }),
                ..NodeAffinity::default()
            }),
            ..Affinity::default()
        };
        // A template without a container is refused.
        let nothing = Container {
            name: "none".to_owned(),
            image: Some("none".to_owned()),
            ..Container::default()
        };
        let spec =
            PodSpec { affinity: Some(affinity), containers: vec![nothing], ..PodSpec::default() };
        let labels = [
            ("app.kubernetes.io/managed-by", "quorate"),
            (CLUSTER, cluster),
            (jobset::label::JOBSET_UID, jobset_uid),
            (LOST_NODES, "true"),
        ];
        let owner = OwnerReference {
            api_version: jobset::API_VERSION.to_owned(),
            kind: jobset::KIND.to_owned(),
            name: cluster.to_owned(),
            uid: jobset_uid.to_owned(),
            ..OwnerReference::default()
        };
        PodTemplate {
            metadata: ObjectMeta {
                name: Some(names::lost_nodes(jobset_uid)),
                namespace: Some(namespace.to_owned()),
                labels: Some(labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into()),
                annotations: Some([(LOST_NODES.to_owned(), self.names())].into()),
                owner_references: Some(vec![owner]),
                ..ObjectMeta::default()
            },
            template: Some(PodTemplateSpec { spec: Some(spec), ..PodTemplateSpec::default() }),
        }
    }

    fn names(&self) -> String {
        let names: Vec<&str> = self.nodes.iter().map(String::as_str).collect();
        names.join(",")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note() -> LostNodes {
        let nodes = ["n2", "n3"].map(str::to_owned).into();
        LostNodes { nodes, until: Timestamp::from_second(1_000_000).unwrap() }
    }

    #[test]
    fn a_note_is_read_as_it_was_written_and_leaves_nothing_behind() {
        let note = note();
        let metadata: ObjectMeta = serde_json::from_value(note.metadata()).unwrap();
        assert_eq!(metadata.annotations.as_ref().unwrap()[LOST_NODES], "n2,n3");
        assert_eq!(LostNodes::of(&metadata), note);
        let none = LostNodes::default().metadata();
        assert!(none["annotations"].as_object().unwrap().values().all(Value::is_null));
        assert_eq!(LostNodes::of(&ObjectMeta::default()), LostNodes::default());
    }

    /// The policy reads it by these paths.
    #[test]
    fn the_template_keeps_pods_of_its_jobset_off_each_node() {
        let template = serde_json::to_value(note().template("hpc", "hello", "u-1")).unwrap();
        let metadata = &template["metadata"];
        assert_eq!(metadata["name"], "quorate-lost-nodes-u-1");
        assert_eq!(metadata["labels"]["jobset.sigs.k8s.io/jobset-uid"], "u-1");
        assert_eq!(metadata["labels"][LOST_NODES], "true");
        assert_eq!(metadata["annotations"][LOST_NODES], "n2,n3");
        let owner = json!({
            "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "hello", "uid": "u-1",
        });
        assert_eq!(metadata["ownerReferences"], json!([owner]), "it goes with its JobSet");
        let off = |node| json!({"key": "metadata.name", "operator": "NotIn", "values": [node]});
        let affinity = &template["template"]["spec"]["affinity"]["nodeAffinity"];
        assert_eq!(
            affinity["requiredDuringSchedulingIgnoredDuringExecution"],
            json!({"nodeSelectorTerms": [{"matchFields": [off("n2"), off("n3")]}]})
        );
    }
}
