//! Scripts and interactive allocations: jobs that are clusters.

use crate::asking::{ended, job, submit, submit_batch, wait_for};
use crate::durability::restart;
use crate::pods::{Pods, signal};
use crate::typing::{Marks, cluster, code, run, stderr, stdout, typed, wait, wait_gone};
use std::fs;

const SIGKILL: i32 = 9;

#[test]
fn a_script_has_a_queue_of_its_own_over_its_nodes() {
    let pods = cluster(3);
    let dir = tempfile::tempdir().unwrap();
    let script = dir.path().join("steps.sh");
    let text = "#!/bin/sh -e\n\
                echo \"$# $1 in job $QUORATE_JOB_ID\"\n\
                quorate-agent submit -n2 -N2 --wait sh -c 'exit 0'\n\
                quorate-agent submit --wait true\n\
                quorate-agent run -N2 -n4 sh -c 'echo task $QUORATE_TASK_RANK'\n\
                exit 5\n";
    fs::write(&script, text).unwrap();
    let words = ["batch", "-N2", "-n4", "--watch", script.to_str().unwrap(), "an argument"];
    let output = run(&pods, 1, &words);
    assert_eq!(code(&output), 5, "{}", stderr(&output));
    let text = stdout(&output);
    // Numbers of the inner queue begin anew.
    let mut lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[..3], ["1 an argument in job 1", "1", "2"], "{text}");
    lines[3..].sort_unstable();
    assert_eq!(lines[3..], ["task 0", "task 1", "task 2", "task 3"]);
    assert_eq!(job(&pods, 1)["name"], "steps.sh");
}

#[test]
fn a_nested_cluster_has_the_cores_of_its_job_and_no_more() {
    let pods = cluster(2);
    let words = ["batch", "-n1", "--watch", "--wrap", "quorate-agent run -n2 true"];
    let output = run(&pods, 0, &words);
    assert_eq!(code(&output), 1, "{}", stdout(&output));
    assert!(stdout(&output).is_empty() && stderr(&output).contains("slot"), "{}", stderr(&output));
}

#[test]
fn lines_of_a_script_are_options() {
    let pods = cluster(3);
    let dir = tempfile::tempdir().unwrap();
    let script = dir.path().join("steps.sh");
    fs::write(&script, "#!/bin/sh\n#QUORATE -N3 --name wide\necho $QUORATE_JOB_ID\n").unwrap();
    let output = run(&pods, 1, &["batch", "-N2", "--watch", script.to_str().unwrap()]);
    assert_eq!((code(&output), stdout(&output).as_str()), (0, "1\n"), "{}", stderr(&output));
    let job = job(&pods, 1);
    assert_eq!((&job["name"], &job["nodes"]), (&"wide".into(), &2.into()));
    fs::write(&script, "#!/bin/sh\n#QUORATE --frobnicate\n").unwrap();
    let output = run(&pods, 1, &["batch", script.to_str().unwrap()]);
    assert!(code(&output) == 2 && stderr(&output).contains("line 2 of steps.sh"));
}

#[test]
fn scripts_that_cannot_be_are_refused_with_the_way_out() {
    let pods = cluster(1);
    for (words, want) in [
        (&["batch"][..], "--wrap"),
        (&["batch", "/nonexistent/script"], "/nonexistent/script"),
        (&["batch", "/bin/true"], "submit"),
    ] {
        let output = run(&pods, 0, words);
        assert_eq!(code(&output), 2, "{words:?}");
        assert!(stderr(&output).contains(want), "{}", stderr(&output));
    }
}

#[test]
fn an_allocation_is_there_for_as_long_as_its_command() {
    let pods = cluster(2);
    let words = ["alloc", "-N2", "-n4", "--", "sh", "-c"];
    let agent = crate::pods::AGENT;
    let script = format!("{agent} run -n4 sh -c 'echo $QUORATE_TASK_RANK'; {agent} tree; exit 3");
    let output = run(&pods, 1, &[&words[..], &[&script]].concat());
    assert_eq!(code(&output), 3, "{}", stderr(&output));
    let text = stdout(&output);
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, [".", "0", "1", "2", "3"], "{}", stderr(&output));
    // It ended well, and its nodes are free.
    assert_eq!(wait_for(&pods, 1, "completed")["code"], 0);
    assert_eq!(ended(&pods, submit(&pods, 0, &["-n4", "true"])), 0);
}

#[test]
fn an_allocation_whose_client_is_killed_gives_its_nodes_back() {
    let pods = cluster(2);
    let marks = Marks::new();
    let agent = crate::pods::AGENT;
    let task = format!("{} exec sleep 1000", marks.leave("task"));
    let script = format!("{agent} run -n1 sh -c '{task}'");
    let mut child = typed(&pods, 0, &["alloc", "-N2", "--", "sh", "-c", &script]).spawn().unwrap();
    let pid = marks.pid("task");
    signal(i32::try_from(child.id()).unwrap(), SIGKILL);
    child.wait().unwrap();
    wait_gone(pid);
    wait_for(&pods, 1, "INACTIVE");
    let tree = || stdout(&run(&pods, 0, &["tree"]));
    wait("the instance to be forgotten", || (tree() == ".\n").then_some(()));
}

#[test]
fn a_nested_cluster_goes_on_without_a_node_that_is_lost() {
    let pods = cluster(3);
    let marks = Marks::new();
    let script = format!(
        "quorate-agent run -N3 true || exit 21\n{}\n\
         until [ -e {go} ]; do sleep 0.02; done\n\
         quorate-agent run -N2 -n4 true || exit 22\n\
         while quorate-agent submit --test-only -N3 true; do sleep 0.05; done\n\
         quorate-agent submit -N2 -n4 --wait -Q true || exit 24\n\
         exit 7\n",
        marks.leave("up"),
        go = marks.path("go").display(),
    );
    let wide = submit_batch(&pods, &["-N3", "-n6", "--wrap", &script]);
    marks.pid("up");
    pods.kill_broker(2);
    wait("the job to shrink", || (job(&pods, wide)["ranks"] == "0-1").then_some(()));
    pods.wait_running();
    // What it had there is for others.
    assert_eq!(ended(&pods, submit(&pods, 1, &["-n2", "--requires", "rank:2", "true"])), 0);
    fs::write(marks.path("go"), "").unwrap();
    assert_eq!(ended(&pods, wide), 7, "{}", stdout(&run(&pods, 0, &["attach", "1"])));
    let events = stdout(&run(&pods, 0, &["events", "1"]));
    assert!(events.contains("shrink") && events.contains("worker-0-1 was lost"), "{events}");
    assert_eq!(ended(&pods, submit(&pods, 0, &["-n6", "true"])), 0, "all is free again");
}

#[test]
fn a_nested_cluster_ends_with_its_first_node() {
    let pods = cluster(3);
    let marks = Marks::new();
    let script = format!("{}\nexec sleep 1000", marks.leave("up"));
    let one = submit_batch(&pods, &["-N2", "--requires", "worker", "--wrap", &script]);
    let pid = marks.pid("up");
    pods.kill_broker(1);
    assert_eq!(ended(&pods, one), 69);
    wait_gone(pid);
    let why = job(&pods, one)["why"].as_str().unwrap().to_owned();
    assert!(why.contains("worker-0-0 was lost"), "{why}");
}

/// Kills two brokers at once, the launcher's among them, and waits until all are there again.
fn kill_both(pods: &Pods, ranks: [u32; 2]) {
    let before = ranks.map(|rank| pods.broker(rank));
    for broker in before {
        signal(broker, SIGKILL);
    }
    wait("the next brokers", || (ranks.map(|rank| pods.broker(rank)) != before).then_some(()));
    pods.wait_running();
}

/// Submits an instance over all three workers that has met when this returns. It ends with code 7 when it
/// goes on over two of them after the word.
fn over_three_workers(pods: &Pods, marks: &Marks) -> u64 {
    let script = format!(
        "echo start >> {starts}\n\
         quorate-agent run -N3 true || exit 21\n{up}\n\
         until [ -e {go} ]; do sleep 0.02; done\n\
         while quorate-agent submit --test-only -N3 true; do sleep 0.05; done\n\
         quorate-agent run -N2 -n4 true || exit 22\n\
         exit 7\n",
        starts = marks.path("starts").display(),
        up = marks.leave("up"),
        go = marks.path("go").display(),
    );
    let id = submit_batch(pods, &["-N3", "-n6", "--requires", "worker", "--wrap", &script]);
    marks.pid("up");
    assert_eq!(job(pods, id)["ranks"], "1-3");
    id
}

fn goes_on_over_two(pods: &Pods, marks: &Marks, id: u64) {
    wait("the job to shrink", || (job(pods, id)["ranks"] == "1,3").then_some(()));
    // What it had there is for others.
    assert_eq!(ended(pods, submit(pods, 1, &["-n2", "--requires", "rank:2", "true"])), 0);
    fs::write(marks.path("go"), "").unwrap();
    assert_eq!(ended(pods, id), 7, "{}", stdout(&run(pods, 0, &["attach", &id.to_string()])));
    assert_eq!(fs::read_to_string(marks.path("starts")).unwrap().lines().count(), 1);
    let events = stdout(&run(pods, 0, &["events", &id.to_string()]));
    for (event, times) in [("shrink", 1), ("reattach", 1), ("finish", 1)] {
        let count = events.lines().filter(|line| line.contains(event)).count();
        assert_eq!(count, times, "{event}: {events}");
    }
    assert_eq!(ended(pods, submit(pods, 0, &["-n8", "true"])), 0, "all is free again");
}

#[test]
fn a_nested_cluster_that_loses_a_node_together_with_the_launcher_goes_on() {
    for order in [[0, 2], [2, 0]] {
        let (pods, marks) = (cluster(4), Marks::new());
        let id = over_three_workers(&pods, &marks);
        kill_both(&pods, order);
        goes_on_over_two(&pods, &marks, id);
    }
}

#[test]
fn a_nested_cluster_that_has_lost_a_node_goes_on_when_the_launcher_dies_later() {
    let (pods, marks) = (cluster(4), Marks::new());
    let id = over_three_workers(&pods, &marks);
    pods.kill_broker(2);
    wait("the job to shrink", || (job(&pods, id)["ranks"] == "1,3").then_some(()));
    restart(&pods);
    goes_on_over_two(&pods, &marks, id);
}

#[test]
fn a_nested_cluster_whose_first_node_dies_with_the_launcher_fails_once_or_begins_again() {
    for order in [[0, 1], [1, 0]] {
        let (pods, marks) = (cluster(4), Marks::new());
        let script = |name: &str| {
            format!(
                "echo start >> {starts}\n[ $(wc -l < {starts}) = 1 ] || exit 0\n{up}\nexec sleep 1000",
                starts = marks.path(&format!("starts-{name}")).display(),
                up = marks.leave(name),
            )
        };
        let batch = |name: &str, words: &[&str]| {
            let script = script(name);
            let all = ["-N2", "-n2", "--requires", "rank:1-2", "--wrap", &script];
            submit_batch(&pods, &[words, &all].concat())
        };
        let (once, again) = (batch("once", &[]), batch("again", &["--requeue"]));
        let pids = ["once", "again"].map(|name| marks.pid(name));
        kill_both(&pods, order);
        assert_eq!((ended(&pods, once), ended(&pods, again)), (69, 0));
        pids.into_iter().for_each(wait_gone);
        let starts = |name: &str| {
            let text = fs::read_to_string(marks.path(&format!("starts-{name}"))).unwrap();
            text.lines().count()
        };
        assert_eq!((starts("once"), starts("again")), (1, 2));
        assert_eq!(
            (&job(&pods, once)["requeues"], &job(&pods, again)["requeues"]),
            (&0.into(), &1.into())
        );
        assert_eq!(ended(&pods, submit(&pods, 0, &["-n8", "true"])), 0, "all is free again");
    }
}

#[test]
fn a_kept_allocation_takes_jobs_until_it_is_cancelled() {
    let pods = cluster(2);
    let output = run(&pods, 0, &["alloc", "-N1", "--bg"]);
    assert_eq!((code(&output), stdout(&output).as_str()), (0, "1\n"), "{}", stderr(&output));
    wait("the instance", || stdout(&run(&pods, 1, &["tree"])).contains(" 1  1 node").then_some(()));
    let agent = crate::pods::AGENT;
    let output = run(&pods, 1, &["proxy", "1", agent, "submit", "--wait", "true"]);
    assert_eq!((code(&output), stdout(&output).as_str()), (0, "1\n"), "{}", stderr(&output));
    assert_eq!(code(&run(&pods, 0, &["cancel", "1"])), 0);
    wait_for(&pods, 1, "cancelled");
}
