//! Makes the objects of a cluster.
//!
//! Order: Secret, ConfigMap and NetworkPolicy at once, then the JobSet. The first two are mounted by
//! every pod, and a kubelet that misses them tries again with growing waits; the policy must stand
//! before a broker listens. The JobSet comes last, so a cluster that has one has everything: a
//! controller that dies in between leaves no JobSet behind, and the next one begins anew, finding what is
//! there already to be its own.
//!
//! Objects are created, never applied or replaced. One that is there is looked at: ours is kept as it is
//! (the Secret keeps its seed), one of a former cluster of the same name is waited for until the garbage
//! collector has it, anybody else's is reported and left alone.

use std::fmt::Debug;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::{GetParams, PostParams};
use kube::runtime::events::{Event, EventType};
use kube::{Resource, ResourceExt};
use quorate_api::MiniCluster;
use quorate_api::jobset::JobSet;
use quorate_api::minicluster::{GROUP, KIND};
use quorate_observe::{JobSetFacts, Obstacle};
use quorate_plan::{Plan, Seed};
use serde::Serialize;
use serde::de::DeserializeOwned;
use zeroize::Zeroizing;

use super::{ApplyError, Verdict, api, judge, kind};
use crate::context::{Context, FIELD_MANAGER};
use crate::reconcile::compare::Kept;
use crate::reconcile::validate::validated;
use crate::watch::{Key, place};

/// Dropped fields that an event names; its note may have 1 KiB.
const MOST_FIELDS: usize = 5;

/// What came of a create.
enum Made<K> {
    /// It is there, and new.
    New(Box<K>),
    /// It was there, and is ours.
    Ours,
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
    let Plan { jobset, secret, config_map, network_policy, config } = plan;
    let uid = cluster.uid().unwrap_or_default();
    let policy = async {
        match &network_policy {
            Some(policy) => post(context, &uid, policy).await.map(Some),
            None => Ok(None),
        }
    };
    let (secret, config_map, policy, service) = tokio::try_join!(
        post(context, &uid, &secret),
        post(context, &uid, &config_map),
        policy,
        service(context, key, &config.cluster.subdomain),
    )?;
    let mut obstacles: Vec<Obstacle> =
        [secret.obstacle(), config_map.obstacle(), policy.and_then(Made::obstacle), service]
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
            let jobset = stored;
            // Known at once: the next look may come before the watch has seen it.
            if let Some(place) = place(&jobset.metadata) {
                context.caches.jobsets.put(place, JobSetFacts::from_jobset(&jobset));
            }
        }
        Made::Ours => {}
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
    let event = Event {
        type_: EventType::Warning,
        reason: "FieldsDropped".to_owned(),
        note: Some(format!(
            "the API server dropped {named}{more} of the JobSet: update JobSet's definition"
        )),
        action: "Create".to_owned(),
        secondary: None,
    };
    if let Err(error) = context.recorder.publish(&event, &cluster.object_ref(&())).await {
        tracing::warn!(mc.name = key.name, reason = event.reason, %error, "event lost");
    }
}

/// Makes one object again that was deleted. Not the Secret: it is not watched, and a new seed would
/// divide a running cluster.
pub(super) async fn again(
    context: &Context,
    cluster: &MiniCluster,
    kept: Kept,
) -> Result<Vec<Obstacle>, ApplyError> {
    let Some(plan) = planned(context, cluster)? else { return Ok(Vec::new()) };
    let uid = cluster.uid().unwrap_or_default();
    let obstacle = match (kept, &plan.network_policy) {
        (Kept::ConfigMap, _) => post(context, &uid, &plan.config_map).await?.obstacle(),
        (Kept::NetworkPolicy, Some(policy)) => post(context, &uid, policy).await?.obstacle(),
        (Kept::NetworkPolicy, None) => None,
    };
    Ok(obstacle.into_iter().collect())
}

/// The whole plan; nothing for an object that is not valid.
fn planned(context: &Context, cluster: &MiniCluster) -> Result<Option<Plan>, ApplyError> {
    let Ok(valid) = validated(cluster) else { return Ok(None) };
    let mut bytes = Zeroizing::new([0; 32]);
    getrandom::fill(&mut *bytes).map_err(ApplyError::Seed)?;
    Ok(Some(quorate_plan::plan(&valid, &context.options.plan, &Seed::new(*bytes))))
}

impl<K> Made<K> {
    fn obstacle(self) -> Option<Obstacle> {
        match self {
            Self::New(_) | Self::Ours => None,
            Self::Not(obstacle) => Some(obstacle),
        }
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
    let failed = |verb, source| ApplyError::Request {
        verb,
        kind: kind.clone(),
        name: name.clone(),
        source: Box::new(source),
    };
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
                "{error}: neither the namespace nor the kind {kind} may be missing; is {kind} installed?"
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
        Some(owner) if owner.uid == uid => Ok(Made::Ours),
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
