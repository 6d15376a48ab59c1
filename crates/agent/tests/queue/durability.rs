//! A launcher's broker that is killed: nothing that was taken is lost, nothing runs twice.

use crate::asking::{ended, job, states, submit, submit_all, wait_for};
use crate::pods::Pods;
use crate::typing::{Marks, cluster, code, run, stderr, wait, wait_gone};
use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

/// Kills rank 0's broker and waits until the cluster runs again.
pub(crate) fn restart(pods: &Pods) {
    let before = pods.broker(0);
    pods.kill_broker(0);
    wait("the next broker", || (pods.broker(0) != before).then_some(()));
    pods.wait_running();
}

#[test]
fn jobs_that_wait_outlive_the_broker_and_numbers_go_on() {
    let pods = cluster(2);
    let held = submit(&pods, 1, &["--urgency", "0", "sh", "-c", "exit 6"]);
    let over = submit(&pods, 1, &["sh", "-c", "exit 5"]);
    assert_eq!(ended(&pods, over), 5);
    assert_eq!(code(&run(&pods, 0, &["queue", "stop", "-r", "night"])), 0);
    let stopped = submit(&pods, 1, &["true"]);
    restart(&pods);
    assert_eq!(states(&pods), ["PRIORITY", "failed", "SCHED"]);
    assert_eq!(ended(&pods, over), 5);
    assert_eq!(job(&pods, stopped)["why"], "queue default is stopped: night");
    assert_eq!(code(&run(&pods, 0, &["queue", "start"])), 0);
    assert_eq!(ended(&pods, stopped), 0);
    assert_eq!(code(&run(&pods, 1, &["release", &held.to_string()])), 0);
    assert_eq!(ended(&pods, held), 6);
    assert_eq!(submit(&pods, 0, &["true"]), 4);
}

#[test]
fn a_job_that_ran_fails_once_or_begins_again_if_it_asked_for_it() {
    let pods = cluster(2);
    let marks = Marks::new();
    let sleeping = |name: &str| format!("{} exec sleep 1000", marks.leave(name));
    let fails = submit(&pods, 1, &["sh", "-c", &sleeping("fails")]);
    let log = marks.path("log").display().to_string();
    let again = format!("echo run >> {log}; test $(wc -l < {log}) = 2 || exec sleep 1000");
    let again = submit(&pods, 1, &["--requeue", "sh", "-c", &again]);
    let pid = marks.pid("fails");
    wait("both to run", || fs::read_to_string(&log).ok().filter(|log| log == "run\n"));
    restart(&pods);
    assert_eq!(ended(&pods, fails), 69);
    wait_gone(pid);
    assert!(job(&pods, fails)["why"].as_str().unwrap().contains("broker died"));
    assert_eq!(ended(&pods, again), 0);
    assert_eq!(fs::read_to_string(&log).unwrap(), "run\nrun\n");
    assert_eq!(job(&pods, again)["requeues"], 1);
    // All slots are free again.
    let all = submit(&pods, 1, &["-n4", "true"]);
    assert_eq!(ended(&pods, all), 0);
}

#[test]
fn a_lost_worker_fails_its_jobs_with_its_name_and_the_rest_go_on() {
    let pods = cluster(3);
    let marks = Marks::new();
    let sleeping = format!("{} exec sleep 1000", marks.leave("task$QUORATE_TASK_RANK"));
    let wide = submit(&pods, 0, &["-N3", "sh", "-c", &sleeping]);
    let pids = [marks.pid("task0"), marks.pid("task1"), marks.pid("task2")];
    pods.kill_broker(2);
    assert_eq!(ended(&pods, wide), 69);
    let why = job(&pods, wide)["why"].as_str().unwrap().to_owned();
    assert!(why.contains("worker-0-1 was lost"), "{why}");
    pids.into_iter().for_each(wait_gone);
    pods.wait_running();
    let again = submit(&pods, 0, &["-N3", "true"]);
    assert_eq!(ended(&pods, again), 0);
}

#[test]
fn with_jobs_in_flight_none_is_lost_and_none_runs_twice() {
    let pods = cluster(2);
    let marks = Marks::new();
    let dir = marks.path("").display().to_string();
    let script = format!("mktemp {dir}/ran-{{cc}}-XXXXXX > /dev/null; sleep 0.01");
    let ids = submit_all(&pods, 1, &["--cc", "1-200", "sh", "-c", &script]);
    for round in 1..=3 {
        wait("some to end", || {
            let over = states(&pods).iter().filter(|state| *state == "completed").count();
            (over >= round * 20).then_some(())
        });
        restart(&pods);
    }
    let output = run(&pods, 0, &["wait", "1-200"]);
    let states = states(&pods);
    assert_eq!(states.len(), ids.len(), "{}", stderr(&output));
    let mut ran: BTreeMap<u64, u32> = BTreeMap::new();
    for entry in fs::read_dir(marks.path("")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let cc = name.split('-').nth(1).unwrap().parse().unwrap();
        *ran.entry(cc).or_default() += 1;
    }
    let mut failed = 0;
    for (id, state) in ids.iter().zip(&states) {
        let times = ran.get(id).copied().unwrap_or(0);
        assert!(times <= 1, "job {id} ran {times} times");
        match state.as_str() {
            "completed" => assert_eq!(times, 1, "job {id}"),
            "failed" => failed += 1,
            other => panic!("job {id} is {other}"),
        }
    }
    // Two brokers of two slots: no more than that ran at each of the kills.
    assert!(failed <= 12, "{failed} failed");
}

#[test]
fn a_log_torn_or_damaged_is_read_as_far_as_it_goes() {
    let pods = cluster(1);
    let held = |name: &str| submit(&pods, 0, &["--urgency", "0", "--name", name, "true"]);
    let (first, second, third) = (held("first"), held("second"), held("third"));
    let log = pods.dir(0).join("queue/events.log");
    // The broker is stopped while its log is damaged, so that it cannot write meanwhile.
    let broker = pods.broker(0);
    crate::pods::signal(broker, 19);
    let text = fs::read_to_string(&log).unwrap();
    let text = text.replacen("\"second\"", "\"sec0nd\"", 1);
    fs::write(&log, text + "630282ed {\"time\":8,\"jo").unwrap();
    crate::pods::signal(broker, 9);
    wait("the next broker", || (pods.broker(0) != broker).then_some(()));
    pods.wait_running();
    wait_for(&pods, first, "PRIORITY");
    wait_for(&pods, third, "PRIORITY");
    let output = run(&pods, 0, &["info", &second.to_string()]);
    assert_eq!(code(&output), 1, "{}", stderr(&output));
    assert!(
        fs::read_to_string(pods.dir(0).join("queue/events.damaged")).unwrap().contains("sec0nd")
    );
    assert_eq!(held("fourth"), 4);
}

#[test]
fn a_job_on_a_launcher_that_is_told_to_stop_has_not_succeeded() {
    let mut pods = cluster(2);
    let id = submit(&pods, 1, &["--requires", "rank:0", "sleep", "1000"]);
    crate::asking::wait_started(&pods, id);
    let log = pods.dir(0).join("queue/events.log");
    crate::pods::signal(pods.supervisor(0), 15);
    assert_eq!(pods.wait_exit(0), 143);
    let text = fs::read_to_string(log).unwrap();
    assert!(text.contains("\"kind\":\"node-lost\"") && !text.contains("\"code\":0"), "{text}");
}

#[test]
fn a_launcher_that_is_told_to_stop_says_nothing_of_jobs_that_its_workers_keep() {
    let mut pods = cluster(3);
    // While its own task takes its time, the others could be thought lost.
    let stubborn = "trap 'sleep 0.3; exit 0' TERM; while :; do sleep 0.05; done";
    let own = submit(&pods, 1, &["--requires", "rank:0", "sh", "-c", stubborn]);
    let kept = submit(&pods, 1, &["-N2", "--requires", "worker", "sleep", "1000"]);
    crate::asking::wait_started(&pods, own);
    crate::asking::wait_started(&pods, kept);
    let log = pods.dir(0).join("queue/events.log");
    crate::pods::signal(pods.supervisor(0), 15);
    assert_eq!(pods.wait_exit(0), 143);
    let text = fs::read_to_string(log).unwrap();
    let of = |id: u64| text.lines().filter(move |line| line.contains(&format!("\"job\":{id},")));
    let ended = |id: u64| of(id).any(|line| line.contains("finish"));
    assert!(ended(own) && !ended(kept), "{text}");
}

#[test]
fn a_launcher_told_to_stop_goes_as_soon_as_its_own_tasks_are_gone_whatever_it_leads_elsewhere() {
    let mut pods = cluster(2);
    let stubborn = "trap 'sleep 0.3; exit 0' TERM; while :; do sleep 0.05; done";
    let own = submit(&pods, 1, &["--requires", "rank:0", "sh", "-c", stubborn]);
    let kept = submit(&pods, 1, &["--requires", "worker", "sleep", "1000"]);
    crate::asking::wait_started(&pods, own);
    crate::asking::wait_started(&pods, kept);
    let told = Instant::now();
    crate::pods::signal(pods.supervisor(0), 15);
    assert_eq!(pods.wait_exit(0), 143);
    // Tasks that resist have five seconds; none does.
    assert!(told.elapsed() < Duration::from_secs(5), "{:?}", told.elapsed());
}
