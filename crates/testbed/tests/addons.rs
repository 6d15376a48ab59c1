//! What addons do in a real cluster: Kueue admits and holds, policies are enforced, played pods come
//! and go. They need root and the built programs, as every cluster does.
#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

use quorate_testbed::addons::Addon;
use quorate_testbed::images::{self, Binaries, Name};
use quorate_testbed::{Cluster, Node, Shape};
use serde_json::{Value, json};
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// For whatever is waited for; the machine may be busy.
const LIMIT: Duration = Duration::from_mins(2);

fn up(name: &str, addons: &[Addon], shape: Shape) -> Cluster {
    let shape = Shape { name: name.into(), addons: addons.iter().copied().collect(), ..shape };
    Cluster::up(shape).unwrap()
}

fn busybox() -> Vec<PathBuf> {
    images::build(&[Name::Busybox], &Binaries::default(), &mut |_| {}).unwrap()
}

/// Runs kubectl, with objects on its input, and answers what it says if it ends well.
fn kubectl(
    cluster: &Cluster,
    arguments: &[&str],
    objects: Option<&Value>,
) -> Result<String, String> {
    let mut command = cluster.kubectl();
    command.args(arguments);
    finish(command, objects)
}

fn finish(mut command: Command, input: Option<&Value>) -> Result<String, String> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    if let Some(input) = input {
        stdin.write_all(input.to_string().as_bytes()).unwrap();
    }
    drop(stdin);
    let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if status.success() { Ok(text(&stdout)) } else { Err(text(&stderr)) }
}

fn apply(cluster: &Cluster, objects: &[Value]) {
    for object in objects {
        kubectl(cluster, &["create", "-f", "-"], Some(object)).unwrap();
    }
}

/// Waits until kubectl answers what is wanted, and shows the last answer if it never does.
fn eventually(cluster: &Cluster, arguments: &[&str], wanted: impl Fn(&str) -> bool) -> String {
    let deadline = Instant::now() + LIMIT;
    loop {
        let answer = kubectl(cluster, arguments, None);
        match &answer {
            Ok(text) if wanted(text) => return text.clone(),
            _ => {}
        }
        assert!(Instant::now() < deadline, "{arguments:?} answers {answer:?}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

fn jobset(name: &str, pods: u32, pod: &Value, labels: &Value) -> Value {
    json!({
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": { "name": name, "labels": labels },
        "spec": { "replicatedJobs": [{
            "name": "w",
            "template": { "spec": {
                "completionMode": "Indexed",
                "completions": pods,
                "parallelism": pods,
                "backoffLimit": 0,
                "template": { "spec": pod },
            } },
        }] },
    })
}

#[test]
fn kueue_admits_within_its_quota_and_holds_what_is_above() {
    let shape = Shape { nodes: 1, images: busybox(), ..Shape::default() };
    let cluster = up("addons-kueue", &[Addon::Kueue], shape);
    let version = "kueue.x-k8s.io/v1beta2";
    apply(
        &cluster,
        &[
            json!({ "apiVersion": version, "kind": "ResourceFlavor", "metadata": { "name": "any" } }),
            json!({
                "apiVersion": version,
                "kind": "ClusterQueue",
                "metadata": { "name": "all" },
                "spec": {
                    "namespaceSelector": {},
                    "resourceGroups": [{
                        "coveredResources": ["cpu"],
                        "flavors": [{
                            "name": "any",
                            "resources": [{ "name": "cpu", "nominalQuota": "300m" }],
                        }],
                    }],
                },
            }),
            json!({
                "apiVersion": version,
                "kind": "LocalQueue",
                "metadata": { "name": "mine", "namespace": "default" },
                "spec": { "clusterQueue": "all" },
            }),
        ],
    );
    let pod = |cpu: &str| {
        json!({
            "restartPolicy": "Never",
            "containers": [{
                "name": "main",
                "image": "localhost/busybox:v1",
                "command": ["true"],
                "resources": { "requests": { "cpu": cpu } },
            }],
        })
    };
    let queue = json!({ "kueue.x-k8s.io/queue-name": "mine" });
    apply(
        &cluster,
        &[jobset("fits", 2, &pod("100m"), &queue), jobset("above", 2, &pod("200m"), &queue)],
    );
    let condition = |name: &str, kind: &str| {
        let path = format!("jsonpath={{.status.conditions[?(@.type==\"{kind}\")].status}}");
        ["get".to_owned(), "jobset".into(), name.into(), "-o".into(), path]
    };
    let completed = condition("fits", "Completed");
    eventually(&cluster, &completed.each_ref().map(String::as_str), |text| text == "True");

    // Kueue has looked at the other too when it says why it waits.
    let reasons = "jsonpath={range .items[*]}{.metadata.name}: {.status.conditions[?(@.type==\"QuotaReserved\")].message}{\"\\n\"}{end}";
    eventually(&cluster, &["get", "workloads", "-o", reasons], |text| {
        text.lines().any(|line| line.starts_with("jobset-above") && line.contains("insufficient"))
    });
    let suspended = ["get", "jobset", "above", "-o", "jsonpath={.spec.suspend}"];
    assert_eq!(kubectl(&cluster, &suspended, None).unwrap(), "true");

    let more = r#"[{"op":"replace","path":"/spec/resourceGroups/0/flavors/0/resources/0/nominalQuota","value":"1"}]"#;
    kubectl(&cluster, &["patch", "clusterqueue", "all", "--type=json", "-p", more], None).unwrap();
    let completed = condition("above", "Completed");
    eventually(&cluster, &completed.each_ref().map(String::as_str), |text| text == "True");
    cluster.down().unwrap();
}

#[test]
fn a_policy_that_denies_all_is_enforced_between_nodes_and_on_one() {
    let shape = Shape { nodes: 2, images: busybox(), ..Shape::default() };
    let cluster = up("addons-policies", &[Addon::NetworkPolicies], shape);
    let pod = |name: &str, node: Node, command: &[&str]| {
        json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": { "name": name, "labels": { "app": name } },
            "spec": {
                "nodeName": node.name(),
                "containers": [{
                    "name": "main",
                    "image": "localhost/busybox:v1",
                    "command": command,
                }],
            },
        })
    };
    let serve = ["httpd", "-f", "-p", "8080", "-h", "/etc"];
    let idle = ["sleep", "1000"];
    apply(
        &cluster,
        &[pod("server", Node(1), &serve), pod("near", Node(1), &idle), pod("far", Node(2), &idle)],
    );
    let ready = ["wait", "--for=condition=Ready", "pod", "--all", "--timeout=120s"];
    kubectl(&cluster, &ready, None).unwrap();
    let address = ["get", "pod", "server", "-o", "jsonpath={.status.podIP}"];
    let url = format!("http://{}:8080/group", kubectl(&cluster, &address, None).unwrap());
    // Busybox's own time limit for wget crashes; that of `timeout` does not.
    let fetch = |from: &str| {
        let words = ["exec", from, "--", "timeout", "3", "wget", "-q", "-O", "-", &url];
        kubectl(&cluster, &words, None)
    };
    let reaches = |from: &str, wanted: bool| {
        let deadline = Instant::now() + LIMIT;
        while fetch(from).is_ok() != wanted {
            assert!(Instant::now() < deadline, "{from} reaches the server: not {wanted}");
        }
    };
    reaches("near", true);
    reaches("far", true);

    let policy = |name: &str, spec: Value| {
        json!({
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": { "name": name },
            "spec": spec,
        })
    };
    apply(&cluster, &[policy("deny", json!({ "podSelector": {}, "policyTypes": ["Ingress"] }))]);
    reaches("near", false);
    reaches("far", false);

    let from = json!([{ "podSelector": { "matchLabels": { "app": "far" } } }]);
    let open = json!({
        "podSelector": { "matchLabels": { "app": "server" } },
        "ingress": [{ "from": from, "ports": [{ "port": 8080 }] }],
    });
    apply(&cluster, &[policy("open", open)]);
    reaches("far", true);
    assert!(fetch("near").is_err(), "a pod that the policy does not name reaches the server");
    cluster.down().unwrap();
}

#[test]
fn a_hundred_played_pods_become_ready_and_complete_on_request() {
    let shape = Shape { nodes: 0, fake_nodes: 10, ..Shape::default() };
    let cluster = up("addons-kwok", &[], shape);
    let pod = json!({
        "restartPolicy": "Never",
        "tolerations": [{ "key": "kwok.x-k8s.io/node", "operator": "Exists" }],
        "containers": [{ "name": "main", "image": "none" }],
    });
    apply(&cluster, &[jobset("many", 100, &pod, &json!({}))]);
    let ready = ["get", "job", "many-w-0", "-o", "jsonpath={.status.ready}"];
    eventually(&cluster, &ready, |text| text == "100");
    let done = "testbed.quorate.dev/complete=yes";
    kubectl(&cluster, &["annotate", "pod", "--all", done], None).unwrap();
    let state = ["get", "jobset", "many", "-o", "jsonpath={.status.terminalState}"];
    eventually(&cluster, &state, |text| text == "Completed");
    cluster.down().unwrap();
}
