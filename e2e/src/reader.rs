//! Reads objects from the API directly.
//!
//! What tests ask again and again while they wait goes this way: a kubectl for each question of many tests
//! would take more of the machine than what they test.

use crate::lab::Lab;
use crate::proxy::RUNTIME;
use kube::api::ListParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::discovery::ApiResource;
use kube::core::{DynamicObject, GroupVersionKind};
use kube::{Api, Client, Config};
use serde_json::Value;
use std::time::{Duration, Instant};

/// For an answer; the API server may be busy, or have been started again.
const LIMIT: Duration = Duration::from_secs(30);

/// A reader of one cluster.
#[derive(Clone)]
pub(crate) struct Reader(Client);

impl Reader {
    pub(crate) fn new(lab: &Lab) -> Self {
        let kubeconfig = Kubeconfig::read_from(lab.cluster.kubeconfig()).unwrap();
        let client = RUNTIME.block_on(async {
            let options = KubeConfigOptions::default();
            Client::try_from(Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap())
        });
        Self(client.unwrap())
    }

    fn api(&self, kind: &GroupVersionKind, namespace: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.0.clone(), namespace, &ApiResource::from_gvk(kind))
    }

    /// An object as it is now, or `None`.
    pub(crate) fn get(
        &self,
        kind: &GroupVersionKind,
        namespace: &str,
        name: &str,
    ) -> Option<Value> {
        let api = self.api(kind, namespace);
        let object = answered(|| RUNTIME.block_on(api.get_opt(name)));
        object.map(|object| serde_json::to_value(object).unwrap())
    }

    /// All objects of a kind, or those with a label `NAME=VALUE`.
    pub(crate) fn list(
        &self,
        kind: &GroupVersionKind,
        namespace: &str,
        label: Option<&str>,
    ) -> Vec<Value> {
        let api = self.api(kind, namespace);
        let which =
            label.map_or_else(ListParams::default, |label| ListParams::default().labels(label));
        let list = answered(|| RUNTIME.block_on(api.list(&which)));
        list.items.into_iter().map(|object| serde_json::to_value(object).unwrap()).collect()
    }
}

/// Asks again where nobody answered; what the server refuses fails the test.
fn answered<T>(ask: impl Fn() -> kube::Result<T>) -> T {
    let deadline = Instant::now() + LIMIT;
    loop {
        match ask() {
            Ok(answer) => return answer,
            Err(error) => {
                let refused = matches!(error, kube::Error::Api(_));
                assert!(!refused && Instant::now() < deadline, "{error}");
                std::thread::sleep(Duration::from_millis(100));
            }
        }
    }
}

/// Group, version and kind of what tests call by its resource, in the plural or not, or by its kind; `None`
/// for what is not asked often.
pub(crate) fn kind_of(name: &str) -> Option<GroupVersionKind> {
    let name = name.to_ascii_lowercase();
    let (group, version, kind) = match name.strip_suffix('s').unwrap_or(&name) {
        "minicluster" => ("quorate.dev", "v1alpha1", "MiniCluster"),
        "jobset" => ("jobset.x-k8s.io", "v1alpha2", "JobSet"),
        "job" => ("batch", "v1", "Job"),
        "pod" => ("", "v1", "Pod"),
        "secret" => ("", "v1", "Secret"),
        "configmap" => ("", "v1", "ConfigMap"),
        "service" => ("", "v1", "Service"),
        "event" => ("", "v1", "Event"),
        "networkpolicie" | "networkpolicy" => ("networking.k8s.io", "v1", "NetworkPolicy"),
        "lease" => ("coordination.k8s.io", "v1", "Lease"),
        _ => return None,
    };
    Some(GroupVersionKind::gvk(group, version, kind))
}
