//! Signals between the typist and the tasks.

use crate::pods::signal;
use crate::typing::{Marks, cluster, code, stderr, stdout, typed, wait, wait_gone};
use std::process::Child;

const SIGINT: i32 = 2;
const SIGKILL: i32 = 9;
const SIGUSR1: i32 = 10;
const SIGTERM: i32 = 15;

#[test]
fn signals_reach_every_task_and_its_code_counts() {
    let pods = cluster(2);
    for (number, name) in [(SIGINT, "INT"), (SIGTERM, "TERM"), (SIGUSR1, "USR1")] {
        let marks = Marks::new();
        let script = format!(
            "trap 'echo got {name}; exit 4' {name}; {} while :; do sleep 0.05; done",
            marks.leave("rank$QUORATE_TASK_RANK")
        );
        let child = typed(&pods, 1, &["run", "-N2", "sh", "-c", &script]).spawn().unwrap();
        marks.pid("rank0");
        marks.pid("rank1");
        signal(child.id().cast_signed(), number);
        let output = child.wait_with_output().unwrap();
        assert_eq!(code(&output), 4, "{name}: {}", stderr(&output));
        assert_eq!(stdout(&output), format!("got {name}\ngot {name}\n"));
    }
}

#[test]
fn a_task_that_dies_of_the_passed_on_signal_was_cancelled() {
    let pods = cluster(2);
    let marks = Marks::new();
    let script = format!("{} exec sleep 1000", marks.leave("rank$QUORATE_TASK_RANK"));
    let child = typed(&pods, 0, &["run", "-N2", "sh", "-c", &script]).spawn().unwrap();
    marks.pid("rank0");
    marks.pid("rank1");
    signal(child.id().cast_signed(), SIGTERM);
    let output = child.wait_with_output().unwrap();
    assert_eq!(code(&output), 143);
    assert!(stderr(&output).contains("interrupted with signal 15"), "{}", stderr(&output));
}

#[test]
fn a_second_interrupt_kills_what_ignores_the_first() {
    let pods = cluster(2);
    let marks = Marks::new();
    let script = format!(
        "trap 'echo no' INT; {} while :; do sleep 0.05; done",
        marks.leave("rank$QUORATE_TASK_RANK")
    );
    let mut child = typed(&pods, 0, &["run", "-N2", "sh", "-c", &script]).spawn().unwrap();
    let pids = [marks.pid("rank0"), marks.pid("rank1")];
    signal(child.id().cast_signed(), SIGINT);
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert!(pids.into_iter().all(crate::pods::alive), "one interrupt is only passed on");
    interrupt(&mut child);
    let output = child.wait_with_output().unwrap();
    assert_eq!(code(&output), 130, "{}", stderr(&output));
    pids.into_iter().for_each(wait_gone);
}

/// Interrupts a client until it ends: two interrupts may become one for a slow one, and count as two only
/// within a second.
pub(crate) fn interrupt(child: &mut Child) {
    let pid = child.id().cast_signed();
    wait("the client's end", || {
        let ended = child.try_wait().unwrap().is_some();
        if !ended {
            signal(pid, SIGINT);
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        ended.then_some(())
    });
}

#[test]
fn a_killed_client_takes_its_job_along() {
    let pods = cluster(2);
    let marks = Marks::new();
    let script = format!("{} exec sleep 1000", marks.leave("rank$QUORATE_TASK_RANK"));
    let mut child = typed(&pods, 1, &["run", "-N2", "sh", "-c", &script]).spawn().unwrap();
    let pids = [marks.pid("rank0"), marks.pid("rank1")];
    signal(child.id().cast_signed(), SIGKILL);
    child.wait().unwrap();
    pids.into_iter().for_each(wait_gone);
}

#[test]
fn a_signal_passes_stdin_that_nobody_reads() {
    use std::io::Write;
    use std::process::Stdio;
    let pods = cluster(1);
    let marks = Marks::new();
    let script = format!("trap 'exit 5' TERM; {} while :; do sleep 0.05; done", marks.leave("pid"));
    let mut child =
        typed(&pods, 0, &["run", "sh", "-c", &script]).stdin(Stdio::piped()).spawn().unwrap();
    marks.pid("pid");
    let mut stdin = child.stdin.take().unwrap();
    let (full, filled) = std::sync::mpsc::channel();
    let writer = std::thread::spawn(move || {
        // More than pipes and windows hold; then on until the client is gone.
        let _ = stdin.write_all(&vec![0; 100_000]);
        full.send(()).unwrap();
        while stdin.write_all(&[0; 4096]).is_ok() {}
    });
    filled.recv().unwrap();
    signal(child.id().cast_signed(), SIGTERM);
    assert_eq!(code(&child.wait_with_output().unwrap()), 5);
    writer.join().unwrap();
}
