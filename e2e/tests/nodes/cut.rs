//! A node whose link is cut, and that comes back. One cut for all clusters that it is to hurt, since
//! Kubernetes takes its time to notice; its own default timings are in force.

use crate::{CUT, LAB, delete, pod, pods, summary, template, text, uid};
use quorate_e2e::NAMESPACE;
use quorate_testbed::Node;
use serde_json::Value;
use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

/// The target for a program that runs elsewhere, and what a machine that does other things as well is given.
const TARGET: Duration = Duration::from_secs(30);
const BUSY: Duration = Duration::from_mins(1);

/// A preference that the lost node would be the first choice of every attempt by.
fn prefers(node: &str) -> String {
    format!(
        "affinity: {{nodeAffinity: {{preferredDuringSchedulingIgnoredDuringExecution: [{{weight: 100, \
         preference: {{matchExpressions: [{{key: kubernetes.io/hostname, operator: In, values: [{node}]}}]}}}}]}}}}"
    )
}

/// A cluster with its launcher on one node and its workers on another.
fn start(cluster: &str, launcher: &str, workers: &str, more: &str) {
    let overlay = |node: &str| format!("{{spec: {{{}}}}}", prefers(node));
    let template = template("rough", "");
    LAB.minicluster(
        cluster,
        &format!(
            "slots: 1\n{template}launcher: {{template: {}}}\n\
             groups: [{{name: worker, size: 2, template: {}}}]\n{more}",
            overlay(launcher),
            overlay(workers)
        ),
    );
}

/// The living pods of a cluster with the node of each.
pub(crate) fn nodes(cluster: &str) -> Vec<(String, String)> {
    let node = |pod: &Value| text(&pod["spec"]["nodeName"]).to_owned();
    pods(cluster).iter().map(|(name, pod)| (name.clone(), node(pod))).collect()
}

/// UIDs of pods whose processes run on a node.
pub(crate) fn running_on(node: Node) -> BTreeSet<String> {
    let script = "cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n' | \
                  sed -n 's/^QUORATE_POD_UID=//p' | sort -u";
    let mut command = LAB.cluster.exec(Some(node)).unwrap();
    let output = command.args(["sh", "-c", script]).output().unwrap();
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

/// Attempt, restarts that may have counted at the most, and state.
pub(crate) type Wanted = (i64, i64, &'static str);

/// Whether a cluster is so.
pub(crate) fn is(object: &Value, wanted: Wanted) -> bool {
    let (attempt, restarts, state) = summary(object);
    attempt == wanted.0 && restarts <= wanted.1 && state == wanted.2
}

/// Waits for a state of a cluster and tells when it came.
pub(crate) fn reached(cluster: &str, cut: Instant, wanted: Wanted) -> Duration {
    LAB.until(cluster, &format!("{wanted:?}"), |object| is(object, wanted));
    let took = cut.elapsed();
    println!("{cluster}: {wanted:?} {:.1} s after the cut", took.as_secs_f64());
    took
}

#[test]
fn a_cluster_goes_on_elsewhere_after_a_node_was_cut_off_and_nothing_is_left_when_it_comes_back() {
    let lost = CUT.name();
    let parallel = "program: {parallel: {command: [sh, -c, 'echo up; sleep 3600'], tasks: 3}}";
    let policy = |text: &str| format!("failurePolicy: {{{text}}}\n");
    start("cut-program", "n3", &lost, &(policy("maxRestarts: 1") + parallel));
    start("cut-launcher", &lost, "n4", parallel);
    start("cut-fail", "n3", &lost, &(policy("onWorkerLost: Fail, maxRestarts: 1") + parallel));
    start("cut-queue", "n4", &lost, "");
    start("cut-suspended", "n3", &lost, "");
    LAB.create(&format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: cut-foreign}}\nspec:\n  nodeName: {lost}\n  \
         terminationGracePeriodSeconds: 1\n  \
         containers: [{{name: main, image: 'localhost/busybox:v1', command: [sleep, '3600']}}]\n"
    ))
    .unwrap();
    for cluster in ["cut-program", "cut-launcher", "cut-fail"] {
        LAB.state(cluster, "Running");
    }
    for cluster in ["cut-queue", "cut-suspended"] {
        LAB.state(cluster, "Ready");
    }
    let foreign = || LAB.get("pod", "cut-foreign");
    LAB.eventually("the foreign pod runs", foreign, |pod| {
        pod.as_ref().is_some_and(|pod| pod["status"]["phase"] == "Running")
    });
    for (cluster, there) in [("cut-program", "worker-0-1"), ("cut-launcher", "launcher-0-0")] {
        let placed = nodes(cluster);
        assert!(placed.contains(&(there.to_owned(), lost.clone())), "{cluster}: {placed:?}");
    }
    let queue = ["launcher-0-0"].map(|short| uid(&pod("cut-queue", short)).to_owned());
    let orphans = running_on(CUT);
    assert!(orphans.len() >= 9, "{orphans:?}");

    LAB.cluster.cut_node(CUT).unwrap();
    let cut = Instant::now();
    LAB.kubectl(&["-n", NAMESPACE, "delete", "pod", "cut-foreign", "--wait=false"]).unwrap();
    let suspend = |suspend| {
        let patch = format!("{{\"spec\":{{\"suspend\":{suspend}}}}}");
        LAB.kubectl(&["patch", "mc", "cut-suspended", "--type=merge", "-p", &patch]).unwrap();
    };
    suspend(true);
    thread::scope(|scope| {
        scope.spawn(|| {
            // The launcher says that it lost a broker, the worker's Job that it was a disruption:
            // whichever is seen first decides whether it counts.
            let took = reached("cut-program", cut, (1, 1, "Running"));
            assert!(took < BUSY, "{took:?}, the target is {TARGET:?}");
        });
        scope.spawn(|| {
            let took = reached("cut-launcher", cut, (1, 0, "Running"));
            assert!(took < BUSY, "{took:?}, the target is {TARGET:?}");
        });
        scope.spawn(|| reached("cut-fail", cut, (0, 0, "Failed")));
        scope.spawn(|| reached("cut-suspended", cut, (0, 0, "Suspended")));
        scope.spawn(|| {
            LAB.until("cut-queue", "short of its workers", |object| {
                object["status"]["online"] == 1
            });
            // It is Ready all the time: a queue works with the brokers that it has.
            LAB.until("cut-queue", "whole again", |object| object["status"]["online"] == 3);
            println!("cut-queue: whole {:.1} s after the cut", cut.elapsed().as_secs_f64());
        });
    });
    assert!(orphans.is_disjoint(&running_on(CUT)), "orphans have left by themselves");
    for cluster in ["cut-program", "cut-launcher", "cut-queue"] {
        LAB.eventually(
            "three pods, none of them on the lost node",
            || nodes(cluster),
            |placed| placed.len() == 3 && placed.iter().all(|(_, node)| *node != lost),
        );
        for object in LAB.of("pods", cluster) {
            assert_ne!(text(&object["spec"]["nodeName"]), lost, "a stuck pod is left of {cluster}");
        }
    }
    LAB.eventually("no stuck pod", || LAB.of("pods", "cut-suspended").len(), |left| *left == 0);
    let still = ["launcher-0-0"].map(|short| uid(&pod("cut-queue", short)).to_owned());
    assert_eq!(queue, still, "those that were not lost worked on");
    let failed = LAB.get("minicluster", "cut-fail").unwrap();
    let reason = text(&failed["status"]["failure"]["reason"]);
    assert!(["NodeLost", "BrokerLost"].contains(&reason), "{}", failed["status"]);
    assert_eq!(text(&failed["status"]["failure"]["node"]), lost, "{}", failed["status"]);
    let foreign = foreign().unwrap();
    assert!(!foreign["metadata"]["deletionTimestamp"].is_null(), "somebody else's pod waits");

    let before: Vec<String> = ["cut-program", "cut-launcher", "cut-queue"]
        .iter()
        .flat_map(|cluster| pods(cluster))
        .map(|(_, pod)| uid(&pod).to_owned())
        .collect();
    LAB.cluster.heal_node(CUT).unwrap();
    LAB.kubectl(&["wait", "--for=condition=Ready", &format!("node/{lost}"), "--timeout=120s"])
        .unwrap();
    LAB.eventually(
        "the foreign pod is let go",
        || LAB.get("pod", "cut-foreign").is_none(),
        |gone| *gone,
    );
    // No second cluster of any, and the same pods as before.
    let after: Vec<String> = ["cut-program", "cut-launcher", "cut-queue"]
        .iter()
        .flat_map(|cluster| pods(cluster))
        .map(|(_, pod)| uid(&pod).to_owned())
        .collect();
    assert_eq!(before, after);
    assert!(orphans.is_disjoint(&running_on(CUT)));
    for (cluster, wanted) in [
        ("cut-program", (1, 1, "Running")),
        ("cut-launcher", (1, 0, "Running")),
        ("cut-queue", (0, 0, "Ready")),
        ("cut-fail", (0, 0, "Failed")),
        ("cut-suspended", (0, 0, "Suspended")),
    ] {
        let object = LAB.get("minicluster", cluster).unwrap();
        assert!(is(&object, wanted), "{cluster} is not {wanted:?}: {}", object["status"]);
    }
    suspend(false);
    LAB.state("cut-suspended", "Ready");
    // Who asks for the node now gets it.
    start("cut-healed", &lost, &lost, "");
    LAB.state("cut-healed", "Ready");
    assert!(nodes("cut-healed").iter().all(|(_, node)| *node == lost), "{:?}", nodes("cut-healed"));
    for cluster in
        ["cut-program", "cut-launcher", "cut-queue", "cut-fail", "cut-suspended", "cut-healed"]
    {
        delete(cluster);
    }
}
