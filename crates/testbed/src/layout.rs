//! Names, addresses and paths of a cluster. Pure.
//!
//! Every cluster has the same addresses: they exist in its own network namespaces only. What the
//! machine sees of it carries its name.

use crate::addons::Addon;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

/// The most nodes with a kubelet of their own.
pub const MOST_NODES: u8 = 20;
/// The port of the API server, in the control plane's namespace.
pub const API_PORT: u16 = 6443;
/// Services and pods, as the API server and the proxies know them.
pub const SERVICES: &str = "10.96.0.0/16";
/// All pods.
pub const PODS: &str = "10.244.0.0/16";
/// The API server as pods reach it: the first address of [`SERVICES`].
pub const API_SERVICE: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 1);
/// The control plane: API server, DNS, and what tests start beside them.
pub const CONTROL_PLANE: Ipv4Addr = Ipv4Addr::new(10, 200, 0, 10);
/// The bridge between control plane and nodes.
pub const BRIDGE: Ipv4Addr = Ipv4Addr::new(10, 200, 0, 1);

/// Why a cluster cannot be made as asked.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShapeError {
    /// The name would not do in paths, links and control groups.
    #[error(
        "--name {name}: a cluster's name has 1 to 20 of a-z, 0-9 and -, and begins with a letter"
    )]
    Name {
        /// What was asked for.
        name: String,
    },
    /// Too many nodes.
    #[error(
        "--nodes {nodes}: at most {MOST_NODES} nodes fit; --kwok makes thousands that run nothing"
    )]
    Nodes {
        /// What was asked for.
        nodes: u8,
    },
    /// The domain is not one.
    #[error("--cluster-domain {domain}: a domain has parts of a-z, 0-9 and - between dots")]
    Domain {
        /// What was asked for.
        domain: String,
    },
}

/// The container runtime of the nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Runtime {
    /// The distribution's containerd: 1.6 in Debian 12, which knows no image volumes.
    #[default]
    Distribution,
    /// A containerd 2 of our own building, with the distribution's runc.
    #[value(name = "containerd-2")]
    #[serde(rename = "containerd-2")]
    Containerd2,
}

/// What a cluster is to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    /// Its name, which tells it from others on this machine.
    pub name: String,
    /// Nodes with kubelet and containerd.
    pub nodes: u8,
    /// Nodes that kwok plays: pods on them run nothing.
    pub fake_nodes: u32,
    /// Notices a lost node after 9 s and evicts after 3 s more, instead of 40 s and 300 s.
    pub fast_eviction: bool,
    /// The DNS domain of services.
    pub cluster_domain: String,
    /// The container runtime of the nodes.
    pub runtime: Runtime,
    /// Controllers beside the core.
    pub addons: BTreeSet<Addon>,
    /// Archives of images to load into every node.
    pub images: Vec<PathBuf>,
    /// The cluster ends when this process does.
    pub owner: Option<u32>,
    /// The logs are copied into this folder when the cluster ends.
    pub logs: Option<PathBuf>,
}

impl Default for Shape {
    fn default() -> Self {
        Self {
            name: "quorate".into(),
            nodes: 3,
            fake_nodes: 0,
            fast_eviction: false,
            cluster_domain: "cluster.local".into(),
            runtime: Runtime::default(),
            addons: BTreeSet::new(),
            images: Vec::new(),
            owner: None,
            logs: None,
        }
    }
}

impl Shape {
    /// Refuses what cannot be made.
    pub fn check(&self) -> Result<(), ShapeError> {
        check_name(&self.name)?;
        if self.nodes > MOST_NODES {
            return Err(ShapeError::Nodes { nodes: self.nodes });
        }
        if !self.cluster_domain.split('.').all(is_label) {
            return Err(ShapeError::Domain { domain: self.cluster_domain.clone() });
        }
        Ok(())
    }

    /// The nodes with a kubelet.
    pub fn nodes(&self) -> impl Iterator<Item = Node> + use<> {
        (1..=self.nodes).map(Node)
    }
}

/// Refuses a name that would not do in paths, links and control groups.
pub fn check_name(name: &str) -> Result<(), ShapeError> {
    let begins = name.bytes().next().is_some_and(|b| b.is_ascii_lowercase());
    if begins && name.len() <= 20 && is_label(name) {
        return Ok(());
    }
    Err(ShapeError::Name { name: name.into() })
}

fn is_label(text: &str) -> bool {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    !text.is_empty() && text.bytes().all(plain) && !text.starts_with('-') && !text.ends_with('-')
}

/// A node, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Node(pub u8);

impl Node {
    /// Its name in Kubernetes, which is its host name too.
    pub fn name(self) -> String {
        format!("n{}", self.0)
    }

    /// The node of this name, if it can be one.
    pub fn parse(name: &str) -> Option<Self> {
        let number = name.strip_prefix('n')?.parse().ok()?;
        (1..=MOST_NODES).contains(&number).then_some(Self(number))
    }

    /// Its address.
    pub fn address(self) -> Ipv4Addr {
        Ipv4Addr::new(10, 200, 0, 10 + self.0)
    }

    /// The addresses of its pods.
    pub fn pods(self) -> String {
        format!("10.244.{}.0/24", self.0)
    }

    /// The fabric's end of its link.
    pub fn link(self) -> String {
        format!("v-{}", self.name())
    }
}

/// Where everything of a cluster lies.
#[derive(Clone, Debug)]
pub struct Folder {
    root: PathBuf,
    name: String,
}

impl Folder {
    /// The folder of the cluster of this name.
    pub fn new(name: &str) -> Self {
        Self { root: clusters_dir().join(name), name: name.into() }
    }

    /// One at another place, for golden files.
    #[cfg(test)]
    pub(crate) fn at(root: &str, name: &str) -> Self {
        Self { root: root.into(), name: name.into() }
    }

    /// The whole of it; removed with the cluster.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The cluster's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A file or folder directly in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// A certificate or key.
    pub fn pki(&self, name: &str) -> PathBuf {
        self.root.join("pki").join(name)
    }

    /// The log of a component.
    pub fn log(&self, component: &str) -> PathBuf {
        self.root.join("log").join(format!("{component}.log"))
    }

    /// How a user of the API inside the cluster's namespaces logs in.
    pub fn kubeconfig(&self, user: &str) -> PathBuf {
        self.root.join(format!("{user}.kubeconfig"))
    }

    /// How the machine reaches the API as administrator.
    pub fn outer_kubeconfig(&self) -> PathBuf {
        self.root.join("kubeconfig")
    }

    /// The socket of the keeper.
    pub fn socket(&self) -> PathBuf {
        self.root.join("control.sock")
    }

    /// What the API server was asked: one JSON object of `audit.k8s.io/v1` a line.
    pub fn audit_log(&self) -> PathBuf {
        self.root.join("log/audit.log")
    }

    /// A file or folder of a node.
    pub fn node(&self, node: Node, name: &str) -> PathBuf {
        self.root.join(node.name()).join(name)
    }

    /// The name of a node's control groups, the same in every hierarchy.
    pub fn control_group(&self, node: Node) -> String {
        format!("{}{}", self.control_group_prefix(), node.name())
    }

    /// How the names of all control groups of this cluster begin.
    pub fn control_group_prefix(&self) -> String {
        // A dot cannot be in a cluster's name, so no cluster's prefix begins another's.
        format!("quorate.{}.", self.name)
    }
}

/// Where the folders of clusters are. On a disk, not in memory: containerd keeps overlays there.
pub fn clusters_dir() -> PathBuf {
    std::env::temp_dir().join("quorate-testbed")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> Shape {
        Shape { name: name.into(), ..Shape::default() }
    }

    #[test]
    fn a_shape_that_cannot_be_made_is_refused_with_its_flag() {
        for name in ["", "1a", "A", "a_b", "a-", "a23456789012345678901", "../x"] {
            let error = named(name).check().unwrap_err();
            assert!(error.to_string().starts_with("--name "), "{name}");
        }
        assert_eq!(named("a-1").check(), Ok(()));
        let many = Shape { nodes: 21, ..Shape::default() };
        assert_eq!(many.check(), Err(ShapeError::Nodes { nodes: 21 }));
        let domain = Shape { cluster_domain: "a..b".into(), ..Shape::default() };
        assert!(domain.check().unwrap_err().to_string().starts_with("--cluster-domain "));
    }

    #[test]
    fn nodes_have_names_addresses_and_pods_of_their_own() {
        let nodes: Vec<Node> = Shape::default().nodes().collect();
        assert_eq!(nodes, [Node(1), Node(2), Node(3)]);
        assert_eq!(Node(3).address(), Ipv4Addr::new(10, 200, 0, 13));
        assert_eq!(Node(3).pods(), "10.244.3.0/24");
        assert_eq!(Node::parse("n3"), Some(Node(3)));
        for wrong in ["n0", "n21", "3", "nx"] {
            assert_eq!(Node::parse(wrong), None);
        }
    }

    #[test]
    fn control_groups_of_similar_clusters_are_told_apart() {
        let (a, b) = (Folder::new("a"), Folder::new("a-n1"));
        assert!(!b.control_group(Node(1)).starts_with(&a.control_group_prefix()));
    }
}
