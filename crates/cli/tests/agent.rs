//! Local clusters with the real agent: the milestones of a run, and its faults.
//!
//! The agent is another package's binary: it must have been built into the same directory
//! (`cargo build -p quorate-agent`; `cargo xtask` does so), or `QUORATE_AGENT` names one.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed step is a failed test")]

#[path = "agent/queue.rs"]
mod queue;

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

struct Stage {
    dir: tempfile::TempDir,
}

impl Stage {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn quorate(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quorate"));
        command
            .args(args)
            .env("QUORATE_AGENT", agent())
            .env("XDG_STATE_HOME", self.dir.path())
            .env("LC_ALL", "C.UTF-8")
            .current_dir(self.dir.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    fn run(&self, args: &[&str]) -> (i32, String, String) {
        read(self.quorate(args).spawn().unwrap().wait_with_output().unwrap())
    }
}

fn read(output: Output) -> (i32, String, String) {
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn agent() -> PathBuf {
    if let Some(named) = std::env::var_os("QUORATE_AGENT") {
        return named.into();
    }
    let agent = PathBuf::from(env!("CARGO_BIN_EXE_quorate")).with_file_name("quorate-agent");
    assert!(
        agent.is_file(),
        "{} is missing: run `cargo build -p quorate-agent` first",
        agent.display()
    );
    agent
}

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

#[test]
fn four_pods_run_a_program_each_and_the_summary_says_where() {
    let stage = Stage::new();
    let (code, out, err) = stage.run(&["run", "-N", "4", "--name", "four", "--", "hostname"]);
    assert_eq!(code, 0, "{err}");
    assert_eq!(
        sorted(&out),
        ["four-launcher-0-0", "four-worker-0-0", "four-worker-0-1", "four-worker-0-2"]
    );
    let lines: Vec<&str> = err.lines().collect();
    assert_eq!(lines[0], "four · 4 pods on this machine");
    for (line, begin) in [
        (1, "  ✔ pods      4/4    "),
        (2, "  ✔ brokers   4/4    "),
        (3, "  ▸ program   4 ranks on 4 pods"),
        (4, "  ✔ program   exit 0  "),
        (5, "four succeeded in "),
    ] {
        assert!(lines[line].starts_with(begin), "{err}");
    }
    assert!(lines[4].ends_with("ranks 1 1 1 1"), "{err}");
}

#[test]
fn the_summary_comes_as_data_after_the_output() {
    let stage = Stage::new();
    let (code, out, err) =
        stage.run(&["run", "-N", "2", "-n", "4", "-o", "json", "-q", "--", "true"]);
    assert_eq!((code, err.as_str()), (0, ""));
    let data: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(data["ranksByPod"], serde_json::json!([2, 2]));
    assert_eq!((&data["exitCode"], &data["reason"]), (&0.into(), &"Completed".into()));
    let seconds = |key: &str| data[key].as_f64().unwrap();
    assert!(seconds("bringUpSeconds") + seconds("runSeconds") <= seconds("wallSeconds"), "{data}");
}

#[test]
fn lines_carry_their_ranks_and_variables_reach_them() {
    let stage = Stage::new();
    let args = ["run", "-N", "2", "-n", "4", "-l", "-e", "WORD=hi", "--", "sh", "-c", "echo $WORD"];
    let (code, out, err) = stage.run(&args);
    assert_eq!(code, 0, "{err}");
    assert_eq!(sorted(&out), ["0: hi", "1: hi", "2: hi", "3: hi"]);
}

#[test]
fn standard_input_goes_to_rank_0_and_ends() {
    let stage = Stage::new();
    let input = stage.dir.path().join("input");
    let lines: Vec<String> = (0..100_000).map(|n| format!("line {n}")).collect();
    let text = lines.join("\n") + "\n";
    std::fs::write(&input, &text).unwrap();
    let mut command = stage.quorate(&["run", "-N", "2", "-l", "--", "cat"]);
    command.stdin(std::fs::File::open(&input).unwrap());
    let (code, out, err) = read(command.output().unwrap());
    assert_eq!(code, 0, "{err}");
    assert!(out.lines().eq(text.lines().map(|line| format!("0: {line}"))));
}

#[test]
fn codes_and_reasons_of_failing_programs_come_through() {
    let stage = Stage::new();
    for (program, code, words) in [
        (vec!["sh", "-c", "exit 3"], 3, "exited with code 3"),
        (vec!["sh", "-c", "kill -SEGV $$"], 139, "ended by signal 11 (segmentation fault)"),
        (vec!["/no/such/program"], 127, "there is no command /no/such/program"),
        (vec!["/etc/passwd"], 126, "/etc/passwd"),
    ] {
        let mut args = vec!["run", "-N", "2", "--name", "failing", "--"];
        args.extend(&program);
        let (found, _, err) = stage.run(&args);
        assert_eq!(found, code, "{err}");
        assert!(err.contains(words) && err.contains("-0-0"), "{words} is not in:\n{err}");
        assert!(err.contains(&format!("failing failed with code {code} · kept logs: ")), "{err}");
    }
}

#[test]
fn a_rank_that_fails_is_shown_with_its_last_lines_and_the_others_are_stopped() {
    let stage = Stage::new();
    let program = "if [ $QUORATE_TASK_RANK = 2 ]; then echo reading mesh; exit 9; fi; sleep 600";
    let begin = Instant::now();
    let (code, out, err) =
        stage.run(&["run", "-N", "3", "--name", "mesh", "--", "sh", "-c", program]);
    assert_eq!((code, out.as_str()), (9, "reading mesh\n"), "{err}");
    assert!(err.contains("✘ program   rank 2 on worker-0-1 exited with code 9 after "), "{err}");
    assert!(err.contains("; the other 2 ranks were stopped\n"), "{err}");
    assert!(err.contains("              its last lines:\n              | reading mesh\n"), "{err}");
    assert!(begin.elapsed() < Duration::from_mins(1), "the sleepers were waited for");
}

#[test]
fn a_command_on_the_launcher_knows_its_pods() {
    let stage = Stage::new();
    let agent = "/quorate/bin/quorate-agent";
    let (code, out, err) = stage.run(&[
        "run",
        "-N",
        "3",
        "--script",
        "--name",
        "script",
        "--",
        "sh",
        "-c",
        &format!("{agent} hosts -f plain | sort -u | wc -l; {agent} run -N 3 hostname | sort"),
    ]);
    assert_eq!(code, 0, "{err}");
    assert_eq!(out, "3\nscript-launcher-0-0\nscript-worker-0-0\nscript-worker-0-1\n");
}

#[test]
fn without_a_sandbox_the_brokers_still_meet() {
    let stage = Stage::new();
    let args =
        ["run", "--sandbox", "none", "-N", "3", "--", "sh", "-c", "echo $QUORATE_BROKER_RANK"];
    let (code, out, err) = stage.run(&args);
    assert_eq!(code, 0, "{err}");
    assert_eq!(sorted(&out), ["0", "1", "2"]);
}

#[test]
fn a_kept_cluster_runs_its_program_and_later_ones() {
    let stage = Stage::new();
    let (code, out, err) =
        stage.run(&["run", "--keep", "--name", "kept", "-N", "2", "--", "hostname"]);
    assert_eq!(code, 0, "{err}");
    assert_eq!(sorted(&out), ["kept-launcher-0-0", "kept-worker-0-0"]);
    let args = ["exec", "kept", "--", "/quorate/bin/quorate-agent", "run", "-N", "2", "hostname"];
    let (code, out, err) = stage.run(&args);
    assert_eq!((code, sorted(&out).len()), (0, 2), "{err}");
    let (code, _, err) = stage.run(&["delete", "kept"]);
    assert_eq!((code, err.as_str()), (0, "kept deleted\n"));
}

#[test]
fn an_interrupt_ends_the_program_and_the_cluster() {
    let stage = Stage::new();
    let ready = stage.dir.path().join("ready");
    let program = format!("touch {}; exec sleep 600", ready.display());
    let child = stage.quorate(&["run", "-N", "2", "--", "sh", "-c", &program]).spawn().unwrap();
    let begin = Instant::now();
    while !ready.exists() {
        assert!(begin.elapsed() < Duration::from_mins(1), "the program did not start");
        std::thread::sleep(Duration::from_millis(5));
    }
    let pid = nix::unistd::Pid::from_raw(child.id().cast_signed());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).unwrap();
    let (code, _, err) = read(child.wait_with_output().unwrap());
    assert_eq!(code, 130, "{err}");
    assert!(begin.elapsed() < Duration::from_mins(1), "it waited for the program");
}

#[test]
fn a_broker_that_is_killed_in_its_pod_joins_again() {
    let stage = Stage::new();
    let (code, _, err) = stage.run(&["run", "--keep", "--name", "hurt", "-N", "3", "--", "true"]);
    assert_eq!(code, 0, "{err}");
    // The broker is the child of PID 1 in each pod.
    let kill = "kill -9 $(ps -o pid= --ppid 1 | head -1)";
    assert_eq!(stage.run(&["exec", "hurt/worker-0-0", "--", "sh", "-c", kill]).0, 0);
    let begin = Instant::now();
    loop {
        let args =
            ["exec", "hurt", "--", "/quorate/bin/quorate-agent", "run", "-N", "3", "hostname"];
        let (code, out, err) = stage.run(&args);
        if code == 0 {
            assert_eq!(out.lines().count(), 3);
            break;
        }
        assert!(begin.elapsed() < Duration::from_secs(30), "{err}");
    }
    stage.run(&["delete", "hurt"]);
}

/// A rank that speaks the version of PMI that it is told to, from the first word to the last; told none, PMI-2.
const SPEAK: &str = r#"
import os, socket
version = os.environ.get("MPIR_CVAR_PMI_VERSION", "2")
s = socket.socket(fileno=int(os.environ["PMI_FD"]))
def say(words):
    s.sendall(words)
    answer = s.recv(4096)
    assert b"rc=0" in answer, answer
say(f"cmd=init pmi_version={version} pmi_subversion={2 - int(version)}\n".encode())
if version == "2":
    for words in [b"cmd=fullinit;pmirank=%s;threaded=FALSE;" % os.environ["PMI_RANK"].encode(),
                  b"cmd=finalize;"]:
        say(b"%6d" % len(words) + words)
else:
    s.sendall(b"cmd=finalize\n")
    assert b"finalize_ack" in s.recv(4096)
"#;

#[test]
fn the_way_in_which_ranks_meet_can_be_chosen() {
    let stage = Stage::new();
    for (way, wire) in [("pmi1", "PMI-1"), ("pmi2", "PMI-2"), ("auto", "PMI-1")] {
        let args = ["run", "-N", "2", "--mpi", way, "-o", "json", "--", "python3", "-c", SPEAK];
        let (code, out, err) = stage.run(&args);
        assert_eq!(code, 0, "{way}: {err}");
        let summary: serde_json::Value = serde_json::from_str(&out).unwrap();
        assert_eq!(summary["wire"], serde_json::json!({ wire: 2 }), "{way}: {summary}");
    }
}

#[test]
fn a_first_command_of_a_kept_cluster_finds_the_other_pods() {
    let stage = Stage::new();
    let file = stage.dir.path().join("kept.yaml");
    let script = "cat \"$HYDRA_HOST_FILE\"; quorate-rsh kept-worker-0-0 hostname";
    let text = format!(
        "apiVersion: quorate.dev/v1alpha1\nkind: MiniCluster\nmetadata: {{name: kept}}\n\
         spec: {{size: 2, slots: 2, program: {{command: [sh, -c, '{script}']}}}}\n"
    );
    std::fs::write(&file, text).unwrap();
    for extra in [&[][..], &["--sandbox", "none"]] {
        let args = [&["run", "--keep"], extra, &["kept.yaml"]].concat();
        let (code, out, err) = stage.run(&args);
        let deleted = stage.run(&["delete", "kept"]);
        assert_eq!(code, 0, "{extra:?}: {err}");
        let hosts = "kept-launcher-0-0:2\nkept-worker-0-0:2\n";
        assert!(out.starts_with(hosts), "{extra:?}: {out}{err}");
        if extra.is_empty() {
            assert_eq!(out, format!("{hosts}kept-worker-0-0\n"), "{err}");
        }
        assert_eq!(deleted.0, 0, "{}", deleted.2);
    }
}

/// A launcher as Hydra is: one process of its own on each pod, which starts the ranks there.
const LAUNCH: &str = r#"
start() { PMI_RANK=$1 PMI_SIZE=4 sleep 1 & PMI_RANK=$2 PMI_SIZE=4 sleep 1 & }
if [ "$1" = there ]; then start 2 3; wait; exit; fi
quorate-rsh "$QUORATE_CLUSTER-worker-0-0" sh "$0" there &
start 0 1
wait
"#;

#[test]
fn the_summary_of_a_script_says_where_its_ranks_ran() {
    let stage = Stage::new();
    std::fs::write(stage.dir.path().join("launch.sh"), LAUNCH).unwrap();
    let file = stage.dir.path().join("launch.sh").display().to_string();
    let args = ["run", "-N", "2", "--script", "-o", "json", "--", "sh", &file];
    let (code, out, err) = stage.run(&args);
    assert_eq!(code, 0, "{err}");
    let summary: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(summary["ranksByPod"], serde_json::json!([2, 2]), "{summary}\n{err}");
    assert!(err.contains("ranks 2 2"), "{err}");
}
