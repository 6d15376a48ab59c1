//! A real cluster of this crate: it runs JobSets, its nodes fail and come back, and nothing of it is
//! left, however it ends. Needs root, Go or the built programs, and the distribution's containerd.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test fails by panicking")]

use quorate_testbed::component::State;
use quorate_testbed::images::{self, Binaries, Name};
use quorate_testbed::{Cluster, Node, Shape, cluster};
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// A launcher that asks each of three workers, on three nodes, by name.
const JOBSET: &str = include_str!("jobset.yaml");

fn busybox() -> Vec<PathBuf> {
    images::build(&[Name::Busybox], &Binaries::default(), &mut |line| eprintln!("{line}")).unwrap()
}

fn shape(name: &str, nodes: u8) -> Shape {
    Shape { name: name.into(), nodes, ..Shape::default() }
}

/// Runs a command to its end and answers its output.
fn output(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{command:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

fn apply(cluster: &Cluster, yaml: &str) {
    let mut kubectl = cluster.kubectl();
    let mut child = kubectl.args(["create", "-f", "-"]).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(yaml.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
}

fn wait(cluster: &Cluster, condition: &str, object: &str) {
    let condition = format!("--for=condition={condition}");
    output(cluster.kubectl().args(["wait", &condition, object, "--timeout=120s"]));
}

fn until(what: &str, mut reached: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_mins(1);
    while !reached() {
        assert!(Instant::now() < deadline, "{what}");
        thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn a_jobset_runs_over_three_nodes_that_fail_and_come_back_and_nothing_is_left() {
    let images = busybox();
    let cluster =
        Cluster::up(Shape { images, fast_eviction: true, ..shape("tb-whole", 3) }).unwrap();

    apply(&cluster, JOBSET);
    wait(&cluster, "Completed", "jobset/greeting");
    // Each worker says on which node it is.
    let nodes = output(cluster.kubectl().args(["logs", "job/greeting-launcher-0"]));
    let mut nodes: Vec<&str> = nodes.lines().collect();
    nodes.sort_unstable();
    assert_eq!(nodes, ["n1", "n2", "n3"]);
    let audit = std::fs::read_to_string(cluster.folder().audit_log()).unwrap();
    assert!(audit.lines().any(|line| {
        line.contains(r#""verb":"create""#) && line.contains(r#""resource":"jobsets""#)
    }));

    // Beside the control plane and on a node, names of the cluster mean something.
    let mut lookup = cluster.exec(None).unwrap();
    output(lookup.args(["getent", "hosts", "kubernetes.default.svc.cluster.local"]));
    let mut by_service = cluster.exec(None).unwrap();
    by_service.args(["kubectl", "--server=https://kubernetes.default.svc.cluster.local"]);
    output(by_service.args(["get", "namespaces"]));
    let mut host_name = cluster.exec(Some(Node(2))).unwrap();
    assert_eq!(output(host_name.arg("hostname")).trim(), "n2");
    let mut failing = cluster.exec(None).unwrap();
    assert_eq!(failing.args(["sh", "-c", "exit 7"]).status().unwrap().code(), Some(7));

    cluster.cut_node(Node(3)).unwrap();
    wait(&cluster, "Ready=Unknown", "node/n3");
    cluster.heal_node(Node(3)).unwrap();
    wait(&cluster, "Ready", "node/n3");

    cluster.kill_node(Node(2)).unwrap();
    assert_eq!(cluster.status().unwrap().nodes[1].pid, None);
    wait(&cluster, "Ready=Unknown", "node/n2");
    cluster.start_node(Node(2)).unwrap();
    wait(&cluster, "Ready", "node/n2");

    cluster.stop("jobset").unwrap();
    let state = |name: &str| {
        let status = cluster.status().unwrap();
        status.components.into_iter().find(|part| part.name == name).unwrap().state
    };
    assert_eq!(state("jobset"), State::Stopped);
    cluster.start("jobset").unwrap();
    cluster.restart("apiserver").unwrap();
    assert!(matches!(state("apiserver"), State::Running(_)));
    wait(&cluster, "Ready", "node/n1");
    let error = cluster.stop("nothing").unwrap_err().to_string();
    assert!(error.contains("there are etcd, apiserver"), "{error}");

    cluster.down().unwrap();
}

#[test]
fn two_clusters_stand_side_by_side_and_know_nothing_of_each_other() {
    let one = Cluster::up(shape("tb-one", 1)).unwrap();
    let two =
        Cluster::up(Shape { cluster_domain: "hpc.example".into(), ..shape("tb-two", 1) }).unwrap();
    output(one.kubectl().args(["create", "namespace", "only-in-one"]));
    let namespaces = output(two.kubectl().args(["get", "namespaces", "-o", "name"]));
    assert!(!namespaces.contains("only-in-one"), "{namespaces}");
    let mut lookup = two.exec(None).unwrap();
    output(lookup.args(["getent", "hosts", "kubernetes.default.svc.hpc.example"]));

    let error = cluster::up(shape("tb-one", 1), &mut |_| {}).unwrap_err().to_string();
    assert_eq!(error, "cluster tb-one exists already; `testbed down --name tb-one` ends it");
    one.down().unwrap();
    let namespaces = output(two.kubectl().args(["get", "namespaces", "-o", "name"]));
    assert!(namespaces.contains("namespace/default"), "{namespaces}");
    two.down().unwrap();
}

#[test]
fn a_killed_keeper_or_guard_or_owner_takes_everything_along() {
    let kill = |pid: u32| output(Command::new("kill").args(["-9", &pid.to_string()]));
    for (name, victim) in [("tb-keeper", "keeper"), ("tb-guard", "guard"), ("tb-owner", "")] {
        let mut owner = Command::new("sleep").arg("600").spawn().unwrap();
        let shape = Shape { owner: Some(owner.id()), ..shape(name, 1) };
        let folder = cluster::up(shape, &mut |_| {}).unwrap();
        let census = cluster::census(&folder);
        assert!(census.size().0 > 8, "etcd, API server, kubelet and others: {:?}", census.size());
        if victim.is_empty() {
            owner.kill().unwrap();
        } else {
            let pid = std::fs::read_to_string(folder.path(&format!("{victim}.pid"))).unwrap();
            kill(pid.parse().unwrap());
        }
        until(name, || !folder.root().exists());
        until(name, || census.left(&folder).is_empty());
        let _ = owner.kill();
        owner.wait().unwrap();
    }
}

#[test]
fn a_cluster_that_cannot_start_says_why_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("broken.tar");
    std::fs::write(&image, "no archive").unwrap();
    let shape = Shape { images: vec![image], ..shape("tb-broken", 1) };
    let error = cluster::up(shape, &mut |_| {}).unwrap_err().to_string();
    assert!(error.contains("node n1: cannot load") && error.contains("broken.tar"), "{error}");
    assert!(!cluster::names().contains(&"tb-broken".to_owned()));
}
