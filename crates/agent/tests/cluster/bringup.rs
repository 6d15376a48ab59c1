//! Clusters that come up as they should.

use crate::pods::Plan;
use quorate_contract::report::Reason;
use quorate_contract::status::BrokerState;

#[test]
fn a_command_runs_on_the_launcher_and_its_code_is_the_pods() {
    let mut pods = Plan::script(4, "echo hello; exit 7").start();
    assert_eq!(pods.wait_exit(0), 7);
    assert_eq!(pods.stdout(0), "hello\n");
    let report = pods.report(0);
    assert_eq!((report.exit_code, report.reason), (7, Reason::ProgramFailed));
    let phases = &report.phases;
    let order = [
        phases.agent_started,
        phases.connected,
        phases.quorate,
        phases.program_started,
        phases.program_ended,
    ];
    assert!(order.iter().all(Option::is_some) && order.is_sorted(), "{order:?}");
    for rank in 1..4 {
        assert_eq!(pods.wait_exit(rank), 0, "a worker ends with 0 when the cluster is done");
        assert_eq!(pods.report(rank).reason, Reason::Completed);
    }
}

#[test]
fn one_pod_is_a_cluster() {
    let mut pods = Plan::script(1, "true").start();
    assert_eq!(pods.wait_exit(0), 0);
    assert_eq!(pods.report(0).reason, Reason::Completed);
}

#[test]
fn a_deep_tree_comes_up_and_is_traced() {
    let plan = Plan { fanout: 2, ..Plan::new(8) };
    let pods = plan.start();
    let status = pods.wait_running();
    assert_eq!(status.online_ranks, "0-7");
    assert!(status.missing.is_empty() && status.gives_up_in_seconds.is_none());
    let traced = pods.ask(0, &["overlay", "trace", "worker-0-6", "-o", "json"]);
    let text = String::from_utf8(traced.stdout).unwrap();
    let ranks: Vec<u64> = text
        .lines()
        .map(|line| {
            serde_json::from_str::<serde_json::Value>(line).unwrap()["rank"].as_u64().unwrap()
        })
        .collect();
    assert_eq!(ranks, [0, 1, 3, 7]);
    // A worker asks rank 0.
    assert_eq!(pods.status(5).unwrap().online, 8);
    let found = pods.ask(5, &["overlay", "lookup", "t-worker-0-2"]);
    let text = String::from_utf8(found.stdout).unwrap();
    assert!(text.starts_with("rank 3  worker-0-2  online"), "{text}");
    let unknown = pods.ask(5, &["overlay", "lookup", "elsewhere"]);
    assert_eq!(unknown.status.code(), Some(1));
}

#[test]
fn pods_are_ready_when_they_are_connected_and_the_launcher_when_it_is_quorate() {
    let mut pods = Plan::new(3).prepare();
    pods.start(0);
    pods.start(1);
    let ready = |pods: &crate::pods::Pods, rank| pods.ask(rank, &["ready"]).status.success();
    pods.wait("a ready worker", || ready(&pods, 1).then_some(()));
    assert!(!ready(&pods, 0));
    pods.start(2);
    pods.wait("a ready launcher", || ready(&pods, 0).then_some(()));
    assert_eq!(pods.status(0).unwrap().state, BrokerState::Run);
}

#[test]
fn the_quorum_is_enough_to_start_and_late_workers_join() {
    let plan = Plan { min_size: 2, ..Plan::new(3) };
    let mut pods = plan.prepare();
    pods.start(0);
    pods.start(1);
    pods.wait_status("a quorate cluster", |status| status.state == BrokerState::Run);
    pods.start(2);
    pods.wait_running();
}
