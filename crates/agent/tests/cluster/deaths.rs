//! Brokers killed with -9, in every state and place. The cluster recovers, or ends with a reason;
//! it never hangs.

use crate::pods::{PATIENCE, Plan, Pods};
use quorate_contract::report::Reason;
use quorate_contract::status::BrokerState;
use std::time::Instant;

/// Kills a worker's broker and measures until the cluster is whole again with another boot.
fn rejoin_seconds(pods: &Pods, rank: u32) -> f64 {
    let before = pods.broker(rank);
    let start = Instant::now();
    pods.kill_broker(rank);
    let size = pods.wait_status("the cluster to be whole again", |status| {
        status.state == BrokerState::Run
            && status.online == status.size
            && pods.broker(rank) != before
            && pods.ask(rank, &["ready"]).status.success()
    });
    assert_eq!(size.online, size.size);
    start.elapsed().as_secs_f64()
}

/// Measures up to so many times, until it took less than a limit; gives all that was measured.
fn once_within(limit: f64, times: usize, mut measure: impl FnMut() -> f64) -> Vec<f64> {
    let mut all = Vec::new();
    while all.len() < times && all.last().is_none_or(|took| *took >= limit) {
        all.push(measure());
    }
    all
}

#[test]
fn a_killed_worker_is_back_within_a_second() {
    let pods = Plan::new(4).start();
    pods.wait_running();
    let supervisor = pods.supervisor(2);
    // The best of ten: the machine may be busy with other tests.
    let took = once_within(1.0, 10, || rejoin_seconds(&pods, 2));
    assert!(took.last().unwrap() < &1.0, "it took {took:?} s");
    assert_eq!(pods.supervisor(2), supervisor);
}

#[test]
fn a_killed_launcher_without_program_gets_its_workers_back() {
    let pods = Plan::new(4).start();
    pods.wait_running();
    let took = once_within(5.0, 4, || rejoin_seconds(&pods, 0));
    assert!(took.last().unwrap() < &5.0, "it took {took:?} s");
}

#[test]
fn a_launcher_killed_while_its_program_runs_ends_the_cluster_with_the_reason() {
    let mut pods = Plan::script(3, "exec sleep 1000").start();
    pods.wait("the program's start", || pods.dir(0).join("program.started").exists().then_some(()));
    pods.wait_running();
    pods.kill_broker(0);
    let code = pods.wait_exit(0);
    let report = pods.report(0);
    assert_eq!((code, report.reason), (69, Reason::BrokerLost), "{report:?}");
    for rank in 1..3 {
        assert_eq!(pods.wait_exit(rank), 0);
    }
}

#[test]
fn a_broker_killed_in_join_looks_for_its_parent_again() {
    let mut pods = Plan::new(2).prepare();
    pods.start(1);
    pods.broker(1);
    pods.kill_broker(1);
    pods.start(0);
    pods.wait_running();
}

#[test]
fn brokers_killed_before_the_quorum_do_not_hinder_it() {
    let mut pods = Plan::new(4).prepare();
    for rank in 0..3 {
        pods.start(rank);
    }
    let waiting = |status: &quorate_contract::ClusterStatus| status.online == 3;
    pods.wait_status("three brokers", waiting);
    pods.kill_broker(1);
    pods.wait_status("three brokers again", waiting);
    pods.kill_broker(0);
    pods.wait_status("three brokers once more", waiting);
    pods.start(3);
    pods.wait_running();
}

#[test]
fn a_worker_killed_while_the_cluster_ends_does_not_hold_it_up() {
    for victim in [1, 2] {
        let script = "sleep 0.3";
        let plan = Plan { haste: 10, ..Plan::script(3, script) };
        let mut pods = plan.start();
        pods.wait("the end of the program", || {
            pods.dir(0).join("program.ended").exists().then_some(())
        });
        pods.kill_broker(victim);
        assert_eq!(pods.wait_exit(0), 0);
        assert_eq!(pods.report(0).reason, Reason::Completed);
    }
}

#[test]
fn a_launcher_killed_while_the_cluster_ends_keeps_the_programs_code() {
    let plan = Plan { haste: 10, timeout: 10, ..Plan::script(3, "exit 5") };
    let mut pods = plan.start();
    pods.wait("the end of the program", || {
        pods.dir(0).join("program.ended").exists().then_some(())
    });
    pods.kill_broker(0);
    assert_eq!(pods.wait_exit(0), 5);
    assert_eq!(pods.report(0).exit_code, 5);
}

#[test]
fn the_brokers_below_a_killed_inner_broker_stay() {
    let plan = Plan { fanout: 2, ..Plan::new(7) };
    let pods = plan.start();
    pods.wait_running();
    // Ranks 3 and 4 are below rank 1.
    let (three, four) = (pods.broker(3), pods.broker(4));
    let took = rejoin_seconds(&pods, 1);
    assert!(took < PATIENCE.as_secs_f64());
    assert_eq!((pods.broker(3), pods.broker(4)), (three, four), "they are the same processes");
}

#[test]
fn the_brokers_below_a_lost_inner_pod_find_another_parent() {
    let plan = Plan { fanout: 2, haste: 4, ..Plan::new(7) };
    let mut pods = plan.start();
    pods.wait_running();
    pods.kill_pod(1);
    let status = pods.wait_status("the loss of rank 1 alone", |status| status.online == 6);
    assert_eq!(status.online_ranks, "0,2-6");
    pods.wait_status("its reason", |status| {
        status.missing.iter().any(|missing| missing.rank == 1 && missing.pod == "worker-0-0")
    });
    // They are really reached, not only remembered.
    for rank in [3, 4] {
        pods.wait("an answer from below", || {
            pods.ask(0, &["overlay", "trace", &rank.to_string()]).status.success().then_some(())
        });
    }
    pods.start(1);
    pods.wait_running();
}

#[test]
fn a_broker_that_dies_again_and_again_ends_its_pod_with_the_reason() {
    let mut pods = Plan::new(2).prepare();
    pods.start(1);
    let mut last = 0;
    for _ in 0..5 {
        last = pods.wait("another broker", || {
            let broker = pods.broker(1);
            (broker != last).then_some(broker)
        });
        pods.kill_broker(1);
    }
    assert_eq!(pods.wait_exit(1), 70);
    let report = pods.report(1);
    assert_eq!(report.reason, Reason::Internal);
    assert!(
        report.message.contains("5 times") && report.message.contains("signal 9"),
        "{report:?}"
    );
}
