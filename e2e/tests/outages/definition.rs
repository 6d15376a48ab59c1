//! JobSet's definition goes while MiniClusters live, and comes back.

use crate::{IMAGE, alone, explained, restarts};
use quorate_e2e::{NAMESPACE, Namespace};
use serde_json::Value;

const DEFINITION: &str = "jobsets.jobset.x-k8s.io";

/// The definition as somebody would apply it.
fn definition(place: &Namespace<'_>) -> String {
    let text = place.kubectl(&["get", "crd", DEFINITION, "-o", "json"]).unwrap();
    let mut object: Value = serde_json::from_str(&text).unwrap();
    object["metadata"] = serde_json::json!({
        "name": DEFINITION,
        "annotations": object["metadata"]["annotations"],
        "labels": object["metadata"]["labels"],
    });
    object.as_object_mut().unwrap().remove("status");
    object.to_string()
}

#[test]
fn without_jobset_s_definition_clusters_say_so_and_come_when_it_is_back() {
    let lab = &*alone();
    let place = Namespace::existing(lab, NAMESPACE);
    let before = restarts(lab);
    place.minicluster("lives", IMAGE);
    let old = place.state("lives", "Ready");
    let definition = definition(&place);
    place.kubectl(&["delete", "crd", DEFINITION]).unwrap();
    place.minicluster("late", IMAGE);
    for name in ["lives", "late"] {
        let object = place.until(name, "explained", |object| {
            object["status"]["reason"] == "AdmissionRefused"
                && object["status"]["message"].as_str().unwrap_or_default().contains("JobSet")
        });
        let message = object["status"]["message"].as_str().unwrap();
        assert!(message.contains("is JobSet installed?"), "{message}");
        explained(lab, name, &object);
    }
    lab.kubectl_with(&["create", "-f", "-"], &definition).unwrap();
    let new = place.state("lives", "Ready");
    place.state("late", "Ready");
    // It is another life of the same object.
    let begun = |object: &Value| object["status"]["startTime"].as_str().unwrap().to_owned();
    assert!(begun(&new) > begun(&old), "{new}");
    assert_eq!(restarts(lab), before, "the controllers lived on");
    place.kubectl(&["delete", "mc", "lives", "late"]).unwrap();
}
