//! Makes the objects of a cluster.
//!
//! Order: Secret and NetworkPolicy at once, then the JobSet. The first is mounted by every pod, and a kubelet
//! that misses it tries again with growing waits; the policy must stand before a broker listens. The JobSet
//! comes last, so a cluster that has one has everything: a controller that dies in between leaves no JobSet
//! behind, and the next one begins anew, finding what is there already to be its own.
//!
//! Objects are created, never applied or replaced. One that is there is looked at: ours is kept as it is
//! (the Secret keeps its seed), one of a former cluster of the same name is waited for until the garbage
//! collector has it, anybody else's is reported and left alone.

use std::fmt::Debug;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::{GetParams, Patch, PostParams};
use kube::{Resource, ResourceExt};
use quorate_api::MiniCluster;
use quorate_api::jobset::JobSet;
use quorate_api::minicluster::{GROUP, KIND};
use quorate_observe::{EventDraft, EventType, Obstacle};
use quorate_plan::{Plan, Seed, labels};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use zeroize::Zeroizing;

use super::{ApplyError, Verdict, api, judge, kind};
use crate::context::{Context, FIELD_MANAGER, written_here};
use crate::reconcile::validate::validated;
use crate::watch::{Cache, Key, Owner, place};

/// Dropped fields that an event names; its note may have 1 KiB.
const MOST_FIELDS: usize = 5;

/// The end of what is said of a kind that the API server does not know.
pub const NOT_INSTALLED: &str = "installed?";

/// What came of a create.
enum Made<K> {
    /// It is there, and new.
    New(Box<K>),
    /// It was there, and is ours; this is its metadata.
    Ours(Box<ObjectMeta>),
    /// It cannot be had.
    Not(Obstacle),
}

/// Makes all objects. Returns what is in the way; if that is nothing, the JobSet is there.
pub(super) async fn everything(
    context: &Context,
    key: &Key,
    cluster: &MiniCluster,
) -> Result<Vec<Obstacle>, ApplyError> {
    let Some(plan) = planned(context, cluster)? else { return Ok(Vec::new()) };
    let Plan { jobset, secret, network_policy, config } = plan;
    let uid = cluster.uid().unwrap_or_default();
    let policy = async {
        match &network_policy {
            Some(policy) => post(context, &uid, policy).await.map(Some),
            None => Ok(None),
        }
    };
    let (secret, made_policy, service) = tokio::try_join!(
        post(context, &uid, &secret),
        policy,
        service(context, key, &config.cluster.subdomain),
    )?;
    // It has a watch of its own, which may be later than that of JobSets.
    let caches = &context.caches;
    let policy = made_policy.zip(network_policy.as_ref());
    let mut obstacles: Vec<Obstacle> = [
        secret.obstacle(),
        policy.and_then(|(made, planned)| {
            made.known(&caches.network_policies, &planned.metadata, &uid)
        }),
        service,
    ]
    .into_iter()
    .flatten()
    .collect();
    if !obstacles.is_empty() {
        return Ok(obstacles);
    }
    match post(context, &uid, &jobset).await? {
        Made::New(stored) => {
            let dropped = quorate_plan::dropped(&jobset, &stored);
            if !dropped.is_empty() {
                warn_of_dropped(context, key, cluster, &dropped).await;
            }
            // The next look may come before the watch has seen it.
            context.caches.answered(&*stored);
        }
        Made::Ours(found) => match relabel(context, key, &found).await? {
            Some(jobset) => {
                context.caches.answered(&*jobset);
            }
            None => return Err(leftover(&jobset)),
        },
        Made::Not(obstacle) => obstacles.push(obstacle),
    }
    Ok(obstacles)
}

/// Fields that the API server did not keep: pods will not be what was asked for. Told once, as an event,
/// since nothing can be done about this JobSet.
async fn warn_of_dropped(context: &Context, key: &Key, cluster: &MiniCluster, fields: &[String]) {
    tracing::warn!(mc.ns = key.namespace, mc.name = key.name, ?fields, "the JobSet lost fields");
    let more = fields.len().saturating_sub(MOST_FIELDS);
    let named = fields.iter().take(MOST_FIELDS).cloned().collect::<Vec<_>>().join(", ");
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    let event = EventDraft {
        kind: EventType::Warning,
        reason: "FieldsDropped".to_owned(),
        action: "Create".to_owned(),
        note: format!(
            "the API server dropped {named}{more} of the JobSet: update JobSet's definition"
        ),
    };
    if let Err(error) = context.recorder.publish(&event, &cluster.object_ref(&())).await {
        tracing::warn!(mc.name = key.name, reason = event.reason, %error, "event lost");
    }
}

/// Looks for a JobSet of this cluster that no watch has shown; tells whether it was found. One whose
/// label somebody has changed gets that back.
pub(super) async fn find(
    context: &Context,
    key: &Key,
    cluster: &MiniCluster,
) -> Result<bool, ApplyError> {
    let found = api::<JobSet>(context, &key.namespace).get_metadata_opt(&key.name).await;
    let found = found.map_err(|error| failed::<JobSet>("get", &key.name, error))?;
    let Some(found) = found.map(|found| found.metadata) else { return Ok(false) };
    let ours = controller(&found).is_some_and(|owner| Some(&owner.uid) == cluster.uid().as_ref());
    if !ours || found.deletion_timestamp.is_some() {
        return Ok(false);
    }
    let Some(jobset) = relabel(context, key, &found).await? else { return Ok(false) };
    context.caches.answered(&*jobset);
    Ok(true)
}

/// Reads our JobSet, and puts the label back by which watches find it if somebody has changed that.
/// `None` if it is gone, or another one by now.
async fn relabel(
    context: &Context,
    key: &Key,
    found: &ObjectMeta,
) -> Result<Option<Box<JobSet>>, ApplyError> {
    let api = api::<JobSet>(context, &key.namespace);
    let label = found.labels.as_ref().and_then(|labels| labels.get(labels::CLUSTER));
    let sent = if label == Some(&key.name) {
        // The watch is late.
        api.get(&key.name).await
    } else {
        tracing::warn!(
            mc.ns = key.namespace,
            mc.name = key.name,
            label = labels::CLUSTER,
            "puts a label of the JobSet back that somebody has changed"
        );
        let labels = json!({labels::CLUSTER: key.name});
        let patch = json!({"metadata": {"uid": found.uid, "labels": labels}});
        api.patch(&key.name, &written_here(), &Patch::Merge(&patch)).await
    };
    match sent {
        Ok(jobset) => Ok(Some(Box::new(jobset)).filter(|one| one.metadata.uid == found.uid)),
        Err(error) => match judge(&error) {
            Verdict::Gone | Verdict::Conflict => Ok(None),
            _ => Err(failed::<JobSet>("patch", &key.name, error)),
        },
    }
}

fn failed<K>(verb: &'static str, name: &str, source: kube::Error) -> ApplyError
where
    K: Resource<DynamicType = ()>,
{
    let (kind, name) = (kind::<K>(), name.to_owned());
    ApplyError::Request { verb, kind, name, source: Box::new(source) }
}

fn leftover<K: Resource<DynamicType = ()>>(object: &K) -> ApplyError {
    ApplyError::Leftover { kind: kind::<K>(), name: object.name_any() }
}

/// Makes the NetworkPolicy again that was deleted. The Secret is not watched, which would need the right to
/// read every Secret, and a new seed would divide a running cluster.
pub(super) async fn policy_again(
    context: &Context,
    cluster: &MiniCluster,
) -> Result<Vec<Obstacle>, ApplyError> {
    let policy = planned(context, cluster)?.and_then(|plan| plan.network_policy);
    let Some(policy) = policy else { return Ok(Vec::new()) };
    let uid = cluster.uid().unwrap_or_default();
    let made = post(context, &uid, &policy).await?;
    let known = made.known(&context.caches.network_policies, &policy.metadata, &uid);
    Ok(known.into_iter().collect())
}

/// The whole plan; nothing for an object that is not valid.
fn planned(context: &Context, cluster: &MiniCluster) -> Result<Option<Plan>, ApplyError> {
    let Ok(valid) = validated(cluster) else { return Ok(None) };
    let mut bytes = Zeroizing::new([0; 32]);
    getrandom::fill(&mut *bytes).map_err(ApplyError::Seed)?;
    Ok(Some(quorate_plan::plan(&valid, &context.plan(), &Seed::new(*bytes))))
}

impl<K> Made<K> {
    fn obstacle(self) -> Option<Obstacle> {
        match self {
            Self::New(_) | Self::Ours(_) => None,
            Self::Not(obstacle) => Some(obstacle),
        }
    }
}

impl<K: Resource> Made<K> {
    /// Takes note that an object of this cluster is there although the watch does not say so: it is late,
    /// or somebody has removed the label that the watch goes by, which is theirs to do.
    fn known(self, cache: &Cache<Owner>, planned: &ObjectMeta, uid: &str) -> Option<Obstacle> {
        let found = match self {
            Self::New(ref made) => made.meta(),
            Self::Ours(ref found) => found,
            Self::Not(obstacle) => return Some(obstacle),
        };
        let labelled = ObjectMeta {
            uid: found.uid.clone(),
            resource_version: found.resource_version.clone(),
            ..planned.clone()
        };
        let owner = Owner(uid.to_owned());
        if let Some(place) = place(&labelled) {
            cache.answered(place, owner);
        }
        None
    }
}

/// Creates an object, or finds out whose it is.
async fn post<K>(context: &Context, uid: &str, object: &K) -> Result<Made<K>, ApplyError>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
        + Clone
        + Debug
        + Serialize
        + DeserializeOwned,
{
    let (kind, name) = (kind::<K>(), object.name_any());
    let failed = |verb, source| failed::<K>(verb, &name, source);
    let api = api::<K>(context, &object.namespace().unwrap_or_default());
    let params =
        PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
    let error = match api.create(&params, object).await {
        Ok(made) => return Ok(Made::New(Box::new(made))),
        Err(error) => error,
    };
    match judge(&error) {
        Verdict::Exists => {}
        Verdict::Gone => {
            let message = format!(
                "{error}: neither the namespace nor the kind {kind} may be missing; is {kind} {NOT_INSTALLED}"
            );
            return Ok(Made::Not(Obstacle::Refused { kind, name, message }));
        }
        Verdict::Refused(message) => {
            return Ok(Made::Not(Obstacle::Refused { kind, name, message }));
        }
        Verdict::Conflict | Verdict::Again => return Err(failed("create", error)),
    }
    let found = match api.get_metadata_opt(&name).await {
        Ok(Some(found)) => found.metadata,
        // Gone again: the next try will have the name.
        Ok(None) => return Err(ApplyError::Leftover { kind, name }),
        Err(error) => return Err(failed("get", error)),
    };
    match controller(&found) {
        Some(owner) if owner.uid == uid => Ok(Made::Ours(Box::new(found))),
        // The garbage collector takes it along with its owner.
        Some(owner) if former(owner, object.meta()) => Err(ApplyError::Leftover { kind, name }),
        owner => Ok(Made::Not(taken(kind, name, owner))),
    }
}

/// The Service of the subdomain, if that is somebody else's: JobSet would use it as it is, and no
/// host name would resolve. The answer may be a moment old, which is much cheaper for the server.
async fn service(
    context: &Context,
    key: &Key,
    subdomain: &str,
) -> Result<Option<Obstacle>, ApplyError> {
    let found = api::<Service>(context, &key.namespace)
        .get_metadata_opt_with(subdomain, &GetParams::at("0"))
        .await;
    let found = match found {
        Ok(found) => found,
        Err(error) => {
            return Err(ApplyError::Request {
                verb: "get",
                kind: kind::<Service>(),
                name: subdomain.to_owned(),
                source: Box::new(error),
            });
        }
    };
    let Some(found) = found else { return Ok(None) };
    match controller(&found.metadata) {
        // That of a former JobSet of this name, on its way out.
        Some(owner) if owner.kind == kind::<JobSet>() && owner.name == key.name => Ok(None),
        owner => Ok(Some(taken(kind::<Service>(), subdomain.to_owned(), owner))),
    }
}

fn controller(metadata: &ObjectMeta) -> Option<&OwnerReference> {
    metadata.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))
}

/// Whether an owner is a former MiniCluster of the name that `planned` has for its owner.
fn former(owner: &OwnerReference, planned: &ObjectMeta) -> bool {
    let group = owner.api_version.split('/').next().unwrap_or_default();
    controller(planned).is_some_and(|ours| ours.name == owner.name)
        && owner.kind == KIND
        && group == GROUP
}

fn taken(kind: String, name: String, owner: Option<&OwnerReference>) -> Obstacle {
    let owner = owner.map(|owner| format!("{}/{}", owner.kind, owner.name));
    Obstacle::NameTaken { kind, name, owner }
}
