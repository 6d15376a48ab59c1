//! Two nodes whose links are cut at the same moment, one of them with a whole cluster on it, the other with
//! a pod that does not notice: a straggler of an old attempt, which comes back when the next one runs.

use crate::cut::{is, nodes, reached, running_on};
use crate::{LAB, delete, inside, name, pod, pods, text, uid};
use quorate_testbed::Node;
use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

const PAIR: [Node; 2] = [Node(6), Node(7)];
/// For a program that runs elsewhere, on a machine that does other things as well.
const BUSY: Duration = Duration::from_mins(1);
/// Its ranks say all the time which attempt they are of.
const PROGRAM: &str = "program: {parallel: {tasks: 3, command: [sh, -c, \
                       'while :; do echo attempt $QUORATE_ATTEMPT; sleep 1; done']}}";

/// For one of which nobody is left to tell that it is lost: Kubernetes must notice by itself.
const UNTOLD: Duration = Duration::from_mins(2);

/// A cluster of a launcher and the workers `left` and `right`, each first on the node that it prefers, and
/// on a quiet one when that is lost. Other nodes are none of its business: a cluster knows of those alone
/// on which it has lost something.
fn start(cluster: &str, [launcher, left, right]: [&str; 3], more: &str) {
    let prefers = |node: &str| {
        format!(
            "{{spec: {{affinity: {{nodeAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: \
             {{nodeSelectorTerms: [{{matchExpressions: [{{key: kubernetes.io/hostname, operator: In, \
             values: [{node}, n1, n2]}}]}}]}}, preferredDuringSchedulingIgnoredDuringExecution: \
             [{{weight: 100, preference: {{matchExpressions: [{{key: kubernetes.io/hostname, \
             operator: In, values: [{node}]}}]}}}}]}}}}}}}}"
        )
    };
    LAB.minicluster(
        cluster,
        &format!(
            "slots: 1\ntemplate:\n  spec:\n    \
             containers: [{{name: main, image: 'localhost/mpi-debian:v1'}}]\n    \
             terminationGracePeriodSeconds: 5\n\
             launcher: {{template: {}}}\n\
             groups:\n- {{name: left, size: 1, template: {}}}\n- {{name: right, size: 1, template: {}}}\n\
             {more}",
            prefers(launcher),
            prefers(left),
            prefers(right),
        ),
    );
}

fn placed(cluster: &str) -> BTreeSet<(String, String)> {
    nodes(cluster).into_iter().collect()
}

fn on(nodes: [&str; 3]) -> BTreeSet<(String, String)> {
    let pods = ["launcher-0-0", "left-0-0", "right-0-0"];
    pods.into_iter().zip(nodes).map(|(pod, node)| (pod.to_owned(), node.to_owned())).collect()
}

/// Stops, or lets run again, the processes of a node that a shell's condition on `$p`, a folder of `/proc`,
/// picks; answers how many.
fn freeze(node: Node, picks: &str, frozen: bool) -> usize {
    let signal = if frozen { "STOP" } else { "CONT" };
    let script = format!(
        "for p in /proc/[0-9]*; do if {picks}; then kill -{signal} ${{p#/proc/}} && echo one; fi; done \
         2>/dev/null; true"
    );
    let output =
        LAB.cluster.exec(Some(node)).unwrap().args(["sh", "-c", &script]).output().unwrap();
    String::from_utf8_lossy(&output.stdout).lines().count()
}

fn uids(clusters: &[&str]) -> Vec<String> {
    let pods = clusters.iter().flat_map(|cluster| pods(cluster));
    pods.map(|(_, pod)| uid(&pod).to_owned()).collect()
}

#[test]
fn two_nodes_lost_at_once_cost_one_restart_and_a_straggler_from_there_never_gets_in() {
    let [whole, other] = PAIR.map(Node::name);
    let policy = "failurePolicy: {maxRestarts: 1}\n";
    let program = format!("{policy}{PROGRAM}");
    start("pair-workers", ["n1", &whole, &other], &program);
    start("pair-whole", [&whole; 3], &program);
    start("pair-straggler", ["n1", "n2", &other], &program);
    start("pair-queue", ["n2", &whole, &other], "");
    let programs = ["pair-workers", "pair-whole", "pair-straggler"];
    for cluster in programs {
        LAB.state(cluster, "Running");
    }
    LAB.state("pair-queue", "Ready");
    assert_eq!(placed("pair-workers"), on(["n1", &whole, &other]));
    assert_eq!(placed("pair-whole"), on([&whole; 3]));
    assert_eq!(placed("pair-straggler"), on(["n1", "n2", &other]));
    let launcher = uid(&pod("pair-queue", "launcher-0-0")).to_owned();
    let together: BTreeSet<String> = uids(&["pair-whole"]).into_iter().collect();
    let orphans: BTreeSet<String> = PAIR.into_iter().flat_map(running_on).collect();
    assert!(orphans.len() >= 8, "{orphans:?}");

    // What would fence the straggler, and who would take it away, are stopped for as long as the node is cut.
    let straggler = uid(&pod("pair-straggler", "right-0-0")).to_owned();
    let its = format!("tr '\\0' '\\n' <$p/environ | grep -qx QUORATE_POD_UID={straggler}");
    let kubelet = "[ \"$(cat $p/comm)\" = kubelet ]";
    assert!(freeze(PAIR[1], &its, true) >= 3, "a supervisor, a broker and a rank");
    assert_eq!(freeze(PAIR[1], kubelet, true), 1);
    for node in PAIR {
        LAB.cluster.cut_node(node).unwrap();
    }
    let cut = Instant::now();
    thread::scope(|scope| {
        for (cluster, limit) in programs.into_iter().zip([BUSY, UNTOLD, BUSY]) {
            scope.spawn(move || {
                let took = reached(cluster, cut, (1, 1, "Running"));
                assert!(took < limit, "{cluster}: {took:?}");
            });
        }
        scope.spawn(|| {
            LAB.until("pair-queue", "alone", |object| object["status"]["online"] == 1);
            LAB.until("pair-queue", "whole again", |object| object["status"]["online"] == 3);
        });
    });
    let all = ["pair-workers", "pair-whole", "pair-straggler", "pair-queue"];
    for cluster in all {
        LAB.until(cluster, "whole", |object| object["status"]["online"] == 3);
        let quiet = |placed: &BTreeSet<(String, String)>| {
            placed.len() == 3
                && placed.iter().all(|(_, node)| ["n1", "n2"].contains(&node.as_str()))
        };
        LAB.eventually("three pods on the quiet nodes", || placed(cluster), quiet);
    }
    assert_eq!(uid(&pod("pair-queue", "launcher-0-0")), launcher, "it worked on");
    // A cluster that is on the cut node as a whole has lost none of its own: it runs on, alone.
    let left = || -> BTreeSet<String> {
        PAIR.into_iter().flat_map(running_on).filter(|uid| orphans.contains(uid)).collect()
    };
    let alone = together.union(&BTreeSet::from([straggler.clone()])).cloned().collect();
    assert_eq!(left(), alone, "all others have left by themselves");

    let before = uids(&all);
    for node in PAIR {
        LAB.cluster.heal_node(node).unwrap();
    }
    freeze(PAIR[1], &its, false);
    // Nobody ends it but itself: its kubelet does not run.
    LAB.eventually(
        "the straggler has left by itself",
        || running_on(PAIR[1]).contains(&straggler),
        |there| !there,
    );
    freeze(PAIR[1], kubelet, false);
    for node in PAIR.map(|node| format!("node/{}", node.name())) {
        LAB.kubectl(&["wait", "--for=condition=Ready", &node, "--timeout=120s"]).unwrap();
    }
    LAB.eventually("the nodes are rid of what was cut", left, BTreeSet::is_empty);
    assert_eq!(before, uids(&all), "the same pods as before");
    for cluster in programs {
        let object = LAB.get("minicluster", cluster).unwrap();
        assert!(is(&object, (1, 1, "Running")), "{cluster}: {}", object["status"]);
        assert_eq!(object["status"]["online"], 3, "{}", object["status"]);
        let output = LAB.output(cluster);
        assert!(output.contains("attempt 1"), "{output}");
        assert!(!output.contains("attempt 0"), "of another attempt: {output}");
    }
    let object = LAB.get("minicluster", "pair-queue").unwrap();
    assert!(is(&object, (0, 0, "Ready")), "{}", object["status"]);
    let launcher = name(&pod("pair-straggler", "launcher-0-0")).to_owned();
    let overlay = inside(&launcher, "/quorate/bin/quorate-agent overlay status -o json").unwrap();
    assert!(overlay.contains("\"onlineRanks\":\"0-2\""), "{overlay}");
    for pod in LAB.of("pods", "pair-straggler") {
        assert_ne!(text(&pod["spec"]["nodeName"]), other, "a pod of the first attempt is left");
    }
    for cluster in all {
        delete(cluster);
    }
}
