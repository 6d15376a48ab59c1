//! How runs end: codes, output, input, signals, restarts.

use super::stage::{STAY, Stage, finish, until, wait};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::{Read as _, Write as _};
use std::process::Stdio;

#[test]
fn the_code_of_the_launcher_is_the_code_of_the_run() {
    let stage = Stage::new();
    for (launcher, code) in
        [("exit 0", 0), ("exit 3", 3), ("exit 127", 127), ("kill -SEGV $$; exit 9", 9)]
    {
        // PID 1 does not die of its own signals, as in any pod.
        let ran = stage.run(&["run", "-N", "2", "--", "x"], launcher, STAY);
        assert_eq!(ran.code, code, "{launcher}: {}", ran.err);
        let last = ran.err.lines().last().unwrap();
        let expected =
            if code == 0 { "succeeded in".to_owned() } else { format!("failed with code {code}") };
        assert!(last.contains(&expected), "{last}");
    }
}

#[test]
fn a_pod_that_is_not_ready_to_be_asked_does_not_hold_up_the_end_for_its_grace_period() {
    let stage = Stage::new();
    let begin = std::time::Instant::now();
    let ran = stage.run(&["run", "-N", "3", "--", "x"], "exit 0", "while :; do sleep 60; done");
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(begin.elapsed() < std::time::Duration::from_secs(15), "the grace period is 30 s");
}

#[test]
fn output_passes_untouched_and_status_stays_on_standard_error() {
    let stage = Stage::new();
    let launcher = r"printf 'a\0b\377'; echo word >&2";
    let mut child = stage.quorate(&["run", "-N", "2", "--", "x"], launcher, STAY).spawn().unwrap();
    let mut out = Vec::new();
    child.stdout.take().unwrap().read_to_end(&mut out).unwrap();
    let ran = finish(child);
    assert_eq!((ran.code, out.as_slice()), (0, &b"a\0b\xff"[..]));
    assert!(
        ran.err.contains("word\n") && ran.err.contains("2 pods on this machine"),
        "{}",
        ran.err
    );
}

#[test]
fn much_output_arrives_whole() {
    let stage = Stage::new();
    let ran = stage.run(&["run", "--", "x"], "seq 1 200000", STAY);
    let lines = ran.out.lines().count();
    assert_eq!((ran.code, lines), (0, 200_000), "{}", ran.err);
}

#[test]
fn standard_input_reaches_the_launcher_and_only_it() {
    let stage = Stage::new();
    let mut command = stage.quorate(
        &["run", "-N", "2", "--", "x"],
        "cat",
        &format!("read line && echo \"worker got $line\" >&2; {STAY}"),
    );
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"one\ntwo\n").unwrap();
    let ran = finish(child);
    assert_eq!((ran.code, ran.out.as_str()), (0, "one\ntwo\n"), "{}", ran.err);
}

#[test]
fn a_reader_that_leaves_ends_the_run_as_it_ends_any_program() {
    let stage = Stage::new();
    let mut child = stage.quorate(&["run", "--", "x"], "exec yes", STAY).spawn().unwrap();
    let mut some = [0; 100];
    let mut out = child.stdout.take().unwrap();
    out.read_exact(&mut some).unwrap();
    drop(out);
    assert_eq!(wait(&mut child), 128 + Signal::SIGPIPE as i32);
    stage.expect_nothing_left();
}

fn signalled(launcher: &str, signals: &[Signal]) -> (i32, String) {
    let stage = Stage::new();
    let ready = stage.path("ready");
    let launcher = format!("ready() {{ echo x >> {}; }}; {launcher}", ready.display());
    let child = stage.quorate(&["run", "-N", "2", "--", "x"], &launcher, STAY).spawn().unwrap();
    let pid = Pid::from_raw(child.id().cast_signed());
    let lines = || std::fs::read_to_string(&ready).map_or(0, |text| text.lines().count());
    for (n, signal) in signals.iter().enumerate() {
        until("the launcher is ready", || lines() > n);
        kill(pid, *signal).unwrap();
    }
    let ran = finish(child);
    stage.expect_nothing_left();
    (ran.code, ran.err)
}

#[test]
fn the_first_interrupt_is_the_programs_and_its_code_counts() {
    let (code, err) = signalled(
        "trap 'exit 9' INT; ready; while :; do sleep 60 & wait $!; done",
        &[Signal::SIGINT],
    );
    assert_eq!(code, 9, "{err}");
    assert!(err.contains("interrupt passed on to the program"), "{err}");
}

#[test]
fn the_second_interrupt_ends_everything() {
    let (code, err) = signalled(
        "trap 'ready' INT; ready; while :; do sleep 60 & wait $!; done",
        &[Signal::SIGINT, Signal::SIGINT],
    );
    assert_eq!(code, 130, "{err}");
}

#[test]
fn a_request_to_terminate_ends_the_cluster_in_order() {
    let (code, err) = signalled(&format!("ready; {STAY}"), &[Signal::SIGTERM]);
    assert_eq!(code, 143, "{err}");
}

#[test]
fn an_interrupted_cluster_is_not_restarted() {
    let stage = Stage::new();
    let ready = stage.path("ready");
    let file = stage.file("c.yaml", &restarting(5));
    let launcher = format!(
        "trap 'exit 1' INT; echo x >> {}; while :; do sleep 60 & wait $!; done",
        ready.display()
    );
    let child = stage.quorate(&["run", file.to_str().unwrap()], &launcher, STAY).spawn().unwrap();
    until("the launcher is ready", || ready.exists());
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGINT).unwrap();
    let ran = finish(child);
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert_eq!(std::fs::read_to_string(ready).unwrap(), "x\n");
}

fn restarting(restarts: u32) -> String {
    format!(
        "apiVersion: quorate.dev/v1alpha1\nkind: MiniCluster\nmetadata: {{name: again}}\nspec:\n  \
         size: 3\n  failurePolicy: {{maxRestarts: {restarts}}}\n  program: {{command: [x]}}\n"
    )
}

#[test]
fn a_failed_attempt_is_followed_by_the_next_with_its_number() {
    let stage = Stage::new();
    let file = stage.file("again.yaml", &restarting(2));
    let launcher = r#"echo "attempt $QUORATE_ATTEMPT"; [ "$QUORATE_ATTEMPT" = 2 ]"#;
    let ran = stage.run(&["run", file.to_str().unwrap()], launcher, STAY);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(ran.out, "attempt 0\nattempt 1\nattempt 2\n");
    assert!(ran.err.contains("↻ restart   1 of 2: "), "{}", ran.err);
    assert!(ran.err.contains("↻ restart   2 of 2: "), "{}", ran.err);
}

#[test]
fn restarts_that_are_used_up_end_with_the_last_code_and_keep_the_logs() {
    let stage = Stage::new();
    let file = stage.file("again.yaml", &restarting(1));
    let launcher = r#"echo "attempt $QUORATE_ATTEMPT"; exit $((40 + QUORATE_ATTEMPT))"#;
    let ran = stage.run(&["run", file.to_str().unwrap()], launcher, STAY);
    assert_eq!(ran.code, 41, "{}", ran.err);
    let logs = stage.state().join("again");
    assert!(
        ran.err.ends_with(&format!("again failed with code 41 · kept logs: {}\n", logs.display())),
        "{}",
        ran.err
    );
    let log = std::fs::read_to_string(logs.join("launcher-0-0.log")).unwrap();
    assert_eq!(log, "attempt 0\nattempt 1\n");
    let kept = stage.run(&["logs", "again/launcher-0-0"], "", "");
    assert_eq!(kept.out, log);
    let tail = stage.run(&["logs", "again/launcher-0-0", "--tail", "1"], "", "");
    assert_eq!(tail.out, "attempt 1\n");
}

#[test]
fn a_report_with_a_failing_rank_is_shown_with_its_last_lines() {
    let stage = Stage::new();
    let launcher = r#"cat > /dev/termination-log <<'R'
{"version":1,"exitCode":139,"reason":"Signaled","message":"rank 5 was ended by signal 11",
 "failure":{"rank":5,"pod":"worker-0-0","signal":11,"logTail":["reading mesh.h5","allocated 2.1 GB"]},
 "placement":{"plannedPods":2,"actualPods":2,"tasks":8,"tasksByPod":"2x4"},
 "phases":{"quorate":1,"programStarted":1000,"programEnded":13400}}
R
exit 139"#;
    let ran = stage.run(&["run", "-N", "2", "--name", "solver", "--", "x"], launcher, STAY);
    assert_eq!(ran.code, 139);
    let block = "  ✘ program   rank 5 on worker-0-0 ended by signal 11 (segmentation fault) after \
                 12.4 s; the other 7 ranks were stopped\n              its last lines:\n              \
                 | reading mesh.h5\n              | allocated 2.1 GB\nsolver failed with code 139";
    assert!(ran.err.contains(block), "{}", ran.err);
}

#[test]
fn an_agent_that_cannot_start_says_why() {
    let stage = Stage::new();
    stage.agent("#!/no/such/interpreter\n");
    let ran = stage.run(&["run", "-N", "2", "--", "x"], "", "");
    assert_eq!(ran.code, 70, "{}", ran.err);
    assert!(
        ran.err.contains("cannot start: cannot start /quorate/bin/quorate-agent: ENOENT"),
        "{}",
        ran.err
    );
}
