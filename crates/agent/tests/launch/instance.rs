//! An instance within a job's allocation: a cluster of its own on the same pods.

use crate::pods::{AGENT, Pods, signal};
use crate::signals::interrupt;
use crate::typing::{Marks, cluster, code, run, sorted, stderr, typed, wait_gone};
use std::time::{Duration, Instant};

const SIGINT: i32 = 2;

#[test]
fn an_instance_runs_jobs_on_its_nodes_alone() {
    let pods = cluster(4);
    let script = "quorate-agent run -n4 sh -c 'echo $QUORATE_TASK_RANK on $QUORATE_BROKER_NAME' && \
                  quorate-agent exec sh -c 'echo $QUORATE_BROKER_RANK is $QUORATE_HOST'";
    let output = run(&pods, 3, &["run", "-N2", "-c2", AGENT, "start", "--", "sh", "-c", script]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let expected = [
        "0 on launcher-0-0",
        "0: 0 is t-launcher-0-0.t.t.svc.cluster.local",
        "1 on launcher-0-0",
        "1: 1 is t-worker-0-0.t.t.svc.cluster.local",
        "2 on worker-0-0",
        "3 on worker-0-0",
    ];
    assert_eq!(sorted(&output), expected, "{}", stderr(&output));
}

#[test]
fn the_scripts_code_is_the_jobs_and_nothing_is_left() {
    let pods = cluster(2);
    let output = run(&pods, 0, &["run", "-N2", AGENT, "start", "sh", "-c", "exit 7"]);
    assert_eq!(code(&output), 7, "{}", stderr(&output));
    for rank in 0..2 {
        let left: Vec<_> = std::fs::read_dir(pods.dir(rank)).unwrap().flatten().collect();
        let instance = |name: &str| name.starts_with('i');
        assert!(!left.iter().any(|entry| instance(&entry.file_name().to_string_lossy())));
    }
}

#[test]
fn an_instance_within_an_instance_has_nodes_of_its_own() {
    let pods = cluster(3);
    let inner = "quorate-agent run -N1 quorate-agent start -- \
                 sh -c 'quorate-agent overlay status | head -1; quorate-agent run -N2 true'";
    let output = run(&pods, 0, &["run", "-N2", AGENT, "start", "--", "sh", "-c", inner]);
    assert_eq!(code(&output), 1, "{}", stderr(&output));
    let text = stderr(&output);
    assert!(text.contains("it asks for 2 nodes, and there are 1"), "{text}");
}

#[test]
fn without_a_launcher_an_instance_is_one_broker() {
    let script = "quorate-agent run -n1 sh -c 'echo $QUORATE_TASK_COUNT'";
    let output = std::process::Command::new(AGENT)
        .args(["start", "--", "sh", "-c", script])
        .env_remove("QUORATE_SOCKET")
        .output()
        .unwrap();
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert_eq!(output.stdout, b"1\n");
}

#[test]
fn an_instance_that_is_killed_takes_its_jobs_along() {
    let pods = cluster(2);
    let marks = Marks::new();
    let job = format!("{} sleep 1000", marks.leave("$QUORATE_TASK_RANK"));
    let script = format!("quorate-agent run -N2 -n2 sh -c '{job}'");
    let mut child = typed(&pods, 0, &["run", "-N2", AGENT, "start", "--", "sh", "-c", &script])
        .spawn()
        .unwrap();
    let tasks = [marks.pid("0"), marks.pid("1")];
    let started = Instant::now();
    // Twice within a second: the whole job is killed, brokers of the instance and all.
    interrupt(&mut child);
    assert!(!child.wait().unwrap().success());
    tasks.into_iter().for_each(wait_gone);
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
}

/// The lines that a script within an instance within an instance leaves, once both are up.
fn nested(pods: &Pods, marks: &Marks) -> std::process::Child {
    let innermost = format!("{} sleep 1000", marks.leave("up"));
    let inner = format!("quorate-agent run -N1 quorate-agent start -- sh -c '{innermost}'");
    let child = typed(pods, 0, &["run", "-N2", AGENT, "start", "--", "sh", "-c", &inner]);
    let mut child = child;
    let child = child.spawn().unwrap();
    marks.pid("up");
    child
}

/// The identifiers of a tree, outermost first, from its JSON.
fn identifiers(output: &std::process::Output) -> Vec<String> {
    let all: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let mut at = &all[0];
    let mut found = Vec::new();
    while let Some(id) = at["id"].as_str() {
        found.push(id.to_owned());
        at = &at["instances"][0];
    }
    found
}

#[test]
fn verbs_reach_an_instance_within_an_instance_from_any_pod() {
    let pods = cluster(3);
    let marks = Marks::new();
    let mut child = nested(&pods, &marks);
    let tree = run(&pods, 2, &["tree", "-o", "json"]);
    let ids = identifiers(&tree);
    assert_eq!(ids.len(), 2, "{} {}", String::from_utf8_lossy(&tree.stdout), stderr(&tree));
    let path = ids.join("/");
    let size = |words: &[&str]| {
        let output = run(&pods, 2, words);
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        let status: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        status["size"].as_u64().unwrap()
    };
    let status = ["overlay", "status", "-o", "json"];
    let proxy = |path: &str| [&["proxy", path, AGENT][..], &status].concat().join("\n");
    for (path, expected) in [(".", 3), (&ids[0], 2), (&path, 1)] {
        let words = proxy(path);
        assert_eq!(size(&words.split('\n').collect::<Vec<_>>()), expected, "{path}");
    }
    // From within: a job of the innermost one sees the others.
    let script =
        format!("for at in .. /; do {AGENT} proxy $at {AGENT} overlay status -o json; done");
    let words = ["proxy", &path, AGENT, "run", "-n1", "sh", "-c", &script];
    let output = run(&pods, 2, &words);
    let sizes: Vec<u64> = String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .filter_map(|status| status["size"].as_u64())
        .collect();
    assert_eq!(sizes, [2, 3], "{}", stderr(&output));
    signal(i32::try_from(child.id()).unwrap(), SIGINT);
    child.wait().unwrap();
}

#[test]
fn an_instance_that_is_not_there_is_named() {
    let pods = cluster(1);
    let output = run(&pods, 0, &["proxy", "17", AGENT, "overlay", "status"]);
    assert_ne!(code(&output), 0);
    assert!(stderr(&output).contains("no instance 17"), "{}", stderr(&output));
    let output = run(&pods, 0, &["proxy", "..", "true"]);
    assert!(stderr(&output).contains("outermost"), "{}", stderr(&output));
    let output = run(&pods, 0, &["tree"]);
    assert_eq!(output.stdout, b".\n");
}
