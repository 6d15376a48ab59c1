//! The remote shell that launchers call.

use crate::pods::{AGENT, Plan, signal};
use crate::typing::{Marks, cluster, code, run, stderr, stdout, typed, wait_gone};
use std::io::Write;
use std::process::Stdio;

#[test]
fn every_name_of_a_pod_reaches_it() {
    let pods = cluster(3);
    let names = [
        "t-worker-0-1",
        "t-worker-0-1.t",
        "t-worker-0-1.t.t.svc.cluster.local",
        "worker-0-1",
        "t-worker-1",
        "me@t-worker-0-1",
    ];
    for name in names {
        let output = run(&pods, 1, &["rsh", "-x", name, "echo", "$QUORATE_BROKER_RANK"]);
        assert_eq!((code(&output), stdout(&output).as_str()), (0, "2\n"), "{}", stderr(&output));
    }
}

#[test]
fn codes_streams_and_words_are_those_of_ssh() {
    let pods = cluster(2);
    let output = run(&pods, 0, &["rsh", "t-worker-0-0", "echo out; echo err >&2;", "exit", "7"]);
    assert_eq!(code(&output), 7);
    assert_eq!((stdout(&output).as_str(), stderr(&output).as_str()), ("out\n", "err\n"));
    let output = run(&pods, 0, &["rsh", "t-worker-0-0", "kill -9 $$"]);
    assert_eq!(code(&output), 137);
    let mut child = typed(&pods, 0, &["rsh", "t-worker-0-0", "cat; echo end"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"through\n").unwrap();
    assert_eq!(stdout(&child.wait_with_output().unwrap()), "through\nend\n");
}

#[test]
fn what_cannot_be_reached_is_255_and_one_line() {
    let pods = cluster(2);
    let output = run(&pods, 0, &["rsh", "elsewhere", "true"]);
    assert_eq!(code(&output), 255);
    assert_eq!(stderr(&output).lines().count(), 1, "{}", stderr(&output));
    assert!(stderr(&output).contains("elsewhere"), "{}", stderr(&output));
    let mut pods = pods;
    pods.kill_pod(1);
    pods.wait_status("one broker less", |status| status.online == 1);
    let output = run(&pods, 0, &["rsh", "t-worker-0-0", "true"]);
    assert_eq!(code(&output), 255);
    assert!(stderr(&output).contains("worker-0-0"), "{}", stderr(&output));
}

#[test]
fn the_callers_search_paths_go_along_and_nothing_else() {
    let pods = cluster(2);
    let show = "echo $PATH $LD_LIBRARY_PATH ${OTHER-none} ${PMI_RANK-none}";
    let output = typed(&pods, 0, &["rsh", "t-worker-0-0", show])
        .env("PATH", "/opt/mpi/bin:/usr/bin:/bin")
        .env("LD_LIBRARY_PATH", "/opt/mpi/lib")
        .env("OTHER", "x")
        .env("PMI_RANK", "3")
        .output()
        .unwrap();
    assert_eq!(stdout(&output), "/opt/mpi/bin:/usr/bin:/bin /opt/mpi/lib none none\n");
}

#[test]
fn it_answers_to_the_name_of_ssh() {
    let pods = cluster(2);
    let ssh = pods.dir(0).join("bin/ssh");
    let output = std::process::Command::new(ssh)
        .args(["-o", "BatchMode=yes", "t-worker-0-0", "echo", "$QUORATE_BROKER_RANK"])
        .env("QUORATE_SOCKET", pods.dir(0).join("agent.sock"))
        .output()
        .unwrap();
    assert_eq!(stdout(&output), "1\n", "{}", stderr(&output));
}

#[test]
fn a_caller_that_is_gone_ends_its_command() {
    let pods = cluster(2);
    let marks = Marks::new();
    let script = format!("{} exec sleep 1000", marks.leave("pid"));
    let mut child = typed(&pods, 0, &["rsh", "t-worker-0-0", &script]).spawn().unwrap();
    let pid = marks.pid("pid");
    signal(child.id().cast_signed(), 9);
    child.wait().unwrap();
    wait_gone(pid);
}

#[test]
fn a_daemon_outlives_its_session_but_not_the_program() {
    let marks = Marks::new();
    let daemon = format!("{} exec sleep 1000", marks.leave("pid"));
    let script = format!(
        "{AGENT} rsh t-worker-0-0 \"setsid sh -c '{daemon}' >/dev/null 2>&1 </dev/null &\"; \
         while [ ! -e {pid} ]; do sleep 0.05; done; kill -0 $(cat {pid}) && echo lives",
        daemon = daemon.replace('$', "\\$"),
        pid = marks.path("pid").display()
    );
    let mut pods = Plan::script(2, &script).start();
    assert_eq!(pods.wait_exit(0), 0);
    assert_eq!(pods.stdout(0), "lives\n");
    wait_gone(marks.pid("pid"));
    assert_eq!(pods.wait_exit(1), 0);
}
