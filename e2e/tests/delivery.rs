//! The agent's image as a volume, on nodes whose container runtime can do that; who decides so; and
//! clusters that live through a change of the way in which their agent comes.
//!
//! All tests share one Kubernetes, whose namespace `default` takes restricted pods only. What a runtime
//! says that cannot do it is a test of `faults.rs`, whose nodes have such a one.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed step is a failed test")]

use quorate_e2e::proxy::Fate;
use quorate_e2e::{Controller, Lab, NAMESPACE, Namespace, restricted};
use quorate_testbed::{Runtime, Shape};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::LazyLock;

const MPI: &str = "localhost/mpi-debian:v1";
const AGENT: &str = "/quorate/bin/quorate-agent";

/// The cluster ends with this process.
static LAB: LazyLock<Lab> = LazyLock::new(|| {
    let shape =
        Shape { name: "e2e-delivery".into(), runtime: Runtime::Containerd2, ..Shape::default() };
    let values = [
        "--set",
        "agent.delivery=image",
        "--set",
        "watch.namespaces={default}",
        "--set",
        "replicas=1",
    ];
    let lab = Lab::up_with(shape, &values);
    lab.kubectl(&[
        "label",
        "namespace",
        NAMESPACE,
        "pod-security.kubernetes.io/enforce=restricted",
    ])
    .unwrap();
    lab
});

/// What `restricted` wants, a root file system that nobody can write to, and pods on all nodes.
fn minicluster(name: &str, image: &str, uid: u32, mut spec: Value) {
    spec["image"] = image.into();
    spec["template"] = restricted(uid);
    spec["template"]["spec"]["topologySpreadConstraints"] = json!([{
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": { "matchLabels": { "quorate.dev/cluster": name } },
    }]);
    let object = json!({
        "apiVersion": "quorate.dev/v1alpha1", "kind": "MiniCluster",
        "metadata": { "name": name }, "spec": spec,
    });
    LAB.create(&object.to_string()).unwrap();
}

fn name_of(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap()
}

fn uid(object: &Value) -> &str {
    object["metadata"]["uid"].as_str().unwrap()
}

/// How the agent came into a pod.
fn delivery(pod: &Value) -> &'static str {
    let volumes = pod["spec"]["volumes"].as_array().unwrap();
    let volume = volumes.iter().find(|volume| volume["name"] == "quorate-bin").unwrap();
    match (pod["spec"]["initContainers"].as_array().map_or(0, Vec::len), &volume["image"]) {
        (0, image) if image["reference"] == "localhost/quorate-agent:v1" => "image",
        (1, Value::Null) if volume["emptyDir"].is_object() => "copy",
        other => panic!("{other:?}"),
    }
}

/// Runs a command in a pod's main container.
fn exec(pod: &Value, command: &[&str]) -> Result<String, String> {
    LAB.kubectl(&[&["-n", NAMESPACE, "exec", name_of(pod), "--"], command].concat())
}

/// The live pod of rank 0.
fn launcher(cluster: &str) -> Option<Value> {
    let mut pods = LAB.of("pods", cluster).into_iter();
    pods.find(|pod| {
        pod["metadata"]["labels"]["quorate.dev/group"] == "launcher"
            && pod["metadata"]["deletionTimestamp"].is_null()
    })
}

/// How many ranks said hello, and from how many pods.
fn ranks(output: &str) -> (usize, usize) {
    let lines: Vec<&str> = output.lines().filter(|line| line.starts_with("rank ")).collect();
    let pods: BTreeSet<&str> = lines.iter().filter_map(|line| line.rsplit(' ').next()).collect();
    (lines.len(), pods.len())
}

#[test]
fn mpi_runs_over_all_nodes_in_a_restricted_namespace_as_any_user() {
    let name = "hello";
    minicluster(name, MPI, 4_000_000, json!({ "size": 3, "slots": 2 }));
    LAB.state(name, "Ready");
    let pods = LAB.of("pods", name);
    assert_eq!(pods.iter().map(delivery).collect::<Vec<_>>(), ["image"; 3]);
    let nodes: BTreeSet<&str> =
        pods.iter().filter_map(|pod| pod["spec"]["nodeName"].as_str()).collect();
    assert_eq!(nodes.len(), 3, "{nodes:?}");
    let pod = launcher(name).unwrap();
    let output = exec(&pod, &[AGENT, "run", "-n6", "/opt/tests/mpich/hello", "3"]).unwrap();
    assert_eq!(ranks(&output), (6, 3), "{output}");
    LAB.kubectl(&["-n", NAMESPACE, "delete", "mc", name]).unwrap();
}

#[test]
fn an_image_without_shell_or_library_runs() {
    let name = "static";
    let program = json!({ "parallel": { "command": ["/program", "3"], "tasks": 3 } });
    let spec = json!({ "size": 3, "slots": 1, "program": program });
    minicluster(name, "localhost/static-program:v1", 12_345, spec);
    let object = LAB.state(name, "Succeeded");
    assert_eq!(object["status"]["exitCode"], 0);
    let output = LAB.output(name);
    assert_eq!(ranks(&output), (3, 3), "{output}");
    // Workers went when it was done.
    assert_eq!(delivery(&launcher(name).unwrap()), "image");
}

#[test]
fn a_launcher_that_is_deleted_is_replaced_and_nobody_can_write_to_the_agent() {
    let name = "queue";
    minicluster(name, MPI, 31_337, json!({ "size": 3, "slots": 1 }));
    LAB.state(name, "Ready");
    let first = launcher(name).unwrap();
    let refused = exec(&first, &["touch", "/quorate/bin/x"]).unwrap_err();
    assert!(refused.contains("Read-only file system"), "{refused}");
    let options = exec(&first, &["grep", " /quorate/bin ", "/proc/mounts"]).unwrap();
    let options: BTreeSet<&str> = options.split([' ', ',']).collect();
    assert!(options.contains("ro") && !options.contains("noexec"), "{options:?}");

    LAB.kubectl(&["-n", NAMESPACE, "delete", "pod", name_of(&first), "--wait=false"]).unwrap();
    let next = LAB
        .eventually(
            "another launcher",
            || launcher(name),
            |pod| pod.as_ref().is_some_and(|pod| uid(pod) != uid(&first)),
        )
        .unwrap();
    assert_eq!(delivery(&next), "image");
    LAB.until(name, "whole again", |object| {
        object["status"]["online"] == 3 && object["status"]["state"] == "Ready"
    });
    let done = exec(&next, &[AGENT, "submit", "--wait", "-N3", "-n3", "true"]);
    assert_eq!(done, Ok("1".into()));
    LAB.kubectl(&["-n", NAMESPACE, "delete", "mc", name]).unwrap();
}

#[test]
fn a_changed_flag_leaves_clusters_and_their_replaced_pods_as_they_were_made() {
    let place = Namespace::new(&LAB, "changed");
    let start = |way: &str| {
        let flag = [&*format!("--agent-delivery={way}")];
        Controller::start(&LAB, "changed", &place.name, &flag, Box::new(|_| Fate::Pass))
    };
    let image = "image: localhost/busybox:v1\nsize: 2\nslots: 1";
    let mut before = start("image");
    place.minicluster("old", image);
    place.state("old", "Ready");
    let generation =
        || place.get("jobset", "old").unwrap()["metadata"]["generation"].as_i64().unwrap();
    let made = generation();
    assert!(before.end().success(), "{}", before.log());

    let _after = start("copy");
    place.minicluster("new", image);
    place.state("new", "Ready");
    let pods = |cluster: &str| -> Vec<Value> {
        let of = |pod: &Value| pod["metadata"]["labels"]["quorate.dev/cluster"] == cluster;
        let there = |pod: &Value| pod["metadata"]["deletionTimestamp"].is_null();
        place.all("pods").into_iter().filter(|pod| of(pod) && there(pod)).collect()
    };
    assert_eq!(pods("new").iter().map(delivery).collect::<Vec<_>>(), ["copy"; 2]);
    // A pod that is lost comes again as it came, from what the cluster was made of.
    let first = pods("old").into_iter().find(|pod| name_of(pod).contains("worker")).unwrap();
    place.kubectl(&["delete", "pod", name_of(&first), "--wait=false"]).unwrap();
    let next = || {
        pods("old")
            .into_iter()
            .find(|pod| name_of(pod).contains("worker") && uid(pod) != uid(&first))
    };
    let next = place.eventually("another worker", next, Option::is_some).unwrap();
    assert_eq!(delivery(&next), "image");
    let object = place.until("old", "is whole again", |object| {
        object["status"]["online"] == 2 && object["status"]["state"] == "Ready"
    });
    let accepted = quorate_e2e::condition(&object, "Accepted");
    assert_eq!(accepted["status"], "True", "{object}");
    assert_eq!(generation(), made, "the JobSet was changed");
    place.kubectl(&["delete", "mc", "old", "new"]).unwrap();
}

/// A node that nobody runs, of former times. Nothing is put on it.
struct OldNode;

impl OldNode {
    fn join() -> Self {
        let taint = json!([{ "key": "test/nobody", "effect": "NoSchedule" }]);
        let node = json!({
            "apiVersion": "v1", "kind": "Node", "metadata": { "name": "old" },
            "spec": { "taints": taint },
        });
        LAB.create(&node.to_string()).unwrap();
        let status = json!({ "status": { "nodeInfo": {
            "kubeletVersion": "v1.36.3", "containerRuntimeVersion": "containerd://1.7.27",
            "operatingSystem": "linux", "architecture": "amd64", "kernelVersion": "6.1",
            "osImage": "old", "machineID": "", "systemUUID": "", "bootID": "",
            "kubeProxyVersion": "",
        } } });
        let patch = status.to_string();
        let to = ["patch", "node", "old", "--subresource=status", "--type=merge", "-p", &patch];
        LAB.kubectl(&to).unwrap();
        Self
    }
}

impl Drop for OldNode {
    fn drop(&mut self) {
        let _ = LAB.kubectl(&["delete", "node", "old", "--wait=false"]);
    }
}

#[test]
fn by_itself_the_agent_comes_as_a_volume_until_a_node_joins_that_cannot() {
    let place = Namespace::new(&LAB, "auto");
    let start =
        |name: &str| Controller::start(&LAB, name, &place.name, &[], Box::new(|_| Fate::Pass));
    let program = "image: localhost/busybox:v1\nsize: 2\nslots: 1\nprogram: {command: ['true']}";
    let pod = |cluster: &str| {
        let of = |pod: &Value| pod["metadata"]["labels"]["quorate.dev/cluster"] == cluster;
        place.all("pods").into_iter().find(of)
    };
    let mut before = start("able");
    place.minicluster("volume", program);
    place.state("volume", "Succeeded");
    assert_eq!(delivery(&pod("volume").unwrap()), "image", "{}", before.log());
    let word = "the agent comes as a volume";
    assert_eq!(before.log().matches(word).count(), 1, "{}", before.log());
    let made = place.get("jobset", "volume").unwrap();
    assert!(before.end().success(), "{}", before.log());

    let _old = OldNode::join();
    let after = start("mixed");
    place.minicluster("copied", program);
    place.state("copied", "Succeeded");
    assert_eq!(delivery(&pod("copied").unwrap()), "copy", "{}", after.log());
    assert!(after.log().contains("node old is containerd://1.7.27"), "{}", after.log());
    let kept = place.get("jobset", "volume").unwrap();
    assert_eq!(uid(&kept), uid(&made));
    assert_eq!(kept["spec"], made["spec"], "the JobSet was changed");
    place.kubectl(&["delete", "mc", "volume", "copied"]).unwrap();
}

#[test]
fn an_image_of_the_agent_that_cannot_be_pulled_is_named() {
    let place = Namespace::new(&LAB, "absent");
    let flags = ["--agent-delivery=image", "--agent-image=localhost/absent-agent:v1"];
    let _controller =
        Controller::start(&LAB, "absent", &place.name, &flags, Box::new(|_| Fate::Pass));
    place.minicluster("lonely", "image: localhost/busybox:v1");
    let object =
        place.until("lonely", "is explained", |object| object["status"]["reason"] == "ImagePull");
    let message = object["status"]["message"].as_str().unwrap();
    assert!(message.contains("cannot pull image localhost/absent-agent:v1: "), "{message}");
    place.kubectl(&["delete", "mc", "lonely"]).unwrap();
}
