//! Programs of many kinds on a real Kubernetes: the examples as people apply them, real applications,
//! unusual pods, many pods, and pods that are placed by labels of nodes.
//!
//! A cluster of its own: workers that want a domain alone keep those of all other clusters away.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed step is a failed test")]

#[path = "programs/examples.rs"]
mod examples;
#[path = "programs/pods.rs"]
mod pods;
#[path = "programs/topology.rs"]
mod topology;

use quorate_e2e::Lab;
use quorate_testbed::Shape;
use std::collections::BTreeMap;
use std::sync::{LazyLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// The cluster ends with this process. Each node is a rack, and two of them are a zone.
static LAB: LazyLock<Lab> = LazyLock::new(|| {
    let lab = Lab::up(Shape { name: "e2e-programs".into(), ..Shape::default() });
    for (node, rack, zone) in [("n1", "a", "east"), ("n2", "b", "east"), ("n3", "c", "west")] {
        let (rack, zone) = (format!("e2e/rack={rack}"), format!("e2e/zone={zone}"));
        lab.kubectl(&["label", "node", node, &rack, &zone]).unwrap();
    }
    lab
});

/// Who may share nodes with whom.
static NODES: RwLock<()> = RwLock::new(());

/// For tests whose pods may be beside others.
fn beside_others() -> RwLockReadGuard<'static, ()> {
    NODES.read().unwrap_or_else(PoisonError::into_inner)
}

/// For tests whose pods may not.
fn alone() -> RwLockWriteGuard<'static, ()> {
    NODES.write().unwrap_or_else(PoisonError::into_inner)
}

/// Ranks by the pod that they say they are on: lines `rank 3 of 8 on hello-worker-0-2`.
fn ranks_by_pod(output: &str) -> BTreeMap<&str, Vec<u32>> {
    let mut by_pod: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    for line in output.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        if let ["rank", rank, "of", _, "on", pod] = words.as_slice() {
            by_pod.entry(pod).or_default().push(rank.parse().unwrap());
        }
    }
    for ranks in by_pod.values_mut() {
        ranks.sort_unstable();
    }
    by_pod
}

/// How many ranks each pod has, the pods in order.
fn ranks_per_pod(output: &str) -> Vec<(&str, usize)> {
    ranks_by_pod(output).into_iter().map(|(pod, ranks)| (pod, ranks.len())).collect()
}

/// `kubectl get mc` prints what the status says, and what the test knows.
fn columns(name: &str, size: u32, state: &str) {
    let object = LAB.get("minicluster", name).unwrap();
    let line = LAB.kubectl(&["get", "mc", name, "--no-headers"]).unwrap();
    let words: Vec<&str> = line.split_whitespace().collect();
    let (size, online) = (size.to_string(), object["status"]["online"].to_string());
    assert_eq!(words[..4], [name, &size, &online, state], "{line}");
    let heads = LAB.kubectl(&["get", "mc", name]).unwrap();
    let heads: Vec<&str> = heads.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(heads, ["NAME", "SIZE", "ONLINE", "STATE", "JOBS", "AGE"]);
}

/// Waits for the end as people do, and looks at what is told of it; answers what the launcher wrote.
fn succeeded(name: &str, size: u32) -> String {
    let object = format!("mc/{name}");
    let wait = ["wait", "--for=condition=Succeeded", &object, "--timeout=240s"];
    let waited = LAB.kubectl(&wait);
    let status = LAB.get("minicluster", name).unwrap()["status"].clone();
    assert!(waited.is_ok(), "{waited:?}\n{status}");
    assert_eq!((&status["exitCode"], &status["size"]), (&0.into(), &size.into()), "{status}");
    assert!(status["failure"].is_null(), "{status}");
    columns(name, size, "Succeeded");
    LAB.output(name)
}
