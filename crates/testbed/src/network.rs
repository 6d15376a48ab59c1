//! The network of a cluster: one bridge in a namespace of its own, and a link from it to the control
//! plane and to each node.
//!
//! Commands for ip(8) are made purely and run in batches, one process for each namespace.

use crate::layout::{BRIDGE, CONTROL_PLANE, Node, SERVICES, Shape};
use std::io::{self, Write as _};
use std::net::Ipv4Addr;
use std::process::{Command, Stdio};

/// The namespace of the bridge.
const FABRIC: &str = "fabric";
/// The namespace of the control plane.
pub const CONTROL_PLANE_NAMESPACE: &str = "cp";

/// Why the network could not be made or changed.
#[derive(Debug, thiserror::Error)]
pub enum NetworkError {
    /// ip(8) could not be run.
    #[error("cannot run ip, which must be in PATH (Debian: iproute2)")]
    Ip(#[source] io::Error),
    /// ip(8) refused.
    #[error("ip refused to {doing}: {output}")]
    Refused {
        /// What it should do.
        doing: String,
        /// What it said.
        output: String,
    },
}

/// Makes all namespaces, links, addresses and routes. The caller's mount namespace must be its own,
/// with memory at `/run`: there ip(8) keeps the namespaces.
pub fn create(shape: &Shape) -> Result<(), NetworkError> {
    for (namespace, lines) in commands(shape) {
        batch(namespace.as_deref(), &lines)?;
    }
    Ok(())
}

/// Takes a node's link down or up, at the bridge: the node itself sees its cable without a carrier.
pub fn set_link(node: Node, up: bool) -> Result<(), NetworkError> {
    let state = if up { "up" } else { "down" };
    batch(Some(FABRIC), &[format!("link set {} {state}", node.link())])
}

/// Where a network namespace can be opened, in the keeper's mount namespace.
pub fn namespace_path(namespace: &str) -> std::path::PathBuf {
    std::path::Path::new("/run/netns").join(namespace)
}

/// Batches for ip(8) by namespace, in order.
fn commands(shape: &Shape) -> Vec<(Option<String>, Vec<String>)> {
    let members: Vec<(String, Ipv4Addr, Option<Node>)> =
        std::iter::once((CONTROL_PLANE_NAMESPACE.to_owned(), CONTROL_PLANE, None))
            .chain(shape.nodes().map(|node| (node.name(), node.address(), Some(node))))
            .collect();
    let mut namespaces = vec![format!("netns add {FABRIC}")];
    let mut fabric = vec![
        "link set lo up".to_owned(),
        "link add br0 type bridge".to_owned(),
        format!("addr add {BRIDGE}/24 dev br0"),
        "link set br0 up".to_owned(),
    ];
    let mut inside = Vec::new();
    for (name, address, node) in &members {
        namespaces.push(format!("netns add {name}"));
        // The far end is born in the member: it never appears anywhere else.
        fabric.push(format!("link add v-{name} type veth peer name eth0 netns {name}"));
        fabric.push(format!("link set v-{name} master br0 up"));
        let mut lines = vec![
            "link set lo up".to_owned(),
            format!("addr add {address}/24 dev eth0"),
            "link set eth0 up".to_owned(),
        ];
        let others = shape.nodes().filter(|other| Some(*other) != *node);
        lines.extend(others.map(|o| format!("route add {} via {}", o.pods(), o.address())));
        if node.is_none() && shape.nodes > 0 {
            // No proxy runs here. Any node's takes such packets and gives them its own address.
            lines.push(format!("route add {SERVICES} via {}", Node(1).address()));
        }
        if node.is_some() {
            // Without a route the kernel refuses before the proxy's rules see the packet, so that
            // the node itself and pods on its network could not reach services.
            lines.push(format!("route add {SERVICES} dev eth0"));
        }
        inside.push((Some(name.clone()), lines));
    }
    let mut all = vec![(None, namespaces), (Some(FABRIC.to_owned()), fabric)];
    all.append(&mut inside);
    all
}

fn batch(namespace: Option<&str>, lines: &[String]) -> Result<(), NetworkError> {
    let mut command = Command::new("ip");
    if let Some(namespace) = namespace {
        command.args(["-n", namespace]);
    }
    let mut child = command
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(NetworkError::Ip)?;
    let mut text = lines.join("\n");
    text.push('\n');
    let mut stdin = child.stdin.take().expect("standard input is a pipe");
    // An ip that ended early says why on its standard error.
    let _ = stdin.write_all(text.as_bytes());
    drop(stdin);
    let output = child.wait_with_output().map_err(NetworkError::Ip)?;
    if output.status.success() {
        return Ok(());
    }
    let doing = match lines {
        [only] => only.clone(),
        _ => format!("configure {}", namespace.unwrap_or("namespaces")),
    };
    let output = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(NetworkError::Refused { doing, output })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_of_two_nodes() {
        let shape = Shape { nodes: 2, ..Shape::default() };
        let text: Vec<String> = commands(&shape)
            .into_iter()
            .map(|(namespace, lines)| {
                format!("[{}]\n{}\n", namespace.as_deref().unwrap_or("-"), lines.join("\n"))
            })
            .collect();
        insta::assert_snapshot!("batches", text.join(""));
    }
}
