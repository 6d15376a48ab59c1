//! Ways to lose a worker, and what `failurePolicy` makes of them.

use crate::{LAB, delete, inside, name, pod, pods, summary, template, text, uid};
use quorate_e2e::NAMESPACE;
use quorate_testbed::Node;
use serde_json::Value;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const PARALLEL: &str = "program: {parallel: {command: [sh, -c, 'echo up; sleep 3600'], tasks: 3}}";
const SCRIPT: &str = "program: {command: [sh, -c, 'echo up; sleep 3600']}";

fn start(cluster: &str, policy: &str, program: &str) -> Value {
    let template = template("quiet", "");
    LAB.minicluster(
        cluster,
        &format!("size: 3\nslots: 1\nfailurePolicy: {{{policy}}}\n{template}{program}"),
    );
    LAB.state(cluster, if program.is_empty() { "Ready" } else { "Running" })
}

fn remove(pod: &Value) {
    LAB.kubectl(&["-n", NAMESPACE, "delete", "pod", name(pod), "--wait=false"]).unwrap();
}

/// Takes a pod off its node as an administrator does, and lets the node be used again.
fn drain(pod: &Value) {
    // A node that is closed by two is opened by the first.
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let node = text(&pod["spec"]["nodeName"]);
    let selector = format!(
        "batch.kubernetes.io/job-name={},batch.kubernetes.io/job-completion-index={}",
        text(&pod["metadata"]["labels"]["batch.kubernetes.io/job-name"]),
        text(&pod["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"]),
    );
    let flags = ["--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=120s"];
    let pods = format!("--pod-selector={selector}");
    LAB.kubectl(&[["drain", node, pods.as_str()].as_slice(), &flags].concat()).unwrap();
    LAB.kubectl(&["uncordon", node]).unwrap();
}

/// Kills the first process of a pod's main container, from its node.
fn kill_main(pod: &Value) {
    let script = format!(
        "for p in /proc/[0-9]*; do tr '\\0' '\\n' < $p/environ 2>/dev/null | \
         grep -qx 'QUORATE_POD_UID={}' && grep -q '^NSpid:.*[[:space:]]1$' $p/status && \
         kill -9 ${{p#/proc/}} && echo killed; done; true",
        uid(pod)
    );
    let node = Node::parse(text(&pod["spec"]["nodeName"])).unwrap();
    let mut command = LAB.cluster.exec(Some(node)).unwrap();
    let output = command.args(["sh", "-c", &script]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "killed", "{output:?}");
}

/// Waits for another pod in the place of one, and that all three brokers are there.
fn replaced(cluster: &str, short: &str, lost: &Value) -> Value {
    let next =
        || pods(cluster).into_iter().find(|(one, pod)| one == short && uid(pod) != uid(lost));
    LAB.eventually(&format!("{short} of {cluster} is replaced"), next, Option::is_some);
    LAB.until(cluster, "whole again", |object| object["status"]["online"] == 3)
}

fn failure_reason(object: &Value) -> &str {
    text(&object["status"]["failure"]["reason"])
}

#[test]
fn a_program_that_needs_its_ranks_starts_again_until_its_restarts_are_used_up() {
    let cluster = "restart-used-up";
    start(cluster, "maxRestarts: 1", PARALLEL);
    remove(&pod(cluster, "worker-0-1"));
    let object =
        LAB.until(cluster, "running again", |object| summary(object) == (1, 1, "Running".into()));
    assert_eq!(failure_reason(&object), "BrokerLost", "{}", object["status"]);
    assert_eq!(object["status"]["failure"]["attempt"], 0, "{}", object["status"]);
    remove(&pod(cluster, "worker-0-0"));
    let object = LAB.state(cluster, "Failed");
    assert_eq!((summary(&object).0, summary(&object).1), (1, 1), "{}", object["status"]);
    assert_eq!(object["status"]["reason"], "RestartsExhausted", "{}", object["status"]);
    assert_eq!(failure_reason(&object), "BrokerLost", "{}", object["status"]);
    assert_eq!(object["status"]["failure"]["attempt"], 1, "{}", object["status"]);
    assert_eq!(object["status"]["exitCode"], 69, "{}", object["status"]);
    delete(cluster);
}

#[test]
fn a_main_process_that_is_killed_costs_a_restart_of_the_program() {
    let cluster = "restart-killed";
    start(cluster, "maxRestarts: 1", PARALLEL);
    kill_main(&pod(cluster, "worker-0-1"));
    LAB.until(cluster, "running again", |object| summary(object) == (1, 1, "Running".into()));
    delete(cluster);
}

#[test]
fn a_drained_launcher_starts_everything_again_without_counting() {
    let cluster = "drained-launcher";
    start(cluster, "maxRestarts: 0", PARALLEL);
    drain(&pod(cluster, "launcher-0-0"));
    let object =
        LAB.until(cluster, "running again", |object| summary(object) == (1, 0, "Running".into()));
    assert_eq!(failure_reason(&object), "PodEvicted", "{}", object["status"]);
    delete(cluster);
}

#[test]
fn a_drained_worker_of_a_program_starts_everything_again() {
    let cluster = "drained-worker";
    // Whether it counts is a race that ADR 0001 tells of.
    start(cluster, "maxRestarts: 1", PARALLEL);
    drain(&pod(cluster, "worker-0-1"));
    LAB.until(cluster, "running again", |object| {
        let (attempt, counted, state) = summary(object);
        attempt == 1 && counted <= 1 && state == "Running"
    });
    delete(cluster);
}

#[test]
fn a_worker_is_replaced_under_a_program_that_does_not_need_it() {
    let cluster = "replace-program";
    start(cluster, "onWorkerLost: Replace", SCRIPT);
    let launcher = pod(cluster, "launcher-0-0");
    let lost = pod(cluster, "worker-0-0");
    remove(&lost);
    let object = replaced(cluster, "worker-0-0", &lost);
    assert_eq!(summary(&object), (0, 0, "Running".into()), "{}", object["status"]);
    assert_eq!(uid(&pod(cluster, "launcher-0-0")), uid(&launcher));
    delete(cluster);
}

#[test]
fn a_drained_worker_of_a_queue_is_replaced_and_never_taken_for_finished() {
    let cluster = "replace-drained";
    start(cluster, "onWorkerLost: Replace", "");
    let lost = pod(cluster, "worker-0-1");
    drain(&lost);
    let object = replaced(cluster, "worker-0-1", &lost);
    assert_eq!(summary(&object), (0, 0, "Ready".into()), "{}", object["status"]);
    let job = LAB.get("job", &format!("{cluster}-worker-0")).unwrap();
    assert!(matches!(job["status"]["succeeded"].as_i64(), None | Some(0)), "{}", job["status"]);
    assert_eq!(text(&job["status"]["completedIndexes"]), "", "{}", job["status"]);
    assert_eq!(text(&job["status"]["failedIndexes"]), "", "{}", job["status"]);
    delete(cluster);
}

#[test]
fn a_drained_launcher_of_a_queue_is_replaced_alone() {
    let cluster = "drained-queue";
    start(cluster, "", "");
    let workers = ["worker-0-0", "worker-0-1"].map(|short| uid(&pod(cluster, short)).to_owned());
    let lost = pod(cluster, "launcher-0-0");
    drain(&lost);
    replaced(cluster, "launcher-0-0", &lost);
    let object = LAB.state(cluster, "Ready");
    assert_eq!(summary(&object), (0, 0, "Ready".into()), "{}", object["status"]);
    let still = ["worker-0-0", "worker-0-1"].map(|short| uid(&pod(cluster, short)).to_owned());
    assert_eq!(still, workers, "workers stay");
    let job = LAB.get("job", &format!("{cluster}-launcher-0")).unwrap();
    assert!(matches!(job["status"]["failed"].as_i64(), None | Some(0)), "{}", job["status"]);
    delete(cluster);
}

#[test]
fn the_figure_of_brokers_follows_a_lost_one_within_seconds() {
    let cluster = "replace-killed";
    start(cluster, "", "");
    let lost = pod(cluster, "worker-0-0");
    kill_main(&lost);
    let killed = Instant::now();
    LAB.until(cluster, "short of a broker", |object| object["status"]["online"] == 2);
    let took = killed.elapsed();
    println!("status.online followed a killed pod after {} ms", took.as_millis());
    // The target is 2 s on a quiet machine.
    assert!(took < Duration::from_secs(10), "{took:?}");
    let object = replaced(cluster, "worker-0-0", &lost);
    assert_eq!(summary(&object), (0, 0, "Ready".into()), "{}", object["status"]);
    delete(cluster);
}

#[test]
fn a_broker_that_is_killed_comes_back_in_its_pod() {
    let cluster = "broker-killed";
    // With a program on it, a launcher whose broker dies ends the attempt: a test of the agent.
    start(cluster, "", "");
    let overlay = || {
        let launcher = name(&pod(cluster, "launcher-0-0")).to_owned();
        inside(&launcher, "/quorate/bin/quorate-agent overlay status -o json").unwrap_or_default()
    };
    for short in ["worker-0-0", "launcher-0-0"] {
        let before = pod(cluster, short);
        // A child of the first process, as the program may be; but that is no agent.
        let script = "for s in $(grep -l '^PPid:[[:space:]]1$' /proc/[0-9]*/status); do \
                      grep -q quorate-agent ${s%status}cmdline && echo $s | tr -dc 0-9; done; true";
        let broker = inside(name(&before), script).unwrap();
        inside(name(&before), &format!("kill -9 {broker}")).unwrap();
        let next = || inside(name(&before), script).unwrap_or_default();
        LAB.eventually("another broker", next, |next| !next.is_empty() && *next != broker);
        LAB.eventually("all are there", overlay, |text| text.contains("\"online\":3"));
        assert_eq!(uid(&pod(cluster, short)), uid(&before), "the pod is the same");
    }
    let object = LAB.until(cluster, "whole", |object| object["status"]["online"] == 3);
    assert_eq!(summary(&object), (0, 0, "Ready".into()), "{}", object["status"]);
    delete(cluster);
}

#[test]
fn a_lost_worker_ends_a_cluster_that_is_to_fail() {
    for (cluster, program) in [("fail-program", PARALLEL), ("fail-queue", "")] {
        start(cluster, "onWorkerLost: Fail, maxRestarts: 3", program);
        remove(&pod(cluster, "worker-0-1"));
        let object = LAB.state(cluster, "Failed");
        assert_eq!((summary(&object).0, summary(&object).1), (0, 0), "{}", object["status"]);
        delete(cluster);
    }
}

#[test]
fn a_queue_that_is_to_restart_does_so_for_the_first_lost_worker() {
    let cluster = "restart-queue";
    start(cluster, "onWorkerLost: Restart, maxRestarts: 1", "");
    let launcher = pod(cluster, "launcher-0-0");
    remove(&pod(cluster, "worker-0-1"));
    LAB.until(cluster, "ready again", |object| summary(object) == (1, 1, "Ready".into()));
    assert_ne!(uid(&pod(cluster, "launcher-0-0")), uid(&launcher));
    delete(cluster);
}
