//! Lost pods and lost nodes on a real Kubernetes: what each way of losing a worker leads to, a node whose
//! link is cut and comes back, clusters that grow, shrink, end by the clock and are deleted midway.
//!
//! All tests of this file share one cluster. Two nodes (`quiet`) are for tests that harm no node; on three
//! others (`rough`) runs the one test that cuts a link, and two (`pair`) are cut at once.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed step is a failed test")]
#![allow(clippy::print_stdout, reason = "how long recovery takes is worth a line")]

#[path = "nodes/cut.rs"]
mod cut;
#[path = "nodes/lifetime.rs"]
mod lifetime;
#[path = "nodes/losses.rs"]
mod losses;
#[path = "nodes/pair.rs"]
mod pair;
#[path = "nodes/resize.rs"]
mod resize;

use quorate_e2e::{Lab, NAMESPACE};
use quorate_testbed::{Node, Shape};
use serde_json::Value;
use std::path::Path;
use std::sync::LazyLock;

/// The node that the link is cut of.
const CUT: Node = Node(5);

/// The cluster ends with this process.
static LAB: LazyLock<Lab> = LazyLock::new(|| {
    let lab = Lab::bare(Shape { name: "e2e-nodes".into(), nodes: 7, ..Shape::default() });
    lab.kubectl(&["label", "nodes", "n1", "n2", "kind=quiet"]).unwrap();
    lab.kubectl(&["label", "nodes", "n3", "n4", "n5", "kind=rough"]).unwrap();
    lab.kubectl(&["label", "nodes", "n6", "n7", "kind=pair"]).unwrap();
    // The controller stays out of it: what it does when its own node is lost is another question.
    let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("../charts/quorate");
    let (chart, node) = (chart.to_str().unwrap(), "nodeSelector.kind=quiet");
    lab.helm(&["install", "quorate", chart, "--create-namespace", "--set", node]).unwrap();
    lab.rolled_out();
    lab
});

/// A pod template for nodes of a kind; `more` is YAML below the pod's `spec`.
fn template(kind: &str, more: &str) -> String {
    let more: String = more.lines().fold(String::new(), |text, line| text + "    " + line + "\n");
    format!(
        "template:\n  spec:\n    containers: [{{name: main, image: 'localhost/mpi-debian:v1'}}]\n    \
         terminationGracePeriodSeconds: 5\n    nodeSelector: {{kind: {kind}}}\n{more}"
    )
}

/// The pods of a cluster that are not on their way out, by the part of their name before its random end.
fn pods(cluster: &str) -> Vec<(String, Value)> {
    let pods = LAB.of("pods", cluster).into_iter();
    let alive = pods.filter(|pod| {
        let phase = pod["status"]["phase"].as_str().unwrap_or_default();
        pod["metadata"]["deletionTimestamp"].is_null() && !["Failed", "Succeeded"].contains(&phase)
    });
    alive
        .map(|pod| {
            let name = text(&pod["metadata"]["name"]);
            let name = name.strip_prefix(&format!("{cluster}-")).unwrap_or(name);
            (name.rsplit_once('-').unwrap().0.to_owned(), pod.clone())
        })
        .collect()
}

/// The living pod `worker-0-1` or the like.
fn pod(cluster: &str, name: &str) -> Value {
    let found = pods(cluster).into_iter().find(|(short, _)| short == name);
    found.unwrap_or_else(|| panic!("{cluster} has no pod {name}")).1
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn name(object: &Value) -> &str {
    text(&object["metadata"]["name"])
}

fn uid(object: &Value) -> &str {
    text(&object["metadata"]["uid"])
}

/// The attempt, the restarts that counted, and the state.
fn summary(object: &Value) -> (i64, i64, String) {
    let status = &object["status"];
    let number = |field: &str| status[field].as_i64().unwrap_or(0);
    (number("attempt"), number("restarts"), text(&status["state"]).to_owned())
}

fn delete(cluster: &str) {
    LAB.kubectl(&["delete", "mc", cluster, "--wait=false"]).unwrap();
}

/// Runs a shell script in the main container of a pod.
fn inside(pod: &str, script: &str) -> Result<String, String> {
    LAB.kubectl(&["-n", NAMESPACE, "exec", pod, "-c", "main", "--", "sh", "-c", script])
}
