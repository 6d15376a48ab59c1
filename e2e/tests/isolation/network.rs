//! Who reaches whom.

use crate::{CONTROLLER, LAB, idle_pod, launcher, name_of, state};
use quorate_e2e::NAMESPACE;
use std::collections::BTreeSet;

const PORT: &str = "8117";

/// Whether a pod gets a connection to a port. A packet that is dropped is waited for in vain.
fn reaches(namespace: &str, from: &str, address: &str, port: &str) -> bool {
    let ask = format!("echo | timeout 3 nc {address} {port}");
    LAB.kubectl(&["-n", namespace, "exec", from, "--", "sh", "-c", &ask]).is_ok()
}

/// The address of a cluster's first worker.
fn worker(cluster: &str) -> String {
    let pods = LAB.of("pods", cluster);
    let pod = pods.iter().find(|pod| pod["metadata"]["labels"]["quorate.dev/role"] == "worker");
    pod.unwrap()["status"]["podIP"].as_str().unwrap().to_owned()
}

#[test]
fn strangers_do_not_reach_brokers_while_mpi_runs_over_all_nodes() {
    let (closed, open) = ("closed", "opened");
    idle_pod(NAMESPACE, "near", "stranger");
    idle_pod("strangers", "far", "stranger");
    idle_pod("strangers", "asking", CONTROLLER);
    let image = "image: localhost/mpi-debian:v1";
    LAB.minicluster(open, &format!("size: 2\n{image}\nnetwork: {{networkPolicy: false}}"));
    let spread = "template:
  spec:
    topologySpreadConstraints:
    - maxSkew: 1
      topologyKey: kubernetes.io/hostname
      whenUnsatisfiable: DoNotSchedule
      labelSelector: {matchLabels: {quorate.dev/cluster: closed}}";
    LAB.minicluster(closed, &format!("size: 3\nslots: 1\n{image}\n{spread}"));
    for name in [open, closed] {
        state(NAMESPACE, name, "Ready");
    }
    let (address, without) = (worker(closed), worker(open));
    let strangers = [(NAMESPACE, "near"), ("strangers", "far")];
    for (space, pod) in strangers {
        // That a port is closed says something only where an open one is seen.
        let ask = || reaches(space, pod, &without, PORT);
        LAB.eventually(&format!("{pod} reaches a cluster without a policy"), ask, |yes| *yes);
        let ask = || reaches(space, pod, &address, PORT);
        LAB.eventually(&format!("{pod} does not reach a broker"), ask, |yes| !yes);
    }
    // Whoever has the controller's label reaches the brokers' port, where keys are asked for ...
    let ask = || reaches("strangers", "asking", &address, PORT);
    LAB.eventually("the controller reaches a broker", ask, |yes| *yes);
    // ... and no other: a port that nobody listens on refuses at once where nothing is dropped.
    let refuses = |address: &str| {
        let nc = ["timeout", "3", "nc", address, "9999"];
        let exec = ["-n", "strangers", "exec", "asking", "--"];
        LAB.kubectl(&[exec.as_slice(), nc.as_slice()].concat()).unwrap_err().contains("refused")
    };
    LAB.eventually("a port refuses", || refuses(&without), |yes| *yes);
    assert!(!refuses(&address), "a port of MPI answers strangers");

    // Its own ranks meet over all nodes meanwhile.
    let pods = LAB.of("pods", closed);
    let nodes: BTreeSet<&str> =
        pods.iter().filter_map(|pod| pod["spec"]["nodeName"].as_str()).collect();
    assert_eq!((pods.len(), nodes.len()), (3, 3), "{nodes:?}");
    for flavor in ["openmpi", "mpich"] {
        let hello = format!("/opt/tests/{flavor}/hello");
        let run = ["/quorate/bin/quorate-agent", "run", "-n", "3", hello.as_str(), "3"];
        let pod = launcher(NAMESPACE, closed);
        let exec = ["exec", name_of(&pod), "-c", "main", "--"];
        let output = LAB.kubectl(&[exec.as_slice(), run.as_slice()].concat()).unwrap();
        let hosts: BTreeSet<&str> = output
            .lines()
            .filter(|line| line.starts_with("rank "))
            .filter_map(|line| line.rsplit(' ').next())
            .collect();
        assert_eq!(hosts.len(), 3, "{output}");
    }
    LAB.kubectl(&["delete", "mc", open, closed]).unwrap();
}
