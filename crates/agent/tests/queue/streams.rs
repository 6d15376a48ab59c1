//! Output, input, and those who are attached.

use crate::asking::{ended, job, submit, wait_started};
use crate::typing::{Marks, cluster, code, run, sorted, stderr, stdout, typed, wait};
use std::io::Write;
use std::process::Stdio;

#[test]
fn all_who_attach_get_everything_from_the_beginning() {
    let pods = cluster(2);
    let marks = Marks::new();
    let gate = marks.path("gate").display().to_string();
    let script = format!(
        "echo one; echo two >&2; while ! test -e {gate}; do sleep 0.05; done; echo three; exit 4"
    );
    let id = submit(&pods, 1, &["sh", "-c", &script]).to_string();
    let early: Vec<_> =
        (0..2).map(|from| typed(&pods, from, &["attach", &id]).spawn().unwrap()).collect();
    wait_started(&pods, 1);
    std::fs::write(marks.path("gate"), "").unwrap();
    for child in early {
        let output = child.wait_with_output().unwrap();
        assert_eq!((code(&output), stdout(&output).as_str()), (4, "one\nthree\n"));
        assert!(stderr(&output).starts_with("two\n"), "{}", stderr(&output));
    }
    let late = run(&pods, 1, &["attach", "-l", &id]);
    assert_eq!((code(&late), stdout(&late).as_str()), (4, "0: one\n0: three\n"));
    let output = run(&pods, 0, &["attach", "99"]);
    assert_eq!(code(&output), 1);
    assert!(stderr(&output).contains("there is no job 99"), "{}", stderr(&output));
}

#[test]
fn lines_of_several_jobs_begin_with_the_job() {
    let pods = cluster(2);
    let marks = Marks::new();
    let gate = marks.path("gate").display().to_string();
    let wait = format!("while ! test -e {gate}; do sleep 0.02; done");
    submit(&pods, 1, &["sh", "-c", &format!("{wait}; echo one; echo err >&2; exit 3")]);
    submit(&pods, 1, &["-n2", "sh", "-c", &format!("{wait}; echo $QUORATE_TASK_RANK")]);
    let child = typed(&pods, 0, &["attach", "1-2"]).spawn().unwrap();
    let labelled = typed(&pods, 1, &["attach", "-l", "2", "1"]).spawn().unwrap();
    wait_started(&pods, 2);
    std::fs::write(marks.path("gate"), "").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(
        (code(&output), sorted(&output)),
        (3, ["1: one", "2: 0", "2: 1"].map(str::to_owned).into())
    );
    assert!(stderr(&output).starts_with("1: err\n"), "{}", stderr(&output));
    let output = labelled.wait_with_output().unwrap();
    let lines = ["1.0: one", "2.0: 0", "2.1: 1"].map(str::to_owned);
    assert_eq!((code(&output), sorted(&output)), (3, lines.into()));
}

#[test]
fn an_attached_client_waits_for_a_job_that_has_not_begun() {
    let pods = cluster(1);
    let blocker = submit(&pods, 0, &["-n2", "sleep", "1000"]);
    let id = submit(&pods, 0, &["echo", "hello"]);
    let child = typed(&pods, 0, &["attach", &id.to_string()]).spawn().unwrap();
    wait_started(&pods, blocker);
    assert_eq!(code(&run(&pods, 0, &["cancel", &blocker.to_string()])), 0);
    let output = child.wait_with_output().unwrap();
    assert_eq!((code(&output), stdout(&output).as_str()), (0, "hello\n"), "{}", stderr(&output));
    // One that is cancelled before it begins ends the wait, too.
    let held = submit(&pods, 0, &["--urgency", "0", "true"]);
    let child = typed(&pods, 0, &["attach", &held.to_string()]).spawn().unwrap();
    assert_eq!(code(&run(&pods, 0, &["cancel", &held.to_string()])), 0);
    assert_eq!(code(&child.wait_with_output().unwrap()), 1);
}

#[test]
fn output_goes_to_files_named_by_their_templates() {
    let pods = cluster(2);
    let marks = Marks::new();
    let dir = marks.path("");
    let dir = dir.to_str().unwrap();
    let script = "echo out; echo err >&2";
    let words =
        ["-D", dir, "--name", "x", "--output", "{{name}}-{{id}}.out", "--error", "e-{{id}}"];
    let id = submit(&pods, 1, &[&words[..], &["sh", "-c", script]].concat());
    assert_eq!(ended(&pods, id), 0);
    assert_eq!(std::fs::read_to_string(marks.path("x-1.out")).unwrap(), "out\n");
    assert_eq!(std::fs::read_to_string(marks.path("e-1")).unwrap(), "err\n");
    assert_eq!(job(&pods, id)["streams"]["output"], "x-1.out");
    // Without --error both go to one file; -l labels, --append adds.
    let words = ["-D", dir, "--output", "both", "--append", "-l", "sh", "-c", script];
    for _ in 0..2 {
        let id = submit(&pods, 1, &words);
        assert_eq!(ended(&pods, id), 0);
    }
    let both = std::fs::read_to_string(marks.path("both")).unwrap();
    let mut lines: Vec<&str> = both.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["0: err", "0: err", "0: out", "0: out"]);
    let id = submit(&pods, 0, &["--output", "/no/such/dir/file", "true"]);
    assert_eq!(ended(&pods, id), 1);
    assert!(job(&pods, id)["why"].as_str().unwrap().contains("/no/such/dir/file"));
}

#[test]
fn input_comes_from_a_file_or_from_who_attaches() {
    let pods = cluster(2);
    let marks = Marks::new();
    std::fs::write(marks.path("in"), "x".repeat(1 << 20)).unwrap();
    let file = marks.path("in").display().to_string();
    let output = run(&pods, 1, &["submit", "--watch", "--input", &file, "wc", "-c"]);
    assert_eq!((code(&output), stdout(&output).trim()), (0, "1048576"), "{}", stderr(&output));
    let id = submit(&pods, 1, &["--input", "-", "cat"]);
    let mut command = typed(&pods, 1, &["attach", &id.to_string()]);
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"typed\0bytes").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((code(&output), output.stdout.as_slice()), (0, &b"typed\0bytes"[..]));
    // Without --input there is none, and nothing waits for it.
    let output = run(&pods, 1, &["submit", "--watch", "cat"]);
    assert_eq!((code(&output), stdout(&output).as_str()), (0, ""));
    let id = submit(&pods, 0, &["--input", "/no/such/file", "cat"]);
    assert_eq!(ended(&pods, id), 1);
    assert!(job(&pods, id)["why"].as_str().unwrap().contains("/no/such/file"));
}

#[test]
fn an_interrupt_reaches_the_tasks_of_the_attached_job() {
    let pods = cluster(1);
    let marks = Marks::new();
    let script = format!("trap 'exit 5' INT; {} while :; do sleep 0.1; done", marks.leave("task"));
    let id = submit(&pods, 0, &["sh", "-c", &script]).to_string();
    marks.pid("task");
    let child = typed(&pods, 0, &["attach", &id]).spawn().unwrap();
    let pid = child.id().cast_signed();
    // The client has to be attached before it can pass anything on: it catches signals by then.
    wait("the client to catch signals", || catches_interrupts(pid).then_some(()));
    crate::pods::signal(pid, 2);
    assert_eq!(code(&child.wait_with_output().unwrap()), 5);
}

fn catches_interrupts(pid: i32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:\t"));
    caught.and_then(|mask| u64::from_str_radix(mask, 16).ok()).is_some_and(|mask| mask & 2 != 0)
}
