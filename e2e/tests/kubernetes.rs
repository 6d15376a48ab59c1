//! The Kubernetes that all other tests here stand on is the one that is pinned.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use quorate_testbed::{Cluster, Shape};
use std::process::Command;

fn output(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn nodes_and_api_have_the_pinned_version_and_serve_jobsets() {
    let pins = include_str!("../kube/core/go.mod");
    let (_, rest) = pins.split_once("k8s.io/kubernetes ").unwrap();
    let version = rest.split_whitespace().next().unwrap();
    let cluster = Cluster::up(Shape { name: "e2e-version".into(), ..Shape::default() }).unwrap();
    let api = output(cluster.kubectl().args(["get", "--raw", "/version"]));
    assert!(api.contains(version), "{version} is not {api}");
    let template = "jsonpath={.items[*].status.nodeInfo.kubeletVersion}";
    let kubelets = output(cluster.kubectl().args(["get", "nodes", "-o", template]));
    assert_eq!(kubelets, [version; 3].join(" "));
    let groups = output(cluster.kubectl().args(["api-resources", "-o", "name"]));
    assert!(groups.lines().any(|line| line == "jobsets.jobset.x-k8s.io"), "{groups}");
    cluster.down().unwrap();
}
