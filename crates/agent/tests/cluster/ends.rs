//! How pods end, and what they leave behind.

use crate::pods::{AGENT, Plan, Special, signal};
use quorate_contract::config::{Parallel, Program, Slots};
use quorate_contract::report::Reason;
use std::fs;
use std::process::Command;

const SIGTERM: i32 = 15;

#[test]
fn a_worker_told_to_stop_ends_with_143_and_the_launcher_hears_of_it_at_once() {
    let mut pods = Plan::new(3).start();
    pods.wait_running();
    signal(pods.supervisor(2), SIGTERM);
    assert_eq!(pods.wait_exit(2), 143);
    assert_eq!(pods.report(2).reason, Reason::Terminated);
    pods.wait_status("one broker less", |status| status.online == 2);
}

#[test]
fn a_program_whose_rank_goes_with_a_pod_that_is_told_to_stop_fails_and_does_not_run_on() {
    let program = Program::Parallel(Parallel {
        argv: ["sleep", "600"].map(str::to_owned).to_vec(),
        tasks: Some(3),
        ..Parallel::default()
    });
    let mut pods = Plan { program, slots: Slots::Fixed(1), ..Plan::new(3) }.start();
    pods.wait_status("the program runs", |status| status.program.is_some());
    signal(pods.supervisor(2), SIGTERM);
    assert_eq!(pods.wait_exit(2), 143);
    assert_eq!(pods.wait_exit(0), 69);
    let report = pods.report(0);
    assert_eq!(report.reason, Reason::BrokerLost, "{report:?}");
    assert_eq!(report.failure.unwrap().pod.as_deref(), Some("worker-0-1"));
}

#[test]
fn the_report_names_the_node_of_the_rank_that_failed() {
    let script = "test $QUORATE_TASK_RANK = 0 || exit 7; sleep 30";
    let program = Program::Parallel(Parallel {
        argv: ["sh", "-c", script].map(str::to_owned).to_vec(),
        tasks: Some(2),
        ..Parallel::default()
    });
    let mut pods = Plan { program, slots: Slots::Fixed(1), ..Plan::new(2) }.prepare();
    for rank in 0..2 {
        let environment = vec![("QUORATE_NODE_NAME", format!("node-{rank}"))];
        pods.start_special(rank, Special { environment, ..Special::default() });
    }
    assert_eq!(pods.wait_exit(0), 7);
    let failure = pods.report(0).failure.unwrap();
    assert_eq!((failure.rank, failure.broker), (Some(1), Some(1)));
    assert_eq!(failure.node.as_deref(), Some("node-1"));
}

#[test]
fn a_launcher_told_to_stop_stops_its_program_and_ends_with_143() {
    let script = "trap 'echo stopped; exit 0' TERM; echo started; while :; do sleep 0.05; done";
    let mut pods = Plan::script(2, script).start();
    pods.wait("the program", || pods.stdout(0).contains("started").then_some(()));
    signal(pods.supervisor(0), SIGTERM);
    assert_eq!(pods.wait_exit(0), 143);
    assert_eq!(pods.report(0).reason, Reason::Terminated);
    assert!(pods.stdout(0).contains("stopped"), "{}", pods.stdout(0));
    assert_eq!(pods.wait_exit(1), 143);
}

#[test]
fn signals_that_do_not_stop_a_pod_reach_its_program() {
    let script = "trap 'echo one' USR1; trap 'echo two; exit 4' USR2; echo started; \
                  while :; do sleep 0.05; done";
    let mut pods = Plan::script(1, script).start();
    let says = |pods: &crate::pods::Pods, word: &str| {
        pods.wait(word, || pods.stdout(0).contains(word).then_some(()));
    };
    says(&pods, "started");
    signal(pods.supervisor(0), 10);
    says(&pods, "one");
    signal(pods.supervisor(0), 12);
    assert_eq!(pods.wait_exit(0), 4);
    assert_eq!(pods.stdout(0), "started\none\ntwo\n");
}

#[test]
fn a_pod_told_to_stop_before_it_has_joined_ends_with_143() {
    let mut pods = Plan::new(2).prepare();
    pods.start(1);
    pods.broker(1);
    pods.wait("the local socket", || pods.dir(1).join("agent.sock").exists().then_some(()));
    signal(pods.supervisor(1), SIGTERM);
    assert_eq!(pods.wait_exit(1), 143);
}

#[test]
fn a_full_disk_under_the_report_costs_the_report_and_not_the_code() {
    let mut pods = Plan::script(1, "exit 9").prepare();
    let full = Special { termination_log: Some("/dev/full".into()), ..Special::default() };
    pods.start_special(0, full);
    assert_eq!(pods.wait_exit(0), 9);
    let stderr = pods.stderr(0);
    assert!(stderr.contains("cannot leave the report in /dev/full"), "{stderr}");
    assert!(stderr.contains("\"exitCode\":9"), "the report itself is said: {stderr}");
}

#[test]
fn processes_that_a_program_left_behind_go_with_the_pod() {
    let script = "setsid sleep 1000 & echo $! ; exit 0";
    let mut pods = Plan::script(1, script).start();
    assert_eq!(pods.wait_exit(0), 0);
    let left: i32 = pods.stdout(0).trim().parse().unwrap();
    assert!(!crate::pods::alive(left), "process {left} has outlived its pod");
}

/// Text forms in which 32 bytes could show up.
fn forms(seed: &[u8; 32]) -> Vec<Vec<u8>> {
    let hex = seed.iter().fold(String::new(), |mut text, byte| {
        use std::fmt::Write;
        let _ = write!(text, "{byte:02x}");
        text
    });
    let list = format!("{seed:?}");
    vec![seed.to_vec(), hex.to_uppercase().into_bytes(), hex.into_bytes(), list.into_bytes()]
}

#[test]
fn the_seed_is_in_no_command_line_environment_log_or_report() {
    let seed: [u8; 32] = std::array::from_fn(|at| 0x61 + (at as u8 * 7) % 26);
    let mut pods = Plan::script(2, "env; cat /proc/self/cmdline; sleep 0.5").prepare();
    fs::write(pods.seed_path(), seed).unwrap();
    pods.start(0);
    pods.start(1);
    pods.wait("the program", || (!pods.stdout(0).is_empty()).then_some(()));
    let mut seen: Vec<(String, Vec<u8>)> = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let name = entry.file_name();
        if name.to_str().is_some_and(|name| name.parse::<i32>().is_ok()) {
            for file in ["cmdline", "environ"] {
                let path = entry.path().join(file);
                if let Ok(bytes) = fs::read(&path) {
                    seen.push((path.display().to_string(), bytes));
                }
            }
        }
    }
    assert_eq!(pods.wait_exit(0), 0);
    assert_eq!(pods.wait_exit(1), 0);
    for rank in 0..2 {
        for entry in fs::read_dir(pods.dir(rank)).unwrap().flatten() {
            if let Ok(bytes) = fs::read(entry.path()) {
                seen.push((entry.path().display().to_string(), bytes));
            }
        }
    }
    assert!(seen.len() > 10, "there was something to look at");
    for form in forms(&seed) {
        for (path, bytes) in &seen {
            let found = bytes.windows(form.len()).any(|window| window == form);
            assert!(!found, "the seed is in {path}");
        }
    }
}

/// A user id without rights of its own.
const NOBODY: u32 = 65534;

/// Root can be anybody; others can only be themselves.
#[test]
fn any_user_can_be_a_broker_and_needs_nothing_but_its_run_directory() {
    use std::os::unix::fs::{PermissionsExt, chown};
    use std::os::unix::process::CommandExt;
    let own = nix::unistd::geteuid();
    let uid = if own.is_root() { NOBODY } else { own.as_raw() };
    let gid = if own.is_root() { NOBODY } else { nix::unistd::getegid().as_raw() };
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let bin = dir.path().join("bin");
    let installed = Command::new(AGENT).arg("install").arg(&bin).status().unwrap();
    assert!(installed.success());
    let cluster = dir.path().join("cluster");
    fs::create_dir(&cluster).unwrap();
    chown(&cluster, Some(uid), Some(gid)).unwrap();
    let output = Command::new(bin.join("quorate-agent"))
        .args(["start", "--test-size", "2", "--", "id", "-u"])
        .env("TMPDIR", &cluster)
        .env_remove("HOME")
        .current_dir("/")
        .uid(uid)
        .gid(gid)
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    assert_eq!(output.stdout, format!("{uid}\n").into_bytes());
    assert_eq!(fs::read_dir(&cluster).unwrap().count(), 0, "nothing is left behind");
}
