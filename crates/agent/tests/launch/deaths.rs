//! Brokers that die under a job: it ends with the reason, at once, and leaves nothing.

use crate::typing::{Marks, cluster, code, run, stderr, typed, wait_gone};
use std::time::{Duration, Instant};

fn sleeping(marks: &Marks) -> String {
    format!("{} exec sleep 1000", marks.leave("rank$QUORATE_TASK_RANK"))
}

#[test]
fn a_killed_broker_ends_its_job_and_its_tasks_are_swept() {
    let pods = cluster(3);
    let marks = Marks::new();
    let child = typed(&pods, 0, &["run", "-N3", "sh", "-c", &sleeping(&marks)]).spawn().unwrap();
    let pids = [marks.pid("rank0"), marks.pid("rank1"), marks.pid("rank2")];
    let start = Instant::now();
    pods.kill_broker(2);
    let output = child.wait_with_output().unwrap();
    assert_eq!(code(&output), 69, "{}", stderr(&output));
    assert!(stderr(&output).contains("worker-0-1 was lost"), "{}", stderr(&output));
    // It is not given up, it is noticed: that would take fifteen seconds and more.
    assert!(start.elapsed() < Duration::from_secs(15));
    pids.into_iter().for_each(wait_gone);
    // The cluster goes on.
    pods.wait_running();
    assert_eq!(code(&run(&pods, 0, &["run", "-N3", "true"])), 0);
}

#[test]
fn a_killed_leader_ends_the_job_and_the_tasks_of_all() {
    let pods = cluster(3);
    let marks = Marks::new();
    let child = typed(&pods, 1, &["run", "-N3", "sh", "-c", &sleeping(&marks)]).spawn().unwrap();
    let pids = [marks.pid("rank0"), marks.pid("rank1"), marks.pid("rank2")];
    pods.kill_broker(0);
    let output = child.wait_with_output().unwrap();
    assert_eq!(code(&output), 69, "{}", stderr(&output));
    pids.into_iter().for_each(wait_gone);
    pods.wait_running();
    assert_eq!(code(&run(&pods, 1, &["run", "-N3", "true"])), 0);
}

#[test]
fn a_killed_pod_ends_the_job_with_its_name() {
    let mut pods = cluster(3);
    let marks = Marks::new();
    let child = typed(&pods, 0, &["run", "-N3", "sh", "-c", &sleeping(&marks)]).spawn().unwrap();
    let pids = [marks.pid("rank0"), marks.pid("rank1"), marks.pid("rank2")];
    pods.kill_pod(1);
    let output = child.wait_with_output().unwrap();
    assert_eq!(code(&output), 69, "{}", stderr(&output));
    assert!(stderr(&output).contains("worker-0-0"), "{}", stderr(&output));
    wait_gone(pids[0]);
    wait_gone(pids[2]);
    // The namespaces of a real pod go with it; here its task is ours to end.
    crate::pods::signal(pids[1], 9);
}

#[test]
fn a_killed_broker_takes_its_own_client_along() {
    let pods = cluster(2);
    let marks = Marks::new();
    let child = typed(&pods, 1, &["run", "-N1", "sh", "-c", &sleeping(&marks)]).spawn().unwrap();
    let pid = marks.pid("rank0");
    pods.kill_broker(1);
    let output = child.wait_with_output().unwrap();
    assert_eq!(code(&output), 69, "{}", stderr(&output));
    wait_gone(pid);
}
