//! `quorate run` on Kubernetes.

use super::{IMAGE, SPACE, data, exists, placed, quorate, with_input};
use crate::LAB;
use nix::pty::openpty;
use quorate_e2e::Said;
use serde_json::Value;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Command, Stdio};

/// A MiniCluster as a file.
fn file(name: &str, spec: &str) -> String {
    let spec: String = spec.lines().fold(String::new(), |text, line| text + "  " + line + "\n");
    format!(
        "apiVersion: quorate.dev/v1alpha1\nkind: MiniCluster\nmetadata: {{name: {name}}}\nspec:\n{spec}"
    )
}

#[test]
fn a_file_runs_with_its_output_as_data_and_its_code_as_ours() {
    let name = "from-a-file";
    let script = "echo rank $QUORATE_TASK_RANK; [ $QUORATE_TASK_RANK = 0 ] || exit 0; exit 3";
    let text = file(
        name,
        &format!(
            "size: 2\nslots: 1\n{IMAGE}\nprogram: {{parallel: {{command: [sh, -c, '{script}'], tasks: 2}}}}"
        ),
    );
    let said = with_input(&["run", "-"], &text);
    assert_eq!(said.code, 3, "{said:?}");
    let mut lines: Vec<&str> = said.out.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["rank 0", "rank 1"], "{said:?}");
    for words in ["2 pods in namespace verbs", "quorate", "exited with code 3", "is kept"] {
        assert!(said.err.contains(words), "{words} is not in {said:?}");
    }
    let state: Value = serde_json::from_str(&data(&["ls", name, "-o", "json"])).unwrap();
    assert_eq!(state[0]["state"], "Failed", "{state}");
    let again = with_input(&["run", "-"], &text);
    assert_eq!((again.code, again.out.as_str()), (1, ""), "{again:?}");
    let first = "error: there is already a MiniCluster from-a-file in namespace verbs";
    assert_eq!(again.err.lines().next(), Some(first), "{again:?}");
    assert_eq!(quorate(&["delete", name]).code, 0);
}

#[test]
fn flags_and_a_command_make_a_cluster_that_goes_when_it_has_succeeded() {
    let words = [
        "run",
        "-N",
        "4",
        "-n",
        "8",
        "--image",
        "localhost/mpi-debian:v1",
        "--name",
        "from-flags",
        "-o",
        "json",
        "--",
        "/opt/tests/mpich/hello",
        "4",
    ];
    let said = quorate(&words);
    assert_eq!(said.code, 0, "{said:?}");
    let ranks = said.out.lines().filter(|line| line.starts_with("rank ")).count();
    assert_eq!(ranks, 8, "{said:?}");
    let (_, summary) = said.out.split_once("\n{").unwrap();
    let summary: Value = serde_json::from_str(&format!("{{{summary}")).unwrap();
    assert_eq!((&summary["name"], &summary["exitCode"]), (&"from-flags".into(), &0.into()));
    LAB.eventually("it is gone", || exists("from-flags"), |there| !there);
}

/// Runs until the first line of output, which must come while the program runs.
fn streaming(name: &str) -> (std::process::Child, BufReader<std::process::ChildStdout>) {
    let mut command = LAB.quorate_command(&placed(&[
        "run",
        "--image",
        "localhost/mpi-debian:v1",
        "--name",
        name,
        "--",
        "sh",
        "-c",
        "echo one; exec sleep 3600",
    ]));
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    if line != "one\n" {
        let said = Said::of(&child.wait_with_output().unwrap());
        panic!("{line:?}, {said:?}");
    }
    (child, out)
}

#[test]
fn an_interrupted_run_without_a_terminal_leaves_the_cluster_and_says_how_to_go_on() {
    let name = "left";
    let (child, _out) = streaming(name);
    let pid = nix::unistd::Pid::from_raw(child.id().cast_signed());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).unwrap();
    let said = Said::of(&child.wait_with_output().unwrap());
    assert_eq!(said.code, 130, "{said:?}");
    assert!(said.err.contains("the cluster is left running"), "{said:?}");
    assert!(said.err.contains("quorate logs -f left"), "{said:?}");
    let state: Value = serde_json::from_str(&data(&["ls", name, "-o", "json"])).unwrap();
    assert_eq!(state[0]["state"], "Running", "{state}");
    assert_eq!(quorate(&["delete", name]).code, 0);
}

/// Runs on a terminal and types each answer once its cue is on the screen.
fn typed(name: &str, script: &str, answers: &[(&str, &[u8])]) -> (i32, String) {
    let pty = openpty(None, None).unwrap();
    let words =
        ["run", "--image", "localhost/mpi-debian:v1", "--name", name, "--", "sh", "-c", script];
    let inner = LAB.quorate_command(&placed(&words));
    // A key that is a signal takes a terminal that is the session's own.
    let mut command = Command::new("setsid");
    command.args(["--ctty", "--wait"]).arg(inner.get_program()).args(inner.get_args());
    for variable in ["QUORATE_CONTEXT", "KUBECONFIG", "NO_COLOR"] {
        command.env_remove(variable);
    }
    command
        .env("TERM", "xterm")
        .stdin(pty.slave.try_clone().unwrap())
        .stdout(pty.slave.try_clone().unwrap())
        .stderr(pty.slave);
    let mut child = command.spawn().unwrap();
    drop(command);
    let mut terminal = File::from(pty.master);
    let (mut text, mut buffer, mut at) = (String::new(), [0; 4096], 0);
    let mut waiting = answers.iter();
    let mut next = waiting.next();
    // Reading ends with an error when the other end is closed.
    while let Ok(count @ 1..) = terminal.read(&mut buffer) {
        text += &String::from_utf8_lossy(&buffer[..count]);
        while let Some((cue, keys)) = next
            && let Some(found) = text[at..].find(cue)
        {
            at += found + cue.len();
            terminal.write_all(keys).unwrap();
            next = waiting.next();
        }
    }
    assert!(next.is_none(), "{next:?} never was on the screen: {text:?}");
    (child.wait().unwrap().code().unwrap(), text)
}

const CTRL_C: &[u8] = b"\x03";

#[test]
fn ctrl_c_on_a_terminal_asks_and_deletes_goes_on_or_leaves() {
    const QUESTION: &str = "]eave it running, or go on";
    let stays = "echo up; exec sleep 3600";
    let (code, text) = typed("asked-delete", stays, &[("up\r\n", CTRL_C), (QUESTION, b"d\n")]);
    assert_eq!(code, 130, "{text:?}");
    assert!(text.contains("asked-delete deleted") && !exists("asked-delete"), "{text:?}");

    let (code, text) = typed("asked-leave", stays, &[("up\r\n", CTRL_C), (QUESTION, CTRL_C)]);
    assert_eq!(code, 130, "{text:?}");
    assert!(text.contains("the cluster is left running") && exists("asked-leave"), "{text:?}");
    assert_eq!(quorate(&["delete", "asked-leave"]).code, 0);

    let ends = "echo up; sleep 4; echo done; exit 6";
    let (code, text) = typed("asked-on", ends, &[("up\r\n", CTRL_C), (QUESTION, b"\n")]);
    assert_eq!(code, 6, "{text:?}");
    assert!(text.contains("done\r\n") && exists("asked-on"), "{text:?}");
    assert_eq!(quorate(&["delete", "asked-on"]).code, 0);
}

#[test]
fn a_run_that_cannot_start_says_why_and_ends_when_it_is_deleted() {
    let name = "stuck";
    let mut command = LAB.quorate_command(&placed(&[
        "run",
        "--image",
        "localhost/absent:v1",
        "--name",
        name,
        "--",
        "true",
    ]));
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut seen = String::new();
    let mut err = BufReader::new(child.stderr.take().unwrap());
    while !seen.contains("cannot pull image localhost/absent:v1") {
        assert_ne!(err.read_line(&mut seen).unwrap(), 0, "{seen}");
    }
    LAB.kubectl(&["-n", SPACE, "delete", "mc", name, "--wait=false"]).unwrap();
    err.read_to_string(&mut seen).unwrap();
    let code = child.wait().unwrap().code();
    assert_eq!(code, Some(1), "{seen}");
    assert!(seen.contains("it was deleted before its end"), "{seen}");
}
