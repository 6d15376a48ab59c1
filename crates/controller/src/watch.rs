//! Watches, and what is kept of the objects that they deliver: facts of `quorate_observe`, never whole
//! objects. Each change that says something new becomes the key of the MiniCluster to look at.
//!
//! Only objects with the label of a cluster are asked for. Secrets are not watched at all: a watch
//! would let this process read every Secret of the namespace.

mod cache;

use std::convert::Infallible;
use std::fmt::Debug;

use futures_util::stream::{self, BoxStream, StreamExt};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::Api;
use kube::core::{DeserializeGuard, PartialObjectMeta};
use kube::runtime::controller::ReconcileRequest;
use kube::runtime::reflector::{ObjectRef, Store, store};
use kube::runtime::watcher::{self, Event, watcher};
use kube::runtime::{WatchStreamExt, reflector};
use kube::{Client, Resource};
use quorate_api::MiniCluster;
use quorate_api::jobset::JobSet;
use quorate_observe::{JobFacts, JobSetFacts, PodFacts};
use quorate_plan::labels;
use serde::de::DeserializeOwned;
use std::sync::Arc;

pub use cache::{Cache, Key, Place};

/// Objects of one list call: a page of pods is held as a whole for a moment.
const PAGE: u32 = 100;

/// A MiniCluster as it is watched: one that cannot be read must not stop the others.
pub type Guarded = DeserializeGuard<MiniCluster>;

/// Which MiniCluster to look at.
pub type Request = Result<ReconcileRequest<Guarded>, Infallible>;

/// What is known of the objects of all clusters.
#[derive(Debug)]
pub struct Caches {
    /// JobSets.
    pub jobsets: Cache<JobSetFacts>,
    /// Jobs that JobSets made.
    pub jobs: Cache<JobFacts>,
    /// Pods.
    pub pods: Cache<PodFacts>,
    /// UIDs of the owners of ConfigMaps.
    pub config_maps: Cache<Owner>,
    /// UIDs of the owners of NetworkPolicies.
    pub network_policies: Cache<Owner>,
}

/// The UID of the MiniCluster that controls an object; empty if none does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner(pub String);

impl Caches {
    /// Empty caches that wait for the lists of `scopes` watches of each kind.
    pub fn new(scopes: usize) -> Self {
        Self {
            jobsets: Cache::new(scopes),
            jobs: Cache::new(scopes),
            pods: Cache::new(scopes),
            config_maps: Cache::new(scopes),
            network_policies: Cache::new(scopes),
        }
    }

    /// Waits until all first lists are complete. Whoever decides before would take for missing what
    /// was not read yet.
    pub async fn ready(&self) {
        let Self { jobsets, jobs, pods, config_maps, network_policies } = self;
        jobsets.ready().await;
        jobs.ready().await;
        pods.ready().await;
        config_maps.ready().await;
        network_policies.ready().await;
    }
}

/// A namespace, or all of them.
pub type Scope = Option<String>;

/// MiniClusters of one scope: the store, and a request for each change. `forget` is called for each
/// one that is gone.
pub fn clusters(
    client: &Client,
    scope: &Scope,
    forget: impl Fn(Key) + Send + 'static,
) -> (Store<Guarded>, BoxStream<'static, Request>) {
    let (reader, writer) = store();
    let events = watcher(api::<Guarded>(client, scope), watcher::Config::default().page_size(PAGE))
        .default_backoff()
        .modify(|object| object.meta_mut().managed_fields = None)
        .inspect(move |event| {
            if let Ok(Event::Delete(object)) = event {
                forget(key(object.meta()));
            }
        });
    let requests = reflector(writer, events)
        .touched_objects()
        .filter_map(|object| async {
            match object {
                Ok(object) => Some(request(&key(object.meta()))),
                Err(error) => {
                    interrupted("MiniCluster", &error);
                    None
                }
            }
        })
        .boxed();
    (reader, requests)
}

/// Everything that MiniClusters of one scope become: keeps the caches and requests a look at each
/// cluster of which something new is known.
pub fn children(
    client: &Client,
    scope: &Scope,
    caches: &Arc<Caches>,
) -> BoxStream<'static, Request> {
    let labelled = || watcher::Config::default().labels(labels::CLUSTER).page_size(PAGE);
    let whole = |scope: &Scope, caches: &Arc<Caches>| (scope.clone(), Arc::clone(caches));
    stream::select_all([
        follow(
            "JobSet",
            watcher(api::<JobSet>(client, scope), labelled()),
            whole(scope, caches),
            |caches| &caches.jobsets,
            JobSetFacts::from_jobset,
        ),
        follow(
            "Job",
            watcher(api::<Job>(client, scope), labelled()),
            whole(scope, caches),
            |caches| &caches.jobs,
            JobFacts::from_job,
        ),
        follow(
            "Pod",
            watcher(api::<Pod>(client, scope), labelled()),
            whole(scope, caches),
            |caches| &caches.pods,
            PodFacts::from_pod,
        ),
        follow(
            "ConfigMap",
            watcher(api::<PartialObjectMeta<ConfigMap>>(client, scope), labelled()),
            whole(scope, caches),
            |caches| &caches.config_maps,
            owner::<ConfigMap>,
        ),
        follow(
            "NetworkPolicy",
            watcher(api::<PartialObjectMeta<NetworkPolicy>>(client, scope), labelled()),
            whole(scope, caches),
            |caches| &caches.network_policies,
            owner::<NetworkPolicy>,
        ),
    ])
    .map(|key| request(&key))
    .boxed()
}

/// The API of a kind in a scope.
pub(crate) fn api<K>(client: &Client, scope: &Scope) -> Api<K>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
{
    match scope {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    }
}

/// Keeps one cache by one watch; yields clusters of which something new is known.
fn follow<K, F>(
    kind: &'static str,
    events: impl stream::Stream<Item = watcher::Result<Event<K>>> + Send + 'static,
    (scope, caches): (Scope, Arc<Caches>),
    cache: fn(&Caches) -> &Cache<F>,
    read: fn(&K) -> F,
) -> BoxStream<'static, Key>
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
    F: PartialEq + Send + Sync + 'static,
{
    let mut list = Vec::new();
    events
        .default_backoff()
        .map(move |event| {
            let cache = cache(&caches);
            match event {
                Ok(Event::Init) => list.clear(),
                Ok(Event::InitApply(object)) => {
                    list.extend(place(object.meta()).map(|place| (place, read(&object))));
                }
                Ok(Event::InitDone) => {
                    return cache.replace(scope.as_deref(), std::mem::take(&mut list));
                }
                Ok(Event::Apply(object)) => {
                    if let Some(place) = place(object.meta()) {
                        let key = place.cluster.clone();
                        return cache
                            .put(place, read(&object))
                            .then_some(key)
                            .into_iter()
                            .collect();
                    }
                }
                Ok(Event::Delete(object)) => {
                    if let Some(place) = place(object.meta()) {
                        return cache.remove(&place).then_some(place.cluster).into_iter().collect();
                    }
                }
                Err(error) => interrupted(kind, &error),
            }
            Vec::new()
        })
        .flat_map(stream::iter)
        .boxed()
}

/// A watch that breaks off starts again by itself.
fn interrupted(kind: &'static str, error: &watcher::Error) {
    tracing::warn!(kind, error = %error, "watch interrupted");
}

fn owner<K>(object: &PartialObjectMeta<K>) -> Owner {
    let owners = object.metadata.owner_references.iter().flatten();
    let controller = owners.filter(|owner| owner.controller == Some(true)).next_back();
    Owner(controller.map(|owner| owner.uid.clone()).unwrap_or_default())
}

fn key(metadata: &ObjectMeta) -> Key {
    Key::new(
        metadata.namespace.clone().unwrap_or_default(),
        metadata.name.clone().unwrap_or_default(),
    )
}

/// The place of an object with the label of a cluster.
pub fn place(metadata: &ObjectMeta) -> Option<Place> {
    let cluster = metadata.labels.as_ref()?.get(labels::CLUSTER)?;
    Some(Place {
        cluster: Key::new(metadata.namespace.clone()?, cluster.clone()),
        name: metadata.name.clone()?,
        uid: metadata.uid.clone()?,
    })
}

fn request(key: &Key) -> Request {
    Ok(ReconcileRequest::from(ObjectRef::new(&key.name).within(&key.namespace)))
}
