//! Where workers run by `spec.topology`: each node is a rack, n1 and n2 are a zone.

use crate::{LAB, alone, ranks_by_pod, succeeded};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

const IMAGE: &str = "slots: 1\nimage: localhost/mpi-debian:v1";

/// A program whose ranks say where they are, before they meet.
const HELLO: &str = "program: {parallel: {command: \
    [sh, -c, 'echo node $QUORATE_NODE_NAME of $(hostname); exec /opt/tests/mpich/hello']}}";

/// Nodes by pods, as their ranks say from inside: lines `node n2 of racks-worker-0-1`. Workers are gone
/// once a program has ended.
pub(crate) fn nodes_by_pod(output: &str) -> BTreeMap<&str, &str> {
    output
        .lines()
        .filter_map(|line| line.strip_prefix("node ")?.split_once(" of "))
        .map(|(node, pod)| (pod, node))
        .collect()
}

#[test]
fn groups_of_two_have_a_rack_of_their_own_and_ranks_in_a_row() {
    let _nodes = alone();
    let name = "racks";
    let topology = "topology: {key: e2e/rack, groupSize: 2, exclusive: true}";
    LAB.minicluster(name, &format!("size: 7\n{IMAGE}\n{topology}\n{HELLO}"));
    let output = succeeded(name, 7);
    let hosts =
        ["worker-0-0", "worker-0-1", "worker-1-0", "worker-1-1", "worker-2-0", "worker-2-1"];
    let by_pod = ranks_by_pod(&output);
    assert_eq!(by_pod["racks-launcher-0-0"], [0], "{output}");
    for (rank, host) in (1..).zip(hosts) {
        assert_eq!(by_pod[format!("racks-{host}").as_str()], [rank], "{output}");
    }
    let nodes = nodes_by_pod(&output);
    let racks: BTreeSet<&str> = [0, 1, 2]
        .map(|group| {
            let [one, other] =
                [0, 1].map(|member| nodes[format!("racks-worker-{group}-{member}").as_str()]);
            assert_eq!(one, other, "group {group} is in two racks: {nodes:?}");
            one
        })
        .into();
    assert_eq!(racks.len(), 3, "{nodes:?}");
}

#[test]
fn workers_of_a_group_are_in_one_zone_and_a_group_that_would_not_fit_says_why() {
    let _nodes = alone();
    let topology = "topology: {key: e2e/zone, exclusive: true}";
    // Two groups, two zones.
    let groups = "groups: [{name: actor, size: 3}, {name: learner, size: 1}]";
    LAB.minicluster("zones", &format!("{IMAGE}\n{groups}\n{topology}\n{HELLO}"));
    let output = succeeded("zones", 5);
    let nodes = nodes_by_pod(&output);
    let zones = |group: &str| -> BTreeSet<&str> {
        let of_group = nodes.iter().filter(|(pod, _)| pod.contains(group));
        of_group.map(|(_, node)| if *node == "n3" { "west" } else { "east" }).collect()
    };
    let (actors, learners) = (zones("-actor-"), zones("-learner-"));
    assert_eq!((actors.len(), learners.len()), (1, 1), "{nodes:?}");
    assert_ne!(actors, learners, "{nodes:?}");

    // Three groups, two zones.
    let groups = "groups: [{name: a, size: 1}, {name: b, size: 1}, {name: c, size: 1}]";
    LAB.minicluster("crowded", &format!("{IMAGE}\n{groups}\n{topology}\n{HELLO}"));
    let object = LAB.until("crowded", "explained", |object| {
        let message = object["status"]["message"].as_str().unwrap_or_default();
        object["status"]["reason"] == "Unschedulable" && message.contains("spec.topology")
    });
    let words = "spec.topology asks for a e2e/zone of its own for each worker group";
    let message = object["status"]["message"].as_str().unwrap();
    assert!(message.contains("cannot be scheduled"), "{message}");
    assert!(message.contains("excluded by pod anti-affinity"), "{message}");
    assert!(message.contains(words), "{message}");
    let why = quorate(&["why", "crowded"]);
    assert!(why.contains(words) && why.contains("set topology.mode to Preferred"), "{why}");
    LAB.kubectl(&["delete", "mc", "crowded"]).unwrap();
    LAB.eventually("its pods are gone", || LAB.of("pods", "crowded"), Vec::is_empty);
}

#[test]
fn a_label_that_no_node_has_is_named_and_a_preference_goes_on_without() {
    let _nodes = alone();
    let topology = "topology: {key: e2e/absent}";
    LAB.minicluster("absent", &format!("size: 2\n{IMAGE}\n{topology}\n{HELLO}"));
    let words = "spec.topology asks for one e2e/absent for each worker group";
    LAB.until("absent", "explained", |object| {
        object["status"]["message"].as_str().unwrap_or_default().contains(words)
    });
    LAB.kubectl(&["delete", "mc", "absent", "--wait=false"]).unwrap();

    // Five workers want a rack of their own, and there are three.
    let topology = "topology: {key: e2e/rack, groupSize: 1, exclusive: true, mode: Preferred}";
    LAB.minicluster("wishes", &format!("size: 6\n{IMAGE}\n{topology}\n{HELLO}"));
    let output = succeeded("wishes", 6);
    assert_eq!(nodes_by_pod(&output).len(), 6, "{output}");
}

/// What `quorate` says; `cargo xtask dist` builds it, as what is in the images.
fn quorate(arguments: &[&str]) -> String {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/dist/quorate");
    let output = Command::new(program)
        .args(arguments)
        .arg("--kubeconfig")
        .arg(LAB.cluster.kubeconfig())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}
