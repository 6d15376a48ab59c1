//! Cancelling, holding, limits, order, and queues and brokers that take nothing.

use crate::asking::{ended, job, states, submit, submit_all, wait_for, wait_started};
use crate::typing::{Marks, cluster, code, run, stderr, stdout, wait_gone};

#[test]
fn a_job_gets_a_signal_before_its_time_is_over() {
    let pods = cluster(1);
    let script = "trap 'exit 9' USR1; while :; do sleep 0.02; done";
    let words = ["-t", "60s", "--signal", "USR1@59", "sh", "-c", script];
    let id = submit(&pods, 0, &words);
    assert_eq!(ended(&pods, id), 9);
    let output = run(&pods, 0, &["submit", "--signal", "USR1", "true"]);
    assert_eq!(code(&output), 2, "{}", stderr(&output));
}

#[test]
fn what_is_over_is_forgotten_when_asked_for() {
    let pods = cluster(1);
    let ids = submit_all(&pods, 0, &["--array", "0-4%2", "--wait", "true"]);
    assert_eq!(ids.len(), 5);
    let held = submit(&pods, 0, &["--urgency", "0", "true"]);
    for (words, want) in [
        (&["purge", "--older-than", "1h"][..], "0 jobs"),
        (&["purge", "--keep", "2"], "3 jobs"),
        (&["purge"], "2 jobs"),
    ] {
        let output = run(&pods, 0, words);
        assert!(code(&output) == 0 && stderr(&output).contains(want), "{}", stderr(&output));
    }
    assert_eq!(states(&pods), ["PRIORITY"]);
    let output = run(&pods, 0, &["info", "1"]);
    assert!(stderr(&output).contains("forgotten"), "{}", stderr(&output));
    assert_eq!(submit(&pods, 0, &["true"]), held + 1);
}

#[test]
fn jobs_are_cancelled_in_every_state_and_their_tasks_are_gone() {
    let pods = cluster(1);
    let marks = Marks::new();
    let script = format!("trap '' TERM; {} while :; do sleep 0.1; done", marks.leave("task"));
    let running = submit(&pods, 0, &["-n2", "sh", "-c", &script]);
    let pid = marks.pid("task");
    let waiting = submit(&pods, 0, &["true"]);
    let depends = submit(&pods, 0, &["--dependency", &format!("afterok:{waiting}"), "true"]);
    let held = submit(&pods, 0, &["--urgency", "0", "true"]);
    assert_eq!(states(&pods), ["RUN", "SCHED", "DEPEND", "PRIORITY"]);
    let output = run(&pods, 0, &["cancel", "1-4", "--note", "enough"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    for id in [waiting, depends, held] {
        assert_eq!(ended(&pods, id), 1);
        assert_eq!(job(&pods, id)["standing"], "cancelled");
    }
    // It ignores SIGTERM; cancelled again it is killed at once.
    run(&pods, 0, &["cancel", &running.to_string()]);
    assert_eq!(ended(&pods, running), 143);
    wait_gone(pid);
    assert_eq!(job(&pods, running)["why"], "enough");
    let output = run(&pods, 0, &["cancel", &running.to_string()]);
    assert_eq!(code(&output), 1);
    assert!(stderr(&output).contains("is over"), "{}", stderr(&output));
    let output = run(&pods, 0, &["cancel"]);
    assert_eq!(code(&output), 2, "{}", stderr(&output));
    // The slots are free again.
    let again = submit(&pods, 0, &["-n2", "true"]);
    assert_eq!(ended(&pods, again), 0);
}

#[test]
fn a_time_limit_ends_a_job_with_142() {
    let pods = cluster(1);
    let id = submit(&pods, 0, &["-t", "1s", "sleep", "1000"]);
    assert_eq!(ended(&pods, id), 142);
    assert_eq!(job(&pods, id)["why"], "its time limit was reached");
    // A limit can be put on what runs already.
    let id = submit(&pods, 0, &["sleep", "1000"]);
    wait_started(&pods, id);
    assert_eq!(code(&run(&pods, 0, &["update", "-t", "1s", &id.to_string()])), 0);
    assert_eq!(ended(&pods, id), 142);
}

#[test]
fn order_follows_urgency_and_holds_are_released() {
    let pods = cluster(1);
    let marks = Marks::new();
    let log = marks.path("log").display().to_string();
    let first = submit(&pods, 0, &["-n2", "sleep", "1000"]);
    wait_started(&pods, first);
    let say = |word: &str| format!("test $QUORATE_TASK_RANK = 1 || echo {word} >> {log}");
    let usual = submit(&pods, 0, &["-n2", "sh", "-c", &say("usual")]);
    let urgent = submit(&pods, 0, &["-n2", "--urgency", "20", "sh", "-c", &say("urgent")]);
    let held = submit(&pods, 0, &["-n2", "sh", "-c", &say("held")]);
    let raised = submit(&pods, 0, &["-n2", "sh", "-c", &say("raised")]);
    assert_eq!(code(&run(&pods, 0, &["hold", &held.to_string()])), 0);
    assert_eq!(code(&run(&pods, 0, &["update", "--urgency", "31", &raised.to_string()])), 0);
    assert_eq!(code(&run(&pods, 0, &["cancel", &first.to_string()])), 0);
    for id in [usual, urgent, raised] {
        assert_eq!(ended(&pods, id), 0);
    }
    assert_eq!(job(&pods, held)["state"], "PRIORITY");
    assert_eq!(code(&run(&pods, 0, &["release", &held.to_string()])), 0);
    assert_eq!(ended(&pods, held), 0);
    let log = std::fs::read_to_string(marks.path("log")).unwrap();
    assert_eq!(log, "raised\nurgent\nusual\nheld\n");
}

#[test]
fn dependencies_are_waited_for_and_those_that_cannot_be_end_the_job() {
    let pods = cluster(1);
    let good = submit(&pods, 0, &["--begin", "+1s", "true"]);
    let bad = submit(&pods, 0, &["false"]);
    let on = |word: &str, id: u64| format!("{word}:{id}");
    let after_good = submit(&pods, 0, &["-d", &on("afterok", good), "true"]);
    let after_bad = submit(&pods, 0, &["-d", &on("afterok", bad), "true"]);
    let not_bad = submit(&pods, 0, &["-d", &on("afternotok", bad), "true"]);
    assert_eq!(job(&pods, after_good)["why"], format!("waits for the success of job {good}"));
    assert_eq!(ended(&pods, after_good), 0);
    assert_eq!(ended(&pods, after_bad), 1);
    assert_eq!(job(&pods, after_bad)["why"], format!("job {bad} did not succeed"));
    assert_eq!(ended(&pods, not_bad), 0);
}

#[test]
fn signals_reach_the_tasks() {
    let pods = cluster(2);
    let marks = Marks::new();
    let script = format!("trap 'exit 9' USR1; {} while :; do sleep 0.1; done", marks.leave("task"));
    let id = submit(&pods, 1, &["sh", "-c", &script]);
    marks.pid("task");
    assert_eq!(code(&run(&pods, 1, &["kill", "-s", "USR1", &id.to_string()])), 0);
    assert_eq!(ended(&pods, id), 9);
    let output = run(&pods, 1, &["signal", "-s", "USR1", &id.to_string()]);
    assert_eq!(code(&output), 1);
    assert!(stderr(&output).contains("has no tasks"), "{}", stderr(&output));
    assert_eq!(code(&run(&pods, 1, &["kill", "-s", "NONE", "1"])), 2);
}

#[test]
fn queues_and_brokers_are_closed_and_opened_with_a_reason() {
    let pods = cluster(2);
    assert_eq!(code(&run(&pods, 1, &["queue", "disable", "-r", "upgrade at noon"])), 0);
    let output = run(&pods, 1, &["submit", "true"]);
    assert_eq!(code(&output), 1);
    assert!(stderr(&output).contains("takes no jobs: upgrade at noon"), "{}", stderr(&output));
    assert_eq!(code(&run(&pods, 1, &["queue", "enable"])), 0);
    assert_eq!(code(&run(&pods, 1, &["queue", "stop", "-r", "lunch"])), 0);
    let id = submit(&pods, 1, &["true"]);
    assert_eq!(job(&pods, id)["why"], "queue default is stopped: lunch");
    let list = stdout(&run(&pods, 0, &["queue", "list"]));
    assert!(list.contains("enabled   stopped        1        0"), "{list}");
    assert_eq!(code(&run(&pods, 1, &["queue", "start"])), 0);
    assert_eq!(ended(&pods, id), 0);

    assert_eq!(code(&run(&pods, 1, &["resource", "drain", "1", "bad", "fan"])), 0);
    let list = stdout(&run(&pods, 0, &["resource", "list"]));
    assert!(list.contains("worker-0-0    drained") && list.contains("bad fan"), "{list}");
    let wide = submit(&pods, 1, &["-N2", "true"]);
    wait_for(&pods, wide, "SCHED");
    assert_eq!(code(&run(&pods, 1, &["resource", "undrain", "1"])), 0);
    assert_eq!(ended(&pods, wide), 0);
    let output = run(&pods, 0, &["resource", "drain", "9"]);
    assert!(stderr(&output).contains("there is no broker 9"), "{}", stderr(&output));
}

#[test]
fn what_happened_to_a_job_is_told_in_order() {
    let pods = cluster(1);
    let id = submit(&pods, 0, &["true"]);
    assert_eq!(ended(&pods, id), 0);
    let text = stdout(&run(&pods, 0, &["events", &id.to_string()]));
    let names: Vec<&str> =
        text.lines().map(|line| line.split_whitespace().nth(1).unwrap()).collect();
    let wanted = ["submit", "depend", "priority", "alloc", "start", "finish", "free", "clean"];
    assert_eq!(names, wanted, "{text}");
}
