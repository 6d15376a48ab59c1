//! kube-network-policies: one agent on each node that decides about new connections of pods. Pure.
//!
//! It is written to run in a pod; here it finds what a pod would have in the node's own `/run`. Its
//! rule for nftables needs a kernel with NFT_QUEUE, which many have not; the older rule of iptables
//! takes its place. Packets of connections that exist are not asked about, and without a running
//! agent new connections do not come about.

use super::AddonError;
use crate::layout::{API_PORT, CONTROL_PLANE, Folder, Node};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

/// Where the login of a pod's service account is mounted.
const ACCOUNT: &str = "/run/secrets/kubernetes.io/serviceaccount";
/// The number of the kernel's queue between rule and agent.
const QUEUE: &str = "98";

/// The agent of a node: program, arguments, environment.
pub struct Agent {
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Its variables.
    pub environment: [(&'static str, String); 2],
}

/// How a node's agent is started; `output` is what the module was built into.
pub fn agent(node: Node, output: &Path) -> Agent {
    Agent {
        program: output.join("bin/network-policies"),
        arguments: vec![
            format!("--hostname-override={}", node.name()),
            format!("--nfqueue-id={QUEUE}"),
            // The container runtime of the node is too old to tell of pods by itself.
            "--disable-nri".into(),
            "--metrics-bind-address=127.0.0.1:9080".into(),
        ],
        environment: [
            ("KUBERNETES_SERVICE_HOST", CONTROL_PLANE.to_string()),
            ("KUBERNETES_SERVICE_PORT", API_PORT.to_string()),
        ],
    }
}

/// The files of its login, to be written in the node's mount namespace.
pub fn login(folder: &Folder) -> Result<[(PathBuf, Vec<u8>); 2], AddonError> {
    let path = folder.kubeconfig("addons");
    let read = |path: PathBuf| fs::read(&path).map_err(|source| AddonError::Read { path, source });
    let unexpected = |what: String| AddonError::Unexpected { path: path.clone(), what };
    let config: Value = serde_json::from_slice(&read(path.clone())?)
        .map_err(|error| unexpected(error.to_string()))?;
    let token = config["users"][0]["user"]["token"]
        .as_str()
        .ok_or_else(|| unexpected("it has no token".into()))?;
    let account = Path::new(ACCOUNT);
    Ok([
        (account.join("token"), token.as_bytes().to_vec()),
        (account.join("ca.crt"), read(folder.pki("ca.crt"))?),
    ])
}

/// Arguments for iptables(8): every new connection that the node forwards is put to the agent.
pub const RULE: [&str; 12] = [
    "-t",
    "mangle",
    "-I",
    "FORWARD",
    "-m",
    "conntrack",
    "--ctstate",
    "NEW",
    "-j",
    "NFQUEUE",
    "--queue-num",
    QUEUE,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agent_and_rule_meet_in_one_queue() {
        let agent = agent(Node(2), Path::new("/built"));
        assert!(agent.arguments.contains(&"--hostname-override=n2".to_owned()));
        assert!(agent.arguments.contains(&format!("--nfqueue-id={}", RULE[11])));
    }
}
