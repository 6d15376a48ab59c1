//! A controller beside an API server in memory, whose watches bring everything at once when told to.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use quorate_api::MiniCluster;
use quorate_api::jobset::JobSet;
use quorate_controller::context::Context;
use quorate_controller::reconcile::{Error, reconcile};
use quorate_controller::watch::{Owner, Packed, Place, place};
use quorate_observe::{JobFacts, JobSetFacts, PodFacts};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::context::context;
use crate::fake::Server;

pub(crate) const CLUSTERS: &str = "/apis/quorate.dev/v1alpha1/namespaces/hpc/miniclusters";
pub(crate) const JOBSETS: &str = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/hpc/jobsets";
pub(crate) const JOBS: &str = "/apis/batch/v1/namespaces/hpc/jobs";
pub(crate) const CORE: &str = "/api/v1/namespaces/hpc";
pub(crate) const POLICIES: &str = "/apis/networking.k8s.io/v1/namespaces/hpc/networkpolicies";

/// An object as a watch brings it.
pub(crate) fn packed(cluster: &MiniCluster) -> Arc<Packed> {
    Arc::new(serde_json::from_str(&serde_json::to_string(cluster).unwrap()).unwrap())
}

/// An API server, and a controller beside it whose watches bring everything at once when told to.
pub(crate) struct World {
    pub(crate) server: Server,
    pub(crate) context: Arc<Context>,
}

impl World {
    pub(crate) fn new(spec: Value) -> Self {
        let server = Server::default();
        server.store(
            &format!("{CLUSTERS}/hello"),
            json!({
                "apiVersion": "quorate.dev/v1alpha1", "kind": "MiniCluster",
                "metadata": {"name": "hello", "namespace": "hpc", "generation": 1},
                "spec": spec,
            }),
        );
        let context = context(server.client());
        Self { server, context }
    }

    /// A controller that starts again remembers nothing.
    pub(crate) fn restart(&mut self) {
        self.context = context(self.server.client());
        self.watch();
    }

    /// What watches would bring.
    pub(crate) fn watch(&self) {
        let caches = &self.context.caches;
        let list = |prefix: &str| -> Vec<Value> {
            let state = self.server.0.lock().unwrap();
            state
                .objects
                .iter()
                .filter(|(path, _)| path.starts_with(&format!("{prefix}/")))
                .map(|(_, object)| object.clone())
                .collect()
        };
        caches
            .jobsets
            .replace(None, facts(list(JOBSETS), JobSetFacts::from_jobset as fn(&JobSet) -> _));
        caches.jobs.replace(None, facts(list(JOBS), JobFacts::from_job as fn(&Job) -> _));
        caches.pods.replace(
            None,
            facts(list(&format!("{CORE}/pods")), PodFacts::from_pod as fn(&Pod) -> _),
        );
        caches.network_policies.replace(
            None,
            facts(list(POLICIES), owner::<k8s_openapi::api::networking::v1::NetworkPolicy>),
        );
    }

    pub(crate) fn cluster(&self) -> MiniCluster {
        serde_json::from_value(self.server.get(&format!("{CLUSTERS}/hello")).unwrap()).unwrap()
    }

    pub(crate) async fn look(&self) -> Result<Option<Duration>, Error> {
        let object = packed(&self.cluster());
        reconcile(object, Arc::clone(&self.context)).await
    }

    /// Looks until nothing is requested any more; all requests on the way.
    pub(crate) async fn settle(&self) -> Vec<String> {
        let mut calls = Vec::new();
        for _ in 0..8 {
            self.watch();
            self.look().await.unwrap();
            let new = self.server.take_calls();
            if new.is_empty() {
                return calls;
            }
            calls.extend(new);
        }
        panic!("never settles: {calls:?}");
    }

    pub(crate) fn change(&self, path: &str, change: impl FnOnce(&mut Value)) {
        let mut object = self.server.get(path).unwrap();
        change(&mut object);
        self.server.store(path, object);
    }

    pub(crate) fn condition(&self, kind: &str) -> (String, String) {
        let status = self.cluster().status.unwrap_or_default();
        let condition = status.conditions.iter().find(|condition| condition.type_ == kind);
        condition.map(|c| (c.status.clone(), c.reason.clone())).unwrap_or_default()
    }

    /// Kinds of the objects that are there, besides the MiniCluster and events.
    pub(crate) fn made(&self) -> Vec<String> {
        let state = self.server.0.lock().unwrap();
        let objects = state
            .objects
            .iter()
            .filter(|(path, _)| !path.starts_with(CLUSTERS) && !path.contains("/events/"));
        objects.map(|(path, _)| path.rsplit('/').take(2).collect::<Vec<_>>().join(" ")).collect()
    }
}

/// A list as a watch brings it.
fn facts<K: DeserializeOwned + kube::Resource, F>(
    list: Vec<Value>,
    read: fn(&K) -> F,
) -> Vec<(Place, F)> {
    list.into_iter()
        .map(|object| serde_json::from_value::<K>(object).unwrap())
        .filter_map(|object| Some((place(object.meta())?, read(&object))))
        .collect()
}

fn owner<K: kube::Resource>(object: &K) -> Owner {
    Owner(object.meta().owner_references.as_ref().unwrap()[0].uid.clone())
}

pub(crate) fn hello() -> Value {
    json!({"size": 3, "image": "mpi", "command": ["./hello"]})
}

pub(crate) fn writes(calls: &[String]) -> Vec<&str> {
    calls.iter().map(String::as_str).filter(|call| !call.starts_with("GET")).collect()
}

pub(crate) const ALL: [&str; 3] =
    ["hello-agent-uid1 secrets", "hello jobsets", "hello networkpolicies"];
