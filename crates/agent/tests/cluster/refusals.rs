//! Brokers that must not get in, and clusters that do not come about.

use crate::pods::{Plan, Special};
use quorate_contract::report::Reason;
use std::net::TcpListener;

#[test]
fn a_worker_that_never_comes_is_named_when_the_bootstrap_gives_up() {
    let plan = Plan { timeout: 2, ..Plan::new(3) };
    let mut pods = plan.prepare();
    pods.start(0);
    pods.start(1);
    let status = pods.wait_status("two brokers", |status| status.online == 2);
    assert!(status.gives_up_in_seconds.is_some());
    assert_eq!(status.missing.len(), 1);
    assert_eq!(status.missing[0].pod, "worker-0-1");
    assert_eq!(pods.wait_exit(0), 66);
    let report = pods.report(0);
    assert_eq!(report.reason, Reason::BootstrapTimeout);
    assert!(report.message.starts_with("2 of 3 brokers"), "{}", report.message);
    assert!(report.message.contains("worker-0-1"), "{}", report.message);
    let stderr = pods.stderr(0);
    assert!(stderr.contains("RANK") && stderr.contains("worker-0-1"), "{stderr}");
    assert_ne!(pods.wait_exit(1), 0);
}

#[test]
fn another_secret_is_refused_and_the_launcher_says_so() {
    let plan = Plan { timeout: 4, ..Plan::new(2) };
    let mut pods = plan.prepare();
    pods.start(0);
    pods.start_special(1, Special { seed: Some([8; 32]), ..Special::default() });
    let status = pods.wait_status("a refusal", |status| {
        status.missing.iter().any(|missing| missing.why.starts_with("refused"))
    });
    let why = &status.missing[0].why;
    assert!(why.contains("another secret"), "{why}");
    assert_eq!(pods.wait_exit(0), 66);
    assert!(pods.report(0).message.contains("another secret"), "{:?}", pods.report(0));
    assert_ne!(pods.wait_exit(1), 0);
}

#[test]
fn a_straggler_of_an_earlier_attempt_is_refused_by_name() {
    let plan = Plan { timeout: 20, ..Plan::new(2) };
    let mut pods = plan.prepare();
    pods.start_special(0, Special { attempt: 1, ..Special::default() });
    pods.start(1);
    let status = pods.wait_status("a refusal", |status| {
        status.missing.iter().any(|missing| missing.why.starts_with("refused"))
    });
    assert_eq!(status.attempt, 1);
    assert_eq!(status.missing[0].why, "refused: attempt 0, now 1");
    // The pod of the current attempt takes the place.
    pods.kill_pod(1);
    pods.start_special(1, Special { attempt: 1, ..Special::default() });
    pods.wait_running();
}

#[test]
fn a_port_in_use_is_named_as_the_reason() {
    let mut pods = Plan::new(1).prepare();
    let _taken = TcpListener::bind(pods.network.address(0)).unwrap();
    pods.start(0);
    assert_eq!(pods.wait_exit(0), 1);
    let report = pods.report(0);
    assert_eq!(report.reason, Reason::Environment);
    assert!(report.message.contains("8117") && report.message.contains("in use"), "{report:?}");
}

#[test]
fn a_seed_of_the_wrong_length_is_named() {
    let mut pods = Plan::new(1).prepare();
    let seed = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(seed.path(), [1; 31]).unwrap();
    std::fs::copy(seed.path(), pods.seed_path()).unwrap();
    pods.start(0);
    assert_eq!(pods.wait_exit(0), 2);
    let report = pods.report(0);
    assert_eq!(report.reason, Reason::Environment);
    assert!(report.message.contains("31 bytes"), "{report:?}");
}
