//! How the agent comes into the pods of clusters that are made from now on, where nobody has told: as a
//! volume if all nodes can do that, else copied.
//!
//! Owns: what a node must be (`decide`, pure) and the asking for it. Must not: touch a cluster that is
//! there already; it keeps the way that it was made with.
//!
//! Sources: KEP-4639, whose feature gate is on from Kubernetes 1.35; containerd 2.1, the first that mounts
//! such volumes. CRI-O has done so since 1.31, but asks for a mount without the right to execute
//! (`noexec` in its `mountImage`), as the KEP once did: with it the agent is copied unless somebody tells
//! otherwise.

use std::time::Duration;

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::api::{Api, ListParams, PostParams};
use kube::core::Request;
use kube::{Client, Error};
use quorate_plan::Delivery;
use serde::Deserialize;
use tokio::time::{sleep, timeout};

use crate::context::Context;
use crate::telemetry::chain;

/// From this Kubernetes on image volumes are on by default: of the API server, and of each kubelet.
const KUBERNETES: (u32, u32) = (1, 35);
/// The container runtime that surely mounts them so that the agent can be executed, as
/// `status.nodeInfo.containerRuntimeVersion` calls it, and from which version on.
const RUNTIME: (&str, (u32, u32)) = ("containerd", (2, 1));
/// Between two looks at the nodes: they come and are renewed in the course of days.
const PERIOD: Duration = Duration::from_mins(5);
/// The first look holds up the start for so long at most.
const FIRST_WAIT: Duration = Duration::from_secs(10);
/// Nodes of one answer; each is some 10 KB, most of it the names of its images.
const PAGE: u32 = 100;

/// What of a node counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeFacts {
    /// Its name.
    pub name: String,
    /// New pods of ours may come to it: it is neither cordoned nor of another operating system than Linux.
    pub takes_pods: bool,
    /// `v1.36.3`
    pub kubelet: String,
    /// `containerd://2.1.0`
    pub runtime: String,
}

/// Why the agent is copied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Lack {
    /// The API server is too old.
    #[error("the API server is {version}, and image volumes take Kubernetes 1.35")]
    Server {
        /// Its version.
        version: String,
    },
    /// A kubelet is too old.
    #[error("the kubelet of node {node} is {version}, and image volumes take Kubernetes 1.35")]
    Kubelet {
        /// The node.
        node: String,
        /// Its version.
        version: String,
    },
    /// A container runtime is too old, or of a kind that may not let volumes be executed.
    #[error(
        "the container runtime of node {node} is {runtime}, and only containerd 2.1 is known to do for sure"
    )]
    Runtime {
        /// The node.
        node: String,
        /// Its runtime with its version.
        runtime: String,
    },
    /// There may be some tomorrow, of any kind.
    #[error("there is no node yet")]
    NoNode,
    /// As in every installation for named namespaces: nodes are in none.
    #[error("this account may not list nodes, so that nothing is known of them")]
    NoRight,
}

/// The way for these nodes; what is in the way of a volume, if the agent is to be copied.
pub fn decide(server: &str, nodes: &[NodeFacts]) -> Result<(), Lack> {
    if version(server).is_none_or(|version| version < KUBERNETES) {
        return Err(Lack::Server { version: server.to_owned() });
    }
    of_nodes(nodes)
}

/// The same, as far as nodes alone decide it.
fn of_nodes(nodes: &[NodeFacts]) -> Result<(), Lack> {
    let mut there = false;
    for node in nodes.iter().filter(|node| node.takes_pods) {
        there = true;
        let name = || node.name.clone();
        if version(&node.kubelet).is_none_or(|version| version < KUBERNETES) {
            return Err(Lack::Kubelet { node: name(), version: node.kubelet.clone() });
        }
        if !mounts_images(&node.runtime) {
            return Err(Lack::Runtime { node: name(), runtime: node.runtime.clone() });
        }
    }
    if there { Ok(()) } else { Err(Lack::NoNode) }
}

fn mounts_images(runtime: &str) -> bool {
    runtime.split_once("://").is_some_and(|(kind, text)| {
        kind == RUNTIME.0 && version(text).is_some_and(|version| version >= RUNTIME.1)
    })
}

/// The first two numbers of `v1.36.3-vendor.1`.
fn version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.trim_start_matches('v').split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// What was decided, and said, so far.
#[derive(Debug, Default)]
pub(crate) struct Keeper {
    said: Option<Result<(), Lack>>,
}

impl Keeper {
    /// The first look, before anything is made.
    pub(crate) async fn begin(context: &Context) -> Self {
        let mut keeper = Self::default();
        if context.options.choose_delivery
            && timeout(FIRST_WAIT, keeper.look(context)).await.is_err()
        {
            tracing::warn!("nobody told in time what the nodes can do: copies the agent for now");
        }
        keeper
    }

    /// Looks again and again, for ever.
    pub(crate) async fn keep(mut self, context: &Context) {
        while context.options.choose_delivery && self.said != Some(Err(Lack::NoRight)) {
            sleep(PERIOD).await;
            self.look(context).await;
        }
        std::future::pending::<()>().await;
    }

    async fn look(&mut self, context: &Context) {
        let client = &context.client;
        let asked = async {
            // A controller of all namespaces has a ClusterRole, and this right in it.
            if !context.options.namespaces.is_empty() && !may_list(client).await? {
                return Ok(Err(Lack::NoRight));
            }
            let nodes = nodes(client).await?;
            // API servers get no older: one that could do it before is not asked again, nor is one that
            // it does not depend on.
            let found = of_nodes(&nodes);
            if self.said == Some(Ok(())) || found.is_err() {
                return Ok(found);
            }
            let server = client.apiserver_version().await?.git_version;
            Ok(decide(&server, &nodes))
        };
        let found = match asked.await {
            Ok(found) => found,
            Err(Error::Api(status)) if matches!(status.code, 401 | 403) => Err(Lack::NoRight),
            Err(error) => {
                // What was known stays true for now.
                tracing::warn!(error = chain(&error), "cannot see what the nodes can do");
                return;
            }
        };
        context.deliver(if found.is_ok() { Delivery::Image } else { Delivery::Copy });
        if self.said.as_ref() == Some(&found) {
            return;
        }
        match &found {
            Ok(()) => tracing::info!("the agent comes as a volume: all nodes can do that"),
            Err(why) => tracing::info!(%why, "the agent is copied into pods"),
        }
        self.said = Some(found);
    }
}

/// Whether this account may list nodes: asked for beforehand, so that no log tells of a refusal.
async fn may_list(client: &Client) -> Result<bool, Error> {
    let review = SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(ResourceAttributes {
                verb: Some("list".to_owned()),
                resource: Some("nodes".to_owned()),
                ..ResourceAttributes::default()
            }),
            ..SelfSubjectAccessReviewSpec::default()
        },
        ..SelfSubjectAccessReview::default()
    };
    let api = Api::<SelfSubjectAccessReview>::all(client.clone());
    let answer = api.create(&PostParams::default(), &review).await?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}

/// All nodes.
async fn nodes(client: &Client) -> Result<Vec<NodeFacts>, Error> {
    let mut nodes = Vec::new();
    let mut page = ListParams::default().limit(PAGE);
    loop {
        let request = Request::new("/api/v1/nodes").list(&page).map_err(Error::BuildRequest)?;
        let list: List = client.request(request).await?;
        nodes.extend(list.items.into_iter().map(NodeFacts::from));
        match list.metadata.next {
            Some(next) if !next.is_empty() => page = page.continue_token(&next),
            _ => return Ok(nodes),
        }
    }
}

/// As much of a `NodeList` as is needed: whole nodes are large.
#[derive(Debug, Deserialize)]
struct List {
    #[serde(default)]
    metadata: ListMeta,
    items: Vec<Node>,
}

#[derive(Debug, Default, Deserialize)]
struct ListMeta {
    #[serde(rename = "continue")]
    next: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Node {
    metadata: Meta,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Debug, Deserialize)]
struct Meta {
    name: String,
}

#[derive(Debug, Default, Deserialize)]
struct Spec {
    #[serde(default)]
    unschedulable: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    #[serde(default)]
    node_info: Info,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Info {
    kubelet_version: String,
    container_runtime_version: String,
    operating_system: String,
}

impl From<Node> for NodeFacts {
    fn from(node: Node) -> Self {
        let info = node.status.node_info;
        Self {
            name: node.metadata.name,
            takes_pods: !node.spec.unschedulable && info.operating_system != "windows",
            kubelet: info.kubelet_version,
            runtime: info.container_runtime_version,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, kubelet: &str, runtime: &str) -> NodeFacts {
        NodeFacts {
            name: name.into(),
            takes_pods: true,
            kubelet: kubelet.into(),
            runtime: runtime.into(),
        }
    }

    fn words(server: &str, nodes: &[NodeFacts]) -> String {
        decide(server, nodes).map_or_else(|why| why.to_string(), |()| "image".to_owned())
    }

    #[test]
    fn one_node_decides_by_its_runtime_and_its_kubelet() {
        let cases = [
            ("v1.36.3", "containerd://2.4.0", "image"),
            ("v1.35.0-gke.100", "containerd://2.1.0-beta.0", "image"),
            ("v1.36.0+k3s1", "containerd://2.1.5-k3s1", "image"),
            ("v2.0.0", "containerd://10.0", "image"),
            (
                "v1.36.3",
                "containerd://2.0.9",
                "the container runtime of node a is containerd://2.0.9",
            ),
            ("v1.36.3", "containerd://1.6.20~ds1", "node a is containerd://1.6.20~ds1"),
            // Whether it lets the agent be executed is for somebody to try.
            ("v1.36.3", "cri-o://1.36.1", "node a is cri-o://1.36.1"),
            ("v1.36.3", "docker://27.0.1", "node a is docker://27.0.1"),
            ("v1.36.3", "containerd://unknown", "node a is containerd://unknown"),
            ("v1.36.3", "", "only containerd 2.1 is known to do"),
            ("v1.34.9", "containerd://2.4.0", "the kubelet of node a is v1.34.9"),
            ("", "containerd://2.4.0", "the kubelet of node a is "),
        ];
        for (kubelet, runtime, want) in cases {
            let said = words("v1.36.3", &[node("a", kubelet, runtime)]);
            assert!(said.contains(want), "{kubelet} {runtime}: {said}");
        }
    }

    #[test]
    fn all_nodes_that_take_pods_must_do_and_others_do_not_count() {
        let able = node("able", "v1.36.3", "containerd://2.4.0");
        let old = node("old", "v1.36.3", "containerd://1.7.2");
        let away = NodeFacts { takes_pods: false, ..old.clone() };
        let both = words("v1.36.3", &[able.clone(), old]);
        assert!(both.contains("node old is containerd://1.7.2"), "{both}");
        assert_eq!(words("v1.36.3", &[able.clone(), away.clone()]), "image");
        assert_eq!(decide("v1.36.3", &[away]), Err(Lack::NoNode));
        assert_eq!(decide("v1.36.3", &[]), Err(Lack::NoNode));
        // Newer nodes than their API server are no help.
        let early = words("v1.34.2", &[able]);
        assert!(early.starts_with("the API server is v1.34.2"), "{early}");
    }

    #[test]
    fn a_list_of_nodes_is_read_with_what_it_leaves_out() {
        let list = serde_json::json!({
            "kind": "NodeList", "apiVersion": "v1",
            "metadata": {"resourceVersion": "7", "continue": "more"},
            "items": [
                {
                    "metadata": {"name": "a", "labels": {"x": "y"}},
                    "spec": {"podCIDR": "10.0.0.0/24"},
                    "status": {
                        "nodeInfo": {
                            "kubeletVersion": "v1.36.3",
                            "containerRuntimeVersion": "containerd://2.4.0",
                            "operatingSystem": "linux",
                        },
                        "images": [{"names": ["a:1"], "sizeBytes": 1}],
                    },
                },
                {"metadata": {"name": "b"}, "spec": {"unschedulable": true}},
                {"metadata": {"name": "c"}, "status": {"nodeInfo": {"operatingSystem": "windows"}}},
                {"metadata": {"name": "d"}},
            ],
        });
        let list: List = serde_json::from_value(list).unwrap();
        assert_eq!(list.metadata.next.as_deref(), Some("more"));
        let nodes: Vec<NodeFacts> = list.items.into_iter().map(NodeFacts::from).collect();
        assert_eq!(nodes[0], node("a", "v1.36.3", "containerd://2.4.0"));
        let takes: Vec<bool> = nodes.iter().map(|node| node.takes_pods).collect();
        assert_eq!(takes, [true, false, false, true]);
    }
}
