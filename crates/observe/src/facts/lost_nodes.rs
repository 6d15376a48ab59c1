//! The note of nodes that do not answer, on the JobSet of a cluster.
//!
//! The scheduler takes a node for good until Kubernetes has missed its heartbeats for 40 s or more, but
//! a cluster's brokers know sooner. An admission policy of the chart reads this note and keeps the
//! cluster's new pods off the nodes that it names.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;
use quorate_plan::labels::{LOST_NODES, LOST_UNTIL};
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
            return json!({
                "labels": {LOST_NODES: null},
                "annotations": {LOST_NODES: null, LOST_UNTIL: null},
            });
        }
        let names: Vec<&str> = self.nodes.iter().map(String::as_str).collect();
        json!({
            "labels": {LOST_NODES: "true"},
            "annotations": {LOST_NODES: names.join(","), LOST_UNTIL: self.until.to_string()},
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_read_as_it_was_written_and_leaves_nothing_behind() {
        let nodes = ["n2", "n3"].map(str::to_owned).into();
        let note = LostNodes { nodes, until: Timestamp::from_second(1_000_000).unwrap() };
        let metadata: ObjectMeta = serde_json::from_value(note.metadata()).unwrap();
        assert_eq!(metadata.annotations.as_ref().unwrap()[LOST_NODES], "n2,n3");
        assert_eq!(metadata.labels.as_ref().unwrap()[LOST_NODES], "true");
        assert_eq!(LostNodes::of(&metadata), note);
        let none = LostNodes::default().metadata();
        for part in ["labels", "annotations"] {
            assert!(none[part].as_object().unwrap().values().all(Value::is_null));
        }
        assert_eq!(LostNodes::of(&ObjectMeta::default()), LostNodes::default());
    }
}
