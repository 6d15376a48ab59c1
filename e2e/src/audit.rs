//! What the API server wrote down of requests: who asked for what (`audit.k8s.io/v1`, one JSON object
//! a line).

use crate::Lab;
use serde_json::Value;

/// The account that the chart gives the controller.
const CONTROLLER: &str = "system:serviceaccount:quorate-system:quorate";

impl Lab {
    /// Requests of the controller that changed the object `resource/namespace/name`: their verbs, in
    /// the order in which they were answered. Refused ones count too.
    pub fn writes(&self, resource: &str, namespace: &str, name: &str) -> Vec<String> {
        let path = self.cluster.folder().audit_log();
        let log = std::fs::read_to_string(path).unwrap();
        // The last line may not be whole yet.
        let lines = log.lines().filter(|line| line.contains(CONTROLLER) && line.contains(name));
        lines
            .filter_map(|line| serde_json::from_str::<Value>(line).ok())
            .filter(|entry| entry["user"]["username"] == CONTROLLER)
            .filter(|entry| {
                let about = &entry["objectRef"];
                // A create names its object in the body alone; the answer's reference has it.
                about["resource"] == resource
                    && about["namespace"] == namespace
                    && about["name"] == name
            })
            .filter_map(|entry| entry["verb"].as_str().map(str::to_owned))
            .filter(|verb| !["get", "list", "watch"].contains(&verb.as_str()))
            .collect()
    }
}
