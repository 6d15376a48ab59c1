//! What is taken, what is refused, and where it runs.

use crate::asking::{ended, job, states, submit, submit_all, wait_for, wait_started};
use crate::typing::{Marks, cluster, code, run, stderr, stdout, typed};
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

#[test]
fn a_job_is_submitted_from_any_pod_and_waited_for() {
    let pods = cluster(2);
    for from in 0..2 {
        let id = submit(&pods, from, &["sh", "-c", "exit 0"]);
        assert_eq!(id, u64::from(from) + 1);
        assert_eq!(ended(&pods, id), 0);
    }
    let id = submit(&pods, 1, &["sh", "-c", "exit 7"]);
    assert_eq!(ended(&pods, id), 7);
    assert_eq!(code(&run(&pods, 1, &["wait", "1-3"])), 7);
    let job = job(&pods, id);
    assert_eq!((&job["standing"], &job["code"]), (&"failed".into(), &7.into()));
    assert!(job["why"].as_str().unwrap().contains("ended with code 7"), "{job}");
    // What is over is waited for at once, however often.
    assert_eq!(ended(&pods, id), 7);
    let output = run(&pods, 0, &["submit", "--wait", "sh", "-c", "exit 3"]);
    assert_eq!((code(&output), stdout(&output).as_str()), (3, "4\n"), "{}", stderr(&output));
    let output = run(&pods, 1, &["submit", "--wait", "no-such-command"]);
    assert_eq!(code(&output), 127, "{}", stderr(&output));
    assert!(stderr(&output).contains("no command no-such-command"), "{}", stderr(&output));
}

#[test]
fn tasks_run_where_the_queue_says_and_know_their_job() {
    let pods = cluster(3);
    let show = "echo $QUORATE_JOB_ID $QUORATE_TASK_RANK/$QUORATE_TASK_COUNT $QUORATE_BROKER_RANK";
    let words = ["submit", "--watch", "-N3", "-n6", "-l", "sh", "-c", show];
    let output = run(&pods, 2, &words);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let mut lines: Vec<&str> = std::str::from_utf8(&output.stdout).unwrap().lines().collect();
    lines.sort_unstable();
    let wanted: Vec<String> =
        (0..6).map(|rank| format!("{rank}: 1 {rank}/6 {}", rank / 2)).collect();
    assert_eq!(lines, wanted);
    assert_eq!(
        job(&pods, 1)["pods"],
        serde_json::json!(["launcher-0-0", "worker-0-0", "worker-0-1"])
    );
}

#[test]
fn two_slots_take_two_jobs_and_the_third_waits() {
    let pods = cluster(1);
    let marks = Marks::new();
    let held = format!("{} exec sleep 1000", marks.leave("first"));
    let first = submit(&pods, 0, &["sh", "-c", &held]);
    let second = submit(&pods, 0, &["sleep", "1000"]);
    let third = submit(&pods, 0, &["true"]);
    wait_started(&pods, first);
    wait_started(&pods, second);
    let waiting = job(&pods, third);
    assert_eq!(waiting["state"], "SCHED");
    assert!(waiting["why"].as_str().unwrap().contains("waits for nodes"), "{waiting}");
    let list = stdout(&run(&pods, 0, &["jobs"]));
    let lines: Vec<&str> = list.lines().collect();
    assert!(lines[0].starts_with("ID  NAME   STATE  TASKS  NODES"), "{list}");
    assert_eq!(lines.len(), 4, "{list}");
    assert!(lines[1].contains("launcher-0-0") && lines[3].contains("waits for nodes"), "{list}");
    assert_eq!(code(&run(&pods, 0, &["cancel", &first.to_string()])), 0);
    assert_eq!(ended(&pods, third), 0);
    assert_eq!(states(&pods), ["cancelled", "RUN", "completed"]);
    wait_for(&pods, second, "RUN");
}

#[test]
fn what_cannot_be_taken_is_refused_with_the_flag_and_the_way_out() {
    let pods = cluster(2);
    for (words, wanted, says) in [
        (&["-n9", "true"][..], 1, "it asks for 9 cores, and there are 4"),
        (&["-N3", "true"], 1, "it asks for 3 nodes, and there are 2"),
        (&["-g1", "true"], 1, "it asks for 1 accelerators, and there are 0"),
        (&["-N2", "-n1", "true"], 2, "--nodes asks for 2 nodes for 1 tasks"),
        (&["-n0", "true"], 2, "--ntasks is 0"),
        (&["--urgency", "32", "true"], 2, "urgency is 32"),
        (&["-t", "soon", "true"], 2, "`soon` is not a time: write 90s"),
        (&["--dependency", "afterok:99", "true"], 1, "depends on job 99, which is not known"),
        (&["--dependency", "later", "true"], 2, "`later` is no dependency"),
        (&["--queue", "fast", "true"], 1, "there is no queue `fast`; there are default"),
        (&["--option", "mpi=pmi9", "true"], 2, "mpi is one of auto"),
        (&["--requires", "worker &", "true"], 2, "`worker &` is not a constraint"),
        (&["--requires", "fast", "true"], 1, "the nodes that its constraints leave"),
        (&[], 2, "give the command after the options"),
    ] {
        let output = run(&pods, 1, &[&["submit"], words].concat());
        assert_eq!(code(&output), wanted, "{words:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(says), "{words:?}: {}", stderr(&output));
        assert_eq!(stdout(&output), "");
    }
    assert!(states(&pods).is_empty());
    assert_eq!(code(&run(&pods, 0, &["submit", "--test-only", "-n4", "true"])), 0);
    assert!(states(&pods).is_empty());
    let output = run(&pods, 0, &["info", "1"]);
    assert_eq!((code(&output), stdout(&output).as_str()), (1, ""));
    assert!(stderr(&output).contains("there is no job 1"), "{}", stderr(&output));
}

#[test]
fn a_dry_run_needs_no_cluster() {
    let output = std::process::Command::new(crate::pods::AGENT)
        .args(["submit", "--dry-run", "-n", "4", "-t", "1:30", "--label", "a=b", "./x", "-n", "y"])
        .output()
        .unwrap();
    let spec: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(spec["program"]["command"], serde_json::json!(["./x", "-n", "y"]));
    assert_eq!((&spec["request"]["tasks"], &spec["timeLimit"]), (&4.into(), &90.into()));
    assert_eq!((&spec["labels"]["a"], &spec["name"]), (&"b".into(), &"x".into()));
}

#[test]
fn copies_have_numbers_of_their_own() {
    let pods = cluster(2);
    let ids =
        submit_all(&pods, 1, &["--cc", "3-5", "--name", "case-{cc}", "sh", "-c", "exit {cc}"]);
    assert_eq!(ids, [1, 2, 3]);
    assert_eq!(code(&run(&pods, 0, &["wait", "1-3"])), 5);
    for (id, cc) in [(1, 3), (2, 4), (3, 5)] {
        let job = job(&pods, id);
        assert_eq!((&job["code"], &job["name"]), (&cc.into(), &format!("case-{cc}").into()));
    }
    let output = run(&pods, 0, &["submit", "--bcc", "1-20", "--wait", "--progress", "true"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert_eq!(stdout(&output).lines().count(), 20);
    assert!(stderr(&output).contains("20 of 20 jobs are over, 0 of them failed"));
    assert_eq!(states(&pods).len(), 23);
}

#[test]
fn the_submitters_environment_travels_as_with_run() {
    let pods = cluster(2);
    let show = "echo $COLOUR ${HOME-none} ${LEFT-none} $QUORATE_JOB_CC";
    let words = ["submit", "--watch", "--env=-HOME", "--env", "LEFT=a b", "sh", "-c", show];
    let mut typed = typed(&pods, 1, &words);
    let output = typed.env("COLOUR", "blue").output().unwrap();
    assert_eq!(stdout(&output), "blue none a b\n", "{}", stderr(&output));
    let large = "x".repeat(100_000);
    let words = ["submit", "--watch", "sh", "-c", "echo ${#A} ${#B}"];
    let mut typed = crate::typing::typed(&pods, 1, &words);
    let output = typed.env("A", &large).env("B", &large).output().unwrap();
    assert_eq!(stdout(&output), "100000 100000\n", "{}", stderr(&output));
}

#[test]
fn lines_become_jobs_one_after_another() {
    let pods = cluster(2);
    for from in 0..2 {
        let mut command = typed(&pods, from, &["submit", "--lines", "sh", "-c", "exit {}"]);
        let mut child = command.stdin(Stdio::piped()).env("A", "b").spawn().unwrap();
        child.stdin.take().unwrap().write_all(b"3\n4\n5\n").unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!((code(&output), stdout(&output).lines().count()), (0, 3), "{}", stderr(&output));
    }
    for (id, expected) in [(1, 3), (2, 4), (3, 5), (4, 3), (5, 4), (6, 5)] {
        assert_eq!(ended(&pods, id), expected);
    }
}

#[test]
fn a_simulated_job_takes_its_time_and_starts_nothing() {
    let pods = cluster(1);
    let id = submit(&pods, 0, &["--option", "simulate=300", "no-such-command"]);
    assert_eq!(ended(&pods, id), 0);
    let facts = job(&pods, id);
    let took = facts["ended"].as_u64().unwrap() - facts["started"].as_u64().unwrap();
    assert!(took >= 300, "{facts}");
    let id = submit(&pods, 0, &["--option", "simulate=1000000", "x"]);
    wait_started(&pods, id);
    assert_eq!(code(&run(&pods, 0, &["cancel", &id.to_string()])), 0);
    assert_eq!(ended(&pods, id), 143);
    let output = run(
        &pods,
        0,
        &["submit", "--bcc", "1-2000", "--option", "simulate=0", "--wait", "-Q", "x"],
    );
    assert_eq!(code(&output), 0, "{}", stderr(&output));
}

#[test]
fn constraints_choose_the_nodes() {
    let pods = cluster(3);
    for (which, expected) in [
        ("worker", "1"),
        ("-worker", "0"),
        ("rank:2", "2"),
        ("host:t-worker-0-[0-1] & -rank:1", "2"),
        ("launcher | rank:9", "0"),
    ] {
        let id = submit(&pods, 1, &["--requires", which, "true"]);
        assert_eq!(ended(&pods, id), 0);
        assert_eq!(job(&pods, id)["ranks"], expected, "{which}");
    }
}

#[test]
fn a_program_that_is_run_waits_for_its_turn_and_ends_with_who_started_it() {
    let pods = cluster(1);
    let marks = Marks::new();
    let held = format!("{} exec sleep 1000", marks.leave("first"));
    let mut first = typed(&pods, 0, &["run", "-n2", "sh", "-c", &held]).spawn().unwrap();
    let pid = marks.pid("first");
    let second = typed(&pods, 0, &["run", "sh", "-c", "cat; exit 4"])
        .stdin(Stdio::piped())
        .spawn()
        .and_then(|mut child| {
            child.stdin.take().unwrap().write_all(b"typed early\n")?;
            Ok(child)
        })
        .unwrap();
    wait_for(&pods, 2, "SCHED");
    let output = run(&pods, 0, &["run", "--direct", "echo", "beside"]);
    assert_eq!((code(&output), stdout(&output).as_str()), (0, "beside\n"));
    // Killed, it takes its job along.
    first.kill().unwrap();
    first.wait().unwrap();
    crate::typing::wait_gone(pid);
    let output = second.wait_with_output().unwrap();
    assert_eq!((code(&output), stdout(&output).as_str()), (4, "typed early\n"));
    assert_eq!(states(&pods), ["cancelled", "failed"]);
    // Nothing of what it wrote is kept: who ran it has read it.
    assert!(!pods.dir(0).join("queue/output/2").exists());
    let output = run(&pods, 0, &["run", "--tasks-per-node", "2", "true"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
}

#[test]
fn who_waits_for_room_is_told_and_may_give_up() {
    let pods = cluster(2);
    let busy = submit(&pods, 0, &["-n4", "sleep", "1000"]);
    wait_started(&pods, busy);
    let mut child = typed(&pods, 1, &["run", "true"]).spawn().unwrap();
    let mut said = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut said).unwrap();
    assert!(said.contains("job 2 waits for nodes"), "{said}");
    crate::pods::signal(i32::try_from(child.id()).unwrap(), 2);
    assert_eq!(code(&child.wait_with_output().unwrap()), 130);
    wait_for(&pods, 2, "cancelled");
}
