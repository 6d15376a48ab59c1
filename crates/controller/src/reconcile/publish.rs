//! Says what a cluster is: its status, written once per change and only when something changed, and an
//! event for each transition. What to say is the business of `quorate_observe`.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::api::{Api, Patch};
use kube::{Resource, ResourceExt};
use quorate_api::MiniCluster;
use quorate_api::status::MiniClusterStatus;
use quorate_observe::{EventDraft, Observed, Pace};
use serde_json::{Map, Value, json};

use super::apply::{Verdict, judge};
use super::count;
use super::memory::{Memory, Written, until};
use crate::context::{Context, written_here};
use crate::metrics::Milestones;
use crate::telemetry;
use crate::watch::{Key, Packed};

/// A bound on how often time alone may lead to another look.
const SOONEST: Duration = Duration::from_millis(100);

/// Why a status could not be written, although another try is worth it.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the status of {name}")]
pub struct PublishError {
    /// The MiniCluster.
    pub name: String,
    /// What the client says.
    #[source]
    pub source: Box<kube::Error>,
}

/// Writes the status if it is time. Returns when to look again, if time alone may change the status.
pub async fn publish(
    context: &Context,
    key: &Key,
    observed: &Observed,
    memory: &mut Memory,
    now: Timestamp,
) -> Result<Option<Duration>, PublishError> {
    let again = quorate_observe::recheck(observed, now).map(|then| until(then, now).max(SOONEST));
    let cluster = &observed.cluster;
    let old = cluster.status.as_ref();
    let new = quorate_observe::status(observed, now);
    let known = memory.milestones.or_else(|| old.is_none().then(Milestones::default));
    let reached = count::milestones(observed, &new, &known.unwrap_or_default());
    if let Some(known) = known {
        context.metrics.milestones(&known, &reached);
        let subject = telemetry::Subject {
            uid: cluster.metadata.uid.as_deref().unwrap_or_default(),
            namespace: &key.namespace,
            name: &key.name,
            program: observed.shape.as_ref().is_some_and(|shape| shape.program),
        };
        telemetry::tell(subject, &known, &reached);
    }
    memory.milestones = Some(reached);
    let starting = context.starting(key, new.state);
    let due = match quorate_observe::pace(old, &new, starting) {
        Pace::Nothing => {
            memory.due = None;
            return Ok(again);
        }
        Pace::Now => now,
        Pace::Within(span) => {
            let span = SignedDuration::try_from(span).unwrap_or(SignedDuration::ZERO);
            // What can wait must not hold up what is to be told sooner.
            let due = memory.due.map_or(now + span, |due| due.min(now + span));
            *memory.due.insert(due)
        }
    };
    if due > now {
        let wait = until(due, now);
        return Ok(Some(again.map_or(wait, |again| again.min(wait))));
    }
    memory.due = None;
    let Some(version) = write(context, key, cluster, &new).await? else {
        // The object has changed meanwhile, or is gone; the watch tells more.
        return Ok(again);
    };
    if let Some(version) = version {
        let upon = cluster.resource_version().unwrap_or_default();
        memory.written = Some(Written { upon, version, status: new.clone() });
    }
    if let Some(cause) = count::restarted(old, &new) {
        context.metrics.restarted(cause);
    }
    for draft in quorate_observe::transitions(old, &new) {
        tell(context, cluster, draft).await;
    }
    Ok(again)
}

/// Writes what differs, upon the version that was read. `None` if that is not the latest any more.
async fn write(
    context: &Context,
    key: &Key,
    cluster: &Arc<MiniCluster>,
    new: &MiniClusterStatus,
) -> Result<Option<Option<String>>, PublishError> {
    let empty = MiniClusterStatus::default();
    let old = cluster.status.as_ref().unwrap_or(&empty);
    let value = |status| serde_json::to_value(status).expect("a status is plain data");
    let patch = json!({
        "metadata": {"uid": cluster.metadata.uid, "resourceVersion": cluster.metadata.resource_version},
        "status": difference(&value(old), &value(new)),
    });
    let api = Api::<Packed>::namespaced(context.client.clone(), &key.namespace);
    match api.patch_status(&key.name, &written_here(), &Patch::Merge(&patch)).await {
        Ok(written) => Ok(Some(written.resource_version())),
        Err(error) => match judge(&error) {
            Verdict::Gone | Verdict::Conflict => Ok(None),
            Verdict::Refused(_) | Verdict::Exists | Verdict::Again => {
                Err(PublishError { name: key.name.clone(), source: Box::new(error) })
            }
        },
    }
}

/// A merge patch (RFC 7386) that makes `new` of `old`.
fn difference(old: &Value, new: &Value) -> Value {
    let (Value::Object(old), Value::Object(new)) = (old, new) else { return new.clone() };
    let mut patch = Map::new();
    for (key, value) in new {
        match old.get(key) {
            Some(before) if before == value => {}
            Some(before) => {
                patch.insert(key.clone(), difference(before, value));
            }
            None => {
                patch.insert(key.clone(), value.clone());
            }
        }
    }
    for key in old.keys().filter(|key| !new.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    Value::Object(patch)
}

/// Publishes an event. One that is lost is no reason to do anything again: the status has it.
async fn tell(context: &Context, cluster: &Arc<MiniCluster>, draft: EventDraft) {
    if let Err(error) = context.recorder.publish(&draft, &cluster.object_ref(&())).await {
        tracing::warn!(mc.name = cluster.name_any(), reason = draft.reason, %error, "event lost");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_differs_is_written_and_what_is_gone_is_nulled() {
        let old = json!({"a": 1, "b": {"c": 2, "d": 3}, "e": [1], "gone": true});
        let new = json!({"a": 1, "b": {"c": 2, "d": 4}, "e": [1, 2]});
        let patch = difference(&old, &new);
        assert_eq!(patch, json!({"b": {"d": 4}, "e": [1, 2], "gone": null}));
    }
}
