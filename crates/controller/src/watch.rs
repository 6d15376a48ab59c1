//! Watches, and what is kept of the objects that they deliver: facts of `quorate_observe`, never whole
//! objects. Each change that says something new becomes the key of the MiniCluster to look at.
//!
//! Only objects with the label of a cluster are asked for. Secrets are not watched at all: a watch
//! would let this process read every Secret of the namespace.

mod cache;
mod kept;
mod lean;
mod packed;

use std::fmt::Debug;

use futures_util::stream::{self, BoxStream, StreamExt};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Event as CoreEvent, Pod};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;
use kube::api::Api;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind, PartialObjectMeta};
use kube::runtime::reflector::{Store, store};
use kube::runtime::watcher::{self, Event, watcher};
use kube::runtime::{WatchStreamExt, reflector};
use kube::{Client, Resource};
use quorate_api::jobset::JobSet;
use quorate_observe::{EventFacts, JobFacts, JobSetFacts, PodFacts, WorkloadFacts};
use quorate_plan::labels;
use serde::de::DeserializeOwned;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

pub use cache::{Cache, Key, Place};
pub use kept::Kept;
pub use lean::{Lean, Readable};
pub use packed::Packed;

/// The API group of Kueue.
const KUEUE: &str = "kueue.x-k8s.io";
/// Objects of one list call: a page of pods is held as a whole for a moment.
const PAGE: u32 = 100;

/// What is known of the objects of all clusters.
#[derive(Debug)]
pub struct Caches {
    /// JobSets.
    pub jobsets: Cache<JobSetFacts>,
    /// Jobs that JobSets made.
    pub jobs: Cache<JobFacts>,
    /// Pods.
    pub pods: Cache<PodFacts>,
    /// Warnings about JobSets, their Jobs and pods: what is in no object's status.
    pub events: Cache<EventFacts>,
    /// Workloads of Kueue; stays empty where that is not installed.
    pub workloads: Cache<WorkloadFacts>,
    /// UIDs of the owners of NetworkPolicies.
    pub network_policies: Cache<Owner>,
    /// When the youngest Job was made: a time of Unix in seconds, 0 if there was none.
    youngest_job: AtomicI64,
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
            events: Cache::new(scopes),
            workloads: Cache::new(0),
            network_policies: Cache::new(scopes),
            youngest_job: AtomicI64::new(0),
        }
    }

    /// When JobSet last made a Job of any cluster, as far as watches have shown it.
    pub fn jobset_acted(&self) -> Option<Timestamp> {
        let seconds = self.youngest_job.load(Ordering::Relaxed);
        Timestamp::from_second(seconds).ok().filter(|_| seconds > 0)
    }

    /// Keeps what an answer to a request says of an object; tells whether that is anything new.
    pub fn answered<K: Kept>(&self, object: &K) -> bool {
        place(object.meta()).is_some_and(|place| K::cache(self).answered(place, object.facts()))
    }

    /// Waits until all first lists are complete. Whoever decides before would take for missing what
    /// was not read yet.
    pub async fn ready(&self) {
        // Without Workloads nothing is done that would be wrong with them.
        let Self { jobsets, jobs, pods, events, network_policies, .. } = self;
        jobsets.ready().await;
        jobs.ready().await;
        pods.ready().await;
        events.ready().await;
        network_policies.ready().await;
    }
}

/// A namespace, or all of them.
pub type Scope = Option<String>;

/// MiniClusters of one scope: the store, and the key of each that is new, changed or gone. `forget` is
/// called for each one that is gone.
pub fn clusters(
    client: &Client,
    scope: &Scope,
    forget: impl Fn(Key) + Send + 'static,
) -> (Store<Packed>, BoxStream<'static, Key>) {
    let (reader, writer) = store();
    let events = watcher(api::<Packed>(client, scope), watcher::Config::default().page_size(PAGE));
    // A list is in the store when it is complete, and not before.
    let mut list = Vec::new();
    let keys = reflector(writer, events.default_backoff())
        .map(move |event| match event {
            Ok(Event::Init) => {
                list.clear();
                Vec::new()
            }
            Ok(Event::InitApply(object)) => {
                list.push(key(object.meta()));
                Vec::new()
            }
            Ok(Event::InitDone) => std::mem::take(&mut list),
            Ok(Event::Apply(object)) => vec![key(object.meta())],
            Ok(Event::Delete(object)) => {
                forget(key(object.meta()));
                vec![key(object.meta())]
            }
            Err(error) => {
                interrupted("MiniCluster", &error);
                Vec::new()
            }
        })
        .flat_map(stream::iter)
        .boxed();
    (reader, keys)
}

/// Everything that MiniClusters of one scope become: keeps the caches and yields each cluster of which
/// something new is known. `kueue` is the version of its API, where it is installed.
pub fn children(
    client: &Client,
    scope: &Scope,
    caches: &Arc<Caches>,
    kueue: Option<&'static str>,
) -> BoxStream<'static, Key> {
    let labelled = || watcher::Config::default().labels(labels::CLUSTER).page_size(PAGE);
    let warnings = || watcher::Config::default().fields("type=Warning").page_size(PAGE);
    let whole = || (scope.clone(), Arc::clone(caches));
    let mut all = vec![
        follow(
            "JobSet",
            watcher(api::<Lean<JobSet>>(client, scope), labelled()),
            whole(),
            JobSet::cache,
            |_, Lean(jobset)| one(place(jobset.meta()), jobset.facts()),
        ),
        follow(
            "Job",
            watcher(api::<Lean<Job>>(client, scope), labelled()),
            whole(),
            Job::cache,
            |caches, Lean(job)| {
                let made = job.meta().creation_timestamp.as_ref();
                let made = made.map_or(0, |made| made.0.as_second());
                caches.youngest_job.fetch_max(made, Ordering::Relaxed);
                one(place(job.meta()), job.facts())
            },
        ),
        follow(
            "Pod",
            watcher(api::<Lean<Pod>>(client, scope), labelled()),
            whole(),
            Pod::cache,
            |_, Lean(pod)| one(place(pod.meta()), pod.facts()),
        ),
        follow(
            "Event",
            after_jobsets(caches, api::<CoreEvent>(client, scope), warnings()),
            whole(),
            |caches| &caches.events,
            warning,
        ),
        follow(
            "NetworkPolicy",
            watcher(api::<Lean<PartialObjectMeta<NetworkPolicy>>>(client, scope), labelled()),
            whole(),
            |caches| &caches.network_policies,
            owned,
        ),
    ];
    if let Some(version) = kueue {
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk(KUEUE, version, "Workload"));
        let workloads: Api<DynamicObject> = match scope {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, &kind),
            None => Api::all_with(client.clone(), &kind),
        };
        let config = watcher::Config::default().page_size(PAGE);
        all.push(follow(
            "Workload",
            watcher(workloads, config),
            whole(),
            |caches| &caches.workloads,
            workload,
        ));
    }
    stream::select_all(all).boxed()
}

/// The version of Kueue's API that is served, if it is installed. One that is installed later is
/// noticed at the controller's next start.
pub async fn kueue(client: &Client) -> Option<&'static str> {
    for version in ["v1beta2", "v1beta1"] {
        if client.list_api_group_resources(&format!("{KUEUE}/{version}")).await.is_ok() {
            return Some(version);
        }
    }
    None
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

/// Where an object's facts belong, and the facts; as a rule to one cluster.
type Read<F> = Vec<(Place, F)>;

/// Keeps one cache by one watch; yields clusters of which something new is known.
fn follow<K, F>(
    kind: &'static str,
    events: impl stream::Stream<Item = watcher::Result<Event<K>>> + Send + 'static,
    (scope, caches): (Scope, Arc<Caches>),
    cache: fn(&Caches) -> &Cache<F>,
    read: fn(&Caches, &K) -> Read<F>,
) -> BoxStream<'static, Key>
where
    K: Clone + Debug + DeserializeOwned + Send + 'static,
    F: PartialEq + Send + Sync + 'static,
{
    let mut list = Vec::new();
    events
        .default_backoff()
        .map(move |event| {
            let cache = cache(&caches);
            let mut changed = Vec::new();
            match event {
                Ok(Event::Init) => list.clear(),
                Ok(Event::InitApply(object)) => list.extend(read(&caches, &object)),
                Ok(Event::InitDone) => {
                    changed = cache.replace(scope.as_deref(), std::mem::take(&mut list));
                }
                Ok(Event::Apply(object)) => {
                    for (place, facts) in read(&caches, &object) {
                        let key = place.cluster.clone();
                        changed.extend(cache.put(place, facts).then_some(key));
                    }
                }
                Ok(Event::Delete(object)) => {
                    for (place, _) in read(&caches, &object) {
                        changed.extend(cache.remove(&place).then_some(place.cluster));
                    }
                }
                Err(error) => interrupted(kind, &error),
            }
            changed
        })
        .flat_map(stream::iter)
        .boxed()
}

/// A watch that begins when JobSets are known, since its objects are told by them.
fn after_jobsets(
    caches: &Arc<Caches>,
    events: Api<CoreEvent>,
    config: watcher::Config,
) -> impl stream::Stream<Item = watcher::Result<Event<CoreEvent>>> + Send + use<> {
    let caches = Arc::clone(caches);
    stream::once(async move { caches.jobsets.ready().await })
        .flat_map(move |()| watcher(events.clone(), config.clone()))
}

fn one<F>(place: Option<Place>, facts: F) -> Read<F> {
    place.map(|place| (place, facts)).into_iter().collect()
}

/// A warning belongs to the clusters whose JobSet has the beginning of the object's name:
/// `<cluster>-<group>-<job>-<index>-<random>`. Who reads it looks at the UID.
fn warning(caches: &Caches, event: &CoreEvent) -> Read<EventFacts> {
    let about = &event.involved_object;
    let kinds = ["JobSet", "Job", "Pod"];
    let (Some(name), Some(namespace)) = (&about.name, &about.namespace) else { return Vec::new() };
    if !about.kind.as_deref().is_some_and(|kind| kinds.contains(&kind)) {
        return Vec::new();
    }
    let facts = EventFacts::from_core(event);
    let ends = name.match_indices('-').map(|(end, _)| end).chain([name.len()]);
    ends.map(|end| Key::new(namespace.clone(), &name[..end]))
        .filter(|key| caches.jobsets.get(key, &key.name).is_some())
        .filter_map(|cluster| Some((within(cluster, &event.metadata)?, facts.clone())))
        .collect()
}

/// A Workload belongs to the JobSet that owns it, which has the cluster's name.
fn workload(_: &Caches, object: &DynamicObject) -> Read<WorkloadFacts> {
    let meta = &object.metadata;
    let owner = meta.owner_references.iter().flatten().find(|owner| owner.kind == "JobSet");
    let place =
        owner.and_then(|owner| within(Key::new(meta.namespace.clone()?, owner.name.clone()), meta));
    let Some(place) = place else { return Vec::new() };
    let value = serde_json::to_value(object).expect("what came as JSON goes as JSON");
    vec![(place, WorkloadFacts::from_json(&value))]
}

/// A watch that breaks off starts again by itself.
fn interrupted(kind: &'static str, error: &watcher::Error) {
    tracing::warn!(kind, error = %error, "watch interrupted");
}

fn owned<K>(_: &Caches, Lean(object): &Lean<PartialObjectMeta<K>>) -> Read<Owner> {
    let mut owners = object.metadata.owner_references.iter().flatten();
    let controller = owners.find(|owner| owner.controller == Some(true));
    let owner = Owner(controller.map(|owner| owner.uid.clone()).unwrap_or_default());
    one(place(&object.metadata), owner)
}

pub(crate) fn key(metadata: &ObjectMeta) -> Key {
    Key::new(
        metadata.namespace.clone().unwrap_or_default(),
        metadata.name.clone().unwrap_or_default(),
    )
}

/// The place of an object with the label of a cluster.
pub fn place(metadata: &ObjectMeta) -> Option<Place> {
    let cluster = metadata.labels.as_ref()?.get(labels::CLUSTER)?;
    within(Key::new(metadata.namespace.clone()?, cluster.clone()), metadata)
}

/// The place of an object that belongs to this cluster, whatever its labels say.
fn within(cluster: Key, metadata: &ObjectMeta) -> Option<Place> {
    let version = metadata.resource_version.as_ref().and_then(|version| version.parse().ok());
    Some(Place {
        cluster,
        name: metadata.name.clone()?,
        uid: metadata.uid.clone()?,
        version: version.unwrap_or(0),
    })
}
