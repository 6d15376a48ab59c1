//! What is kept of a Workload of Kueue (`kueue.x-k8s.io/v1beta2`; `v1beta1` has the same fields).

use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use super::Reading;

/// The Workload that Kueue made for a JobSet.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WorkloadFacts {
    /// The name.
    pub name: String,
    /// The UID.
    pub uid: String,
    /// The JobSet that it was made for; empty if it is for anything else.
    pub jobset: String,
    /// UIDs of its owners; the JobSet's is among them.
    pub owners: Vec<String>,
    /// The LocalQueue.
    pub queue: String,
    /// The ClusterQueue that admitted it.
    pub cluster_queue: Option<String>,
    /// `spec.active`: false means that someone has switched it off.
    pub active: bool,
    /// When it was created.
    pub created: Option<Timestamp>,
    /// The condition QuotaReserved.
    pub quota_reserved: Reading,
    /// The condition Admitted.
    pub admitted: Reading,
    /// The condition Evicted.
    pub evicted: Reading,
    /// The condition Finished.
    pub finished: Reading,
}

impl WorkloadFacts {
    /// Reads a Workload; whatever is not there or of another type is absent.
    pub fn from_json(object: &Value) -> Self {
        let metadata = &object["metadata"];
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let reading = |kind: &str| {
            object["status"]["conditions"]
                .as_array()
                .into_iter()
                .flatten()
                .find(|condition| condition["type"] == kind)
                .map_or(Reading::Absent, |condition| {
                    Reading::of(
                        condition["status"].as_str().unwrap_or_default(),
                        condition["reason"].as_str(),
                        condition["message"].as_str(),
                        time(&condition["lastTransitionTime"]),
                    )
                })
        };
        Self {
            name: text(&metadata["name"]).unwrap_or_default(),
            uid: text(&metadata["uid"]).unwrap_or_default(),
            jobset: metadata["ownerReferences"]
                .as_array()
                .into_iter()
                .flatten()
                .find(|owner| owner["kind"] == "JobSet")
                .and_then(|owner| text(&owner["name"]))
                .unwrap_or_default(),
            owners: metadata["ownerReferences"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|owner| text(&owner["uid"]))
                .collect(),
            queue: text(&object["spec"]["queueName"]).unwrap_or_default(),
            cluster_queue: text(&object["status"]["admission"]["clusterQueue"]),
            active: object["spec"]["active"].as_bool().unwrap_or(true),
            created: time(&metadata["creationTimestamp"]),
            quota_reserved: reading("QuotaReserved"),
            admitted: reading("Admitted"),
            evicted: reading("Evicted"),
            finished: reading("Finished"),
        }
    }

    /// The UID of the Workload that took its place, while it has not got one again. Kueue says it in
    /// the message alone: `Preempted to accommodate a workload (UID: <uid>, JobUID: <uid>) due to ...`.
    pub fn preemptor(&self) -> Option<&str> {
        let fact = self.evicted.holds().filter(|_| self.quota_reserved.holds().is_none())?;
        let (_, rest) = fact.message.split_once("(UID: ")?;
        let end = rest.find([',', ')'])?;
        (fact.reason == "Preempted").then_some(&rest[..end])
    }
}

fn time(value: &Value) -> Option<Timestamp> {
    value.as_str().and_then(|text| text.parse().ok())
}
