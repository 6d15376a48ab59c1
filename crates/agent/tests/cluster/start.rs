//! `quorate-agent start --test-size N`.

use crate::pods::{AGENT, PATIENCE, alive, signal};
use quorate_contract::ClusterStatus;
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
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

fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        sleep(Duration::from_millis(10));
    }
}

/// A test cluster with a control socket of its own.
struct Controlled {
    child: Child,
    socket: PathBuf,
    _dir: tempfile::TempDir,
}

impl Controlled {
    fn start(size: u32, words: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("control.sock");
        let child = start(size).arg("--control").arg(&socket).args(words).spawn().unwrap();
        Self { child, socket, _dir: dir }
    }

    fn testbed(&self, words: &[&str]) -> Output {
        let mut command = Command::new(AGENT);
        command.arg("testbed").args(words).arg("--control").arg(&self.socket).output().unwrap()
    }

    /// What `testbed status` says, once all brokers have processes.
    fn whole(&self) -> Value {
        eventually("brokers", || {
            let output = self.testbed(&["status", "-o", "json"]);
            let value: Value = serde_json::from_slice(&output.stdout).ok()?;
            let mut brokers = value["brokers"].as_array().unwrap().iter();
            brokers.all(|broker| broker["state"] == "running").then_some(value)
        })
    }

    fn broker(&self, rank: usize) -> Value {
        let output = self.testbed(&["status", "-o", "json"]);
        let mut value: Value = serde_json::from_slice(&output.stdout).unwrap();
        value["brokers"][rank].take()
    }

    /// What the launcher's broker says of the cluster.
    fn status(&self) -> Option<ClusterStatus> {
        let socket = Path::new(self.broker(0)["runDir"].as_str()?).join("agent.sock");
        let mut command = Command::new(AGENT);
        command.args(["overlay", "status", "-o", "json", "--socket"]).arg(socket);
        serde_json::from_slice(&command.output().unwrap().stdout).ok()
    }

    fn wait_online(&self, online: u32) {
        eventually("brokers online", || {
            self.status().filter(|status| status.online == online).map(drop)
        });
    }
}

impl Drop for Controlled {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a test cluster consists of.
struct Listing {
    dir: PathBuf,
    pids: Vec<i32>,
}

fn listing(testbed: &Value) -> Listing {
    let brokers = testbed["brokers"].as_array().unwrap().iter();
    let pids = brokers
        .flat_map(|broker| [&broker["supervisor"], &broker["pid"]])
        .map(|pid| i32::try_from(pid.as_i64().unwrap()).unwrap())
        .collect();
    Listing { dir: testbed["dir"].as_str().unwrap().into(), pids }
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
    let task = dir.path().join("task");
    let script = format!("echo $$ > {}; exec sleep 1000", task.display());
    let mut cluster = Controlled::start(3, &["sh", "-c", &script]);
    let mut listing = listing(&cluster.whole());
    let pid = eventually("the program", || {
        fs::read_to_string(&task).unwrap_or_default().trim().parse().ok()
    });
    listing.pids.push(pid);
    cluster.child.kill().unwrap();
    cluster.child.wait().unwrap();
    wait_until_nothing_is_left(&listing);
    eventually("the end of the socket", || (!cluster.socket.exists()).then_some(()));
}

#[test]
fn a_cluster_without_program_stays_until_it_is_stopped() {
    let mut cluster = Controlled::start(2, &[]);
    let listing = listing(&cluster.whole());
    cluster.wait_online(2);
    signal(cluster.child.id().cast_signed(), 15);
    assert_eq!(cluster.child.wait().unwrap().code(), Some(143));
    wait_until_nothing_is_left(&listing);
}

#[test]
fn a_broker_that_is_killed_comes_back_and_a_pod_when_it_is_told_to() {
    let cluster = Controlled::start(3, &["--haste", "20"]);
    let before = cluster.whole()["brokers"][2].clone();
    cluster.wait_online(3);
    assert!(cluster.testbed(&["kill", "2"]).status.success());
    let after = eventually("another broker", || {
        let broker = cluster.broker(2);
        (broker["state"] == "running" && broker["pid"] != before["pid"]).then_some(broker)
    });
    assert_eq!(after["supervisor"], before["supervisor"], "the pod lives on");
    cluster.wait_online(3);

    let refused = cluster.testbed(&["rejoin", "2"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(cluster.testbed(&["kill", "--pod", "2"]).status.success());
    eventually("the pod's end", || (cluster.broker(2)["state"] == "gone").then_some(()));
    cluster.wait_online(2);
    let refused = cluster.testbed(&["pause", "2"]);
    assert_eq!(refused.status.code(), Some(1));
    let stderr = String::from_utf8_lossy(&refused.stderr);
    assert!(stderr.contains("`testbed rejoin 2` starts it again"), "{stderr}");
    assert!(cluster.testbed(&["rejoin", "2"]).status.success());
    cluster.wait_online(3);
}

#[test]
fn a_broker_is_paused_and_resumed_by_rank() {
    let cluster = Controlled::start(2, &["--haste", "10"]);
    cluster.whole();
    cluster.wait_online(2);
    assert!(cluster.testbed(&["pause", "1"]).status.success());
    eventually("a stopped process", || (cluster.broker(1)["state"] == "paused").then_some(()));
    eventually("a torpid rank", || {
        cluster.status().filter(|status| status.torpid_ranks == "1").map(drop)
    });
    assert!(cluster.testbed(&["resume", "1"]).status.success());
    eventually("a lively rank", || {
        cluster.status().filter(|status| status.torpid_ranks.is_empty()).map(drop)
    });
    assert_eq!(cluster.broker(1)["state"], "running");
    let refused = cluster.testbed(&["pause", "2"]);
    assert_eq!(refused.status.code(), Some(2));
    let stderr = String::from_utf8_lossy(&refused.stderr);
    assert!(stderr.contains("the cluster has ranks 0 to 1"), "{stderr}");
}

#[test]
fn a_program_of_the_cluster_finds_the_control_socket() {
    let script = format!("{AGENT} testbed status && {AGENT} testbed kill 1");
    let output = start(2).args(["sh", "-c", &script]).output().unwrap();
    let (stdout, stderr) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{stderr}");
    assert!(stdout.contains("worker-0-0") && stdout.contains("running"), "{stdout}");
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
