//! Carries actions out. Every write is a create, a patch of one field, or a delete, bound to a UID
//! where there is one: what is made anew under the same name meanwhile is never hit.

mod create;
mod error;
mod keep_off;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::Resource;
use kube::api::{Api, DeleteParams, Patch, Preconditions, PropagationPolicy};
use quorate_api::MiniCluster;
use quorate_api::conditions::reason;
use quorate_api::jobset::JobSet;
use quorate_observe::{EXCUSED, Obstacle};
use serde_json::{Map, Value, json};

use super::compare::Action;
use crate::context::{Context, written_here};
use crate::watch::{Kept, Key, Lean};

pub use create::NOT_INSTALLED;
pub use error::{ApplyError, Verdict, judge};

/// What came of the actions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// Whether what is known of the cluster has changed: its JobSet was made or found, or the answer to a
    /// patch says something new. The watch will bring no news of that any more.
    pub learned: bool,
    /// What was refused, or belongs to someone else.
    pub obstacles: Vec<Obstacle>,
}

impl Applied {
    /// Takes the outcome of another action in.
    fn add(&mut self, other: Self) {
        self.learned |= other.learned;
        self.obstacles.extend(other.obstacles);
    }
}

impl From<Vec<Obstacle>> for Applied {
    /// Nothing learned: what is in the way, if anything is.
    fn from(obstacles: Vec<Obstacle>) -> Self {
        Self { learned: false, obstacles }
    }
}

/// Carries actions out, in their order. Ends with the first error that is worth another try.
pub async fn apply(
    context: &Context,
    key: &Key,
    cluster: &MiniCluster,
    actions: &[Action],
) -> Result<Applied, ApplyError> {
    let mut applied = Applied::default();
    for action in actions {
        tracing::debug!(mc.ns = key.namespace, mc.name = key.name, ?action, "acts");
        let outcome = match action {
            Action::Create => {
                let obstacles = create::everything(context, key, cluster).await?;
                Applied { learned: obstacles.is_empty(), obstacles }
            }
            Action::Find => {
                let learned = create::find(context, key, cluster).await?;
                Applied { learned, obstacles: Vec::new() }
            }
            Action::RestorePolicy => create::policy_again(context, cluster).await?.into(),
            Action::Suspend { uid, suspend } => {
                let patch = json!({"metadata": {"uid": uid}, "spec": {"suspend": suspend}});
                patch_object::<JobSet>(context, key, &key.name, &patch).await?
            }
            Action::Label { uid, labels } => {
                let patch = json!({"metadata": {"uid": uid, "labels": labels}});
                patch_object::<JobSet>(context, key, &key.name, &patch).await?
            }
            Action::Resize { job, uid, pods } => {
                let spec = json!({"parallelism": pods, "completions": pods});
                let patch = json!({"metadata": {"uid": uid}, "spec": spec});
                patch_object::<Job>(context, key, job, &patch).await?
            }
            Action::Unselect { job, uid, keys } => {
                let stale: Map<String, Value> =
                    keys.iter().map(|key| (key.clone(), Value::Null)).collect();
                let spec = json!({"template": {"spec": {"nodeSelector": stale}}});
                let patch = json!({"metadata": {"uid": uid}, "spec": spec});
                let Applied { learned, obstacles } =
                    patch_object::<Job>(context, key, job, &patch).await?;
                // Resumed meanwhile, or a Kubernetes that does not know it: the scheduler will say it.
                if !obstacles.is_empty() {
                    tracing::warn!(
                        mc.ns = key.namespace,
                        mc.name = key.name,
                        refused = ?obstacles,
                        "not taken"
                    );
                }
                Applied { learned, obstacles: Vec::new() }
            }
            Action::Limit { job, uid, seconds } => {
                let spec = json!({"activeDeadlineSeconds": seconds});
                let patch = json!({"metadata": {"uid": uid}, "spec": spec});
                patch_object::<Job>(context, key, job, &patch).await?
            }
            Action::KeepOff { uid, lost_nodes } => {
                keep_off::keep_off(context, key, uid, lost_nodes).await?
            }
            Action::Excuse { pod, uid, why } => {
                tracing::info!(
                    mc.ns = key.namespace,
                    mc.name = key.name,
                    pod,
                    why = why.as_deref(),
                    "tells whose disruption would end the launcher"
                );
                let (status, why) = match why {
                    Some(why) => ("True", why.as_str()),
                    None => ("False", "all workers are there again"),
                };
                let conditions = json!({"conditions": [disruption(status, EXCUSED, why)]});
                patch_pod(context, key, pod, uid, conditions).await?
            }
            Action::GiveUp { pod, uid, why } => {
                tracing::info!(
                    mc.ns = key.namespace,
                    mc.name = key.name,
                    pod,
                    why = why.as_deref(),
                    "gives up a pod of a lost node"
                );
                give_up(context, key, pod, uid, why.as_deref()).await?
            }
            Action::DeleteCluster => {
                let uid = cluster.metadata.uid.clone().unwrap_or_default();
                delete::<MiniCluster>(
                    context,
                    key,
                    &key.name,
                    DeleteParams {
                        propagation_policy: Some(PropagationPolicy::Background),
                        ..at(&uid)
                    },
                )
                .await?
                .into()
            }
        };
        applied.add(outcome);
    }
    Ok(applied)
}

fn at(uid: &str) -> DeleteParams {
    DeleteParams::default()
        .preconditions(Preconditions { uid: Some(uid.to_owned()), resource_version: None })
}

/// The API of a namespaced kind where a cluster lives.
fn api<K>(context: &Context, namespace: &str) -> Api<K>
where
    K: Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>,
{
    Api::namespaced(context.client.clone(), namespace)
}

fn kind<K: Resource<DynamicType = ()>>() -> String {
    K::kind(&()).into_owned()
}

/// Sends a patch that names the object's UID, and keeps what the answer says: the next look may come before
/// the watch has seen it, and would write the same once more. Gone or made anew: nothing is left to do, the
/// watch will tell.
async fn patch_object<K>(
    context: &Context,
    key: &Key,
    name: &str,
    patch: &Value,
) -> Result<Applied, ApplyError>
where
    K: Kept
        + Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>
        + Clone
        + std::fmt::Debug,
{
    let api = api::<Lean<K>>(context, &key.namespace);
    let sent = api.patch(name, &written_here(), &Patch::Merge(patch)).await;
    answer(context, sent, name)
}

/// What came of a patch, after taking note of what the object is now.
fn answer<K>(
    context: &Context,
    sent: Result<Lean<K>, kube::Error>,
    name: &str,
) -> Result<Applied, ApplyError>
where
    K: Kept + Resource<DynamicType = ()>,
{
    let learned = sent.as_ref().is_ok_and(|Lean(object)| context.caches.answered(object));
    let obstacles = outcome(sent, "patch", &kind::<K>(), name)?;
    Ok(Applied { learned, obstacles })
}

async fn delete<K>(
    context: &Context,
    key: &Key,
    name: &str,
    params: DeleteParams,
) -> Result<Vec<Obstacle>, ApplyError>
where
    K: Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned,
{
    let sent = api::<K>(context, &key.namespace).delete(name, &params).await;
    outcome(sent, "delete", &kind::<K>(), name)
}

/// Gives up a pod whose node does not answer, as Kubernetes does with pods of a node that was removed:
/// it has failed, by a disruption, and goes. Deletion alone is not enough: its Job waits for a pod to
/// have failed before it makes another one or fails itself, and nobody else would ever say so.
async fn give_up(
    context: &Context,
    key: &Key,
    pod: &str,
    uid: &str,
    why: Option<&str>,
) -> Result<Applied, ApplyError> {
    let mut status = json!({"phase": "Failed"});
    if let Some(why) = why {
        status["conditions"] = json!([disruption("True", reason::NODE_LOST, why)]);
    }
    let mut said = patch_pod(context, key, pod, uid, status).await?;
    if said.obstacles.is_empty() {
        let now = DeleteParams { grace_period_seconds: Some(0), ..at(uid) };
        said.add(delete::<Pod>(context, key, pod, now).await?.into());
    }
    Ok(said)
}

/// The condition by which Jobs tell a disruption from a failure (KEP-3329).
fn disruption(status: &str, reason: &str, message: &str) -> Value {
    json!({
        "type": "DisruptionTarget",
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": Time(Timestamp::now()),
    })
}

async fn patch_pod(
    context: &Context,
    key: &Key,
    pod: &str,
    uid: &str,
    status: Value,
) -> Result<Applied, ApplyError> {
    let patch = json!({"metadata": {"uid": uid}, "status": status});
    // Strategic: other conditions stay.
    let patch = Patch::Strategic(&patch);
    let api = api::<Lean<Pod>>(context, &key.namespace);
    let sent = api.patch_status(pod, &written_here(), &patch).await;
    answer(context, sent, pod)
}

fn outcome<T>(
    sent: Result<T, kube::Error>,
    verb: &'static str,
    kind: &str,
    name: &str,
) -> Result<Vec<Obstacle>, ApplyError> {
    let Err(error) = sent else { return Ok(Vec::new()) };
    match judge(&error) {
        Verdict::Gone | Verdict::Conflict => Ok(Vec::new()),
        Verdict::Refused(message) => {
            Ok(vec![Obstacle::Refused { kind: kind.to_owned(), name: name.to_owned(), message }])
        }
        Verdict::Exists | Verdict::Again => Err(ApplyError::Request {
            verb,
            kind: kind.to_owned(),
            name: name.to_owned(),
            source: Box::new(error),
        }),
    }
}
