//! `kubectl apply -f examples/kubernetes/...` gives a working cluster.

use crate::topology::nodes_by_pod;
use crate::{LAB, alone, beside_others, columns, ranks_by_pod, ranks_per_pod, succeeded};
use std::path::Path;

fn apply(file: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/kubernetes").join(file);
    LAB.kubectl(&["apply", "-f", &path.display().to_string()]).unwrap();
}

#[test]
fn hello_has_eight_ranks_on_four_pods() {
    let _nodes = beside_others();
    apply("hello.yaml");
    let output = succeeded("hello", 4);
    let expected = ["launcher-0-0", "worker-0-0", "worker-0-1", "worker-0-2"];
    let expected: Vec<_> = expected.map(|pod| (format!("hello-{pod}"), 2)).into();
    let found = ranks_per_pod(&output).into_iter().map(|(pod, ranks)| (pod.to_owned(), ranks));
    assert_eq!(found.collect::<Vec<_>>(), expected, "{output}");
}

#[test]
fn mpirun_of_a_script_leaves_the_launcher_free() {
    let _nodes = beside_others();
    apply("mpirun.yaml");
    let output = succeeded("mpirun", 4);
    let expected = ["mpirun-worker-0-0", "mpirun-worker-0-1", "mpirun-worker-0-2"];
    assert_eq!(ranks_per_pod(&output), expected.map(|pod| (pod, 2)), "{output}");
}

#[test]
fn lammps_melts_on_four_pods() {
    let _nodes = beside_others();
    apply("lammps.yaml");
    let output = succeeded("melt", 4);
    assert!(output.contains("Loop time of"), "{output}");
    assert!(output.contains("on 4 procs for 100 steps with 864 atoms"), "{output}");
    let report = LAB.get("minicluster", "melt").unwrap();
    assert!(report["status"]["message"].as_str().is_some_and(|text| !text.is_empty()), "{report}");
}

#[test]
fn groups_of_two_kinds_are_one_world() {
    let _nodes = beside_others();
    apply("groups.yaml");
    let output = succeeded("groups", 4);
    let by_pod = ranks_by_pod(&output);
    let expected = [
        ("groups-actor-0-0", vec![0, 1]),
        ("groups-actor-0-1", vec![2, 3]),
        ("groups-learner-0-0", vec![4]),
    ];
    assert_eq!(by_pod, expected.into(), "{output}");
}

#[test]
fn a_queue_is_up_until_it_is_deleted_and_can_be_scaled() {
    let _nodes = beside_others();
    apply("queue.yaml");
    let ready = |online: u32| {
        LAB.until("queue", &format!("ready with {online} brokers"), |object| {
            object["status"]["state"] == "Ready" && object["status"]["online"] == online
        });
        columns("queue", online, "Ready");
    };
    ready(3);
    LAB.kubectl(&["scale", "mc", "queue", "--replicas=4"]).unwrap();
    ready(4);
    LAB.kubectl(&["delete", "mc", "queue"]).unwrap();
    let gone = |pods: &Vec<_>| pods.is_empty();
    LAB.eventually("its pods are gone", || LAB.of("pods", "queue"), gone);
}

#[test]
fn workers_of_the_spread_example_are_on_three_nodes() {
    let _nodes = alone();
    apply("spread.yaml");
    let output = succeeded("spread", 4);
    assert_eq!(ranks_per_pod(&output).len(), 3, "{output}");
    let mut nodes: Vec<&str> = nodes_by_pod(&output).into_values().collect();
    nodes.sort_unstable();
    assert_eq!(nodes, ["n1", "n2", "n3"], "{output}");
}
