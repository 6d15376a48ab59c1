//! What the API server's audit log says: who wrote what, when, and what came of it.
//!
//! One object of `audit.k8s.io/v1` a line, of the stage `ResponseComplete`.

use crate::lab::Lab;
use serde_json::Value;
use std::fs;

/// A write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// create, update, patch, delete or deletecollection.
    pub verb: String,
    /// Plural, with the subresource if there is one: `miniclusters/status`.
    pub resource: String,
    /// The namespace; empty if there is none.
    pub namespace: String,
    /// The name; empty if the server made it up.
    pub name: String,
    /// The HTTP status.
    pub code: u64,
    /// The user's name.
    pub user: String,
    /// The user agent.
    pub agent: String,
    /// The pod whose service account it is, if it is one's.
    pub pod: String,
    /// When the server received it: RFC 3339 with microseconds, which sorts as text.
    pub at: String,
}

impl Write {
    /// When it was received, in seconds of its day.
    pub fn seconds(&self) -> f64 {
        let time = self.at.split_once('T').map_or("", |(_, time)| time.trim_end_matches('Z'));
        time.split(':').fold(0.0, |sum, part| sum * 60.0 + part.parse::<f64>().unwrap_or_default())
    }
}

/// All writes so far that concern a namespace.
pub fn writes(lab: &Lab, namespace: &str) -> Vec<Write> {
    let text = fs::read_to_string(lab.cluster.folder().audit_log()).unwrap();
    let wanted = format!("\"namespace\":\"{namespace}\"");
    let lines = text.lines().filter(|line| line.contains(&wanted));
    let mut writes: Vec<Write> = lines.filter_map(write).collect();
    writes.sort_by(|a, b| a.at.cmp(&b.at));
    writes
}

fn write(line: &str) -> Option<Write> {
    // The last line may not be written to its end yet.
    let event: Value = serde_json::from_str(line).ok()?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let verb = text(&event["verb"]);
    if ["get", "list", "watch"].contains(&verb.as_str()) {
        return None;
    }
    let object = &event["objectRef"];
    let resource = match object["subresource"].as_str() {
        Some(part) => format!("{}/{part}", text(&object["resource"])),
        None => text(&object["resource"]),
    };
    Some(Write {
        verb,
        resource,
        namespace: text(&object["namespace"]),
        name: text(&object["name"]),
        code: event["responseStatus"]["code"].as_u64().unwrap_or_default(),
        user: text(&event["user"]["username"]),
        agent: text(&event["userAgent"]),
        pod: text(&event["user"]["extra"]["authentication.kubernetes.io/pod-name"][0]),
        at: text(&event["requestReceivedTimestamp"]),
    })
}
