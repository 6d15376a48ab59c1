//! `quorate-agent start --test-size N`.

use crate::pods::{AGENT, PATIENCE, alive, signal};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

fn start(size: u32) -> Command {
    let mut command = Command::new(AGENT);
    command.args(["start", "--test-size", &size.to_string()]);
    command
}

#[test]
fn the_programs_code_and_output_are_passed_on() {
    let output =
        start(4).args(["--env", "COLOUR=blue", "--", "sh", "-c", "echo $COLOUR; exit 3"]).output();
    let output = output.unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{stderr}");
    assert_eq!(output.stdout, b"blue\n");
}

#[test]
fn stdin_reaches_the_program() {
    let mut child =
        start(2).arg("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"through\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.stdout, b"through\n");
}

#[test]
fn four_clusters_at_once_do_not_meet() {
    let children: Vec<_> = (0..4)
        .map(|n| {
            start(4)
                .args(["sh", "-c", &format!("echo {n}; exit {n}")])
                .stdout(Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    for (n, child) in children.into_iter().enumerate() {
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(i32::try_from(n).unwrap()));
        assert_eq!(output.stdout, format!("{n}\n").into_bytes());
    }
}

struct Listing {
    dir: PathBuf,
    pids: Vec<i32>,
}

fn listing(path: &Path) -> Listing {
    let deadline = Instant::now() + PATIENCE;
    while !path.exists() {
        assert!(Instant::now() < deadline, "the cluster was never listed");
        sleep(Duration::from_millis(5));
    }
    let value: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let mut pids = Vec::new();
    for broker in value["brokers"].as_array().unwrap() {
        pids.push(i32::try_from(broker["supervisor"].as_i64().unwrap()).unwrap());
        let file = Path::new(broker["runDir"].as_str().unwrap()).join("broker.pid");
        let deadline = Instant::now() + PATIENCE;
        let pid = loop {
            if let Ok(pid) = fs::read_to_string(&file).unwrap_or_default().parse() {
                break pid;
            }
            assert!(Instant::now() < deadline, "a broker has no pid");
            sleep(Duration::from_millis(5));
        };
        pids.push(pid);
    }
    Listing { dir: value["dir"].as_str().unwrap().into(), pids }
}

fn wait_until_nothing_is_left(listing: &Listing) {
    let deadline = Instant::now() + PATIENCE;
    while listing.dir.exists() || listing.pids.iter().any(|&pid| alive(pid)) {
        assert!(
            Instant::now() < deadline,
            "left behind: {} {:?}",
            listing.dir.exists(),
            listing.pids.iter().filter(|&&pid| alive(pid)).collect::<Vec<_>>()
        );
        sleep(Duration::from_millis(10));
    }
}

#[test]
fn nothing_is_left_behind_when_it_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let (file, task) = (dir.path().join("cluster.json"), dir.path().join("task"));
    let script = format!("echo $$ > {}; exec sleep 1000", task.display());
    let mut child =
        start(3).arg("--cluster-file").arg(&file).args(["sh", "-c", &script]).spawn().unwrap();
    let mut listing = listing(&file);
    let deadline = Instant::now() + PATIENCE;
    let pid = loop {
        if let Ok(pid) = fs::read_to_string(&task).unwrap_or_default().trim().parse() {
            break pid;
        }
        assert!(Instant::now() < deadline, "the program never ran");
        sleep(Duration::from_millis(5));
    };
    listing.pids.push(pid);
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until_nothing_is_left(&listing);
}

#[test]
fn a_cluster_without_program_stays_until_it_is_stopped() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("cluster.json");
    let mut child = start(2).arg("--cluster-file").arg(&file).spawn().unwrap();
    let listing = listing(&file);
    let socket = listing.dir.join("rank-0/agent.sock");
    let deadline = Instant::now() + PATIENCE;
    while !Command::new(AGENT).args(["ready", "--socket"]).arg(&socket).status().unwrap().success()
    {
        assert!(Instant::now() < deadline, "the cluster was never quorate");
        sleep(Duration::from_millis(10));
    }
    signal(child.id().cast_signed(), 15);
    assert_eq!(child.wait().unwrap().code(), Some(143));
    wait_until_nothing_is_left(&listing);
}

#[test]
fn a_failing_rank_is_named_and_a_commands_own_code_needs_no_words() {
    let output =
        start(2).args(["-n", "2", "sh", "-c", "exit $QUORATE_TASK_RANK"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("rank 1 on worker-0-0 ended with code 1"), "{stderr}");
    let output = start(2).args(["sh", "-c", "exit 3"]).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(output.stderr, b"", "{}", String::from_utf8_lossy(&output.stderr));
}
